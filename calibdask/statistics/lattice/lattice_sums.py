"""Sums of rows by segment and by cell of scores: what an audit computes all its numbers from."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import lattice
from calibdask.kernels.compiled import FRACTION_BITS
from calibdask.statistics import exact
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.lattice.coding import Coding
from calibdask.statistics.lattice.segments import Segments, Subset
from calibdask.statistics.lattice.value_counts import counted_rows
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

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
        segments, cells = self.segments, self.edges.bins
        scores, hits = block.columns(self.setting).column(0, 0, np.arange(block.rows))
        thresholds = self.edges.thresholds(np.float64)[0, 0, 0]
        cell = np.searchsorted(thresholds, scores, "left").astype(np.int32)
        rows = scores, hits, cell, self._codes(block)
        numbering = segments.padded, np.array(segments.sizes, np.int64), segments.base, cells
        shape = (segments.count, cells)
        if block.weights is not None:
            return _weighted(block, rows, numbering, shape)
        counts, score = np.zeros((2, *shape), np.int64), exact.zeros(shape, weighted=False)
        spread = exact.zeros(shape[:1], weighted=False)
        for start in range(0, block.rows, lattice.MOST_ROWS):
            here = slice(start, start + lattice.MOST_ROWS)
            table, square = np.zeros((np.prod(shape), 2), np.int64), np.zeros(shape[0], np.int64)
            s, hit, at, codes = (array[..., here] for array in rows)
            lattice.fill(np.ascontiguousarray(codes), at, hit, s, *numbering, table, square)
            counts[0] += (table[:, 0] & _WORD).reshape(shape)
            counts[1] += (table[:, 0] >> _HITS).reshape(shape)
            score = exact.add(score, _words(table[:, 1]).reshape(*shape, 2))
            spread = exact.add(spread, _words(square))
        return LatticeState(*counts, score, *(np.zeros(0),) * 2, spread, np.zeros(0), np.zeros(()))

    def _codes(self, block: Block) -> np.ndarray:
        """Values of all features, (features, n); computed once for all parts of a lattice."""
        if self.features not in block.prepared:
            codes = [feature.codes(block) for feature in self.features]
            block.prepared[self.features] = np.stack(codes) if codes else np.zeros((0, block.rows), np.uint8)
        known: np.ndarray = block.prepared[self.features]
        return known

    def merge(self, a: LatticeState, b: LatticeState) -> LatticeState:
        """Sums of both."""
        added = [x + y for x, y in zip(a[:2], b[:2], strict=True)]
        sums = [exact.add(x, y) for x, y in zip(a[2:-1], b[2:-1], strict=True)]
        return LatticeState(*added, *sums, np.asarray(np.maximum(a.largest, b.largest)))


def _weighted(
    block: Block,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    numbering: tuple[Counts, Counts, Counts, int],
    shape: tuple[int, int],
) -> LatticeState:
    weights = block.weights_of(0)
    kept = counted_rows(block)
    s, hit, at, codes = (np.ascontiguousarray(array[..., kept]) for array in rows)
    size = int(np.prod(shape))
    counts, sums, moments = np.zeros(size, np.int64), np.zeros((size, 3)), np.zeros((shape[0], 2))
    lattice.fill_weighted(codes, at, hit, s, weights[kept], *numbering, counts, sums, moments)
    weight, outcome, score = (np.ascontiguousarray(column).reshape(shape) for column in sums.T)
    spread, square = np.ascontiguousarray(moments.T)
    rows_hits = (counts & _WORD).reshape(shape), (counts >> _HITS).reshape(shape)
    largest = np.asarray(weights.max(initial=0.0))
    return LatticeState(*rows_hits, score, weight, outcome, spread, square, largest)


def _words(sums: Counts) -> Counts:
    """Multiples of 2**-40 as words."""
    fraction = (sums & ((1 << lattice.UNIT_BITS) - 1)) << (FRACTION_BITS - lattice.UNIT_BITS)
    return np.stack([sums >> lattice.UNIT_BITS, fraction], axis=-1)
