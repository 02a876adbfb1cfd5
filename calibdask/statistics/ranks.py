"""Where scores lie in order: counts of order-preserving keys, coarse at first and fine where it matters.

The key of a score is the bit pattern of its float64 value, which orders non-negative doubles. A table of cells
[low, high] of keys with counts is mergeable, its size is bounded, and it can be refined in a few places by one further
pass. Two or three passes give exact order statistics of data of any size (`calibdask.statistics.quantiles`).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import ranks
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

__all__ = ["KeyCells", "KeyCounts", "WindowCounts", "gathered", "joined"]

# Up to this many rows, and keys, every key is kept; beyond, keys share cells. A rule in the number of rows and the
# layout alone keeps the law.
_EXACT_ROWS = 4096
_EXACT_KEYS = 1 << 19
# Scores below 2**-40 share the lowest cell.
_SMALLEST = int(np.float64(2.0**-40).view(np.int64))
_LARGEST = int(np.float64(1.0).view(np.int64))
_MOST_CELLS = 1 << 21
_FINEST_SHIFT = 40  # 12 bits of the mantissa


# Place, low, high, rows, weight.
Entries = tuple[Counts, Counts, Counts, Counts, Array]


class KeyCells(NamedTuple):
    """Cells of keys, ordered by place and low: the rows whose key lies in [low, high], and their weight.

    ``place`` numbers (batch, group, column), or (batch, group, column, window), in C order. Up to ``single`` rows
    ``seen`` a cell is a single key, beyond a range of 2**``shift`` keys.
    """

    seen: Counts
    single: Counts
    shift: Counts
    place: Counts
    low: Counts
    high: Counts
    rows: Counts
    weight: Array


@dataclass(frozen=True)
class KeyCounts(Statistic):
    """Counts of keys for every column of a setting: single keys up to 4096 rows, cells beyond.

    A cell is a range of keys with equal leading bits: 1/4096 of a binary order of magnitude, wider where there
    are very many columns. Memory: 40 bytes times the cells that hold a row.
    """

    setting: Setting

    def from_block(self, block: Block) -> KeyCells:
        """Count one block."""
        scores = block.columns(self.setting).scores
        shift = _shift(block.layout.batch * block.layout.groups * scores.shape[-1])
        single = _most_single_rows(block, scores)
        if block.rows <= single:
            parts = [_single_keys(block, scores[b % len(scores)], b) for b in range(block.layout.batch)]
        else:
            parts = [_cells(block, scores[b % len(scores)], b, shift) for b in range(block.layout.batch)]
        entries = [np.concatenate(fields) for fields in zip(*parts, strict=True)]
        return gathered(KeyCells(np.array(block.rows), np.array(single), np.array(shift), *entries), entries[1])

    def merge(self, a: KeyCells, b: KeyCells) -> KeyCells:
        """Counts of both."""
        both = joined(a, b)
        if both.seen > both.single:
            low, high = _cell_bounds(both.low, int(both.shift))
            both = both._replace(low=low, high=high)
        return gathered(both, both.low)


@dataclass(frozen=True)
class WindowCounts(Statistic):
    """Counts of keys within windows: cells of 2**shift keys, each with the smallest and the largest key seen.

    Parameters
    ----------
    setting : Setting
        Which columns of scores.
    low, high, shift : FrozenArray of int64, shape (batch, groups, columns, windows)
        Disjoint windows in increasing order and the size of their cells; windows that do not exist come last and start
        at the largest int64.

    Notes
    -----
    Memory: 40 bytes times the cells that hold a row; a window of w rows and 2**b keys has at most w, and at most
    2**(b - shift).
    """

    setting: Setting
    low: FrozenArray
    high: FrozenArray
    shift: FrozenArray

    def from_block(self, block: Block) -> KeyCells:
        """Count one block."""
        scores = block.columns(self.setting).scores
        size = self.low.values[0].size
        parts = []
        for b in range(block.layout.batch):
            keys, places, masses = self._collect(block, scores[b % len(scores)], b)
            parts.append((places + b * size, keys, keys, np.ones_like(keys), masses))
        entries = [np.concatenate(fields) for fields in zip(*parts, strict=True)]
        return self._gathered(KeyCells(np.array(block.rows), np.array(0), np.array(0), *entries))

    def merge(self, a: KeyCells, b: KeyCells) -> KeyCells:
        """Counts of both."""
        return self._gathered(joined(a, b))

    def _gathered(self, cells: KeyCells) -> KeyCells:
        low, shift = (field.values.reshape(-1)[cells.place] for field in (self.low, self.shift))
        return gathered(cells, (cells.low - low) >> shift)

    def _collect(self, block: Block, scores: np.ndarray, b: int) -> tuple[Counts, Counts, Array]:
        """Keys in windows, the window of each and its weight."""
        weights = block.weights_of(b)
        size = 1024 + scores.size // 8
        while True:
            keys, places = np.empty(size, np.int64), np.empty(size, np.int64)
            masses = np.empty(size if weights.size else 0)
            windows = (self.low.values[b], self.high.values[b])
            found = ranks.collect_keys(scores, weights, block.group, *windows, keys, places, masses)
            if found <= size:
                return keys[:found], places[:found], masses[:found] if weights.size else np.ones(found)
            size = found


def _most_single_rows(block: Block, scores: np.ndarray) -> int:
    return min(_EXACT_ROWS, _EXACT_KEYS // max(1, block.layout.batch * scores.shape[-1]))


def _shift(places: int) -> int:
    """Size of the cells, so that those of all places stay within a budget; at least 8 a binary order of magnitude."""
    bits = int(np.log2(max(8, _MOST_CELLS // (places * 41))))
    return max(_FINEST_SHIFT, 52 - bits)


def _cell_bounds(keys: Counts, shift: int) -> tuple[Counts, Counts]:
    """First and last key of the cell of each key."""
    cell = np.maximum(keys, _SMALLEST) >> shift
    low = np.where(cell == _SMALLEST >> shift, 0, cell << shift)
    return low, ((cell + 1) << shift) - 1


def _single_keys(block: Block, scores: np.ndarray, b: int) -> Entries:
    """One entry for each row and column: place, low, high, count, weight."""
    columns = scores.shape[-1]
    keys = np.empty((columns, block.rows), np.int64)
    ranks.score_keys(scores, keys)
    group = block.group if block.group.size else np.zeros(block.rows, np.int64)
    place = ((b * block.layout.groups + group) * columns)[None, :] + np.arange(columns)[:, None]
    weights = block.weights_of(b) if block.weights is not None else np.ones(block.rows)
    kept = np.broadcast_to(weights > 0, keys.shape)
    keys = keys[kept]
    return place[kept], keys, keys, np.ones_like(keys), np.broadcast_to(weights, kept.shape)[kept]


def _cells(block: Block, scores: np.ndarray, b: int, shift: int) -> Entries:
    """One entry for each cell that holds a row."""
    columns = scores.shape[-1]
    n_cells = (_LARGEST >> shift) - (_SMALLEST >> shift) + 1
    counts = np.zeros((block.layout.groups, columns, n_cells), np.int64)
    weights = block.weights_of(b)
    masses = np.zeros(counts.shape if weights.size else (0, 0, 0))
    ranks.count_keys(scores, weights, block.group, shift, _SMALLEST, counts, masses)
    group, column, cell = np.nonzero(counts)
    count = counts[group, column, cell]
    low, high = _cell_bounds((cell + (_SMALLEST >> shift)) << shift, shift)
    weight = masses[group, column, cell] if weights.size else count.astype(np.float64)
    return (b * block.layout.groups + group) * columns + column, low, high, count, weight


def joined(a: KeyCells, b: KeyCells) -> KeyCells:
    """Entries of both, not yet sorted."""
    entries = (np.concatenate(pair) for pair in zip(a[3:], b[3:], strict=True))
    return KeyCells(a.seen + b.seen, a.single, a.shift, *entries)


def gathered(cells: KeyCells, identity: Counts) -> KeyCells:
    """Entries sorted by place and cell identity; those that share both are added up."""
    order = np.lexsort((identity, cells.place))
    identity = identity[order]
    place, low, high, rows = (field[order] for field in cells[3:7])
    weight = cells.weight[order]
    if not place.size:
        return cells
    new = np.r_[True, (place[1:] != place[:-1]) | (identity[1:] != identity[:-1])]
    starts = np.flatnonzero(new)
    return KeyCells(
        cells.seen,
        cells.single,
        cells.shift,
        place[starts],
        np.minimum.reduceat(low, starts),
        np.maximum.reduceat(high, starts),
        np.add.reduceat(rows, starts),
        np.add.reduceat(weight, starts),
    )
