"""The rows of one column by score, to which curves of the score are fitted."""

from dataclasses import dataclass

import numpy as np

from calibdask.estimators.ordered.score_points import Points
from calibdask.estimators.sampling_variance import rarer_rows
from calibdask.statistics.exact import Array

# Up to so many rows, times columns, the points of a fit are the distinct scores; beyond that cells of a fine grid.
MOST_ROWS = 1 << 22


@dataclass(frozen=True)
class ColumnPoints:
    """The rows of one column by score: distinct scores in increasing order, or cells of a fine grid at their mean.

    ``weight`` and ``outcome`` are sums of w and of w * o at each score; both outcomes occur. ``clip`` is the smallest
    normal number of the type of the scores, at which logarithms are clipped.
    ``square`` and ``square_outcome`` are sums of w**2 and of w**2 * o.
    ``information`` is what a unit of weight is worth in rows: 1 without weights, else sum(w) / sum(w**2).
    ``outermost`` is the width of the first and the last cell, 0 of distinct scores.
    """

    score: Array
    weight: Array
    outcome: Array
    clip: float
    square: Array
    square_outcome: Array
    information: float = 1.0
    outermost: float = 0.0

    @property
    def has_equal_weights(self) -> bool:
        """Whether all rows have equal weights, up to rounding, or no weights."""
        return bool(np.allclose(self.square * self.information, self.weight, rtol=1e-9, atol=0.0))

    @property
    def rarer(self) -> float:
        """Rows of the rarer outcome; with weights as many as carry their information, see `rarer_rows`."""
        sums = (self.weight, self.square, self.outcome, self.square_outcome)
        return float(rarer_rows(*(values.sum() for values in sums)))

    @property
    def clipped(self) -> float:
        """Weight of the rows whose score is so near to 0 or 1 that its logit is clipped."""
        return float(self.weight[(self.score < self.clip) | (1 - self.score < self.clip)].sum())

    @property
    def merged(self) -> float:
        """Rows (effective, with weights) in the outermost cells, where the logit of a mean is not the mean logit."""
        distance = np.minimum(self.score, 1 - self.score)
        return float(self.weight[(distance > 0) & (distance < self.outermost)].sum() * self.information)


class Undetermined(ValueError):
    """Raised if the rows of a column do not determine its map; the message has expectation and finding."""


def column_points(points: Points, at: slice, clip: float) -> ColumnPoints:
    """The points of one stratum."""
    sums = (points.score, points.weight, points.outcome, points.square, points.square_outcome)
    score, weight, outcome, square, square_outcome = (values[at] for values in sums)
    information = float(weight.sum() / square.sum())
    return ColumnPoints(score, weight, outcome, clip, square, square_outcome, information, points.outermost)
