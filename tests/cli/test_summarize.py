"""``calibdask summarize``, and ``calibdask evaluate`` of what it wrote."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import calibdask as cd
from calibdask.cli import main
from calibdask.estimators.panel import summary_metrics
from tests.cli.sample_rows import COUNTRY, DAY, LABELS, ROWS, SCORES, WEIGHTS, Run, open_result

BY = ("--by", "country", "--by", "day")


@pytest.fixture(scope="module")
def stored_once(rows_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows, and a summary of them."""
    folder = tmp_path_factory.mktemp("stored") / "folder"
    shutil.copytree(rows_once, folder)
    assert main(["summarize", str(folder / "rows.csv"), "--out", str(folder / "s.zarr"), *BY]) == 0
    return folder


@pytest.fixture
def stored(stored_once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stored_once, tmp_path, dirs_exist_ok=True)


def values(out: str) -> dict[str, Any]:
    return {name: metric["value"] for name, metric in json.loads(out)["metrics"].items()}


def test_what_is_written(run: Run, data: Path) -> None:
    name = "summary.zarr"
    status, out, err = run("summarize", data / "rows.csv", "--out", data / name, *BY, "--weight", "w")
    assert (status, err) == (0, "")
    assert out.startswith(f"wrote {data / name}: {ROWS} rows, 4 slices, 3 classes, ")
    assert out.endswith(" kB\n")
    assert out.count("\n") == 1
    expected = cd.summarize(LABELS, SCORES, by={"country": COUNTRY, "day": DAY}, sample_weight=WEIGHTS)
    xr.testing.assert_allclose(open_result(data / name).drop_attrs(), expected.drop_attrs(), rtol=1e-14)
    assert sorted(path.name for path in data.iterdir() if path.name.startswith(".")) == []


def test_choices(run: Run, data: Path) -> None:
    options = ("--setting", "confidence", "--setting", "2", "--step", "0.001", "--label", "day")
    status, out, err = run("summarize", data / "rows.csv", "--out", data / "s.zarr", *options)
    assert (status, err) == (0, "")
    assert f"{ROWS} rows, 1 slice, 3 classes" in out
    expected = cd.summarize(DAY, SCORES, settings=["confidence", 2], step=0.001)
    xr.testing.assert_identical(open_result(data / "s.zarr"), expected)
    run("summarize", data / "binary.npz", "--out", data / "b.nc", "--setting", "binary")
    expected = cd.summarize(LABELS > 0, 1 - SCORES[:, 0], settings=["binary"])
    xr.testing.assert_identical(open_result(data / "b.nc"), expected)


def test_slices_are_pooled(run: Run, stored: Path) -> None:
    status, out, err = run("evaluate", stored / "s.zarr", "--json")
    assert (status, err) == (0, "")
    expected = cd.evaluate(LABELS, SCORES, summary_metrics(vector=False))
    actual = values(out)
    assert list(actual) == list(summary_metrics(vector=False))
    assert (json.loads(out)["rows"], json.loads(out)["passes"]) == (ROWS, 0)
    for name, value in actual.items():
        assert value == pytest.approx(float(expected[name]), abs=0.01 if name == "ece_equal_mass" else 1e-11)
    _, out, _ = run("evaluate", stored / "s.zarr", "--metric", "ece")
    assert re.search(rf"{ROWS} rows, .*, from their summary", out)


def test_named_slices_are_kept(run: Run, stored: Path) -> None:
    metrics = ("--metric", "ece", "--metric", "ece-d", "--metric", "brier-decomposition")
    for by in (("country",), ("day",), ("day", "country")):
        words = [word for name in by for word in ("--by", name)]
        outputs = {}
        for name in ("rows.csv", "s.zarr"):
            status, out, err = run("evaluate", stored / name, *words, *metrics, "--json")
            assert (status, err) == (0, "")
            outputs[name] = json.loads(out)["slices"]
        assert [entry["by"] for entry in outputs["s.zarr"]] == [entry["by"] for entry in outputs["rows.csv"]]
        for actual, expected in zip(outputs["s.zarr"], outputs["rows.csv"], strict=True):
            for metric, numbers in expected["metrics"].items():
                for part, number in numbers.items():
                    assert actual["metrics"][metric][part] == (number and pytest.approx(number, abs=1e-7))


def test_intervals_that_a_summary_does_not_tell_are_named(run: Run, stored: Path) -> None:
    words = "no intervals of brier_score: a summary does not determine their variance"
    arguments = ("evaluate", str(stored / "s.zarr"), "--metric", "brier-score,ece")
    assert words in run(*arguments, "--ci", "0.9")[1]
    assert words not in run(*arguments)[1]


def test_intervals_of_all_metrics(run: Run, stored: Path) -> None:
    options = ("--ci", "0.9", "--n-boot", "15", "--seed", "2")
    status, out, err = run("evaluate", stored / "s.zarr", *options, "--json", "--out", stored / "result.nc")
    assert (status, err) == (0, "")
    expected = cd.evaluate(cd.summarize(LABELS, SCORES), ci=0.9, n_boot=15, seed=2)
    written = open_result(stored / "result.nc")
    for name, numbers in json.loads(out)["metrics"].items():
        parts = {"value": name, "low": f"{name}_low", "high": f"{name}_high"}
        # Histograms of several classes do not tell how proper scores vary.
        assert ("low" in numbers) == (name not in ("brier_score", "log_loss"))
        for part, variable in ((part, variable) for part, variable in parts.items() if part in numbers):
            assert numbers[part] == float(expected[variable]) == float(written[variable])
    _, out, _ = run("evaluate", stored / "s.zarr", *options)
    assert ["metric", "value", "low", "high"] in [line.split()[:4] for line in out.splitlines()]


