"""The rows of one column by score, to which curves of the score are fitted."""

from dataclasses import dataclass

import numpy as np

from calibdask.estimators.ordered.score_points import Points
from calibdask.statistics.exact import Array

# Up to so many rows, times columns, the points of a fit are the distinct scores; beyond that cells of a fine grid.
MOST_ROWS = 1 << 22


@dataclass(frozen=True)
class ColumnPoints:
    """The rows of one column by score: distinct scores in increasing order, or cells of a fine grid at their mean.

    ``weight`` and ``outcome`` are sums of w and of w * o at each score; both outcomes occur. ``clip`` is the smallest
    normal number of the type of the scores, at which logarithms are clipped.
    ``information`` is what a unit of weight is worth in rows: 1 without weights, else sum(w) / sum(w**2).
    ``outermost`` is the width of the first and the last cell, 0 of distinct scores.
    """

    score: Array
    weight: Array
    outcome: Array
    clip: float
    information: float = 1.0
    outermost: float = 0.0

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
    """Rows of a column that do not determine its map; says what was expected and what came."""


def column_points(points: Points, at: slice, clip: float) -> ColumnPoints:
    """The points of one stratum."""
    weight, square = points.weight[at], points.square[at]
    information = float(weight.sum() / square.sum())
    return ColumnPoints(points.score[at], weight, points.outcome[at], clip, information, points.outermost)
