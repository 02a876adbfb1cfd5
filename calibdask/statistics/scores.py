"""Sums of proper scores over rows."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import rows
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts, Sums
from calibdask.statistics.statistic import Statistic

__all__ = ["ScoreSums", "ScoreSumsState"]


class ScoreSumsState(NamedTuple):
    """Sums by (batch, group): rows, rows clipped in the logarithm, weight, w * Brier, w * logarithmic score."""

    rows: Counts
    clipped: Counts
    weight: Sums
    brier: Sums
    log: Sums


@dataclass(frozen=True)
class ScoreSums(Statistic):
    """Brier score (summed over classes) and logarithmic score of every row, added up."""

    def from_block(self, block: Block) -> ScoreSumsState:
        """Sums of one block."""
        layout = block.layout
        counts = np.zeros((layout.batch, 2, layout.groups), np.int64)
        weighted = block.weights is not None
        sums = (
            np.zeros((layout.batch, 3, layout.groups))
            if weighted
            else np.zeros((layout.batch, 2, layout.groups, 2), np.int64)
        )
        for b in range(layout.batch):
            options = (block.group, layout.vector, layout.smallest, counts[b], sums[b])
            if weighted:
                rows.weighted_score_sums(block.scores_of(b), block.labels_of(b), block.weights_of(b), *options)
            else:
                rows.score_sums(block.scores_of(b), block.labels_of(b), *options)
        count, clipped = counts[:, 0], counts[:, 1]
        if weighted:
            return ScoreSumsState(count, clipped, sums[:, 0], sums[:, 1], sums[:, 2])
        return ScoreSumsState(count, clipped, exact.from_counts(count), sums[:, 0], sums[:, 1])

    def merge(self, a: ScoreSumsState, b: ScoreSumsState) -> ScoreSumsState:
        """Sums of both."""
        sums = (exact.add(x, y) for x, y in zip(a[2:], b[2:], strict=True))
        return ScoreSumsState(a.rows + b.rows, a.clipped + b.clipped, *sums)
