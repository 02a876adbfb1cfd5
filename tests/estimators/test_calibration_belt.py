"""The calibration belt: the distribution of its statistic, its region, and that both agree."""

from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import calibdask as cd
from calibdask.estimators.validation.calibration_belt import THRESHOLD
from calibdask.estimators.validation.selected_degree import exceeded, quantile

SELECTED = 0.05


def closed_form(t: float, degree: int, same_data: bool) -> float:
    """P(T > t) for up to two chi-squares beyond the first, written out in plane coordinates."""
    a, root = np.sqrt(THRESHOLD), np.sqrt(t)
    if same_data:
        # One normal variable, and one that exceeds the threshold.
        inside = integrate.quad(
            lambda r: 2 * stats.norm.pdf(r) * stats.chi2.cdf(t - r * r, 1), a, root, epsabs=1e-13, epsrel=1e-12
        )[0]
        return float(1 - inside / SELECTED)
    if degree == 2:
        inside = stats.chi2.cdf(t, 1) - 1 + SELECTED - np.sqrt(2 / np.pi) * np.exp(-t / 2) * (root - a)
        return float(1 - inside / SELECTED)
    inside = integrate.dblquad(
        lambda u, r: 4 * stats.norm.pdf(u) * stats.norm.pdf(r) * -np.expm1(-(t - r * r - u * u) / 2),
        a,
        np.sqrt(t - THRESHOLD),
        a,
        lambda r: max(a, np.sqrt(t - r * r)),
        epsabs=1e-12,
    )[0]
    return float(1 - inside / SELECTED**2)


@pytest.mark.parametrize(("degree", "same_data"), [(2, False), (3, False), (3, True)])
@pytest.mark.parametrize("t", [9.0, 14.0, 25.0])
def test_distribution_in_plane_coordinates(degree: int, same_data: bool, t: float) -> None:
    actual = exceeded(t, degree, THRESHOLD, same_data=same_data)
    np.testing.assert_allclose(actual, closed_form(t, degree, same_data), atol=1e-9)


@pytest.mark.parametrize("same_data", [False, True])
def test_distribution_of_degree_4_by_drawing(same_data: bool) -> None:
    rng = np.random.default_rng(0)
    draws = 400_000
    selected = stats.chi2.isf(SELECTED * rng.random((2 if same_data else 3, draws)), 1).sum(0)
    total = selected + rng.chisquare(1 if same_data else 2, draws)
    for share in (0.5, 0.1, 0.01):
        t = np.quantile(total, 1 - share)
        error = np.sqrt(share * (1 - share) / draws)
        assert abs(exceeded(float(t), 4, THRESHOLD, same_data=same_data) - share) < 4 * error


@pytest.mark.parametrize(("degree", "same_data"), [(1, False), (2, False), (4, False), (2, True), (4, True)])
def test_quantiles_are_exceeded_as_often_as_they_say(degree: int, same_data: bool) -> None:
    for level in (0.8, 0.95):
        t = quantile(level, degree, THRESHOLD, same_data=same_data)
        np.testing.assert_allclose(exceeded(t, degree, THRESHOLD, same_data=same_data), 1 - level, rtol=1e-9)


