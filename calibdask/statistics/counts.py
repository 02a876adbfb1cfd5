"""Numbers of rows."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts
from calibdask.statistics.statistic import Statistic

__all__ = ["RowCount", "RowCountState"]


class RowCountState(NamedTuple):
    """Rows of positive weight, shape (batch, groups)."""

    rows: Counts


@dataclass(frozen=True)
class RowCount(Statistic):
    """Rows of positive weight in each slice."""

    def from_block(self, block: Block) -> RowCountState:
        """Count one block."""
        groups = block.layout.groups
        rows = np.empty((block.layout.batch, groups), np.int64)
        for b in range(block.layout.batch):
            counted = block.weights_of(b) > 0 if block.weights is not None else np.ones(block.rows, np.bool_)
            group = block.group[counted] if block.group.size else np.zeros(int(counted.sum()), np.int32)
            rows[b] = np.bincount(group, minlength=groups)
        return RowCountState(rows)

    def merge(self, a: RowCountState, b: RowCountState) -> RowCountState:
        """Rows of both."""
        return RowCountState(a.rows + b.rows)
