"""Numbers of another population: equal to rows that are weighted, and scores that are changed, by hand."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.analyses.gating.check import Check
from calibdask.analyses.receipts.receipt import receipt_and_gate
from calibdask.cli import main
from calibdask.data.data import Data
from calibdask.data.options import InputOptions

pytestmark = pytest.mark.usefixtures("without_recalibration")

RNG = np.random.default_rng(0)
SCORES = RNG.beta(1, 4, 6000)
LABELS = (RNG.random(6000) < SCORES**1.1).astype(int)
WEIGHTS = RNG.uniform(0.5, 2, 6000)
COUNTRY = RNG.choice(["at", "fr"], 6000)
MATRIX = RNG.dirichlet([1, 2, 3], 3000)
CLASSES = np.array([RNG.choice(3, p=row) for row in MATRIX])
METRICS = {
    "ece": cd.ECE(),
    "mass": cd.ECE(binning="equal-mass"),
    "cutoff": cd.CutoffError(),
    "gap": cd.MeanGap(),
    "brier": cd.BrierScore(),
    "log": cd.LogLoss(),
    "ne": cd.NormalizedEntropy(),
    "slope": cd.CalibrationSlope(),
    "auc": cd.CStatistic(),
    "oe": cd.ObservedExpected(),
    "benefit": cd.NetBenefit(thresholds=(0.1, 0.3)),
}
ALL = cd.Population(prevalence=0.005, train_prevalence=0.2, sampling_rate=0.3)


def by_hand(population: cd.Population, labels: Any, scores: Any, base: Any = None) -> tuple[Any, Any]:
    """Scores and weights of a binary problem, from the odds."""
    base = np.ones(labels.size) if base is None else base
    sample = np.average(labels, weights=base)
    target = population.prevalence
    odds = scores / (1 - scores)
    if population.sampling_rate is not None:
        odds = odds * population.sampling_rate
    if population.train_prevalence is not None:
        aim, learnt = sample if target is None else target, population.train_prevalence
        odds = odds * (aim / (1 - aim)) / (learnt / (1 - learnt))
    weights = base
    if target is not None:
        weights = base * np.where(labels == 1, target / sample, (1 - target) / (1 - sample))
    return odds / (1 + odds), weights


@pytest.mark.parametrize(
    "population",
    [
        cd.Population(prevalence=0.02),
        cd.Population(train_prevalence=0.3),
        cd.Population(sampling_rate=0.1),
        cd.Population(prevalence=0.02, train_prevalence=0.3),
        ALL,
    ],
    ids=lambda population: population.text,
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore::calibdask.errors.SuspectScoresWarning")
def test_equal_to_weighting_rows_by_hand(population: cd.Population, weighted: bool) -> None:
    base = WEIGHTS if weighted else None
    result = cd.evaluate(LABELS, SCORES, METRICS, sample_weight=base, population=population, by={"c": COUNTRY})
    scores, weights = by_hand(population, LABELS, SCORES, base)
    expected = cd.evaluate(LABELS, scores, METRICS, sample_weight=weights, by={"c": COUNTRY})
    for name in expected:
        np.testing.assert_allclose(result[name], expected[name], rtol=1e-12, atol=1e-13, err_msg=str(name))
        assert result[name].attrs["population"] == population.text
    assert result.attrs["population"] == population.text


def test_intervals_and_chunks_are_those_of_weighted_rows() -> None:
    population = cd.Population(prevalence=0.05, train_prevalence=0.3)
    metrics = {name: METRICS[name] for name in ("ece", "gap", "brier", "cutoff")}
    result = cd.evaluate(LABELS, SCORES, metrics, population=population, ci=0.9, n_boot=20)
    chunked = cd.evaluate(
        da.from_array(LABELS, 700), da.from_array(SCORES, 900), metrics, population=population, ci=0.9, n_boot=20
    )
    scores, weights = by_hand(population, LABELS, SCORES)
    expected = cd.evaluate(LABELS, scores, metrics, sample_weight=weights, ci=0.9, n_boot=20)
    for name in expected:
        np.testing.assert_allclose(result[name], expected[name], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(chunked[name], result[name], rtol=1e-9, atol=1e-12)


def test_classes() -> None:
    target, learnt, rates = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.3, 0.5]), np.array([1.0, 0.5, 0.25])
    metrics = {"ece": cd.ECE(setting="classwise"), "log": cd.LogLoss(), "brier": cd.BrierScore(), "conf": cd.ECE()}
    population = cd.Population(prevalence=target.tolist(), train_prevalence=learnt, sampling_rate=rates)
    result = cd.evaluate(CLASSES, MATRIX, metrics, population=population)
    products = MATRIX * target / learnt / rates
    scores = products / products.sum(1, keepdims=True)
    weights = (target / (np.bincount(CLASSES) / CLASSES.size))[CLASSES]
    expected = cd.evaluate(CLASSES, scores, metrics, sample_weight=weights)
    for name in expected:
        np.testing.assert_allclose(result[name], expected[name], rtol=1e-10)
    # The labels of the sample are counted beforehand.
    assert result.attrs["passes"] == expected.attrs["passes"] + 1
    assert result.attrs["population"].startswith("at prevalence 70 %, 20 %, 10 %, scores corrected from")


@pytest.mark.parametrize("by", [None, {"c": COUNTRY}])
@pytest.mark.filterwarnings("ignore::calibdask.errors.SuspectScoresWarning")
def test_a_summary_answers_alike(by: Any) -> None:
    summary = cd.summarize(LABELS, SCORES, settings=["binary"], by=by)
    weighted = cd.Population(prevalence=0.02)
    metrics = {name: metric for name, metric in METRICS.items() if name not in ("mass", "benefit", "log", "ne")}
    of_rows = cd.evaluate(LABELS, SCORES, metrics, by=by, population=weighted)
    of_summary = cd.evaluate(summary, metrics=metrics, population=weighted)
    assert float(of_summary.gap_outcome.mean()) == pytest.approx(float(of_rows.gap_outcome.mean()), rel=1e-12)
    for name in metrics:
        if name in of_rows:
            np.testing.assert_allclose(of_summary[name], of_rows[name], rtol=2e-3, atol=2e-5, err_msg=name)
    np.testing.assert_allclose(of_summary.ece, of_rows.ece, rtol=1e-8)
    moved = cd.evaluate(summary, metrics=metrics, population=ALL)
    rows_moved = cd.evaluate(LABELS, SCORES, metrics, by=by, population=ALL)
    for name in ("gap", "brier", "cutoff"):
        np.testing.assert_allclose(moved[name], rows_moved[name], rtol=2e-3, atol=2e-5, err_msg=name)
    assert moved.attrs["population"] == ALL.text
    # Made of the rows, it is the same.
    made = cd.summarize(LABELS, SCORES, settings=["binary"], by=by, population=ALL)
    again = cd.evaluate(made, metrics=metrics)
    assert again.attrs["population"] == ALL.text
    np.testing.assert_allclose(again.gap, rows_moved.gap, rtol=1e-7)


def test_the_truth_of_a_population_is_found_in_an_enriched_sample() -> None:
    """A population of prevalence 2 %, of which all positives and a tenth of the negatives are kept."""
    rng = np.random.default_rng(1)
    truth = rng.beta(0.5, 24.5, 400_000)
    labels = (rng.random(truth.size) < truth).astype(int)
    whole = cd.evaluate(labels, truth, [cd.ECE(), cd.BrierScore(), cd.NormalizedEntropy()])
    kept = (labels == 1) | (rng.random(truth.size) < 0.1)
    population = cd.Population(prevalence=labels.mean())
    part = cd.evaluate(
        labels[kept], truth[kept], [cd.ECE(), cd.BrierScore(), cd.NormalizedEntropy()], population=population
    )
    assert float(part.brier_score) == pytest.approx(float(whole.brier_score), rel=0.01)
    assert float(part.normalized_entropy) == pytest.approx(float(whole.normalized_entropy), rel=0.01)
    # A model that was trained on such a sample states odds that are ten times too large.
    trained = 10 * truth / (10 * truth + 1 - truth)
    corrected = cd.evaluate(labels, trained, cd.ECE(), population=cd.Population(sampling_rate=0.1))
    assert float(corrected.ece) == pytest.approx(float(whole.ece), abs=1e-9)


def test_check_and_threshold() -> None:
    population = cd.Population(prevalence=0.1)
    gate = cd.check(LABELS, SCORES, {"mean-gap": 0.2}, population=population)
    scores, weights = by_hand(population, LABELS, SCORES)
    expected = cd.check(LABELS, scores, {"mean-gap": 0.2}, sample_weight=weights)
    assert gate.judgements[0].value == pytest.approx(expected.judgements[0].value)
    assert gate.judgements[0].high == pytest.approx(expected.judgements[0].high)
    assert gate.population == "at prevalence 10 %"
    with pytest.raises(ValueError, match="guarantee counts rows"):
        cd.threshold(LABELS, SCORES, population=population)
    corrected = cd.threshold(LABELS, SCORES, 0.1, population=cd.Population(sampling_rate=0.5))
    by_hand_scores, _ = by_hand(cd.Population(sampling_rate=0.5), LABELS, SCORES)
    assert float(corrected.threshold) == float(cd.threshold(LABELS, by_hand_scores, 0.1).threshold)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expects a prevalence"),
        ({"prevalence": 1.5}, "share between 0 and 1"),
        ({"prevalence": 0}, "share between 0 and 1"),
        ({"prevalence": [0.5, 0.6]}, "add up to 1"),
        ({"sampling_rate": "a tenth"}, "expects a share"),
    ],
)
def test_wrong_populations_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.Population(**options)


def test_data_that_do_not_fit_are_refused() -> None:
    half = cd.Population(prevalence=0.5)
    with pytest.raises(ValueError, match="each of the 3 classes"):
        cd.evaluate(CLASSES, MATRIX, population=half)
    with pytest.raises(ValueError, match="none has the label 1"):
        cd.evaluate(np.zeros(5, int), np.full(5, 0.5), population=half)
    with pytest.raises(ValueError, match="summary of binary scores"):
        cd.evaluate(cd.summarize(CLASSES, MATRIX), population=cd.Population(prevalence=[0.2, 0.3, 0.5]))
    with pytest.raises(TypeError, match=r"calibdask\.Population"):
        cd.evaluate(LABELS, SCORES, population=0.02)
    with pytest.raises(ValueError, match="multilabel"):
        cd.evaluate(np.eye(3, dtype=int), np.full((3, 3), 0.3), task="multilabel", population=half)
    made = cd.summarize(LABELS, SCORES, population=half)
    with pytest.raises(ValueError, match="already refers to a population"):
        cd.evaluate(made, population=half)
    with pytest.raises(ValueError, match="same population"):
        cd.merge(made, cd.summarize(LABELS, SCORES, population=cd.Population(prevalence=0.4)))
    assert cd.merge(made, made).attrs["population"] == "at prevalence 50 %"
    data = Data.of(LABELS, SCORES, options=InputOptions(population=half))
    with pytest.raises(ValueError, match="without a population"):
        receipt_and_gate(data, Check())


def test_at_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "rows.parquet", tmp_path / "s.zarr"
    pd.DataFrame({"label": LABELS, "score": SCORES, "country": COUNTRY}).to_parquet(path)
    options = ["--prevalence", "0.02", "--train-prevalence", "0.3", "--sampling-rate", "0.5"]
    population = cd.Population(prevalence=0.02, train_prevalence=0.3, sampling_rate=0.5)
    assert main(["evaluate", str(path), "--metric", "mean-gap,brier", *options, "--no-text-plot"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "at prevalence 2 %, scores corrected from prevalence 30 %, negatives kept at 50 %" in shown
    expected = float(cd.evaluate(LABELS, SCORES, cd.BrierScore(), population=population).brier_score)
    assert f"{expected:.3f}" in shown
    assert main(["summarize", str(path), "--out", str(out), "--setting", "binary"]) == 0
    assert main(["evaluate", str(out), "--metric", "brier", *options, "--no-text-plot"]) == 0
    assert f"{expected:.3f}" in capsys.readouterr().out
    assert main(["check", str(path), "--limit", "mean-gap=0.9", "--prevalence", "0.02"]) == 0
    assert "at prevalence 2 %" in capsys.readouterr().out

    assert main(["threshold", str(path), "--risk", "0.2", "--sampling-rate", "0.5"]) in (0, 3)
    assert main(["evaluate", str(path), "--prevalence", "two"]) == 2
    assert "--prevalence expects a share" in capsys.readouterr().err
