"""Sums over the rows that pairs of segments share, for their partial effects."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import overlaps
from calibdask.kernels.lattice import UNIT_BITS
from calibdask.statistics import exact
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.lattice.coding import Coding
from calibdask.statistics.lattice.lattice_rows import LatticeRows
from calibdask.statistics.lattice.segments import Subset
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import SumStatistic

# A segment: its features, and the value of each.
Conditions = tuple[Subset, tuple[int, ...]]

# What a row adds: see `overlap_terms`. Sums of so many rows in units of 2**-40 fit in an int64.
TERMS = 9
_ROWS_AT_ONCE = 1 << 20
_UNIT = float(1 << UNIT_BITS)
_LEAST_SHIFT = 2.0**-20


def shifts(scores: Array) -> Array:
    """Derivative of scores by a shift of the log-odds: s (1 - s), at least 1e-6."""
    return np.maximum(scores * (1 - scores), _LEAST_SHIFT)


def overlap_terms(scores: Array) -> Array:
    """Terms that a row of score s adds, shape (scores, 2, 9), by outcome o.

    1, g, g**2; v, v g, v g**2; e**2, e**2 g, e**2 g**2, where v = s (1 - s), e = o - s, and g is their shift.
    """
    s = np.stack([scores, scores], axis=-1)
    g, v, square = shifts(s), s * (1 - s), (np.array([0.0, 1.0]) - s) ** 2
    return np.stack([factor * g**power for factor in (np.ones_like(s), v, square) for power in range(3)], axis=-1)


class OverlapState(NamedTuple):
    """Sums of segments i <= j by term, (segments, segments, 9); see `calibdask.statistics.exact` for their type.

    Without weights ``rest`` is what rounding leaves, in units of 2**-40: squares of small scores need it.
    """

    sums: Sums
    rest: Sums

    @property
    def value(self) -> Array:
        """The sums as float64."""
        return exact.value(self.sums) + (exact.value(self.rest) / _UNIT if self.rest.size else 0.0)


@dataclass(frozen=True)
class OverlapSums(SumStatistic[OverlapState]):
    """Sums of `overlap_terms` over the rows shared by each pair of segments, with cell scores.

    With weights the first three terms are multiplied by w, the others by w**``power``.

    Parameters
    ----------
    setting : Setting
        Of one column.
    edges : Edges
        Of the cells of scores.
    scores : FrozenArray
        The score that stands for each cell.
    features : tuple of Coding
    segments : tuple of (tuple of int, tuple of int)
        The features of each segment, and its value of each.
    power : int
        2, or 1 for the exponents of rows in clusters, which bound sums of squares over clusters.

    Notes
    -----
    Terms are rounded to multiples of 2**-80. Memory 288 bytes for each two segments, with weights 72.
    """

    setting: Setting
    edges: Edges
    scores: FrozenArray
    features: tuple[Coding, ...]
    segments: tuple[Conditions, ...]
    power: int = 2

    counts = 0

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return len(self.segments) ** 2 * TERMS * (8 if layout.weighted else 32)

    def from_block(self, block: Block) -> OverlapState:
        """Sums of one block."""
        rows = LatticeRows.of(block, self.setting, self.edges, self.features)
        groups = 2 * rows.cells + rows.hits
        features, values = self._conditions
        terms = overlap_terms(self.scores.values).reshape(-1, TERMS)
        whole = np.floor(terms * _UNIT)
        units = np.concatenate([whole, np.rint((terms * _UNIT - whole) * _UNIT)], axis=1).astype(np.int64)
        weighted = rows.weights is not None
        sums = exact.zeros((*[len(self.segments)] * 2, TERMS if weighted else 2 * TERMS), weighted=weighted)
        for first in range(0, groups.size, _ROWS_AT_ONCE):
            last = min(groups.size, first + _ROWS_AT_ONCE)
            codes, starts, order = rows.sorted(groups, first, last, len(terms))
            if rows.weights is None:
                overlaps.add_overlaps(codes, starts, features, values, units, sums)
            else:
                weights = rows.weights[order]
                squares = weights**self.power
                overlaps.add_weighted_overlaps(codes, starts, features, values, weights, squares, terms, sums)
        return OverlapState(sums[:, :, :TERMS], sums[:, :, TERMS:])

    @property
    def _conditions(self) -> tuple[Counts, Counts]:
        """Features and values of segments, (segments, depth); features of -1 are none."""
        depth = max((len(subset) for subset, _ in self.segments), default=0)
        padded = [([*s, *[-1] * (depth - len(s))], [*v, *[0] * (depth - len(v))]) for s, v in self.segments]
        both = np.array(padded, np.int64).reshape(len(padded), 2, depth)
        return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])
