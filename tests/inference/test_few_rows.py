"""Promises where rows, or those of an outcome, are few: equivalence tests, intervals of pairs, bins and their terms.

Each count of data sets (or of bins in them) is beyond its limit in one of 10**5 seeds, if the promise holds exactly.
"""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import calibdask as cd
from calibdask.analyses.comparison_document import comparison_document
from calibdask.render.table import ResultTable
from calibdask.results.comparison import verdicts
from tests.inference.test_coverage import CHANCE

EQUIVALENCE = [
    {"estimator": "linear"},
    {"estimator": "block", "block": 10},
    {"estimator": "block", "block": 50},
]


def rare_sets(rows: int, sets: int) -> tuple[Any, Any, float]:
    """A rate of 0.04 scored 0.01, and the squared kernel calibration error, 2 * 0.03**2 whatever the kernel."""
    rng = np.random.default_rng([4, rows])
    return (rng.random((sets, rows)) < 0.04).astype(int), np.full((sets, rows), 0.01), 2 * 0.03**2


@pytest.mark.parametrize("choices", EQUIVALENCE, ids=str)
@pytest.mark.parametrize("rows", [200, 2000])
def test_errors_are_rarely_claimed_to_be_below_the_true_one(choices: dict[str, Any], rows: int) -> None:
    """At most 5 %, and 10 % of the intervals miss; normal limits did in 10 to 85 %."""
    sets = 300
    labels, scores, truth = rare_sets(rows, sets)
    asked = {
        "test": cd.SKCETest(delta=truth, bandwidth=0.2, **choices),
        "error": cd.SKCE(bandwidth=0.2, **choices),
    }
    result = cd.evaluate(labels, scores, asked, task="binary", ci=0.9)
    claimed = result.test_pvalue <= 0.05
    assert int(claimed.sum()) <= binom.isf(CHANCE, sets, 0.05)
    np.testing.assert_array_equal(claimed, result.test_bound <= truth)
    covering = (result.error_low <= truth) & (truth <= result.error_high)
    assert int(covering.sum()) >= binom.ppf(CHANCE, sets, 0.9)


def test_equivalence_is_found_where_rows_suffice() -> None:
    """Calibrated rows, delta 0.02: the bound of 4000 rows is 0.011 in the mean, with a standard deviation of 0.004."""
    rng = np.random.default_rng(5)
    scores = rng.random((50, 4000))
    labels = (rng.random(scores.shape) < scores).astype(int)
    test = cd.SKCETest(estimator="block", block=20, delta=0.02, bandwidth=0.2)
    result = cd.evaluate(labels, scores, test, task="binary")
    assert int((result.skce_test_pvalue <= 0.05).sum()) >= 40


BINS: list[dict[str, Any]] = [{}, {"closed": "left"}, {"mapping": "convex"}, {"binning": "equal-mass", "bins": 5}]


@pytest.mark.parametrize("density", [(1, 1), (0.5, 20)], ids=["uniform", "rare"])
@pytest.mark.parametrize("rows", [50, 500])
def test_intervals_of_bins_hold_their_frequencies(density: tuple[float, float], rows: int) -> None:
    """Outcomes of probability s, so that frequency and mean score of a bin are equal in truth."""
    rng = np.random.default_rng([6, rows])
    scores = rng.beta(*density, (100, rows))
    labels = (rng.random(scores.shape) < scores).astype(int)
    grid = np.sort(np.random.default_rng(7).beta(*density, 1_000_000))
    index = np.clip(np.ceil(grid * 15).astype(int) - 1, 0, 14)
    truth = np.bincount(index, grid, 15) / np.maximum(np.bincount(index, minlength=15), 1)
    result = cd.evaluate(labels, scores, {"bins": cd.ReliabilityDiagram()}, task="binary", ci=0.9)
    filled = result.bins_count.values > 0
    for part in ("outcome", "score"):
        low, high = result[f"bins_{part}_low"].values, result[f"bins_{part}_high"].values
        assert low.shape == filled.shape
        covering = ((low <= truth) & (truth <= high))[filled]
        # Percentiles of replicates covered 0.38 to 0.68 of the frequencies.
        assert covering.sum() >= binom.ppf(CHANCE, filled.sum(), 0.9), (part, covering.mean())
        assert np.isnan(low[~filled]).all()
    assert result.bins_outcome_low.attrs["resampled"] == "nothing"


