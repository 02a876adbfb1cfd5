"""Calibration slope, O:E, ICI, Hosmer-Lemeshow and tests of grades, against computations of other kinds."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, special, stats
from sklearn.linear_model import LogisticRegression

import calibdask as cd

Array = NDArray[Any]


def rows(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Labels and scores that are too extreme and too high."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(0.8, 2.0, count)
    chances = special.expit(0.7 * special.logit(scores) - 0.3)
    return (rng.random(count) < chances).astype(int), scores


def log_likelihood(predictor: Array, labels: Array) -> float:
    return float((labels * predictor - np.logaddexp(0, predictor)).sum())


def test_slope_and_test_are_those_of_scikit_learn() -> None:
    labels, scores = rows(500)
    z = special.logit(scores)
    fit = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(z[:, None], labels)
    best = fit.intercept_[0] + fit.coef_[0, 0] * z
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationSlope()}, ci=0.95)
    np.testing.assert_allclose(result.x_slope, fit.coef_[0, 0], rtol=1e-8)
    ratio = 2 * (log_likelihood(best, labels) - log_likelihood(z, labels))
    np.testing.assert_allclose(result.x_statistic, ratio, rtol=1e-8)
    np.testing.assert_allclose(result.x_pvalue, stats.chi2.sf(ratio, 2), rtol=1e-7)
    q = special.expit(best)
    terms = np.stack([np.ones_like(z), z])
    error = np.sqrt(np.linalg.inv((terms * q * (1 - q)) @ terms.T)[1, 1])
    np.testing.assert_allclose(result.x_slope_high - result.x_slope, stats.norm.ppf(0.975) * error, rtol=1e-8)


def test_intercept_has_the_logit_as_its_offset() -> None:
    labels, scores = rows(300, 1)
    z = special.logit(scores)
    intercept: float = optimize.brentq(lambda a: (labels - special.expit(a + z)).sum(), -5, 5, xtol=1e-14)
    q = special.expit(intercept + z)
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationSlope()}, ci=0.9)
    np.testing.assert_allclose(result.x_intercept, intercept, atol=1e-10)
    reach = stats.norm.ppf(0.95) / np.sqrt((q * (1 - q)).sum())
    np.testing.assert_allclose(result.x_intercept_low, intercept - reach, rtol=1e-8)


def test_weights_move_coefficients_like_repeated_rows() -> None:
    labels, scores = rows(200, 2)
    weights = np.random.default_rng(3).integers(1, 4, 200)
    weighted = cd.evaluate(labels, scores, {"x": cd.CalibrationSlope()}, sample_weight=weights, ci=0.9)
    again = {"x": cd.CalibrationSlope()}
    repeated = cd.evaluate(np.repeat(labels, weights), np.repeat(scores, weights), again, ci=0.9)
    for part in ("slope", "intercept"):
        np.testing.assert_allclose(weighted[f"x_{part}"], repeated[f"x_{part}"], rtol=1e-9)


def test_classes_and_slices_are_each_by_themselves() -> None:
    rng = np.random.default_rng(4)
    scores, labels, day = rng.dirichlet([1, 1, 1], 300), rng.integers(0, 3, 300), rng.integers(0, 2, 300)
    metrics = {"slope": cd.CalibrationSlope(), "ratio": cd.ObservedExpected(), "belt": cd.CalibrationBelt(points=5)}
    result = cd.evaluate(labels, scores, metrics, by={"day": day})
    for d in range(2):
        for c in range(3):
            alone = cd.evaluate((labels == c)[day == d].astype(int), scores[day == d, c], metrics)
            for name in alone.data_vars:
                np.testing.assert_allclose(result[name].sel({"day": d, "class": c}), alone[name], rtol=1e-8)


def test_a_summary_moves_numbers_by_little_of_their_errors() -> None:
    labels, scores = rows(5000, 5)
    metrics = {"slope": cd.CalibrationSlope(), "belt": cd.CalibrationBelt(points=21), "ratio": cd.ObservedExpected()}
    exact = cd.evaluate(labels, scores, metrics, ci=0.9)
    stored = cd.evaluate(cd.summarize(labels, scores), metrics=metrics, ci=0.9)
    for name in exact.data_vars:
        np.testing.assert_allclose(stored[name], exact[name], rtol=2e-3, atol=1e-6, err_msg=str(name))


SEPARATED = ([0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.3, 0.35, 0.4, 0.5])


def test_separated_outcomes_have_no_slope_and_say_so() -> None:
    result = cd.evaluate(*SEPARATED, {"x": cd.CalibrationSlope()}, ci=0.9)
    for name in ("slope", "slope_low", "slope_high", "statistic", "pvalue"):
        assert np.isnan(result[f"x_{name}"]), name
    assert "separates" in result.x_slope.attrs["undefined"]
    assert np.isfinite([result.x_intercept, result.x_intercept_low, result.x_intercept_high]).all()
    belt = cd.evaluate(*SEPARATED, {"x": cd.CalibrationBelt(points=5)})
    assert np.isnan(belt.x_pvalue)
    assert "separates" in belt.x_pvalue.attrs["undefined"]


@pytest.mark.parametrize(
    ("labels", "scores", "reason"),
    [([0] * 30, np.linspace(0.1, 0.2, 30), "equal"), ([0, 1] * 15, np.full(30, 0.4), "equal")],
)
def test_rows_that_determine_nothing_say_so(labels: Any, scores: Array, reason: str) -> None:
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationSlope(), "belt": cd.CalibrationBelt(points=3)})
    assert np.isnan([result.x_slope, result.x_pvalue, result.belt_pvalue]).all()
    assert reason in result.x_slope.attrs["undefined"]
    assert reason in result.belt_pvalue.attrs["undefined"]


def test_certain_scores_that_are_right_determine_no_intercept() -> None:
    labels = np.arange(30) % 2
    result = cd.evaluate(labels, labels.astype(float), {"x": cd.CalibrationSlope()}, ci=0.9)
    assert np.isnan([result.x_intercept, result.x_intercept_low, result.x_intercept_high]).all()
    assert "nearly all scores are 0 or 1" in result.x_intercept.attrs["undefined"]


@pytest.mark.parametrize(("label", "expected"), [(0, np.nan), (1, np.inf)])
def test_nothing_expected_has_no_ratio(label: int, expected: float) -> None:
    result = cd.evaluate(np.full(30, label), np.zeros(30), {"x": cd.ObservedExpected()}, ci=0.9)
    np.testing.assert_array_equal([result.x, result.x_low, result.x_high], expected)


def test_two_events_bear_no_interval() -> None:
    labels, scores = rows(60, 6)
    few = labels * (np.cumsum(labels) <= 2)
    result = cd.evaluate(few, scores, {"x": cd.CalibrationSlope()}, ci=0.9)
    assert np.isfinite([result.x_slope, result.x_intercept]).all()
    assert np.isnan([result.x_slope_low, result.x_intercept_high]).all()
    assert "fewer than 3" in result.x_slope.attrs["undefined"]


@pytest.mark.parametrize(("dtype", "end"), [("float64", 708.396), ("float32", 87.337)])
def test_scores_of_0_and_1_are_clipped_and_counted(dtype: str, end: float) -> None:
    labels, scores = rows(100, 7)
    scores[:3], labels[:3] = [0.0, 1.0, 1.0], [0, 1, 0]
    scores = scores.astype(dtype)
    with np.errstate(divide="ignore"):
        z = special.logit(scores.astype(float)).clip(-end, end)
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationSlope()})
    assert result.x_slope.attrs["clipped_logits"] == 3
    terms = np.stack([np.ones_like(z), z])
    gradient = terms @ (labels - special.expit(result.x_slope.item() * z + _constant(z, labels, result)))
    assert np.abs(gradient).max() < 0.02


def _constant(z: Array, labels: Array, result: Any) -> float:
    """The constant that belongs to a slope."""
    slope = result.x_slope.item()
    return float(optimize.brentq(lambda a: (labels - special.expit(a + slope * z)).sum(), -50, 50))


def test_observed_over_expected_and_its_logarithmic_interval() -> None:
    labels, scores = rows(400, 8)
    result = cd.evaluate(labels, scores, {"x": cd.ObservedExpected()}, ci=0.95)
    observed, expected = labels.sum(), scores.sum()
    np.testing.assert_allclose([result.x_observed, result.x_expected], [observed, expected], rtol=1e-12)
    factor = np.exp(stats.norm.ppf(0.975) * np.sqrt((1 - observed / 400) / observed))
    ends = [observed / expected / factor, observed / expected * factor]
    np.testing.assert_allclose([result.x_low, result.x_high], ends, rtol=1e-12)


@pytest.mark.parametrize("events", [0, 1, 9, 51, 60])
def test_few_outcomes_have_exact_limits(events: int) -> None:
    labels = (np.arange(60) < events).astype(int)
    scores = np.linspace(0.1, 0.3, 60)
    result = cd.evaluate(labels, scores, {"x": cd.ObservedExpected()}, ci=0.95)
    limits = stats.binomtest(events, 60).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose([result.x_low, result.x_high], np.array(limits) / scores.mean(), rtol=1e-8)
    assert result.x.attrs["few_outcomes"] == 1


def test_ici_by_sums_of_kernels() -> None:
    labels, scores = rows(80, 9)
    h = 0.08
    images = np.stack([scores, -scores, 2 - scores])

    def density(at: float, chosen: Array) -> float:
        u = (at - images) / (3 * h)
        return float(((np.abs(u) < 1) * (1 - u**2) ** 3 * chosen).sum())

    curve = np.array([density(s, labels) / density(s, np.ones(80)) for s in scores])
    distance = np.sort(np.abs(curve - scores))
    result = cd.evaluate(labels, scores, {"x": cd.ICI(bandwidth=h)})
    reached = np.array([(np.abs(scores - at) < 3 * h).sum() for at in scores])
    largest = np.abs(curve - scores)[reached >= 20].max()
    expected = [distance.mean(), distance[39], distance[71], largest]
    actual = [result[f"x_{part}"].item() for part in ("ici", "e50", "e90", "emax")]
    np.testing.assert_allclose(actual, expected, atol=2e-3)


def lowess_of_r(x: Array, y: Array) -> Array:
    """R's clowess, one row after the other, of sorted x without iterations."""
    n, step = len(x), 0.01 * (x[-1] - x[0])
    nearest = int(2 / 3 * n + 1e-7)
    fitted = np.full(n, np.nan)
    last, at = -1, 0
    while True:
        h = np.sort(np.abs(x - x[at]))[nearest - 1]
        r = np.abs(x - x[at])
        w = np.where(r <= 0.999 * h, np.where(r <= 0.001 * h, 1, (1 - (r / h) ** 3) ** 3), 0)
        w /= w.sum()
        mean = (w * x).sum()
        spread = (w * (x - mean) ** 2).sum()
        if np.sqrt(spread) > 0.001 * (x[-1] - x[0]):
            w *= 1 + (x[at] - mean) / spread * (x - mean)
        fitted[at] = (w * y).sum()
        if last >= 0:
            share = (x[last + 1 : at] - x[last]) / (x[at] - x[last])
            fitted[last + 1 : at] = share * fitted[at] + (1 - share) * fitted[last]
        last = at
        if last == n - 1:
            return fitted
        beyond = np.flatnonzero(x > x[last] + step)
        at = max(last + 1, (beyond[0] if beyond.size else n) - 1)


