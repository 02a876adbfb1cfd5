"""Histograms of many small slices: the occupied cells alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import sparse_grid
from calibdask.kernels.sparse_grid import PACKED_BITS, PACKED_ROWS
from calibdask.statistics.bins.grid import MOST_ROWS, Grid, GridHistogram, GridState
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Statistic

# Histograms up to this size are kept whole.
SMALL_BYTES = 1 << 26
# Histograms of fewer slices are kept whole too.
_MANY_SLICES = 256
# A whole histogram is not made larger than this.
MOST_BYTES = 1 << 32
# Bytes of an occupied cell of at least this many rows, and while two lists are merged.
_CELL_BYTES, _WHILE_MERGING = 24, 2
_OFFSETS = (1 << PACKED_BITS) - 1


class SparseGridState(NamedTuple):
    """The occupied (batch, group, column, cell, outcome) of a histogram, in order, and their sums.

    ``at`` (cells,) is the place as one number, int64, or uint32 while blocks are added up; ``sums`` (2, cells) are mass
    and offset of `GridState`, int64, or with weights (4, cells) mass, offset, square and rows, float64. While blocks
    are added up and no cell has 2**15 rows, (1, cells) are both as one number: half the memory, and sums stay exact.
    """

    at: Counts
    sums: npt.NDArray[Any]

    @property
    def weighted(self) -> bool:
        """Whether there are weights."""
        return self.sums.dtype != np.int64

    @property
    def distance(self) -> Array:
        """The sum of positions as float64, in widths of a cell."""
        return GridState.distance_of(self.sums[1])

    @property
    def rows(self) -> npt.NDArray[Any]:
        """Number of rows of each occupied cell."""
        return self.sums[3] if self.weighted else self.sums[0]

    @classmethod
    def of(cls, state: GridState) -> "SparseGridState":
        """The occupied cells of a whole state."""
        fields = state if state.weighted else state[:2]
        at = np.flatnonzero(state.rows if state.weighted else state.mass)
        return cls(at, np.stack([np.ravel(sums)[at] for sums in fields]).astype(state.mass.dtype))

    @property
    def is_packed(self) -> bool:
        """Whether mass and offset are one number."""
        return len(self.sums) == 1

    def unpacked(self) -> "SparseGridState":
        """With mass and offset as two numbers."""
        if not self.is_packed:
            return self
        return self._replace(sums=np.stack([self.sums[0] >> PACKED_BITS, self.sums[0] & _OFFSETS]))

    def released(self) -> Sequence[npt.NDArray[Any]]:
        """Mass, offset and, with weights, square and rows, in the memory of this state, which is used up."""
        if not self.is_packed:
            return tuple(self.sums)
        mass = self.sums[0] >> PACKED_BITS
        return mass, np.bitwise_and(self.sums[0], _OFFSETS, out=self.sums[0])

    def rows_of_strata(self, shape: tuple[int, ...]) -> Counts:
        """Rows by (batch, group, column), of a state of this shape."""
        rows = np.bincount(self.at // math.prod(shape[3:]), self.rows, math.prod(shape[:3]))
        return np.rint(rows).astype(np.int64).reshape(shape[:3])

    def whole(self, shape: tuple[int, ...], columns: slice = slice(None)) -> GridState:
        """The state with all cells of some columns, of a state of shape (batch, groups, columns, cells, 2).

        Raises
        ------
        ValueError
            If it would not fit the memory that states may take.
        """
        width = len(range(*columns.indices(shape[2])))
        if width < shape[2]:
            return self.column_range(shape, columns).whole((*shape[:2], width, *shape[3:]))
        check_whole(shape, len(self.sums))
        tables = np.zeros((len(self.sums), math.prod(shape)), self.sums.dtype)
        tables[:, self.at] = self.sums
        fields = tables.reshape(-1, *shape)
        if self.weighted:
            return GridState(fields[0], fields[1], fields[2], fields[3].astype(np.int64))
        none = np.zeros((*shape[:3], 0, 2))
        return GridState(fields[0], fields[1], none, none.astype(np.int64))

    def column_range(self, shape: tuple[int, ...], columns: slice) -> "SparseGridState":
        """The cells of some consecutive columns, of a state of this shape."""
        first, last, _ = columns.indices(shape[2])
        if (first, last) == (0, shape[2]):
            return self
        size = shape[3] * 2
        stratum, column, within = _split(self.at, shape[2], size)
        chosen = (column >= first) & (column < last)
        at = (stratum[chosen] * (last - first) + column[chosen] - first) * size + within[chosen]
        return SparseGridState(at, self.sums[:, chosen])

    def coarsened(self, grid: Grid) -> "SparseGridState":
        """Sum the parts of each cell of a refined grid, which gives exactly the state on the unrefined grid."""
        stratum, part, outcome = _split(self.at, grid.size, 2)
        cell = np.repeat(np.arange(grid.cells), np.diff(grid.starts))[part]
        return summed((stratum * grid.cells + cell) * 2 + outcome, self.sums)


def _split(at: Counts, middle: int, last: int) -> tuple[Counts, Counts, Counts]:
    """Numbers along the axes before, of and after one of ``middle`` values, with ``last`` values after it."""
    above, within = np.divmod(at, last)
    first, second = np.divmod(above, middle)
    return first, second, within


def check_whole(shape: tuple[int, ...], fields: int) -> None:
    """Raise ValueError where all cells of a histogram would not fit the memory that states may take."""
    size = 8 * fields * math.prod(shape)
    if size > MOST_BYTES:
        raise ValueError(
            f"All cells of the histograms of {math.prod(shape[:-2]):,} slices and classes take {size / 1e9:,.1f} GB, "
            f"and at most {MOST_BYTES / 1e9:.1f} GB are allowed. Numbers from bins, proper scores and totals come from "
            "occupied cells alone: choose such metrics, without intervals, or select or add up slices first."
        )


def summed(at: Counts, sums: npt.NDArray[Any]) -> SparseGridState:
    """The cells in order, equal ones added up in the order in which they come."""
    if (at[1:] > at[:-1]).all():
        return SparseGridState(at, sums)
    order = np.argsort(at, kind="stable")
    places = at[order]
    first = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    return SparseGridState(places[first], np.add.reduceat(sums[:, order], first, axis=1))


def united(a: SparseGridState, b: SparseGridState) -> SparseGridState:
    """Sums of both."""
    if not (a.at.size and b.at.size):
        return a if a.at.size else b
    # Counted beforehand: room for both lists would be twice the memory where they share cells.
    size = sparse_grid.count_occupied(a.at, b.at)
    at, sums = np.empty(size, a.at.dtype), np.empty((len(a.sums), size), a.sums.dtype)
    sparse_grid.add_occupied(a.at, a.sums, b.at, b.sums, at, sums)
    return SparseGridState(at, sums)


@dataclass(frozen=True)
class SparseHistogram(Statistic[SparseGridState]):
    """The occupied cells of `GridHistogram`: memory follows them, not the number of slices.

    Parameters
    ----------
    histogram : GridHistogram
        The setting and the cells.

    Notes
    -----
    One pass; 12 bytes for each occupied cell and outcome (36 with weights, 20 where a cell has 2**15 rows; 4 more where
    there are more than 2**32 cells), which are at most as many as rows and columns. Rows are sorted within slices, so
    that large slices take more time than in `GridHistogram`.
    """

    histogram: GridHistogram

    def from_block(self, block: Block) -> SparseGridState:
        """Sums of one block."""
        layout, grid = block.layout, self.histogram.grid
        columns = block.columns(self.histogram.setting)
        self.histogram.check_support(block, columns.scores)
        number, weighted = columns.scores.shape[-1], block.weights is not None
        starts, order = _rows_of_slices(block)
        table = layout.groups * number * grid.size * 2
        places = np.uint32 if layout.batch * table <= 1 << 32 else np.int64
        cells = grid.cells, grid.low, 1 / grid.width, grid.size
        parts = []
        for b in range(layout.batch):
            scores, labels = columns.of(b)
            weights = block.weights_of(b) if weighted else None
            filled, at = -1, np.empty(block.rows * number, places)
            # Without weights first as one number, then as two, if a cell has too many rows.
            for fields in (4,) if weighted else (1, 2):
                if filled < 0:
                    sums = np.empty((fields, at.size), np.float64 if weighted else np.int64)
                    filled = sparse_grid.occupied_cells(
                        scores, labels, weights, columns.first_class, (starts, order), cells, at, sums
                    )
            at = at[:filled]
            at += places(b * table)
            parts.append(SparseGridState(at, sums[:, :filled]))
        if len(parts) == 1 and 2 * parts[0].at.size > block.rows * number:
            # A copy would be nearly as large, and leave holes in memory.
            return parts[0]
        if not all(part.is_packed for part in parts):
            parts = [part.unpacked() for part in parts]
        return SparseGridState(np.concatenate([part.at for part in parts]), np.hstack([part.sums for part in parts]))

    def merge(self, a: SparseGridState, b: SparseGridState) -> SparseGridState:
        """Sums of both."""
        if a.is_packed != b.is_packed:
            return united(a.unpacked(), b.unpacked())
        both = united(a, b)
        is_full = both.is_packed and int(both.sums.max(initial=0)) >> PACKED_BITS >= PACKED_ROWS
        return both.unpacked() if is_full else both

    def check(self, state: SparseGridState) -> None:
        """Refuse more rows of one cell and outcome than the sums of their positions can hold."""
        most = 0 if state.weighted or state.is_packed else int(state.rows.max(initial=0))
        if most > MOST_ROWS:
            raise ValueError(self.histogram.too_many_rows(most))

    def bytes(self, layout: Layout) -> int:
        """Memory of a state of as many rows as there may be, each in a cell by itself."""
        rows = 0 if layout.most_rows is None else layout.most_rows
        columns = layout.batch * self.histogram.setting.columns(layout.classes)
        return min(rows * columns * _CELL_BYTES * _WHILE_MERGING, 2 * self.histogram.bytes(layout))

    @property
    def display_name(self) -> str:
        """Name of the histogram in messages."""
        return self.histogram.display_name


def _rows_of_slices(block: Block) -> tuple[Counts, Counts]:
    """The first row of each slice in an order of rows by slice, and that order."""
    if not block.group.size:
        starts = np.zeros(block.layout.groups + 1, np.int64)
        starts[1:] = block.rows
        return starts, np.arange(block.rows)
    starts, order = np.zeros(block.layout.groups + 1, np.int64), np.empty(block.rows, np.int64)
    sparse_grid.sort_by_slice(block.group, starts, order)
    return starts, order


def in_form(histogram: GridHistogram, layout: Layout) -> GridHistogram | SparseHistogram:
    """The statistic that takes less memory: occupied cells alone where there are far fewer rows than cells.

    Where the number of rows is not known beforehand it is taken to be small.
    """
    columns = layout.batch * histogram.setting.columns(layout.classes)
    most = None if layout.most_rows is None else layout.most_rows * columns
    sparse = SparseHistogram(histogram)
    cells = layout.groups * columns * histogram.grid.size * 2
    return sparse if is_sparse(most or 0, cells, layout.groups) else histogram


def is_sparse(occupied: int, cells: int, slices: int) -> bool:
    """Whether to keep occupied cells alone: there are many slices and cells, and rows in less than a third of these."""
    return slices >= _MANY_SLICES and cells * 16 > SMALL_BYTES and occupied * 3 < cells
