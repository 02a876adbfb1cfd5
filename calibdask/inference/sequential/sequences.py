"""Confidence sequences of mean offsets and calibration errors: intervals that hold at all periods together.

For X = o - s of a row with the mean d given the past, and 0 < a < 1, exp(a X - psi(a) X**2) <= 1 + a X with
psi(a) = -log(1 - a) - a (Fan, Grama & Liu 2015). So exp(a sum (X - d) - psi(a) sum X**2) is an e-process, whatever
offsets d do over time and over scores; so is its mean over several a, which is inverted here (Howard, Ramdas, McAuliffe
& Sekhon, Time-uniform, nonparametric, nonasymptotic confidence sequences, 2021). Ends are those of the mean of d over
all rows so far.
"""

from collections.abc import Callable

import numpy as np

from calibdask.statistics.exact import Array

# The best rate is about sqrt(2 log(2 / alpha) / sum of X**2): the smallest suffices for 10**11 rows.
_RATES = np.append(np.exp(np.arange(np.log(1e-5), 0.0, 0.35)), 0.95)
_COST = -np.log1p(-_RATES) - _RATES
# More steps of Newton's method than ends need, and how close they come, relative to their size.
_STEPS, _CLOSE = 100, 1e-12

# Logarithms of the capital of each rate at a deviation, and their derivatives, both (..., rates).
Capital = Callable[[Array], tuple[Array, Array]]


def gap_ends(count: Array, residual: Array, square: Array, alpha: float) -> tuple[Array, Array]:
    """The ends of the mean offset after ``count`` rows with these sums of o - s and of its square; NaN without rows.

    Examples
    --------
    >>> low, high = gap_ends(np.array([10000.0]), np.array([100.0]), np.array([1600.0]), 0.05)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([-0.005], [0.025])
    """
    cost = _COST * square[..., None]

    def capital(deviation: Array) -> tuple[Array, Array]:
        return _RATES * deviation[..., None] - cost, np.broadcast_to(_RATES, cost.shape)

    start = ((_required(alpha) + cost) / _RATES).min(-1)
    reach = _deviation(capital, start, alpha)
    low, high = _over(residual - reach, count), _over(residual + reach, count)
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


def error_ends(count: Array, residual: Array, square: Array, alpha: float) -> tuple[Array, Array]:
    """The ends of the calibration error over groups, sum over g of n_g |d_g| / n; NaN without rows.

    Parameters
    ----------
    count, residual : array of shape (..., groups)
        Rows, and sums of o - s.
    square : array of shape (...)
        Sum of (o - s)**2 over all groups.
    alpha : float

    Notes
    -----
    The mean of the e-processes of all choices of signs of the groups is a product of hyperbolic cosines. At the lower
    end it excludes all smaller errors; at the upper end all offsets further from the estimates in sum.

    Examples
    --------
    >>> count, residual = np.array([[5000.0, 5000.0]]), np.array([[500.0, -500.0]])
    >>> low, high = error_ends(count, residual, np.array([1600.0]), 0.05)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.084], [0.116])
    """
    rows, cost = count.sum(-1), _COST * square[..., None]
    size = np.abs(residual)
    signs = sum(_log_cosh(_RATES * of_group[..., None]) for of_group in np.moveaxis(size, -1, 0))
    groups = np.maximum((count > 0).sum(-1), 1)[..., None]

    def below(least: Array) -> tuple[Array, Array]:
        return signs - cost - _RATES * least[..., None], -np.broadcast_to(_RATES, cost.shape)

    def above(most: Array) -> tuple[Array, Array]:
        # Of all deviations with this sum, equal ones have the least capital.
        of_group = _RATES * most[..., None] / groups
        return groups * _log_cosh(of_group) - cost, _RATES * np.tanh(of_group)

    low = _deviation(below, np.zeros(rows.shape), alpha)
    start = ((_required(alpha) + cost + groups * np.log(2.0)) / _RATES).min(-1)
    high = size.sum(-1) + _deviation(above, start, alpha)
    return _over(low, rows), np.minimum(_over(high, rows), 1.0)


def _required(alpha: float) -> float:
    """The logarithm of the capital of one rate that excludes a deviation at alpha / 2."""
    return float(np.log(2 / alpha * _RATES.size))


def _deviation(capital: Capital, start: Array, alpha: float) -> Array:
    """Where the convex capital falls to what does not exclude any more, 0 or more; from ``start``, which it excludes.

    Newton's method comes to it from the excluded side, which keeps ends valid wherever it stops.
    """
    deviation, going = start, np.full(start.shape, True)
    for _ in range(_STEPS):
        values, slopes = capital(deviation)
        most = values.max(-1, keepdims=True)
        shares = np.exp(values - most)
        total = shares.sum(-1)
        excess = most[..., 0] + np.log(total) - _required(alpha)
        step = excess * total / (shares * slopes).sum(-1)
        moved = np.where(going, np.maximum(deviation - step, 0.0), deviation)
        # Each stops by itself: no end depends on what else is computed.
        going = np.abs(moved - deviation) > _CLOSE * (1 + moved)
        deviation = moved
        if not going.any():
            break
    return deviation


def _log_cosh(x: Array) -> Array:
    return np.asarray(x + np.log1p(np.exp(-2 * x)) - np.log(2.0))


def _over(sums: Array, count: Array) -> Array:
    return np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)
