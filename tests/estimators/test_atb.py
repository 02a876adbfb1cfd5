"""The averaged two-bin error against its integral, and its promise: honest scores are best."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import calibdask as cd


def integrated(labels: Any, scores: Any, weights: Any, borders: int = 20_000) -> float:
    """The integral by the midpoint rule."""
    total = 0.0
    for q in (np.arange(borders) + 0.5) / borders:
        sides = [sum(w * (s - o) for s, o, w in rows) for rows in _sides(labels, scores, weights, q)]
        total += sum(side**2 for side in sides)
    return total / borders / float(np.sum(weights)) ** 2


def _sides(labels: Any, scores: Any, weights: Any, q: float) -> Any:
    rows = list(zip(scores, labels, weights, strict=True))
    return [row for row in rows if row[0] < q], [row for row in rows if row[0] >= q]


@pytest.mark.parametrize("weighted", [False, True])
def test_integral(weighted: bool) -> None:
    rng = np.random.default_rng(1)
    scores, labels = rng.integers(0, 9, 12) / 8, rng.integers(0, 2, 12)
    weights = rng.random(12) if weighted else np.ones(12)
    actual = cd.evaluate(labels, scores, cd.ATB(), sample_weight=weights if weighted else None).atb
    assert float(actual) == pytest.approx(integrated(labels, scores, weights), rel=1e-9)


def test_expectation_of_honest_scores_is_the_smallest() -> None:
    """mean(p (1 - p)) / n for the true probabilities p, and for their mean, which is calibrated; others have more."""
    sets, rng = 4000, np.random.default_rng(2)
    probabilities = np.array([0.1, 0.3, 0.35, 0.6, 0.9, 0.92])
    labels = (rng.random((sets, 6)) < probabilities).astype(int)

    def values(scores: Any) -> Any:
        return cd.evaluate(labels, np.broadcast_to(scores, labels.shape), cd.ATB(), task="binary").atb.values

    honest = values(probabilities)
    expected = (probabilities * (1 - probabilities)).mean() / 6
    for calibrated in (honest, values(np.full(6, probabilities.mean()))):
        assert calibrated.mean() == pytest.approx(expected, abs=5 * calibrated.std() / np.sqrt(sets))
    for moved in (probabilities + 0.07, probabilities / 2 + 0.25):
        differences = values(moved) - honest
        assert differences.mean() > 5 * differences.std() / np.sqrt(sets)


def test_cells_of_a_summary() -> None:
    rng = np.random.default_rng(3)
    scores = rng.random(20_000)
    labels = (rng.random(20_000) < scores).astype(int)
    exact, stored = (
        float(cd.evaluate(*data, metrics=cd.ATB()).atb) for data in ((labels, scores), (cd.summarize(labels, scores),))
    )
    assert stored == pytest.approx(exact, rel=1e-3)


def test_two_events_bear_no_interval() -> None:
    labels, scores = np.arange(60) < np.array([[2], [3]]), np.tile(np.linspace(0.01, 0.1, 60), (2, 1))
    result = cd.evaluate(labels.astype(int), scores, cd.ATB(), task="binary", ci=0.9, n_boot=20)
    assert np.isfinite(result.atb).all()
    assert np.isfinite(result.atb_low).values.tolist() == np.isfinite(result.atb_high).values.tolist() == [False, True]
    assert "fewer than 3" in result.atb.attrs["no_interval"]


def test_intervals_of_biased_scores_cover() -> None:
    """Truth: the integral of the squared mean gaps, of scores s where the outcome has the probability s**2."""
    rng = np.random.default_rng(4)
    scores = rng.random((40, 400))
    labels = (rng.random(scores.shape) < scores**2).astype(int)
    q = (np.arange(10_000) + 0.5) / 10_000
    below = q**2 / 2 - q**3 / 3
    truth = (below**2 + (1 / 6 - below) ** 2).mean()
    result = cd.evaluate(labels, scores, cd.ATB(), task="binary", ci=0.9, n_boot=60)
    covering = ((result.atb_low <= truth) & (truth <= result.atb_high)).sum()
    assert int(covering) >= binom.ppf(1e-5, 40, 0.88)
