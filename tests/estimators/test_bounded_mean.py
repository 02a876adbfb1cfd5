"""Limits of means of bounded values: those of Clopper & Pearson for outcomes, normal ones for many rows, and valid."""

import numpy as np
import pytest
from scipy import stats

from calibdask.estimators.bounded_mean import BoundedMean


@pytest.mark.parametrize(("hits", "rows"), [(0, 10), (1, 10), (7, 10), (10, 10), (3, 500)])
@pytest.mark.parametrize("level", [0.9, 0.99])
def test_outcomes_have_the_limits_of_clopper_and_pearson(hits: int, rows: int, level: float) -> None:
    mean = hits / rows
    expected = stats.binomtest(hits, rows).proportion_ci(level, method="exact")
    actual = BoundedMean(mean, mean * (1 - mean), rows, 0.0, 1.0).ends(level)
    assert actual == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-12)


def test_many_values_have_normal_limits() -> None:
    low, high = BoundedMean(0.03, 0.2, 10**9, -2.0, 2.0, sampled=10**9).ends(0.9)
    reach = stats.norm.ppf(0.95) * np.sqrt(0.2 / 10**9)
    # Two of 10**9 more, divided by the standard error: 1.4e-4 of it.
    assert (0.03 - low, high - 0.03) == pytest.approx((reach, reach), rel=1e-3)


@pytest.mark.parametrize("sampled", [None, 2, 30])
def test_the_limit_is_what_is_just_rejected(sampled: int | None) -> None:
    mean = BoundedMean(np.array([-0.5, 0.0, 0.3]), np.array([0.0, 0.1, 0.7]), 30, -2.0, 2.0, sampled)
    for chance in (0.3, 0.05, 0.02):
        limits = mean.upper(chance)
        assert [float(mean.pvalue(limit)[k]) for k, limit in enumerate(limits)] == pytest.approx([chance] * 3, rel=1e-7)


def test_a_mean_at_the_largest_value() -> None:
    mean = BoundedMean(np.array([2.0, np.nan]), np.array([0.0, np.nan]), 5, -2.0, 2.0)
    np.testing.assert_array_equal(mean.upper(0.05), [2.0, np.nan])
    np.testing.assert_array_equal(mean.pvalue(2.0), [1.0, np.nan])
    np.testing.assert_array_equal(mean.pvalue(2.1), [0.0, np.nan])
    assert mean.lower(0.05)[0] < 0.4


# Values and their probabilities: rare large ones, rare small ones, both, and nearly the largest.
LAWS = [
    ([2.0, 0.0], [0.03, 0.97]),
    ([2.0, 0.001, -0.001], [0.0009, 0.5, 0.4991]),
    ([-2.0, 0.5, 2.0], [0.02, 0.96, 0.02]),
    ([2.0, -2.0, 1.9], [0.005, 0.27, 0.725]),
    ([0.7, -1.0, 0.1], [0.05, 0.15, 0.8]),
]


@pytest.mark.parametrize("rows", [2, 10, 100, 1000])
@pytest.mark.parametrize(("values", "chances"), LAWS)
def test_limits_are_valid_for_any_number_of_rows(values: list[float], chances: list[float], rows: int) -> None:
    """Of 20,000 data sets each limit is wrong in 5 % at most; 1000 + 5 standard errors by chance once in 10**6."""
    counts = np.random.default_rng(rows).multinomial(rows, chances, 20_000)
    x = np.array(values)
    mean, square = counts @ x / rows, counts @ x**2 / rows
    variance = np.maximum(square - mean**2, 0.0) * rows / (rows - 1)
    limits = BoundedMean(mean, variance, rows, -2.0, 2.0, sampled=np.full(len(mean), rows))
    truth = float(x @ chances)
    assert (limits.upper(0.05) < truth - 1e-12).sum() <= 1000 + 5 * 31
    assert (limits.lower(0.05) > truth + 1e-12).sum() <= 1000 + 5 * 31
