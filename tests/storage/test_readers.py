"""Readers: the same rows from every format, lazily, and one clear sentence for everything that is wrong."""

import datetime
import pickle
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import fsspec
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import calibdask as cd
from calibdask.storage import column_files, csv_files
from calibdask.storage.open_store import read_rows
from calibdask.storage.row_table import RowTable
from calibdask.storage.sizes import block_rows
from tests.storage.written_rows import CLASSES, COUNTRY, DAY, LABELS, SCORES, WEIGHTS, frame, write_all, write_zarr

FORMATS = [
    "rows.npz",
    "rows.zarr",
    "rows.nc",
    "rows3.nc",
    "rows.parquet",
    "parts.parquet",
    "plain",
    "rows.csv",
    "rows.csv.gz",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def expected() -> xr.Dataset:
    return cd.evaluate(LABELS, SCORES, panel(), by={"country": COUNTRY, "day": DAY}, sample_weight=WEIGHTS)


def panel() -> dict[str, Any]:
    return {"ece": cd.ECE(), "classwise": cd.ECE(setting="classwise", binning="equal-mass"), "brier": cd.BrierScore()}


def check(table: RowTable, expected: xr.Dataset) -> None:
    plain = cd.evaluate(table.labels, table.scores, panel())
    xr.testing.assert_identical(plain, cd.evaluate(LABELS, SCORES, panel()))
    sliced = cd.evaluate(table.labels, table.scores, panel(), by=table.by, sample_weight=table.weights)
    for name in expected:
        np.testing.assert_allclose(sliced[name], expected[name], rtol=1e-12)
    assert (table.vector, table.classes) == (False, CLASSES)


@pytest.mark.parametrize("name", FORMATS)
def test_same_rows_from_every_format(name: str, folder: Path, expected: xr.Dataset) -> None:
    table = read_rows(str(folder / name), by=["country", "day"], weight="w")
    check(table, expected)
    assert table.classes == CLASSES


@pytest.mark.parametrize("name", ["rows.npz", "rows.zarr", "rows.nc", "parts.parquet", "rows.csv.gz"])
def test_same_rows_from_urls(name: str, folder: Path, expected: xr.Dataset) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(folder / name), f"/rows/{name}", recursive=True)
    try:
        check(read_rows(f"memory://rows/{name}", by=["country", "day"], weight="w"), expected)
    finally:
        memory.rm("/rows", recursive=True)


