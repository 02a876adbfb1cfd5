"""Values of categories and cells of numbers, counted before features are cut."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels.lattice import count_bytes, count_keys
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts
from calibdask.statistics.frozen import read_only
from calibdask.statistics.lattice.coding import category_numbers, is_absent, numbers
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Statistic, SumStatistic

# More distinct texts are identifiers, of which nothing is learnt.
MOST_TEXTS = 1_000_000
# Cells of the window of all keys, and of further windows.
WHOLE_BITS, CELL_BITS = 18, 16
WHOLE = (64 - WHOLE_BITS, -(1 << (WHOLE_BITS - 1)))


def counted_rows(block: Block) -> npt.NDArray[np.bool_] | slice:
    """Mask of the rows with a positive weight."""
    return slice(None) if block.weights is None else block.weights_of(0) > 0


class ValueKeysState(NamedTuple):
    """Cells of all windows that have rows, increasing, their rows, and the least and largest key of each.

    Rows with a value and without one.
    """

    cells: Counts
    counts: Counts
    low: Counts
    high: Counts
    present: Counts
    missing: Counts


@dataclass(frozen=True)
class ValueKeys(Statistic[ValueKeysState]):
    """Rows by cells of numbers: ranges of equal leading bits of order-preserving keys.

    Parameters
    ----------
    column : int
    part : str
        Of dates, see `calibdask.statistics.lattice.coding`.
    windows : tuple of (int, int)
        The bits that keys of a cell may differ in, and the number of the first cell.
    bits : int
        Of the numbers of the cells of a window.
    """

    column: int
    part: str
    windows: tuple[tuple[int, int], ...] = (WHOLE,)
    bits: int = WHOLE_BITS

    def bytes(self, layout: Layout) -> int:
        """Memory of a state, at most."""
        cells = len(self.windows) << self.bits
        return 32 * (cells if layout.rows is None else min(cells, layout.rows))

    def from_block(self, block: Block) -> ValueKeysState:
        """Cells of one block."""
        shifts, bases = (np.array(field, np.int64) for field in zip(*self.windows, strict=True))
        shape = len(self.windows), 1 << self.bits
        counts, totals = np.zeros(shape, np.int64), np.zeros(2, np.int64)
        low, high = np.empty((2, *shape), np.int64)
        values, repeats = distinct(numbers(block, self.column, self.part)[counted_rows(block)])
        count_keys(read_only(values), repeats, shifts, bases, counts, low, high, totals)
        cells = np.flatnonzero(counts > 0)
        of_cells = (table.reshape(-1)[cells] for table in (counts, low, high))
        return ValueKeysState(cells, *of_cells, *map(np.asarray, totals))

    def merge(self, a: ValueKeysState, b: ValueKeysState) -> ValueKeysState:
        """Cells of both."""
        cells, counts, low, high = map(np.concatenate, zip(a[:4], b[:4], strict=True))
        # Of two runs that rise a stable sort makes one merge.
        order = np.argsort(cells, kind="stable")
        starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
        return ValueKeysState(
            cells[order][starts],
            np.add.reduceat(counts[order], starts),
            np.minimum.reduceat(low[order], starts),
            np.maximum.reduceat(high[order], starts),
            np.asarray(a.present + b.present),
            np.asarray(a.missing + b.missing),
        )

    def of_window(self, state: ValueKeysState, window: int) -> tuple[Counts, Counts, Counts, Counts]:
        """Numbers of the cells of one window, their rows, and the least and largest key of each."""
        here = slice(*np.searchsorted(state.cells, np.array([window, window + 1]) << self.bits))
        return state.cells[here] - (window << self.bits), state.counts[here], state.low[here], state.high[here]


def distinct(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Counts]:
    """Different values of one byte, and how often there are each; others as they are, and no counts."""
    if values.dtype.itemsize > 1:
        return values, np.zeros(0, np.int64)
    counts = np.zeros((4, 256), np.int64)
    count_bytes(read_only(values.view(np.uint8)), counts)
    rows = counts.sum(0)
    there = np.flatnonzero(rows)
    return there.astype(np.uint8).view(values.dtype), rows[there]


class CodeCountsState(NamedTuple):
    """Rows by number of category, those without one last."""

    counts: Counts


@dataclass(frozen=True)
class CodeCounts(SumStatistic[CodeCountsState]):
    """Rows by category of a column that holds numbers of ``size`` categories, -1 for none."""

    column: int
    size: int

    def from_block(self, block: Block) -> CodeCountsState:
        """Counts of one block."""
        codes = category_numbers(block.features[self.column][counted_rows(block)])
        return CodeCountsState(np.roll(np.bincount(codes + 1, minlength=self.size + 1), -1))


class TextCountsState(NamedTuple):
    """Sorted distinct values as texts, and their rows; rows without a value, with a text, and with others.

    ``too_many``: there are more values than are told, and none is.
    """

    values: npt.NDArray[np.object_]
    counts: Counts
    missing: Counts
    kinds: Counts
    too_many: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TextCounts(Statistic[TextCountsState]):
    """Rows by value of a column of texts or other objects, which count as their texts."""

    column: int

    def from_block(self, block: Block) -> TextCountsState:
        """Counts of one block."""
        given = Counter(block.features[self.column][counted_rows(block)].tolist())
        missing = sum(count for value, count in given.items() if is_absent(value))
        present = {value: count for value, count in given.items() if not is_absent(value)}
        texts = sum(count for value, count in present.items() if isinstance(value, str))
        counts: Counter[str] = Counter()
        for value, count in present.items():
            counts[str(value)] += count
        kinds = np.array([texts, sum(present.values()) - texts])
        return _as_state(counts, np.array(missing), kinds, too_many=False)

    def merge(self, a: TextCountsState, b: TextCountsState) -> TextCountsState:
        """Counts of both."""
        counts = _as_counter(a)
        counts.update(_as_counter(b))
        missing, too_many = np.asarray(a.missing + b.missing), bool(a.too_many | b.too_many)
        return _as_state(counts, missing, a.kinds + b.kinds, too_many=too_many)


def _as_state(counts: "Counter[str]", missing: Counts, kinds: Counts, *, too_many: bool) -> TextCountsState:
    too_many |= len(counts) > MOST_TEXTS
    listed = [] if too_many else sorted(counts)
    values = np.empty(len(listed), object)
    values[:] = listed
    return TextCountsState(
        values, np.array([counts[value] for value in listed], np.int64), missing, kinds, np.array(too_many)
    )


def _as_counter(state: TextCountsState) -> "Counter[Any]":
    return Counter(dict(zip(state.values.tolist(), state.counts.tolist(), strict=True)))