@pytest.mark.parametrize("choices", BINS, ids=str)
def test_intervals_of_bins_with_weights(choices: dict[str, Any]) -> None:
    """Of equal weights those without; weights that count rows give wider ones than as many rows; summaries agree."""
    rng = np.random.default_rng(8)
    scores = rng.random(300)
    labels = (rng.random(300) < scores).astype(int)
    diagram = {"d": cd.ReliabilityDiagram(**choices)}
    plain, doubled, unequal = (
        cd.evaluate(labels, scores, diagram, sample_weight=weights, ci=0.9)
        for weights in (None, np.full(300, 2.0), np.where(np.arange(300) % 2, 1.9, 0.1))
    )
    for part in ("outcome", "score"):
        for end in ("low", "high"):
            name = f"d_{part}_{end}"
            np.testing.assert_allclose(doubled[name], plain[name], rtol=1e-9, atol=1e-12)
    length = (plain.d_outcome_high - plain.d_outcome_low).values
    # Half of the rows carry next to all weight: some sqrt(2) times as long.
    assert np.nanmean((unequal.d_outcome_high - unequal.d_outcome_low).values) > 1.2 * np.nanmean(length)
    if choices in ({}, {"binning": "equal-mass", "bins": 5}):
        summary = cd.evaluate(cd.summarize(labels, scores, settings=("binary",)), metrics=diagram, ci=0.9)
        if not choices:
            np.testing.assert_allclose(summary.d_outcome_high, plain.d_outcome_high, rtol=1e-12)
        assert (summary.d_outcome_low <= summary.d_outcome).all()


def test_terms_within_bins_have_intervals_where_rows_suffice() -> None:
    """Uniform scores: their variance in each of 15 bins is (1/15)**2 / 12; percentiles of 50 rows held it in 1 %."""
    rng = np.random.default_rng(9)
    truth = 15.0**-2 / 12
    names = ["parts_within_variance", "parts_within_covariance"]
    for rows, sets in ((50, 5), (500, 100)):
        scores = rng.random((sets, rows))
        labels = (rng.random(scores.shape) < scores).astype(int)
        decomposition = {"parts": cd.BrierDecomposition(closed="left")}
        result = cd.evaluate(labels, scores, decomposition, task="binary", ci=0.9, n_boot=70)
        for name in names:
            low, high = result[f"{name}_low"], result[f"{name}_high"]
            if rows == 50:
                assert (np.isnan(low) & np.isnan(high)).all()
                assert "fewer than 10" in result[name].attrs["no_interval"]
            else:
                # Calibrated: the covariance within bins is twice the variance.
                true = truth if name.endswith("variance") and "co" not in name else 2 * truth
                # Not from the limit of the term, as errors of calibrated models are.
                assert (np.isfinite(low) & (low != 0)).all()
                covering = int(((low <= true) & (true <= high)).sum())
                assert covering >= binom.ppf(CHANCE, sets, 0.855), (name, covering)
                assert "no_interval" not in result[name].attrs
        assert np.isfinite(result.parts_reliability_high).all()


def test_the_covariance_within_bins_needs_rows_of_both_outcomes() -> None:
    scores = np.random.default_rng(10).random(1000) / 50
    labels = np.arange(1000) < 9
    result = cd.evaluate(labels, scores, {"parts": cd.BrierDecomposition()}, ci=0.9, n_boot=20)
    assert np.isnan(result.parts_within_covariance_high)
    assert np.isfinite(result.parts_within_variance_high)


