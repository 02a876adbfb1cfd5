"""Local linear regression of the outcome on the score, in windows that hold equal numbers of rows."""

from typing import NamedTuple, Self

import numpy as np

from calibdask.estimators.smooth.local_fit import LocalFit
from calibdask.estimators.smooth.score_axis import ScoreAxis
from calibdask.estimators.smooth.score_cells import ScoreCells
from calibdask.statistics.exact import Array

# Where the curve is fitted so many rows, by their effective number, are in the window; on the logit scale, where the
# number of events and of non-events counts, so many of either are expected.
NEAR, EXPECTED = 20, 5
# The rows in a window, of n rows _NEAREST * n**(4/5), and how far it reaches at most, as a share of the axis.
_NEAREST, _FARTHEST = 1.6, 0.15
_FARTHEST_LOGIT = 0.2
# Windows of fewer rows than this, which would oscillate, reach up to twice as far.
_CALM = 100
# Slopes of the distance from the diagonal are shrunk as if so many rows at the distance of a whole window were without.
_SHRINKAGE = 10.0
_HALVINGS = 40


class NearestFit(NamedTuple):
    """Fitted frequencies at each score, 0 to 1; NaN where too few rows are near, or all on one side.

    ``rows`` and ``error`` are those of `LocalFit`; ``density`` is that of the scores in the window.
    """

    value: Array
    rows: Array
    error: Array
    density: Array

    @classmethod
    def of(cls, cells: ScoreCells, axis: ScoreAxis, score: Array) -> Self:
        """Fit at these scores, in windows on the scale of the axis.

        Of the residuals o - s a line is fitted with tricube weights: a calibrated model has the diagonal as expectation
        at any width of the window.
        """
        t, at = axis.places(cells.score), axis.places(score)
        mass = cells.effective
        # On the logit scale a row tells as much as its outcome varies; one half of them would vary by 1/4.
        information = 4 * mass * cells.score * (1 - cells.score) if axis.logit else mass
        farthest = (_FARTHEST_LOGIT if axis.logit else _FARTHEST) * float(at[-1] - at[0])
        reach = _windows(t, information, at, farthest)
        distance, edge = np.abs(t - at[:, None]), 0.5 * (at[1] - at[0])
        inside = distance <= reach[:, None]
        # A curve does not go on where all rows are on one side.
        between = (inside & (t <= at[:, None] + edge)).any(-1) & (inside & (t >= at[:, None] - edge)).any(-1)
        close = inside & (distance <= farthest)
        near = inside @ mass
        is_known = between & (close @ mass >= NEAR)
        if axis.logit:
            is_known &= np.minimum(close @ (mass * cells.score), close @ (mass * (1 - cells.score))) >= EXPECTED
        # A little wider, so that the rows at the ends of a window count too.
        kernel = (1 - np.where(inside, distance / (1.01 * reach[:, None]), 1.0) ** 3) ** 3
        away = cells.score - score[:, None]
        weight = kernel * mass
        s0, s1, s2 = weight.sum(-1), (weight * away).sum(-1), (weight * away**2).sum(-1)
        width = axis.scores(at + reach) - axis.scores(at - reach)
        s2 += _SHRINKAGE * (width / 2) ** 2
        determinant = s0 * s2 - s1**2
        filled = determinant > 0
        line = kernel * (s2[:, None] - s1[:, None] * away) / np.where(filled, determinant, 1.0)[:, None]
        frequency = cells.positive / cells.weight
        value = np.clip(score + (line * mass) @ (frequency - cells.score), 0.0, 1.0)
        # Rows of a cell share its effective number by their weights.
        square = mass**2 * cells.square / cells.weight**2
        pilot = np.interp(t, at, value)
        rows = 1 / np.maximum(line**2 @ square, 1e-300)
        error = np.sqrt(line**2 @ (square * pilot * (1 - pilot)))
        density = near / (mass.sum() * np.maximum(width, 1e-300))
        return cls(np.where(is_known, value, np.nan), np.where(filled, np.minimum(rows, near), 0.0), error, density)

    def interval(self, level: float) -> tuple[Array, Array]:
        """Pointwise ends, see `LocalFit.interval`."""
        fit = LocalFit(self.value[None], self.rows[None], self.error[None])
        low, high = fit.interval(level, np.ones(1))
        is_known = np.isfinite(self.value)
        return np.where(is_known, low[0], np.nan), np.where(is_known, high[0], np.nan)


def _windows(t: Array, mass: Array, at: Array, farthest: float) -> Array:
    """Half-width of the window around each place: to the nearest rows, limited unless there are few."""
    total = mass.sum()
    wanted = min(_NEAREST * total**0.8, total)
    before = np.r_[0.0, np.cumsum(mass)]
    low, high = np.zeros(at.size), np.full(at.size, 2 * farthest)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        held = before[np.searchsorted(t, at + middle, side="right")] - before[np.searchsorted(t, at - middle)]
        is_enough = (held >= wanted) | ((middle >= farthest) & (held >= _CALM))
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return high
