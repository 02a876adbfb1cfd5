"""Readers for files that hold whole arrays: NumPy archives, Zarr groups, netCDF."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from calibdask.engine.inputs.columns import ColumnNames, choose_arrays, unknown
from calibdask.errors import Damaged, Unavailable
from calibdask.storage.checked_file import check_file
from calibdask.storage.location import ColumnChoice, Location, read_error
from calibdask.storage.packing import Packing, check_unpacked, packing_of_scores
from calibdask.storage.retry import with_retries
from calibdask.storage.sizes import MOST_BLOCKS, check_rows, check_size
from calibdask.storage.writers import texts_settled

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.storage.chunk_files import ChunkFiles

# Blocks smaller than this are read several at a time, as long as this many blocks are left to work on side by side.
TARGET_BYTES = 16 << 20
_ENOUGH_BLOCKS = 64
# How a NumPy archive begins, and a bare array.
_ZIP, _NPY, _HDF5 = b"PK", b"\x93NUMPY", b"\x89HDF\r\n\x1a\n"


def block_rows(rows: int, stored: int, row_bytes: int, chunk_rows: int | None) -> int:
    """Rows to read at a time: a multiple of the stored chunk, so that no chunk is read twice.

    Examples
    --------
    >>> block_rows(10_000_000, stored=1000, row_bytes=80, chunk_rows=None)
    156000
    """
    stored = max(1, stored)
    if chunk_rows is not None:
        return stored * max(1, chunk_rows // stored)
    together = min(TARGET_BYTES // max(1, row_bytes * stored), rows // (stored * _ENOUGH_BLOCKS))
    # Larger ones of more rows than would fit into blocks that can all be scheduled.
    return stored * max(1, together, -(-rows // (stored * MOST_BLOCKS)))


def read_npz(location: Location, choice: ColumnChoice) -> dict[str, Any]:
    """Arrays of a NumPy archive, in memory; others in the archive are not read."""
    what = "a NumPy archive"
    with location.open() as file:
        with location.reading(what):
            archive = open_archive(file)
        with archive:
            names = _names(location, choice, archive.files, "array")
            # Others are not decompressed.
            with location.reading(what):
                arrays = {name: archive[name] for name in (*names.columns, *choice.further)}
    for name, array in arrays.items():
        if array.ndim == 0:
            raise ValueError(f"{location.url}: array {name!r} expects one entry for each row, got a single value.")
    labels, scores = arrays[names.labels[0]], arrays[names.scores[0]]
    return {**choice.collect(labels, scores, arrays.__getitem__), "names": names}


def open_archive(file: Any) -> Any:
    """The archive of NumPy in an open file."""
    start = file.read(len(_NPY))
    file.seek(0)
    if not start.startswith((_ZIP, _NPY)):
        raise ValueError("it is not a readable .npz archive.")
    archive = np.load(file, allow_pickle=False)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError("it holds one bare array; save labels and scores together by numpy.savez.")
    return archive


def _names(location: Location, choice: ColumnChoice, there: Sequence[str], kind: str) -> ColumnNames:
    for name in choice.further:
        if name not in there:
            raise unknown(location.url, kind, name, there)
    return choose_arrays(there, choice.label, choice.score, location.url, kind, choice.further)


@dataclass(frozen=True)
class StoredArray:
    """A stored array, sliced like the array itself; what cannot be read is a clear ValueError on any worker.

    Codes of packed scores are read as they are stored and decoded block by block.
    """

    array: Any
    url: str
    name: str
    packing: Packing | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """As of the array."""
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.array.shape)

    @property
    def dtype(self) -> Any:
        """Of the values in NumPy."""
        if self.packing is not None:
            return np.dtype(np.float64)
        # Variable-width strings of NumPy are new; not all that slices by them takes them.
        return np.dtype(object) if self.array.dtype.kind == "T" else np.dtype(self.array.dtype)

    @cached_property
    def _files(self) -> "ChunkFiles | None":
        from calibdask.storage.chunk_files import chunk_files

        return chunk_files(self.array)

    def __getitem__(self, key: tuple[slice, ...]) -> np.ndarray:
        try:
            stored = self._files.read(key) if self._files is not None else None
            if stored is None:
                stored = np.asarray(with_retries(lambda: self.array[key]))
            return self.packing.decoded(stored) if self.packing else stored.astype(self.dtype, copy=False)
        except (Damaged, Unavailable):
            raise
        except Exception as error:
            rows = f"rows {key[-1].start} to {key[-1].stop}" if len(key) == 1 else f"part {key}"
            raise read_error(self.url, error, f"array {self.name!r}, {rows}") from error


def _lazy(stored: StoredArray, chunks: tuple[int, ...]) -> Any:
    import dask.array as da

    dtype = np.dtype(object) if stored.dtype.kind == "T" else stored.dtype
    # A random name: the same URL may hold something else the next time.
    return da.from_array(
        stored, chunks, name=False, fancy=False, meta=np.empty((0,) * stored.ndim, dtype), inline_array=True
    )


def open_group(location: Location) -> Any:
    """The Zarr group at a location, in a store that is checked as it is read (`CheckedStore`).

    Raises
    ------
    ValueError
        If nothing is there, or no group of Zarr; if its attributes are not what was written.
    """
    import zarr

    from calibdask.storage.checked_store import CheckedStore, Chunks, GroupManifest, RowChunks

    # Where folders cannot be listed (http), the store's own file may be there though its folder is not.
    if not (location.exists or location.is_zarr):
        raise ValueError(f"{location.url} does not exist.")
    location.check_file()
    with location.reading("a Zarr group"), location.warning(), texts_settled():
        node = with_retries(lambda: zarr.open(location.path if location.local else location.address, mode="r"))
    if not isinstance(node, zarr.Group):
        raise ValueError(f"{location.url} is a Zarr array; give the group that holds the arrays of labels and scores.")
    with location.reading("a Zarr group"), location.warning(), texts_settled():
        manifest = GroupManifest.of(location.url, node.attrs)
        within = f"{node.path}/" if node.path else ""
        known = {} if manifest is None else {f"{within}{name}": value for name, value in manifest.arrays.items()}
        checked = CheckedStore(node.store, location.url, known, RowChunks() if manifest is None else Chunks())
        # A copy of the metadata may be older than they are; it is needed where folders cannot be listed.
        consolidated = False if location.local else None
        return with_retries(lambda: zarr.open_group(checked, path=node.path, mode="r", use_consolidated=consolidated))


def open_netcdf(location: Location) -> "xr.Dataset":
    """The dataset in a netCDF file, its numbers read when they are needed.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    import xarray as xr

    with location.reading("netCDF"):
        _check_links(location)
        with location.open() as file:
            check_file(location.url, file)
        return xr.open_dataset(location.path if location.local else location.open(), chunks=None, cache=False)


