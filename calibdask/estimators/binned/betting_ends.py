"""Ends of intervals of binned errors that hold with few rows and few events.

Notation: n rows, o outcome, s score, w share of a bin. For signs sigma of bins, X = sigma (o - s) lies in [-1, 1], and
the error sum_j w_j |E (o - s | j)| is the largest E X over all signs. A bet of the stake a on E X < mu multiplies its
capital by (1 - a X) / (1 - a mu) for each row, which has the expectation 1 or less if E X >= mu: large capital excludes
mu. Solved for mu, capital of exp(c) excludes all above

    (1 - exp(mean log(1 - a X) - c / n)) / a

Chernoff's bound allows c = log(1 / alpha), which is exact without events. With v = sum of the variances of outcomes,
c = m - v - v log(m / v), where m is the exact upper end of a Poisson mean after v events: log(1 / alpha) for v = 0,
as the normal approximation for large v, and in between as Clopper & Pearson's ends have it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from calibdask.statistics.exact import Array

# In steps of a tenth, which leaves ends within a thousandth of their distance from the estimate. The best stake is
# about sqrt(2 c / (n v)): the smallest suffices for 10**12 rows.
_STAKES = np.append(np.exp(np.arange(np.log(1e-6), 0.0, 0.1)), 0.9999)


class Strata(NamedTuple):
    """Bins (..., bins): their share of the rows, frequency and mean score; and the effective number of rows (...)."""

    share: Array
    outcome: Array
    score: Array
    rows: Array

    @property
    def variance(self) -> Array:
        """Mean variance of the outcomes by their frequencies."""
        return (self.share * self.outcome * (1 - self.outcome)).sum(-1)


def poisson_end(events: npt.ArrayLike, alpha: float) -> Array:
    """Exact upper confidence limit of a Poisson mean for this number of events, which may be fractional.

    Examples
    --------
    >>> poisson_end([0, 1], 0.025).round(3).tolist()
    [3.689, 5.572]
    """
    return np.asarray(scipy.special.gammainccinv(np.asarray(events, np.float64) + 1, alpha))


def largest_error(strata: Strata, alpha: float, *, by_bin: bool = True) -> Array:
    """The upper end at the one-sided level 1 - alpha, NaN without rows.

    Every choice of signs has to exclude an error for it to be excluded. Whichever signs are the true ones, that happens
    with probability alpha at most: so many signs cost nothing. Otherwise than ``by_bin`` all bins have one sign, and
    the error is the absolute mean gap.

    Examples
    --------
    Of 30 rows of score 0 without an event, 0.116 is the end of Clopper & Pearson.

    >>> share, zero = np.ones((1, 1)), np.zeros((1, 1))
    >>> largest_error(Strata(share, zero, zero, np.array([30.0])), 0.025).round(3).tolist()
    [0.116]
    """
    required = _required(strata, alpha)

    def end(stake: float) -> Array:
        above, below = _log_factors(strata, -stake), _log_factors(strata, stake)
        worst = np.minimum(above, below).sum(-1) if by_bin else np.minimum(above.sum(-1), below.sum(-1))
        return np.asarray(-np.expm1(worst - required) / stake)

    return _best(end, np.fmin, strata, 1.0)


def smallest_error(strata: Strata, alpha: float, *, by_bin: bool = True) -> Array:
    """The lower end at the one-sided level 1 - alpha, at least 0, NaN without rows.

    The larger of two, each at alpha / 2. That of one sign for all bins. And, ``by_bin``, that of the mean capital of
    bets on all choices of signs, which noise of many bins does not raise as it raises the estimate.

    Examples
    --------
    >>> half = np.full((1, 1), 0.5)
    >>> smallest_error(Strata(np.ones((1, 1)), half, np.full((1, 1), 0.1), np.array([100.0])), 0.025).round(2).tolist()
    [0.28]
    """
    required = _required(strata, alpha / 2)
    with np.errstate(divide="ignore"):
        mixed_required = np.log(2 / alpha) / strata.rows

    def end(stake: float) -> Array:
        above, below = _log_factors(strata, stake), _log_factors(strata, -stake)
        one_sign = np.maximum(above.sum(-1), below.sum(-1)) - required
        if not by_bin:
            return np.asarray(np.expm1(one_sign) / stake)
        rows = strata.rows[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            mixed = (np.logaddexp(rows * above, rows * below) - np.log(2.0)).sum(-1) / strata.rows - mixed_required
        return np.asarray(np.expm1(np.fmax(one_sign, mixed)) / stake)

    return _best(end, np.fmax, strata, 0.0)


def _required(strata: Strata, alpha: float) -> Array:
    """The constant c of each error, divided by the number of rows."""
    events = strata.rows * strata.variance
    mean = poisson_end(events, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((mean - events - scipy.special.xlogy(events, mean / events)) / strata.rows)


def _log_factors(strata: Strata, stake: float) -> Array:
    """The mean of log(1 + stake (o - s)) in each bin, times its share."""
    share, outcome, score, _ = strata
    return share * (outcome * np.log1p(stake * (1 - score)) + (1 - outcome) * np.log1p(-stake * score))


def _best(end: Callable[[float], Array], better: np.ufunc, strata: Strata, start: float) -> Array:
    """The best end over all stakes, from 0 to 1."""
    best = np.full(strata.rows.shape, start)
    for stake in _STAKES.tolist():
        best = better(best, end(stake))
    return np.where(strata.rows > 0, best.clip(0.0, 1.0), np.nan)
