"""Chunks of Zarr that are read without its event loop: the same numbers to the last bit, and the same errors."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numcodecs import GZip
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.storage import LocalStore, MemoryStore

import calibdask as cd
from calibdask.errors import Damaged
from calibdask.storage.checked_store import CheckedStore, Chunks
from calibdask.storage.chunk_files import ChunkFiles, chunk_files
from calibdask.storage.manifest import ArrayRecord
from calibdask.storage.zarr_files import StoredArray

COMPRESSIONS: dict[str, tuple[Any, ...]] = {
    "none": (),
    "blosc": (BloscCodec(cname="lz4", shuffle="bitshuffle"),),
    "blosc-zstd": (BloscCodec(),),
    "zstd": (ZstdCodec(),),
    "summed": (Crc32cCodec(),),
    "zstd-summed": (ZstdCodec(), Crc32cCodec()),
    "blosc-summed": (BloscCodec(), Crc32cCodec()),
}
VALUES = np.random.default_rng(27).random((11, 4)).astype(np.float32)


def stored(folder: Path | str, values: np.ndarray = VALUES, chunks: tuple[int, ...] = (4, 4), **options: Any) -> Any:
    group = zarr.create_group(folder, overwrite=True, zarr_format=options.pop("zarr_format", 3))
    # Else chunks that hold nothing but zeros would not be written.
    config = {"write_empty_chunks": True}
    array = group.create_array(
        "scores", shape=values.shape, dtype=values.dtype, chunks=chunks, config=config, **options
    )
    array[...] = values
    return array


def files(array: Any) -> ChunkFiles:
    found = chunk_files(array)
    assert found is not None
    return found


@st.composite
def parts(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...], tuple[slice, ...]]:
    """Values, the shape of their chunks, and which of them to read."""
    shape = draw(npst.array_shapes(max_dims=3, max_side=9))
    dtype = draw(st.sampled_from(["f2", "f4", "f8", "i1", "u1", "u2", "i4", "i8", "b1"]))
    values = draw(npst.arrays(dtype, shape, fill=st.nothing()))
    chunks = tuple(draw(st.integers(1, size + 2)) for size in shape)
    ends = [sorted(draw(st.lists(st.integers(0, size), min_size=2, max_size=2))) for size in shape]
    return values, chunks, tuple(slice(start, stop) for start, stop in ends)


@settings(deadline=None)
@given(part=parts(), compression=st.sampled_from([*COMPRESSIONS]))
def test_what_zarr_reads(part: tuple[np.ndarray, tuple[int, ...], tuple[slice, ...]], compression: str) -> None:
    values, chunks, key = part
    with tempfile.TemporaryDirectory() as folder:
        array = stored(folder, values, chunks, compressors=COMPRESSIONS[compression])
        read = files(array).read(key)
        assert read is not None
        expected = np.asarray(array[key])
        assert (read.dtype, read.shape) == (expected.dtype, expected.shape)
        assert read.tobytes() == expected.tobytes() == values[key].tobytes()


@pytest.mark.parametrize("separator", [".", "/"])
def test_the_second_format(separator: Any, tmp_path: Path) -> None:
    encoding = {"name": "v2", "separator": separator}
    array = stored(tmp_path, zarr_format=2, chunk_key_encoding=encoding)
    read = files(array).read((slice(2, 9), slice(None)))
    assert read is not None
    np.testing.assert_array_equal(read, VALUES[2:9])


def test_no_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = StoredArray(stored(tmp_path), str(tmp_path), "scores")

    async def refused(*_: Any) -> None:
        raise AssertionError("read through the event loop")

    monkeypatch.setattr(LocalStore, "get", refused)
    np.testing.assert_array_equal(array[:, 1:3], VALUES[:, 1:3])


def test_other_arrays_are_left_to_zarr(tmp_path: Path) -> None:
    others = {
        "shards": {"shards": (8, 4)},
        "gzip": {"compressors": GzipCodec()},
        "transposed": {"filters": TransposeCodec(order=(1, 0))},
        "big endian": {"serializer": BytesCodec(endian="big")},
        "twice": {"compressors": (BloscCodec(), ZstdCodec())},
        "gzip of the second format": {"zarr_format": 2, "compressors": GZip()},
        "order of Fortran": {"zarr_format": 2, "order": "F"},
    }
    for name, options in others.items():
        array = stored(tmp_path / name, **options)
        assert chunk_files(array) is None, name
        np.testing.assert_array_equal(StoredArray(array, str(tmp_path), "scores")[:3, :], VALUES[:3])
    in_memory = zarr.create_array(MemoryStore(), data=VALUES, chunks=(4, 4))
    no_numbers = zarr.create_array(tmp_path / "complex", data=VALUES.astype(np.complex64))
    single = zarr.create_array(tmp_path / "single", data=np.array(1.0))
    assert [chunk_files(array) for array in (in_memory, no_numbers, single)] == [None] * 3


def test_chunks_that_should_have_checksums_are_left_to_zarr(tmp_path: Path) -> None:
    stored(tmp_path)
    for arrays, expected in (({"scores": ArrayRecord(None)}, None), ({"others": ArrayRecord(None)}, VALUES)):
        checked = CheckedStore(LocalStore(tmp_path), "rows", arrays, Chunks())
        array = StoredArray(zarr.open_array(checked, path="scores", mode="r"), "rows", "scores")
        if expected is None:
            with pytest.raises(Damaged, match="chunk scores/c/0/0 is not what was written"):
                array[:4, :]
        else:
            np.testing.assert_array_equal(array[:, :], expected)


def test_chunks_larger_than_memory_are_left_to_zarr(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path)
    array = group.create_array("scores", shape=(10,), chunks=(10**15,), dtype="float64", fill_value=0.5)
    np.testing.assert_array_equal(StoredArray(array, "rows", "scores")[2:4,], [0.5, 0.5])


def test_steps_are_left_to_zarr(tmp_path: Path) -> None:
    array = stored(tmp_path)
    assert files(array).read((slice(None, None, 2), slice(None))) is None
    np.testing.assert_array_equal(StoredArray(array, "", "scores")[::2, :], VALUES[::2])


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_damage_is_for_zarr_to_name(compression: str, tmp_path: Path) -> None:
    """What is read of a damaged chunk is never what happened to be in memory."""
    array = stored(tmp_path / "rows", compressors=COMPRESSIONS[compression])
    chunk = tmp_path / "rows" / "scores" / "c" / "1" / "0"
    other = stored(tmp_path / "other", VALUES[:, :2], (4, 2), compressors=COMPRESSIONS[compression])
    content = chunk.read_bytes()
    harmed = {
        "cut": content[:-5],
        "longer": content + b"12345",
        "another shape": Path(other.store.root, "scores", "c", "1", "0").read_bytes(),
        "nothing": b"",
        "no file": None,
    }
    for harm, damaged in harmed.items():
        chunk.unlink() if damaged is None else chunk.write_bytes(damaged)
        assert files(array).read((slice(None), slice(None))) is None, harm
        whole = files(array).read((slice(0, 4), slice(None)))
        assert whole is not None
        np.testing.assert_array_equal(whole, VALUES[:4])


@pytest.mark.parametrize("place", [0, 7, 20, -1])
def test_a_flipped_bit_of_a_summed_chunk(place: int, tmp_path: Path) -> None:
    array = stored(tmp_path, compressors=COMPRESSIONS["zstd-summed"])
    chunk = tmp_path / "scores" / "c" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    content[place] ^= 1
    chunk.write_bytes(content)
    assert files(array).read((slice(0, 4), slice(None))) is None


def test_checks_hold_in_every_pipeline(tmp_path: Path) -> None:
    """Some pipelines of zarr-python read stores without awaiting them."""
    path = tmp_path / "rows.zarr"
    group = zarr.create_group(path)
    group.create_array("labels", data=np.arange(11) % 4, chunks=(4,), compressors=GzipCodec())
    group.create_array("scores", data=VALUES / VALUES.sum(1, keepdims=True), chunks=(4, 4), compressors=GzipCodec())
    (path / "scores" / "c" / "1" / "0").unlink()
    pipelines = [
        name for name in ("BatchedCodecPipeline", "FusedCodecPipeline") if hasattr(zarr.core.codec_pipeline, name)
    ]
    for pipeline in pipelines:
        with (
            zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}"}),
            pytest.raises(ValueError, match="chunk scores/c/1/0 is missing"),
        ):
            cd.read_rows(str(path)).scores.compute()
