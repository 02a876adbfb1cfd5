"""Intervals of errors where all outcomes are equal: replicates have no other outcome."""

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
