"""Summaries of many small slices in files: variables whose occupied cells alone are written, and back.

Each becomes a list of its numbers; the places of a histogram's cells are written once for all of its variables, as the
distances from one to the next, which compress well.
"""

import json
import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.statistics.exact import Counts
from calibdask.storage.sparse_cells import SparseCells
from calibdask.storage.summary_totals import with_fill

# The format of files with such variables, which earlier versions refuse.
SPARSE_FORMAT = 3
_SELECTED = (
    "This summary lists the occupied cells of many small slices, of which some are no longer there; open the file by "
    "calibdask.open_summary before slices are selected or added up."
)
_STEPS_OF = "_steps"
_DIMS, _SIZES, _SLICES, _STEPS = "sparse_dims", "sparse_sizes", "sparse_slices", "sparse_steps"


def has_lists(names: Iterable[str]) -> bool:
    """Whether these names of arrays belong to a summary that lists its occupied cells."""
    return any(name.endswith(_STEPS_OF) for name in names)


def encoded(dataset: xr.Dataset, mark: str) -> xr.Dataset:
    """The dataset as it is written: variables of occupied cells as lists, under the format that ``mark`` has then."""
    lists: dict[str, xr.Variable] = {}
    places: dict[str, Counts] = {}
    for name, variable in dataset.data_vars.items():
        cells = variable.variable.data
        if isinstance(cells, SparseCells):
            steps = f"{name}{_STEPS_OF}"
            shared = (key for key, at in places.items() if at is cells.at or np.array_equal(at, cells.at))
            steps = next(shared, steps)
            if steps not in places:
                places[steps] = cells.at
                lists[steps] = xr.Variable((f"{name}_cells",), _distances(cells.at))
            texts = {_DIMS: [*map(str, variable.dims)], _SIZES: cells.shape, _SLICES: [*map(str, dataset["rows"].dims)]}
            attributes = {key: json.dumps(value) for key, value in texts.items()} | {_STEPS: steps}
            lists[str(name)] = xr.Variable(lists[steps].dims, cells.values, {**variable.attrs, **attributes})
    if not lists:
        return dataset
    return with_fill(dataset.drop_vars([*lists], errors="ignore").assign(lists).assign_coords({mark: SPARSE_FORMAT}))


def decoded(dataset: xr.Dataset, mark: str, form: int) -> xr.Dataset:
    """The dataset in memory, of the format ``form``, from one that `encoded` made; others are returned as they are.

    Raises
    ------
    ValueError
        If slices were selected or added up meanwhile, or places are damaged.
    """
    lists = [name for name, variable in dataset.data_vars.items() if _STEPS in variable.attrs]
    if not lists:
        return dataset
    arrays: dict[Hashable, xr.Variable] = {}
    places: dict[str, Any] = {}
    for name in lists:
        variable = dataset.variables[name]
        attributes = dict(variable.attrs)
        dims, sizes, slices = (json.loads(attributes.pop(key)) for key in (_DIMS, _SIZES, _SLICES))
        steps = attributes.pop(_STEPS)
        has_all = {"rows", steps} <= {*map(str, dataset.variables)} and {*slices} == {*dataset.variables["rows"].dims}
        if not has_all or any(dataset.sizes.get(dim, size) != size for dim, size in zip(dims, sizes, strict=True)):
            raise ValueError(_SELECTED)
        if steps not in places:
            places[steps] = np.cumsum(dataset.variables[steps].values, dtype=np.int64)
            rises = (np.diff(places[steps]) > 0).all()
            if not rises or (places[steps][:1] < 0).any() or (places[steps][-1:] >= math.prod(sizes)).any():
                raise ValueError(f"{steps} of a summary expects places in their order within {sizes}; copy it again.")
        arrays[name] = xr.Variable(dims, SparseCells(sizes, places[steps], variable.values), attributes)
    whole = dataset.drop_vars([*lists, *places]).assign(arrays)
    result = with_fill(whole.assign_coords({mark: form}))
    result.set_close(dataset.close)
    return result


def _distances(at: Counts) -> npt.NDArray[Any]:
    """Distances from one place to the next, from 0 at first; int32 if they fit, as they may take most of the memory."""
    distances = np.empty(at.size, np.int32 if (at[-1:] <= np.iinfo(np.int32).max).all() else np.int64)
    distances[:1] = at[:1]
    np.subtract(at[1:], at[:-1], out=distances[1:], casting="unsafe")
    return distances
