"""Order statistics of scores: counts of order-preserving keys, coarse at first and fine where needed.

The key of a score is the bit pattern of its float64 value, which orders non-negative doubles. A table of cells
[low, high] of keys with counts is mergeable, its size is bounded, and it can be refined in a few ranges by one further
pass. Two or three passes give exact order statistics of data of any size (`calibdask.statistics.order.quantiles`), and,
since cells also have hits and exact sums of scores, the sums between them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import key_cells, key_sums, key_windows, ranks
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

# Up to this many rows, and keys, every key is kept; beyond, keys share cells. For the law, this depends only on the
# number of rows and the layout.
_EXACT_ROWS = 4096
_EXACT_KEYS = 1 << 19
# Scores below 2**-40 share the lowest cell.
_SMALLEST = int(np.float64(2.0**-40).view(np.int64))
_SMALLEST_32 = np.float32(2.0**-40).view(np.int32)
_LARGEST = int(np.float64(1.0).view(np.int64))
_OCTAVES = 40
_MOST_CELLS = 1 << 21
# Of the tables that a block is counted in, of what is kept of cells that hold a row, and where windows are looked up.
_BYTES_OF_A_CELL, _BYTES_OF_AN_ENTRY, _BYTES_OF_A_LOOKUP = 40, 64, 4
# Leading bits of the mantissa that cells of equal keys share, where windows are looked up.
_LOOKUP_BITS = 9
# Most keys in windows that are sorted together.
_KEYS_AT_ONCE = 1 << 20
# A window that does not exist begins here.
NO_WINDOW = int(np.iinfo(np.int64).max)

_NO_WEIGHT = np.zeros(0)
_NO_HITS = np.zeros(0, np.int64)
_NO_SCORE = np.zeros((0, 2), np.int64)


class KeyCells(NamedTuple):
    """Cells of keys, ordered by stratum and low: counts of the rows whose key lies in [low, high].

    ``stratum`` numbers (batch, group, column), or (batch, group, column, window), in C order. Up to ``single`` rows
    ``seen`` a cell is a single key, beyond a range of 2**``shift`` keys. Fields may be empty: with weights there are
    only ``weight`` and, outside windows, ``fractional``, the rows whose weight is not a whole number; else ``hits``,
    the rows of outcome 1, and in ranges of keys ``score``, their exact sum.
    """

    seen: Counts
    single: Counts
    shift: Counts
    stratum: Counts
    low: Counts
    high: Counts
    rows: Counts
    weight: Array
    hits: Counts = _NO_HITS
    score: Counts = _NO_SCORE
    fractional: Counts = _NO_HITS

    def rows_of(self, strata: int) -> Counts:
        """The rows of each of so many strata."""
        rows = np.zeros(strata, np.int64)
        np.add.at(rows, self.stratum, self.rows)
        return rows


@dataclass(frozen=True)
class KeyCounts(Statistic[KeyCells]):
    """Counts of keys for every column of a setting: single keys up to 4096 rows, cells beyond.

    Parameters
    ----------
    setting : Setting
        Which columns of (score, outcome).
    bits : int, default 8
        A cell is a range of keys with equal leading bits: 2**-bits of a binary order of magnitude, at most 2**-12;
        wider where there are very many columns.

    Notes
    -----
    Memory: 64 bytes times the cells that hold a row, and while a block is counted 40 bytes times all cells.
    """

    setting: Setting
    bits: int = 8

    def bytes(self, layout: Layout) -> int:
        """At most: all cells may hold a row."""
        strata = layout.batch * layout.groups * self.setting.columns(layout.classes)
        cells = strata * _number_of_cells(_shift(strata, self.bits))
        held = cells if layout.rows is None else min(cells, layout.rows * strata // layout.groups)
        return cells * _BYTES_OF_A_CELL + held * _BYTES_OF_AN_ENTRY

    def from_block(self, block: Block) -> KeyCells:
        """Count one block."""
        scores = block.columns(self.setting).scores
        single = min(_EXACT_ROWS, _EXACT_KEYS // max(1, block.layout.batch * scores.shape[-1]))
        shift = _shift(block.layout.batch * block.layout.groups * scores.shape[-1], self.bits)
        counts = _single_keys if block.rows <= single else _cells
        seen = np.array(block.rows), np.array(single), np.array(shift)
        return _concatenated([KeyCells(*seen, *counts(block, self.setting, b, shift)) for b in _batch(block)])

    def merge(self, a: KeyCells, b: KeyCells) -> KeyCells:
        """Counts of both."""
        if a.seen + b.seen > a.single:
            a, b = _coarse(a), _coarse(b)
        return _merged(a, b, a.low, b.low)


@dataclass(frozen=True)
class WindowCounts(Statistic[KeyCells]):
    """Counts of keys within windows: cells of 2**shift keys, each with the smallest and the largest key seen.

    Parameters
    ----------
    setting : Setting
        Which columns of (score, outcome).
    low, high, shift : FrozenArray of int64, shape (batch, groups, columns, windows)
        Disjoint windows in increasing order and the size of their cells; windows that do not exist come last and start
        at the largest int64.
    rows : int
        How many rows the windows hold, over all strata.

    Notes
    -----
    Memory: 64 bytes times the cells that hold a row; a window of w rows and 2**b keys has at most w, and at most
    2**(b - shift). Windows are looked up in tables of 4 bytes times at most 2**21 cells, or 321 a column where these
    are more; while they are made these take ten times as much.
    """

    setting: Setting
    low: FrozenArray
    high: FrozenArray
    shift: FrozenArray
    rows: int

    def bytes(self, layout: Layout) -> int:
        """At most: no two rows share a cell, or every cell holds a row."""
        low, high, shift = (field.values for field in (self.low, self.high, self.shift))
        exists = low != NO_WINDOW
        # Single keys of wide windows are more than an int64 can count.
        cells = int((((high - low)[exists] >> shift[exists]) + 1).sum(dtype=np.float64))
        strata = int(np.prod(low.shape[:3]))
        # Of a fold the windows were chosen in all others.
        seen = self.rows if layout.rows is None else layout.rows * strata // layout.groups
        lookups = strata * _number_of_cells(_shift(strata, _LOOKUP_BITS))
        return min(cells, self.rows, seen) * _BYTES_OF_AN_ENTRY + lookups * _BYTES_OF_A_LOOKUP

    def from_block(self, block: Block) -> KeyCells:
        """Count one block."""
        return _concatenated([self._counted(block, b) for b in _batch(block)])

    def merge(self, a: KeyCells, b: KeyCells) -> KeyCells:
        """Counts of both."""
        return _merged(a, b, self._identity(a), self._identity(b))

    def _identity(self, cells: KeyCells) -> Counts:
        """Number of each cell within its window."""
        if self._all_single:
            return cells.low
        low, shift = (field.values.reshape(-1)[cells.stratum] for field in (self.low, self.shift))
        return np.asarray((cells.low - low) >> shift)

    @cached_property
    def _all_single(self) -> bool:
        return not self.shift.values.any()

    @cached_property
    def _lookup(self) -> tuple[int, int, npt.NDArray[np.int32]]:
        """Size and number of the cells by which windows are looked up; the first window to try in each, or -1."""
        strata = int(np.prod(self.low.values.shape[:3]))
        low, high = (field.values.reshape(strata, -1) for field in (self.low, self.high))
        shift = _shift(strata, _LOOKUP_BITS)
        size = _number_of_cells(shift)
        exists = low != NO_WINDOW
        first, last = (_cell(np.clip(keys, 0, _LARGEST), shift) for keys in (low, high))
        # A window has ended in all cells after its last one.
        over = np.zeros((strata, size + 1), np.int64)
        stratum = np.broadcast_to(np.arange(strata)[:, None], low.shape)
        np.add.at(over, (stratum[exists], last[exists] + 1), 1)
        window = np.cumsum(over[:, :size], axis=1)
        begun = window < exists.sum(1)[:, None]
        at = np.minimum(window, low.shape[1] - 1)
        begun &= np.take_along_axis(first, at, 1) <= np.arange(size)
        return shift, size, np.where(begun, window, -1).astype(np.int32).reshape(len(self.low.values), -1)

    def _counted(self, block: Block, b: int) -> KeyCells:
        """Rows of batch element b, collected in as many parts as the buffer of keys requires."""
        columns = block.columns(self.setting)
        scores, labels = columns.packed_of(b)
        shift, size, first = self._lookup
        columns_of_block = scores, labels, columns.first_class, block.weights_of(b), block.group
        windows = size, first[b], self.low.values[b], self.high.values[b]
        room = min(max(_KEYS_AT_ONCE, scores.shape[1]), max(scores.size, scores.shape[1], key_windows.TILE_ELEMENTS))
        collected = (
            np.empty(room, np.int64),
            np.empty(room, np.int64),
            np.empty(room if block.weights is not None else 0),
        )
        total, start = None, 0
        while total is None or start < block.rows:
            options = _options(scores, shift)
            count, start = key_windows.collect_keys(start, *columns_of_block, *options, *windows, *collected)
            part = self._table(b, *(field[:count] for field in collected), weighted=block.weights is not None)
            total = part if total is None else self.merge(total, part)
        return total._replace(seen=np.array(block.rows))

    def _table(self, b: int, keys: Counts, strata: Counts, masses: Array, *, weighted: bool) -> KeyCells:
        """The collected keys as ordered cells."""
        none = (np.array(0),) * 3
        if not weighted:
            return KeyCells(*none, *_counted_keys(b, keys, strata, self.low.values[b], self.shift.values[b]))
        keys = keys >> 1
        cells = KeyCells(*none, strata + b * self.low.values[b].size, keys, keys, np.ones_like(keys), masses)
        return gathered(cells, self._identity(cells))


def _batch(block: Block) -> range:
    return range(block.layout.batch)


def _shift(strata: int, bits: int) -> int:
    """Bits per cell, so that cells of all strata fit into a budget; at least 8 cells per binary order."""
    most = int(np.log2(max(8, _MOST_CELLS // (strata * (_OCTAVES + 1)))))
    return 52 - min(bits, most)


def _options(scores: np.ndarray, shift: int) -> tuple[Any, Any]:
    """Size of the cells and the smallest key of those above the lowest one, in patterns of the type of the scores."""
    if scores.dtype == np.float32:
        return np.int32(shift - key_cells.FLOAT32_BITS), _SMALLEST_32
    return np.int64(shift), np.int64(_SMALLEST)


def _number_of_cells(shift: int) -> int:
    return (_LARGEST >> shift) - (_SMALLEST >> shift) + 1


def _cell(keys: Counts, shift: int) -> Counts:
    """Number of the cell of each key."""
    return np.asarray((np.maximum(keys, _SMALLEST) >> shift) - (_SMALLEST >> shift))


def _bounds(cell: Counts, shift: int) -> tuple[Counts, Counts]:
    """First and last key of cells; the last cell has one only."""
    first = (cell + (_SMALLEST >> shift)) << shift
    return np.where(cell == 0, 0, first), np.minimum(first + (1 << shift) - 1, _LARGEST)


def _coarse(cells: KeyCells) -> KeyCells:
    """Convert single keys to cells; several keys may fall into one cell."""
    if cells.seen > cells.single:
        return cells
    low, high = _bounds(_cell(cells.low, int(cells.shift)), int(cells.shift))
    score = np.zeros((cells.hits.size, 2), np.int64)
    if score.size:
        offsets = np.zeros((2, cells.low.size), np.int64)
        key_sums.add_scores(_writable(cells.low), _writable(cells.rows), offsets, np.zeros_like(cells.low), score)
    return cells._replace(low=low, high=high, score=score)


def _single_keys(block: Block, setting: Setting, b: int, shift: int) -> tuple[np.ndarray, ...]:
    """One entry for each key: stratum, low, high, rows, weight, hits."""
    columns = block.columns(setting)
    scores, labels = columns.of(b)
    width = scores.shape[-1]
    keys = np.empty((width, block.rows), np.int64)
    ranks.score_keys(scores, keys)
    group = block.group if block.group.size else np.zeros(block.rows, np.int64)
    column = np.arange(width)[:, None]
    stratum = group.astype(np.int64) * width + column
    if block.weights is None:
        hits = labels == columns.first_class + column
        windows = np.zeros((2, block.layout.groups * width), np.int64)
        return _counted_keys(b, (2 * keys + hits).ravel(), stratum.ravel(), *windows)
    weights = block.weights_of(b)
    kept = np.broadcast_to(weights > 0, keys.shape)
    keys, stratum = keys[kept], stratum[kept] + b * block.layout.groups * width
    weight = np.broadcast_to(weights, kept.shape)[kept]
    fractional = (weight != np.floor(weight)).astype(np.int64)
    none = (np.array(0),) * 3
    cells = KeyCells(*none, stratum, keys, keys, np.ones_like(keys), weight, fractional=fractional)
    return gathered(cells, keys)[3:]


def _counted_keys(b: int, keys: Counts, strata: Counts, low: Counts, shift: Counts) -> tuple[np.ndarray, ...]:
    """Entries of collected keys, each twice the key plus the outcome, for windows that begin at ``low``."""
    ends = np.zeros(low.size + 1, np.int64)
    entries = tuple(np.empty((5, keys.size), np.int64))
    count = key_windows.sort_windows(keys, strata, low.flatten(), shift.flatten(), ends, *entries)
    stratum, lowest, highest, rows, hits = (field[:count].copy() for field in entries)
    return stratum + b * low.size, lowest, highest, rows, _NO_WEIGHT, hits


def _cells(block: Block, setting: Setting, b: int, shift: int) -> tuple[np.ndarray, ...]:
    """One entry for each cell that holds a row: stratum, low, high, rows, weight, hits, score."""
    columns = block.columns(setting)
    scores, labels = columns.packed_of(b)
    size = _number_of_cells(shift)
    shape = (block.layout.groups, scores.shape[-1], size)
    base = b * shape[0] * shape[1]
    if block.weights is not None:
        counts, masses = np.zeros((2, *shape), np.int64), np.zeros(shape)
        ranks.weigh_keys(scores, block.weights_of(b), block.group, shift, _SMALLEST, counts, masses)
        filled = np.flatnonzero(counts[0])
        bounds = _bounds(filled % size, shift)
        rows, fractional = counts.reshape(2, -1)[:, filled]
        return base + filled // size, *bounds, rows, masses.ravel()[filled], _NO_HITS, _NO_SCORE, fractional
    sums = np.zeros((4, np.prod(shape)), np.int64)
    columns_of_block = scores, labels, columns.first_class, block.group
    narrow = scores.dtype == np.float32
    add = key_cells.sum_cells_32 if narrow else key_cells.sum_cells_64
    add(*columns_of_block, *_options(scores, shift), size, sums)
    filled = np.flatnonzero(sums[0])
    rows, hits, *offsets = np.ascontiguousarray(sums[:, filled])
    low, high = _bounds(filled % size, shift)
    # Offsets of float32 scores count multiples of 2**-23 of their binary order of magnitude, and of 2**-52.
    unit = np.maximum(0, (low >> 52) - 1023 + key_cells.FLOAT32_BITS) if narrow else np.zeros_like(low)
    score = np.zeros((filled.size, 2), np.int64)
    key_sums.add_scores(low, rows, np.stack(offsets), unit, score)
    return base + filled // size, low, high, rows, _NO_WEIGHT, hits, score


def _concatenated(parts: list[KeyCells]) -> KeyCells:
    """Entries of consecutive batch elements."""
    if len(parts) == 1:
        return parts[0]
    entries = (np.concatenate(fields) for fields in zip(*(part[3:] for part in parts), strict=True))
    return KeyCells(*parts[0][:3], *entries)


def _merged(a: KeyCells, b: KeyCells, ids_a: Counts, ids_b: Counts) -> KeyCells:
    """Merge the entries of two states, adding entries of equal stratum and identity."""
    at = tuple(np.empty(len(ids), np.int64) for ids in (ids_a, ids_b))
    count = key_sums.merge_strata(*map(_writable, (a.stratum, ids_a, b.stratum, ids_b)), *at)
    weight, hits, score, fractional = (
        np.zeros((count if len(x) or len(y) else 0, *x.shape[1:]), x.dtype) for x, y in zip(a[7:], b[7:], strict=True)
    )
    total = np.zeros(count, np.int64), np.full(count, NO_WINDOW), np.full(count, -1), np.zeros(count, np.int64)
    for cells, entries in zip((a, b), at, strict=True):
        fields = cells.stratum, cells.low, cells.high, cells.rows, cells.hits, cells.score
        key_sums.add_entries(entries, *map(_writable, fields), *total, hits, score)
        for sums, added in ((weight, cells.weight), (fractional, cells.fractional)):
            if len(added):
                np.add.at(sums, entries, added)
    return KeyCells(a.seen + b.seen, a.single, a.shift, *total, weight, hits, score, fractional)


def _writable(field: Counts) -> Counts:
    """The array, or a copy: kernels would be compiled again for read-only arrays from another process."""
    return np.require(field, requirements=["C", "W"])


def joined(a: KeyCells, b: KeyCells) -> KeyCells:
    """Entries of both, not yet sorted."""
    entries = (np.concatenate(pair) for pair in zip(a[3:], b[3:], strict=True))
    return KeyCells(a.seen + b.seen, a.single, a.shift, *entries)


def gathered(cells: KeyCells, identity: Counts) -> KeyCells:
    """Entries with a weight sorted by stratum and cell identity; those that share both are added up."""
    order = np.lexsort((identity, cells.stratum))
    identity = identity[order]
    stratum, low, high, rows = (field[order] for field in cells[3:7])
    weight = cells.weight[order]
    if not stratum.size:
        return cells
    new = np.r_[True, (stratum[1:] != stratum[:-1]) | (identity[1:] != identity[:-1])]
    starts = np.flatnonzero(new)
    return KeyCells(
        cells.seen,
        cells.single,
        cells.shift,
        stratum[starts],
        np.minimum.reduceat(low, starts),
        np.maximum.reduceat(high, starts),
        np.add.reduceat(rows, starts),
        np.add.reduceat(weight, starts),
        fractional=np.add.reduceat(cells.fractional[order], starts) if cells.fractional.size else cells.fractional,
    )
