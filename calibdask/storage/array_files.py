"""Whole arrays of a file (NumPy, Zarr, netCDF) by their role: in memory, of Dask, or part by part."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from calibdask.storage.arrow_parts import ArrowParts
from calibdask.storage.columns import ColumnNames, choose_arrays, choose_score_arrays, unknown
from calibdask.storage.file_version import Version, check_version, version_of
from calibdask.storage.location import Location
from calibdask.storage.row_table import ColumnChoice, RowTable
from calibdask.storage.sizes import TARGET_BYTES, block_rows, check_rows, check_size

# What columns may hold: numbers, texts and dates.
_KINDS = "fiubOUTM"
_TEXTS = "OUT"


def _no_coordinates(name: str) -> dict[str, Any]:
    return {}


class Arrays(NamedTuple):
    """Arrays of a file, according to its header.

    Attributes
    ----------
    names : sequence of str or None
        Of all arrays; None if they cannot be listed.
    array : function
        From a name, and whether these are scores, or used at all, to an array that is read when it is sliced, with
        ``shape``, ``ndim``, ``dtype`` and ``unit``, the part it is best read in; with ``dims`` where dimensions have
        names. Of NumPy where it is in memory already.
    source : function
        From a name to the file whose version is that of the array.
    coordinates : function
        From a name to coordinates on named dimensions.
    others : sequence of str
        What is there besides.
    """

    names: Sequence[str] | None
    array: Callable[..., Any]
    source: Callable[[str], Location]
    coordinates: Callable[[str], dict[str, Any]] = _no_coordinates
    others: Sequence[str] = ()


@dataclass(frozen=True)
class ArrayReader:
    """A format of whole arrays.

    Attributes
    ----------
    title : str
        What messages call it.
    noun : {"array", "variable"}
        What it calls its arrays.
    schema : function
        From a location and the arrays that are chosen to `Arrays`.
    """

    title: str
    noun: Literal["array", "variable"]
    schema: Callable[[Location, ColumnChoice], Arrays]


@dataclass(frozen=True)
class CheckedArray:
    """An array whose file must not change while it is read."""

    array: Any
    source: Location
    version: Version

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """Of the values."""
        return self.array.dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        values: np.ndarray = self.array[key]
        check_version(self.source, self.version)
        return values


@dataclass(frozen=True)
class ArrayFile:
    """A file or store of arrays with an entry for each row.

    Attributes
    ----------
    location : Location
    reader : ArrayReader
    """

    location: Location
    reader: ArrayReader

    def read(self, choice: ColumnChoice) -> RowTable:
        """The arrays that are chosen: in memory if they are, else of Dask, in chunks of the file.

        Raises
        ------
        ValueError
            If an array is not there or several could be meant, or they are not of the same rows.
        """
        arrays = self.reader.schema(self.location, choice)
        if arrays.names is None:
            names = ColumnNames((str(choice.label or "labels"),), (str(choice.score or "scores"),))
        else:
            names = self._names(choice, [*arrays.names, *arrays.others], choose_arrays)
        opened = {
            name: arrays.array(name, is_score=name in names.scores)
            for name in dict.fromkeys((*names.columns, *choice.further))
        }
        for name, array in opened.items():
            if array.ndim == 0:
                raise ValueError(
                    f"{self.location.url}: {self.reader.noun} {name!r} expects one entry for each row, got a single "
                    "value."
                )
        labels, scores = opened[names.labels[0]], opened[names.scores[0]]
        check_rows(self.location.url, max(*labels.shape, *scores.shape))
        if hasattr(scores, "dims"):
            by_role = self._on_dimensions(arrays, opened, names, choice)
        else:
            by_role = self._by_position(arrays, opened, names, choice)
        return choice.collect(names, lambda of_role: by_role[of_role[0]], by_role.__getitem__)

    def parts(self, choice: ColumnChoice) -> ArrowParts:
        """All arrays with an entry for each row as columns of tables of Arrow, part by part.

        Raises
        ------
        ValueError
            As `read`.
        """
        arrays = self.reader.schema(self.location, choice)
        if arrays.names is None:
            raise ValueError(
                f"{self.location.url} cannot be listed there; copy it to this machine or to an object store first."
            )
        names = self._names(choice, arrays.names, choose_score_arrays)
        return _parts(self.location, choice, names, self._along_rows(arrays, names, choice))

    def _names(self, choice: ColumnChoice, there: Sequence[str], choose: Callable[..., ColumnNames]) -> ColumnNames:
        for name in choice.further:
            if name not in there:
                raise unknown(self.location.url, self.reader.noun, name, there)
        return choose(there, choice.label, choice.score, self.location.url, self.reader.noun, choice.further)

    def _along_rows(self, arrays: Arrays, names: ColumnNames, choice: ColumnChoice) -> dict[str, Any]:
        """The arrays that may have an entry for each row, rows first; without those that nobody can read or needs."""
        needed = {*names.columns, *choice.further}
        found = {}
        for name in arrays.names or ():
            try:
                array = arrays.array(name, is_score=name in names.scores, is_used=name in needed)
            except ValueError:
                if name in needed:
                    raise
                continue
            found[name] = array
        ordered = found[names.labels[0] if names.labels else names.scores[0]]
        if hasattr(ordered, "dims"):
            sample = ordered.dims[0] if ordered.dims else None
            found = {name: array.along(sample) for name, array in found.items() if sample in array.dims}
        return {name: _checked(arrays, name, array) for name, array in found.items()}

    def _by_position(
        self, arrays: Arrays, opened: Mapping[str, Any], names: ColumnNames, choice: ColumnChoice
    ) -> dict[str, Any]:
        """Arrays of NumPy as they are; others of Dask, in chunks of the store along the rows of the scores."""
        if all(isinstance(array, np.ndarray) for array in opened.values()):
            return dict(opened)
        labels, scores = opened[names.labels[0]], opened[names.scores[0]]
        axis = _sample_axis(labels, scores)
        row_bytes = scores.dtype.itemsize * (int(np.prod(scores.shape)) // max(1, scores.shape[axis]))
        stored = _unit(scores, axis, row_bytes, choice)
        rows = block_rows(scores.shape[axis], stored[axis], row_bytes, choice.chunk_rows)

        def lazy(name: str) -> Any:
            array = opened[name]
            along = axis if name in names.scores or (name in names.labels and labels.ndim == scores.ndim) else -1
            chunks = list(_unit(array, along, row_bytes, choice))
            # Other chunks than those of the scores are left as they are, and put together by Dask.
            chunks[along] = rows if rows % max(1, chunks[along]) == 0 else chunks[along]
            return self._dask(arrays, name, array, chunks)

        return {name: lazy(name) for name in opened}

    def _on_dimensions(
        self, arrays: Arrays, opened: Mapping[str, Any], names: ColumnNames, choice: ColumnChoice
    ) -> dict[str, Any]:
        """Arrays with dimensions ``sample`` and ``class``, of Dask."""
        import xarray as xr

        url, (label, score) = self.location.url, (names.labels[0], names.scores[0])
        labels, scores = opened[label], opened[score]
        if labels.ndim > 2 or (labels.ndim == 2 and {*labels.dims} != {*scores.dims}):
            raise ValueError(
                f"{url}: variable {label!r} expects one dimension, of samples, or with one-hot labels those "
                f"of {score!r}, {scores.dims}; got {labels.dims}."
            )
        sample = labels.dims[0]
        if sample not in scores.dims:
            raise ValueError(
                f"{url}: variable {score!r} expects the dimension {sample!r} of {label!r}, got {scores.dims}."
            )
        others = [dim for dim in scores.dims if dim != sample]
        ordered = scores.in_order((*others[:-1], sample, *others[-1:]))
        calls = {sample: "sample", **({others[-1]: "class"} if others else {})}
        along = ordered.dims.index(sample)
        row_bytes = ordered.dtype.itemsize * (int(np.prod(ordered.shape)) // max(1, ordered.shape[along]))
        rows = block_rows(
            ordered.shape[along], _unit(ordered, along, row_bytes, choice)[along], row_bytes, choice.chunk_rows
        )

        def lazy(name: str) -> Any:
            array = ordered if name == score else opened[name]
            if sample not in array.dims:
                raise ValueError(f"{url}: variable {name!r} expects the dimension {sample!r} of labels.")
            chunks = [rows if dim == sample else size for dim, size in zip(array.dims, array.shape, strict=True)]
            named = xr.DataArray(self._dask(arrays, name, array, chunks), dims=array.dims)
            kept = {key: value for key, value in arrays.coordinates(name).items() if sample not in value.dims}
            return named.assign_coords(kept).rename(
                {dim: calls[dim] for dim in array.dims if calls.get(dim, dim) != dim}
            )

        return {name: lazy(name) for name in opened}

    def _dask(self, arrays: Arrays, name: str, array: Any, chunks: Sequence[int]) -> Any:
        import dask.array as da

        check_size(self.location.url, name, array.shape, chunks, array.dtype.itemsize)
        dtype = np.dtype(object) if array.dtype.kind == "T" else array.dtype
        # A random name: the same URL may hold something else the next time.
        return da.from_array(
            _checked(arrays, name, array),
            tuple(max(1, size) for size in chunks),
            name=False,
            fancy=False,
            meta=np.empty((0,) * array.ndim, dtype),
            inline_array=True,
        )


def _checked(arrays: Arrays, name: str, array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return array
    source = arrays.source(name)
    version: Version = ()
    # Not every store of Zarr has a file of its own for each array.
    with suppress(OSError):
        version = version_of(source)
    return CheckedArray(array, source, version)


def _unit(array: Any, axis: int, row_bytes: int, choice: ColumnChoice) -> tuple[int, ...]:
    """The part that an array is best read in; any number of rows where nothing says it."""
    stored = getattr(array, "unit", None)
    if stored is not None:
        return tuple(stored)
    sizes = list(array.shape)
    sizes[axis] = choice.chunk_rows or max(1, TARGET_BYTES // max(1, row_bytes))
    return tuple(sizes)


def _sample_axis(labels: Any, scores: Any) -> int:
    """The axis of the scores along which rows are read: of labels of their shape, which may be one-hot, the longer."""
    if labels.ndim < scores.ndim:
        return -2
    return -2 if scores.ndim > 1 and scores.shape[-2] > scores.shape[-1] else -1


def _parts(location: Location, choice: ColumnChoice, names: ColumnNames, arrays: Mapping[str, Any]) -> ArrowParts:
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
    stored = getattr(getattr(scores, "array", scores), "unit", None) or (1,)
    step = stored[0] * max(1, TARGET_BYTES // max(1, row_bytes * stored[0]))
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
