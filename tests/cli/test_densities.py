"""Metrics on the grid, intervals and curves on the command line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import calibdask as cd
from calibdask.results.format import shown_texts
from tests.cli.sample_rows import COUNTRY, LABELS, SCORES, Run, open_result


def test_options_of_densities(run: Run, data: Path) -> None:
    cases: list[tuple[list[str], Any]] = [
        (["density-ece"], cd.DensityECE()),
        (["ece-d", "--compat", "euranova", "--setting", "classwise"], cd.ece_d(compat="euranova", setting="classwise")),
        (
            ["density-ece", "--kernel", "gaussian", "--bandwidth", "0.1"],
            cd.DensityECE(kernel="gaussian", bandwidth=0.1),
        ),
        (["residual-ece", "--bandwidth", "isj", "--step", "0.001"], cd.ResidualECE(bandwidth="isj", step=0.001)),
        (["smooth-ece", "--setting", "top-k", "--k", "2"], cd.SmoothECE(setting="top-k", k=2)),
    ]
    for (name, *options), estimator in cases:
        status, out, err = run("evaluate", data / "rows.csv", "--json", "--metric", name, *options)
        assert (status, err) == (0, "")
        actual = json.loads(out)["metrics"][name.replace("-", "_")]
        assert actual["estimator"] == repr(estimator)
        expected = cd.evaluate(LABELS, SCORES, {"it": estimator})["it"]
        assert actual["value"] == pytest.approx(float(expected), rel=1e-12)


def test_numbers_of_each_class(run: Run, data: Path) -> None:
    command = ("evaluate", data / "rows.csv", "--metric", "smooth-ece", "--setting", "classwise", "--by", "country")
    _, out, _ = run(*command, "--json")
    estimator = cd.SmoothECE(setting="classwise")
    expected = cd.evaluate(LABELS, SCORES, estimator, by={"country": COUNTRY})
    for entry in json.loads(out)["slices"]:
        here = expected.sel(entry["by"])
        numbers = entry["metrics"]["smooth_ece"]
        assert numbers["value"] == pytest.approx(float(here["smooth_ece"]), rel=1e-12)
        assert numbers["bandwidth"] == pytest.approx(here["smooth_ece_bandwidth"].values.tolist(), rel=1e-12)
    status, out, _ = run(*command, "--out", data / "result.csv")
    assert status == 0
    assert "bandwidth" not in out
    assert list(pd.read_csv(data / "result.csv")) == [
        *("country", "rows", "events", "mean_score", "frequency", "smooth_ece")
    ]


def test_intervals(run: Run, data: Path) -> None:
    options = ("--metric", "density-ece", "--ci", "0.9", "--n-boot", "20", "--seed", "5")
    status, out, err = run("evaluate", data / "rows.csv", *options, "--json", "--out", data / "result.nc")
    assert (status, err) == (0, "")
    expected = cd.evaluate(LABELS, SCORES, cd.DensityECE(), ci=0.9, n_boot=20, seed=5)
    result = json.loads(out)
    assert (result["ci"], result["n_boot"], result["seed"]) == (0.9, 20, 5)
    for part, name in (("value", "density_ece"), ("low", "density_ece_low"), ("high", "density_ece_high")):
        assert result["metrics"]["density_ece"][part] == float(expected[name])
        assert float(open_result(data / "result.nc")[name]) == float(expected[name])
    _, out, _ = run("evaluate", data / "rows.csv", *options)
    numbers = shown_texts(*(float(value) for value in expected.data_vars.values()), kind="error")
    assert ["metric", "value", "low", "high"] in [line.split()[:4] for line in out.splitlines()]
    assert ["density_ece", *numbers] in [line.split()[:4] for line in out.splitlines()]
    assert "90 % intervals of 20 replicates" in " ".join(out.split())
    _, out, _ = run("evaluate", data / "rows.csv", *options, "--by", "country")
    assert {"low", "high", "de", "fr"} <= set(out.split())


def test_curve(run: Run, data: Path) -> None:
    options = ("--metric", "ece-d", "--plot", data / "page.html", "--curve", "--overwrite")
    for more in ((), ("--ci", "0.9", "--n-boot", "10", "--bandwidth", "0.1"), ("--setting", "classwise")):
        status, out, err = run("evaluate", data / "rows.csv", *options, *more, "--json")
        assert (status, err) == (0, "")
        assert list(json.loads(out)["metrics"]) == ["ece_d"]
        assert "Each curve is the probability" in " ".join((data / "page.html").read_text().split())


def test_warnings_are_one_line(data: Path) -> None:
    code = "import sys; from calibdask.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "evaluate", data / "rows.csv", "--metric", "ece-d", "--bandwidth", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.startswith("calibdask: The bandwidth 0.0 is below the step of the grid")
    assert done.stderr.count("\n") == 1
