"""Empirical Bayes against linear programmes, formulas and simulations."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from calibdask.inference.empirical_bayes import GammaRatios, NormalEffects, critical_value, most_variance, paule_mandel


def largest_chance(value: float, square: float, kurtosis: float) -> float:
    """The largest P(|Z + b| > value) over discrete biases with E b**2 and at most this kurtosis, a linear programme."""
    t = np.r_[0, np.geomspace(1e-4, 4 * (value + 12) ** 2, 2500)]
    missed = stats.norm.cdf(-value - np.sqrt(t)) + stats.norm.sf(value - np.sqrt(t))
    programme = optimize.linprog(
        -missed, A_eq=[np.ones_like(t), t], b_eq=[1, square], A_ub=[t**2], b_ub=[kurtosis * square**2], method="highs"
    )
    return float(-programme.fun)


@pytest.mark.parametrize("kurtosis", [1.5, 3.0, 20.0])
@pytest.mark.parametrize("square", [0.05, 0.5, 2.0, 10.0])
def test_critical_values_are_those_of_the_worst_bias(square: float, kurtosis: float) -> None:
    """Valid, and at most 4 % larger than needed."""
    value = float(critical_value(np.array([square]), kurtosis, 0.95)[0])
    assert largest_chance(value, square, kurtosis) <= 0.05 + 1e-4
    assert largest_chance(0.96 * value, square, kurtosis) > 0.05


def test_published_critical_values() -> None:
    """Of Armstrong, Kolesár & Plagborg-Møller 2022: without a bias the normal one, by the mean square of Chebyshev."""
    assert critical_value(np.array([0.0]), 3.0, 0.95)[0] == pytest.approx(1.959964)
    assert critical_value(np.array([1e5]), 3.0, 0.95)[0] == pytest.approx(np.sqrt((1 + 1e5) / 0.05))
    by_bias = critical_value(np.geomspace(0.01, 100, 30), 3.0, 0.95)
    assert (np.diff(by_bias) >= 0).all()


def test_paule_mandel_is_the_root() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.5, 2, 300)
    values = rng.normal(1, 2, 300) + rng.normal(0, np.sqrt(noise))
    variance = paule_mandel(values, noise)
    weights = 1 / (noise + variance)
    mean = np.average(values, weights=weights)
    assert (weights * (values - mean) ** 2).sum() == pytest.approx(299, rel=1e-9)
    assert variance == pytest.approx(4, rel=0.3)
    assert most_variance(values, noise) > variance
    assert paule_mandel(rng.normal(0, 0.1, 50), np.ones(50)) == 0


def test_effects_are_shrunken_by_their_noise() -> None:
    rng = np.random.default_rng(1)
    noise = np.full(2000, 1.0)
    truth = rng.normal(3, 0.5, 2000)
    values = truth + rng.normal(size=2000)
    effects = NormalEffects.of(values, noise)
    assert effects.variance == pytest.approx(0.25, abs=0.08)
    # One standard error less.
    assert 0.5 * effects.variance < effects.weight_variance < effects.variance
    share = effects.weight_variance / (effects.weight_variance + 1)
    np.testing.assert_allclose(effects.shrunken(values, noise), effects.mean + share * (values - effects.mean))
    # Probabilities are those of the variance itself.
    share = effects.variance / (effects.variance + 1)
    centre, deviation = effects.mean + share * (values - effects.mean), np.sqrt(share)
    expected = stats.norm.sf(4, centre, deviation) + stats.norm.cdf(-4, centre, deviation)
    np.testing.assert_allclose(effects.beyond(values, noise, 4.0), expected, atol=1e-12)


def test_gamma_ratios_are_marshalls() -> None:
    rng = np.random.default_rng(2)
    expected = rng.uniform(2, 30, 500)
    observed = rng.poisson(rng.gamma(10, 0.12, 500) * expected).astype(float)
    ratios = GammaRatios.of(observed, expected)
    mean = observed.sum() / expected.sum()
    spread = (expected * (observed / expected - mean) ** 2).sum() / expected.sum() - mean / expected.mean()
    assert (ratios.mean, ratios.variance) == (pytest.approx(mean), pytest.approx(spread))
    share = spread / (spread + mean / expected)
    np.testing.assert_allclose(ratios.shrunken(observed, expected), mean + share * (observed / expected - mean))
    poisson = 2 + 6 * spread / mean**2 + 1 / (mean * expected)
    error = np.sqrt((poisson * (mean + expected * spread) ** 2).sum()) / expected.sum()
    most = spread + stats.norm.isf(0.025) * error
    assert ratios.most_variance == pytest.approx(most)
    shape, rate = observed + mean**2 / most, expected + mean / most
    low, high = ratios.ends(observed, expected, 0.9)
    np.testing.assert_allclose(special.gammainc(shape, rate * low), 0.05)
    np.testing.assert_allclose(stats.gamma.sf(high, shape, scale=1 / rate), 0.05)


def test_groups_that_expect_no_events_leave_the_others_alone() -> None:
    """Ratios of 100 from a hundredth of an event are no sign of large effects."""
    rng = np.random.default_rng(3)
    expected = np.r_[rng.uniform(20, 60, 200), np.full(100, 0.01)]
    effects = rng.gamma(100, 0.01, 300)
    observed = rng.poisson(effects * expected).astype(float)
    observed[-1] = 1.0
    ratios = GammaRatios.of(observed, expected)
    assert ratios.variance**0.5 < 0.2
    low, high = ratios.ends(observed, expected, 0.95)
    assert ((low <= effects) & (effects <= high)).mean() > 0.93
    assert (high - low).max() < 1.5


def test_intervals_are_the_published_ones() -> None:
    """Of Armstrong, Kolesár & Plagborg-Møller 2022, with critical values by linear programmes."""
    rng = np.random.default_rng(4)
    noise = rng.uniform(0.2, 3, 400)
    effects = NormalEffects.of(rng.normal(0, 1, 400) + rng.normal(0, np.sqrt(noise)), noise)
    for variance in (0.3, 2.5):
        weight = effects.weight_variance / (effects.weight_variance + variance)
        square = (1 / weight - 1) ** 2 * effects.most_variance / variance

        def missed(value: float, square: float = square) -> float:
            return largest_chance(value, square, effects.kurtosis) - 0.05

        needed = optimize.brentq(missed, 1, 20, xtol=1e-3) * weight * np.sqrt(variance)
        reach = float(effects.reach(np.array([variance]), 0.95)[0])
        assert 0.999 * needed <= reach <= 1.04 * needed
