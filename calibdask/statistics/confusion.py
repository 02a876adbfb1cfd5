"""Predicted classes by label."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts
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
        layout, classes = block.layout, block.layout.classes
        rows = np.zeros((layout.batch, classes * classes), np.int64)
        for b in range(layout.batch):
            labels = block.labels_of(b).astype(np.int64)
            counts = (labels >= 0) & (labels < classes)
            if block.weights is not None:
                counts &= block.weights_of(b) > 0
            predicted = block.matrix_of(b).argmax(-1)
            rows[b] = np.bincount((labels * classes + predicted)[counts], minlength=classes * classes)
        return ConfusionState(rows.reshape(-1, classes, classes))

    def merge(self, a: ConfusionState, b: ConfusionState) -> ConfusionState:
        """Rows of both."""
        return ConfusionState(a.rows + b.rows)