def _check_links(location: Location) -> None:
    """Raise ValueError if a file of HDF5 takes numbers from other files: whoever made it would choose what is read."""
    import h5py

    with location.open() as stream:
        if stream.read(len(_HDF5)) != _HDF5:
            return
        stream.seek(0)
        outside: list[str] = []
        with h5py.File(stream, "r") as file:

            def note(name: str, link: Any) -> None:
                array = file.get(name) if isinstance(link, h5py.HardLink) else None
                if isinstance(link, h5py.ExternalLink) or (isinstance(array, h5py.Dataset) and _is_elsewhere(array)):
                    outside.append(name)

            file.visititems_links(note)
    if outside:
        raise ValueError(f"{outside[0]!r} is a link to another file; copy its numbers into this one.")


def _is_elsewhere(array: Any) -> bool:
    """Whether numbers of an array of HDF5 are in other files."""
    virtual = array.is_virtual and any(part.file_name != "." for part in array.virtual_sources())
    return virtual or bool(array.external)


def read_zarr(location: Location, node: Any, choice: ColumnChoice) -> dict[str, Any]:
    """Arrays of a Zarr group, as Dask arrays with the chunks of the store."""
    import zarr

    # What calibdask wrote has all of its chunks.
    if choice.missing_chunks == "fill" and not node.store.arrays:
        consolidated = False if location.local else None
        node = zarr.open_group(node.store.unchecked, path=node.path, mode="r", use_consolidated=consolidated)
    lists = node.store.supports_listing
    with location.warning():
        there = sorted(node.array_keys()) if lists else []
        groups = [f"{group}/ (a group)" for group in sorted(node.group_keys())] if lists else []
    if lists:
        names = _names(location, choice, [*there, *groups], "array")
    else:
        names = ColumnNames((str(choice.label or "labels"),), (str(choice.score or "scores"),))

    def opened(name: str) -> StoredArray:
        with location.reading("a Zarr group"), location.warning(), texts_settled():
            array = node.get(name)
        if not isinstance(array, zarr.Array):
            # Where folders cannot be listed (http), an array that is missing can still be named.
            raise unknown(location.url, "array", name, there or ["what cannot be listed here"])
        if array.ndim == 0:
            raise ValueError(f"{location.url}: array {name!r} expects one entry for each row, got a single value.")
        if name == names.scores[0]:
            return StoredArray(array, location.url, array.basename, packing_of_scores(location, name, array))
        check_unpacked(location, name, array)
        return StoredArray(array, location.url, array.basename)

    labels, scores = opened(names.labels[0]), opened(names.scores[0])
    check_rows(location.url, max(*labels.shape, *scores.shape))
    axis = _sample_axis(labels, scores)
    row_bytes = scores.dtype.itemsize * (scores.array.size // max(1, scores.shape[axis]))
    rows = block_rows(scores.shape[axis], stored_unit(scores.array)[axis], row_bytes, choice.chunk_rows)

    def lazy(stored: StoredArray, axis: int = -1) -> Any:
        chunks = list(stored_unit(stored.array))
        # Other chunks than those of the scores are left as they are, and put together by Dask.
        chunks[axis] = rows if rows % max(1, chunks[axis]) == 0 else chunks[axis]
        check_size(location.url, stored.name, stored.shape, chunks, stored.dtype.itemsize)
        return _lazy(stored, tuple(max(1, size) for size in chunks))

    along = axis if labels.ndim == scores.ndim else -1
    return {**choice.collect(lazy(labels, along), lazy(scores, axis), lambda name: lazy(opened(name))), "names": names}


def _sample_axis(labels: Any, scores: Any) -> int:
    """The axis of the scores along which rows are read: of labels of their shape, which may be one-hot, the longer."""
    if labels.ndim < scores.ndim:
        return -2
    return -2 if scores.ndim > 1 and scores.shape[-2] > scores.shape[-1] else -1


def stored_unit(array: Any) -> tuple[int, ...]:
    """What a Zarr array is best read in: its shards, or its chunks."""
    return tuple(array.shards or array.chunks)


def read_netcdf(location: Location, dataset: "xr.Dataset", choice: ColumnChoice) -> dict[str, Any]:
    """Variables of a netCDF file, as DataArrays of Dask arrays with dimensions ``sample`` and ``class``."""
    names = _names(location, choice, list(map(str, dataset.variables)), "variable")
    check_rows(location.url, max(dataset.sizes.values(), default=0))
    labels, scores = dataset[names.labels[0]], dataset[names.scores[0]]
    if labels.ndim > 2 or (labels.ndim == 2 and {*labels.dims} != {*scores.dims}) or labels.ndim == 0:
        raise ValueError(
            f"{location.url}: variable {labels.name!r} expects one dimension, of samples, or with one-hot labels those "
            f"of {scores.name!r}, {scores.dims}; got {labels.dims}."
        )
    sample = labels.dims[0]
    if sample not in scores.dims:
        raise ValueError(
            f"{location.url}: variable {scores.name!r} expects the dimension {sample!r} of {labels.name!r}, "
            f"got {scores.dims}."
        )
    others = [dim for dim in scores.dims if dim != sample]
    dims = {sample: "sample", **({others[-1]: "class"} if others else {})}
    row_bytes = scores.dtype.itemsize * (scores.size // max(1, scores.sizes[sample]))
    chunks = scores.encoding.get("chunksizes")
    # Without chunks any part of the file can be read alone.
    stored = chunks[scores.dims.index(sample)] if chunks else choice.chunk_rows or TARGET_BYTES // max(1, row_bytes)
    rows = block_rows(scores.sizes[sample], stored, row_bytes, choice.chunk_rows)

    def lazy(variable: Any) -> Any:
        if sample not in variable.dims:
            raise ValueError(f"{location.url}: variable {variable.name!r} expects the dimension {sample!r} of labels.")
        whole = {dim: rows if dim == sample else size for dim, size in variable.sizes.items()}
        check_size(location.url, str(variable.name), variable.shape, [*whole.values()], variable.dtype.itemsize)
        chunked = variable.chunk(whole)
        return chunked.rename({dim: dims[dim] for dim in variable.dims if dims.get(dim, dim) != dim})

    ordered = lazy(scores.transpose(*others[:-1], sample, *others[-1:]))
    return {**choice.collect(lazy(labels), ordered, lambda name: lazy(dataset[name])), "names": names}
