"""Risk and coverage against loops over orders, known values, and intervals that cover."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

import calibdask as cd
from calibdask.statistics.order import distinct

Floats = NDArray[np.float64]
PARTS = ("aurc", "best", "excess", "augrc")


def aurc_of_order(errors: Any) -> float:
    """The mean of E_k / k for rows in this order."""
    wrong, total = 0, 0.0
    for k, error in enumerate(errors, 1):
        wrong += int(error)
        total += wrong / k
    return total / len(errors)


def augrc_of_order(errors: Any) -> float:
    """The area under the polygon through (k / n, E_k / n)."""
    return float(scipy.integrate.trapezoid(np.r_[0, np.cumsum(errors)], dx=1)) / len(errors) ** 2


def measured(errors: Any, scores: Any, **options: Any) -> dict[str, float]:
    """Errors are rows of class 0 among claims of class 1."""
    metric = cd.RiskCoverage(setting="binary")
    result = cd.evaluate(1 - np.asarray(errors), np.asarray(scores, float), {"m": metric}, **options)
    return {part: float(result[f"m_{part}"]) for part in PARTS}


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
def test_distinct_scores(rows: int) -> None:
    rng = np.random.default_rng(rows)
    errors, scores = rng.integers(0, 2, rows), rng.permutation(rows) / rows
    ordered = errors[np.argsort(-scores)]
    actual = measured(errors, scores)
    assert actual["aurc"] == pytest.approx(aurc_of_order(ordered), rel=1e-12, abs=1e-13)
    assert actual["best"] == pytest.approx(aurc_of_order(np.sort(errors)), rel=1e-12, abs=1e-13)
    assert actual["excess"] == pytest.approx(actual["aurc"] - actual["best"], abs=1e-13)
    assert actual["augrc"] == pytest.approx(augrc_of_order(ordered), rel=1e-12)


def test_ties_are_the_mean_over_all_orders() -> None:
    errors, scores = np.array([1, 0, 1, 0, 0, 1, 0, 1]), np.array([0.9, 0.9, 0.9, 0.6, 0.6, 0.6, 0.6, 0.1])
    runs = [errors[:3], errors[3:7], errors[7:]]
    orders = [np.concatenate(order) for order in itertools.product(*map(itertools.permutations, runs))]
    actual = measured(errors, scores)
    assert actual["aurc"] == pytest.approx(np.mean([*map(aurc_of_order, orders)]), rel=1e-12)
    assert actual["augrc"] == pytest.approx(np.mean([*map(augrc_of_order, orders)]), rel=1e-12)


def test_ties_of_many_rows_are_the_expectation_over_random_orders() -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 4, 200) / 4
    errors = rng.random(200) > 0.5 + scores / 3
    drawn = np.array([np.argsort(-scores - rng.random(200) * 1e-3) for _ in range(4000)])
    means = (np.cumsum(errors[drawn], 1) / np.arange(1, 201)).mean(1)
    # Five standard errors of the mean of the simulated orders.
    assert measured(errors, scores)["aurc"] == pytest.approx(means.mean(), abs=5 * means.std() / np.sqrt(4000))


def test_augrc_by_the_area_under_the_roc_curve() -> None:
    """The closed form of Traub et al. 2024, (1 - AUROC) a (1 - a) + (1 - a)**2 / 2, ties included."""
    rng = np.random.default_rng(4)
    scores = rng.integers(0, 30, 500) / 30
    errors = rng.random(500) > 0.3 + scores / 2
    a = 1 - errors.mean()
    expected = (1 - roc_auc_score(~errors, scores)) * a * (1 - a) + (1 - a) ** 2 / 2
    assert measured(errors, scores)["augrc"] == pytest.approx(expected, rel=1e-12)


def test_weights_are_units_of_rows() -> None:
    rng = np.random.default_rng(5)
    errors, scores = rng.integers(0, 2, 50), rng.integers(0, 9, 50) / 9
    plain = measured(errors, scores)
    for weight in (np.full(50, 3.7), np.ones(50)):
        assert measured(errors, scores, sample_weight=weight) == pytest.approx(plain, rel=1e-9)
    # In the limit of many rows repeated rows and weights are alike.
    many, weights = np.tile([errors, scores], 400), rng.integers(1, 3, 50)
    repeated = np.repeat([errors, scores], 400 * weights, axis=1)
    assert measured(*many, sample_weight=np.tile(weights, 400)) == pytest.approx(measured(*repeated), abs=2e-4)


def test_confidence_is_measured_of_vectors_too() -> None:
    scores = np.array([0.1, 0.7, 0.5, 0.95])
    result = cd.evaluate([0, 0, 1, 1], scores, cd.RiskCoverage())
    # Confidences .9, .7, .5 (of class 0), .95: right, wrong, wrong, right.
    assert float(result.risk_coverage_aurc) == pytest.approx(aurc_of_order([0, 0, 1, 1]))
    assert result.risk_coverage_aurc.attrs["setting"] == "confidence"
    matrix = cd.evaluate([0, 0, 1, 1], np.stack([1 - scores, scores], 1), cd.RiskCoverage())
    assert float(matrix.risk_coverage_aurc) == float(result.risk_coverage_aurc)


def test_cells_are_within_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    scores = rng.beta(8, 1, 3000)
    labels = (rng.random(3000) < scores).astype(int)
    metric = {"m": cd.RiskCoverage()}
    exact = cd.evaluate(labels, scores, metric)
    assert exact.m_aurc.attrs["points"] == "distinct scores"
    assert "aurc_bound" not in exact.m_aurc.attrs
    stored = cd.evaluate(cd.summarize(labels, scores), metrics=metric)
    monkeypatch.setattr(distinct, "_MOST", 1000)
    monkeypatch.setattr(distinct, "_FEWEST", 1)
    coarse = cd.evaluate(labels, scores, metric)
    for result in (stored, coarse):
        bound = result.m_aurc.attrs["aurc_bound"]
        assert 0 < abs(float(result.m_aurc) - float(exact.m_aurc)) <= bound < 0.005
        assert float(result.m_best) == float(exact.m_best)


def test_curve() -> None:
    rng = np.random.default_rng(7)
    scores = rng.permutation(1000) / 1000
    errors = (rng.random(1000) > scores).astype(int)
    result = cd.evaluate(1 - errors, scores, {"m": cd.RiskCoverageCurve(points=20, setting="binary")}, ci=0.9)
    ordered = np.argsort(-scores)
    for position, coverage in enumerate(result.m_coverage.values):
        rows = ordered[: round(coverage * 1000)]
        assert float(result.m_risk[position]) == pytest.approx(errors[rows].mean(), abs=1e-12)
        assert float(result.m_threshold[position]) == scores[rows[-1]]
        ends = scipy.stats.binomtest(int(errors[rows].sum()), rows.size).proportion_ci(0.9)
        assert float(result.m_risk_low[position]) == pytest.approx(ends.low, abs=1e-9)
        assert float(result.m_risk_high[position]) == pytest.approx(ends.high, abs=1e-9)
    assert float(result.m_coverage[-1]) == 1.0


@pytest.mark.parametrize(
    ("density", "rows", "sets"), [((1, 1), 30, 400), ((0.5, 20), 30, 400), ((1, 1), 300, 400), ((0.5, 20), 1000, 100)]
)
def test_intervals_cover(density: tuple[float, float], rows: int, sets: int) -> None:
    """Calibrated scores, evenly spread or with errors in 2.4 of 100 rows; truths by numerical integration."""
    rng = np.random.default_rng([8, rows])
    scores = rng.beta(*density, (sets, rows))
    labels = (rng.random(scores.shape) < scores).astype(int)
    result = cd.evaluate(labels, scores, {"m": cd.RiskCoverage()}, task="binary", ci=0.9)
    quantiles = scipy.stats.beta.ppf((np.arange(200_000) + 0.5) / 200_000, *density)
    risks = np.sort(1 - np.maximum(quantiles, 1 - quantiles))
    rate = risks.mean()
    truth = {
        "aurc": (np.cumsum(risks) / np.arange(1, risks.size + 1)).mean(),
        "best": rate + (1 - rate) * np.log1p(-rate),
        "augrc": np.cumsum(risks).mean() / risks.size,
    }
    truth["excess"] = truth["aurc"] - truth["best"]
    for part, value in truth.items():
        low, high = result[f"m_{part}_low"].values, result[f"m_{part}_high"].values
        assert np.isfinite([low, high]).all()
        assert ((low <= value) & (value <= high)).sum() >= binom.ppf(1e-5, sets, 0.9), part


@pytest.mark.parametrize("points", [0, 2.5, "many"])
def test_bad_points(points: Any) -> None:
    with pytest.raises(ValueError, match="points expects a whole number"):
        cd.RiskCoverageCurve(points=points)
