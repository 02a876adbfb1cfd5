"""Predicted classes by label."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import top
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic


class ConfusionState(NamedTuple):
    """Rows of positive weight by label and predicted class, shape (batch, K, K)."""

    rows: Counts


@dataclass(frozen=True)
class Confusion(Statistic[ConfusionState]):
    """The confusion matrix: rows of all slices by label and by the class with the largest score.

    Notes
    -----
    Memory batch * K**2 * 8 bytes.
    """

    def from_block(self, block: Block) -> ConfusionState:
        """Count one block."""
        batch, classes = block.layout.batch, block.layout.classes
        rows = np.zeros((batch, classes, classes), np.int64)
        # Metrics of the confidence use the same columns, which are computed once.
        columns = block.columns(Setting("confidence"))
        for b in range(batch):
            given = block.matrix_of(b), block.observed.packed_of(b), block.weights_of(b)
            largest, hits = columns.packed_of(b)
            top.count_predicted(*given, largest[:, 0], hits, block.predicted_of(b), rows[b])
        return ConfusionState(rows)

    def merge(self, a: ConfusionState, b: ConfusionState) -> ConfusionState:
        """Rows of both."""
        return ConfusionState(a.rows + b.rows)
