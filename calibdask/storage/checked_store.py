"""Zarr stores checked while they are read: corrupted or missing chunks raise an error.

The attributes of a group that calibdask wrote hold its manifest (`calibdask.storage.manifest`): hashes of the metadata
and of all chunks of its arrays. Nothing is read for their sake alone: each file is checked as it is read. Chunks also
end in a checksum of their own (the codec crc32c of Zarr), for readers that do not know the manifest.
"""

import asyncio
import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import google_crc32c
import numpy as np
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.storage import LocalStore, WrapperStore

from calibdask.errors import Damaged
from calibdask.storage.atomic_replace import write_whole
from calibdask.storage.location import is_endless
from calibdask.storage.manifest import (
    IDENTITY,
    MANIFEST,
    ArrayRecord,
    content_hash,
    document_hash,
    is_intact,
    new_identity,
    sealed,
)

if TYPE_CHECKING:
    import xarray as xr
    from zarr.abc.store import ByteRequest, Store
    from zarr.core.buffer import Buffer, BufferPrototype

_FORMAT = 2
_MEND = "copy the store again, or compute it again"
CHUNK_CODECS = (ZstdCodec(), Crc32cCodec())
_METADATA = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"}
_SUM_BYTES = 4


class Chunks:
    """Chunks that a store must have: all of them."""

    mend: ClassVar[str] = _MEND

    async def is_due(self, store: "Store", key: str, prototype: "BufferPrototype") -> bool:
        """Whether a chunk that is not there should be."""
        return True

    async def check(self, store: "Store", key: str, content: np.ndarray, prototype: "BufferPrototype") -> None:
        """Raise ValueError if a chunk, whose own checksum is right, does not belong where it is."""


@dataclass(frozen=True)
class RowChunks(Chunks):
    """All chunks of rows that others wrote, who may have left out those that hold nothing but the fill value."""

    mend: ClassVar[str] = (
        "copy the store again, or give missing_chunks='fill' (--missing-chunks fill) where chunks that were not "
        "written stand for the fill value"
    )


@dataclass(frozen=True)
class AnyChunks(Chunks):
    """Chunks of a summary or a result that xarray wrote: it leaves out those that hold nothing but the fill value."""

    async def is_due(self, store: "Store", key: str, prototype: "BufferPrototype") -> bool:
        """No chunk has to be there."""
        return False


