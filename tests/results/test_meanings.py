"""What each number says, in words, in results, tables and JSON."""

import json
from pathlib import Path

import numpy as np
import pytest

import calibdask as cd
from calibdask.cli import main
from calibdask.estimators.panel import comparison_metrics, summary_metrics
from calibdask.statistics.layout import Layout
from tests.catalogue import ENTRIES

RNG = np.random.default_rng(0)
SCORES = RNG.dirichlet([1, 1, 1], 200)
LABELS = RNG.integers(0, 3, 200)


@pytest.mark.parametrize("vector", [False, True])
def test_every_number_of_every_estimator_has_a_meaning(vector: bool) -> None:
    scores, labels = (SCORES[:, 1], LABELS == 1) if vector else (SCORES, LABELS)
    metrics = {name: entry.estimator for name, entry in ENTRIES.items() if not vector or entry.classes is None}
    for name, variable in cd.evaluate(labels, scores, metrics).data_vars.items():
        for attribute in ("title", "definition", "kind", "direction", "meaning"):
            assert variable.attrs[attribute], f"{name} has no {attribute}"


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
    assert result.two.attrs["meaning"].endswith("corrected for sampling bias")


def test_panels() -> None:
    assert list(cd.default_metrics(3)) == list(cd.default_metrics(2, vector=False))
    assert len(cd.default_metrics(2)) == len(cd.default_metrics(10)) == 6
    assert list(cd.default_metrics(3, full=True))[:6] == list(cd.default_metrics(3))
    assert "brier_decomposition" in cd.default_metrics(2, full=True)
    assert "ece_classwise" in cd.default_metrics(10, full=True)
    for full in (False, True):
        assert set(summary_metrics(vector=True, full=full)) <= set(cd.default_metrics(2, full=full))
    assert not any(metric.is_test(Layout(vector=False)) for metric in comparison_metrics(vector=False).values())
    for panel, scores, labels in ((None, SCORES, LABELS), (None, SCORES[:, 1], LABELS == 1)):
        assert cd.evaluate(labels, scores, panel).attrs["passes"] == 1


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_tables_and_json_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.npz")
    np.savez(path, labels=LABELS, scores=SCORES)
    table = shown(capsys, "evaluate", path)
    assert "meaning" in table
    assert "mean gap of confidence and accuracy" in table
    assert max(map(len, table.splitlines())) <= 100
    table = shown(capsys, "evaluate", path, "--ci", "0.9", "--ci-method", "percentile", "--n-boot", "5")
    assert "low" in table
    assert "mean squared error of the scores" in table
    result = json.loads(shown(capsys, "evaluate", path, "--json", "--metric", "ece", "--metric", "corp"))["metrics"]
    assert result["ece"]["meaning"].startswith("mean gap")
    assert result["corp"]["meaning"]["uncertainty"].startswith("score of")


def test_costs_and_rules_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.npz")
    np.savez(path, labels=LABELS, scores=SCORES)
    arguments = ["--costs", "0,1,2;1,0,5;0.4,0.4,0.4", "--calibration", "classwise", "--rule", "log", "--kind", "range"]
    names = ["excess-cost", "corp", "ecce", "log-loss-decomposition"]
    options = [word for name in names for word in ("--metric", name)]
    actual = json.loads(shown(capsys, "evaluate", path, "--json", *options, *arguments))["metrics"]
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
    assert actual["excess_cost"]["value"] == expected.cost.item()
    assert actual["corp"]["miscalibration"] == expected.c_miscalibration.item()
    assert actual["ecce"]["value"] == expected.e.item()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ci-method", "bca"], "--ci-method has no effect without --ci"),
        (["--metric", "excess-cost", "--costs", "0,x"], "expected a number or a list such as [0, 0.5, 1], got '0,x'"),
        (["--metric", "excess-cost", "--costs", "0,1;1,0"], "a column for each of the 3 classes"),
        (["--costs", "0,1"], "--costs has no effect on"),
    ],
)
def test_bad_choices(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.npz")
    np.savez(path, labels=LABELS, scores=SCORES)
    assert main(["evaluate", path, *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