@pytest.mark.parametrize(("most", "tolerance"), [(1.0, 0.01), (0.03, 0.03)])
def test_ici_by_lowess(most: float, tolerance: float) -> None:
    labels, scores = rows(400, 9)
    scores, labels = most * scores, (labels * (np.arange(400) % 3 == 0)).astype(int)
    order = np.argsort(scores)
    curve = lowess_of_r(scores[order], labels[order].astype(float))
    distance = np.sort(np.abs(curve - scores[order]))
    result = cd.evaluate(labels, scores, {"x": cd.ICI(smoother="lowess")})
    actual = [result[f"x_{part}"].item() for part in ("ici", "e50", "e90", "emax")]
    np.testing.assert_allclose(actual, [distance.mean(), distance[199], distance[359], distance[-1]], rtol=tolerance)
    assert "x_bandwidth" not in result


def test_emax_leaves_out_a_row_without_neighbours() -> None:
    labels, scores = rows(2000, 9)
    scores = 0.5 * scores
    alone = {"y_true": np.r_[labels, 0], "y_prob": np.r_[scores, 0.95]}
    parts = cd.evaluate(labels, scores, {"x": cd.ICI(bandwidth=0.02)})
    with_one = cd.evaluate(**alone, metrics={"x": cd.ICI(bandwidth=0.02)})
    assert float(with_one.x_emax) == pytest.approx(float(parts.x_emax), abs=1e-3)
    assert np.isnan(cd.evaluate(labels[:10], scores[:10], {"x": cd.ICI()}).x_emax)


