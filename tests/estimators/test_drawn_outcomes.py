"""Tests whose null distribution is that of outcomes drawn from the predictions: exact for few rows."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

import calibdask as cd
from calibdask.estimators.kernel.drawn_estimates import drawn_estimates
from calibdask.estimators.kernel.drawn_outcomes import DrawnOutcomes, sample_size, share_reaching
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.pairs.pair_kernel import KernelTerm, PairKernel

LOCATIONS = (np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([1, 1]))
MATRIX = [[2.0, 0.5], [0.5, 1.0]]
KERNELS = (cd.Kernel(bandwidth=0.5, matrix=MATRIX), cd.Kernel(profile="gaussian", distance="euclidean", bandwidth=0.3))
# Their p-values are those of the estimates.
ESTIMATES: list[Any] = [
    lambda draws: cd.SKCETest(draws=draws, bandwidth=0.5),
    lambda draws: cd.SKCETest(draws=draws, kernel=KERNELS),
    lambda draws: cd.SKCETest(estimator="linear", draws=draws, kernel=KERNELS),
    lambda draws: cd.SKCETest(estimator="block", block=3, draws=draws, kernel=KERNELS),
]
TESTS: list[Any] = [
    *ESTIMATES,
    lambda draws: cd.SKCETest(estimator="features", features=16, draws=draws, bandwidth=0.5),
    lambda draws: cd.SKCETest(estimator="features", features=16, draws=draws, bandwidth=0.5, matrix=MATRIX),
    lambda draws: cd.CMETest(locations=3, draws=draws, bandwidth=0.5),
    lambda draws: cd.CMETest(locations=LOCATIONS, covariance="calibrated", draws=draws, bandwidth=0.5),
    lambda draws: cd.CMETest(locations=LOCATIONS, covariance="observed", draws=draws, bandwidth=0.5),
]


@pytest.mark.parametrize(
    ("make", "dtype"), [*((make, np.float64) for make in TESTS), *((TESTS[i], np.float32) for i in (1, 4, 6))]
)
def test_pvalues_are_those_of_all_labels(make: Any, dtype: Any) -> None:
    """Of 7 rows there are 128 sets of labels, whose probabilities follow from the scores."""
    scores = np.array([0.02, 0.1, 0.3, 0.35, 0.6, 0.9, 0.95], dtype)
    labels = np.array(list(itertools.product([0, 1], repeat=7)))
    result = cd.evaluate(labels, np.broadcast_to(scores, labels.shape), {"x": make(2000)}, task="binary")
    exactly = scores.astype(np.float64)
    chances = np.where(labels == 1, exactly, 1 - exactly).prod(1)
    statistic = (result.x_estimate if make in ESTIMATES else result.x_statistic).values
    # Statistics of different labels may be equal up to rounding, or nearly so: those may count as reached or not.
    near = np.array([[1e-9], [1e-6]])[:, :, None] if dtype == np.float64 else np.array([[1e-6], [1e-2]])[:, :, None]
    low, high = (statistic >= statistic[:, None] - near * np.abs(statistic).max()) @ chances
    error = 5 * np.sqrt(high * (1 - low) / 2000) + 5e-3
    # Beyond 5 standard errors in one of 10**6 cases, and there are 2304; small shares are Poisson counts.
    assert (low - error < result.x_pvalue.values).all()
    assert (result.x_pvalue.values < high + error).all()


def test_draws_have_the_moments_of_labels() -> None:
    scores = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    outcomes = DrawnOutcomes(scores, 7, 20_000, 1)
    assert outcomes.repeats.tolist() == [4, 3]
    drawn = np.concatenate(list(outcomes))
    assert drawn.shape == (20_000, 2, 3)
    assert (drawn.sum(-1) == [4, 3]).all()
    variance = outcomes.repeats[:, None] * scores * (1 - scores)
    assert (np.abs(drawn.mean(0) - outcomes.repeats[:, None] * scores) <= 5 * np.sqrt(variance / 20_000)).all()
    # The standard error of a variance is its multiple by sqrt(2 / draws) = 0.01, for these counts up to 0.02.
    assert drawn.var(0) == pytest.approx(variance, rel=0.1)
    np.testing.assert_array_equal(drawn, np.concatenate(list(DrawnOutcomes(scores, 7, 20_000, 1))))


def test_samples_that_can_be_drawn_in_seconds() -> None:
    assert [sample_size(1000, classes) for classes in (2, 10, 100, 1000)] == [2000, 2000, 671, 100]
    assert sample_size(1000, 2, affordable=500) == 500
    assert share_reaching(1.0, np.array([0.0, 1.0 - 1e-12, 2.0]), 1e-9) == 0.75


def rare_rows(sets: int, rows: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Calibrated rows, 1 % of them positive."""
    rng = np.random.default_rng([21, rows])
    scores = rng.beta(0.5, 50, (sets, rows))
    return (rng.random(scores.shape) < scores).astype(int), scores


