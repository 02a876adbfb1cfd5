"""The mean gap: what it measures, and its score intervals where outcomes are few or all alike."""

import numpy as np
import pytest
from scipy import stats

import calibdask as cd


def ends(labels: object, scores: object, **options: object) -> tuple[np.ndarray, np.ndarray]:
    result = cd.evaluate(labels, scores, cd.MeanGap(), ci=0.95, **options)
    assert result.mean_gap_low.attrs["interval"] == "score"
    return result.mean_gap_low.values, result.mean_gap_high.values


@pytest.mark.parametrize(("events", "rows"), [(0, 50), (1, 50), (25, 50), (50, 50), (3, 2000), (400, 2000)])
def test_intervals_of_equal_scores_hold_those_of_wilson_and_of_few_events_the_exact_ones(
    events: int, rows: int
) -> None:
    labels = np.r_[np.ones(events, int), np.zeros(rows - events, int)]
    methods = ("wilson", "exact") if min(events, rows - events) < 20 else ("wilson",)
    expected = [stats.binomtest(events, rows).proportion_ci(0.95, method=method) for method in methods]
    low, high = ends(labels, np.full(rows, 0.125))
    outer = min(one.low for one in expected), max(one.high for one in expected)
    assert (float(low), float(high)) == pytest.approx((outer[0] - 0.125, outer[1] - 0.125), abs=1e-9)


@pytest.mark.parametrize("ci", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("rows", "rate"), [(170, 0.001), (17, 0.01), (100, 0.001), (30, 0.001), (1000, 0.005)])
def test_intervals_hold_with_any_number_of_expected_events(rows: int, rate: float, ci: float) -> None:
    """Summed over the numbers of events of calibrated models; score intervals alone held 0 with .84 at 95 %."""
    counts = np.arange(min(rows, 30))
    labels = (np.arange(rows) < counts[:, None]).astype(int)
    result = cd.evaluate(labels, np.full(labels.shape, rate), cd.MeanGap(), ci=ci, task="binary")
    holds = (result.mean_gap_low.values <= 0) & (result.mean_gap_high.values >= 0)
    assert stats.binom.pmf(counts, rows, rate)[holds].sum() >= ci - 0.01


def test_intervals_allow_for_errors_of_certain_scores_that_did_not_occur() -> None:
    """Half of the rows have the score 0.0001 and the rate 0.005: without an event nothing shows."""
    labels = np.r_[np.zeros(200, int), np.ones(200, int)]
    low, high = ends(labels, np.where(labels == 1, 0.9999, 0.0001))
    assert high > 0.0025
    assert low < -0.0025


def test_intervals_of_many_rows_are_normal() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(100_000)
    labels = (rng.random(scores.size) < scores).astype(int)
    residual = labels - scores
    half = 1.959964 * residual.std() / scores.size**0.5
    low, high = ends(labels, scores)
    assert (float(low), float(high)) == pytest.approx((residual.mean() - half, residual.mean() + half), abs=0.01 * half)


def test_certain_and_right_scores_leave_room_for_errors() -> None:
    labels = np.arange(50) % 2
    share = 1 - 0.025 ** (1 / 50)
    low, high = ends(labels, labels.astype(float))
    assert (float(low), float(high)) == pytest.approx((-share, share), rel=1e-5)


@pytest.mark.parametrize(("rate", "rows"), [(0.01, 50), (0.01, 300), (0.04, 30)])
def test_intervals_hold_with_rare_outcomes(rate: float, rows: int) -> None:
    rng = np.random.default_rng(1)
    labels = (rng.random((2000, rows)) < rate).astype(int)
    low, high = ends(labels, np.full((2000, rows), rate), task="binary")
    # The normal ones held 0.40 to 0.81, and had no width without an event.
    assert ((low <= 0) & (high >= 0)).mean() > 0.89
    assert (high > low).all()


def test_confidences_are_measured_where_they_are() -> None:
    scores, labels = np.full((100, 2), 0.3), np.r_[np.zeros(40, int), np.ones(60, int)]
    scores[0, 1] = 0.7  # a row as it should be
    result = cd.evaluate(labels, scores, cd.MeanGap(), sum_tolerance=0.5)
    assert (float(result.mean_gap), float(result.mean_gap_score)) == pytest.approx((0.086, 0.304))
    for metric in (cd.DensityECE(), cd.ReliabilityCurve(), cd.LocalCalibrationError()):
        with pytest.raises(ValueError, match=r"of at least 0\.5.*99 rows of a block have less, the first 0\.3"):
            cd.evaluate(labels, scores, metric, sum_tolerance=0.5)
    with pytest.raises(ValueError, match=r"of at least 0\.5"):
        cd.summarize(labels, scores, sum_tolerance=0.5)
    # Other settings have no such support, and rows of weight 0 do not count.
    assert np.isfinite(cd.density_ece(labels, scores, setting=1, sum_tolerance=0.5))
    weights = np.r_[np.ones(99), 0.0]
    scores[:99] = [0.4, 0.6]
    scores[0] = [0.8, 0.2]
    assert np.isfinite(cd.density_ece(labels, scores, sum_tolerance=0.5, sample_weight=weights))
