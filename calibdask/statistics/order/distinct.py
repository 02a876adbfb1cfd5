"""Rows grouped by their score: the data that isotonic regression and cumulative differences need."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

# Most distinct scores of all strata together, and at least this many for each stratum.
_MOST = 1 << 22
_FEWEST = 1 << 12


class DistinctState(NamedTuple):
    """Sums by distinct score, in order of stratum and score.

    ``many`` (strata,): 1 where there are more distinct scores than fit; such strata have no entries. Strata number
    (batch, group, column) in C order. ``stratum`` and ``score`` (entries,); ``weight`` and ``outcome``, sums of w and
    w * o, int64 without weights; ``square`` and ``square_outcome``, sums of w**2 and of w**2 * o, without entries where
    there are no weights.
    """

    many: Counts
    stratum: Counts
    score: Array
    weight: Sums
    outcome: Sums
    square: Array
    square_outcome: Array


def most_distinct(count: int) -> int:
    """How many distinct scores each of ``count`` strata may have."""
    return max(_FEWEST, _MOST // count)


@dataclass(frozen=True)
class DistinctScores(Statistic[DistinctState]):
    """Rows and outcomes by distinct score, for every column of a setting.

    Notes
    -----
    Exact in every chunking: the entries of a stratum are dropped when its rows have more than `most_distinct` scores,
    about four million for all strata together. Memory: 32 bytes for each distinct score, with weights 48. O(n log n)
    time.
    """

    setting: Setting

    def bytes(self, layout: Layout) -> int:
        """Memory of a state, at most."""
        count = layout.batch * layout.groups * self.setting.columns(layout.classes)
        most = count * most_distinct(count)
        return 48 * (most if layout.rows is None else min(most, layout.rows * count // layout.groups))

    def from_block(self, block: Block) -> DistinctState:
        """Group the rows of one block."""
        layout, columns = block.layout, block.columns(self.setting)
        count = columns.scores.shape[-1]
        entries: list[tuple[Any, ...]] = []
        for b, g, index in block.strata:
            weights = block.weights_of(b)[index] if block.weights is not None else np.ones(index.size, np.int64)
            for c in range(count):
                stratum = np.full(index.size, (b * layout.groups + g) * count + c)
                score, hits = columns.column(b, c, index)
                # Weights that are too large are refused after the pass.
                with np.errstate(over="ignore", invalid="ignore"):
                    weighted_hits = weights * hits
                    square = weights**2 if block.weights is not None else np.zeros(0)
                    squared_hits = square * hits if square.size else square
                # Adding 0.0 turns -0.0 into 0.0.
                entries.append((stratum, score + 0.0, weights, weighted_hits, square, squared_hits))
        many = np.zeros(layout.batch * layout.groups * count, np.int64)
        dtype = np.int64 if block.weights is None else np.float64
        nothing = (np.zeros(0, np.int64), np.zeros(0), np.zeros(0, dtype), np.zeros(0, dtype), np.zeros(0), np.zeros(0))
        fields = [np.concatenate(parts) for parts in zip(nothing, *entries, strict=True)]
        return self._grouped(DistinctState(many, *fields))

    def merge(self, a: DistinctState, b: DistinctState) -> DistinctState:
        """Rows of both."""
        fields = (np.concatenate(pair) for pair in zip(a[1:], b[1:], strict=True))
        return self._grouped(DistinctState(np.maximum(a.many, b.many), *fields))

    def _grouped(self, state: DistinctState) -> DistinctState:
        """One entry for each distinct score, and none for strata that have too many."""
        order = np.lexsort((state.score, state.stratum))
        stratum, score = state.stratum[order], state.score[order]
        new = np.r_[True, (np.diff(stratum) != 0) | (np.diff(score) != 0)][: stratum.size]
        first = np.flatnonzero(new)
        weight, outcome = (_added(values[order], first) for values in (state.weight, state.outcome))
        squares = [
            _added(values[order], first) if values.size else values for values in (state.square, state.square_outcome)
        ]
        stratum, score = stratum[first], score[first]
        size = state.many.size
        many = np.maximum(state.many, np.bincount(stratum, minlength=size) > most_distinct(size))
        kept = many[stratum] == 0
        squares = [values[kept] if values.size else values for values in squares]
        return DistinctState(many, stratum[kept], score[kept], weight[kept], outcome[kept], *squares)


def _added(values: Sums, first: Counts) -> Sums:
    return np.add.reduceat(values, first) if first.size else values[:0]
