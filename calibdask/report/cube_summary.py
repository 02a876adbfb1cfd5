"""Medians and quantiles of the variables of a cube, in bounded memory."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.storage.cube_layout import DONE
from calibdask.study.quantiles import quantiles

Array = npt.NDArray[np.float64]

LEVELS = (0.05, 0.5, 0.95)
_REPLICATES = ("replicate", "repeat", "set", "draw", "sample", "bootstrap")
# Axes of so many consecutive numbers are replicates too.
_COUNTED = 10
# Cells are read in blocks of so many bytes.
BLOCK = 64e6


@dataclass(frozen=True, eq=False)
class ReplicateQuantiles:
    """Quantiles over the replicates of each cell, at `LEVELS` along the first axis; ``over`` are the replicates."""

    variable: str
    dims: tuple[str, ...]
    over: tuple[str, ...]
    labels: Mapping[str, Sequence[str]]
    values: Array

    def at(self, place: Mapping[str, int]) -> tuple[float, float, float]:
        """Low, middle and high at a place: medians over cells of their quantiles, or quantiles over cells."""
        values = self.values
        for dim, i in place.items():
            values = np.take(values, [i], axis=1 + self.dims.index(dim))
        flat = values.reshape(len(LEVELS), -1)
        triple = quantiles(flat, (0.5,))[0] if self.over else quantiles(flat[1:2], LEVELS)[:, 0]
        low, middle, high = triple.tolist()
        return low, middle, high


def summary_of(cube: xr.Dataset, variable: str) -> ReplicateQuantiles:
    """The summary of a variable over cells that are done.

    Examples
    --------
    >>> cube = xr.Dataset({"error": (("size", "replicate"), [[1.0, 2.0, 3.0]])}, {"size": [30]})
    >>> summary_of(cube, "error").at({"size": 0})
    (1.1, 2.0, 2.9)
    """
    array = cube[variable]
    status = cube.get("status")
    of_cells = [str(dim) for dim in status.dims] if status is not None else []
    over = tuple(str(dim) for dim in array.dims if dim not in of_cells and _is_replicate(array, str(dim)))
    kept = tuple(str(dim) for dim in array.dims if dim not in over)
    values = np.full((len(LEVELS), *(array.sizes[dim] for dim in kept)), np.nan)
    for at in _blocks(array, [dim for dim in of_cells if dim in array.dims]):
        block = array.isel(at)
        known = np.asarray(block.values, np.float64)
        if status is not None:
            done = xr.DataArray(status.isel(at).values == DONE, dims=[dim for dim in of_cells if dim not in at])
            known = block.copy(data=known).where(done).transpose(*block.dims).values
        inner = block.copy(data=known).transpose(*(dim for dim in kept if dim not in at), *over).values
        size = math.prod(array.sizes[dim] for dim in over)
        place = (slice(None), *(at.get(dim, slice(None)) for dim in kept))
        values[place] = quantiles(inner.reshape(*inner.shape[: inner.ndim - len(over)], size), LEVELS)
    labels = {dim: _labels(array, dim) for dim in kept}
    return ReplicateQuantiles(variable, kept, over, labels, values)


def _blocks(array: xr.DataArray, cells: Sequence[str]) -> list[dict[str, int]]:
    """Places along the first axes of the cells, as many as make blocks small."""
    fixed: list[str] = []
    size = array.nbytes
    for dim in cells:
        if size <= BLOCK:
            break
        fixed.append(dim)
        size //= max(1, array.sizes[dim])
    return [dict(zip(fixed, place, strict=True)) for place in product(*(range(array.sizes[dim]) for dim in fixed))]


def _is_replicate(array: xr.DataArray, dim: str) -> bool:
    """Whether an axis counts, and names nothing."""
    if dim in _REPLICATES:
        return True
    values = array[dim].values if dim in array.coords else np.arange(array.sizes[dim])
    return bool(values.size >= _COUNTED and values.dtype.kind in "iu" and (np.diff(values) == 1).all())


def _labels(array: xr.DataArray, dim: str) -> list[str]:
    values = array[dim].values if dim in array.coords else np.arange(array.sizes[dim])
    return [str(value) for value in values.tolist()]