@pytest.mark.parametrize("rows", [50, 400])
def test_levels_with_rare_outcomes(rows: int) -> None:
    """At most the level; a count is larger by chance once in 10**5. Chi-square p-values: 11 and 6 % at 1 %."""
    labels, scores = rare_rows(300, rows)
    tests = {"cme": cd.CMETest(draws=99), "pairs": cd.SKCETest(estimator="features", features=32, draws=99)}
    if rows > 50:
        del tests["pairs"]
    result = cd.evaluate(labels, scores, tests, task="binary")
    for name, level in itertools.product(tests, (0.01, 0.05, 0.2)):
        assert int((result[f"{name}_pvalue"] <= level).sum()) <= binom.isf(1e-5, 300, level), (name, level)


@pytest.mark.parametrize(("rate", "rows"), [(199, 30), (19, 100)])
def test_levels_of_pairs_and_blocks_with_rare_outcomes(rate: int, rows: int) -> None:
    """At most the level; 86 and 17 % of calibrated models were rejected by the bootstrap with 30 and 500 rows."""
    rng = np.random.default_rng([rate, rows])
    scores = rng.beta(1, rate, (200, rows))
    labels = (rng.random(scores.shape) < scores).astype(int)
    ways: dict[str, Any] = {
        "unbiased": {},
        "linear": {"estimator": "linear"},
        "block": {"estimator": "block", "block": 10},
    }
    tests: Any = {name: cd.SKCETest(draws=99, bandwidth=0.2, **way) for name, way in ways.items()}
    result = cd.evaluate(labels, scores, tests, task="binary")
    for name, level in itertools.product(tests, (0.01, 0.05, 0.2)):
        assert int((result[f"{name}_pvalue"] <= level).sum()) <= binom.isf(1e-5, 200, level), (name, level)


