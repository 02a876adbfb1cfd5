"""Intervals of weighted rows: the sandwich form, which weights that depend on the outcome need."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

import calibdask as cd
from calibdask.estimators.sampling_variance import (
    Kind,
    WeightedMean,
    rarer_rows,
    sandwich,
    share_of,
    sum_of_squares,
    variance_of_few,
)

Array = NDArray[np.float64]
THRESHOLDS = [0.1, 0.3]
METRICS: dict[str, Any] = {
    "ratio": cd.ObservedExpected(),
    "benefit": cd.NetBenefit(thresholds=THRESHOLDS),
    "slope": cd.CalibrationSlope(),
    "auc": cd.CStatistic(),
    "gap": cd.MeanGap(),
    "murphy": cd.MurphyCurve(thresholds=THRESHOLDS),
    "risk": cd.RiskCoverage(),
    "curve": cd.RiskCoverageCurve(points=4),
    "diagram": cd.ReliabilityDiagram(bins=5),
    "convex": cd.ReliabilityDiagram(bins=5, mapping="convex"),
}
REACH = stats.norm.ppf(0.95)


def rows(number: int, seed: int) -> tuple[NDArray[np.int64], Array]:
    rng = np.random.default_rng(seed)
    scores = special.expit(rng.normal(-1.5, 1, number))
    return (rng.random(number) < 1.2 * scores).astype(np.int64), scores


def half_width(result: Any, name: str) -> Array:
    return np.asarray((result[f"{name}_high"] - result[f"{name}_low"]) / 2)


@pytest.mark.parametrize("weight", [1.0, 3.7])
def test_equal_weights_are_none(weight: float) -> None:
    labels, scores = rows(600, 0)
    plain = cd.evaluate(labels, scores, METRICS, ci=0.9)
    weighted = cd.evaluate(labels, scores, METRICS, ci=0.9, sample_weight=np.full(600, weight))
    for name in (name for name in plain.data_vars if str(name).endswith(("_low", "_high"))):
        np.testing.assert_allclose(weighted[name], plain[name], rtol=1e-9, atol=1e-12, err_msg=str(name))


def test_ratio_slope_and_auc_have_the_variance_of_their_influences() -> None:
    labels, scores = rows(3000, 1)
    weights = np.where(labels == 1, 10.0, np.random.default_rng(2).exponential(size=3000))
    result = cd.evaluate(labels, scores, METRICS, ci=0.9, sample_weight=weights)

    ratio = float(result.ratio)
    error = np.sqrt((weights**2 * (labels - ratio * scores) ** 2).sum()) / (weights * labels).sum()
    of_share = np.sqrt((weights**2 * (labels - np.average(labels, weights=weights)) ** 2).sum())
    error = max(error, of_share / (weights * labels).sum())
    np.testing.assert_allclose(np.log(result.ratio_high / result.ratio_low) / 2, REACH * error, rtol=1e-9)

    terms = np.stack([np.ones(3000), special.logit(scores)])
    slope = float(result.slope_slope)
    start = optimum(terms, labels, weights)
    assert start[1] == pytest.approx(slope)
    q = special.expit(start @ terms)
    hessian = (terms * weights * q * (1 - q)) @ terms.T
    inverse = np.linalg.inv(hessian)
    # Residuals of squared weights are those without the row itself.
    left_out = (labels - q) / (1 - weights * q * (1 - q) * np.einsum("ij,ik,kj->j", terms, inverse, terms))
    powers = ((weights, labels - q), (weights**2, left_out))
    meats = [(terms * power * residual**2) @ terms.T for power, residual in powers]
    robust = inverse @ meats[1] @ inverse
    # The sandwich form relative to that of rows of weight 1: close to the sandwich form itself of many rows.
    assert half_width(result, "slope_slope") == pytest.approx(REACH * np.sqrt(robust[1, 1]), rel=0.15)
    root = np.linalg.cholesky(inverse)
    lower = np.linalg.inv(np.linalg.cholesky(root.T @ meats[0] @ root))
    exact = root @ lower @ (root.T @ meats[1] @ root) @ lower.T @ root.T
    np.testing.assert_allclose(half_width(result, "slope_slope"), REACH * np.sqrt(exact[1, 1]), rtol=1e-7)

    positive, negative = weights * labels, weights * (1 - labels)
    above = (scores[:, None] > scores) + (scores[:, None] == scores) / 2
    below = above @ negative / negative.sum()
    over = above.T @ positive / positive.sum()
    variance = 0.0
    for own, placed in ((positive, below), (negative, over)):
        count = own.sum() ** 2 / (own**2).sum()
        variance += (own**2 * (placed - float(result.auc)) ** 2).sum() / own.sum() ** 2 * count / (count - 1)
    assert half_width(result, "auc") == pytest.approx(REACH * np.sqrt(variance), rel=0.06)


def optimum(terms: Array, labels: NDArray[np.int64], weights: Array) -> Array:
    at = np.array([0.0, 1.0])
    for _ in range(50):
        q = special.expit(at @ terms)
        at = at + np.linalg.solve((terms * weights * q * (1 - q)) @ terms.T, (terms * weights * (labels - q)).sum(1))
    return at


@pytest.mark.parametrize("metric", ["benefit_model", "benefit_treat_all", "murphy", "gap"])
def test_means_have_the_variance_of_their_contributions(metric: str) -> None:
    labels, scores = rows(20_000, 3)
    weights = np.where(labels == 1, 10.0, 1.0)
    result = cd.evaluate(labels, scores, METRICS, ci=0.9, sample_weight=weights)
    t, y, s = np.array(THRESHOLDS)[:, None], labels, scores
    odds = t / (1 - t)
    values = {
        "benefit_model": np.where(s >= t, np.where(y == 1, 1.0, -odds), 0.0),
        "benefit_treat_all": np.where(y == 1, 1.0, -odds),
        "murphy": np.where(y == 1, (1 - t) * (s <= t), t * (s > t)),
        "gap": (y - s)[None],
    }[metric]
    mean = np.average(values, axis=-1, weights=weights)
    error = np.sqrt((weights**2 * (values - mean[:, None]) ** 2).sum(-1)) / weights.sum()
    np.testing.assert_allclose(np.ravel(result[metric]), mean, rtol=1e-9)
    np.testing.assert_allclose(np.ravel(half_width(result, metric)), REACH * error, rtol=0.02)


def test_summaries_have_the_squares_by_outcome_too() -> None:
    labels, scores = rows(2000, 4)
    weights = np.where(labels == 1, 10.0, 1.0)
    summary = cd.summarize(labels, scores, sample_weight=weights)
    metrics = {name: METRICS[name] for name in ("ratio", "murphy", "slope", "auc", "gap", "risk")}
    told = cd.evaluate(summary, metrics=metrics, ci=0.9)
    own = cd.evaluate(labels, scores, metrics, ci=0.9, sample_weight=weights)
    for name in (name for name in own.data_vars if str(name).endswith(("_low", "_high"))):
        np.testing.assert_allclose(told[name], own[name], rtol=2e-4, err_msg=str(name))


def test_events_of_large_weight_are_as_many_as_they_are() -> None:
    mean = WeightedMean.of_kinds([Kind(1.0, 40.0, 400.0), Kind(0.0, 10_000.0, 10_000.0)])
    assert float(mean.mean * mean.effective_rows) == pytest.approx(4, rel=0.01)
    assert float(rarer_rows(*map(np.array, (10_040.0, 10_400.0, 40.0, 400.0)))) == 4
    # Of a share that is 0 a row of the weight that such rows have elsewhere may be missing.
    nothing = share_of(*map(np.array, (1000.0, 1000.0, 0.0, 0.0)))
    reach = nothing.bounded(0.0, 1.0, rows_of_most=100.0).ends(0.95)[1]
    assert float(reach) == pytest.approx(1 - 0.025 ** (1 / 100))


def test_contributions_of_a_cluster_are_added_up_first() -> None:
    rng = np.random.default_rng(5)
    contributions = rng.normal(size=(50, 4, 2))
    by_cluster = contributions.sum(1)
    meat = np.einsum("ci,cj->ij", by_cluster, by_cluster)
    inverse = np.array([[2.0, 0.5], [0.5, 1.0]])
    expected = np.cov((by_cluster @ inverse).T, bias=True) * 50 + np.outer(*(2 * [(by_cluster @ inverse).mean(0)])) * 50
    np.testing.assert_allclose(sandwich(inverse, meat), expected)
    np.testing.assert_allclose(sum_of_squares(by_cluster[:, 0]), meat[0, 0])


def test_intervals_hold_where_events_weigh_more() -> None:
    """Kish's number of rows made 90 % intervals hold .54 to .75 here."""
    rng = np.random.default_rng(6)
    logits = rng.normal(size=(300, 500))
    labels = (rng.random(logits.shape) < special.expit(logits - 3.4)).astype(np.int64)
    scores, weights = special.expit(logits - 1.1), np.where(labels == 1, 10.0, 1.0)
    metrics = {name: METRICS[name] for name in ("ratio", "benefit", "slope", "auc", "gap", "murphy")}
    result = cd.evaluate(labels, scores, metrics, ci=0.9, sample_weight=weights, task="binary")

    x = special.ndtri((np.arange(200_000) + 0.5) / 200_000)
    s, p = special.expit(x - 1.1), special.expit(x - 3.4)
    event, other = 10 * p, 1 - p
    total = (event + other).sum()
    t = THRESHOLDS[1]
    truths = {
        "ratio": event.sum() / ((event + other) * s).sum(),
        "gap": (event - (event + other) * s).sum() / total,
        "auc": (event * (np.cumsum(other) - other / 2)).sum() / event.sum() / other.sum(),
        "benefit_model": ((event - other * t / (1 - t)) * (s >= t)).sum() / total,
        "murphy": (event * (s <= t) * (1 - t) + other * (s > t) * t).sum() / total,
    }
    for name, truth in truths.items():
        low, high = (np.asarray(result[f"{name}_{end}"].values.reshape(300, -1)[:, -1]) for end in ("low", "high"))
        # Four standard errors of a share of 300.
        assert ((low <= truth) & (truth <= high)).mean() > 0.9 - 0.07, name


