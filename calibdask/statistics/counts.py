"""Numbers of rows."""

from dataclasses import dataclass
from typing import NamedTuple

from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts
from calibdask.statistics.statistic import SumStatistic


class RowCountState(NamedTuple):
    """Rows of positive weight, shape (batch, groups)."""

    rows: Counts


@dataclass(frozen=True)
class RowCount(SumStatistic[RowCountState]):
    """Rows of positive weight in each slice."""

    weighting = ((0, 0),)

    def from_block(self, block: Block) -> RowCountState:
        """Count one block."""
        return RowCountState(block.stratum_rows)

    def from_histograms(self, histograms: Histograms) -> RowCountState:
        """Rows of any of the histograms."""
        return histograms.row_count()
