"""Zarr: groups of arrays, checked as they are read, in chunks of the store."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibdask.errors import Damaged, Unavailable
from calibdask.storage.array_files import ArrayReader, Arrays
from calibdask.storage.columns import unknown
from calibdask.storage.location import ColumnChoice, Location, absent_on_worker, read_error
from calibdask.storage.packing import Packing, check_unpacked, packing_of_scores
from calibdask.storage.retry import with_retries
from calibdask.storage.writers import texts_settled

if TYPE_CHECKING:
    from calibdask.storage.chunk_files import ChunkFiles

# What says that an array is there, in both formats of Zarr.
_METADATA = {2: ".zarray", 3: "zarr.json"}


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
        """Shape of the array."""
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

    @property
    def unit(self) -> tuple[int, ...]:
        """Efficient unit of reading: shards, or else chunks."""
        return tuple(self.array.shards or self.array.chunks)

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
        except Unavailable:
            raise
        except Damaged as error:
            # Of a store that is not there any chunk is missing.
            if absent_on_worker(self.url):
                raise read_error(self.url, error) from error
            raise
        except Exception as error:
            rows = f"rows {key[-1].start} to {key[-1].stop}" if len(key) == 1 else f"part {key}"
            raise read_error(self.url, error, f"array {self.name!r}, {rows}") from error


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


def zarr_reader(node: Any) -> ArrayReader:
    """How the arrays of an open group are read."""
    return ArrayReader("a Zarr group", "array", partial(_arrays, node))


def _arrays(node: Any, location: Location, choice: ColumnChoice) -> Arrays:
    import zarr

    # What calibdask wrote has all of its chunks.
    if choice.missing_chunks == "fill" and not node.store.arrays:
        consolidated = False if location.local else None
        node = zarr.open_group(node.store.unchecked, path=node.path, mode="r", use_consolidated=consolidated)
    # Where folders cannot be listed (http), an array can still be named.
    names, groups = None, []
    if node.store.supports_listing:
        with location.reading("a Zarr group"), location.warning():
            names = sorted(node.array_keys())
            groups = [f"{group}/ (a group)" for group in sorted(node.group_keys())]
    there = ["what cannot be listed here"] if names is None else [*names, *groups]

    def array(name: str, *, is_score: bool = False, is_used: bool = True) -> StoredArray:
        with location.reading("a Zarr group"), location.warning(), texts_settled():
            found = node.get(name)
        if not isinstance(found, zarr.Array):
            raise unknown(location.url, "array", name, there)
        if is_score:
            return StoredArray(found, location.url, found.basename, packing_of_scores(location, name, found))
        if is_used:
            check_unpacked(location, name, found)
        return StoredArray(found, location.url, found.basename)

    def source(name: str) -> Location:
        return location.child(f"{name}/{_METADATA[node[name].metadata.zarr_format]}")

    return Arrays(names, array, source, others=groups)
