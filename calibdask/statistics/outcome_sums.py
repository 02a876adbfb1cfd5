"""Weights and outcomes, or numbers, of all rows, for every column of a setting; no scores are summed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.block import Block
from calibdask.statistics.column_sums import ColumnSums
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Sums
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic, SumStatistic, ViewedStatistic
from calibdask.statistics.views.squared_weights import EqualWeights

if TYPE_CHECKING:
    from calibdask.statistics.bins.histograms import Histograms


class OutcomeSumsState(NamedTuple):
    """Sums by (batch, group, column): w, w * outcome."""

    weight: Sums
    outcome: Sums


@dataclass(frozen=True)
class OutcomeSums(SumStatistic[OutcomeSumsState]):
    """Weight and outcome of all rows, for every column of a setting: one count of labels, whatever the columns."""

    counts = 0

    setting: Setting

    weighting = ((0, 1), (0, 1))

    def from_block(self, block: Block) -> OutcomeSumsState:
        """Sums of one block."""
        layout, columns = block.layout, block.columns(self.setting)
        shape = (layout.batch, layout.groups, columns.scores.shape[-1])
        group = block.group if layout.groups > 1 else None
        kind: Any = np.int64 if block.weights is None else np.float64
        weight, outcome = np.zeros(shape, kind), np.zeros(shape, kind)
        if block.weights is None:
            weight += block.stratum_rows[:, :, None]
        for b in range(layout.batch):
            weights = None if block.weights is None else np.maximum(block.weights_of(b), 0.0)
            if weights is not None:
                groups = np.zeros(block.rows, np.int32) if group is None else group
                weight[b] = np.bincount(groups, weights, layout.groups)[:, None]
            outcome[b] = _hits(columns.of(b)[1] - columns.first_class, group, weights, shape[1:])
        if block.weights is None:
            return OutcomeSumsState(exact.from_counts(weight), exact.from_counts(outcome))
        return OutcomeSumsState(weight, outcome)

    def follows_from(self, other: Statistic[Any]) -> bool:
        """The sums by column, or by bin, of the setting have these among them."""
        return isinstance(other, BinSums | ColumnSums) and other.setting == self.setting

    def extracted_from(self, state: Any) -> OutcomeSumsState:
        """Sums by column, added up over the bins if there are any."""
        sums = state.weight, state.outcome
        by_bin = state.rows.ndim > 3
        return OutcomeSumsState(*(exact.pooled(words, 3) if by_bin else words for words in sums))

    def from_histograms(self, histograms: "Histograms") -> OutcomeSumsState:
        """Sums over all cells."""
        return self.extracted_from(ColumnSums(self.setting).from_histograms(histograms))


@dataclass(frozen=True)
class OutcomeRows(Derived[OutcomeSumsState]):
    """The number of rows of positive weight, and of those with the outcome: `OutcomeSums` with all weights 1."""

    setting: Setting

    def derive(self) -> Requests[OutcomeSumsState]:
        """Request the sums of the rows with equal weights."""
        sums = OutcomeSums(self.setting)
        weighted = (yield from Layout()).weighted
        return (yield from (sums.viewed_by(EqualWeights()) if weighted else sums))

    def from_histograms(self, histograms: "Histograms") -> Requests[OutcomeSumsState]:
        """Rows of all cells, by outcome."""
        counted = ViewedStatistic(EqualWeights(), OutcomeSums(self.setting))
        if not histograms.layout.weighted or histograms.holds(counted):
            return (yield from self.derive())
        rows = histograms.state(histograms.finest(self.setting)).rows.sum(-2).astype(np.float64)
        return OutcomeSumsState(rows.sum(-1), rows[..., 1])


def _hits(
    column: npt.NDArray[np.integer],
    group: npt.NDArray[np.int32] | None,
    weights: npt.NDArray[np.float64] | None,
    shape: tuple[int, ...],
) -> npt.NDArray[Any]:
    """Rows, or their weights, by (group, column)."""
    groups, number = shape
    # Labels that are no classes, which the check of the rows refuses; negative ones are large numbers here.
    known = column.view(np.uint64) < number
    if not known.all():
        column = column[known]
        group = None if group is None else group[known]
        weights = None if weights is None else weights[known]
    if group is not None:
        column = column + group * np.int64(number)
    return np.bincount(column, weights, groups * number).reshape(shape)
