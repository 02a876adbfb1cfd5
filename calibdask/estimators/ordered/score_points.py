"""Ordered scores with the rows and outcomes at each: distinct scores, or cells of a fine grid."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.kernels.cell_points import cell_points
from calibdask.statistics.bins.grid import UNIT, Grid, GridHistogram, GridState, unit_of
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.bins.sparse_grid import SparseGridState
from calibdask.statistics.counts import RowCount
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.order.distinct import DistinctScores, DistinctState
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting


@dataclass(frozen=True)
class Points:
    """Scores of every stratum (batch, groups, columns) in increasing order, with sums over the rows at each.

    ``stratum``, ``score``, ``weight`` (sum of w), ``outcome`` (sum of w * o), ``square`` (sum of w**2) and
    ``square_outcome`` (sum of w**2 * o), each (points,); ``exact`` says whether points are distinct scores, or cells of
    a grid at their mean score, and ``outermost`` how wide the first and the last cell are. ``excursion`` (points,) is
    how far the sums of w (o - s) within a cell may leave the range of those at its two ends, above and below together;
    None for distinct scores, whose sums do not.
    """

    shape: tuple[int, int, int]
    stratum: Counts
    score: Array
    weight: Array
    outcome: Array
    square: Array
    square_outcome: Array
    exact: bool
    outermost: float = 0.0
    excursion: Array | None = None

    @property
    def starts(self) -> Counts:
        """Where the points of each stratum with rows begin, and where the last ones end."""
        return np.append(np.flatnonzero(np.diff(self.stratum, prepend=-1)), self.stratum.size)

    def strata(self) -> Iterator[tuple[tuple[int, ...], slice]]:
        """The index of every stratum with rows, and the slice of its points."""
        ends = np.searchsorted(self.stratum, np.arange(int(np.prod(self.shape)) + 1))
        for stratum in np.flatnonzero(np.diff(ends)).tolist():
            yield tuple(map(int, np.unravel_index(stratum, self.shape))), slice(ends[stratum], ends[stratum + 1])

    @property
    def notes(self) -> dict[str, Any]:
        """Notes: the kind of points, and the largest share of the weight of a stratum in one cell."""
        if self.exact:
            return {"points": "distinct scores"}
        shares = [self.weight[at].max() / self.weight[at].sum() for _, at in self.strata()]
        return {"points": "cells of a fine grid of scores", "largest_share": float(max(shares, default=0.0))}


@dataclass(frozen=True)
class ScorePoints(Derived[Points]):
    """The points of a setting: distinct scores if there are not too many, cells of a grid otherwise.

    Parameters
    ----------
    setting : Setting
        Which columns of (score, outcome).
    most_rows : int, optional
        Cells also where there are more rows than this, in all columns together: sorting so many takes fifty times as
        long as a histogram. Whether the number of rows was known beforehand makes no difference but to the time.
    by_outcome : bool
        Make two points of a cell, the rows of either outcome at their own mean, which sums of smooth functions over the
        rows of one outcome need.
    """

    setting: Setting
    most_rows: int | None = None
    by_outcome: bool = False

    def derive(self) -> Requests[Points]:
        """Request distinct scores, and a histogram where there are too many."""
        layout = yield from Layout()
        histogram = histogram_of(self.setting)
        columns = self.setting.columns(layout.classes)
        if not (layout.by_cells or self._are_many(columns, layout.rows)):
            if self.most_rows is not None:
                yield from Prefetch(RowCount())
            if self.most_rows is not None and layout.rows is None:
                # They may turn out to be many.
                yield from Prefetch(histogram)
            state = yield from DistinctScores(self.setting)
            rows = None if self.most_rows is None else int((yield from RowCount()).rows.sum())
            if not (state.many.any() or self._are_many(columns, rows)):
                return _points_of_scores(state, layout, self.setting)
        return points_of_grid((yield from histogram), histogram.grid, by_outcome=self.by_outcome)

    def _are_many(self, columns: int, rows: int | None) -> bool:
        return self.most_rows is not None and rows is not None and rows * columns > self.most_rows

    def from_histograms(self, histograms: Histograms) -> Requests[Points]:
        """The cells of the finest histogram."""
        finest = histograms.finest(self.setting)
        occupied = histograms.occupied(finest)
        if occupied is not None:
            layout = histograms.layout
            shape = layout.batch, layout.groups, self.setting.columns(layout.classes)
            return points_of_occupied(occupied, shape, finest.grid, by_outcome=self.by_outcome)
        return points_of_grid((yield from finest), finest.grid, by_outcome=self.by_outcome)


def histogram_of(setting: Setting) -> GridHistogram:
    """The histogram whose cells replace distinct scores."""
    return GridHistogram(setting, Grid(refined=True))


def _points_of_scores(state: DistinctState, layout: Layout, setting: Setting) -> Points:
    shape = (layout.batch, layout.groups, setting.columns(layout.classes))
    weight, outcome = state.weight.astype(np.float64), state.outcome.astype(np.float64)
    square, square_outcome = (state.square, state.square_outcome) if layout.weighted else (weight, outcome)
    return Points(shape, state.stratum, state.score, weight, outcome, square, square_outcome, exact=True)


def points_of_grid(state: GridState, grid: Grid, *, by_outcome: bool = False) -> Points:
    """The cells that hold rows, at the mean of their scores; ``by_outcome`` the rows of either outcome at theirs."""
    shape = state.mass.shape[:3]
    if by_outcome:
        at = np.flatnonzero(state.mass)
        mass, offset = (sums.ravel()[at] for sums in state[:2])
        square = state.square.ravel()[at] if state.weighted else None
        return _points_by_outcome(shape, at, mass, offset, square, grid)
    mass, offset = (np.ascontiguousarray(sums).reshape(-1, 2) for sums in state[:2])
    filled = np.flatnonzero(mass[:, 0] + mass[:, 1])
    squares = state.square.reshape(-1, 2)[filled] if state.weighted else None
    return _points(shape, filled, mass[filled], offset[filled], squares, grid)


def points_of_occupied(
    state: SparseGridState, shape: tuple[int, ...], grid: Grid, *, by_outcome: bool = False
) -> Points:
    """As `points_of_grid`, from the occupied cells of a histogram with these batch, groups and columns."""
    if by_outcome:
        square = state.sums[2] if state.weighted else None
        return _points_by_outcome(shape, state.at, state.sums[0], state.sums[1], square, grid)
    both, outcome = np.divmod(state.at, 2)
    is_first = np.diff(both, prepend=-1) > 0
    filled = both[is_first]
    sums = np.zeros((len(state.sums), filled.size, 2), state.sums.dtype)
    sums[:, np.cumsum(is_first) - 1, outcome] = state.sums
    return _points(shape, filled, sums[0], sums[1], sums[2] if state.weighted else None, grid)


def _points(
    shape: tuple[int, ...],
    filled: Counts,
    mass: npt.NDArray[Any],
    offset: npt.NDArray[Any],
    squares: Array | None,
    grid: Grid,
) -> Points:
    """Points of the cells with these numbers, from their sums (cells, 2) by outcome."""
    batch, groups, columns = shape
    stratum, cell = np.divmod(filled, grid.size)
    edge, step = (values[cell] for values in grid.nearer)
    score, weight, outcome = np.empty((3, filled.size))
    cell_points(mass, offset, unit_of(offset), edge, step, score, weight, outcome)
    square, square_outcome = (weight, outcome) if squares is None else (squares.sum(-1), squares[:, 1])
    sums = score, weight, outcome, square, square_outcome
    excursion, outermost = _excursions(mass, offset, grid, cell), float(grid.edges[1] - grid.edges[0])
    return Points((batch, groups, columns), stratum, *sums, exact=False, outermost=outermost, excursion=excursion)


def _points_by_outcome(
    shape: tuple[int, ...],
    at: Counts,
    mass: npt.NDArray[Any],
    offset: npt.NDArray[Any],
    squares: Array | None,
    grid: Grid,
) -> Points:
    """Points of the rows of either outcome, from the sums at these numbers of (cell, outcome)."""
    batch, groups, columns = shape
    number, is_one = np.divmod(at, 2)
    weight, distance = mass.astype(np.float64), GridState.distance_of(offset)
    square = weight if squares is None else squares
    stratum, cell = np.divmod(number, grid.size)
    edge, step = grid.nearer
    score = (edge[cell] + step[cell] * (distance / weight)).clip(0.0, 1.0)
    # Either outcome may be the one before within its cell.
    order = np.lexsort((score, stratum))
    outcome, square_outcome = weight * is_one, square * is_one
    sums = score[order], weight[order], outcome[order], square[order], square_outcome[order]
    outermost = float(grid.edges[1] - grid.edges[0])
    return Points((batch, groups, columns), stratum[order], *sums, exact=False, outermost=outermost)


def _excursions(mass: npt.NDArray[Any], offset: npt.NDArray[Any], grid: Grid, cell: Counts) -> Array:
    """Bound by which sums of w (o - s) within cells, (cells, 2) by outcome, may leave the range of their ends.

    The rows of a cell move the sum up by U = sum w o (1 - s) and down by D = sum w (1 - o) s. Whatever their order, it
    leaves the range by min(U, D) at most. Rows of one score are tied, and do not: cells whose rows of either outcome
    have the same mean score, to 2**-30 of a cell, are taken as such.
    """
    edge, step = (values[cell] for values in grid.nearer)
    with np.errstate(divide="ignore", invalid="ignore"):
        position = GridState.distance_of(offset) / mass
    score = (edge[:, None] + step[:, None] * position).clip(0.0, 1.0)
    moves = np.minimum(mass[:, 0] * score[:, 0], mass[:, 1] * (1 - score[:, 1]))
    apart = np.abs(position[:, 0] - position[:, 1]) >= UNIT / 2
    return np.where(apart, moves, 0.0)