@pytest.mark.parametrize("length", [None, 2, 5])
def test_drawn_estimates_of_predictions_that_stand_for_several_rows(length: int | None) -> None:
    """Their mean is 0, and their variance that of independent rows: (mean of pairs) E h_ij**2."""
    scores = np.random.default_rng(3).dirichlet([0.3, 1, 2], 20)
    outcomes = DrawnOutcomes(scores, 70, 20_000, 5)
    kernel = PairKernel((KernelTerm("exponential", "tv"),), FrozenArray(np.full((1, 1, 1), 0.5)))
    drawn = drawn_estimates(kernel, outcomes, 0, 0, length)
    similar = np.exp(-np.abs(scores[:, None] - scores).sum(-1) / 2 / 0.5)
    covariance = np.stack([np.diag(p) - np.outer(p, p) for p in scores])
    # E h_ij**2 = k_ij**2 tr(C_i C_j), and different pairs are uncorrelated.
    squares = similar**2 * np.einsum("icd,jdc->ij", covariance, covariance)
    if length is None:
        repeats = outcomes.repeats
        variance = 2 * (repeats @ squares @ repeats - repeats @ np.diag(squares)) / (70 * 69) ** 2
    else:
        copies = outcomes.repeats[::length]
        blocks = squares.reshape(20 // length, length, 20 // length, length).swapaxes(1, 2)
        within = np.array([np.triu(blocks[i, i], 1).sum() for i in range(20 // length)])
        variance = (copies @ within) / (70 * (length - 1) / 2) ** 2
    assert abs(drawn.mean()) <= 5 * np.sqrt(variance / 20_000)
    assert drawn.var() == pytest.approx(variance, rel=0.1)


def test_many_effective_rows_have_asymptotic_pvalues() -> None:
    rng = np.random.default_rng(5)
    scores = rng.random((2, 400))
    scores[1] /= 200
    labels = (rng.random(scores.shape) < scores).astype(int)
    tests: Any = {
        "linear": cd.SKCETest(estimator="linear", bandwidth=0.2),
        "pairs": cd.SKCETest(draws=99, bandwidth=0.2),
    }
    result = cd.evaluate(labels, scores, tests, task="binary")
    normal = norm.sf(result.linear_statistic.values)
    assert result.linear_pvalue.values[0] == pytest.approx(normal[0], rel=1e-12)
    assert result.linear_pvalue.values[1] * 1001 == pytest.approx(round(result.linear_pvalue.values[1] * 1001))
    v = scores * (1 - scores)
    effective = v.sum(1) ** 2 / (v * (1 - 3 * v)).sum(1)
    assert effective[0] > 20 > effective[1]
    for name in tests:
        assert result[f"{name}_pvalue"].attrs["effective_rows"] == pytest.approx(effective.tolist())
        assert "20 effective rows" in result[f"{name}_pvalue"].attrs["assumes"]


def test_bandwidths_that_are_given_need_no_pass_for_the_sample() -> None:
    labels, scores = rare_rows(1, 50)
    for estimator in ("linear", "features"):
        test: Any = cd.SKCETest(estimator=estimator, features=16, draws=19, bandwidth=0.2)  # type: ignore[arg-type]
        assert cd.evaluate(labels[0], scores[0], test).attrs["passes"] == 1


def test_many_rows_have_chi_square_pvalues() -> None:
    rng = np.random.default_rng(5)
    scores = rng.random(4000)
    labels = (rng.random(4000) < scores**1.3).astype(int)
    result = cd.evaluate(labels, scores, {"few": cd.CMETest(draws=50), "many": cd.CMETest(draws=2000)})
    assert result.few_pvalue.attrs["effective_rows"] > 300
    assert float(result.few_pvalue) == float(result.many_pvalue) < 1e-6
    drawn = cd.evaluate(labels[:300], scores[:300], {"x": cd.CMETest(draws=50)})
    assert drawn.x_pvalue.attrs["effective_rows"] < 300
    assert float(drawn.x_pvalue) * 51 == pytest.approx(round(float(drawn.x_pvalue) * 51))


def test_level_of_more_rows_than_are_sampled() -> None:
    """Predictions stand for several rows each: of 60 sets at most 11 at 5 %, but for a chance of 3e-5."""
    labels, scores = rare_rows(60, 5000)
    result = cd.evaluate(labels, scores, {"cme": cd.CMETest(draws=39)}, task="binary")
    assert (np.array(result.cme_pvalue.attrs["effective_rows"]) < 300).all()
    assert int((result.cme_pvalue <= 0.05).sum()) <= 11


def test_power() -> None:
    """Outcomes of twice the probability are found in nearly all of 20 data sets."""
    rng = np.random.default_rng(6)
    scores = rng.beta(1, 20, (20, 1500))
    labels = (rng.random(scores.shape) < np.minimum(2 * scores, 1)).astype(int)
    result = cd.evaluate(labels, scores, {"cme": cd.CMETest(draws=199)}, task="binary")
    assert int((result.cme_pvalue <= 0.01).sum()) >= 18
