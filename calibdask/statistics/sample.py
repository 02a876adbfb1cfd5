"""A random sample of rows that depends only on a seed and the numbers of the rows."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import keyed_random
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts
from calibdask.statistics.keyed_random import philox_key
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Statistic

_PURPOSE = 1


class RowSampleState(NamedTuple):
    """Sampled rows in order of stratum (batch * groups + group) and priority.

    ``rows`` (batch, groups) of positive weight, sampled or not; ``stratum``, ``priority`` and ``number`` (sampled,);
    ``scores`` (sampled, K); ``labels`` (sampled,).
    """

    rows: Counts
    stratum: Counts
    priority: Counts
    number: Counts
    scores: npt.NDArray[np.floating]
    labels: Counts

    def of(self, b: int, g: int, size: int | None = None) -> "RowSampleState":
        """The rows of one stratum in the order of their numbers, as a sample of ``size`` would have them."""
        first, last = np.searchsorted(self.stratum, b * self.rows.shape[1] + g + np.arange(2))
        last = last if size is None else min(last, first + size)
        at = first + np.argsort(self.number[first:last], kind="stable")
        fields: Any = (field[at] for field in self[1:])
        return RowSampleState(self.rows[b : b + 1, g : g + 1], *fields)


@dataclass(frozen=True)
class RowSample(Statistic[RowSampleState]):
    """The rows of positive weight with the smallest random priorities, ``size`` in each stratum.

    Notes
    -----
    A slice of no more rows is kept whole. Memory: size * K numbers for each stratum.
    """

    size: int
    seed: int

    # Priorities are keyed by global row numbers.
    ordered = True

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return layout.batch * layout.groups * self.size * (layout.classes + 4) * 8

    def from_block(self, block: Block) -> RowSampleState:
        """Sample of one block."""
        layout = block.layout
        rows = np.zeros((layout.batch, layout.groups), np.int64)
        priority = np.empty(block.rows, np.int64)
        keyed_random.priorities(block.row_numbers, philox_key(self.seed, _PURPOSE), priority)
        stratum, index, scores, labels = [], [], [block.matrix_of(0)[:0]], []
        for b, g, here in block.strata:
            rows[b, g] = here.size
            kept = here[_smallest(priority[here], block.row_numbers[here], self.size)]
            stratum.append(np.full(kept.size, b * layout.groups + g))
            index.append(kept)
            scores.append(block.matrix_of(b)[kept])
            labels.append(block.labels_of(b)[kept].astype(np.int64))
        chosen = np.concatenate([np.zeros(0, np.int64), *index])
        return RowSampleState(
            rows,
            np.concatenate([np.zeros(0, np.int64), *stratum]),
            priority[chosen],
            block.row_numbers[chosen],
            np.concatenate(scores),
            np.concatenate([np.zeros(0, np.int64), *labels]),
        )

    def merge(self, a: RowSampleState, b: RowSampleState) -> RowSampleState:
        """Sample of both."""
        rows = a.rows + b.rows
        fields = [np.concatenate(pair) for pair in zip(a[1:], b[1:], strict=True)]
        stratum, priority, number = fields[:3]
        order = np.lexsort((number, priority, stratum))
        first = np.searchsorted(stratum[order], stratum[order])
        kept = order[np.arange(order.size) - first < self.size]
        return RowSampleState(rows, *(field[kept] for field in fields))


def _smallest(priority: Counts, number: Counts, size: int) -> Counts:
    """Indices of the smallest priorities, in increasing order."""
    if priority.size > size:
        near = np.flatnonzero(priority <= np.partition(priority, size - 1)[size - 1])
        return near[np.lexsort((number[near], priority[near]))][:size]
    return np.lexsort((number, priority))
