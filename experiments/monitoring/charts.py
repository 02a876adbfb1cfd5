"""What else is used to watch a model: daily tests, cumulative sums, a moving ECE, the population stability index.

Each takes rows and outcomes by day and score, (..., days, scores), and returns the days with a signal, (..., days).
"""

from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import special

from experiments.monitoring.kinds import SCORES, Floats

Signals = npt.NDArray[np.bool_]

# Cumulative sums are tuned to shifts of one standard error of a day.
_ALLOWANCE = 0.5
_STATES = 300
_BINS = 10
# As usual, shares of empty bins are those of one row in ten thousand.
_LEAST = 1e-4


def standardised(rows: Floats, events: Floats, weight: Floats | float = 1.0) -> Floats:
    """Sum of weighted o - s of each day in standard errors of a calibrated model; 0 without any."""
    residual = (weight * (events - rows * SCORES)).sum(-1)
    variance = (weight**2 * rows * SCORES * (1 - SCORES)).sum(-1)
    return np.divide(residual, np.sqrt(variance), out=np.zeros_like(residual), where=variance > 0)


def brier_residuals(rows: Floats, events: Floats) -> Floats:
    """(o - s)^2 - s (1 - s) = (1 - 2 s) (o - s): the Brier score in excess of what scores promise, standardised."""
    return standardised(rows, events, 1 - 2 * SCORES)


def daily(z: Floats, alpha: float) -> Signals:
    """Two-sided tests of single days."""
    return np.asarray(np.abs(z) >= special.ndtri(1 - alpha / 2))


def cusum(z: Floats, limit: float) -> Signals:
    """Two-sided cumulative sums, which begin anew after each signal."""
    above, below = np.zeros(z.shape[:-1]), np.zeros(z.shape[:-1])
    signals = np.zeros(z.shape, np.bool_)
    for day in range(z.shape[-1]):
        above = np.maximum(above + z[..., day] - _ALLOWANCE, 0)
        below = np.maximum(below - z[..., day] - _ALLOWANCE, 0)
        signals[..., day] = np.maximum(above, below) > limit
        above, below = (np.where(signals[..., day], 0.0, side) for side in (above, below))
    return signals


@cache
def cusum_limit(looks: int, alpha: float) -> float:
    """The limit that normal residuals exceed within so many looks with the probability alpha.

    Each side has alpha / 2, by the Markov chain of Brook & Evans, An approach to the probability distribution of CUSUM
    run length, 1972.
    """
    low, high = 0.0, 30.0
    while high - low > 1e-4:
        limit = (low + high) / 2
        low, high = (limit, high) if _exceeds(limit, looks) > alpha / 2 else (low, limit)
    return high


def _exceeds(limit: float, looks: int) -> float:
    """How likely the sum of one side ever exceeds the limit."""
    width = 2 * limit / (2 * _STATES - 1)
    centres = width * np.arange(_STATES)
    upper = special.ndtr(centres + width / 2 - centres[:, None] + _ALLOWANCE)
    moves = np.diff(upper, axis=1, prepend=0.0)
    within = np.eye(_STATES)[0]
    for _ in range(looks):
        within = within @ moves
    return float(1 - within.sum())


def moving_ece(rows: Floats, events: Floats, window: int) -> Floats:
    """ECE with ten equal bins of the last days, (..., days); NaN before there are as many."""
    count, residual = (_moving(_binned(values), window) for values in (rows, events - rows * SCORES))
    return np.asarray(np.abs(residual).sum(-1) / count.sum(-1))


def _binned(values: Floats) -> Floats:
    in_bin = np.ceil(SCORES * _BINS) - 1 == np.arange(_BINS)[:, None]
    return values @ in_bin.T


def _moving(values: Floats, window: int) -> Floats:
    sums = np.full(values.shape, np.nan)
    total = values.cumsum(-2)
    sums[..., window - 1 :, :] = total[..., window - 1 :, :]
    sums[..., window:, :] -= total[..., :-window, :]
    return sums


def above_history(values: Floats, history: int, level: float) -> Signals:
    """Whether later values exceed this quantile of the first ones; of later days, (..., days - history)."""
    limit = np.nanquantile(values[..., :history], level, axis=-1, keepdims=True)
    return np.asarray(values[..., history:] > limit)


def stability_index(rows: Floats, history: int) -> Floats:
    """PSI of each later day: sum of (p - q) log(p / q) over tenths of the scores of the first days."""
    reference = rows[..., :history, :].sum(-2, keepdims=True)
    share = reference / reference.sum(-1, keepdims=True)
    tenth = np.clip(((share.cumsum(-1) - share / 2) * _BINS).astype(int), 0, _BINS - 1)

    def shares(values: Floats) -> Floats:
        sums = np.stack([(values * (tenth == number)).sum(-1) for number in range(_BINS)], -1)
        return np.maximum(sums / sums.sum(-1, keepdims=True), _LEAST)

    before, after = shares(reference), shares(rows[..., history:, :])
    return np.asarray(((after - before) * np.log(after / before)).sum(-1))
