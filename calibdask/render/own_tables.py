"""Metrics of classes and curves as tables: the worst classes first, and a curve at a few of its points."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from calibdask.estimators.slice_totals import TOTALS
from calibdask.results.format import counted
from calibdask.results.ranking import order_text, worst_strata
from calibdask.results.values import PartResult, Results

# Classes, unless another number is chosen.
MOST_CLASSES = 10
# Bins of a diagram are all shown; curves of more points are shown at so many of them.
_MOST_LINES, _POINTS = 20, 11


@dataclass(frozen=True)
class OwnTable:
    """The numbers of one metric by its own dimension, as a result whose slices are the places along it.

    Attributes
    ----------
    title : str
        The metric, and what its lines are.
    dataset : xarray.Dataset
        The result; other slices are dimensions of it too.
    places : sequence of int
        Which lines to show, among all combinations of slices.
    note : str
        How these were chosen.
    """

    title: str
    dataset: xr.Dataset
    places: Sequence[int]
    note: str


def own_tables(results: Results, classes: int = MOST_CLASSES) -> Iterator[OwnTable]:
    """The tables of metrics that have no number of their own in a slice, and of tests by group.

    Examples
    --------
    >>> import calibdask as cd
    >>> y_prob = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]]
    >>> result = cd.evaluate([0, 2, 2], y_prob, cd.MeanGap(setting="classwise"))
    >>> [table.dataset["class"].values[table.places].tolist() for table in own_tables(Results(result))]
    [[2, 1, 0]]
    """
    for metric in dict.fromkeys(part.metric for part in results.parts):
        parts = results.of(metric)
        numbers = [part for part in parts if part.is_number and part.kind != "choice"]
        # A test of all grades together has its table by grade too; curves are drawn.
        if any(part.kind != "pvalue" for part in numbers) or (numbers and any(part.kind == "curve" for part in parts)):
            continue
        # Replicates and levels of a band have further dimensions.
        own = next((part.own_dims for part in parts if len(part.own_dims) == 1), ())
        if own:
            along = [part for part in parts if part.own_dims == own]
            yield _table(results, along, own[0], classes)


def _table(results: Results, parts: Sequence[PartResult], dim: str, classes: int) -> OwnTable:
    variables = [variable for part in parts for variable in (part.values, *_ends(part))]
    prefix = f"{parts[0].metric}_"
    dataset = results.dataset[[variable.name for variable in variables]]
    dataset = dataset.drop_vars([name for name in TOTALS if name in dataset.coords])
    names = [str(name) for name in (*dataset.variables, *dataset.dims) if str(name).startswith(prefix)]
    dataset = dataset.rename({name: name.removeprefix(prefix) for name in names})
    line = dim.removeprefix(prefix)
    dataset = dataset.assign_attrs(slices=[*results.slices, line])
    title = parts[0].label or parts[0].title
    number = int(np.prod([dataset.sizes[name] for name in Results(dataset).shared_dims]))
    if dim == results.class_dim:
        places = worst_strata(Results(dataset), classes)
        note = order_text(Results(dataset), what="slice" if results.shared_dims else "class")
        return OwnTable(f"{title} by class, the worst first", dataset, places, note)
    size = dataset.sizes[line]
    steps = np.arange(size)
    if size > _MOST_LINES:
        steps = np.linspace(0, size - 1, _POINTS).round().astype(int)
    places = [place for place in range(number) if place % size in steps]
    shown = f"{len(steps)} of {counted(size, 'point')}; --out and --chart have all." if len(steps) < size else ""
    return OwnTable(title if line in title else f"{title} by {line}", dataset, places, shown)


def _ends(part: PartResult) -> list[xr.DataArray]:
    return [part.bounds[end] for end in ("low", "high")] if part.has_interval else []