class CheckedStore(WrapperStore["Store"]):
    """A store of Zarr whose files are checked as they are read.

    Parameters
    ----------
    store : zarr.abc.store.Store
    url : str
        The address in messages.
    arrays : mapping from str to ArrayRecord
        What the manifest says of arrays, by their path. Their chunks end in checksums; those of other arrays do not.
    chunks : Chunks
        Which chunks are errors where they are missing.
    """

    # Else pipelines of codecs that read without an event loop (zarr 3.4) would go past `get`, and its checks.
    _supports_sync_io: ClassVar[bool] = False

    def __init__(self, store: "Store", url: str, arrays: Mapping[str, ArrayRecord], chunks: Chunks) -> None:
        super().__init__(store)
        self.url, self.arrays, self.chunks = url, arrays, chunks
        self._verified: dict[str, Buffer] | None = None
        self._grids: dict[str, tuple[int, ...]] = {}

    def _with_store(self, store: "Store") -> "CheckedStore":
        return type(self)(store, self.url, self.arrays, self.chunks)

    def with_chunks(self, chunks: Chunks) -> "CheckedStore":
        """The store with other required chunks."""
        other = type(self)(self._store, self.url, self.arrays, chunks)
        other._verified = self._verified
        return other

    @property
    def unchecked(self) -> "Store":
        """The unchecked store, in which missing chunks read as the fill value."""
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
        if key.rpartition("/")[2] in _METADATA:
            return await self._metadata(key, prototype)
        value = await self._file(key, prototype, byte_range)
        if value is None:
            if not await self.chunks.is_due(self._store, key, prototype):
                return None
            # It may have been written since.
            value = await self._file(key, prototype, byte_range)
            if value is None:
                raise Damaged(f"{self.url} is incomplete: the chunk {key} is missing; {self.chunks.mend}.")
        name = self._array_of(key)
        if byte_range is None and name is not None:
            content = np.asarray(value.as_numpy_array(), np.uint8)
            expected = await self._expected(name, key, prototype)
            if content_hash(content) != expected if expected is not None else without_checksum(content) is None:
                raise Damaged(self._changed(f"chunk {key}"))
            try:
                await self.chunks.check(self._store, key, content, prototype)
            except ValueError as error:
                raise Damaged(f"{self.url} is damaged: {error}; {self.chunks.mend}.") from None
        return value

    async def _metadata(self, key: str, prototype: "BufferPrototype") -> "Buffer | None":
        # All at once and before anything else: groups are listed by tasks whose errors nobody waits for.
        if self._verified is None:
            self._verified = await self._verify(prototype)
        value = self._verified.get(key)
        if value is None:
            value = await self._file(key, prototype)
        return value

    async def _file(
        self, key: str, prototype: "BufferPrototype", byte_range: "ByteRequest | None" = None
    ) -> "Buffer | None":
        """The file of a key as it is, unless reading it may never end."""
        if isinstance(self._store, LocalStore) and is_endless(self._store.root / key):
            raise Damaged(f"{self.url}/{key} is a pipe, a socket or a device; copy its contents to a file first.")
        return await self._store.get(key, prototype, byte_range)

    async def _verify(self, prototype: "BufferPrototype") -> "dict[str, Buffer]":
        """The metadata of all arrays that the manifest lists, compared with their hashes."""
        sums = {f"{name}/zarr.json": record.metadata for name, record in self.arrays.items()}
        sums = {key: expected for key, expected in sums.items() if expected is not None}
        found = await asyncio.gather(*(self._file(key, prototype) for key in sums))
        for (key, expected), value in zip(sums.items(), found, strict=True):
            if value is None:
                raise Damaged(f"{self.url} is incomplete: {key} is missing; {self.chunks.mend}.")
            content = value.to_bytes()
            if (zlib.crc32(content) if isinstance(expected, int) else content_hash(content)) != expected:
                raise Damaged(self._changed(key))
        return {key: value for key, value in zip(sums, found, strict=True) if value is not None}

    async def _expected(self, name: str, key: str, prototype: "BufferPrototype") -> str | None:
        """The hash of a chunk in the manifest."""
        record = self.arrays[name]
        if record.chunks is None:
            return None
        if name not in self._grids:
            metadata = await self._metadata(f"{name}/zarr.json", prototype)
            self._grids[name] = grid_of(json.loads(metadata.to_bytes() if metadata is not None else b"{}"))
        return record.chunk(chunk_number(key.removeprefix(f"{name}/c").strip("/"), self._grids[name]))

    def _array_of(self, key: str) -> str | None:
        """The array with a record that the file of a key belongs to."""
        parts = key.split("/")
        paths = ("/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
        return next((path for path in paths if path in self.arrays), None)

    def record_of(self, name: str) -> ArrayRecord | None:
        """Manifest record of an array, or None."""
        return self.arrays.get(name)

    def _changed(self, what: str) -> str:
        return f"{self.url} is damaged: the {what} is not what was written; {_MEND}."


def grid_of(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """The number of chunks along each dimension of an array of Zarr, by its metadata."""
    sizes = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    return tuple(-(-size // max(1, chunk)) for size, chunk in zip(metadata["shape"], sizes, strict=True))


def chunk_number(key: str, grid: tuple[int, ...]) -> int:
    """The number of a chunk, counted along the last dimension first.

    Examples
    --------
    >>> chunk_number("1/0", (2, 3)), chunk_number("", ())
    (3, 0)
    """
    number = 0
    for index, size in zip(key.split("/") if key else (), grid, strict=True):
        number = number * size + int(index)
    return number


def without_checksum(content: np.ndarray) -> np.ndarray | None:
    """The bytes before the checksum that a file ends in; None where they have another."""
    before, checksum = content[:-_SUM_BYTES], content[-_SUM_BYTES:]
    expected = int.from_bytes(checksum.tobytes(), "little")
    return before if len(content) >= _SUM_BYTES and google_crc32c.value(before) == expected else None


def with_checksum(content: bytes) -> bytes:
    """The bytes of a file, followed by the checksum that `without_checksum` expects."""
    return content + int(google_crc32c.value(content)).to_bytes(_SUM_BYTES, "little")


@dataclass(frozen=True)
class GroupManifest:
    """The manifest of a Zarr group, as its attribute holds it.

    Parameters
    ----------
    store : str
        The identity of the store; empty in stores of earlier versions.
    arrays : mapping from str to ArrayRecord
        By the path of the array in the group.
    """

    store: str
    arrays: Mapping[str, ArrayRecord]

    @classmethod
    def of(cls, url: str, attributes: Mapping[str, Any]) -> "GroupManifest | None":
        """The manifest in the attributes of a group, after these were compared with its hash; None without one.

        Raises
        ------
        Damaged
            If the attributes differ from what was written.
        """
        document = attributes.get(MANIFEST)
        if document is None:
            return None
        try:
            if "format" in document:
                _check_attributes(attributes, document)
                chunks = document["chunks"]
                records = {
                    name: ArrayRecord(metadata, chunks.get(name)) for name, metadata in document["arrays"].items()
                }
                return cls(document["store"], records)
            # Earlier versions wrote CRC-32 checksums of the metadata, and none of chunks.
            if document["attributes"] != zlib.crc32(json.dumps(_plain(attributes), sort_keys=True).encode()):
                raise ValueError
            return cls("", {name: ArrayRecord(int(metadata)) for name, metadata in document["arrays"].items()})
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Damaged(f"{url} is damaged: its attributes are not what was written; {_MEND}.") from None

    def with_attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes of the group together with the manifest, which has a hash over all of them."""
        records = sorted(self.arrays.items())
        document = {
            "format": _FORMAT,
            "store": self.store,
            "arrays": {name: record.metadata for name, record in records},
            "chunks": {name: record.chunks for name, record in records if record.chunks is not None},
            "attributes": document_hash(_plain(attributes)),
        }
        return {**_plain(attributes), MANIFEST: sealed(document)}


def _check_attributes(attributes: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    if not is_intact(document) or document["attributes"] != document_hash(_plain(attributes)):
        raise ValueError
    if document["format"] != _FORMAT:
        raise ValueError


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name != MANIFEST}


def seal(folder: Path, store: str | None = None, chunks: Mapping[str, str] | None = None) -> None:
    """Write the manifest into a store on this machine: the last file that is written.

    Parameters
    ----------
    folder : Path
    store : str, optional
        The identity; None: a random one.
    chunks : mapping from str to str, optional
        The hashes of the chunks of each array, joined, where they were taken as the chunks were written.
    """
    identity, known = store or new_identity(), chunks or {}
    paths = {path.parent.name: path for path in sorted(folder.glob("*/zarr.json"))}
    records = {name: _sealed_array(path, identity, known.get(name)) for name, path in paths.items()}
    own = folder / "zarr.json"
    group = json.loads(own.read_text(encoding="utf-8"))
    group["attributes"] = GroupManifest(identity, records).with_attributes(group["attributes"])
    write_whole(own, _as_file(group))


def sealed_group(
    group: Mapping[str, Any], arrays: Mapping[str, Mapping[str, Any]], chunks: Mapping[str, Iterable[bytes]]
) -> dict[str, bytes]:
    """The files of metadata of a new group and its arrays, as `seal` leaves them; that with the manifest comes last.

    Parameters
    ----------
    group : mapping
        Metadata of the group.
    arrays : mapping from str to mapping
        Metadata of its arrays.
    chunks : mapping from str to iterable of bytes
        The files of the chunks of each array, in the order of their numbers.
    """
    identity = new_identity()
    # Without line breaks, which take most of the time.
    files = {name: json.dumps(_identified(metadata, identity)).encode() for name, metadata in arrays.items()}
    records = {
        name: ArrayRecord(content_hash(content), "".join(map(content_hash, chunks[name])))
        for name, content in files.items()
    }
    attributes = GroupManifest(identity, records).with_attributes(group["attributes"])
    paths = {f"{name}/zarr.json": content for name, content in files.items()}
    return {**paths, "zarr.json": json.dumps({**group, "attributes": attributes}).encode()}


def _as_file(metadata: Mapping[str, Any]) -> bytes:
    return json.dumps(metadata, indent=2).encode()


def _identified(metadata: Mapping[str, Any], identity: str) -> dict[str, Any]:
    # Not an attribute, which xarray would copy into every selection. Readers ignore a field that they need not know.
    return {**metadata, IDENTITY: {"must_understand": False, "identity": identity}}


def _sealed_array(path: Path, identity: str, known: str | None) -> ArrayRecord:
    """Write the identity into the metadata of an array; the hashes of its metadata and chunks."""
    metadata = _identified(json.loads(path.read_text(encoding="utf-8")), identity)
    content = _as_file(metadata)
    write_whole(path, content)
    if known is None:
        chunks = (path.parent.joinpath("c", *number) for number in chunk_numbers(grid_of(metadata)))
        known = "".join(content_hash(chunk.read_bytes()) for chunk in chunks)
    return ArrayRecord(content_hash(content), known)


def chunk_numbers(grid: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    """The chunk numbers of an array in order, formatted as in the names of chunk files."""
    return itertools.product(*(map(str, range(size)) for size in grid))


def summed_encoding(dataset: "xr.Dataset") -> dict[Any, dict[str, Any]]:
    """How xarray is to write variables with checksums of their chunks.

    Missing chunks of integers read as the smallest ones, which no count is: even where a store is read without checks.
    """
    encoding: dict[Any, dict[str, Any]] = {name: {"compressors": CHUNK_CODECS} for name in dataset.variables}
    for name, variable in dataset.variables.items():
        if variable.dtype.kind == "i":
            encoding[name]["fill_value"] = int(np.iinfo(variable.dtype).min)
    return encoding
