"""Parts of files: they can be sent to where the files are not, and files that change meanwhile are noticed."""

import io
import itertools
import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import cloudpickle
import dask
import fsspec
import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.storage import csv_files, json_files, npz_files
from calibdask.storage.file_version import check_version, version_of
from calibdask.storage.formats import COLUMN_FORMATS
from calibdask.storage.location import Location
from calibdask.storage.open_store import open_store, read_rows
from calibdask.storage.readers import StoredRows
from calibdask.storage.row_table import ColumnChoice, RowTable
from tests.storage.written_rows import COUNTRY, DAY, LABELS, SCORES, WEIGHTS, frame, write_all

deltalake = pytest.importorskip("deltalake")

FORMATS = [
    "rows.parquet",
    "parts.parquet",
    "rows.csv",
    "rows.feather",
    "rows.jsonl",
    "delta",
    "packed.csv",
    "rows.zarr",
    "rows.nc",
    "rows3.nc",
    "scores.npy",
]


def write_each(folder: Path) -> Path:
    write_all(folder)
    frame().to_feather(folder / "rows.feather", chunksize=100)
    exact = [json.dumps(row) for row in frame().to_dict("records")]
    (folder / "rows.jsonl").write_text("\n".join(exact))
    deltalake.write_deltalake(str(folder / "delta"), frame(), partition_by=["country"])
    (folder / "packed.csv").mkdir()
    for start in range(0, len(LABELS), 200):
        frame()[start : start + 200].to_csv(folder / "packed.csv" / f"{start}.csv.gz", index=False)
    (folder / "scores.npy").mkdir()
    for role, array in {"label": LABELS, "score": SCORES, "country": DAY, "day": DAY, "w": WEIGHTS}.items():
        np.save(folder / "scores.npy" / f"{role}.npy", array)
    return folder


def table_of(folder: Path, name: str) -> RowTable:
    """The rows of a file in each format, read in several parts, wherever the format can."""
    if name != "scores.npy":
        return read_rows(str(folder / name), by=["country", "day"], weight="w", chunk_rows=100)
    label, score, country, day, weight = (
        str(folder / name / f"{role}.npy") for role in ("label", "score", "country", "day", "w")
    )
    return read_rows(score, label=label, score=score, by=[country, day], weight=weight, chunk_rows=100)


@pytest.fixture
def blocks_of_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", 5000)
    monkeypatch.setattr(json_files, "_BLOCK_BYTES", 5000)


def test_formats_are_all() -> None:
    """But for archives of NumPy, which are read into memory as a whole."""
    formats = {PurePath(name).suffix for name in FORMATS} - {".parquet", ".gz"} | {".parquet"}
    assert {".arrow" if suffix == ".feather" else suffix or "delta" for suffix in formats} == {
        *COLUMN_FORMATS,
        *(".zarr", ".nc", ".npy", "delta"),
    }


@dataclass
class Remote:
    """A scheduler of Dask that receives graphs as one on another machine does, which does not see the files."""

    place: Path
    graphs: int = 0

    def __call__(self, graph: Any, keys: Any, **options: Any) -> Any:
        away = self.place.with_name("away")
        self.place.rename(away)
        try:
            content = cloudpickle.dumps((graph, keys))
            graph, keys = pickle.loads(content)
        finally:
            away.rename(self.place)
        self.graphs += 1
        return dask.get(graph, keys)


