"""Ends of intervals that hold for many numbers at a time, by Bonferroni's inequality."""

import numpy as np
import numpy.typing as npt
import scipy

from calibdask.estimators.binned.betting_ends import Strata, smallest_error
from calibdask.statistics.exact import Array


def stretched(value: Array, end: Array, level: float, numbers: int) -> Array:
    """An end at a level, moved away from the value as ends of a normal interval for so many numbers at a time.

    Approximate: replicates do not reach as far, and those of few rows are no guide.

    Examples
    --------
    >>> stretched(np.array([0.05]), np.array([0.03]), 0.95, 100).round(4).tolist()
    [0.0145]
    """
    z, wide = scipy.special.ndtri([(1 + level) / 2, 1 - (1 - level) / 2 / max(1, numbers)])
    return np.asarray(value + wide / z * (end - value))


def certain_error(
    value: Array | None, score: Array, outcome: Array, rows: Array, alpha: float, bins: npt.ArrayLike = 1
) -> Array:
    """Lower confidence bound of an absolute mean gap with probability 1 - alpha, valid for any rows and events.

    The larger of two ends, each at alpha / 2. No mean gap is below the absolute gap of the mean score and the frequency
    of the outcome: its end is that of `smallest_error`. And ``value``, the error of so many bins, exceeds the true one
    by more than

        sqrt(b v / n) + sqrt(2 t (v + 2 sqrt(b v / n)) / n) + t / (3 n),    t = log(2 / alpha)

    with the probability alpha / 2 at most [1]_, for n rows in b = min(bins, n) bins whose outcomes have the variance v,
    for which the larger of m (1 - m), m the mean score and the frequency, stands: it is more.

    Parameters
    ----------
    value : array or None
        The error in bins; None: the first end alone.
    score, outcome, rows, bins
        Mean score and frequency of the outcome, numbers of rows and of bins.
    alpha : float

    References
    ----------
    .. [1] Bousquet, A Bennett concentration inequality and its application to suprema of empirical processes, 2002.

    Examples
    --------
    >>> some = [np.array([number]) for number in (0.3, 0.5, 0.5, 10000.0)]
    >>> certain_error(*some, 0.00025, bins=15).round(2).tolist()
    [0.26]
    """
    strata = Strata(np.ones((*rows.shape, 1)), outcome[..., None], score[..., None], rows)
    low = smallest_error(strata, alpha, by_bin=False)
    if value is None:
        return low
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.maximum(score * (1 - score), outcome * (1 - outcome))
        mean = np.sqrt(np.minimum(bins, rows) * variance / rows)
        exponent = np.log(2 / alpha) / rows
        noise = mean + np.sqrt(2 * exponent * (variance + 2 * mean)) + exponent / 3
    return np.asarray(np.fmax(low, value - noise))
