"""Rows, outcomes and scores of one period in the cells with rows, for many processes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.statistics.bins.grid import UNIT, Grid, GridState
from calibdask.statistics.bins.sparse_grid import SparseGridState
from calibdask.statistics.exact import Array, Counts

Index = npt.NDArray[np.intp]

# Borders of the groups of scores in which offsets are learnt: close to even steps of the log-odds.
GROUP_EDGES = np.array([0.0005, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5])
GROUP_EDGES = np.r_[GROUP_EDGES, 1 - GROUP_EDGES[-2::-1]]
GROUPS = GROUP_EDGES.size + 1


@dataclass(frozen=True, eq=False)
class PeriodCells:
    """Cells with rows, sorted by process and score.

    ``processes`` is the number of processes. By cell: ``process`` and ``group`` of scores, numbers of rows ``rows``
    and of outcomes ``events``, the ``mean`` score, and a bound ``square`` of the sum of (o - s)**2. Mean scores are off
    by ``slack`` at most. Of dependent rows all but ``counted``, the number of rows, are sums of weights: the exponents
    of the rows, which add up to 1 or less in each cluster.
    """

    processes: int
    process: Index
    group: Index
    rows: Array
    events: Array
    mean: Array
    square: Array
    slack: float
    counted: Array

    @classmethod
    def of_table(cls, count: npt.ArrayLike, events: npt.ArrayLike, score: npt.ArrayLike) -> "PeriodCells":
        """Cells with one score each, (processes, cells), in increasing order of scores.

        Examples
        --------
        >>> PeriodCells.of_table([[4, 0]], [[1, 0]], [0.25, 0.5]).square.tolist()
        [0.75]
        """
        rows = np.asarray(count, np.float64)
        process, cell = np.nonzero(rows)
        n, y = rows[process, cell], np.asarray(events, np.float64)[process, cell]
        s = np.broadcast_to(np.asarray(score, np.float64), rows.shape)[process, cell]
        group = np.searchsorted(GROUP_EDGES, s).astype(np.intp)
        return cls(len(rows), process, group, n, y, s, y * (1 - s) ** 2 + (n - y) * s**2, 0.0, n)

    @classmethod
    def of_sums(cls, count: Array, events: Array, score: Array, edges: Array) -> "PeriodCells":
        """Cells between edges, (processes, cells), with the sums of scores that were rounded to 2**-40.

        The sum of (o - s)**2 is at most that of scores at both edges of the cell, with the largest sum of the scores of
        rows without the outcome.

        Examples
        --------
        >>> cells = PeriodCells.of_sums(np.array([[2]]), np.array([[1]]), np.array([[0.9]]), np.array([0.4, 0.5]))
        >>> cells.mean.tolist(), cells.square.round(12).tolist()
        ([0.45], [0.61])
        """
        process, cell = np.nonzero(count)
        n, y, total = (np.asarray(part, np.float64)[process, cell] for part in (count, events, score))
        low, high = edges[cell], edges[cell + 1]
        others = np.clip(total - y * low, (n - y) * low, (n - y) * high)
        square = (low + high) * others - low * high * (n - y)
        square += (2 - low - high) * (y - (total - others)) - (1 - low) * (1 - high) * y
        group = np.searchsorted(GROUP_EDGES, (low + high) / 2).astype(np.intp)
        slack = 2.0**-40 + 2 * float(np.finfo(np.float64).eps)
        return cls(len(count), process, group, n, y, total / n, np.maximum(square, 0.0), slack, n)

    @classmethod
    def of_histogram(cls, state: GridState, grid: Grid) -> "PeriodCells":
        """Cells of a histogram, without weights or of exponents: a process for each (group, column).

        Scores of a cell are known by their sums. Their mean is off by the rounding of positions at most; the sum of
        their squares is at most that of scores at both edges of the cell with the same mean.
        """
        size = state.mass.shape[-2]
        # Each outcome by itself: sums along an axis of two are slow.
        fields = (state.mass, state.offset, state.rows if state.weighted else state.mass)
        mass, offset, rows = ([part[..., outcome].ravel() for outcome in (0, 1)] for part in fields)
        at = np.flatnonzero(rows[0] | rows[1])
        sums = [[part[at] for part in both] for both in (mass, offset, rows)]
        return cls._of_cells(at, sums, grid, state.mass.size // (2 * size))

    @classmethod
    def of_occupied(cls, state: SparseGridState, processes: slice, grid: Grid) -> "PeriodCells":
        """As `of_histogram`, to the last bit, of some processes of the occupied cells of a histogram."""
        size = 2 * grid.size
        first, last = np.searchsorted(state.at, (processes.start * size, processes.stop * size))
        both, outcome = np.divmod(state.at[first:last] - processes.start * size, 2)
        is_first = np.diff(both, prepend=-1) > 0
        at = both[is_first]
        fields = np.zeros((3, 2, at.size), state.sums.dtype)
        chosen = state.sums[[0, 1, 3] if state.weighted else [0, 1, 0], first:last]
        fields[:, outcome, np.cumsum(is_first) - 1] = chosen
        return cls._of_cells(at, [[*both] for both in fields], grid, processes.stop - processes.start)

    @classmethod
    def _of_cells(cls, at: Counts, sums: Sequence[Sequence[npt.NDArray[Any]]], grid: Grid, count: int) -> "PeriodCells":
        """Of cells with rows, numbered through all processes, with mass, offset and rows of each outcome."""
        process, cell = np.divmod(at, grid.size)
        mass, offset, counted = sums
        others, events = (part.astype(np.float64) for part in mass)
        distances = [GridState.distance_of(part) for part in offset]
        edge, unit = (part[cell] for part in grid.nearer)
        low, high = grid.edges[cell], grid.edges[cell + 1]
        square = (low + high) * (others * edge + distances[0] * unit) - low * high * others
        square += (2 - low - high) * (events - (events * edge + distances[1] * unit)) - (1 - low) * (1 - high) * events
        rows = others + events
        mean = edge + unit * ((distances[0] + distances[1]) / rows)
        group = np.searchsorted(GROUP_EDGES, (grid.edges[:-1] + grid.edges[1:]) / 2).astype(np.intp)[cell]
        # A unit of positions, which are rounded to the nearest, and the rounding of float64.
        slack = grid.width * UNIT + 2 * float(np.finfo(np.float64).eps)
        of_rows = (counted[0] + counted[1]).astype(np.float64)
        return cls(count, process, group, rows, events, mean, np.maximum(square, 0.0), slack, of_rows)

    def divided(self, by: npt.NDArray[np.int64]) -> "PeriodCells":
        """With the exponents of each process divided by a number, (processes,)."""
        if (by == 1).all():
            return self
        rows, events, square = (part / by[self.process] for part in (self.rows, self.events, self.square))
        return replace(self, rows=rows, events=events, square=square)

    def by_process(self, values: Array) -> Array:
        """Sums over the cells of each process, (processes,)."""
        sums = np.zeros(self.processes)
        if self._first.size:
            sums[self.process[self._first]] = np.add.reduceat(values, self._first)
        return sums

    @cached_property
    def _first(self) -> Index:
        """The first cell of each process that has any."""
        return np.flatnonzero(np.diff(self.process, prepend=-1))

    def by_group(self, values: Array) -> Array:
        """Sums over the cells of each process and group, (processes, groups)."""
        key = self.process * GROUPS + self.group
        sums = np.bincount(key, values, self.processes * GROUPS)
        return np.asarray(sums.reshape(-1, GROUPS), np.float64)

    @property
    def group_sums(self) -> tuple[Array, Array, Array]:
        """Rows, outcomes and scores of each process and group, (processes, groups)."""
        return self.by_group(self.rows), self.by_group(self.events), self.by_group(self.rows * self.mean)