def test_large_csv_in_blocks(folder: Path, expected: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", 5000)
    monkeypatch.setattr(csv_files, "_CSV_SAMPLE_BYTES", 500)
    table = read_rows(str(folder / "rows.csv"), by=["country", "day"], weight="w")
    assert table.scores.numblocks[0] > 5
    check(table, expected)


def test_row_numbers_in_csv_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", 5000)
    table = frame()
    table.loc[437, "score_1"] = np.nan
    table.to_csv(tmp_path / "rows.csv", index=False)
    rows = read_rows(str(tmp_path / "rows.csv"))
    with pytest.raises(ValueError, match="first is row 437"):
        cd.ece(rows.labels, rows.scores)


@pytest.mark.parametrize("name", ["rows.zarr", "rows.parquet", "rows.nc"])
def test_lazy_and_picklable(name: str, folder: Path) -> None:
    table = read_rows(str(folder / name), by=["day"], weight="w")
    for array in (table.labels, table.scores, table.weights, *table.by.values()):
        data = array.data if isinstance(array, xr.DataArray) else array
        assert isinstance(data, da.Array)
        again = pickle.loads(pickle.dumps(data))
        np.testing.assert_array_equal(again.compute(), data.compute())


def test_chunks_of_the_store(folder: Path) -> None:
    assert read_rows(str(folder / "rows.zarr")).scores.chunks[0] == (50,) * 12
    assert read_rows(str(folder / "rows.zarr"), chunk_rows=120).scores.chunks[0] == (100,) * 6
    assert read_rows(str(folder / "rows.parquet")).scores.chunks[0] == (100,) * 6
    assert read_rows(str(folder / "rows.parquet"), chunk_rows=250).scores.chunks[0] == (200,) * 3
    assert read_rows(str(folder / "rows.nc")).scores.chunksizes["sample"] == (100,) * 6
    assert read_rows(str(folder / "rows3.nc"), chunk_rows=300).scores.chunksizes["sample"] == (300, 300)


def test_small_chunks_are_taken_together() -> None:
    assert block_rows(600, 50, 24, None) == 50
    assert block_rows(100_000_000, 1000, 40, None) == 419_000
    assert block_rows(1_000_000, 1_000_000, 80, None) == 1_000_000
    assert block_rows(1000, 100, 8, 1) == 100


def test_each_block_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    load = column_files.block_arrays

    def counting(*arguments: Any) -> Any:
        loaded.append(arguments)
        return load(*arguments)

    monkeypatch.setattr(column_files, "block_arrays", counting)
    table = read_rows(str(folder / "rows.parquet"), by=["day"], weight="w")
    cd.evaluate(table.labels, table.scores, cd.ECE(), sample_weight=table.weights)
    assert len(loaded) == 6


def test_other_names(tmp_path: Path) -> None:
    pd.DataFrame({"y": LABELS > 0, "p": SCORES[:, 0]}).to_csv(tmp_path / "rows.csv", index=False)
    table = read_rows(str(tmp_path / "rows.csv"), label="y", score="p")
    assert table.vector
    assert cd.ece(table.labels, table.scores) == cd.ece(LABELS > 0, SCORES[:, 0])
    np.savez(tmp_path / "rows.npz", y=LABELS, p=SCORES)
    np.testing.assert_array_equal(read_rows(str(tmp_path / "rows.npz"), label="y", score="p").scores, SCORES)


def test_groups_inside_a_store(tmp_path: Path, folder: Path) -> None:
    root = zarr.open_group(tmp_path / "all.zarr", mode="w")
    root.create_group("digits")
    write_zarr(tmp_path / "all.zarr" / "digits" / "forest", {"labels": LABELS, "scores": SCORES})
    check_plain(read_rows(str(tmp_path / "all.zarr" / "digits" / "forest")))
    write_zarr(tmp_path / "store", {"labels": LABELS, "scores": SCORES})
    check_plain(read_rows(str(tmp_path / "store")))
    with pytest.raises(ValueError, match=r"has no array 'labels'; it has digits/ \(a group\)"):
        read_rows(str(tmp_path / "all.zarr"))


def check_plain(table: RowTable) -> None:
    assert cd.ece(table.labels, table.scores) == cd.ece(LABELS, SCORES)


def test_zarr_version_2_shards_and_class_chunks(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "two.zarr", mode="w", zarr_format=2)
    group.create_array("labels", data=LABELS, chunks=(600,))
    group.create_array("scores", data=SCORES.astype(np.float32), chunks=(100, 2))
    table = read_rows(str(tmp_path / "two.zarr"))
    assert cd.ece(table.labels, table.scores) == cd.ece(LABELS, SCORES.astype(np.float32))
    group = zarr.open_group(tmp_path / "shards.zarr", mode="w")
    group.create_array("labels", data=LABELS, chunks=(50,), shards=(200,))
    group.create_array("scores", data=SCORES, chunks=(50, 3), shards=(200, 3))
    table = read_rows(str(tmp_path / "shards.zarr"))
    assert table.scores.chunks[0] == (200,) * 3
    check_plain(table)


def test_models_in_a_store(tmp_path: Path) -> None:
    write_zarr(tmp_path / "rows.zarr", {"labels": LABELS}, chunk=60)
    both = np.stack([SCORES, SCORES[:, ::-1]])
    zarr.open_group(tmp_path / "rows.zarr", mode="a").create_array("scores", data=both, chunks=(1, 120, 3))
    table = read_rows(str(tmp_path / "rows.zarr"))
    np.testing.assert_array_equal(cd.ece(table.labels, table.scores), cd.ece(LABELS, both))


def test_netcdf_dimensions_in_any_order(tmp_path: Path) -> None:
    dataset = xr.Dataset({"labels": ("row", LABELS), "scores": (("kind", "row"), SCORES.T)}, {"kind": list("abc")})
    dataset.to_netcdf(tmp_path / "rows.nc", engine="h5netcdf")
    table = read_rows(str(tmp_path / "rows.nc"))
    result = cd.evaluate(table.labels, table.scores, cd.ReliabilityDiagram(setting="classwise"))
    assert result["class"].values.tolist() == ["a", "b", "c"]


def test_parquet_types(tmp_path: Path) -> None:
    table = frame().assign(
        label=pd.array(LABELS, "Int8"),
        country=pd.Categorical(COUNTRY),
        day=[datetime.date(2024, 1, day) for day in DAY],
        flag=pd.array(DAY > 1, "boolean"),
    )
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=250, index=False)
    read_back = read_rows(str(tmp_path / "rows.parquet"), by=["country", "day", "flag"])
    result = cd.evaluate(read_back.labels, read_back.scores, cd.ECE(), by=read_back.by)
    assert result["country"].values.tolist() == ["de", "fr", "it"]
    assert result.sizes["day"] == 3
    assert result["flag"].values.tolist() == [False, True]


