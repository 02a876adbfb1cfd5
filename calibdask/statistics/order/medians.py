"""Medians of the scores within many sets of rows at once, exact for data of any size."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import ranks
from calibdask.kernels.tree import first_above
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray, read_only
from calibdask.statistics.order.ranks import KeyCells, gathered, joined
from calibdask.statistics.request import Requests
from calibdask.statistics.simplex.tree import Tree
from calibdask.statistics.statistic import Statistic

# Most entries of a pass for all sets together, and at least this many for each set.
_MOST_ENTRIES = 1 << 20
_FEWEST_ENTRIES = 16
# Cumulative weights are compared with this relative tolerance, as in `calibdask.statistics.order.quantiles`.
_TOLERANCE = 2.0**-40


@dataclass(frozen=True)
class SetKeys(Statistic[KeyCells]):
    """Counts of the keys of one class's scores in each set of a tree, by cell of a window and, in one cell, below it.

    Parameters
    ----------
    tree : Tree
        The sets.
    column : FrozenArray of int64, shape (sets,)
        The class whose scores count; -1 for a set whose median is not needed.
    low, high, shift : FrozenArray of int64, shape (sets,)
        Windows of keys and the size, 2**shift keys, of their cells.

    Notes
    -----
    See `calibdask.statistics.order.ranks` for keys; the stratum of an entry is the number of its set. Memory: 40 bytes
    for each cell that holds a row.
    """

    tree: Tree
    column: FrozenArray
    low: FrozenArray
    high: FrozenArray
    shift: FrozenArray

    def from_block(self, block: Block) -> KeyCells:
        """Count one block."""
        parts = [self._entries(block, b) for b in range(block.layout.batch)]
        entries = [np.concatenate(fields) for fields in zip(*parts, strict=True)]
        return self._merged(KeyCells(np.array(block.rows), np.array(0), np.array(0), *entries))

    def merge(self, a: KeyCells, b: KeyCells) -> KeyCells:
        """Counts of both."""
        return self._merged(joined(a, b))

    def _entries(self, block: Block, b: int) -> tuple[Counts, Counts, Counts, Counts, Array]:
        """One entry for each row at or below the end of its window: stratum, low, high, count, weight."""
        sets = self.tree.sets_of(block, b)
        # One more element for -1, the number of rows in no open set.
        column = np.append(self.column.values, -1)[sets]
        rows = np.flatnonzero(column >= 0)
        chosen = np.empty((1, rows.size), np.int64)
        ranks.score_keys(read_only(block.matrix_of(b)[rows, column[rows], None]), chosen)
        kept = chosen[0] <= self.high.values[sets[rows]]
        keys, rows = chosen[0, kept], rows[kept]
        weights = np.ones(rows.size) if block.weights is None else block.weights_of(b)[rows]
        return sets[rows], keys, keys, np.ones_like(keys), weights

    def _merged(self, cells: KeyCells) -> KeyCells:
        low, shift = self.low.values[cells.stratum], self.shift.values[cells.stratum]
        return gathered(cells, np.where(cells.low < low, -1, (cells.low - low) >> shift))


class ColumnValues(NamedTuple):
    """Sets whose median is to be computed, every field of shape (sets,).

    Their numbers, in increasing order; the class; bounds of the median; rows of the set; and the cumulative count (or
    weight) that the median is the first score to exceed.
    """

    sets: Counts
    column: Counts
    low: Array
    high: Array
    rows: Counts
    target: Counts | Array


class Medians(NamedTuple):
    """Medians, and how many rows of their set have a smaller score; both of shape (sets,)."""

    score: Array
    below: Counts


def medians(tree: Tree, values: ColumnValues) -> Requests[Medians]:
    """Ask for key counts in ever smaller windows until each holds the median alone.

    Notes
    -----
    One pass where the sets together have at most 2**20 rows, else two or three, rarely more: where the scores of a
    set spread over very many orders of magnitude. Memory: 40 bytes for each of at most 2**20 entries, or 16 a set.
    """
    weighted = values.target.dtype == np.float64
    target = values.target * (1 + 2 * _TOLERANCE) if weighted else values.target
    # Keys are the bit patterns of scores; adding 0.0 turns -0.0 into 0.0.
    low, high = ((bound.clip(0.0, 1.0) + 0.0).view(np.int64) for bound in (values.low, values.high))
    rows, below = values.rows.copy(), np.zeros_like(values.rows)
    unknown = np.arange(values.sets.size)
    while unknown.size:
        sets = values.sets[unknown]
        windows = (values.column, low, high, _shift(low, high, rows, unknown.size))
        state = yield from SetKeys(tree, *(_spread(field[unknown], sets, tree.sets) for field in windows))
        entry, before = np.empty((2, unknown.size), np.int64)
        mass = state.weight if weighted else state.rows
        first_above(np.searchsorted(sets, state.stratum), state.rows, mass, target[unknown], entry, before)
        low[unknown], high[unknown], rows[unknown] = state.low[entry], state.high[entry], state.rows[entry]
        below[unknown] = before
        unknown = unknown[low[unknown] < high[unknown]]
    return Medians(low.view(np.float64), below)


def _shift(low: Counts, high: Counts, rows: Counts, windows: int) -> Counts:
    """Size of the cells: single keys where rows are few, else so that the cells of all windows stay within a budget."""
    if rows.sum() <= _MOST_ENTRIES:
        return np.zeros_like(rows)
    budget = max(_FEWEST_ENTRIES, _MOST_ENTRIES // windows)
    _, bits = np.frexp((high - low).astype(np.float64))
    return np.where(rows <= budget, 0, np.maximum(0, bits.astype(np.int64) + 1 - budget.bit_length()))


def _spread(values: Counts, sets: Counts, size: int) -> FrozenArray:
    """Scatter the values of some sets into a vector for all sets, -1 elsewhere."""
    full = np.full(size, -1)
    full[sets] = values
    return FrozenArray(full)