@pytest.mark.parametrize(("events", "others", "heavy"), [(3, 7, 4.0), (1, 1, 3.0), (5, 2, 0.1), (4, 9, 1.0)])
def test_variance_of_few_is_the_jackknife(events: int, others: int, heavy: float) -> None:
    outcomes = np.repeat([1.0, 0.0], [events, others])
    weights = np.where(outcomes == 1, heavy, 1.0)
    rows = np.arange(events + others)
    shares = [np.average(outcomes[rows != row], weights=weights[rows != row]) for row in rows]
    whole = np.average(outcomes, weights=weights)
    expected = (rows.size - 1) / rows.size * ((np.array(shares) - whole) ** 2).sum()
    sums = (np.array((weights**power * values).sum()) for values in (1.0, outcomes) for power in (1, 2))
    variance, number = variance_of_few(*sums)
    assert variance == pytest.approx(min(expected, 0.5))
    assert number == pytest.approx(rows.size)


def test_outcomes_of_one_kind_do_not_vary() -> None:
    rounded = np.array([0.3, 0.0, 1.0]), np.array([0.03, 0.0, 1.0])
    whole = np.array([0.3 + 1e-17, 2.0, 1.0]), np.array([0.03, 2.0, 1.0])
    variance, number = variance_of_few(*whole, *rounded)
    assert variance.tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(number, [3, 2, 1])


