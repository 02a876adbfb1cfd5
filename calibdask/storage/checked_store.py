"""Zarr stores that are checked as they are read: what is damaged or missing is an error, never another number.

What calibdask writes carries checksums: of each chunk its own, at its end (the codec crc32c of Zarr), of the metadata
one in the attributes of the group. Nothing is read for their sake alone: each is checked as its file is read.
"""

import asyncio
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import google_crc32c
import numpy as np
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.storage import LocalStore, WrapperStore

from calibdask.errors import Damaged
from calibdask.storage.location import is_endless

if TYPE_CHECKING:
    import xarray as xr
    from zarr.abc.store import ByteRequest, Store
    from zarr.core.buffer import Buffer, BufferPrototype

# The attribute of a group that holds the checksums. xarray does not pass on attributes that begin like this: what is
# selected from a store and written elsewhere does not claim to be the store.
CHECKS = "_nc_calibdask_checksums"
CHUNK_CODECS = (ZstdCodec(), Crc32cCodec())
_METADATA = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}
_SUM_BYTES = 4


class Chunks:
    """Which chunks a store has to have: all of them."""

    mend: ClassVar[str] = "copy the store again, or compute it again"

    async def is_due(self, store: "Store", key: str, prototype: "BufferPrototype") -> bool:
        """Whether a chunk that is not there should be."""
        return True


@dataclass(frozen=True)
class RowChunks(Chunks):
    """All chunks of rows that others wrote, who may have left out those that hold nothing but the fill value."""

    mend: ClassVar[str] = (
        "copy the store again, or give missing_chunks='fill' (--missing-chunks fill) where chunks that were not "
        "written stand for the fill value"
    )


class CheckedStore(WrapperStore["Store"]):
    """A store of Zarr whose files are checked as they are read.

    Parameters
    ----------
    store : zarr.abc.store.Store
    url : str
        What messages call it.
    arrays : mapping from str to int
        Checksums of the metadata of arrays, by their path; None: not checked. Their chunks end in checksums; those of
        other arrays do not.
    chunks : Chunks
        Which chunks are errors where they are missing.
    """

    # Else pipelines of codecs that read without an event loop (zarr 3.4) would go past `get`, and its checks.
    _supports_sync_io: ClassVar[bool] = False

    def __init__(self, store: "Store", url: str, arrays: Mapping[str, int | None], chunks: Chunks) -> None:
        super().__init__(store)
        self.url, self.arrays, self.chunks = url, arrays, chunks
        self._verified: dict[str, Buffer] | None = None

    def _with_store(self, store: "Store") -> "CheckedStore":
        return type(self)(store, self.url, self.arrays, self.chunks)

    def with_chunks(self, chunks: Chunks) -> "CheckedStore":
        """The same store, of which other chunks are errors where they are missing."""
        other = type(self)(self._store, self.url, self.arrays, chunks)
        other._verified = self._verified
        return other

    @property
    def unchecked(self) -> "Store":
        """The store itself, of which missing chunks are the fill value."""
        return self._store

    async def get(
        self, key: str, prototype: "BufferPrototype", byte_range: "ByteRequest | None" = None
    ) -> "Buffer | None":
        """The file of a key; None if it is not there and need not be.

        Raises
        ------
        Damaged
            If it should be there, or differs from what was written.
        """
        if isinstance(self._store, LocalStore) and is_endless(self._store.root / key):
            raise Damaged(f"{self.url}/{key} is a pipe, a socket or a device; copy what it gives to a file first.")
        if key.rpartition("/")[2] in _METADATA:
            return await self._metadata(key, prototype)
        value = await self._store.get(key, prototype, byte_range)
        if value is None:
            if not await self.chunks.is_due(self._store, key, prototype):
                return None
            # It may have been written since.
            value = await self._store.get(key, prototype, byte_range)
            if value is None:
                raise Damaged(f"{self.url} is not whole: the chunk {key} is missing; {self.chunks.mend}.")
        if byte_range is None and self.is_summed(key):
            content = np.asarray(value.as_numpy_array(), np.uint8)
            if without_checksum(content) is None:
                raise Damaged(self._changed(f"chunk {key}"))
        return value

    async def _metadata(self, key: str, prototype: "BufferPrototype") -> "Buffer | None":
        # All at once and before anything else: groups are listed by tasks whose errors nobody waits for.
        if self._verified is None:
            self._verified = await self._verify(prototype)
        known = self._verified.get(key)
        return await self._store.get(key, prototype) if known is None else known

    async def _verify(self, prototype: "BufferPrototype") -> "dict[str, Buffer]":
        """The metadata of all arrays with checksums, held against them."""
        sums = {f"{name}/zarr.json": expected for name, expected in self.arrays.items() if expected is not None}
        found = await asyncio.gather(*(self._store.get(key, prototype) for key in sums))
        for (key, expected), value in zip(sums.items(), found, strict=True):
            if value is None:
                raise Damaged(f"{self.url} is not whole: {key} is missing; {self.chunks.mend}.")
            if zlib.crc32(value.to_bytes()) != expected:
                raise Damaged(self._changed(key))
        return {key: value for key, value in zip(sums, found, strict=True) if value is not None}

    def is_summed(self, key: str) -> bool:
        """Whether the file of a key ends in its checksum, as that of a chunk of an array with one."""
        parts = key.split("/")
        return any("/".join(parts[:end]) in self.arrays for end in range(1, len(parts)))

    def _changed(self, what: str) -> str:
        return f"{self.url} is damaged: the {what} is not what was written; copy the store again, or compute it again."


