"""Numbers that rows do not support are refused."""

import math
from typing import Any

import numpy as np
import pytest

import calibdask as cd

TESTS = {"spiegelhalter": cd.SpiegelhalterTest(), "ecce": cd.ECCE()}


def evaluated(labels: Any, scores: Any, metrics: Any, weights: Any = None, ci: float | None = None) -> Any:
    return cd.evaluate(np.asarray(labels), np.asarray(scores), metrics, ci=ci, sample_weight=weights, task="binary")


@pytest.mark.parametrize("name", [*TESTS])
@pytest.mark.parametrize(("expected_events", "has_pvalue"), [(0.5, False), (4.0, True)])
def test_tests_give_no_pvalue_where_hardly_an_outcome_is_expected(
    name: str, expected_events: float, has_pvalue: bool
) -> None:
    rows = 1000
    labels = np.zeros(rows, int)
    labels[:2] = 1
    result = evaluated(labels, np.full(rows, expected_events / rows), {"x": TESTS[name]})
    assert np.isfinite(result.x_pvalue) == has_pvalue
    assert ("outcomes are so rare" in result.x_pvalue.attrs.get("undefined", "")) != has_pvalue


@pytest.mark.parametrize("name", [*TESTS])
def test_tests_give_no_pvalue_where_the_weight_of_an_outcome_is_unknown(name: str) -> None:
    scores = np.linspace(0.05, 0.4, 60)
    weighted = evaluated(np.zeros(60, int), scores, {"x": TESTS[name]}, np.ones(60))
    assert np.isnan(weighted.x_pvalue)
    assert "weight of the other outcome is unknown" in weighted.x_pvalue.attrs["undefined"]
    assert np.isfinite(evaluated(np.zeros(60, int), scores, {"x": TESTS[name]}).x_pvalue)


def test_spiegelhalter_test_has_the_larger_variance() -> None:
    rng = np.random.default_rng(4)
    scores = rng.uniform(0.02, 0.5, 400)
    labels = (rng.random(400) < scores).astype(int)
    weights = np.where(labels == 1, 9.0, 1.0)
    slope, excess = 1 - 2 * scores, labels - scores
    variances = (weights * slope) ** 2 * scores * (1 - scores), (weights * slope * excess) ** 2
    z = (weights * slope * excess).sum() / math.sqrt(max(of.sum() for of in variances))
    assert variances[1].sum() > variances[0].sum()
    result = evaluated(labels, scores, {"x": cd.SpiegelhalterTest()}, weights)
    assert float(result.x_statistic) == pytest.approx(z, rel=1e-9)


def test_calibrated_models_with_weights_by_outcome_are_not_rejected_too_often() -> None:
    rng = np.random.default_rng(8)
    scores = rng.uniform(0.02, 0.3, (200, 400))
    labels = (rng.random(scores.shape) < scores).astype(int)
    # A case-control sample: one in ten of the rows without the outcome, each of weight 10.
    kept = (labels == 1) | (rng.random(scores.shape) < 0.1)
    weights = kept * np.where(labels == 1, 1.0, 10.0)
    result = evaluated(labels, scores, TESTS, weights)
    for name in TESTS:
        # At 0.05, more than 21 of 200 have a probability of 0.0005.
        assert (result[f"{name}_pvalue"] <= 0.05).sum() <= 21


@pytest.mark.parametrize("at", [0.0, 1.0])
def test_slopes_that_rest_on_clipped_logits_have_no_interval(at: float) -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.1, 0.9, 300)
    labels = (rng.random(300) < scores).astype(int)
    metric = {"x": cd.CalibrationSlope()}
    assert np.isfinite(evaluated(labels, scores, metric, ci=0.9).x_slope_low)
    scores[0] = at
    result = evaluated(labels, scores, metric, ci=0.9)
    assert np.isfinite(result.x_slope)
    assert np.isnan(result.x_slope_low)
    assert np.isnan(result.x_slope_high)
    assert "clipped" in result.x_slope.attrs["no_interval"]
    assert np.isfinite(result.x_intercept_low)


def compared(labels: Any, scores: Any, other: Any, metric: Any, weights: Any = None) -> Any:
    return cd.compare(labels, scores, other, {"x": metric}, n_boot=50, sample_weight=weights)


def test_differences_of_slopes_that_rest_on_clipped_logits_have_no_interval() -> None:
    rng = np.random.default_rng(1)
    scores = rng.uniform(0.1, 0.9, 300)
    labels = (rng.random(300) < scores).astype(int)
    other = 0.5 * scores + 0.25
    plain = compared(labels, scores, other, cd.CalibrationSlope())
    assert np.isfinite(plain.x_slope_difference_low)
    other[0] = 0.0
    clipped = compared(labels, scores, other, cd.CalibrationSlope())
    ends = [clipped[f"x_slope_difference_{end}"] for end in ("low", "high", "pvalue")]
    assert all(np.isnan(end) for end in ends)
    assert "clipped" in clipped.x_slope_difference.attrs["no_interval"]


@pytest.mark.parametrize(("events", "has_interval"), [(4, False), (8, True)])
def test_differences_count_rows_of_the_rarer_outcome_and_not_weights(events: int, has_interval: bool) -> None:
    rng = np.random.default_rng(2)
    scores = rng.uniform(0.05, 0.5, 200)
    labels = np.zeros(200, int)
    labels[:events] = 1
    # Each event stands for fifty rows, or each row without one for a twentieth.
    for weights in (np.where(labels == 1, 50.0, 1.0), np.where(labels == 1, 1.0, 0.05)):
        result = compared(labels, scores, 0.8 * scores, cd.BrierScore(), weights)
        assert np.isfinite(result.x_difference_low) == has_interval
        assert np.isfinite(result.x_difference_pvalue) == has_interval