def test_a_bandwidth_has_no_effect_on_lowess() -> None:
    with pytest.raises(ValueError, match="kernel and bandwidth have no effect with smoother"):
        cd.ICI(smoother="lowess", bandwidth=0.1)


def test_e50_and_emax_have_no_interval() -> None:
    result = cd.evaluate(*rows(100), {"x": cd.ICI()}, ci=0.9, n_boot=20)
    assert {"x_ici_low", "x_e90_low"} <= set(result)
    assert "x_e50_low" not in result
    assert "x_emax_low" not in result


@pytest.mark.parametrize(("same_data", "freedom"), [(False, 10), (True, 8)])
def test_hosmer_lemeshow_by_groups(same_data: bool, freedom: int) -> None:
    labels, scores = rows(2000, 10)
    # No group expects few outcomes.
    scores = 0.05 + 0.9 * scores
    order = np.argsort(scores)
    statistic = 0.0
    for group in np.split(order, 10):
        observed, expected = labels[group].sum(), scores[group].sum()
        statistic += (observed - expected) ** 2 / (expected * (1 - expected / group.size))
    result = cd.evaluate(labels, scores, {"x": cd.HosmerLemeshow(same_data=same_data)})
    np.testing.assert_allclose(result.x_statistic, statistic, rtol=1e-9)
    np.testing.assert_allclose(result.x_pvalue, stats.chi2.sf(statistic, freedom), rtol=1e-9)
    assert result.x_groups == 10


