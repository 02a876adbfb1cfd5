"""What a cube holds of a single cell: its curves, its numbers, and what went wrong in it."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cubes.drawing import worded
from calibdask.explore.cubes.views import labels_of, places_of, variables_of
from calibdask.plot.panels import prefixes_of
from calibdask.study.cube import DONE, FAILED, Cube
from calibdask.study.reading import cell_dims
from calibdask.study.study import coordinates_of

__all__ = ["failures", "numbers_at", "pictures_at", "status_at", "told_of_curves"]

_CURVE = ("reliability", "score", "density")
_DIAGRAM = ("outcome", "score", "count", "weight", "lower", "upper")
# Numbers of a variable, and panels of a picture, that are worth looking at one by one.
_MOST_NUMBERS, _MOST_PANELS = 24, 12


def failures(dataset: xr.Dataset, store: str | None) -> list[tuple[dict[str, Any], str]]:
    """Coordinates of the cells that have failed, and what went wrong.

    Parameters
    ----------
    dataset : xarray.Dataset
        A cube.
    store : str or None
        Where it is; None: it is no cube.
    """
    if store is None or not (dataset["status"].values == FAILED).any():
        return []
    axes = {dim: labels_of(dataset, dim) for dim in cell_dims(dataset)}
    return [(coordinates_of(axes, number), text) for number, text in Cube(store).errors().items()]


def status_at(dataset: xr.Dataset, at: Mapping[str, Any]) -> str:
    """Whether a cell is done, in words; "" for what is no cell."""
    dims = cell_dims(dataset)
    if not dims or not set(dims) <= set(at):
        return ""
    status = int(_selected(dataset["status"], at).values)
    return {DONE: "done", FAILED: "failed"}.get(status, "not done yet")


def pictures_at(dataset: xr.Dataset, at: Mapping[str, Any]) -> list[Any]:
    """Reliability curves and diagrams that a cube holds at some labels; recognised by the names of their variables.

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

    found = []
    for names, draw in ((_CURVE, reliability_curve), (_DIAGRAM, reliability_diagram)):
        for prefix in prefixes_of(dataset, names):
            one = _of_prefix(dataset, prefix, names)
            filled = _filled(one.isel(_places(one, at), drop=True).load(), prefix + names[0])
            if filled is not None:
                found.append(draw(filled))
    return found


def told_of_curves(dataset: xr.Dataset, pictures: Sequence[Any]) -> str:
    """That there is no curve in what `pictures_at` has found in a cell; "" for what has no cells.

    Examples
    --------
    >>> told_of_curves(xr.Dataset({"status": ("model", [1, 1]), "value": ("model", [0.1, 0.2])}), [])
    'This cube holds no reliability curves.'
    """
    if not cell_dims(dataset):
        return ""
    if not prefixes_of(dataset, _CURVE):
        return "This cube holds no reliability curves."
    return "" if pictures else "This cell holds no reliability curve."


def _of_prefix(dataset: xr.Dataset, prefix: str, names: Sequence[str]) -> xr.Dataset:
    """The variables of one curve."""
    longer = [other for other in prefixes_of(dataset, names) if other != prefix and other.startswith(prefix)]
    there = [
        str(name)
        for name, variable in dataset.data_vars.items()
        if str(name).startswith(prefix)
        and variable.dtype.kind in "fiub"
        and not any(str(name).startswith(other) for other in longer)
        and set(variable.dims) <= set(dataset[prefix + names[0]].dims)
    ]
    return dataset[there]


def _filled(one: xr.Dataset, mark: str) -> xr.Dataset | None:
    """Only the panels that hold something, of which there may be few; None if nothing is left."""
    for dim in one[mark].dims[:-1]:
        there = one[mark].notnull().any([other for other in one[mark].dims if other != dim])
        one = one.isel({dim: np.flatnonzero(there.values)})
    panels = int(np.prod(one[mark].shape[:-1], dtype=np.int64))
    while panels > _MOST_PANELS:
        longest = max(one[mark].dims[:-1], key=lambda dim: one.sizes[dim])
        fewer = max(1, one.sizes[longest] * _MOST_PANELS // panels)
        one = one.isel({longest: slice(0, min(fewer, one.sizes[longest] - 1))})
        panels = int(np.prod(one[mark].shape[:-1], dtype=np.int64))
    return one if panels and bool(one[mark].notnull().any()) else None


def numbers_at(dataset: xr.Dataset, at: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The numbers of a cell that are few enough to be read: variable, where, value.

    Examples
    --------
    >>> cube = xr.Dataset({"truth": (("model", "norm"), [[0.1, 0.2]])}, {"model": ["a"], "norm": ["l1", "l2"]})
    >>> numbers_at(cube, {"model": "a"})[1]
    {'variable': 'truth', 'where': 'l2', 'value': 0.2}
    """
    found = []
    for name in variables_of(dataset):
        left = [str(dim) for dim in dataset[name].dims if dim not in at]
        if int(np.prod([dataset.sizes[dim] for dim in left], dtype=np.int64)) > _MOST_NUMBERS:
            continue
        values = _selected(dataset[name], at).transpose(*left).values.astype(np.float64).ravel()
        for labels, value in zip(product(*(labels_of(dataset, dim) for dim in left)), values.tolist(), strict=True):
            where = " · ".join(worded(label, dim) for dim, label in zip(left, labels, strict=True))
            found.append({"variable": name, "where": where, "value": value})
    return found


def _selected(values: xr.DataArray, at: Mapping[str, Any]) -> xr.DataArray:
    return values.isel(_places(values.to_dataset(name="value"), at), drop=True)


def _places(dataset: xr.Dataset, at: Mapping[str, Any]) -> dict[str, int]:
    there = {dim: (label,) for dim, label in at.items() if dim in dataset.dims}
    return {dim: int(places[0]) for dim, places in places_of(dataset, there).items()}
