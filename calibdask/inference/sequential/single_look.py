"""A single look at dependent rows: an interval and a p-value of the rate of outcomes from exponents.

The exponents w of the rows of each cluster add up to 1 or less, and clusters are independent. By Hoelder's inequality

    E exp(t sum w o) <= product over rows of E exp(t o)**w,

as if rows were independent: Chernoff's bounds hold with sums of exponents in place of numbers of rows. These are
Hoeffding's bound n KL(observed rate, mean probability), n = sum w, and Bennett's with the variance V = sum w p (1 - p).
"""

import numpy as np
import scipy

from calibdask.statistics.exact import Array

_STEPS = 60


def rate_ends(rate: Array, count: Array, alpha: float) -> tuple[Array, Array]:
    """Ends of the mean probability, those whose relative entropy to the rate is log(2 / alpha) / count.

    NaN without rows. Chernoff's bound: valid for any probabilities and weights of which a cluster has at most 1.

    Examples
    --------
    >>> [end.round(3).tolist() for end in rate_ends(np.array([0.0, 0.5]), np.array([100.0, 100.0]), 0.05)]
    [[0.0, 0.367], [0.036, 0.633]]
    """
    # A rate of weighted sums may exceed 1 by rounding.
    rate = np.clip(rate, 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.log(2 / alpha) / count
        ends = []
        for bound in (0.0, 1.0):
            inside, outside = rate, np.full_like(rate, bound)
            for _ in range(_STEPS):
                middle = (inside + outside) / 2
                fits = _entropy(rate, middle) <= most
                inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
            # The excluded side; all probabilities that are not excluded lie within.
            ends.append(np.where(count > 0, outside, np.nan))
    return ends[0], ends[1]


def rate_tail(excess: Array, count: Array, mean: Array, variance: Array) -> Array:
    """A bound of P(sum w o - sum w p >= excess), for the mean probability and V = sum w p (1 - p); 1 without an excess.

    Examples
    --------
    >>> rate_tail(np.array([0.0, 10.0]), np.array([100.0]), np.array([0.5]), np.array([25.0])).round(2).tolist()
    [1.0, 0.13]
    """
    more = np.maximum(excess, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        hoeffding = count * _entropy(np.minimum(mean + more / count, 1.0), mean)
        ratio = more / variance
        bennett = variance * ((1 + ratio) * np.log1p(ratio) - ratio)
        bennett = np.where(variance > 0, bennett, np.where(more > 0, np.inf, 0.0))
    return np.where(more > 0, np.exp(-np.fmax(hoeffding, bennett)), 1.0)


def _entropy(rate: Array, mean: Array) -> Array:
    """Relative entropy of outcomes with these probabilities; infinite where the mean excludes the rate."""
    return np.asarray(scipy.special.rel_entr(rate, mean) + scipy.special.rel_entr(1 - rate, 1 - mean))
