"""Rows, outcomes and scores, summed for every column of a setting."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels.compiled import FRACTION_BITS, ROWS_BEFORE_CARRY
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

if TYPE_CHECKING:
    from calibdask.statistics.bins.histograms import Histograms

# Rows that stay in the cache of a core.
_TOGETHER = 1 << 15
_HALF = FRACTION_BITS // 2
_LOW = (1 << _HALF) - 1
_ONE_BIN = Edges(FrozenArray(np.array([[[[0.0, 1.0]]]])), uniform=True)

# The slice of each row; None where there is one.
_Group = npt.NDArray[Any] | None


class ColumnSumsState(NamedTuple):
    """Sums by (batch, group, column): rows of positive weight, w, w * outcome, w * score."""

    rows: Counts
    weight: Sums
    outcome: Sums
    score: Sums


@dataclass(frozen=True)
class ColumnSums(Statistic[ColumnSumsState]):
    """Count, outcome and score of all rows, for every column of a setting.

    It follows from `BinSums` of the same setting, whatever the bins. Alone it is computed without a compiled kernel: it
    belongs to every evaluation, which would have to wait for one.
    """

    setting: Setting

    def from_block(self, block: Block) -> ColumnSumsState:
        """Sums of one block."""
        layout, columns = block.layout, block.columns(self.setting)
        shape = (layout.batch, layout.groups, columns.scores.shape[-1])
        group = block.group if layout.groups > 1 else None
        rows, hits = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        weighted = block.weights is not None
        score = np.zeros(shape) if weighted else np.zeros((*shape, 2), np.int64)
        weight, outcome = np.zeros(shape), np.zeros(shape)
        for b in range(layout.batch):
            scores, labels = columns.of(b)
            for c in range(shape[2]):
                hit = labels == columns.first_class + c
                if weighted:
                    sums = _weighted(scores[:, c], hit, block.weights_of(b), group, layout.groups)
                    rows[b, :, c], weight[b, :, c], outcome[b, :, c], score[b, :, c] = sums
                else:
                    rows[b, :, c] = _counted(np.ones(len(hit), np.bool_), group, layout.groups)
                    hits[b, :, c] = _counted(hit, group, layout.groups)
                    score[b, :, c] = _exact(scores[:, c], group, layout.groups)
        if weighted:
            return ColumnSumsState(rows, weight, outcome, score)
        return ColumnSumsState(rows, exact.from_counts(rows), exact.from_counts(hits), score)

    def merge(self, a: ColumnSumsState, b: ColumnSumsState) -> ColumnSumsState:
        """Sums of both."""
        return ColumnSumsState(a.rows + b.rows, *(exact.add(x, y) for x, y in zip(a[1:], b[1:], strict=True)))

    def follows_from(self, other: Statistic[Any]) -> bool:
        """The bins of the setting hold all rows between them."""
        return isinstance(other, BinSums) and other.setting == self.setting

    def taken_from(self, state: BinSumsState) -> ColumnSumsState:  # type: ignore[override]  # the state of the other
        """The sums over all bins."""
        sums = (exact.pooled(words, 3) for words in (state.weight, state.outcome, state.score))
        return ColumnSumsState(state.rows.sum(-1), *sums)

    def from_histograms(self, histograms: "Histograms") -> ColumnSumsState:
        """Sums over all cells."""
        return self.taken_from(histograms.bin_sums(BinSums(self.setting, _ONE_BIN)))


def _weighted(
    scores: npt.NDArray[np.floating], hit: npt.NDArray[np.bool_], weights: Array, group: _Group, groups: int
) -> tuple[npt.NDArray[Any], ...]:
    """Rows, weight, outcome and score by group, added in the order of the rows."""
    kept = weights > 0
    of_rows = np.where(kept, weights, 0.0)
    terms = (of_rows, of_rows * hit, of_rows * _unit(scores))
    places = np.zeros(len(hit), np.int32) if group is None else group
    return _counted(kept, group, groups), *(np.bincount(places, term, groups) for term in terms)


def _counted(chosen: npt.NDArray[np.bool_], group: _Group, groups: int) -> Counts:
    """Number of chosen rows by group."""
    return np.array([np.count_nonzero(chosen)]) if group is None else np.bincount(group[chosen], minlength=groups)


def _exact(scores: npt.NDArray[np.floating], group: _Group, groups: int) -> Counts:
    """Sums of scores by group in words, each score rounded to 2**-52 as `calibdask.kernels.compiled.fixed` does."""
    total = np.zeros((groups, 2), np.int64)
    for start in range(0, len(scores), _TOGETHER):
        here = slice(start, start + _TOGETHER)
        fixed = (_unit(scores[here]) + 1.0).view(np.int64) - np.float64(1.0).view(np.int64)
        if group is None:
            # Sums of so few fit in a word.
            fixed = np.add.reduceat(fixed, np.arange(0, len(fixed), ROWS_BEFORE_CARRY))
        # Halves of so few rows are whole numbers that doubles hold exactly.
        parts = fixed >> _HALF, fixed & _LOW
        if group is None:
            high, low = (part.sum(keepdims=True) for part in parts)
        else:
            high, low = (np.bincount(group[here], part, groups).astype(np.int64) for part in parts)
        high += low >> _HALF
        fraction = ((high & _LOW) << _HALF) | (low & _LOW)
        total = exact.add(total, np.stack([high >> _HALF, fraction], axis=-1))
    return total


def _unit(scores: npt.NDArray[np.floating]) -> Array:
    """Scores within [0, 1]; NaN is 0, until the check of the rows refuses it."""
    return np.fmin(np.fmax(scores.astype(np.float64), 0.0), 1.0)
