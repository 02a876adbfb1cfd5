"""Zarr: groups of arrays, checked as they are read, in chunks of the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from calibdask.errors import Damaged, Unavailable
from calibdask.safe_text import listed
from calibdask.storage.array_files import ArrayReader, Arrays
from calibdask.storage.columns import unknown
from calibdask.storage.location import Location, absent_on_worker, read_error
from calibdask.storage.retry import with_retries
from calibdask.storage.row_table import ColumnChoice
from calibdask.storage.writers import texts_settled

if TYPE_CHECKING:
    from calibdask.storage.chunk_files import ChunkFiles


# Attributes of the CF conventions that say how values are made of codes.
_FILLS = ("_FillValue", "missing_value")
_ATTRIBUTES = ("scale_factor", "add_offset", "_Unsigned", *_FILLS)


@dataclass(frozen=True)
class Packing:
    """How values are made of codes: value = code * scale + offset, and NaN where the code is one of ``fills``.

    Parameters
    ----------
    scale, offset : float
    fills : tuple of int
        Codes of missing values.

    Examples
    --------
    >>> Packing(scale=1 / 255).decoded(np.array([0, 51, 255], np.uint8)).tolist()
    [0.0, 0.2, 1.0]
    """

    scale: float = 1.0
    offset: float = 0.0
    fills: tuple[int, ...] = ()

    def decoded(self, codes: np.ndarray) -> np.ndarray:
        """Decoded values as float64, equal to xarray's to the last bit."""
        values = codes.astype(np.float64)
        values *= self.scale
        values += self.offset
        for fill in self.fills:
            values[codes == fill] = np.nan
        return values


def packing_of_scores(location: Location, name: str, array: Any) -> Packing | None:
    """How scores are made of whole numbers, None where they are stored as they are.

    Raises
    ------
    ValueError
        If the attributes are none of whole numbers with a scale or an offset.
    """
    given = _packing(array)
    numbers = (float, int)
    whole = array.dtype.kind in "iu" and "_Unsigned" not in given
    if whole and given.keys() & {"scale_factor", "add_offset"} and all(type(one) in numbers for one in given.values()):
        fills = [given[key] for key in _FILLS if key in given]
        # The second format of Zarr has no other place for the code of what is missing, and xarray reads it as that.
        if array.metadata.zarr_format == 2 and array.fill_value is not None:
            fills.append(int(array.fill_value))
        return Packing(float(given.get("scale_factor", 1)), float(given.get("add_offset", 0)), tuple(fills))
    check_unpacked(location, name, array)
    return None


def check_unpacked(location: Location, name: str, array: Any) -> None:
    """Raise ValueError if an array of Zarr holds codes, which its attributes say how to turn into values."""
    packing = _packing(array)
    if packing:
        shown = listed(f"{key}={value}" for key, value in packing.items())
        raise ValueError(
            f"{location.url}: array {name!r} expects unpacked values, got packed ones ({shown}); decode them and "
            "store them again by xarray (open_zarr(...).load().drop_encoding().to_zarr(...)), or as netCDF."
        )


def _packing(array: Any) -> Mapping[str, Any]:
    """Packing attributes of an array, except NaN as fill value."""
    packing = {key: array.attrs[key] for key in _ATTRIBUTES if key in array.attrs}
    for key in _FILLS:
        if key in packing and array.dtype.kind == "f" and _is_nan(packing[key], array.dtype):
            del packing[key]
    return packing


def _is_nan(fill: Any, dtype: Any) -> bool:
    """Whether the fill value is NaN; xarray stores it as Base64."""
    from xarray.backends.zarr import FillValueCoder

    value = FillValueCoder.decode(fill, dtype) if isinstance(fill, str) and fill != "NaN" else fill
    return bool(np.isnan(float(value)))


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
    try:
        return _opened_group(location)
    except (Unavailable, PermissionError):
        raise
    except ValueError as error:
        # Of a store of periods, all but this can be recovered.
        from calibdask.storage.period_head import check_mark

        check_mark(location, error)
        raise


def _opened_group(location: Location) -> Any:
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
