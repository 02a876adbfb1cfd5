"""Sets of the classes whose scores are large enough: how many hold the label, and how large they are."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from calibdask.kernels.label_sets import count_sets
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Sums
from calibdask.statistics.frozen import FrozenArray, read_only
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import SumStatistic


class LabelSetsState(NamedTuple):
    """Sums by (batch, group, class of the label), int64 without weights.

    Of w, w**2, w for sets that hold the label, w * size and w * size**2; ``total_size`` is that of w * size over all
    classes, by (batch, group).
    """

    weight: Sums
    weight_square: Sums
    covered: Sums
    size: Sums
    size_square: Sums
    total_size: Sums


# Limits that are borders of cells may be rounded.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class LabelSets(SumStatistic[LabelSetsState]):
    """Coverage and sizes of the sets of classes with 1 - score <= limit.

    Parameters
    ----------
    limits : FrozenArray of float64, shape (1 or batch, 1 or groups)
        NaN: no class.
    """

    limits: FrozenArray

    counts: ClassVar[int] = len(LabelSetsState._fields)

    def from_block(self, block: Block) -> LabelSetsState:
        """Sums of one block."""
        layout = block.layout
        weighted = block.weights is not None
        sums = np.zeros((layout.batch, 5, layout.groups, layout.classes), np.float64 if weighted else np.int64)
        limits = np.broadcast_to(self.limits.values, (layout.batch, layout.groups))
        ones = np.ones(0 if weighted else block.rows, np.int64)
        for b in range(layout.batch):
            weights = block.weights_of(b) if weighted else ones
            rows = block.scores_of(b), block.labels_of(b), weights, block.group
            count_sets(*rows, read_only(np.ascontiguousarray(limits[b])), sums[b])
        weight, square, covered, size, size_square = np.moveaxis(sums, 1, 0)
        return LabelSetsState(weight, square, covered, size, size_square, size.sum(-1))

    def from_histograms(self, histograms: Histograms) -> LabelSetsState:
        """Sums over whole cells of all classes, for scores above the cell border nearest to 1 - limit.

        Histograms of single classes do not tell for which labels sets are large, nor how much their sizes vary.
        """
        histogram = histograms.finest(Setting("classwise"))
        state = histograms.state(histogram)
        limits = np.broadcast_to(self.limits.values, state.mass.shape[:2])
        first = np.searchsorted(histogram.grid.edges, 1.0 - limits - _ROUNDING)
        above = np.arange(histogram.grid.size) >= first[:, :, None, None]
        weight = state.mass[..., 1]
        square = state.square[..., 1] if state.weighted else weight
        unknown = np.full(weight.shape[:3], np.nan)
        total_size = (state.mass.sum(-1) * above).sum((-1, -2))
        return LabelSetsState(weight.sum(-1), square.sum(-1), (weight * above).sum(-1), unknown, unknown, total_size)