def drawn(count: int, seed: int, bend: float = 0.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    scores = rng.random(count)
    z = special.logit(scores)
    return (rng.random(count) < special.expit(z + bend * z * z)).astype(int), scores


@pytest.mark.parametrize(("count", "bend", "degree"), [(60, 0.0, 1), (300, 0.5, 2)])
def test_belt_is_the_extreme_of_the_likelihood_region(count: int, bend: float, degree: int) -> None:
    labels, scores = drawn(count, 5, bend)
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationBelt(points=11)})
    assert result.x_degree == degree
    terms = special.logit(scores) ** np.arange(degree + 1)[:, None]

    def loss(b: Any) -> float:
        return float((np.logaddexp(0, b @ terms) - labels * (b @ terms)).sum())

    best = optimize.minimize(loss, np.zeros(degree + 1), tol=1e-12).x
    for level, drop in ((lv, quantile(lv, degree, THRESHOLD) / 2) for lv in (0.8, 0.95)):
        region = {"type": "ineq", "fun": lambda b, drop=drop: drop - (loss(b) - loss(best))}
        for place in (4, 5, 6):
            target = np.linspace(-10, 10, 11)[place] ** np.arange(degree + 1)
            for sign, end in ((1, "lower"), (-1, "upper")):
                options: Any = {"method": "SLSQP", "options": {"ftol": 1e-14, "maxiter": 500}}
                found = optimize.minimize(lambda b, s=sign, t=target: s * t @ b, best, constraints=[region], **options)
                actual = result[f"x_{end}"].sel(x_level=level)[place]
                np.testing.assert_allclose(actual, special.expit(target @ found.x), atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_belt_leaves_the_diagonal_where_the_test_rejects(seed: int) -> None:
    result = cd.evaluate(*drawn(150, seed, 0.15 * (seed % 2)), {"x": cd.CalibrationBelt(points=801)})
    score = result.x_score.values
    for level in (0.8, 0.95):
        lower, upper = (result[f"x_{end}"].sel(x_level=level).values for end in ("lower", "upper"))
        leaves = bool(((lower > score) | (upper < score)).any())
        assert leaves == (result.x_pvalue.item() < 1 - level)


def test_belt_of_many_rows_in_groups_is_that_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores = drawn(4000, 3, 0.2)
    grouped = cd.evaluate(labels, scores, {"x": cd.CalibrationBelt(points=21)})
    monkeypatch.setattr("calibdask.estimators.validation.likelihood_belt._MOST_POINTS", 1 << 20)
    alone = cd.evaluate(labels, scores, {"x": cd.CalibrationBelt(points=21)})
    assert grouped.x_statistic == alone.x_statistic
    for end in ("lower", "upper"):
        np.testing.assert_allclose(grouped[f"x_{end}"], alone[f"x_{end}"], atol=2e-4)


def test_nothing_is_said_outside_the_scores_that_occur() -> None:
    labels, scores = drawn(300, 7)
    scores = 0.2 + 0.5 * scores
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationBelt()})
    inside = (result.x_score >= scores.min()) & (result.x_score <= scores.max())
    for part in ("frequency", "lower", "upper"):
        assert (np.isfinite(result[f"x_{part}"]) == inside).all()
    assert ((result.x_lower <= result.x_frequency) & (result.x_frequency <= result.x_upper)).where(inside, True).all()


def test_the_test_keeps_its_level() -> None:
    """Of 400 calibrated models; the p-value that ignores selection rejects more."""
    rng = np.random.default_rng(1)
    scores = rng.random((400, 300))
    labels = (rng.random(scores.shape) < scores).astype(int)
    result = cd.evaluate(labels, scores, {"x": cd.CalibrationBelt(points=2)}, task="binary")
    rejected = (result.x_pvalue <= 0.05).mean().item()
    assert rejected < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    naive = (stats.chi2.sf(result.x_statistic, result.x_degree + 1) <= 0.05).mean()
    assert naive > rejected


def test_a_straight_line_means_nothing_on_the_data_of_the_fit() -> None:
    labels, scores = drawn(400, 8, 0.3)
    fit = cd.PlattScaling().fit(labels, scores)
    result = cd.evaluate(labels, fit.predict_proba(scores)[:, 1], {"x": cd.CalibrationBelt(same_data=True, points=2)})
    assert result.x_degree >= 2
    assert result.x_pvalue < 0.05


def test_nothing_is_excluded_where_the_likelihood_has_hardly_a_maximum() -> None:
    """All outcomes at one of two scores are alike: the second derivative of the loss vanishes there."""
    scores, labels = np.array([0.8, 0.5, 0.8, 0.5, 0.8]), np.array([0, 1, 1, 1, 1])
    result = cd.evaluate(labels, scores, {"belt": cd.CalibrationBelt(points=11)})
    within = np.isfinite(result.belt_frequency)
    assert within.any()
    np.testing.assert_array_equal(result.belt_lower[..., within], 0.0)
    np.testing.assert_array_equal(result.belt_upper[..., within], 1.0)
