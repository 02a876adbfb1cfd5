"""Chunks of Zarr arrays in folders on this machine, decompressed by the thread that asks for them.

zarr-python sends what all threads read through one event loop, where they wait for one another: two read hardly faster
than one. Here is the common case; all others are left to zarr-python, and so is what cannot be read, for it to say why.

zarrs (0.2.3) takes no stores that are wrapped for checks (`CheckedStore`): without them it reads a missing chunk as the
fill value, without an error, and so does zarr-python; a chunk that is cut short is an error of all three. zarr 3.1 has
no `FusedCodecPipeline`. Of 20 chunks of a million float32 (zstd), in processor time on one and on two threads: this
module 128 and 128 ms, zarr-python 117 and 128 ms, zarrs 104 and 103 ms.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs import blosc, zstd
from zarr.storage import LocalStore

from calibdask.storage.checked_store import CheckedStore, chunk_number, without_checksum
from calibdask.storage.location import is_endless
from calibdask.storage.manifest import ArrayRecord, content_hash

# Decompresses what a chunk holds into an array of its size; whether it was of that size.
Decoder = Callable[[np.ndarray, np.ndarray], bool]


@dataclass(frozen=True)
class ChunkFiles:
    """Files of the chunks of an array.

    Parameters
    ----------
    array : zarr.Array
    root : Path
        The folder of the store.
    decode : function
    summed : bool
        Whether each chunk ends in its checksum.
    record : ArrayRecord or None
        What the manifest of the store says of the array.
    """

    array: Any
    root: Path
    decode: Decoder
    summed: bool
    record: ArrayRecord | None = None

    def read(self, key: tuple[slice, ...]) -> np.ndarray | None:
        """A part of the array, one slice for each dimension; None where it is for zarr-python to read it."""
        if len(key) != self.array.ndim or any(along.step not in (None, 1) for along in key):
            return None
        wanted = [range(size)[along] for along, size in zip(key, self.array.shape, strict=True)]
        values = np.empty([len(along) for along in wanted], self.array.dtype)
        if values.size == 0:
            return values
        numbers = (range(along.start // size, -(-along.stop // size)) for along, size in self._sized(wanted))
        return values if all(self._fill(values, wanted, number) for number in itertools.product(*numbers)) else None

    def _sized(self, along: Iterable[Any]) -> Iterator[tuple[Any, int]]:
        """Something for each dimension, with the size of chunks along it."""
        return zip(along, self.array.chunks, strict=True)

    def _fill(self, values: np.ndarray, wanted: list[range], number: tuple[int, ...]) -> bool:
        """Read the requested part of one chunk; return whether the fast path could read it."""
        covered = [range(index * size, (index + 1) * size) for index, size in self._sized(number)]
        pairs = [*zip(covered, wanted, strict=True)]
        shared = [range(max(one.start, other.start), min(one.stop, other.stop)) for one, other in pairs]
        part = values[_slices(shared, wanted)]
        # Chunks at the end of an array are stored as large as all others.
        if part.shape == self.array.chunks and part.flags.c_contiguous:
            return self._decoded(number, part)
        try:
            chunk = np.empty(self.array.chunks, values.dtype)
        except (MemoryError, ValueError):
            # Chunks may be said to be larger than any memory where hardly anything is in them.
            return False
        readable = self._decoded(number, chunk)
        if readable:
            part[...] = chunk[_slices(shared, covered)]
        return readable

    def _decoded(self, number: tuple[int, ...], chunk: np.ndarray) -> bool:
        path = self.root.joinpath(self.array.path, self.array.metadata.encode_chunk_key(number))
        # What cannot be read or decompressed raises errors of many kinds: zarr-python says what is wrong.
        try:
            if is_endless(path):
                return False
            content = np.frombuffer(path.read_bytes(), np.uint8)
            expected = None if self.record is None else self.record.chunk(self._position(number))
            if expected is not None and content_hash(content) != expected:
                return False
            stored = without_checksum(content) if self.summed else content
            return stored is not None and self.decode(stored, chunk)
        except Exception:
            return False

    def _position(self, number: tuple[int, ...]) -> int:
        grid = tuple(-(-size // chunk) for size, chunk in self._sized(self.array.shape))
        return chunk_number("/".join(map(str, number)), grid)


def chunk_files(array: Any) -> ChunkFiles | None:
    """The files of a Zarr array; None unless it is in a folder, of numbers, and its chunks are simply compressed.

    That is: regular chunks without shards in the order of C, little endian; as they are, or by Blosc or Zstandard; with
    checksums or without.
    """
    store = array.store.unchecked if isinstance(array.store, CheckedStore) else array.store
    simple = array.dtype.kind in "fiub" and array.dtype.isnative and sys.byteorder == "little"
    # A store of another class, even a derived one, may hold its files elsewhere.
    if type(store) is not LocalStore or not simple or array.ndim == 0:
        return None
    described = array.metadata.to_dict()
    codecs = _codecs_of_second(described) if described["zarr_format"] == 2 else _codecs_of_third(described)
    if codecs is None:
        return None
    summed = codecs[-1:] == ["crc32c"]
    record = array.store.record_of(array.path) if isinstance(array.store, CheckedStore) else None
    if record is not None and not summed:
        return None
    decode = _DECODERS.get(tuple(codecs[:-1] if summed else codecs))
    return None if decode is None else ChunkFiles(array, Path(store.root), decode, summed, record)


def _slices(parts: list[range], wholes: list[range]) -> tuple[slice, ...]:
    """Where parts are within wholes."""
    pairs = zip(parts, wholes, strict=True)
    return tuple(slice(part.start - whole.start, part.stop - whole.start) for part, whole in pairs)


def _codecs_of_second(described: Mapping[str, Any]) -> list[str] | None:
    """Names of the codecs that compress, in the second format of Zarr."""
    if described.get("filters") or described.get("order") != "C":
        return None
    compressor = described.get("compressor")
    return [dict(compressor)["id"]] if compressor else []


def _codecs_of_third(described: Mapping[str, Any]) -> list[str] | None:
    """Names of the codecs that compress, in the third format of Zarr."""
    first, *others = described["codecs"]
    endian = first.get("configuration", {}).get("endian", "little")
    if described["chunk_grid"]["name"] != "regular" or described.get("storage_transformers"):
        return None
    return [codec["name"] for codec in others] if (first["name"], endian) == ("bytes", "little") else None


def _stored_as_is(stored: np.ndarray, chunk: np.ndarray) -> bool:
    if stored.size != chunk.nbytes:
        return False
    chunk.reshape(-1).view(np.uint8)[:] = stored
    return True


def _from_blosc(stored: np.ndarray, chunk: np.ndarray) -> bool:
    # Both sizes are at these places of the header (c-blosc, README_CHUNK_FORMAT); an array that is larger would be
    # filled in part, without an error.
    sizes = stored[4:16].view("<u4")
    if (sizes[0], sizes[2]) != (chunk.nbytes, stored.size):
        return False
    blosc.decompress(stored, chunk)
    return True


def _from_zstandard(stored: np.ndarray, chunk: np.ndarray) -> bool:
    # Not into the chunk: it may be larger than what is in the file, which need not say its size.
    return _stored_as_is(np.frombuffer(zstd.decompress(stored), np.uint8), chunk)


_DECODERS: Mapping[tuple[str, ...], Decoder] = {
    (): _stored_as_is,
    ("blosc",): _from_blosc,
    ("zstd",): _from_zstandard,
}
