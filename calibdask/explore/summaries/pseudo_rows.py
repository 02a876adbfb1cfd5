"""Pseudo-rows of a summary: cell scores, outcomes and numbers of rows."""

from dataclasses import dataclass

import numpy as np

from calibdask.estimators.ordered.score_points import points_of_grid
from calibdask.statistics.exact import Array
from calibdask.storage.summary import Summary


@dataclass(frozen=True, eq=False)
class PseudoRows:
    """Distinct (score, outcome), each with its rows: cells of a fine grid at the mean score of either outcome.

    Attributes
    ----------
    scores, outcomes, weights, squares : array of shape (points,)
        ``weights`` are numbers of rows, or sums of weights, ``squares`` those of their squares.
    weighted : bool
    """

    scores: Array
    outcomes: Array
    weights: Array
    squares: Array
    weighted: bool

    @classmethod
    def of(cls, pooled: Summary, setting: str | int | None) -> "PseudoRows":
        """Pseudo-rows of a summary without slices, for a setting with one score column.

        Raises
        ------
        ValueError
            If the summary does not tell the setting.
        """
        source = pooled.source
        finest = source.finest(source.layout.setting(setting))
        points = points_of_grid(source.state(finest), finest.grid, by_outcome=True)
        outcomes = (points.outcome > 0).astype(np.float64)
        return cls(points.score, outcomes, points.weight, points.square, source.layout.weighted)

    def rows(self, most: int) -> tuple[Array, Array]:
        """Outcomes and scores, a row each; of more rows than ``most`` about so many, drawn with a fixed seed."""
        counts = self.weights.astype(np.int64)
        if counts.sum() > most:
            counts = np.random.default_rng(0).binomial(counts, most / counts.sum())
        return np.repeat(self.outcomes, counts), np.repeat(self.scores, counts)
