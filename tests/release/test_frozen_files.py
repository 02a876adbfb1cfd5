"""Files that released versions wrote are read with the numbers that they had then."""

import contextlib
import hashlib
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from tests.release.write_fixtures import DAYS, DOCUMENTS, mapped, public_names
from tests.study.sample_study import Walks

FIXTURES = Path(__file__).parents[1] / "fixtures"
# Never changed: a version that changes a format adds a folder, and reads the others as well as its own.
ARCHIVES = {"1.0": "9f1fb2be08df0f155fab240116f836aa04ddd7dc0d3cadfbd54218406b0b6f95"}
# Processors differ in the last digits of what is no exact sum.
ROUNDING = {"rtol": 1e-9, "atol": 1e-12}


class Files:
    """The unpacked files of a version, and the numbers that belong to them."""

    def __init__(self, version: str, folder: Path) -> None:
        self.version, self.folder = version, folder
        self.expected: dict[str, Any] = json.loads((FIXTURES / version / "values.json").read_text())
        self.rows = pd.read_csv(folder / "rows.csv")
        self.classes = pd.read_csv(folder / "classes.csv")

    def path(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="module", params=ARCHIVES)
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("frozen")
    with tarfile.open(FIXTURES / request.param / "files.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return Files(request.param, folder)


@pytest.fixture
def inside(files: Files) -> Iterator[Files]:
    with contextlib.chdir(files.folder):
        yield files


def assert_same(result: xr.Dataset, expected: dict[str, Any]) -> None:
    assert set(expected) <= set(map(str, result.data_vars))
    for name, numbers in expected.items():
        np.testing.assert_allclose(result[name].values, numbers, **ROUNDING, err_msg=name)


def test_archives_are_never_changed() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == set(ARCHIVES)
    for version, digest in ARCHIVES.items():
        content = (FIXTURES / version / "files.tar.xz").read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, version


@pytest.mark.parametrize("name", ["summary.zarr", "summary.nc"])
def test_summaries(files: Files, name: str) -> None:
    summary = cd.open_summary(files.path(name))
    result = cd.evaluate(summary, metrics=["ece", "brier-score", "log-loss", "mean-gap"])
    of_rows = {name: files.expected["by_country"][name] for name in ("brier_score", "log_loss", "mean_gap")}
    assert_same(result, of_rows)
    # Bins are made of cells, whose scores are those of their rows but near the edges.
    np.testing.assert_allclose(result.ece, files.expected["by_country"]["ece"], atol=0.002)


@pytest.mark.parametrize("name", ["slices.zarr", "slices.nc"])
def test_sparse_summaries(files: Files, name: str) -> None:
    result = cd.evaluate(cd.open_summary(files.path(name)), metrics="brier-score")
    assert result.sizes["patient"] > 100
    assert_same(result, files.expected["by_patient"])


def test_summaries_of_classes(files: Files) -> None:
    result = cd.evaluate(cd.open_summary(files.path("classes.zarr")), metrics=["ece", "ece(setting=classwise)"])
    for name, numbers in files.expected["classes"].items():
        np.testing.assert_allclose(result[name], numbers, atol=0.002)


def test_summaries_of_clusters(files: Files) -> None:
    result = cd.evaluate(cd.open_summary(files.path("clusters.zarr")), ci=0.9)
    assert_same(result, files.expected["clusters"])
    np.testing.assert_allclose(result.mean_gap, files.expected["all_rows"]["mean_gap"], **ROUNDING)


def test_summaries_of_features(files: Files) -> None:
    found = cd.audit(cd.open_summary(files.path("features.zarr")))
    assert sorted(found.segment.values.tolist()) == files.expected["audit"]


def test_period_stores(files: Files) -> None:
    summary = cd.open_summary(files.path("periods.zarr"))
    assert summary.day.values.tolist() == [*DAYS]
    result = cd.evaluate(summary, metrics=["brier-score", "log-loss", "mean-gap"]).transpose("country", "day")
    expected = files.expected["by_country_and_day"]
    assert_same(result, {name: expected[name] for name in ("brier_score", "log_loss", "mean_gap")})


def test_period_stores_grow(inside: Files, tmp_path: Path) -> None:
    store = tmp_path / "periods.zarr"
    with tarfile.open(FIXTURES / inside.version / "files.tar.xz") as archive:
        members = [member for member in archive if "periods.zarr" in member.name]
        archive.extractall(tmp_path, members, filter="data")
    inside.rows.query("day == @DAYS[1]").drop(columns="day").to_csv(tmp_path / "day.csv", index=False)
    words = ["summarize", str(tmp_path / "day.csv"), "--by", "country", "--append", str(store), "--period"]
    assert main([*words, "day=2026-01-04"]) == 0
    assert cd.open_summary(store).sizes["day"] == len(DAYS) + 1
    assert main([*words, f"day={DAYS[0]}", "--replace", "--reason", "again"]) == 0
    cd.expire(store, after=1, into="month")
    assert int(cd.evaluate(cd.open_summary(store), metrics="mean-gap").rows.sum()) > 0


def test_maps(files: Files) -> None:
    maps = {path.stem: json.loads(path.read_text()) for path in files.path("maps").iterdir()}
    assert set(maps) == set(files.expected["maps"])
    for name, stored in maps.items():
        calibrated = mapped(name, stored, files.rows, files.classes)
        np.testing.assert_allclose(calibrated, files.expected["maps"][name], rtol=1e-7, err_msg=name)


@pytest.mark.parametrize("name", ["applied.parquet", "applied.zarr", "applied.csv"])
def test_outputs_of_maps(files: Files, name: str) -> None:
    rows = cd.read_rows(str(files.path(name)))
    np.testing.assert_allclose(np.asarray(rows.scores), files.expected["platt"], rtol=1e-7)
    np.testing.assert_array_equal(np.asarray(rows.labels), files.rows.label)


def test_receipts(files: Files) -> None:
    stored = json.loads(files.path("receipt.json").read_text())
    rows = files.rows
    checked = cd.verify(stored, rows.label.to_numpy(), rows.score.to_numpy(), by={"country": rows.country.to_numpy()})
    other_version = f"The receipt was made by calibdask {stored['calibdask']}, and this is {cd.__version__}."
    assert [problem for problem in checked.problems if problem != other_version] == []


def test_states_of_watches(files: Files) -> None:
    expected = files.expected["watch"]
    summary = cd.open_summary(files.path("periods.zarr"))
    whole = cd.watch(summary)
    for name in ("log_e", "gap"):
        np.testing.assert_allclose(whole[name], expected[name], **ROUNDING)
    assert whole.alarm.values.tolist() == expected["alarm"]
    # Nothing is new to the stored state: the watch goes on with the next day as it would have without a break.
    state = json.loads(files.path("watch.json").read_text())["state"]
    fourth = summary.sel(day=[DAYS[1]]).assign_coords(day=["2026-01-04"])
    continued = cd.watch(fourth, state=state)
    at_once = cd.watch(xr.concat([summary.load(), fourth.load()], "day", data_vars="minimal", coords="minimal"))
    assert continued.log_e.values.tolist() == at_once.log_e.isel(day=[-1]).values.tolist()


@pytest.mark.parametrize(("name", "expected"), [("accumulator", "all_rows"), ("weighted_accumulator", "weighted")])
def test_states_of_accumulators(files: Files, name: str, expected: str) -> None:
    accumulator = cd.Accumulator([cd.ECE(), cd.BrierScore()])
    with np.load(files.path(f"{name}.npz")) as state:
        accumulator.load_state_dict(dict(state))
    numbers = {part: files.expected[expected][part] for part in ("ece", "brier_score")}
    assert_same(accumulator.result(), numbers)
    accumulator.update([1], [0.5], [1.0] if name.startswith("weighted") else None)
    assert accumulator.result().attrs["rows"] == len(files.rows) + 1


def test_cubes(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    cube = cd.open_cube(str(files.path("cube.zarr")))
    assert_same(cube, files.expected["cube"])
    assert cube.status.values.min() == 1
    assert main(["status", str(files.path("cube.zarr"))]) == 0
    assert "4" in capsys.readouterr().out
    # The same study takes its cells up as they are.
    counts = cd.run(Walks(lengths=(5, 20), replicates=2), str(files.path("cube.zarr")))
    assert_same(cd.open_cube(str(files.path("cube.zarr"))), files.expected["cube"])
    assert counts.computed == 0, "the cells of the study were computed again"


@pytest.mark.parametrize("name", ["result.zarr", "result.nc"])
def test_results(files: Files, name: str, tmp_path: Path) -> None:
    options = {"consolidated": False} if name.endswith(".zarr") else {}
    with xr.open_dataset(files.path(name), **options) as stored:
        assert_same(stored, {"ece": files.expected["by_country"]["ece"]})
        assert "country" in str(stored.calib.table())


def shape(document: Any) -> Any:
    """Entries of a JSON document and the types of their values, without the values; of a list, of its first entry."""
    match document:
        case dict():
            return {name: shape(value) for name, value in document.items()}
        case list():
            return [shape(entry) for entry in document[:1]]
        case bool() | str() | None:
            return type(document).__name__
        case _:
            return "number"


def lacking(before: Any, now: Any, path: str = "") -> list[str]:
    """Entries that a program finds no more, or finds as another type."""
    if isinstance(before, dict) and isinstance(now, dict):
        gone = [f"{path}/{name}" for name in before if name not in now]
        return gone + [
            each for name in before if name in now for each in lacking(before[name], now[name], path + "/" + name)
        ]
    if isinstance(before, list) and isinstance(now, list):
        return lacking(before[0], now[0], path + "/0") if before and now else []
    return [] if before == now else [path]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_json_documents(inside: Files, name: str, tmp_path: Path) -> None:
    before = json.loads(inside.path(f"documents/{name}.json").read_text())
    assert main([name, *DOCUMENTS[name], "--out", str(tmp_path / "now.json")]) in (0, 1, 3)
    now = json.loads((tmp_path / "now.json").read_text())
    assert now.get("format") == before.get("format")
    assert lacking(shape(before), shape(now)) == []


def decisions(document: dict[str, Any]) -> list[Any]:
    return [(entry["limit"], entry["where"], entry["decision"]) for entry in document["limits"]]


def test_limits_files(inside: Files, tmp_path: Path) -> None:
    before = json.loads(inside.path("documents/check.json").read_text())
    main(["check", *DOCUMENTS["check"], "--out", str(tmp_path / "now.json")])
    assert decisions(json.loads((tmp_path / "now.json").read_text())) == decisions(before)
    assert len({decision for *_, decision in decisions(before)}) > 1


def flat(names: dict[str, dict[str, list[str]]]) -> set[tuple[str, str, str]]:
    return {(kind, name, part) for kind in names for name, parts in names[kind].items() for part in ("", *parts)}


@pytest.mark.parametrize("version", ARCHIVES)
def test_public_names_stay(version: str) -> None:
    """A name is deprecated for a minor version before a major one removes it."""
    before = json.loads((FIXTURES / version / "public.json").read_text())
    assert flat(before) - flat(public_names()) == set()


def test_the_version_that_wrote_them(files: Files) -> None:
    written = files.expected["calibdask_version"]
    assert re.fullmatch(r"1\.\d+\.\d+(rc\d+)?", written)
    assert cd.open_summary(files.path("summary.zarr")).attrs["calibdask_version"] == written