def test_pictures(run: Run, stored: Path) -> None:
    options = ["--ci", "0.9", "--n-boot", "10", "--by", "country", "--curve"]
    status, out, err = run("evaluate", stored / "s.zarr", "--plot", stored / "page.html", "--json", *options)
    assert (status, err) == (0, "")
    assert list(json.loads(out)["metrics"]) == list(summary_metrics(vector=False))
    page = " ".join((stored / "page.html").read_text().split())
    assert "Each curve is the probability" in page


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (["confidence"], list(summary_metrics(vector=True))),
        (["classwise"], ["brier_score", "log_loss", "ece_classwise"]),
    ],
)
def test_the_panel_is_what_the_summary_tells(settings: list[str], names: list[str], run: Run, data: Path) -> None:
    run("summarize", data / "rows.csv", "--out", data / "s.nc", *(w for name in settings for w in ("--setting", name)))
    status, out, err = run("evaluate", data / "s.nc", "--json")
    assert (status, err) == (0, "")
    assert list(values(out)) == names


def test_models_are_not_added_up(run: Run, data: Path) -> None:
    group = zarr.open_group(data / "models.zarr", mode="w")
    group.create_array("labels", data=LABELS)
    group.create_array("scores", data=np.stack([SCORES, SCORES[:, ::-1]]))
    group.create_array("day", data=DAY)
    status, out, _ = run("summarize", data / "models.zarr", "--out", data / "s.zarr", "--by", "day")
    assert status == 0
    assert f"{ROWS} rows, 2 slices, 3 classes" in out
    status, out, _ = run("evaluate", data / "s.zarr", "--metric", "ece", "--json")
    result = json.loads(out)
    assert (status, result["rows"]) == (0, ROWS)
    actual = [part["metrics"]["ece"]["value"] for part in result["slices"]]
    np.testing.assert_allclose(actual, cd.ece(LABELS, np.stack([SCORES, SCORES[:, ::-1]])), atol=1e-11)
    status, _, err = run("evaluate", data / "s.zarr", "--by", "dim_0")
    assert (status, "it has day" in err) == (2, True)


BAD: list[tuple[list[str], str]] = [
    (["summarize", "rows.csv"], "Missing option '--out'"),
    (["summarize", "rows.csv", "--out", "x.csv"], "ends in one of .zarr, .nc"),
    (["summarize", "rows.csv", "--out", "x.zarr", "--metric", "ece"], "--metric is an option of "),
    (
        ["summarize", "rows.csv", "--out", "x.zarr", "--setting", "top-k"],
        "expected confidence, classwise, binary or the number of a class",
    ),
    (
        ["summarize", "rows.csv", "--out", "x.zarr", "--setting", "multiclass"],
        "or the number of a class, got 'multiclass'",
    ),
    (["summarize", "unlike.csv", "--out", "x.zarr"], "first is row 1 with score 1.5"),
    (["summarize", "data.zarr", "--out", "data.zarr", "--overwrite"], "would replace the input"),
    (["summarize", "s.zarr", "--out", "x.zarr"], "s.zarr is already a stored summary"),
    (["evaluate", "s.zarr", "--label", "y"], "--label has no effect on s.zarr: it is a stored summary"),
    (["evaluate", "s.zarr", "--weight", "w"], "--weight has no effect"),
    (["evaluate", "s.zarr", "--by", "week"], "--by week expects a slice of the summary s.zarr; it has country, day."),
    (["evaluate", "s.zarr", "--metric", "skce"], "evaluate the data themselves"),
    (["evaluate", "s.zarr", "--metric", "ece", "--bins", "7"], "use a number of bins that divides 3600"),
    (["evaluate", "s.zarr", "--out", "s.zarr", "--overwrite"], "would replace the input"),
    (["evaluate", "later.zarr"], "reads summaries of formats up to 2, this one has 3"),
    (["evaluate", "torn.zarr"], "torn.zarr"),
    (["evaluate", "torn.nc"], "torn.nc cannot be read as netCDF"),
    (["evaluate", "one.nc", "--metric", "ece"], "No histogram of the setting confidence is stored, only class 2"),
]


@pytest.fixture(scope="module")
def bad_once(stored_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores that cannot be read, beside those that can."""
    stored = tmp_path_factory.mktemp("bad") / "folder"
    shutil.copytree(stored_once, stored)
    (stored / "unlike.csv").write_text("label,score\n1,0.5\n0,1.5\n")
    group = zarr.open_group(stored / "data.zarr", mode="w")
    group.create_array("labels", data=LABELS)
    group.create_array("scores", data=SCORES)
    later = cd.summarize(LABELS, SCORES, by={"day": DAY}, settings=["confidence"]).assign_coords(calibdask_summary=3)
    # Nothing but the number is as it is now.
    later.drop_vars("rows").to_zarr(stored / "later.zarr", consolidated=False)
    later.to_netcdf(stored / "later.nc", engine="h5netcdf")
    cd.summarize(LABELS, SCORES, settings=[2]).to_netcdf(stored / "one.nc", engine="h5netcdf")
    (stored / "torn.nc").write_text("torn")
    (stored / "torn.zarr").mkdir()
    (stored / "torn.zarr" / "zarr.json").write_text("torn")
    return stored


@pytest.fixture
def bad(bad_once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(bad_once, tmp_path, dirs_exist_ok=True)


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_use_is_one_line_and_writes_nothing(
    arguments: list[str],
    message: str,
    run: Run,
    bad: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(bad)
    before = sorted(bad.rglob("*"))
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("calibdask: ")
    assert err.count("\n") == 1
    assert sorted(bad.rglob("*")) == before
