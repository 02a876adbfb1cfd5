"""Contents of a single cell of a cube: curves, numbers and errors."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cubes.picture import label_text
from calibdask.explore.cubes.variables import titles_of, variables_of
from calibdask.explore.cubes.views import labels_of, positions_of
from calibdask.results.reliability import Kind, reliability_variables
from calibdask.storage.cube_layout import DONE, FAILED
from calibdask.study.reading import cell_dims, errors_of
from calibdask.study.study import coordinates_of

# Numbers of a variable, and panels of a plot, that are few enough to be read one by one.
_MOST_NUMBERS, _MOST_PANELS = 24, 12


def failures(dataset: xr.Dataset, store: str | None) -> list[tuple[dict[str, Any], str]]:
    """Coordinates of the cells that have failed, and their errors.

    Parameters
    ----------
    dataset : xarray.Dataset
        A cube.
    store : str or None
        Its URL; None: it is not a cube.
    """
    if store is None or not (dataset["status"].values == FAILED).any():
        return []
    axes = {dim: labels_of(dataset, dim) for dim in cell_dims(dataset)}
    return [(coordinates_of(axes, number), text) for number, text in errors_of(dataset).items()]


def status_at(dataset: xr.Dataset, at: Mapping[str, Any]) -> str:
    """Status of a cell; "" unless the selection is a single cell."""
    dims = cell_dims(dataset)
    if not dims or not set(dims) <= set(at):
        return ""
    status = int(_selected(dataset["status"], at).values)
    return {DONE: "done", FAILED: "failed"}.get(status, "not done yet")


def plots_at(dataset: xr.Dataset, at: Mapping[str, Any]) -> list[Any]:
    """Plots of the reliability curves and diagrams that a dataset holds at some labels.

    Parameters
    ----------
    dataset : xarray.Dataset
    at : mapping from str to label
        All axes of cells, and others.

    Returns
    -------
    list of holoviews.Layout
    """
    from calibdask.plot import reliability_curve, reliability_diagram

    kinds: dict[Kind, Any] = {"curve": reliability_curve, "diagram": reliability_diagram}
    plots = []
    for kind, draw in kinds.items():
        for parts in reliability_variables(dataset, kind).values():
            dependent, *_ = names = list(parts.values())
            metric = dataset[names]
            filled = _filled(metric.isel(_indexers(metric, at), drop=True).load(), dependent)
            if filled is not None:
                plots.append(draw(filled))
    return plots


def curve_note(dataset: xr.Dataset, plots: Sequence[Any]) -> str:
    """A note that `plots_at` has found no curve in a cell; "" for datasets without cells.

    Examples
    --------
    >>> curve_note(xr.Dataset({"status": ("model", [1, 1]), "value": ("model", [0.1, 0.2])}), [])
    'This cube holds no reliability curves.'
    """
    if not cell_dims(dataset):
        return ""
    if not reliability_variables(dataset, "curve"):
        return "This cube holds no reliability curves."
    return "" if plots else "This cell holds no reliability curve."


def _filled(metric: xr.Dataset, dependent: str) -> xr.Dataset | None:
    """The panels that hold values of the dependent variable, up to a few; None if there are none."""
    for dim in metric[dependent].dims[:-1]:
        is_filled = metric[dependent].notnull().any([other for other in metric[dependent].dims if other != dim])
        metric = metric.isel({dim: np.flatnonzero(is_filled.values)})
    panels = int(np.prod(metric[dependent].shape[:-1], dtype=np.int64))
    while panels > _MOST_PANELS:
        longest = max(metric[dependent].dims[:-1], key=lambda dim: metric.sizes[dim])
        fewer = max(1, metric.sizes[longest] * _MOST_PANELS // panels)
        metric = metric.isel({longest: slice(0, min(fewer, metric.sizes[longest] - 1))})
        panels = int(np.prod(metric[dependent].shape[:-1], dtype=np.int64))
    return metric if panels and bool(metric[dependent].notnull().any()) else None


def numbers_at(dataset: xr.Dataset, at: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The numbers of a cell that are few enough to be read: variable, labels, value.

    Examples
    --------
    >>> cube = xr.Dataset({"truth": (("model", "norm"), [[0.1, 0.2]])}, {"model": ["a"], "norm": ["l1", "l2"]})
    >>> numbers_at(cube, {"model": "a"})[1]
    {'variable': 'truth', 'where': 'l2', 'value': 0.2}
    """
    numbers: list[dict[str, Any]] = []
    titles = titles_of(dataset)
    for name in variables_of(dataset):
        left = [str(dim) for dim in dataset[name].dims if dim not in at]
        if int(np.prod([dataset.sizes[dim] for dim in left], dtype=np.int64)) > _MOST_NUMBERS:
            continue
        values = _selected(dataset[name], at).transpose(*left).values.astype(np.float64).ravel()
        for labels, value in zip(product(*(labels_of(dataset, dim) for dim in left)), values.tolist(), strict=True):
            where = " · ".join(label_text(label, dim) for dim, label in zip(left, labels, strict=True))
            numbers.append({"variable": titles.get(name, name), "where": where, "value": value})
    return numbers


def _selected(values: xr.DataArray, at: Mapping[str, Any]) -> xr.DataArray:
    return values.isel(_indexers(values.to_dataset(name="value"), at), drop=True)


def _indexers(dataset: xr.Dataset, at: Mapping[str, Any]) -> dict[str, int]:
    labels = {dim: (label,) for dim, label in at.items() if dim in dataset.dims}
    return {dim: int(index[0]) for dim, index in positions_of(dataset, labels).items()}