@pytest.mark.parametrize("weights", [None, np.tile([1.0, 2.5], 30)])
def test_scores_have_no_interval_where_outcomes_are_alike(weights: Any) -> None:
    scores, day = np.linspace(0.01, 0.02, 60), np.repeat(["mon", "tue"], 30)
    labels = (np.arange(60) > 45).astype(int)
    metrics = {
        "brier": cd.BrierScore(),
        "terms": cd.BrierDecomposition(bins=2),
        "log": cd.LogLoss(),
        "gap": cd.MeanGap(),
    }
    summary = cd.summarize(labels, scores, by={"day": day}, sample_weight=weights)
    rows = cd.evaluate(labels, scores, metrics, by={"day": day}, sample_weight=weights, ci=0.9, n_boot=20)
    for result in (rows, cd.evaluate(summary, metrics=metrics, ci=0.9, n_boot=20)):
        for name in ("brier", "terms_score", "terms_uncertainty", "log"):
            for end in ("low", "high"):
                assert np.isfinite(result[f"{name}_{end}"].sel(day="tue"))
                assert np.isnan(result[f"{name}_{end}"].sel(day="mon"))
        # Exact ends; with weights the weight of the outcome that did not occur is unknown.
        expected = [weights is None, True]
        np.testing.assert_array_equal(result.gap_low < result.gap_high, expected)
    assert "no intervals of scores and their terms in slices where all outcomes are equal" in str(ResultTable(rows))
    assert ("no interval" in str(ResultTable(rows[["gap", "gap_low", "gap_high"]]))) == (weights is not None)


def test_scores_of_several_classes_have_no_interval_where_all_predictions_are_right() -> None:
    labels = np.arange(60) % 3
    scores = np.where(labels[:, None] == np.arange(3), 0.9, 0.05)
    result = cd.evaluate(labels, scores, {"brier": cd.BrierScore(), "log": cd.LogLoss()}, ci=0.9, n_boot=20)
    assert np.isnan([result.brier_low, result.log_high]).all()
    labels[:3] = [1, 2, 0]
    result = cd.evaluate(labels, scores, {"brier": cd.BrierScore()}, ci=0.9, n_boot=20)
    assert result.brier_low < result.brier < result.brier_high


@pytest.mark.parametrize("rows", [30, 100, 500])
def test_models_as_good_as_each_other_rarely_differ(rows: int) -> None:
    sets = 200
    rng = np.random.default_rng([7, rows])
    rate = rng.beta(0.5, 32.8, (sets, rows))
    labels = (rng.random((sets, rows)) < rate).astype(int)
    # Brier scores differ by 0 on average: errors of both are a third of the rate.
    result = cd.compare(labels, rate * 4 / 3, rate * 2 / 3, {"b": cd.BrierScore()}, task="binary", n_boot=200)
    found = int((result.b_difference_pvalue <= 0.05).sum())
    assert found <= binom.isf(CHANCE, sets, 0.05)
    events = labels.sum(1)
    np.testing.assert_array_equal(np.isnan(result.b_difference_low), events < 5)


def test_comparisons_without_events_say_so() -> None:
    scores = np.linspace(0.01, 0.02, 100)
    country = np.repeat(["at", "be"], 50)
    labels = (np.arange(100) >= 90).astype(int)
    result = cd.compare(
        labels, {"a": scores, "b": scores**2}, metrics=cd.BrierScore(), by={"country": country}, n_boot=50
    )
    assert np.isnan(result.brier_score_difference_pvalue_holm.sel(country="at")).all()
    assert np.isfinite(result.brier_score_difference_pvalue_holm.sel(country="be")).all()
    result = cd.compare(labels[:50], {"a": scores[:50], "b": scores[:50] ** 2}, metrics=cd.BrierScore(), n_boot=50)
    (sentence,) = verdicts(result)
    assert "inconclusive" in sentence
    reason = "no interval where fewer than 5 rows, with weights effective rows, have the rarer outcome"
    assert reason in sentence
    assert f"Brier score: {reason}." in " ".join(comparison_document(result).to_text(100).split())
