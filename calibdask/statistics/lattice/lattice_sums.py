"""Sums of rows by segment and by cell of scores: what an audit computes all its numbers from."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import lattice
from calibdask.kernels.compiled import FRACTION_BITS
from calibdask.statistics import exact
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.block import Block, read_only
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.lattice.coding import Coding
from calibdask.statistics.lattice.segments import Segments, Subset
from calibdask.statistics.lattice.value_counts import counted_rows
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

# Tables of one cell stay in the cache of the processor while its rows pass; few rows are not worth wide ones.
_TABLE_BYTES, _FEW_TABLE_BYTES, _FEW_ROWS = 1 << 15, 1 << 12, 1 << 16
_ROW_BYTES = 24
_ROWS_AT_ONCE, _GROUPS_AT_ONCE = 1 << 18, 64
_HITS = 32
_WORD = (1 << _HITS) - 1


class LatticeState(NamedTuple):
    """Sums by segment (and cell); see `calibdask.statistics.exact` for the type of sums.

    By segment and cell: ``rows`` of positive weight, ``hits`` among them; sums of w * score, and with weights of w and
    w * outcome, which are empty without. By segment: sums of w**2 s (1 - s) and, with weights, of w**2. ``largest``:
    the largest weight.
    """

    rows: Counts
    hits: Counts
    score: Sums
    weight: Array
    outcome: Array
    spread: Sums
    weight_square: Array
    largest: Array


@dataclass(frozen=True)
class LatticeSums(Statistic[LatticeState]):
    """Rows, outcomes and scores by segment and cell of scores, for all conjunctions of values of some features.

    Parameters
    ----------
    setting : Setting
        Of one column.
    edges : Edges
        Of the cells of scores.
    features : tuple of Coding
    subsets : tuple of tuple of int
        The features of the segments; see `Segments`.

    Notes
    -----
    Scores are rounded to multiples of 2**-40. One pass; memory 32 bytes for each segment and cell, with weights 40.
    """

    setting: Setting
    edges: Edges
    features: tuple[Coding, ...]
    subsets: tuple[Subset, ...]

    @property
    def segments(self) -> Segments:
        """The numbering."""
        return Segments(tuple(feature.size for feature in self.features), self.subsets)

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return self.segments.count * self.edges.bins * (40 if layout.weighted else 32)

    def from_block(self, block: Block) -> LatticeState:
        """Sums of one block."""
        rows = self._rows(block)
        totals = _Totals.empty(self.segments, self.edges.bins, weighted=rows.weights is not None)
        # Tables of several features are filled; those of subsets are sums of them.
        groups = _groups(self.segments, (_FEW_TABLE_BYTES if block.rows < _FEW_ROWS else _TABLE_BYTES) // _ROW_BYTES)
        for start in range(0, max(1, block.rows), lattice.MOST_ROWS):
            stop = min(start + lattice.MOST_ROWS, rows.cells.size)
            for some in range(0, len(groups), _GROUPS_AT_ONCE):
                totals.add(groups[some : some + _GROUPS_AT_ONCE], rows, start, stop)
        return totals.state(float(block.weights_of(0).max(initial=0.0)))

    def _rows(self, block: Block) -> "_Rows":
        """What is added up of the rows of positive weight."""
        columns = block.columns(self.setting)
        given, labels = columns.of(0)
        scores, cells = np.empty(block.rows), np.empty(block.rows, np.uint32)
        lattice.row_cells(read_only(given[:, 0]), self._thresholds, cells, scores)
        hits = labels == columns.first_class
        codes = self._codes(block)
        if block.weights is None:
            return _Rows(codes, cells, hits, scores, None)
        kept = counted_rows(block)
        codes = np.ascontiguousarray(codes[:, kept])
        return _Rows(codes, cells[kept], hits[kept], scores[kept], block.weights_of(0)[kept])

    @property
    def _thresholds(self) -> Array:
        """Those of the cells, and infinite ones up to one less than a power of two."""
        inner = self.edges.thresholds(np.float64)[0, 0, 0]
        padded = np.full((1 << inner.size.bit_length()) - 1, np.inf)
        padded[: inner.size] = inner
        return padded

    def _codes(self, block: Block) -> np.ndarray:
        """Values of all features, (features, n); computed once for all parts of a lattice."""
        if self.features not in block.prepared:
            codes = [feature.codes(block) for feature in self.features]
            block.prepared[self.features] = np.stack(codes) if codes else np.zeros((0, block.rows), np.uint8)
        known: np.ndarray = block.prepared[self.features]
        return known

    def merge(self, a: LatticeState, b: LatticeState) -> LatticeState:
        """Sums of both."""
        return LatticeState(
            rows=a.rows + b.rows,
            hits=a.hits + b.hits,
            score=exact.add(a.score, b.score),
            weight=a.weight + b.weight,
            outcome=a.outcome + b.outcome,
            spread=exact.add(a.spread, b.spread),
            weight_square=a.weight_square + b.weight_square,
            largest=np.asarray(np.maximum(a.largest, b.largest)),
        )


class _Rows(NamedTuple):
    """Rows of a block: values of features (features, n), cells of scores, and what is added up."""

    codes: npt.NDArray[np.uint8]
    cells: npt.NDArray[np.uint32]
    hits: npt.NDArray[np.bool_]
    scores: Array
    weights: Array | None

    def sorted(self, first: int, last: int, cells: int) -> "_Sorted":
        """Rows from first to before last by cell."""
        order, starts = np.empty(last - first, np.uint32), np.empty(cells + 1, np.int64)
        lattice.sort_by_cell(self.cells, first, starts, order)
        codes = np.empty((len(self.codes), order.size), np.uint8)
        lattice.sort_codes(self.codes, order, codes)
        terms = None
        if self.weights is None:
            terms = np.empty((order.size, 3), np.int64)
            lattice.sort_terms(self.hits, self.scores, order, terms)
        return _Sorted(codes, starts, order, terms)


class _Sorted(NamedTuple):
    """Some of the rows by cell of scores."""

    codes: npt.NDArray[np.uint8]
    starts: Counts
    order: npt.NDArray[np.uint32]
    terms: Counts | None


@lru_cache(maxsize=8)
def _groups(segments: Segments, most: int) -> list[tuple[Subset, list[Subset]]]:
    return segments.groups(most)


class _Table(NamedTuple):
    """Sums by cell and values of a group of features, see the kernels."""

    words: Counts
    sums: Array

    @classmethod
    def empty(cls, cells: int, values: int, *, weighted: bool) -> "_Table":
        """Sums of nothing."""
        words = np.zeros((cells, values, 1 if weighted else 3), np.int64)
        return cls(words, np.zeros((cells if weighted else 0, values, 5)))

    def add(self, group: Subset, sizes: Counts, some: _Sorted, rows: _Rows) -> None:
        """Add some of the rows."""
        numbering = some.codes, np.array(group, np.int64), sizes, some.starts
        if rows.weights is None:
            lattice.fill(*numbering, some.terms, self.words)
        else:
            lattice.fill_weighted(*numbering, some.order, rows.hits, rows.scores, rows.weights, *self)


class _Totals(NamedTuple):
    """Sums of all segments, to be added to."""

    segments: Segments
    sizes: Counts
    cells: int
    counts: Counts
    score: Sums
    spread: Sums
    sums: Array
    weight_square: Array

    @classmethod
    def empty(cls, segments: Segments, cells: int, *, weighted: bool) -> "_Totals":
        """Sums of nothing."""
        shape = (segments.count, cells)
        score, spread = exact.zeros(shape, weighted=weighted), exact.zeros(shape[:1], weighted=weighted)
        sums, square = (np.zeros((2, *shape)), np.zeros(shape[0])) if weighted else (np.zeros((2, 0)), np.zeros(0))
        sizes = np.array(segments.sizes, np.int64)
        return cls(segments, sizes, cells, np.zeros((2, *shape), np.int64), score, spread, sums, square)

    def add(self, groups: list[tuple[Subset, list[Subset]]], rows: _Rows, start: int, stop: int) -> None:
        """Add rows to the segments of some subsets of groups of features."""
        weighted = rows.weights is not None
        tables = [_Table.empty(self.cells, self._values(group), weighted=weighted) for group, _ in groups]
        for first in range(start, stop, _ROWS_AT_ONCE):
            some = rows.sorted(first, min(stop, first + _ROWS_AT_ONCE), self.cells)
            for (group, _), table in zip(groups, tables, strict=True):
                table.add(group, self.sizes, some, rows)
        for (group, subsets), table in zip(groups, tables, strict=True):
            for at, words in self._marginals(table.words, group, subsets):
                self.counts[0, at] += words[..., 0] & _WORD
                self.counts[1, at] += words[..., 0] >> _HITS
                if not weighted:
                    self.score[at] = exact.add(self.score[at], _words(words[..., 1]))
                    self.spread[at] = exact.add(self.spread[at], _words(words[..., 2].sum(-1)))
            for at, sums in self._marginals(table.sums, group, subsets if weighted else []):
                self.sums[:, at] += np.moveaxis(sums[..., :2], -1, 0)
                self.score[at] += sums[..., 2]
                self.spread[at] += sums[..., 3].sum(-1)
                self.weight_square[at] += sums[..., 4].sum(-1)

    def _values(self, group: Subset) -> int:
        return int(np.prod([self.segments.sizes[i] for i in group], dtype=np.int64))

    def _marginals(
        self, table: npt.NDArray[Any], group: Subset, subsets: list[Subset]
    ) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """Where the segments of each subset are, and their sums by cell."""
        known = {group: table.reshape(self.cells, *(self.segments.sizes[i] for i in group), -1)}
        for subset in subsets:
            sums = _marginal(subset, group, known).reshape(self.cells, self._values(subset), -1)
            first = self.segments.first(subset)
            yield slice(first, first + self._values(subset)), np.moveaxis(sums, 0, 1)

    def state(self, largest: float) -> LatticeState:
        """The state."""
        (rows, hits), (weight, outcome) = self.counts, self.sums
        square, most = self.weight_square, np.asarray(largest, np.float64)
        return LatticeState(rows, hits, self.score, weight, outcome, self.spread, square, most)


def _marginal(subset: Subset, group: Subset, known: dict[Subset, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The table of some of the features of a group, from the smallest one that is known; features follow the cells."""
    if subset not in known:
        wider = [tuple(sorted((*subset, further))) for further in group if further not in subset]
        above = next((features for features in wider if features in known), wider[0])
        (axis,) = (1 + place for place, feature in enumerate(above) if feature not in subset)
        known[subset] = _marginal(above, group, known).sum(axis)
    return known[subset]


def _words(sums: Counts) -> Counts:
    """Multiples of 2**-40 as words."""
    fraction = (sums & ((1 << lattice.UNIT_BITS) - 1)) << (FRACTION_BITS - lattice.UNIT_BITS)
    return np.stack([sums >> lattice.UNIT_BITS, fraction], axis=-1)