def test_hosmer_lemeshow_draws_the_outcomes_of_groups_that_expect_few() -> None:
    # One group: the statistic grows with the distance of the number of outcomes from the expected one.
    labels = np.arange(400) < 6
    result = cd.evaluate(labels, np.full(400, 0.0075), {"x": cd.HosmerLemeshow()})
    exact = stats.binom.sf(5, 400, 0.0075) + stats.binom.cdf(0, 400, 0.0075)
    assert float(result.x_least_expected) == pytest.approx(3)
    np.testing.assert_allclose(result.x_pvalue, exact, atol=4 * np.sqrt(exact / 10_000))


@pytest.mark.parametrize("events", [1, 20])
def test_hosmer_lemeshow_keeps_its_level_with_few_expected_outcomes(events: int) -> None:
    rng = np.random.default_rng(11)
    scores = np.sort(rng.beta(1, 300 / events - 1, 300))
    labels = (rng.random((400, 300)) < scores).astype(int)
    result = cd.evaluate(labels, np.broadcast_to(scores, labels.shape), {"x": cd.HosmerLemeshow()}, task="binary")
    # Three standard errors above.
    assert (result.x_pvalue <= 0.05).mean() < 0.083


def test_hosmer_lemeshow_refuses_few_expected_outcomes_of_fitted_rows_and_of_weighted_ones() -> None:
    labels, scores = np.arange(100) < 2, np.linspace(0.001, 0.04, 100)
    fitted = cd.evaluate(labels, scores, {"x": cd.HosmerLemeshow(same_data=True)})
    weighted = cd.evaluate(labels, scores, {"x": cd.HosmerLemeshow()}, sample_weight=np.linspace(1, 2, 100))
    for result in (fitted, weighted):
        assert np.isfinite(result.x_statistic)
        assert np.isnan(result.x_pvalue)
        assert "fewer than 1" in result.x_pvalue.attrs["undefined"]


def test_hosmer_lemeshow_of_outcomes_that_cannot_be() -> None:
    scores = np.r_[np.zeros(50), np.linspace(0.2, 0.9, 50)]
    labels = np.r_[np.ones(1), np.zeros(49), np.tile([0, 1], 25)].astype(int)
    result = cd.evaluate(labels, scores, {"x": cd.HosmerLemeshow(groups=2)})
    assert np.isposinf(result.x_statistic)
    assert result.x_pvalue < 1e-300


# Pluto & Tasche, Thinking positively, 2005, table 1: 100, 400 and 300 borrowers, no defaults; upper bounds in per cent.
NO_DEFAULTS = {
    0.5: (0.09, 0.10, 0.23),
    0.75: (0.17, 0.20, 0.46),
    0.9: (0.29, 0.33, 0.76),
    0.95: (0.37, 0.43, 0.99),
    0.99: (0.57, 0.66, 1.52),
    0.999: (0.86, 0.98, 2.28),
}


@pytest.mark.parametrize("confidence", NO_DEFAULTS)
def test_bounds_of_pluto_and_tasche_as_published(confidence: float) -> None:
    scores = np.repeat([0.001, 0.002, 0.003], [100, 400, 300])
    grades = cd.GradeTests(edges=(0, 0.0015, 0.0025, 1), confidence=confidence)
    result = cd.evaluate(np.zeros(800, int), scores, {"x": grades})
    np.testing.assert_allclose((100 * result.x_bound).round(2), NO_DEFAULTS[confidence], atol=1e-9)


