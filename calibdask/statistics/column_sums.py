"""Rows, outcomes and scores, summed for every column of a setting."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibdask.kernels.column_sums import column_sums
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.block import Block, Columns
from calibdask.statistics.exact import Counts, Sums
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

if TYPE_CHECKING:
    from calibdask.statistics.bins.histograms import Histograms

_ONE_BIN = Edges(FrozenArray(np.array([[[[0.0, 1.0]]]])), uniform=True)


class ColumnSumsState(NamedTuple):
    """Sums by (batch, group, column): rows of positive weight, w, w * outcome, w * score."""

    rows: Counts
    weight: Sums
    outcome: Sums
    score: Sums


@dataclass(frozen=True)
class ColumnSums(Statistic[ColumnSumsState]):
    """Count, outcome and score of all rows, for every column of a setting.

    It follows from `BinSums` of the same setting, whatever the bins.
    """

    setting: Setting

    weighting = ((0, 0), (0, 1), (0, 1), (0, 1))

    def from_block(self, block: Block) -> ColumnSumsState:
        """Sums of one block."""
        layout, columns = block.layout, block.columns(self.setting)
        shape = (layout.batch, layout.groups, columns.scores.shape[-1])
        if block.weights is not None:
            return _weighted(block, columns, shape)
        counts, score = np.zeros((2, *shape, 2), np.int64)
        for b in range(layout.batch):
            column_sums(*columns.packed_of(b), columns.first_class, block.group, counts[b], score[b])
        rows, hits = counts[..., 0], counts[..., 1]
        return ColumnSumsState(rows, exact.from_counts(rows), exact.from_counts(hits), score)

    def merge(self, a: ColumnSumsState, b: ColumnSumsState) -> ColumnSumsState:
        """Sums of both."""
        return ColumnSumsState(a.rows + b.rows, *(exact.add(x, y) for x, y in zip(a[1:], b[1:], strict=True)))

    def follows_from(self, other: Statistic[Any]) -> bool:
        """The bins of the setting hold all rows between them."""
        return isinstance(other, BinSums) and other.setting == self.setting

    def extracted_from(self, state: BinSumsState) -> ColumnSumsState:  # type: ignore[override]  # the state of the other
        """The sums over all bins."""
        sums = (exact.pooled(words, 3) for words in (state.weight, state.outcome, state.score))
        return ColumnSumsState(state.rows.sum(-1), *sums)

    def from_histograms(self, histograms: "Histograms") -> ColumnSumsState:
        """Sums over all cells."""
        return self.extracted_from(histograms.bin_sums(BinSums(self.setting, _ONE_BIN)))


def _weighted(block: Block, columns: Columns, shape: tuple[int, ...]) -> ColumnSumsState:
    """Rows, weight, outcome and score, added in the order of the rows."""
    rows, sums = np.zeros(shape, np.int64), np.zeros((3, *shape))
    places = block.group if block.group.size else np.zeros(block.rows, np.int32)
    for b in range(shape[0]):
        scores, labels = columns.of(b)
        kept = block.weights_of(b) > 0
        weights = np.where(kept, block.weights_of(b), 0.0)
        for c in range(shape[2]):
            # NaN is 0, until the check of the rows refuses it.
            score = np.fmin(np.fmax(scores[:, c].astype(np.float64), 0.0), 1.0)
            terms = weights, weights * (labels == columns.first_class + c), weights * score
            rows[b, :, c] = np.bincount(places[kept], minlength=shape[1])
            sums[:, b, :, c] = [np.bincount(places, term, shape[1]) for term in terms]
    return ColumnSumsState(rows, *sums)
