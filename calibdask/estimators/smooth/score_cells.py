"""The rows of one column of scores by fine cell."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibdask.statistics.bins.grid import Grid, GridState
from calibdask.statistics.exact import Array


@dataclass(frozen=True, eq=False)
class ScoreCells:
    """The cells of a column that hold rows, in the order of their scores.

    Attributes
    ----------
    lower, upper : array of shape (cells,)
        Edges.
    score : array of shape (cells,)
        Mean score.
    weight, positive, square : array of shape (cells,)
        Sums of weights, of those of rows with outcome 1, and of their squares.
    rows : array of shape (cells,)
        Number of rows.
    """

    lower: Array
    upper: Array
    score: Array
    weight: Array
    positive: Array
    square: Array
    rows: Array

    @classmethod
    def of(cls, state: GridState, grid: Grid) -> Self:
        """The cells of one column, whose sums have the shape (cells, 2)."""
        filled = np.flatnonzero(state.mass.sum(-1) > 0)
        mass = np.asarray(state.mass[filled], np.float64)
        weight = mass.sum(-1)
        edge, step = (of_cells[filled] for of_cells in grid.nearer)
        score = (edge + step * state.distance[filled].sum(-1) / weight).clip(0.0, 1.0)
        square, rows = weight, weight
        if state.weighted:
            square, rows = state.square[filled].sum(-1), np.asarray(state.rows[filled].sum(-1), np.float64)
        return cls(grid.edges[filled], grid.edges[filled + 1], score, weight, mass[:, 1], square, rows)

    @property
    def cumulative(self) -> Array:
        """The share of the weight up to and with each cell."""
        total = np.cumsum(self.weight)
        return np.asarray(total / total[-1])

    @property
    def effective(self) -> Array:
        """The effective number of rows of each cell: those that together are Kish's number of all rows."""
        return np.asarray(self.weight * (self.weight.sum() / self.square.sum()))
