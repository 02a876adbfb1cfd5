"""Numbers that rows do not support are refused."""

import math
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.render.table import ResultTable

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


@pytest.mark.parametrize(
    ("metric", "part"), [(cd.CalibrationSlope(), "slope_difference"), (cd.LogLoss(), "difference")]
)
def test_differences_are_refused_only_where_a_model_has_such_scores(metric: Any, part: str) -> None:
    """One slice, and one challenger, do not blank the others."""
    rng = np.random.default_rng(1)
    scores = rng.uniform(0.1, 0.9, 600)
    labels = (rng.random(600) < scores).astype(int)
    day = np.where(np.arange(600) < 300, "mon", "tue")
    first, second = 0.5 * scores + 0.25, 0.8 * scores + 0.1
    first[0] = 0.0
    result = cd.compare(
        labels, {"base": scores, "a": first, "b": second}, None, {"x": metric}, by={"day": day}, n_boot=50
    )
    ends = result[f"x_{part}_low"]
    finite = {
        (model, slice_): bool(np.isfinite(ends.sel(challenger=model, day=slice_)))
        for model in "ab"
        for slice_ in ("mon", "tue")
    }
    assert finite == {("a", "mon"): False, ("a", "tue"): True, ("b", "mon"): True, ("b", "tue"): True}
    assert result[f"x_{part}"].attrs["no_interval"]


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
        assert ("no_interval" in result.x_difference.attrs) != has_interval


@pytest.mark.parametrize(("heaviest", "note"), [(100.0, "no_interval"), (12.0, "uneven_weights")])
def test_comparisons_say_what_uneven_weights_do(heaviest: float, note: str) -> None:
    labels = (np.arange(200) < 40).astype(int)
    scores = np.linspace(0.5, 0.05, 200)
    result = compared(labels, scores, 0.8 * scores, cd.BrierScore(), np.where(np.arange(200) == 3, heaviest, 1.0))
    assert note in result.x_difference.attrs
    assert np.isfinite(result.x_difference_low) == (note == "uneven_weights")
    assert str(result.x_difference.attrs[note]) in " ".join(result.calib.document().to_text(100).split())


UNBOUNDED = {
    "loss": cd.LogLoss(),
    "entropy": cd.NormalizedEntropy(),
    "skill": cd.LogSkillScore(),
    "terms": cd.LogLossDecomposition(),
    "refinement": cd.Refinement(),
}
UNBOUNDED_PARTS = ("loss", "entropy", "skill", "terms_score", "terms_within", "refinement", "refinement_calibration")


@pytest.mark.parametrize("at", [0.0, 1.0])
@pytest.mark.parametrize("classes", [1, 2])
def test_log_losses_have_no_interval_where_a_score_is_exactly_0_or_1(at: float, classes: int) -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.1, 0.9, 300)
    labels = (rng.random(300) < scores).astype(int)
    # The score is right: no loss shows that another one like it may be wrong.
    labels[0] = int(at)
    bounded = {"clipped": cd.LogLoss(clip=0.001), "brier": cd.BrierScore()}

    def result(scores: Any) -> Any:
        given = scores if classes == 1 else np.stack([1 - scores, scores], axis=1)
        options: dict[str, Any] = {"ci": 0.9, "n_boot": 20}
        return cd.evaluate(labels, given, UNBOUNDED | bounded, **options)

    plain = result(scores)
    assert all(np.isfinite(plain[f"{part}_low"]).all() for part in UNBOUNDED_PARTS)
    scores[0] = at
    saturated = result(scores)
    for part in UNBOUNDED_PARTS:
        assert np.isfinite(saturated[part])
        assert np.isnan(saturated[f"{part}_low"])
        assert np.isnan(saturated[f"{part}_high"])
        assert "unbounded" in saturated[part].attrs["no_interval"]
    for part in bounded:
        assert np.isfinite(saturated[f"{part}_low"])
    assert "no interval with scores of exactly 0 or 1" in str(ResultTable(saturated))


def test_only_slices_with_saturated_scores_lack_intervals_of_the_log_loss() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.1, 0.9, 300)
    labels = (rng.random(300) < scores).astype(int)
    scores[0], labels[0] = 1.0, 1
    by = {"half": np.arange(300) < 150}
    result = cd.evaluate(labels, scores, {"x": cd.LogLoss()}, by=by, ci=0.9, n_boot=20)
    assert np.isnan(result.x_low).sum() == 1
    assert np.isfinite(result.x_low.sel(half=False))
    summary = cd.summarize(labels, scores, by=by, settings=["binary"])
    np.testing.assert_array_equal(
        np.isnan(cd.evaluate(summary, metrics={"x": cd.LogLoss()}, ci=0.9, n_boot=20).x_low), np.isnan(result.x_low)
    )