def without_checksum(content: np.ndarray) -> np.ndarray | None:
    """The bytes before the checksum that a file ends in; None where they have another."""
    before, checksum = content[:-_SUM_BYTES], content[-_SUM_BYTES:]
    expected = int.from_bytes(checksum.tobytes(), "little")
    return before if len(content) >= _SUM_BYTES and google_crc32c.value(before) == expected else None


def checks(attributes: Mapping[str, Any], arrays: Mapping[str, bytes]) -> dict[str, Any]:
    """The checksums of other attributes of a group, and of the metadata of its arrays, by their path."""
    return {
        "attributes": _sum_of(attributes),
        "arrays": {name: zlib.crc32(metadata) for name, metadata in sorted(arrays.items())},
    }


def check_attributes(url: str, attributes: Mapping[str, Any]) -> dict[str, int] | None:
    """The checksums of a group, after its attributes were held against them; None for a group without.

    Raises
    ------
    Damaged
        If the attributes are others than those that were written.
    """
    known = attributes.get(CHECKS)
    if known is None:
        return None
    if _sum_of(attributes) != known.get("attributes"):
        raise Damaged(
            f"{url} is damaged: its attributes are not what was written; copy the store again, or compute it again."
        )
    return {name: int(value) for name, value in known["arrays"].items()}


def seal(folder: Path) -> None:
    """Write the checksums of the metadata into a store on this machine."""
    own = folder / "zarr.json"
    group = json.loads(own.read_text(encoding="utf-8"))
    arrays = {path.parent.name: path.read_bytes() for path in folder.glob("*/zarr.json")}
    group["attributes"][CHECKS] = checks(group["attributes"], arrays)
    begun = own.with_suffix(".new")
    begun.write_text(json.dumps(group, indent=2), encoding="utf-8")
    begun.replace(own)


def summed_encoding(dataset: "xr.Dataset") -> dict[Any, dict[str, Any]]:
    """How xarray is to write variables with checksums of their chunks.

    Missing chunks of integers read as the smallest ones, which no count is: even where a store is read without checks.
    """
    encoding: dict[Any, dict[str, Any]] = {name: {"compressors": CHUNK_CODECS} for name in dataset.variables}
    for name, variable in dataset.variables.items():
        if variable.dtype.kind == "i":
            encoding[name]["fill_value"] = int(np.iinfo(variable.dtype).min)
    return encoding


def _sum_of(attributes: Mapping[str, Any]) -> int:
    own = {name: value for name, value in attributes.items() if name != CHECKS}
    return zlib.crc32(json.dumps(own, sort_keys=True).encode())
