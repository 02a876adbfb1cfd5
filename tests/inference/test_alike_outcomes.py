"""Intervals where all outcomes are equal, or as the scores predict: replicates have no other outcome."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd

METRICS: dict[str, Any] = {"ece": cd.ECE(), "smooth": cd.SmoothECE()}


@pytest.mark.filterwarnings("ignore:.*not informative")
@pytest.mark.parametrize(("rows", "score", "rate"), [(300, 0.01, 0.001), (1000, 0.01, 0.001), (100, 0.0, 0.01)])
def test_the_error_that_is_true_is_not_excluded(rows: int, score: float, rate: float) -> None:
    """They held .26, .64 and .60 at 95 %, as often as there was an event."""
    labels, scores = np.zeros(rows, int), np.full(rows, score)
    result = cd.evaluate(labels, scores, METRICS, ci=0.95)
    summarized = cd.evaluate(cd.summarize(labels, scores), metrics=METRICS, ci=0.95)
    reach = 1 - 0.025 ** (1 / rows)
    for name in METRICS:
        low, high = float(result[f"{name}_low"]), float(result[f"{name}_high"])
        assert low <= abs(score - rate) <= high
        assert (low, high) == pytest.approx((max(score - reach, 0), score + reach), abs=1e-9)
        assert "all outcomes are equal" in result[name].attrs["no_replicates"]
        assert float(summarized[f"{name}_high"]) == pytest.approx(high, abs=1e-6)


@pytest.mark.filterwarnings("ignore:.*not informative")
def test_other_errors_and_weighted_ones_have_no_interval() -> None:
    labels, scores = np.ones(200, int), np.linspace(0.1, 0.9, 200)
    result = cd.evaluate(labels, scores, {"mce": cd.MCE(), "ecce": cd.ECCE(), "l2": cd.ECE(norm="l2")}, ci=0.9)
    weighted = cd.evaluate(labels, scores, METRICS, ci=0.9, sample_weight=np.full(200, 2.0))
    for numbers, names in ((result, ("mce", "ecce", "l2")), (weighted, METRICS)):
        for name in names:
            assert np.isnan(numbers[f"{name}_low"]) & np.isnan(numbers[f"{name}_high"])
            assert "there is no interval" in numbers[name].attrs["no_replicates"]


def test_slices_and_classes_are_each_by_themselves() -> None:
    rng = np.random.default_rng(0)
    by, scores = np.repeat([0, 1], 300), rng.random(600)
    labels = np.where(by == 1, rng.random(600) < scores, 0).astype(int)
    sliced = cd.evaluate(labels, scores, {"ece": cd.ECE()}, by={"g": by}, ci=0.9)
    alone = cd.evaluate(labels[by == 1], scores[by == 1], {"ece": cd.ECE()}, ci=0.9)
    np.testing.assert_allclose(sliced.ece_high[1], alone.ece_high)
    # Replicates of the scores differ, so that the ends are further off.
    assert float(sliced.ece_high[0] - sliced.ece[0]) > 1 - 0.05 ** (1 / 300)
    assert "(1 of 2)" in sliced.ece.attrs["no_replicates"]
    assert "no_replicates" not in alone.ece.attrs
    # Class 2 never occurs: of that class all outcomes are equal, of the largest score they are not.
    probabilities = rng.dirichlet([1, 1, 1], 300)
    metrics = {"ece": cd.ECE(), "absent": cd.ECE(setting=2)}
    classes = cd.evaluate(rng.integers(0, 2, 300), probabilities, metrics, ci=0.9)
    assert "no_replicates" not in classes.ece.attrs
    assert float(classes.absent_high - classes.absent) > 1 - 0.05 ** (1 / 300)
    assert "no_replicates" in classes.absent.attrs


def test_scores_that_are_all_right_do_not_exclude_wrong_ones() -> None:
    """Of scores that are wrong in 2 %, 90 rows lack a wrong one in 16 % of data sets: both ends were the estimate."""
    rng = np.random.default_rng(3)
    by, labels = np.repeat([0, 1], 90), rng.permutation(np.repeat([0, 1], 90))
    scores = np.where(labels == 1, 0.999, 0.001)
    scores[by == 1] = 1 - scores[by == 1]
    metrics = {**METRICS, "brier": cd.BrierScore(), "mce": cd.MCE(), "corp": cd.CORP(), "skill": cd.BrierSkillScore()}
    sliced = cd.evaluate(labels, scores, metrics, by={"g": by}, ci=0.95)
    result = cd.evaluate(labels[by == 0], scores[by == 0], metrics, ci=0.95)
    reach = 1 - 0.025 ** (1 / 90)
    for name in ("ece", "smooth", "brier"):
        assert float(result[f"{name}_low"]) <= 0.02 <= float(result[f"{name}_high"])
        assert "wrong side of 1/2 the interval allows" in result[name].attrs["no_replicates"]
        assert "wrong side of 1/2 (1 of 2) the interval" in sliced[name].attrs["no_replicates"]
        np.testing.assert_allclose(sliced[f"{name}_high"][0], result[f"{name}_high"], atol=1e-9)
    assert float(result.ece_high) == pytest.approx(0.001 + reach, abs=1e-9)
    assert float(result.brier_high) == pytest.approx(1e-6 + reach * (1 - 1e-6), abs=1e-9)
    assert np.isfinite(result.corp_uncertainty_high)
    for name in ("mce", "corp_miscalibration", "skill"):
        assert np.isnan(result[f"{name}_high"])
        assert np.isfinite(sliced[f"{name}_high"][1]) or name == "skill"
    weighted = cd.evaluate(labels[by == 0], scores[by == 0], metrics, ci=0.95, sample_weight=np.full(90, 2.0))
    summarized = cd.evaluate(cd.summarize(labels[by == 0], scores[by == 0]), metrics={"ece": cd.ECE()}, ci=0.95)
    assert np.isnan([float(weighted[f"{name}_high"]) for name in ("ece", "brier")]).all()
    assert float(summarized.ece_high) == pytest.approx(float(result.ece_high), abs=1e-6)
    gate = cd.check(labels[by == 0], scores[by == 0], {"brier-score": 0.15, "ece": 0.01}, task="binary")
    assert [judgement.outcome for judgement in gate.judgements] == ["met", "cannot be decided"]
    # A score of exactly 1/2 is on neither side.
    for label in (0, 1):
        half = cd.evaluate(np.r_[labels[by == 0], label], np.r_[scores[by == 0], 0.5], metrics, ci=0.95)
        assert float(half.brier_high) > reach
    # Weights of outcomes that did not occur are unknown, in clusters too.
    clustered = {"groups": np.arange(90), "sample_weight": np.linspace(1, 2, 90)}
    grouped = cd.evaluate(labels[by == 0], scores[by == 0], metrics, ci=0.95, **clustered)
    assert np.isnan([float(grouped[f"{name}_high"]) for name in ("ece", "brier")]).all()


def test_intercepts_of_sharp_scores_have_no_interval() -> None:
    """Of 50 rows, wrong in 2 %, 95 % intervals held the intercept in .48 of data sets."""
    scores = np.where(np.arange(300) % 2, 0.999, 0.001)
    labels = (scores > 0.5) ^ (np.arange(300) < 4)
    for groups in (None, np.arange(300)):
        result = cd.evaluate(labels, scores, {"x": cd.CalibrationSlope()}, ci=0.95, task="binary", groups=groups)
        assert np.isnan(result.x_intercept_low) & np.isnan(result.x_intercept_high)
        assert "wrong side of 1/2" in result.x_intercept.attrs["no_interval"]
    rare, events = np.r_[np.full(1000, 0.001), 0.51], np.r_[np.ones(10), np.zeros(990), 1]
    result = cd.evaluate(events, rare, {"x": cd.CalibrationSlope()}, ci=0.95, task="binary")
    assert 1.5 < float(result.x_intercept_low) < 2.3 < float(result.x_intercept_high) < 3.1
