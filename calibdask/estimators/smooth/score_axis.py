"""The axis on which pictures of scores are drawn: all scores, all but a tail of them, or the logits."""

from typing import Literal, NamedTuple, Self

import numpy as np
import scipy

from calibdask.estimators.smooth.score_cells import ScoreCells
from calibdask.statistics.exact import Array

AxisChoice = Literal["auto", "full", "quantile", "logit"]
AXIS_CHOICES = ("auto", "full", "quantile", "logit")
# Beyond an axis that is cut off may be this share of the rows, at each end.
TAIL = 0.005
# The bars of rows beneath a picture.
BARS = 60

# An axis is cut off where all but the tail of the scores are within this share of it.
_FILLED = 2 / 3
# It is on the logit scale where half of the scores are so near to 0 or 1, or in so small a part of the axis next to its
# ends, unless more than this share of the rows has scores that are too near to 0 or 1 for logits.
_RARE, _CORNER, _MANY = 0.02, 1 / 20, 0.5
_OUTERMOST, _MOST_SATURATED = 1e-6, 0.1
# The least range of logits that is worth a logit scale: the odds differ by a factor of 20.
_LEAST_LOGITS = 3.0


class ScoreAxis(NamedTuple):
    """An axis of scores: whether it is on the logit scale, its ends, and the rows beyond either end."""

    logit: bool = False
    left: float = 0.0
    right: float = 1.0
    below: float = 0.0
    above: float = 0.0

    @classmethod
    def chosen(cls, cells: ScoreCells, choice: AxisChoice = "auto") -> Self:
        """The axis for these scores.

        ``"full"``: from 0 to 1. ``"quantile"``: without the lowest and the highest 0.5 % of the rows. ``"logit"``: the
        same on the logit scale, at most from 1e-6 to 1 - 1e-6. ``"auto"``: full, but cut off at the far end where all
        but 0.5 % of the rows are in two thirds of it; the logit scale where half of the scores are within 0.02 of 0 or
        1, or within a twentieth of that axis of its ends.
        """
        shares = cells.cumulative
        left = float(cells.lower[np.searchsorted(shares, TAIL, side="right")])
        right = float(cells.upper[np.searchsorted(shares, 1 - TAIL)])
        if choice == "logit":
            return cls._on_logits(cells, left, right)
        if choice == "quantile":
            return cls._within(cells, left, right)
        if choice == "full":
            return cls()
        axis = cls()
        if right < _FILLED:
            axis = cls._within(cells, 0.0, right)
        elif left > 1 - _FILLED:
            axis = cls._within(cells, left, 1.0)
        corner = _CORNER * (axis.right - axis.left)
        inner = (cells.score > max(axis.left + corner, _RARE)) & (cells.score < min(axis.right - corner, 1 - _RARE))
        if cells.weight[inner].sum() > (1 - _MANY) * cells.weight.sum():
            return axis
        logits = cls._on_logits(cells, left, right)
        low, high = scipy.special.logit([logits.left, logits.right])
        saturated = (logits.below + logits.above) / cells.rows.sum()
        return logits if high - low >= _LEAST_LOGITS and saturated <= _MOST_SATURATED else axis

    @classmethod
    def _on_logits(cls, cells: ScoreCells, left: float, right: float) -> Self:
        left, right = max(left, _OUTERMOST), min(right, 1 - _OUTERMOST)
        if left >= right:
            left, right = _OUTERMOST, 1 - _OUTERMOST
        return cls._within(cells, left, right)._replace(logit=True)

    @classmethod
    def _within(cls, cells: ScoreCells, left: float, right: float) -> Self:
        below, above = (float(cells.rows[beyond].sum()) for beyond in (cells.score < left, cells.score > right))
        return cls(False, left, right, below, above)

    def places(self, scores: Array) -> Array:
        """Scores on the scale of the axis."""
        if not self.logit:
            return np.asarray(scores, np.float64)
        # Scores of 0 and 1 have infinite logits: they stand beyond any end.
        return np.asarray(scipy.special.logit(scores))

    def scores(self, places: Array) -> Array:
        """The scores at places on the axis."""
        return np.asarray(scipy.special.expit(places) if self.logit else np.clip(places, 0.0, 1.0))

    def spread(self, number: int) -> Array:
        """So many scores from end to end, evenly spaced on the scale of the axis."""
        ends = self.places(np.array([self.left, self.right]))
        scores = self.scores(np.linspace(ends[0], ends[1], number))
        scores[[0, -1]] = self.left, self.right
        return np.asarray(scores)

    def counted(self, cells: ScoreCells) -> Array:
        """Rows by bar: `BARS` even parts of the axis, each cell in that of its mean score."""
        borders = self.spread(BARS + 1)
        inside = (cells.score >= self.left) & (cells.score <= self.right)
        at = np.clip(np.searchsorted(borders, cells.score[inside]) - 1, 0, BARS - 1)
        return np.asarray(np.bincount(at, cells.rows[inside], BARS), np.float64)
