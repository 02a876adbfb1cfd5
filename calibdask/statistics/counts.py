"""Numbers of rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts
from calibdask.statistics.statistic import Statistic

if TYPE_CHECKING:
    from calibdask.statistics.bins.histograms import Histograms

__all__ = ["RowCount", "RowCountState"]


class RowCountState(NamedTuple):
    """Rows of positive weight, shape (batch, groups)."""

    rows: Counts


@dataclass(frozen=True)
class RowCount(Statistic[RowCountState]):
    """Rows of positive weight in each slice."""

    @property
    def adds(self) -> bool:
        """Sums."""
        return True

    def from_block(self, block: Block) -> RowCountState:
        """Count one block."""
        rows = np.zeros((block.layout.batch, block.layout.groups), np.int64)
        for b, g, index in block.strata:
            rows[b, g] = index.size
        return RowCountState(rows)

    def merge(self, a: RowCountState, b: RowCountState) -> RowCountState:
        """Rows of both."""
        return RowCountState(a.rows + b.rows)

    def from_histograms(self, histograms: "Histograms") -> RowCountState:
        """Rows of any of the histograms."""
        return histograms.row_count()
