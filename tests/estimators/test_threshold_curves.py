"""Net benefit and Murphy curves against loops, published numbers and integrals; the intervals of both."""

from typing import Any

import numpy as np
import pytest
import scipy
from scipy.stats import binom
from sklearn.metrics import confusion_matrix

import calibdask as cd

THRESHOLDS = (0.05, 0.1, 0.3, 0.5, 0.8)


def rows_of_scores(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Scores with two decimals, many of them equal to a threshold."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 101, rows) / 100
    return (rng.random(rows) < scores**2).astype(int), scores


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("weighted", [False, True])
def test_net_benefit(closed: Any, weighted: bool) -> None:
    labels, scores = rows_of_scores(500)
    weights = np.random.default_rng(1).random(500) if weighted else np.ones(500)
    metric = cd.NetBenefit(thresholds=THRESHOLDS, closed=closed)
    result = cd.evaluate(labels, scores, {"m": metric}, sample_weight=weights if weighted else None)
    for position, t in enumerate(THRESHOLDS):
        treated = scores >= t if closed == "left" else scores > t
        ((_, fp), (_, tp)) = confusion_matrix(labels, treated, sample_weight=weights) / weights.sum()
        frequency = np.average(labels, weights=weights)
        assert float(result.m_model[position]) == pytest.approx(tp - fp * t / (1 - t), abs=1e-12)
        assert float(result.m_treat_all[position]) == pytest.approx(
            frequency - (1 - frequency) * t / (1 - t), abs=1e-12
        )
        assert float(result.m_treat_none[position]) == 0.0


def test_scores_at_a_threshold_are_treated_where_rows_tell_them() -> None:
    """As by dcurves: with risks in whole percent most thresholds of an analysis are scores."""
    labels, scores = rows_of_scores(500)
    metric = cd.NetBenefit(thresholds=THRESHOLDS)
    usual = cd.evaluate(labels, scores, metric)
    at_least = cd.evaluate(labels, scores, cd.NetBenefit(thresholds=THRESHOLDS, closed="left"))
    above = cd.evaluate(labels, scores, cd.NetBenefit(thresholds=THRESHOLDS, closed="right"))
    np.testing.assert_array_equal(usual.net_benefit_model, at_least.net_benefit_model)
    assert (usual.net_benefit_model != above.net_benefit_model).any()
    summary = cd.summarize(labels, scores)
    told = cd.evaluate(summary, metrics=metric)
    np.testing.assert_allclose(told.net_benefit_model, above.net_benefit_model)
    assert (usual.net_benefit_model.attrs["closed"], told.net_benefit_model.attrs["closed"]) == ("left", "right")
    with pytest.raises(ValueError, match="closed on the right"):
        cd.evaluate(summary, metrics=cd.NetBenefit(thresholds=THRESHOLDS, closed="left"))
    with pytest.raises(ValueError, match="closed expects one of 'left', 'right'"):
        cd.NetBenefit(closed="both")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counts", "model", "treat_all"),
    [((111, 21, 76, 113), (0.3424, 0.3240), (0.5606, 0.4434)), ((110, 36, 66, 109), (0.3368, 0.3053), None)],
)
def test_published_net_benefits(counts: Any, model: Any, treat_all: Any) -> None:
    """Confusion matrices (TP, FP, FN, TN) and net benefits at 0.05 and 0.25 of the decision curve analysis of readers.

    walehn/ureter_stone, results/dca/BCR/dca_report.md: 321 patients, with and without assistance.
    """
    labels, scores = np.repeat([1, 0, 1, 0], counts), np.repeat([0.9, 0.9, 0.01, 0.01], counts)
    result = cd.evaluate(labels, scores, cd.NetBenefit(thresholds=[0.05, 0.25]))
    np.testing.assert_array_equal(result.net_benefit_model.round(4), model)
    if treat_all:
        np.testing.assert_array_equal(result.net_benefit_treat_all.round(4), treat_all)


def test_every_class_has_a_curve() -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.dirichlet(np.ones(3), 300), rng.integers(0, 3, 300)
    metrics = {"benefit": cd.NetBenefit(thresholds=THRESHOLDS), "murphy": cd.MurphyCurve(thresholds=THRESHOLDS)}
    together = cd.evaluate(labels, scores, metrics)
    for c in range(3):
        alone = cd.evaluate((labels == c).astype(int), scores[:, c], metrics)
        np.testing.assert_array_equal(together.benefit_model.sel({"class": c}), alone.benefit_model)
        np.testing.assert_array_equal(together.murphy.sel({"class": c}), alone.murphy)


@pytest.mark.parametrize("weighted", [False, True])
def test_murphy_curve(weighted: bool) -> None:
    labels, scores = rows_of_scores(400)
    weights = np.random.default_rng(1).random(400) if weighted else np.ones(400)
    metric = cd.MurphyCurve(thresholds=THRESHOLDS)
    curve = cd.evaluate(labels, scores, {"m": metric}, sample_weight=weights if weighted else None).m
    for position, t in enumerate(THRESHOLDS):
        losses = [(1 - t) * (s <= t) if o else t * (s > t) for s, o in zip(scores, labels, strict=True)]
        assert float(curve[position]) == pytest.approx(np.average(losses, weights=weights), abs=1e-13)


