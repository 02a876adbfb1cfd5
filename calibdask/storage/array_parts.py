"""Whole arrays of a file - NumPy archives, Zarr groups, netCDF - with an entry for each row, part by part."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibdask.storage.array_files import TARGET_BYTES, StoredArray, open_archive, stored_unit
from calibdask.storage.arrow_parts import ArrowParts
from calibdask.storage.columns import ColumnNames, choose_score_arrays, unknown
from calibdask.storage.location import ColumnChoice, Location
from calibdask.storage.packing import check_unpacked, packing_of_scores
from calibdask.storage.sizes import check_rows
from calibdask.storage.writers import texts_settled

if TYPE_CHECKING:
    import xarray as xr

# What columns may hold: numbers, texts and dates.
_KINDS = "fiubOUTM"
_TEXTS = "OUT"


def npz_parts(location: Location, choice: ColumnChoice) -> ArrowParts:
    """Arrays of a NumPy archive."""
    with location.open() as file:
        with location.reading("a NumPy archive"):
            archive = open_archive(file)
        with archive:
            names = _names(location, choice, archive.files, "array")
            arrays = {}
            for name in archive.files:
                # Objects would be unpickled.
                with suppress(ValueError) if name not in names.scores else location.reading("a NumPy archive"):
                    arrays[name] = archive[name]
    return _parts(location, choice, names, arrays)


def zarr_parts(location: Location, node: Any, choice: ColumnChoice) -> ArrowParts:
    """Arrays of a Zarr group."""
    import zarr

    if choice.missing_chunks == "fill":
        consolidated = False if location.local else None
        node = zarr.open_group(node.store.unchecked, path=node.path, mode="r", use_consolidated=consolidated)
    if not node.store.supports_listing:
        raise ValueError(f"{location.url} cannot be listed there; copy it to this machine or to an object store first.")
    with location.reading("a Zarr group"), location.warning(), texts_settled():
        found = dict(node.arrays())
    names = _names(location, choice, sorted(found), "array")
    for name in (*names.labels, *choice.further):
        check_unpacked(location, name, found[name])
    packings = {name: packing_of_scores(location, name, found[name]) for name in names.scores}
    arrays = {
        name: StoredArray(array, location.url, name, packings.get(name)) for name, array in found.items() if array.ndim
    }
    stored = next(iter(stored_unit(found[names.scores[0]])), 1)
    return _parts(location, choice, names, arrays, stored)


def netcdf_parts(location: Location, dataset: "xr.Dataset", choice: ColumnChoice) -> ArrowParts:
    """Variables of a netCDF file along the dimension of the samples."""
    names = _names(location, choice, list(map(str, dataset.variables)), "variable")
    ordered = dataset[names.labels[0] if names.labels else names.scores[0]]
    sample = ordered.dims[0] if ordered.dims else None
    variables = {
        str(name): variable.transpose(sample, ...)
        for name, variable in dataset.variables.items()
        if sample in variable.dims
    }
    return _parts(location, choice, names, {name: _Variable(variable) for name, variable in variables.items()})


class _Variable:
    """A variable of netCDF that is read when it is sliced."""

    def __init__(self, variable: Any) -> None:
        self._variable = variable
        self.shape, self.ndim, self.dtype = variable.shape, variable.ndim, variable.dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        return np.asarray(self._variable[key].values)


def _names(location: Location, choice: ColumnChoice, there: Any, kind: str) -> ColumnNames:
    for name in choice.further:
        if name not in there:
            raise unknown(location.url, kind, name, there)
    return choose_score_arrays(there, choice.label, choice.score, location.url, kind, choice.further)


def _parts(
    location: Location, choice: ColumnChoice, names: ColumnNames, arrays: Mapping[str, Any], stored: int = 1
) -> ArrowParts:
    """The arrays with as many entries as there are rows, read together."""
    scores = arrays.get(names.scores[0])
    if scores is None or scores.ndim not in (1, 2) or scores.dtype.kind not in "fiub":
        found = "none" if scores is None else f"shape {scores.shape} of type {scores.dtype}"
        raise ValueError(
            f"{location.url}: {names.scores[0]!r} expects numbers, one score or one row of scores for each "
            f"row, shape (n,) or (n, K), got {found}."
        )
    rows = scores.shape[0]
    check_rows(location.url, rows)
    kept = {
        name: array
        for name, array in arrays.items()
        if array.ndim in (1, 2)
        and array.shape[0] == rows
        and array.dtype.kind in (_KINDS if array.ndim == 1 else "fiub")
    }
    for name in (*names.labels, *choice.further):
        if name not in kept:
            raise ValueError(f"{location.url}: {name!r} expects an entry for each of the {rows:,} rows.")
    row_bytes = sum(array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=int)) for array in kept.values())
    # A multiple of the stored chunk, so that hardly any is read twice.
    step = stored * max(1, TARGET_BYTES // max(1, row_bytes * stored))
    starts = [(start, min(rows, start + step)) for start in range(0, rows, step)]
    load: Callable[[tuple[int, int]], Any] = partial(_table, kept)
    return ArrowParts(load((0, 0)).schema, names, starts, load, of_arrays=True)


def _table(arrays: Mapping[str, Any], rows: tuple[int, int]) -> Any:
    import pyarrow

    return pyarrow.table({name: _column(array, slice(*rows)) for name, array in arrays.items()})


def _column(array: Any, rows: slice) -> Any:
    import pyarrow

    values = np.asarray(array[(rows,) if array.ndim == 1 else (rows, slice(None))])
    if values.dtype.kind in _TEXTS:
        return pyarrow.array(values.astype(object), pyarrow.string())
    if values.ndim == 1:
        return pyarrow.array(values)
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), values.shape[1])
