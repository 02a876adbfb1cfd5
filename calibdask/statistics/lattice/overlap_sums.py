"""Sums over the rows that some segments share, two by two: what tells segments apart that only share rows."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import overlaps
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Sums
from calibdask.statistics.lattice.coding import Coding, codes_of
from calibdask.statistics.lattice.segments import Subset
from calibdask.statistics.lattice.value_counts import counted_rows
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import SumStatistic

_TERMS, _WEIGHTED_TERMS = 9, 11
# Sums of so many rows in units of 2**-40 fit in an int64.
_ROWS_AT_ONCE = 1 << 18


class OverlapState(NamedTuple):
    """Sums by two segments i <= j and term; see `calibdask.statistics.exact` for the type, and `OverlapSums`."""

    sums: Sums


@dataclass(frozen=True)
class OverlapSums(SumStatistic[OverlapState]):
    """Sums over the rows of each two of some segments; with v = s (1 - s), e = o - s.

    Without weights of 1, v, v**2, v**3, e**2, e**2 v, e**2 v**2, e and e v; with weights of w (1, v, v**2),
    w**2 (v, v**2, v**3, e**2, e**2 v, e**2 v**2), w e and w e v.

    Parameters
    ----------
    setting : Setting
        Of one column.
    features : tuple of Coding
    segments : tuple of (tuple of int, tuple of int)
        The features of each segment, and its value of each.

    Notes
    -----
    Terms are rounded to multiples of 2**-40. Memory 144 bytes for each two segments, with weights 88.
    """

    setting: Setting
    features: tuple[Coding, ...]
    segments: tuple[tuple[Subset, tuple[int, ...]], ...]

    counts = 0

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return len(self.segments) ** 2 * (8 * _WEIGHTED_TERMS if layout.weighted else 16 * _TERMS)

    def from_block(self, block: Block) -> OverlapState:
        """Sums of one block."""
        columns = block.columns(self.setting)
        scores, labels = columns.of(0)
        kept = counted_rows(block)
        codes = np.ascontiguousarray(codes_of(self.features, block)[:, kept])
        hits, scores = (labels == columns.first_class)[kept], np.ascontiguousarray(scores[kept, 0], np.float64)
        weights = None if block.weights is None else block.weights_of(0)[kept]
        return OverlapState(self._sums(codes, hits, scores, weights))

    def _sums(
        self,
        codes: npt.NDArray[np.uint8],
        hits: npt.NDArray[np.bool_],
        scores: npt.NDArray[np.float64],
        weights: npt.NDArray[np.float64] | None,
    ) -> Sums:
        count = len(self.segments)
        words = exact.zeros((count, count, _TERMS if weights is None else _WEIGHTED_TERMS), weighted=weights is not None)
        sums: npt.NDArray[Any] = np.zeros(words.shape[:3], np.int64) if weights is None else words
        features, values = self._conditions
        for first in range(0, hits.size, _ROWS_AT_ONCE):
            here = slice(first, first + _ROWS_AT_ONCE)
            terms = np.empty((hits[here].size, sums.shape[-1]), sums.dtype)
            if weights is None:
                overlaps.overlap_terms(hits[here], scores[here], terms)
            else:
                overlaps.weighted_overlap_terms(hits[here], scores[here], weights[here], terms)
            overlaps.add_overlaps(np.ascontiguousarray(codes[:, here]), features, values, terms, sums)
            if weights is None:
                overlaps.carry_overlaps(sums, words)
        return words

    @property
    def _conditions(self) -> tuple[exact.Counts, exact.Counts]:
        """Features and values of segments, (segments, depth); features of -1 are none."""
        depth = max((len(subset) for subset, _ in self.segments), default=0)
        padded = [([*s, *[-1] * (depth - len(s))], [*v, *[0] * (depth - len(v))]) for s, v in self.segments]
        both = np.array(padded, np.int64).reshape(len(padded), 2, depth)
        return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])
