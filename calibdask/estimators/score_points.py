"""Scores in order, with the rows and the outcomes at each: distinct scores, or cells of a fine grid."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calibdask.statistics.distinct import DistinctScores, DistinctState
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.grid import Grid, GridHistogram, GridState, scores_of_cells
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Asking, Derived

__all__ = ["Points", "ScorePoints", "histogram_of", "points_of_grid"]


@dataclass(frozen=True)
class Points:
    """Scores of every place (batch, groups, columns) in increasing order, and what lies at each.

    ``place``, ``score``, ``weight`` (sum of w), ``outcome`` (sum of w * o) and ``square`` (sum of w**2), each
    (points,); ``exact`` says whether points are distinct scores, or cells of a grid at their mean score.
    """

    shape: tuple[int, int, int]
    place: Counts
    score: Array
    weight: Array
    outcome: Array
    square: Array
    exact: bool

    def places(self) -> Iterator[tuple[tuple[int, ...], slice]]:
        """Every place that has rows, and where its points are."""
        ends = np.searchsorted(self.place, np.arange(int(np.prod(self.shape)) + 1))
        for number in np.flatnonzero(np.diff(ends)).tolist():
            yield tuple(map(int, np.unravel_index(number, self.shape))), slice(ends[number], ends[number + 1])

    @property
    def notes(self) -> dict[str, str]:
        """What the points are, for the reader of the result."""
        return {"points": "distinct scores" if self.exact else "cells of a fine grid of scores"}


@dataclass(frozen=True)
class ScorePoints(Derived):
    """The points of a setting: distinct scores where they fit, cells of a grid otherwise."""

    setting: Setting

    def derive(self) -> Asking:
        """Ask for distinct scores, and for a histogram where there are too many."""
        layout = yield Layout()
        state = yield DistinctScores(self.setting)
        if not state.many.any():
            return _points_of_scores(state, layout, self.setting)
        histogram = histogram_of(self.setting)
        grid_state = yield histogram
        return points_of_grid(grid_state, histogram.grid)


def histogram_of(setting: Setting) -> GridHistogram:
    """The histogram whose cells stand for distinct scores."""
    return GridHistogram(setting, Grid(refined=True))


def _points_of_scores(state: DistinctState, layout: Layout, setting: Setting) -> Points:
    shape = (layout.batch, layout.groups, setting.columns(layout.classes))
    weight, outcome = state.weight.astype(np.float64), state.outcome.astype(np.float64)
    square = state.square if state.square.size else weight
    return Points(shape, state.place, state.score, weight, outcome, square, exact=True)


def points_of_grid(state: GridState, grid: Grid) -> Points:
    """The cells that hold rows, at the mean of their scores."""
    mass = state.mass.astype(np.float64)
    weight = mass.sum(axis=-1)
    position = np.divide(state.distance.sum(axis=-1), weight, out=np.zeros_like(weight), where=weight > 0)
    score = scores_of_cells(grid, position).clip(0.0, 1.0)
    filled = np.nonzero(weight)
    shape = weight.shape[:3]
    place = np.ravel_multi_index(filled[:3], shape)
    square = state.square.sum(axis=-1) if state.weighted else weight
    return Points(shape, place, score[filled], weight[filled], mass[..., 1][filled], square[filled], exact=False)
