"""What each number says, in words, in results, tables and JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.cli import main
from calibdask.cli.metrics import METRICS
from calibdask.estimators.panel import comparison_metrics, summary_metrics

RNG = np.random.default_rng(0)
SCORES = RNG.dirichlet([1, 1, 1], 200)
LABELS = RNG.integers(0, 3, 200)
MORE: dict[str, dict[str, Any]] = {
    "SKCE": {"bandwidth": 0.3},
    "MMCE": {"bandwidth": 0.3},
    "KernelCanonicalECE": {"bandwidth": 0.3},
    "SKCETest": {"draws": 10, "estimator": "linear"},
    "ConsistencyTest": {"resamples": 5},
}


@pytest.mark.parametrize("word", METRICS)
@pytest.mark.parametrize("vector", [False, True])
def test_every_number_of_every_metric_has_a_meaning(word: str, vector: bool) -> None:
    constructor = METRICS[word].constructor
    metric = getattr(cd, constructor)(**MORE.get(constructor, {}))
    scores, labels = (SCORES[:, 1], LABELS == 1) if vector else (SCORES, LABELS)
    result = cd.evaluate(labels, scores, {"it": metric})
    for name, variable in result.data_vars.items():
        assert len(variable.attrs["meaning"]) > 5, name


def test_meanings_know_what_is_measured() -> None:
    chosen = {
        "confidence": cd.ECE(),
        "one": cd.ECE(setting=2, bins=(0, 0.5, 1)),
        "each": cd.ECE(setting="classwise", binning="equal-mass", bins="sqrt"),
        "two": cd.ECE(setting="top-k", k=2, norm="l2", debias=True),
    }
    result = cd.evaluate(LABELS, SCORES, chosen)
    assert result.confidence.attrs["meaning"] == "mean gap of confidence and accuracy, in 15 bins"
    assert result.one.attrs["meaning"] == "mean gap of score and frequency of class 2, in 2 given bins"
    assert result.each.attrs["meaning"].endswith("of each class, in sqrt(n) bins of equal mass")
    assert result.two.attrs["meaning"].endswith("less what chance adds")


def test_panels() -> None:
    assert list(cd.default_metrics(3)) == list(cd.default_metrics(2, vector=False))
    assert "brier_decomposition" in cd.default_metrics(2)
    assert "ece_classwise" in cd.default_metrics(10)
    assert set(summary_metrics(vector=True)) < set(cd.default_metrics(2))
    assert not any(each.tests for each in comparison_metrics(vector=False).values())
    for panel, scores, labels in ((None, SCORES, LABELS), (None, SCORES[:, 1], LABELS == 1)):
        assert cd.evaluate(labels, scores, panel).attrs["passes"] == 1


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_tables_and_json_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.npz")
    np.savez(path, labels=LABELS, scores=SCORES)
    table = shown(capsys, "evaluate", path)
    assert "what it says" in table
    assert "mean gap of confidence and accuracy" in table
    assert max(map(len, table.splitlines())) <= 100
    table = shown(capsys, "evaluate", path, "--ci", "0.9", "--ci-method", "percentile", "--n-boot", "5")
    assert "low" in table
    assert "mean squared error of the scores" in table
    found = json.loads(shown(capsys, "evaluate", path, "--json", "--metric", "ece", "--metric", "corp"))["metrics"]
    assert found["ece"]["meaning"].startswith("mean gap")
    assert found["corp"]["meaning"]["uncertainty"].startswith("score of")


def test_costs_and_rules_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.npz")
    np.savez(path, labels=LABELS, scores=SCORES)
    arguments = ["--costs", "0,1,2;1,0,5;0.4,0.4,0.4", "--calibration", "classwise", "--rule", "log", "--kind", "range"]
    names = ["excess-cost", "corp", "ecce", "log-loss-decomposition"]
    options = [word for name in names for word in ("--metric", name)]
    found = json.loads(shown(capsys, "evaluate", path, "--json", *options, *arguments))["metrics"]
    costs = [[0, 1, 2], [1, 0, 5], [0.4, 0.4, 0.4]]
    expected = cd.evaluate(
        LABELS,
        SCORES,
        {
            "cost": cd.ExcessCost(costs=costs, calibration="classwise"),
            "c": cd.CORP(rule="log"),
            "e": cd.ECCE(kind="range"),
        },
    )
    assert found["excess_cost"]["value"] == expected.cost.item()
    assert found["corp"]["miscalibration"] == expected.c_miscalibration.item()
    assert found["ecce"]["value"] == expected.e.item()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ci-method", "bca"], "--ci-method means nothing without --ci"),
        (["--metric", "excess-cost", "--costs", "0,x"], "expected a matrix such as '0,5;1,0'"),
        (["--metric", "excess-cost", "--costs", "0,1;1,0"], "a column for each of the 3 classes"),
        (["--costs", "0,1"], "--costs means nothing to"),
    ],
)
def test_bad_choices(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.npz")
    np.savez(path, labels=LABELS, scores=SCORES)
    assert main(["evaluate", path, *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
