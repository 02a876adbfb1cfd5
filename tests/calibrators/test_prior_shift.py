"""Label shift: known prevalences by Bayes' theorem, unknown ones by likelihood, with the coverage of their interval."""

import json
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import calibdask as cd


def gaussian(n: int, share: float, rng: Any, learnt: float = 0.5) -> tuple[Any, Any]:
    """Labels of a share, and calibrated scores where the share is ``learnt``: x | y normal around y."""
    labels = (rng.random(n) < share).astype(int)
    x = rng.normal(2.0 * labels, 1.0)
    odds = learnt / (1 - learnt) * np.exp(2.0 * x - 2.0)
    return labels, odds / (1 + odds)


def test_known_prevalences_are_bayes() -> None:
    rng = np.random.default_rng(0)
    labels, scores = gaussian(20_000, 0.5, rng)
    shift = cd.PriorShift(prevalence=0.02, train_prevalence=0.5).fit(labels, scores)
    x = np.linspace(-3, 4, 50)
    odds = np.exp(2.0 * x - 2.0)
    truth = odds * 0.02 / 0.98
    np.testing.assert_allclose(shift.predict_proba(odds / (1 + odds))[:, 1], truth / (1 + truth), rtol=1e-12)
    own = cd.PriorShift(prevalence=0.02).fit(labels, scores)
    np.testing.assert_allclose(own.train_prevalence_, [1 - labels.mean(), labels.mean()])
    new, fresh = gaussian(50_000, 0.02, rng)
    gap = cd.evaluate(new, shift.predict_proba(fresh)[:, 1], cd.MeanGap(), ci=0.99)
    assert float(gap.mean_gap_low) <= 0 <= float(gap.mean_gap_high)


def test_it_is_the_scores_of_a_population() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.dirichlet([1, 2, 3], 300)
    labels = rng.integers(0, 3, 300)
    options: Any = {
        "prevalence": [0.7, 0.2, 0.1],
        "sampling_rate": [1.0, 0.5, 0.2],
        "train_prevalence": [0.2, 0.3, 0.5],
    }
    shift = cd.PriorShift(**options).fit(labels, matrix)
    factors = np.array([0.7, 0.2, 0.1]) / [0.2, 0.3, 0.5] / [1.0, 0.5, 0.2]
    expected = matrix * factors
    np.testing.assert_allclose(shift.predict_proba(matrix), expected / expected.sum(1, keepdims=True), rtol=1e-12)
    again = cd.Calibrator.from_dict(json.loads(json.dumps(shift.to_dict())))
    np.testing.assert_array_equal(again.predict_proba(matrix), shift.predict_proba(matrix))
    negatives = cd.PriorShift(sampling_rate=0.1).fit(labels > 0, matrix[:, 1])
    s = matrix[:, 1]
    np.testing.assert_allclose(negatives.predict_proba(s)[:, 1], s / (s + (1 - s) / 0.1))


def test_slices_have_frequencies_of_their_own() -> None:
    rng = np.random.default_rng(2)
    labels, scores = gaussian(2000, 0.5, rng)
    day = rng.choice(["mon", "tue"], 2000)
    shift = cd.PriorShift(prevalence=0.1).fit(labels, scores, by={"day": day})
    alone = cd.PriorShift(prevalence=0.1).fit(labels[day == "tue"], scores[day == "tue"])
    np.testing.assert_array_equal(
        shift.predict_proba(scores[:5], by={"day": np.full(5, "tue")}), alone.predict_proba(scores[:5])
    )