@pytest.mark.parametrize("heavy", [0.2, 5.0])
def test_debiased_terms_have_no_bias_with_weights_by_outcome(heavy: float) -> None:
    """Means over 1000 data sets; Kish's number of rows subtracts 1.6 to 2.1 times what sampling adds here."""
    rng = np.random.default_rng(3)
    chances = np.array([0.2, 0.4, 0.7])
    levels = chances * heavy / (chances * heavy + 1 - chances)
    place = np.repeat(np.arange(3), 30)
    labels = (rng.random((1000, 90)) < chances[place]).astype(int)
    weights = np.where(labels == 1, heavy, 1.0)
    scores = np.broadcast_to(levels[place], labels.shape)
    metric = {"b": cd.BrierDecomposition(bins=tuple(np.r_[0, (levels[1:] + levels[:-1]) / 2, 1]), debias=True)}
    found = cd.evaluate(labels, scores, metric, task="binary", sample_weight=weights).b_reliability.values
    sampling = cd.evaluate(
        labels, scores, {"b": replace(metric["b"], debias=False)}, task="binary", sample_weight=weights
    )
    # Of a model that is calibrated under the weights; ratios of sums leave a tenth of what sampling adds.
    assert abs(found.mean()) < 0.1 * float(sampling.b_reliability.mean())


def test_intercept_of_a_wrong_slope_has_the_error_of_its_residuals() -> None:
    """Scores of 0.1 and 0.9 with outcomes of 0.25 and 0.7: the interval of the model of slope 1 held 75 %."""
    rng = np.random.default_rng(11)
    scores = rng.choice([0.1, 0.9], 400)
    labels = (rng.random(400) < np.where(scores < 0.5, 0.25, 0.7)).astype(int)
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationSlope()}, ci=0.9)
    q = special.expit(special.logit(scores) + float(result.x_intercept))
    information = (q * (1 - q)).sum()
    # Each score is a point of many rows, of leverage 1 / information times q (1 - q) each.
    left_out = (labels - q) / (1 - q * (1 - q) / information)
    np.testing.assert_allclose(half_width(result, "x_intercept"), REACH * np.sqrt((left_out**2).sum()) / information)
