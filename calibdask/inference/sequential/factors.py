"""Factors of e-processes of calibration: how much a bet on tilted odds gains on the cells of a period.

Null hypothesis with the tolerance tau: |P(o = 1 | past, s) - s| <= tau. A bet with the tilt delta multiplies its
capital by e**(delta o) / (1 + kappa s') for each row, kappa = e**delta - 1, where s' = min(1, s + tau) for delta > 0
and max(0, s - tau) for delta < 0: its expectation is 1 or less under the null. As -log(1 + kappa s) is convex in s,

    log e = sum over cells of (delta Y - N log(1 + kappa s'))

with N rows, Y outcomes and s' of the mean score of the cell is at most the logarithm of the product over rows.
"""

import numpy as np

from calibdask.inference.sequential.cells import PeriodCells
from calibdask.statistics.exact import Array

# The fixed tilts of the log-odds. A bet on more than twice the true tilt loses, and within a period nothing is learnt:
# with the smallest, small shifts of many rows are caught at once, also where scores are close to one half.
TILTS = np.array([0.02, 0.05, 0.1, 0.25, 0.5, 1.0])
TILTS = np.r_[-TILTS[::-1], TILTS]
# Beyond these log-odds scores of a group are not distinguished.
_MOST_ODDS = 30.0
_MOST_TILT = 3.0
# Precision of the prior of the common level and slope of the offsets, and of those of single groups.
_COMMON, _SINGLE = 4.0, 16.0


def fixed_factors(cells: PeriodCells, tolerance: float) -> Array:
    """The logarithms of the factors of a period for each of the fixed tilts, (processes, tilts)."""
    events = cells.by_process(cells.events)
    low, high = null_scores(cells, tolerance)
    factors = np.empty((cells.processes, TILTS.size))
    for number, tilt in enumerate(TILTS.tolist()):
        null = high if tilt > 0 else low
        factors[:, number] = tilt * events - cells.by_process(cells.rows * np.log1p(np.expm1(tilt) * null))
    return factors


def plug_in_factors(cells: PeriodCells, tilts: Array, tolerance: float) -> Array:
    """The logarithm of the factor of a period for tilts by process and group, (processes,)."""
    tilt = tilts[cells.process, cells.group]
    low, high = null_scores(cells, tolerance)
    null = np.where(tilt > 0, high, low)
    return cells.by_process(tilt * cells.events - cells.rows * np.log1p(np.expm1(tilt) * null))


def null_scores(cells: PeriodCells, tolerance: float) -> tuple[Array, Array]:
    """The probabilities that the null allows at least and at most."""
    reach = tolerance + cells.slack
    return np.maximum(cells.mean - reach, 0.0), np.minimum(cells.mean + reach, 1.0)


def learnt_tilts(count: Array, events: Array, scores: Array, tolerance: float) -> Array:
    """Tilts of each group of scores, from the rows, outcomes and sums of scores of all earlier periods.

    Parameters
    ----------
    count, events, scores : array of shape (processes, groups)
    tolerance : float

    Returns
    -------
    array of shape (processes, groups)
        Zero where nothing has been learnt.

    Notes
    -----
    The offset of the log-odds of a group with mean score s is estimated with one unit of prior information,
    d = log((1 + (1 - s) Y) / (1 + s (N - Y))). Offsets are divided into their weighted mean, their slope along the
    log-odds, and what remains for single groups; each of the three is shrunk by a prior and by the positive part of
    James and Stein's factor, 1 - degrees of freedom / chi-square: without evidence there is no bet, and no cost.
    With a tolerance the tilt leads from the nearer end of what the null allows to the estimate.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count > 0, scores / count, 0.5)
        odds = np.clip(np.log(mean) - np.log1p(-mean), -_MOST_ODDS, _MOST_ODDS)
    mean = 1 / (1 + np.exp(-odds))
    offset = np.log1p((1 - mean) * events) - np.log1p(mean * (count - events))
    # Outcomes of either kind, with those of the prior.
    ones, zeros = events + 1 / (1 - mean), count - events + 1 / mean
    weight = count * (ones / (ones + zeros)) * (zeros / (ones + zeros))
    total = weight.sum(-1, keepdims=True)
    level = _over((weight * offset).sum(-1, keepdims=True), total)
    centred = odds - _over((weight * odds).sum(-1, keepdims=True), total)
    spread = (weight * centred**2).sum(-1, keepdims=True)
    slope = _over((weight * centred * offset).sum(-1, keepdims=True), spread)
    rest = np.where(count > 0, offset - level - slope * centred, 0.0)
    freedom = np.maximum((count > 0).sum(-1, keepdims=True) - 2, 1)
    offset = level * _kept(total * level**2, 1) * total / (total + _COMMON)
    offset = offset + slope * _kept(spread * slope**2, 1) * spread / (spread + _COMMON) * centred
    offset = offset + rest * _kept((weight * rest**2).sum(-1, keepdims=True), freedom) * weight / (weight + _SINGLE)
    return _beyond(mean, np.where(count > 0, offset, 0.0).clip(-_MOST_TILT, _MOST_TILT), tolerance)


def _beyond(mean: Array, offset: Array, tolerance: float) -> Array:
    """The tilts from the nearer end of the tolerance to where offsets of the log-odds lead; 0 within it."""
    if tolerance == 0:
        return offset
    with np.errstate(divide="ignore"):
        odds = np.log(mean) - np.log1p(-mean)
        most, least = np.minimum(mean + tolerance, 1.0), np.maximum(mean - tolerance, 0.0)
        above = odds + offset - (np.log(most) - np.log1p(-most))
        below = odds + offset - (np.log(least) - np.log1p(-least))
    return np.maximum(above, 0.0) + np.minimum(below, 0.0)


def _over(sums: Array, total: Array) -> Array:
    return np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)


def _kept(square: Array, freedom: Array | int) -> Array:
    """The positive part of James and Stein's factor."""
    return 1 - np.minimum(freedom / np.maximum(square, np.finfo(np.float64).tiny), 1.0)