def _by(table: RowTable) -> dict[str, Any]:
    return {Path(name).stem: values for name, values in table.by.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_each(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """The files in a folder, which goes away with them: a file that is renamed itself counts as changed."""
    return shutil.copytree(whole, tmp_path / "rows")


ANALYSES: dict[str, Callable[[RowTable], Any]] = {
    "evaluate": lambda table: cd.evaluate(
        table.labels, table.scores, {"ece": cd.ECE(), "mass": cd.ECE(binning="equal-mass")}, by=_by(table), ci=0.9
    ),
    "evaluate, weighted": lambda table: cd.evaluate(
        table.labels, table.scores, "brier", sample_weight=table.weights, skip_missing=True
    ),
    "summarize": lambda table: cd.summarize(table.labels, table.scores, by=_by(table)),
    "audit": lambda table: cd.audit(table.labels, table.scores, _by(table), min_rows=20),
    "fit": lambda table: cd.IsotonicCalibration(bounded=True).fit(table.labels, table.scores).predict_proba(SCORES),
}


@pytest.mark.usefixtures("blocks_of_csv")
@pytest.mark.parametrize(("name", "analysis"), [*zip(FORMATS, itertools.cycle(ANALYSES), strict=False)])
def test_graphs_of_analyses_open_nothing_when_they_are_pickled(
    name: str, analysis: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibdask.storage.npz_files.TARGET_BYTES", 1000)
    remote = Remote(folder)
    table = table_of(folder, name)
    with dask.config.set(scheduler=remote):
        found = ANALYSES[analysis](table)
    assert remote.graphs > 0
    np.testing.assert_equal(_plain(found), _plain(ANALYSES[analysis](table_of(folder, name))))


def _plain(found: Any) -> Any:
    return {str(key): one.values for key, one in found.variables.items()} if isinstance(found, xr.Dataset) else found


def stored_rows(folder: Path, name: str) -> StoredRows:
    store = open_store(str(folder / name))
    assert isinstance(store, StoredRows)
    return store


@pytest.mark.usefixtures("blocks_of_csv")
@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((f"rows.{suffix}", "replaced") for suffix in ("parquet", "csv", "feather", "jsonl", "zarr", "nc")),
        ("rows.csv", "replaced by one of the same time"),
        ("rows.parquet", "written to"),
    ],
)
def test_files_that_change_while_they_are_read_are_errors(name: str, change: str, folder: Path) -> None:
    table = read_rows(str(folder / name), chunk_rows=100)
    first = getattr(table.scores, "data", table.scores).blocks[0]
    before = np.asarray(first)
    file = folder / name / "scores" / "zarr.json" if name.endswith(".zarr") else folder / name
    if change.startswith("replaced"):
        shutil.copy(file, folder / "new")
        if change.endswith("same time"):
            shutil.copystat(file, folder / "new")
        os.replace(folder / "new", file)
    else:
        os.utime(file, ns=(0, 10**18))
    with pytest.raises(ValueError, match=r"was replaced or written to while it was read \(its time changed\)"):
        np.asarray(first)
    again = read_rows(str(folder / name), chunk_rows=100)
    np.testing.assert_array_equal(np.asarray(again.scores)[: len(before)], before)


def test_a_file_that_is_removed_says_so(folder: Path) -> None:
    table = read_rows(str(folder / "rows.parquet"), chunk_rows=100)
    (folder / "rows.parquet").unlink()
    with pytest.raises(ValueError, match=r"rows\.parquet was removed while it was read"):
        np.asarray(table.scores)


def test_objects_are_told_apart_by_what_their_store_says() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/versions/rows.csv", b"label,score\n0,0.5\n")
    try:
        location = Location.parse("memory://versions/rows.csv")
        version = version_of(location)
        check_version(location, version)
        memory.pipe("/versions/rows.csv", b"label,score\n0,0.5\n1,0.7\n")
        with pytest.raises(ValueError, match=r"its size and time changed"):
            check_version(location, version)
    finally:
        memory.rm("/versions", recursive=True)


def test_batches_and_arrays_are_of_the_same_parts(whole: Path) -> None:
    for name in ("rows.parquet", "rows.feather", "rows.jsonl", "rows.csv", "rows.zarr"):
        store = stored_rows(whole, name)
        parts = store.parts(ColumnChoice(None, None, ("day",), None, None))
        tables = [parts.typed(table) for table, _ in parts.tables(70)]
        assert [table.num_rows for table in tables] == [70] * 8 + [40], name
        days = np.concatenate([table.column("day").to_numpy() for table in tables])
        np.testing.assert_array_equal(days, np.asarray(store.read(by=["day"]).by["day"]))


def test_bare_arrays_are_rows_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {"labels": LABELS, "scores": np.asfortranarray(SCORES), "day": DAY}
    for name, values in arrays.items():
        np.save(tmp_path / f"{name}.npy", values)
    files = {name: str(tmp_path / f"{name}.npy") for name in arrays}
    for size in (1 << 20, 100):
        monkeypatch.setattr(npz_files, "TARGET_BYTES", size)
        store = stored_rows(tmp_path, "scores.npy")
        table = store.read(label=files["labels"], by=[files["day"]], chunk_rows=100)
        assert table.in_memory == (size > 100)
        for role, values in (("labels", table.labels), ("scores", table.scores), ("day", table.by[files["day"]])):
            np.testing.assert_array_equal(np.asarray(values), arrays[role])
    np.save(tmp_path / "objects.npy", np.array([{}], object))
    with pytest.raises(ValueError, match="it holds Python objects"):
        stored_rows(tmp_path, "scores.npy").read(label=str(tmp_path / "objects.npy"))
    with pytest.raises(ValueError, match=r"one bare array; .*, name the file of labels: --label y\.npy"):
        stored_rows(tmp_path, "scores.npy").read()


STREAMS = ["rows.csv", "rows.parquet", "rows.feather", "rows.jsonl"]


@pytest.mark.parametrize("name", STREAMS)
def test_standard_input_says_by_its_content_what_it_is(name: str, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO((whole / name).read_bytes()))
    monkeypatch.setattr("sys.stdin", stream)
    for _ in range(2):
        # Whoever opens it again gets the same rows.
        table = read_rows("-", by=["country"])
        np.testing.assert_array_equal(np.asarray(table.scores), SCORES)
        np.testing.assert_array_equal(np.asarray(table.by["country"]), COUNTRY)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "standard input is empty"),
        (b"\x1f\x8bxx", r"is compressed \(\.gz\)"),
        (b"a,b\n1,2\n", "standard input has no column 'label'"),
    ],
)
def test_standard_input_that_is_no_rows(content: bytes, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(ValueError, match=message):
        read_rows("-")
