"""The reliability diagram."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import xarray as xr

from calibdask.plot.look import OVER, UNDER, styled

__all__ = ["reliability_diagram"]

_MOST_PANELS = 60
_MOST_COLUMNS = 5


@dataclass(frozen=True)
class _Panel:
    """One curve: the bins that hold rows."""

    title: str
    score: np.ndarray
    outcome: np.ndarray
    count: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def reliability_diagram(dataset: xr.Dataset, *, title: str = "") -> Any:
    """Reliability diagram: frequency of the outcome against the mean score by bin, rows by bin beneath.

    Points below the diagonal (orange) promise more than they keep, points above (blue) less; the stick between is the
    gap. Bins with more rows have larger points and stronger sticks. The calibration error in the heading is that of the
    bins shown: the mean of the gaps, weighted by rows.

    Parameters
    ----------
    dataset : xarray.Dataset
        What `calibdask.reliability_diagram` returns, or the result of `calibdask.evaluate` with one
        `calibdask.ReliabilityDiagram`. Classes, slices and other dimensions get a panel each.
    title : str, optional
        Heading of a single panel, or first words of the heading of each panel.

    Returns
    -------
    holoviews.Layout
        For `save`, a notebook or further composition.

    Raises
    ------
    ValueError
        If the dataset holds no diagram, several, or more than 60 curves.

    Examples
    --------
    >>> import calibdask as cd
    >>> from calibdask.plot import reliability_diagram
    >>> diagram = reliability_diagram(cd.reliability_diagram([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bins=2))
    >>> len(diagram)
    2
    """
    import holoviews as hv

    panels = list(_panels(_plain(dataset), title))
    lines = ceil(len(panels) / _MOST_COLUMNS)
    columns = ceil(len(panels) / lines)
    parts: list[Any] = []
    for start in range(0, len(panels), columns):
        line = panels[start : start + columns]
        # A short last line is filled up, or its histograms would move up beside its curves.
        gap = [hv.Empty() for _ in range(columns - len(line))]
        parts += [_curve(panel, first=i == 0) for i, panel in enumerate(line)] + gap
        parts += [_histogram(panel, first=i == 0) for i, panel in enumerate(line)] + gap
    return styled(hv.Layout(parts).cols(columns), "bokeh", columns)


def _plain(dataset: xr.Dataset) -> xr.Dataset:
    """The variables of the one diagram in a dataset, with plain names."""
    names = ["score", "outcome", "count", "weight", "lower", "upper"]
    prefixes = [
        str(name).removesuffix("outcome")
        for name in dataset.data_vars
        if str(name).endswith("outcome")
        and {str(name).removesuffix("outcome") + n for n in names} <= set(map(str, dataset.data_vars))
    ]
    if len(prefixes) != 1:
        raise ValueError(
            f"A reliability diagram expects a dataset with {', '.join(names)} of one cd.ReliabilityDiagram, "
            f"got {len(prefixes)} diagrams among {', '.join(map(str, dataset.data_vars))}."
        )
    prefix = prefixes[0]
    return dataset[[prefix + name for name in names]].rename({prefix + name: name for name in names if prefix})


def _panels(diagram: xr.Dataset, title: str) -> Iterator[_Panel]:
    """One panel for each class, slice and other dimension."""
    bins = diagram["outcome"].dims[-1]
    dims = [dim for dim in diagram["outcome"].dims if dim != bins]
    total = int(np.prod([diagram.sizes[dim] for dim in dims], dtype=np.int64))
    if total > _MOST_PANELS:
        sizes = ", ".join(f"{dim}: {diagram.sizes[dim]}" for dim in dims)
        raise ValueError(
            f"A reliability diagram expects at most {_MOST_PANELS} curves, got {total} ({sizes}); select some of them."
        )
    for place in product(*(range(diagram.sizes[dim]) for dim in dims)):
        at = dict(zip(dims, place, strict=True))
        one = diagram.isel(at)
        words = [_words(str(dim), one[dim].item() if dim in one.coords else at[dim]) for dim in dims]
        filled = one["count"].values > 0
        values = {name: np.asarray(one[name].values, np.float64)[filled] for name in ("score", "outcome", "count")}
        weight = one["weight"].values[filled]
        gaps = np.abs(values["outcome"] - values["score"])
        error = float((weight * gaps).sum() / weight.sum()) if weight.sum() > 0 else np.nan
        heading = " · ".join(([title] if title else []) + words)
        yield _Panel(
            title=(heading + "\n" if heading else "") + ("no rows" if np.isnan(error) else f"ECE {error:.4f}"),
            lower=one["lower"].values[filled],
            upper=one["upper"].values[filled],
            **values,
        )


def _words(dim: str, label: Any) -> str:
    """What tells one panel from the next: names speak for themselves, numbers do not."""
    return label if isinstance(label, str) else f"{dim} {label}"


def _curve(panel: _Panel, *, first: bool) -> Any:
    """Diagonal, gaps and points."""
    import holoviews as hv

    gap = panel.outcome - panel.score
    color = np.where(gap < 0, OVER, UNDER)
    share = np.sqrt(panel.count / panel.count.max()) if panel.count.size else panel.count
    x, y = hv.Dimension("score", label="mean score"), _labelled("outcome", "frequency of the outcome", first)
    sticks = (panel.score, panel.score, panel.score, panel.outcome, color, share)
    points = (panel.score, panel.outcome, gap, panel.count, share, color)
    overlay = (
        hv.Slope(1, 0, kdims=[x, y])
        * hv.Curve((panel.score, panel.outcome), x, y)
        * hv.Segments(sticks, [x, y, "x1", "y1"], ["color", "share"])
        * hv.Points(points, [x, y], ["gap", "rows", "share", "color"])
    )
    return overlay.relabel(panel.title)


def _histogram(panel: _Panel, *, first: bool) -> Any:
    """Rows by bin."""
    import holoviews as hv

    bars = (panel.lower, np.zeros_like(panel.count), panel.upper, panel.count)
    x, y = hv.Dimension("left", label="score"), _labelled("bottom", "rows", first)
    return hv.Rectangles(bars, [x, y, "right", "top"])


def _labelled(name: str, label: str, shown: bool) -> Any:
    """A dimension whose label only the first panel of a line shows."""
    import holoviews as hv

    return hv.Dimension(name, label=label if shown else " ")
