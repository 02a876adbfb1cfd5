"""Rows gathered by their score: all that isotonic regression and cumulative differences need to know of the data."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

__all__ = ["DistinctScores", "DistinctState", "most_distinct"]

# Distinct scores of all places together, and the fewest that a place may have.
_MOST = 1 << 22
_FEWEST = 1 << 12


class DistinctState(NamedTuple):
    """Sums by distinct score, in order of place and score.

    ``many`` (places,): 1 where there are more distinct scores than fit; such places have no entries. Place numbers
    (batch, group, column) in C order. ``place`` and ``score`` (entries,); ``weight`` and ``outcome``, sums of w and
    w * o, int64 without weights; ``square``, sums of w**2, without entries where there are no weights.
    """

    many: Counts
    place: Counts
    score: Array
    weight: Sums
    outcome: Sums
    square: Array


def most_distinct(count: int) -> int:
    """How many distinct scores each of ``count`` places keeps."""
    return max(_FEWEST, _MOST // count)


@dataclass(frozen=True)
class DistinctScores(Statistic):
    """Rows and outcomes by distinct score, for every column of a setting.

    Notes
    -----
    Exact in every chunking: a place is given up when all its rows have more than `most_distinct` scores, about four
    million for all places together. Memory: 32 bytes for each distinct score, with weights 40. O(n log n) time.
    """

    setting: Setting

    def bytes(self, layout: Layout) -> int:
        """Memory of a state, at most."""
        count = layout.batch * layout.groups * self.setting.columns(layout.classes)
        return 40 * count * most_distinct(count)

    def from_block(self, block: Block) -> DistinctState:
        """Gather the rows of one block."""
        layout, columns = block.layout, block.columns(self.setting)
        count = columns.scores.shape[-1]
        entries: list[tuple[Any, ...]] = []
        for b, g, index in block.places:
            weights = block.weights_of(b)[index] if block.weights is not None else np.ones(index.size, np.int64)
            for c in range(count):
                place = np.full(index.size, (b * layout.groups + g) * count + c)
                score, hits = columns.column(b, c, index)
                square = weights**2 if block.weights is not None else np.zeros(0)
                # Adding zero drops the sign of a negative one.
                entries.append((place, score + 0.0, weights, weights * hits, square))
        many = np.zeros(layout.batch * layout.groups * count, np.int64)
        dtype = np.int64 if block.weights is None else np.float64
        nothing = (np.zeros(0, np.int64), np.zeros(0), np.zeros(0, dtype), np.zeros(0, dtype), np.zeros(0))
        fields = [np.concatenate(parts) for parts in zip(nothing, *entries, strict=True)]
        return self._gathered(DistinctState(many, *fields))

    def merge(self, a: DistinctState, b: DistinctState) -> DistinctState:
        """Rows of both."""
        fields = (np.concatenate(pair) for pair in zip(a[1:], b[1:], strict=True))
        return self._gathered(DistinctState(np.maximum(a.many, b.many), *fields))

    def _gathered(self, state: DistinctState) -> DistinctState:
        """One entry for each distinct score, and none of places that have too many."""
        order = np.lexsort((state.score, state.place))
        place, score = state.place[order], state.score[order]
        new = np.r_[True, (np.diff(place) != 0) | (np.diff(score) != 0)][: place.size]
        first = np.flatnonzero(new)
        weight, outcome = (_added(values[order], first) for values in (state.weight, state.outcome))
        square = _added(state.square[order], first) if state.square.size else state.square
        place, score = place[first], score[first]
        size = state.many.size
        many = np.maximum(state.many, np.bincount(place, minlength=size) > most_distinct(size))
        kept = many[place] == 0
        return DistinctState(
            many, place[kept], score[kept], weight[kept], outcome[kept], square[kept] if square.size else square
        )


def _added(values: Sums, first: Counts) -> Sums:
    return np.add.reduceat(values, first) if first.size else values[:0]
