"""Normalized entropy, skill scores and standardized net benefit against their formulas in NumPy."""

import numpy as np
import pytest

import calibdask as cd

RNG = np.random.default_rng(0)
SCORES = RNG.beta(1, 6, 4000)
LABELS = (RNG.random(4000) < SCORES).astype(int)
WEIGHTS = RNG.uniform(0.5, 2, 4000)
MATRIX = RNG.dirichlet([1, 2, 3], 2000)
CLASSES = np.array([RNG.choice(3, p=row) for row in MATRIX])
METRICS = {"ne": cd.NormalizedEntropy(), "brier": cd.BrierSkillScore(), "log": cd.LogSkillScore()}


@pytest.mark.parametrize("weighted", [False, True])
def test_formulas_of_a_vector(weighted: bool) -> None:
    weights = WEIGHTS if weighted else np.ones(4000)
    result = cd.evaluate(LABELS, SCORES, METRICS, sample_weight=WEIGHTS if weighted else None)
    mean = np.average(LABELS, weights=weights)
    loss = -np.average(LABELS * np.log(SCORES) + (1 - LABELS) * np.log1p(-SCORES), weights=weights)
    entropy = -mean * np.log(mean) - (1 - mean) * np.log1p(-mean)
    assert float(result.ne) == pytest.approx(loss / entropy, rel=1e-12)
    assert float(result.log) == pytest.approx(1 - loss / entropy, rel=1e-11)
    brier = np.average((SCORES - LABELS) ** 2, weights=weights)
    assert float(result.brier) == pytest.approx(1 - brier / (mean * (1 - mean)), rel=1e-11)


def test_formulas_of_classes_and_of_two_columns() -> None:
    result = cd.evaluate(CLASSES, MATRIX, METRICS)
    rates = np.bincount(CLASSES) / 2000
    loss = -np.log(MATRIX[np.arange(2000), CLASSES]).mean()
    assert float(result.ne) == pytest.approx(loss / -(rates * np.log(rates)).sum(), rel=1e-12)
    brier = ((MATRIX - np.eye(3)[CLASSES]) ** 2).sum(1).mean()
    assert float(result.brier) == pytest.approx(1 - brier / (rates * (1 - rates)).sum(), rel=1e-11)
    two = cd.evaluate(LABELS, np.stack([1 - SCORES, SCORES], 1), METRICS)
    one = cd.evaluate(LABELS, SCORES, METRICS)
    for name in METRICS:
        assert float(two[name]) == pytest.approx(float(one[name]), rel=1e-12)


def test_the_base_rate_has_no_skill_and_one_outcome_none_at_all() -> None:
    result = cd.evaluate(LABELS, np.full(4000, LABELS.mean()), METRICS)
    assert [round(float(result[name]), 10) for name in METRICS] == [1.0, 0.0, 0.0]
    alike = cd.evaluate(np.zeros(50, int), np.full(50, 0.1), METRICS)
    assert all(np.isnan(alike[name]) for name in METRICS)


def test_a_summary_agrees_and_intervals_cover_the_number() -> None:
    rows = cd.evaluate(LABELS, SCORES, METRICS, ci=0.95)
    cells = cd.evaluate(cd.summarize(LABELS, SCORES, settings=["binary"]), metrics=METRICS, ci=0.95)
    for name in METRICS:
        assert float(cells[name]) == pytest.approx(float(rows[name]), rel=1e-12)
        assert float(rows[f"{name}_low"]) < float(rows[name]) < float(rows[f"{name}_high"])
        assert f"{name}_low" not in cells, "replicates of sums over bins and of scores are not paired"


def test_standardized_net_benefit() -> None:
    thresholds = (0.1, 0.3)
    metrics = {
        "plain": cd.NetBenefit(thresholds=thresholds),
        "s": cd.NetBenefit(thresholds=thresholds, standardized=True),
    }
    result = cd.evaluate(LABELS, SCORES, metrics, ci=0.95)
    np.testing.assert_allclose(result.s_model, result.plain_model / LABELS.mean())
    np.testing.assert_allclose(result.s_treat_all, result.plain_treat_all / LABELS.mean())
    perfect = cd.evaluate(LABELS, LABELS.astype(float), metrics, ci=0.95)
    np.testing.assert_allclose(perfect.s_model, 1.0)


def test_intervals_of_standardized_net_benefit_cover_the_truth() -> None:
    """Scores uniform to 0.4 and calibrated: NB(0.2) = int_{.2}^{.4} (s - (1 - s) / 4) ds / 0.4, frequency 0.2."""
    rng = np.random.default_rng(3)
    scores = rng.uniform(0, 0.4, (600, 400))
    labels = (rng.random(scores.shape) < scores).astype(int)
    metric = cd.NetBenefit(thresholds=(0.2,), standardized=True)
    result = cd.evaluate(labels, scores, {"s": metric}, task="binary", ci=0.9)
    s = np.linspace(0.2, 0.4, 100_001)
    truth = np.trapezoid(s - (1 - s) / 4, s) / 0.4 / 0.2
    covered = float(((result.s_model_low <= truth) & (truth <= result.s_model_high)).mean())
    assert 0.86 <= covered <= 0.97