def test_tests_of_grades_are_binomial_and_beta() -> None:
    rng = np.random.default_rng(12)
    scores = rng.beta(1, 12, 3000)
    labels = (rng.random(3000) < np.where(scores > 0.1, 1.6, 1.0) * scores).astype(int)
    edges = (0.0, 0.02, 0.1, 0.2, 0.9, 1.0)
    result = cd.evaluate(labels, scores, {"x": cd.GradeTests(edges=edges)})
    tails, lights = [], []
    for grade, (low, high) in enumerate(pairwise(edges)):
        inside = (scores > low) & (scores <= high)
        if not inside.any():
            assert np.isnan([result[f"x_{part}"][grade] for part in ("binomial", "jeffreys", "light", "pd")]).all()
            continue
        n, k, pd = inside.sum(), labels[inside].sum(), scores[inside].mean()
        tails.append(stats.binom.sf(k - 1, n, pd))
        lights.append(int(tails[-1] < 0.05) + int(tails[-1] < 0.001))
        np.testing.assert_allclose(result.x_binomial[grade], tails[-1], rtol=1e-8)
        np.testing.assert_allclose(result.x_jeffreys[grade], stats.beta.cdf(pd, k + 0.5, n - k + 0.5), rtol=1e-8)
        assert result.x_light[grade] == lights[-1]
    assert {0, 2} <= set(lights)
    np.testing.assert_allclose(result.x_pvalue, len(tails) * min(tails), rtol=1e-8)


@pytest.mark.parametrize("rows", [1, 30, 2000])
@pytest.mark.parametrize("expected", [0.001, 0.15, 0.18, 0.25, 0.55, 1.0, 3.3, 20.0])
def test_the_level_of_jeffreys_test_is_exact(rows: int, expected: float) -> None:
    pd = min(expected / rows, 1.0)
    defaults = np.arange(rows + 1)
    rejected = stats.beta.cdf(pd, defaults + 0.5, rows - defaults + 0.5) <= 0.05
    level = stats.binom.pmf(defaults, rows, pd)[rejected].sum()
    result = cd.evaluate(np.zeros(rows, int), np.full(rows, pd), {"x": cd.GradeTests()})
    np.testing.assert_allclose(result.x_jeffreys_level, level, rtol=1e-6, atol=1e-12)
    assert bool(np.isnan(result.x_jeffreys)) == (level > 0.1)
    assert ("undefined" in result.x_jeffreys.attrs) == (level > 0.1)


def test_grades_of_a_column_are_slices() -> None:
    scores = np.repeat([0.001, 0.02, 0.3], [100, 400, 300])
    labels = (np.random.default_rng(13).random(800) < 1.2 * scores).astype(int)
    by_edges = cd.evaluate(labels, scores, {"x": cd.GradeTests(edges=(0, 0.01, 0.1, 1))})
    by_column = cd.evaluate(
        labels, scores, {"x": cd.GradeTests()}, by={"grade": np.repeat(["A", "B", "C"], [100, 400, 300])}
    )
    for part in ("binomial", "jeffreys", "light", "count", "defaults", "pd", "rate"):
        np.testing.assert_allclose(by_column[f"x_{part}"].values, by_edges[f"x_{part}"].values, rtol=1e-12)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: cd.GradeTests(edges=(0.2, 0.1)), "edges expects increasing"),
        (lambda: cd.GradeTests(lights=(0.001, 0.05)), "lights expects two decreasing"),
        (lambda: cd.GradeTests(lights=(0.05,)), "lights expects two"),
        (lambda: cd.GradeTests(confidence=1.0), "confidence expects"),
        (lambda: cd.HosmerLemeshow(groups=0), "groups expects"),
        (lambda: cd.HosmerLemeshow(same_data="yes"), "same_data expects"),
        (lambda: cd.CalibrationBelt(points=1), "points expects"),
        (lambda: cd.CalibrationSlope(setting="each"), "setting expects"),
    ],
)
def test_wrong_choices_are_refused(made: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made()


def test_what_is_missing_stands_beneath_the_table() -> None:
    from calibdask.render.text_layout import joined
    from calibdask.render.text_table import foot_lines

    scores = np.r_[SEPARATED[1], 1.0]
    result = cd.evaluate([*SEPARATED[0], 1], scores, cd.CalibrationSlope())
    text = " ".join(map(joined, foot_lines(result, 100)))
    assert "separates the outcomes" in text
    assert "in rows of weight 1, have infinite logits" in text