def test_parquet_partitions_are_columns(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "rows.parquet", partition_cols=["country"], index=False)
    table = read_rows(str(tmp_path / "rows.parquet"), by=["country"])
    expected = cd.ece(LABELS, SCORES, by=COUNTRY)
    np.testing.assert_array_equal(cd.ece(table.labels, table.scores, by=table.by), expected)


def test_missing_numbers_become_errors_with_their_row(tmp_path: Path) -> None:
    labels = pd.array(LABELS, "Int64")
    labels[123] = pd.NA
    frame().assign(label=labels).to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    table = read_rows(str(tmp_path / "rows.parquet"))
    with pytest.raises(ValueError, match="first is row 123 with label nan"):
        cd.ece(table.labels, table.scores)
    table = read_rows(str(tmp_path / "rows.parquet"), score="w", label="day")
    assert table.vector


@pytest.mark.parametrize("block", [None, 8])
def test_empty_texts_of_csv_are_missing(block: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.csv").write_text('label,score,g\n1,0.5,a\n0,0.2,\n1,0.3,""\n1,0.4,NA\n')
    if block:
        monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", block)
    table = read_rows(str(tmp_path / "rows.csv"), by=["g"])
    result = cd.evaluate(table.labels, table.scores, cd.ECE(), by=table.by)
    assert dict(zip(result.g.values.tolist(), result.rows.values.tolist(), strict=True)) == {
        "NA": 1,
        "a": 1,
        "missing": 2,
    }


@pytest.mark.parametrize("content", ["label,score,g\n1,0.5,\xe9\n", "label,score,\xe9\n1,0.5,a\n"])
def test_csv_that_is_not_utf8(content: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8, the encoding expected"):
        read_rows(str(tmp_path / "rows.csv"), by=["g"])


def test_csv_columns_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("label,score,score\n1,0.5,0.6\n")
    with pytest.raises(ValueError, match="has several columns called 'score'"):
        read_rows(str(tmp_path / "rows.csv"))


def test_texts_name_their_column_and_row(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("y,p,w\n1,0.5,1\ncat,high,heavy\n")
    for given, column, row in (
        ({"label": "y", "score": "w"}, "w", ", row 1"),
        ({"label": "w", "score": "p"}, "p", ", row 1"),
        ({"label": "y", "score": "p", "weight": "w"}, "[pw]", ", row 1"),
    ):
        with pytest.raises(ValueError, match=f"column '{column}' expects numbers{row}"):
            read_rows(str(tmp_path / "rows.csv"), **given)  # type: ignore[arg-type]
    np.savez(tmp_path / "rows.npz", labels=[0, 1], scores=["a", "b"])
    with pytest.raises(ValueError, match="array 'scores' expects numbers, got text in row 0, 'a'"):
        read_rows(str(tmp_path / "rows.npz"))


def test_junk_archives(tmp_path: Path) -> None:
    (tmp_path / "rows.npz").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"it is not a readable \.npz archive\. It begins like a text"):
        read_rows(str(tmp_path / "rows.npz"))


@pytest.mark.parametrize("missing_chunks", ["error", "fill"])
def test_stores_that_have_grown(missing_chunks: Any, tmp_path: Path) -> None:
    """What xarray writes, appended to after its metadata was consolidated; NaN as fill value packs nothing."""
    path = tmp_path / "rows.zarr"
    rows = xr.Dataset({"labels": ("row", LABELS % 2), "scores": ("row", SCORES[:, 0])})
    rows.to_zarr(path, zarr_format=3, consolidated=False, encoding={"scores": {"chunks": (100,)}})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata")
        zarr.consolidate_metadata(path)
    group = zarr.open_group(path, mode="a", use_consolidated=False)
    for name in rows:
        group[name].append(rows[name].values)
    table = read_rows(str(path), missing_chunks=missing_chunks)
    np.testing.assert_array_equal(table.scores, np.tile(SCORES[:, 0], 2))
    assert "_FillValue" in zarr.open_group(path, mode="r")["scores"].attrs


@pytest.mark.parametrize(
    ("url", "install"),
    [("s3://b/x.zarr", "pip install s3fs"), ("https://x/y.csv", "pip install aiohttp")],
)
def test_missing_packages_are_named(url: str, install: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise ImportError("not here")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
    with pytest.raises(ValueError, match=install):
        read_rows(url)
