"""The c statistic against scikit-learn and DeLong's placements, and consistency bars against quantiles of SciPy."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import roc_auc_score

import calibdask as cd
from calibdask.estimators.bounded_mean import BoundedMean

Array = NDArray[Any]


def rows(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Labels, and scores with many ties."""
    rng = np.random.default_rng(seed)
    scores = rng.random(count).round(2)
    return (rng.random(count) < scores).astype(int), scores


def c_of(*given: Any, **options: Any) -> Any:
    return cd.evaluate(*given, {"c": cd.CStatistic()}, **options)


@pytest.mark.parametrize("count", [7, 50, 3000])
def test_it_is_that_of_scikit_learn_with_ties_and_weights(count: int) -> None:
    labels, scores = rows(count, 1)
    weights = np.random.default_rng(2).exponential(size=count)
    assert float(c_of(labels, scores).c) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    weighted = float(c_of(labels, scores, sample_weight=weights).c)
    assert weighted == pytest.approx(roc_auc_score(labels, scores, sample_weight=weights), abs=1e-12)


def test_classes_are_told_from_all_others() -> None:
    rng = np.random.default_rng(3)
    scores = rng.dirichlet([1, 1, 1], 400).round(2) + 1e-3
    scores /= scores.sum(1, keepdims=True)
    labels = rng.integers(0, 3, 400)
    expected = [roc_auc_score(labels == k, scores[:, k]) for k in range(3)]
    np.testing.assert_allclose(c_of(labels, scores).c, expected, atol=1e-12)


def test_the_variance_is_that_of_placements() -> None:
    labels, scores = rows(60, 4)
    positive, negative = scores[labels == 1], scores[labels == 0]
    wins = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    variance = wins.mean(1).var(ddof=1) / positive.size + wins.mean(0).var(ddof=1) / negative.size
    fewer = min(positive.size, negative.size)
    expected = BoundedMean(wins.mean(), fewer * variance, fewer, 0.0, 1.0).ends(0.9)
    result = c_of(labels, scores, ci=0.9)
    np.testing.assert_allclose([result.c_low, result.c_high], expected, rtol=1e-10)
    # Equal weights count as none.
    weighted = c_of(labels, scores, ci=0.9, sample_weight=np.full(60, 0.3))
    np.testing.assert_allclose([weighted.c_low, weighted.c_high], expected, rtol=1e-10)


def test_one_kind_of_rows_has_no_c_statistic_and_one_row_of_a_kind_no_interval() -> None:
    slices = np.repeat(["none", "one", "both"], 4)
    labels = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1]
    result = c_of(labels, np.linspace(0.1, 0.9, 12), by={"part": slices}, ci=0.9).sel(part=["none", "one", "both"])
    np.testing.assert_equal(result.c.values, [np.nan, 1.0, 1.0])
    assert result.c.attrs["undefined"] == 1
    assert np.isnan(result.c_low.values).tolist() == [True, True, False]
    assert 0 < float(result.c_low[2]) < 1 == float(result.c_high[2])


def test_a_summary_says_how_far_ties_within_cells_may_move_it() -> None:
    rng = np.random.default_rng(5)
    scores = rng.random(20_000)
    labels = (rng.random(20_000) < scores).astype(int)
    rough = c_of(cd.summarize(labels, scores, settings=["binary"]), None)
    off = abs(float(rough.c) - roc_auc_score(labels, scores))
    assert 0 < off <= rough.c.attrs["c_bound"] < 2e-4


def test_intervals_hold() -> None:
    """Of 400 data sets of 300 rows: the true number is that of 200,000 scores, each row with both outcomes."""
    rng = np.random.default_rng(6)
    many, scores = rng.beta(1, 4, 200_000), rng.beta(1, 4, (400, 300))
    both = np.repeat([1, 0], many.size), np.tile(many, 2)
    true = float(c_of(*both, sample_weight=np.concatenate([many, 1 - many])).c)
    result = c_of((rng.random(scores.shape) < scores).astype(int), scores, task="binary", ci=0.9)
    covered = (result.c_low <= true) & (true <= result.c_high)
    assert 0.87 < float(covered.mean()) < 0.98


def test_bars_are_binomial_quantiles_and_hold_calibrated_frequencies() -> None:
    rng = np.random.default_rng(7)
    scores = rng.beta(1, 9, (300, 500))
    labels = (rng.random(scores.shape) < scores).astype(int)
    bars = cd.evaluate(labels, scores, {"x": cd.ConsistencyBars(bins=10)}, task="binary", ci=0.9)
    count, expected = bars.x_count.values, bars.x_expected.values
    filled = count > 0
    for end, share in (("low", 0.05), ("high", 0.95)):
        quantiles = stats.binom.ppf(share, count[filled], expected[filled]) / count[filled]
        np.testing.assert_allclose(bars[f"x_expected_{end}"].values[filled], quantiles, atol=1e-12)
        assert np.isnan(bars[f"x_expected_{end}"].values[~filled]).all()
    outside = (bars.x_outcome < bars.x_expected_low) | (bars.x_outcome > bars.x_expected_high)
    assert 0.04 < float(outside.values[:, :4].mean()) <= 0.1
    off = cd.evaluate(labels, scores / 2, {"x": cd.ConsistencyBars(bins=5)}, task="binary", ci=0.9)
    assert float((off.x_outcome > off.x_expected_high)[:, 0].mean()) > 0.9


def test_bars_of_scores_of_0_and_1_and_of_weights() -> None:
    bars = cd.evaluate([0, 1, 1, 0], [0.0, 0.0, 1.0, 1.0], {"x": cd.ConsistencyBars(bins=2)}, ci=0.95)
    assert bars.x_expected_low.values.tolist() == bars.x_expected_high.values.tolist() == [0.0, 1.0]
    labels, scores = rows(200, 8)
    plain = cd.evaluate(labels, scores, {"x": cd.ConsistencyBars(bins=4)}, ci=0.95)
    weighted = cd.evaluate(labels, scores, {"x": cd.ConsistencyBars(bins=4)}, ci=0.95, sample_weight=np.full(200, 0.7))
    np.testing.assert_allclose(weighted.x_expected_low, plain.x_expected_low, rtol=1e-12)