def test_differences_of_log_losses_have_no_interval_where_a_score_is_exactly_0_or_1() -> None:
    rng = np.random.default_rng(1)
    scores = rng.uniform(0.1, 0.9, 300)
    labels = (rng.random(300) < scores).astype(int)
    other = 0.5 * scores + 0.25
    assert np.isfinite(compared(labels, scores, other, cd.LogLoss()).x_difference_low)
    other[0], labels[0] = 0.0, 0
    refused = compared(labels, scores, other, cd.LogLoss())
    assert all(np.isnan(refused[f"x_difference_{end}"]) for end in ("low", "high", "pvalue"))
    assert "unbounded" in refused.x_difference.attrs["no_interval"]
    assert np.isfinite(compared(labels, scores, other, cd.BrierScore()).x_difference_low)


@pytest.mark.parametrize(("events", "has_interval"), [(8, False), (12, True)])
def test_replicates_of_few_weighted_outcomes_give_no_interval(events: int, has_interval: bool) -> None:
    rng = np.random.default_rng(2)
    scores = rng.uniform(0.05, 0.5, 200)
    labels = np.zeros(200, int)
    labels[:events] = 1
    metrics = {"brier": cd.BrierScore(), "skill": cd.BrierSkillScore(), "cost": cd.ExcessCost(), "ece": cd.ECE()}
    options: dict[str, Any] = {"ci": 0.9, "n_boot": 20}
    weighted = cd.evaluate(labels, scores, metrics, sample_weight=np.where(labels == 1, 4.0, 1.0), **options)
    plain = cd.evaluate(labels, scores, metrics, **options)
    for part in ("brier", "skill", "cost_realised"):
        assert np.isfinite(weighted[f"{part}_low"]) == has_interval
        assert ("effective rows" in weighted[part].attrs.get("no_interval", "")) != has_interval
        assert np.isfinite(plain[f"{part}_low"])
    # Errors are compared with those of calibrated models.
    assert np.isfinite(weighted.ece_low)


@pytest.mark.parametrize(("rows", "has_interval"), [(50, False), (500, True)])
def test_numbers_that_bins_decide_need_rows_in_them(rows: int, has_interval: bool) -> None:
    rng = np.random.default_rng(3)
    scores = rng.random(rows)
    labels = (rng.random(rows) < scores).astype(int)
    metrics = {
        "brier": cd.BrierDecomposition(),
        "log": cd.LogLossDecomposition(),
        "cost": cd.ExcessCost(),
        "sharpness": cd.Sharpness(),
    }
    result = cd.evaluate(labels, scores, metrics, ci=0.9, n_boot=20)
    for part in ("brier_resolution", "brier_refinement_loss", "log_resolution", "cost_calibrated", "sharpness"):
        assert np.isfinite(result[f"{part}_low"]) == has_interval
        assert bool(result[part].attrs.get("no_interval", "")) != has_interval
    assert np.isfinite(result.brier_score_low)


def test_the_test_of_the_slope_needs_effective_rows_of_the_rarer_outcome() -> None:
    rng = np.random.default_rng(4)
    scores = rng.uniform(0.05, 0.5, 200)
    labels = np.zeros(200, int)
    labels[[1, 30, 60, 90, 120, 150, 170]] = 1
    weighted = evaluated(labels, scores, {"x": cd.CalibrationSlope()}, rng.uniform(1, 3, 200))
    assert np.isnan(weighted.x_pvalue)
    assert "effective rows" in weighted.x_pvalue.attrs["undefined"]
    assert np.isfinite(weighted.x_slope)
    assert np.isfinite(evaluated(labels, scores, {"x": cd.CalibrationSlope()}).x_pvalue)


