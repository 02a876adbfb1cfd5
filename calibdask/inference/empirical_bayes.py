"""Empirical Bayes for many small groups: shrinkage, with intervals that hold on average whatever the effects are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import scipy

from calibdask.statistics.exact import Array

_HALVINGS = 200
# Critical values are tabulated by the squared bias relative to the noise, on this many values from 1e-4 to 1e4.
_BIASES, _LEAST_BIAS, _MOST_BIAS = 161, 1e-4, 1e4
# Candidates for critical values, beside a polynomial's point of contact and the points where it is above the curve.
_CANDIDATES, _CONTACTS, _POINTS = 400, 160, 300
_MOST_KURTOSIS = 100.0
_NORMAL = 1.959963984540054


@dataclass(frozen=True)
class NormalEffects:
    """Effects theta_k with a mean, a variance and a kurtosis, seen with normal noise.

    ``most_variance`` is the upper limit of the variance, at 97.5 %, which intervals allow for; ``weight_variance`` is
    the variance minus one standard error, from which the weights of estimates are computed.
    """

    mean: float
    variance: float
    kurtosis: float
    most_variance: float
    weight_variance: float

    @classmethod
    def of(cls, values: Array, noise: Array, *, for_intervals: bool = True) -> "NormalEffects":
        """Of estimates with sampling variances ``noise``; without ``for_intervals`` there is no upper limit.

        The variance is the root t of Paule & Mandel [1]_, sum_k (y_k - mean)**2 / (v_k + t) = K - 1 with the mean
        weighted by 1 / (v_k + t), but at least 2 / sum (1 / v), below which it cannot be told from 0; the kurtosis is
        that of moments, at least 1 + 32 sum v**4 / (variance**2 K sum v**2) [2]_. The weights of estimates use t - e,
        with the standard error e that t has without effects, (2 / sum v**-2)**(1/2), larger where squares vary more
        than those of normal variables: where effects cannot be told from noise, a variance that is too large by chance
        costs more than one that is too small, and all slices together are the better estimate.

        References
        ----------
        .. [1] Paule & Mandel, Consensus values and weighting factors, 1982.
        .. [2] Armstrong, Kolesár & Plagborg-Møller, Robust empirical Bayes confidence intervals, 2022, section 4.
        """
        count = values.size
        spread = paule_mandel(values, noise)
        # With the weights of the estimate at 0: a few slices with next to no rows do not raise it.
        least = 2 / float((1 / noise).sum()) if (noise > 0).all() else 0.0
        variance = max(spread, least)
        mean = _weighted_mean(values, noise + variance) if (noise + variance).any() else float(values.mean())
        if variance == 0:
            return cls(mean, 0.0, 1.0, 0.0, 0.0)
        distance = values - mean
        fourth = float((distance**4 - 6 * noise * distance**2 + 3 * noise**2).mean())
        floor = 1 + 32 * float((noise**4).sum()) / (variance**2 * count * max(float((noise**2).sum()), 1e-300))
        kurtosis = min(max(fourth / variance**2, floor, 1.0), _MOST_KURTOSIS)
        certain = max(variance - _null_standard_error(distance**2 / (noise + variance), noise), least)
        most = max(variance, most_variance(values, noise)) if for_intervals else variance
        return cls(mean, variance, kurtosis, most, certain)

    def share(self, noise: Array) -> Array:
        """The weight of an estimate itself, t / (t + v)."""
        return _share(self.weight_variance, noise)

    def shrunken(self, values: Array, noise: Array) -> Array:
        """Posterior means."""
        return np.asarray(self.mean + self.share(noise) * (values - self.mean))

    def standard_error(self, noise: Array) -> Array:
        """Compute root mean square errors of the posterior means; with infinite noise, of the mean.

        With the weights w of the estimates, w**2 v + (1 - w)**2 (t + var(mean)), and 2 v**2 / (t + v)**3 var(t) for the
        uncertainty of the variance, half of which the estimate of t reflects already [1]_; var(mean) = 1 / sum 1 / (t +
        v) and var(t) = 2 / sum (t + v)**-2.

        References
        ----------
        .. [1] Prasad & Rao, The estimation of the mean squared error of small-area estimators, 1990, (5.13).
        """
        weight, total = self.share(noise), self.variance + noise
        of_mean, of_variance = 1 / float((1 / total).sum()), 2 / float((total**-2.0).sum())
        with np.errstate(invalid="ignore"):
            own = np.where(np.isfinite(noise), weight**2 * noise + 2 * (noise / total) ** 2 / total * of_variance, 0.0)
        return np.sqrt(own + (1 - weight) ** 2 * (self.variance + of_mean))

    def ends(self, values: Array, noise: Array, level: float, normal: npt.NDArray[np.bool_]) -> tuple[Array, Array]:
        """The ends of intervals, which contain the posterior means.

        At least ``level`` of them hold their effects on average over the groups, for all distributions of effects with
        this variance and kurtosis. They lie around the posterior mean [1]_ or, where that is shorter and the noise
        nearly ``normal``, around the value itself: a few extreme effects, and so a large kurtosis, make the former
        wide. The choice depends on the noise alone. Weights between the two, of which one has the shortest interval,
        are not used: where the variance of the effects is estimated too small, they would cover too seldom.

        References
        ----------
        .. [1] Armstrong, Kolesár & Plagborg-Møller, Robust empirical Bayes confidence intervals, 2022.
        """
        middle = self.shrunken(values, noise)
        of_shrunken = self.reach(noise, level)
        of_values = scipy.special.ndtri(0.5 + level / 2) * np.sqrt(noise)
        is_own = normal & (of_values < of_shrunken)
        centre = np.where(is_own, values, middle)
        reach = np.where(is_own, of_values, of_shrunken)
        return np.minimum(centre - reach, middle), np.maximum(centre + reach, middle)

    def reach(self, noise: Array, level: float) -> Array:
        """Half the width of the intervals around the posterior means."""
        share = self.share(noise)
        with np.errstate(divide="ignore", invalid="ignore"):
            # The mean square of the bias (1 - w) (theta - mean), relative to the variance w**2 v of the noise.
            bias = np.where(noise > 0, ((1 - share) / share) ** 2 * self.most_variance / noise, 0.0)
        return critical_value(np.nan_to_num(bias), self.kurtosis, level) * share * np.sqrt(noise)

    def beyond(self, values: Array, noise: Array, limit: float) -> Array:
        """Posterior probability, for normal effects, that an effect is larger in size than a limit."""
        share = _share(self.variance, noise)
        deviation = np.sqrt(share * noise)
        centre = self.mean + share * (values - self.mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            below, above = (-limit - centre) / deviation, (centre - limit) / deviation
        return np.where(deviation > 0, scipy.special.ndtr(below) + scipy.special.ndtr(above), np.abs(centre) > limit)


def _share(variance: float, noise: Array) -> Array:
    """The weight of an estimate itself, variance / (variance + noise); 1 where both are 0."""
    total = variance + noise
    return np.divide(variance, total, out=np.ones_like(noise), where=total > 0)


@dataclass(frozen=True)
class GammaRatios:
    """Ratios of observed to expected events, a gamma distribution with this mean and variance.

    By the moments of Marshall: m = sum O / sum E, and the variance S - v, S = sum E (O / E - m)**2 / sum E and
    v = c m / mean E, at least 2 v / K for K groups, below which it cannot be told from 0. Events have ``dispersion`` c
    times the variance of a Poisson variable, below 1 where they are not rare: counts and expectations enter divided by
    c. ``most_variance`` is an approximate upper limit of the variance, which intervals allow for: the variance plus
    1.96 standard deviations of S by

        var(S) = sum (2 + 6 variance / m**2 + c / (m E)) (c m + E variance)**2 / (sum E)**2

    References
    ----------
    .. [1] Marshall, Mapping disease and mortality rates using empirical Bayes estimators, 1991.
    """

    mean: float
    variance: float
    most_variance: float
    dispersion: float = 1.0

    @classmethod
    def of(cls, observed: Array, expected: Array, dispersion: float = 1.0) -> "GammaRatios":
        """Of events in groups that expect some."""
        mean = float(observed.sum() / expected.sum())
        spread = float((expected * (observed / expected - mean) ** 2).sum() / expected.sum())
        # That of the mean group: groups that expect next to no events say nothing of the variance.
        noise = dispersion * mean / float(expected.mean())
        variance = max(spread - noise, 2 * noise / observed.size)
        poisson = 2 + 6 * variance / mean**2 + dispersion / np.maximum(mean * expected, 1e-300)
        errors = poisson * (dispersion * mean + expected * variance) ** 2
        most = spread - noise + _NORMAL * float(np.sqrt(errors.sum()) / expected.sum())
        return cls(mean, variance, max(variance, most), dispersion)

    def posterior(self, observed: Array, expected: Array, variance: float | None = None) -> tuple[Array, Array]:
        """Shape and rate of the gamma distributions of the ratios, given the events, with another variance if given."""
        spread = self.variance if variance is None else variance
        shape, rate = self.mean**2 / spread, self.mean / spread
        return observed / self.dispersion + shape, expected / self.dispersion + rate

    def shrunken(self, observed: Array, expected: Array) -> Array:
        """Posterior means."""
        shape, rate = self.posterior(observed, expected)
        return shape / rate

    def ends(self, observed: Array, expected: Array, level: float) -> tuple[Array, Array]:
        """Quantiles of the posterior distributions with the largest variance, around the posterior means."""
        shape, rate = self.posterior(observed, expected, self.most_variance)
        low, high = (scipy.special.gammaincinv(shape, share) / rate for share in ((1 - level) / 2, (1 + level) / 2))
        middle = self.shrunken(observed, expected)
        return np.minimum(low, middle), np.maximum(high, middle)

    def beyond(self, observed: Array, expected: Array, limit: float) -> Array:
        """Posterior probability of a ratio above the limit, or below one over it."""
        shape, rate = self.posterior(observed, expected)
        return np.asarray(scipy.special.gammaincc(shape, rate * limit) + scipy.special.gammainc(shape, rate / limit))


def paule_mandel(values: Array, noise: Array) -> float:
    """The variance of effects by Paule & Mandel, from 0 on.

    Examples
    --------
    >>> round(paule_mandel(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.1, 0.1])), 6)
    0.9
    """
    wanted = values.size - 1

    def excess(variance: float) -> float:
        total = noise + variance
        distance = values - _weighted_mean(values, total)
        return float((distance**2 / total).sum()) - wanted

    if wanted < 1 or ((noise > 0).all() and excess(0.0) <= 0):
        return 0.0
    return _crossing(excess, values, noise)


def _null_standard_error(squares: Array, noise: Array) -> float:
    """The standard error of the variance of effects where there are none, from squared standardized distances."""
    if (noise <= 0).any():
        return 0.0
    return float(np.sqrt(2 / (noise**-2.0).sum()) * max(1.0, squares.std() / np.sqrt(2)))


def most_variance(values: Array, noise: Array) -> float:
    """The upper limit of the variance of effects at 97.5 %.

    The variance t at which the mean of (y_k - mean)**2 / (v_k + t) is below 1 by 1.96 standard errors, those of the
    squares themselves, which are larger than for normal variables where events are rare.
    """

    def excess(variance: float) -> float:
        total = noise + variance
        squares = (values - _weighted_mean(values, total)) ** 2 / total
        return float(squares.mean() - (1 - _NORMAL * squares.std() / np.sqrt(values.size)))

    if (noise <= 0).any():
        return float(values.var())
    if excess(0.0) <= 0:
        return 0.0
    return _crossing(excess, values, noise)


def _crossing(excess: Callable[[float], float], values: Array, noise: Array) -> float:
    """The variance of effects at which a falling function is no longer above 0, by halving an interval."""
    low, high = 0.0, float(((values - values.mean()) ** 2).sum()) + float(noise.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def critical_value(bias: Array, kurtosis: float, level: float) -> Array:
    """Critical values for a normal variable with a random bias, by its mean square, relative to the noise.

    The smallest c with P(|Z + b| > c) <= 1 - level for all distributions of the bias b with this mean square and
    kurtosis: interpolated between tabulated values, which are above the exact ones by up to 2 %.

    Examples
    --------
    >>> critical_value(np.array([0.0, 1.0, 4.0]), 3.0, 0.95).round(1).tolist()
    [2.0, 2.8, 4.6]
    """
    biases, values = _table(float(kurtosis), float(level))
    given = np.asarray(bias)
    found = np.interp(np.log(np.maximum(given, _LEAST_BIAS)), np.log(biases), values)
    # Chebyshev's inequality beyond the table.
    wide = np.sqrt((1 + given) / (1 - level))
    normal = float(scipy.special.ndtri(0.5 + level / 2))
    return np.where(given <= 0, normal, np.where(given > _MOST_BIAS, wide, found))


@cache
def _table(kurtosis: float, level: float) -> tuple[Array, Array]:
    """Mean squares of the bias, and their critical values."""
    biases = np.geomspace(_LEAST_BIAS, _MOST_BIAS, _BIASES)
    normal = float(scipy.special.ndtri(0.5 + level / 2))
    candidates = np.geomspace(normal, np.sqrt((1 + _MOST_BIAS) / (1 - level)), _CANDIDATES)
    reached = np.stack([_most_missed(biases, kurtosis, float(value)) for value in candidates])
    enough = reached <= 1 - level
    first = np.where(enough.any(0), enough.argmax(0), _CANDIDATES - 1)
    return biases, np.maximum.accumulate(candidates[first])


def _most_missed(bias: Array, kurtosis: float, value: float) -> Array:
    """An upper bound of P(|Z + b| > value) over all biases with mean squares ``bias`` and this kurtosis.

    With r(t) the probability for b**2 = t, a parabola through its tangent at x that is nowhere below r has an
    expectation, known from two moments, that is not below that of r; the least over points of contact x.
    """
    contacts = np.r_[0.0, np.geomspace(1e-4, (value + 6) ** 2, _CONTACTS)][:, None]
    points = np.r_[0.0, np.geomspace(1e-4, (value + 9) ** 2, _POINTS)][None, :]
    height, slope = _missed(contacts, value), _slope(contacts, value)
    gap = points - contacts
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = (_missed(points, value) - height - slope * gap) / gap**2
    curvature = np.nanmax(np.where(np.abs(gap) > 1e-9, needed, 0.0), axis=1, initial=0.0)[:, None]
    # At the point of contact itself half the second derivative.
    step = np.maximum(1e-3, 1e-3 * contacts)
    local = (_slope(contacts + step, value) - slope) / (2 * step)
    curvature = np.maximum(curvature, local)
    distance = bias[None, :] - contacts
    expected = height + slope * distance + curvature * (distance**2 + (kurtosis - 1) * bias[None, :] ** 2)
    return np.asarray(np.minimum(expected.min(0), _by_mean(bias, value)).clip(0.0, 1.0))


def _by_mean(bias: Array, value: float) -> Array:
    """Bound from the mean square alone: the least concave function that is nowhere below r."""
    squares = np.r_[0.0, np.geomspace(1e-4, (value + 9) ** 2, 4 * _POINTS)]
    heights = _missed(squares, value)
    with np.errstate(divide="ignore", invalid="ignore"):
        chords = np.where(squares > 0, (heights - heights[0]) / squares, -np.inf)
    touch = int(chords.argmax())
    line = heights[0] + chords[touch] * bias
    return np.where(bias < squares[touch], line, np.maximum(_missed(bias, value), heights[touch]))


def _missed(square: Array, value: float) -> Array:
    """P(|Z + b| > value) for b**2 = square."""
    bias = np.sqrt(square)
    return np.asarray(scipy.special.ndtr(-value - bias) + scipy.special.ndtr(bias - value))


def _slope(square: Array, value: float) -> Array:
    """Its derivative in the square."""
    bias = np.sqrt(square)
    density = np.exp(-((value - bias) ** 2) / 2) - np.exp(-((value + bias) ** 2) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = density / (2 * bias * np.sqrt(2 * np.pi))
    return np.where(bias > 1e-6, slope, value * np.exp(-(value**2) / 2) / np.sqrt(2 * np.pi))


def _weighted_mean(values: Array, variance: Array) -> float:
    if (variance <= 0).any():
        return float(values.mean())
    return float((values / variance).sum() / (1 / variance).sum())