def test_twice_the_integral_of_the_murphy_curve_is_the_brier_score() -> None:
    """Between borders that hold all scores it is a straight line: the trapezium rule on either side is exact."""
    labels, scores = rows_of_scores(700, seed=3)
    inner = np.arange(1, 100) / 100
    # Just below and just above every score.
    thresholds = np.sort(np.r_[1e-12, inner - 1e-12, inner + 1e-12, 1 - 1e-12])
    curve = cd.evaluate(labels, scores, {"m": cd.MurphyCurve(thresholds=thresholds)}).m.values
    integral = scipy.integrate.trapezoid(curve, thresholds)
    assert 2 * integral == pytest.approx(cd.brier_score(labels, scores), abs=1e-10)


def test_summaries_have_the_same_curves() -> None:
    rng = np.random.default_rng(4)
    scores = rng.random(5000)
    labels = (rng.random(5000) < scores).astype(int)
    metrics = {"benefit": cd.NetBenefit(), "murphy": cd.MurphyCurve()}
    rows, stored = (
        cd.evaluate(labels, scores, metrics, ci=0.9),
        cd.evaluate(cd.summarize(labels, scores, settings=["binary"]), metrics=metrics, ci=0.9),
    )
    for name in rows.data_vars:
        np.testing.assert_allclose(stored[name], rows[name], rtol=1e-12, atol=1e-15, err_msg=str(name))
    assert rows.benefit_threshold.size == 99
    with pytest.raises(ValueError, match="does not coincide with a cell boundary"):
        cd.evaluate(cd.summarize(labels, scores), metrics=cd.NetBenefit(thresholds=[0.12345]))


@pytest.mark.parametrize(("density", "rows"), [((1, 1), 30), ((0.5, 20), 30), ((0.5, 20), 300), ((1, 1), 3000)])
def test_intervals_cover(density: tuple[float, float], rows: int) -> None:
    """Calibrated scores, evenly spread or with the outcome in 2.4 of 100 rows."""
    sets = 200
    rng = np.random.default_rng([5, rows])
    scores = rng.beta(*density, (sets, rows))
    labels = (rng.random(scores.shape) < scores).astype(int)
    metrics = {"benefit": cd.NetBenefit(thresholds=THRESHOLDS), "murphy": cd.MurphyCurve(thresholds=THRESHOLDS)}
    result = cd.evaluate(labels, scores, metrics, task="binary", ci=0.9)
    s = scipy.stats.beta.ppf((np.arange(100_000) + 0.5) / 100_000, *density)[:, None]
    t = np.array(THRESHOLDS)
    odds = t / (1 - t)
    truth = {
        "benefit_model": ((s > t) * (s - (1 - s) * odds)).mean(0),
        "benefit_treat_all": (s - (1 - s) * odds).mean(0),
        "murphy": np.where(s > t, t * (1 - s), (1 - t) * s).mean(0),
    }
    for name, values in truth.items():
        low, high = result[f"{name}_low"].values, result[f"{name}_high"].values
        assert np.isfinite([low, high]).all()
        covering = ((low <= values) & (values <= high)).sum(0)
        assert (covering >= binom.ppf(1e-6, sets, 0.9)).all(), (name, covering)


@pytest.mark.parametrize("thresholds", [[], [0.5, 0.2], [0.0, 0.5], [0.5, 1.0], "often", [[0.1]], [np.nan]])
@pytest.mark.parametrize("metric", [cd.NetBenefit, cd.MurphyCurve])
def test_bad_thresholds(metric: Any, thresholds: Any) -> None:
    with pytest.raises(ValueError, match="thresholds expects increasing numbers"):
        metric(thresholds=thresholds)


@pytest.mark.parametrize("standardized", [False, True])
def test_interventions_avoided_are_the_gain_over_treating_all(standardized: bool) -> None:
    rng = np.random.default_rng(4)
    scores = rng.random(2000)
    labels = (rng.random(2000) < scores**2).astype(int)
    metric = cd.NetBenefit(thresholds=(0.4, 0.6), standardized=standardized)
    result = cd.evaluate(labels, scores, {"x": metric}, ci=0.95)
    t = result.x_threshold
    scale = labels.mean() if standardized else 1.0
    gain = scale * (result.x_model - result.x_treat_all) * (1 - t) / t
    np.testing.assert_allclose(result.x_avoided, gain, rtol=1e-9)
    values = np.where(scores[:, None] >= t.values, 0.0, np.where(labels[:, None] == 1, -(1 - t.values) / t.values, 1.0))
    width = 2 * 1.96 * values.std(0) / len(values) ** 0.5
    np.testing.assert_allclose(result.x_avoided_high - result.x_avoided_low, width, rtol=0.1)