def test_the_estimate_is_the_maximum_of_the_likelihood() -> None:
    rng = np.random.default_rng(3)
    labels, scores = gaussian(3000, 0.5, rng)
    _, fresh = gaussian(1000, 0.1, rng)
    shift = cd.PriorShift(train_prevalence=0.4).fit(labels, scores).estimate_prevalence(fresh)

    def loss(t: float) -> float:
        return -float(np.log(fresh * t / 0.4 + (1 - fresh) * (1 - t) / 0.6).sum())

    expected = optimize.minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-12}).x
    assert shift.prevalence_[1] == pytest.approx(expected, abs=1e-6)
    fixed_point = shift.predict_proba(fresh)[:, 1].mean()
    assert fixed_point == pytest.approx(shift.prevalence_[1], abs=1e-9)
    columns = cd.PriorShift(train_prevalence=[0.6, 0.4]).estimate_prevalence(np.stack([1 - fresh, fresh], 1))
    assert columns.prevalence_[1] == pytest.approx(expected, abs=1e-6)


def test_three_classes_are_found_by_em() -> None:
    rng = np.random.default_rng(4)
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])

    def scored(n: int, share: Any) -> tuple[Any, Any]:
        labels = rng.choice(3, n, p=share)
        x = rng.normal(centres[labels])
        density = np.exp(-((x[:, None] - centres) ** 2).sum(-1) / 2)
        return labels, density / density.sum(1, keepdims=True)

    labels, scores = scored(6000, [1 / 3, 1 / 3, 1 / 3])
    _, fresh = scored(4000, [0.8, 0.15, 0.05])
    shift = cd.PriorShift(train_prevalence=[1 / 3, 1 / 3, 1 / 3]).fit(labels, scores)
    shift.estimate_prevalence(fresh, replicates=30)
    np.testing.assert_allclose(shift.prevalence_, [0.8, 0.15, 0.05], atol=0.02)
    assert (shift.prevalence_low_ <= [0.8, 0.15, 0.05]).all()
    assert (shift.prevalence_high_ >= [0.8, 0.15, 0.05]).all()


def test_its_interval_covers_the_shift() -> None:
    """Of 80 pairs of samples, a 90 % interval covers in 78 % or more (3.6 standard errors)."""
    covered, share = 0, 0.05
    for seed in range(80):
        rng = np.random.default_rng([seed, 5])
        labels, scores = gaussian(1000, 0.5, rng)
        _, fresh = gaussian(600, share, rng)
        shift = cd.PriorShift().fit(labels, scores).estimate_prevalence(fresh, level=0.9, replicates=100, seed=seed)
        covered += shift.prevalence_low_[1] <= share <= shift.prevalence_high_[1]
    assert 0.78 <= covered / 80 <= 0.99


def test_many_scores_are_those_of_a_grid() -> None:
    rng = np.random.default_rng(6)
    _, fresh = gaussian(60_000, 0.2, rng)
    whole = cd.PriorShift(train_prevalence=0.5).estimate_prevalence(fresh, replicates=10)

    def slope(t: float) -> float:
        one, none = fresh / 0.5, (1 - fresh) / 0.5
        return float(((one - none) / (t * one + (1 - t) * none)).sum())

    assert whole.prevalence_[1] == pytest.approx(optimize.brentq(slope, 1e-6, 1 - 1e-6), abs=1e-6)


def test_what_it_expects() -> None:
    labels, scores = gaussian(200, 0.5, np.random.default_rng(7))
    with pytest.raises(ValueError, match="needs the prevalence"):
        cd.PriorShift().fit(labels, scores).predict_proba(scores)
    with pytest.raises(ValueError, match="labelled rows"):
        cd.PriorShift().estimate_prevalence(scores)
    with pytest.raises(ValueError, match="at least one score, got none"):
        cd.PriorShift().fit(labels, scores).estimate_prevalence(scores[:0])
    with pytest.raises(ValueError, match="without prevalence"):
        cd.PriorShift(prevalence=0.1).fit(labels, scores).estimate_prevalence(scores)
    with pytest.raises(ValueError, match="between 0 and 1"):
        cd.PriorShift(prevalence=2.0).fit(labels, scores)
    with pytest.raises(ValueError, match="cannot be computed from a summary"):
        cd.PriorShift(prevalence=0.1).fit(cd.summarize(labels, scores))