@pytest.mark.parametrize("of_events", [False, True])
@pytest.mark.parametrize(("index", "has_interval"), [(1.05, False), (4.0, True)])
def test_very_uneven_weights_give_no_interval(index: float, has_interval: bool, of_events: bool) -> None:
    """Of all rows, or of those with the outcome alone."""
    rng = np.random.default_rng(3)
    scores = rng.random(2000)
    labels = (rng.random(2000) < scores).astype(int)
    weights = np.where(labels >= of_events, 1 + rng.pareto(index, 2000), 1.0)
    # Of each outcome, (sum w)**2 / sum w**2 rows carry the information.
    of_outcomes = [weights[labels == k] for k in (0, 1)]
    unevenness = [of.size * (of**2).sum() / of.sum() ** 2 for of in of_outcomes]
    assert (max(unevenness) <= 8) == has_interval
    metrics = {"gap": cd.MeanGap(), "ratio": cd.ObservedExpected(), "brier": cd.BrierScore(), "ece": cd.ECE()}
    # Rows without weight do not count.
    given = np.append(labels, np.ones(9000)), np.append(scores, np.zeros(9000)), np.append(weights, np.zeros(9000))
    result = evaluated(*given[:2], metrics, given[2], ci=0.9)
    tests = evaluated(*given[:2], TESTS, given[2])
    summary = cd.summarize(labels, scores, sample_weight=weights, settings=["binary"])
    of_summary = cd.evaluate(summary, metrics={"gap": cd.MeanGap()}, ci=0.9)
    assert np.isfinite(of_summary.gap_low) == has_interval
    clustered = cd.evaluate(
        labels, scores, cd.MeanGap(), ci=0.9, n_boot=20, sample_weight=weights, groups=np.arange(2000), task="binary"
    )
    assert np.isfinite(clustered.mean_gap_low) == has_interval
    for name in metrics:
        assert np.isfinite(result[f"{name}_low"]) == has_interval
        assert ("so uneven" in result[name].attrs.get("no_interval", "")) != has_interval
    for name in TESTS:
        assert np.isfinite(tests[f"{name}_pvalue"]) == has_interval
    compared = cd.compare(labels, scores, scores**2, {"x": cd.BrierScore()}, sample_weight=weights, n_boot=20)
    assert np.isfinite(compared.x_difference_low) == has_interval
    options: dict[str, Any] = {"sample_weight": weights, "n_boot": 20, "task": "binary"}
    gate = cd.check(labels, scores, {"mean-gap": 0.2, "ece": 0.3}, **options)
    assert {judgement.outcome for judgement in gate.judgements} == {"met" if has_interval else "cannot be decided"}
    assert not any("cautious" in line for line in repr(gate).splitlines())


def test_the_test_of_the_slope_allows_for_uneven_weights() -> None:
    rng = np.random.default_rng(0)
    scores = rng.beta(1, 4, (150, 400))
    labels = (rng.random(scores.shape) < scores).astype(int)
    weights = 1 + rng.pareto(1.5, scores.shape)
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationSlope()}, sample_weight=weights, task="binary")
    pvalue = result.x_pvalue.values
    assert np.isfinite(pvalue).mean() > 0.5
    assert np.nanmean(pvalue <= 0.05) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)
    assert (pvalue >= np.exp(-result.x_statistic.values / 2))[np.isfinite(pvalue)].all()


@pytest.mark.parametrize(
    ("spread", "events", "is_noted"), [(0.0, 30, False), (0.5, 30, False), (0.5, 12, True), (1.1, 90, True)]
)
def test_weights_that_may_lack_larger_ones_are_noted(spread: float, events: int, is_noted: bool) -> None:
    rng = np.random.default_rng(5)
    scores = rng.uniform(0.05, 0.5, 2000)
    labels = (np.arange(2000) < events).astype(int)
    weights = np.where(labels == 1, 9 * np.exp(spread * rng.normal(size=2000)), 1.0)
    result = evaluated(labels, scores, {"ratio": cd.ObservedExpected(), **TESTS}, weights, ci=0.9)
    assert np.isfinite(result.ratio_low)
    noted = [result[name].attrs.get("uneven_weights", "") for name in ("ratio", "spiegelhalter_pvalue", "ecce")]
    assert ["larger weights" in note for note in noted] == [is_noted] * 3
    assert ("larger weights" in str(ResultTable(result)).replace("\n", " ")) == is_noted
    gate = cd.check(labels, scores, "observed-expected=0..100", sample_weight=weights, n_boot=20, task="binary")
    assert ("larger weights" in " ".join(repr(gate).split())) == is_noted


def test_one_row_with_most_of_the_weight_of_an_outcome_leaves_no_interval() -> None:
    labels, scores = (np.arange(400) < 6).astype(int), np.linspace(0.005, 0.03, 400)
    weights = np.where(labels == 1, 3.0, 1.0)
    metrics = {"ratio": cd.ObservedExpected(), "gap": cd.MeanGap()}
    assert np.isfinite(evaluated(labels, scores, metrics, weights, ci=0.9).ratio_low)
    weights[0] = 60.0
    result = evaluated(labels, scores, metrics, weights, ci=0.9)
    assert np.isnan(result.ratio_low)
    assert np.isnan(result.gap_low)
    assert "fewer than 4 effective rows" in result.ratio.attrs["no_interval"]
    # Weights too small to count beside one make a p-value of none, not an error.
    assert np.isnan(evaluated(labels, scores, {"x": cd.CalibrationSlope()}, np.where(labels == 1, 1e12, 1.0)).x_pvalue)
