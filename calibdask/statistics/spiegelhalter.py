"""Sums behind Spiegelhalter's test."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import pairs
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Sums
from calibdask.statistics.pair_kernel import places
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic

__all__ = ["SpiegelhalterSums", "SpiegelhalterSumsState"]


class SpiegelhalterSumsState(NamedTuple):
    """Sums (batch, groups, columns) of w (o - s)(1 - 2 s) and of w**2 (1 - 2 s)**2 s (1 - s)."""

    excess: Sums
    variance: Sums


@dataclass(frozen=True)
class SpiegelhalterSums(Statistic):
    """What the Brier score exceeds its expectation by, summed over rows, and the variance of that sum.

    Without weights every term is rounded to 2**-44 and the sums are exact then.
    """

    setting: Setting

    def from_block(self, block: Block) -> SpiegelhalterSumsState:
        """Sums of one block."""
        layout, columns = block.layout, block.columns(self.setting)
        count = self.setting.columns(layout.classes)
        shape = (layout.batch, layout.groups, count)
        weighted = block.weights is not None
        made = (np.zeros(shape) if weighted else np.zeros((*shape, 2), np.int64) for _ in range(2))
        state = SpiegelhalterSumsState(*made)
        for b, g, index in places(block):
            scores, labels = columns.of(b)
            weights = block.weights_of(b)[index] if weighted else 1.0
            for c in range(count):
                s = np.nan_to_num(scores[index, c].astype(np.float64)).clip(0.0, 1.0)
                excess = weights * ((labels[index] == columns.first_class + c) - s) * (1 - 2 * s)
                variance = (weights * (1 - 2 * s)) ** 2 * s * (1 - s)
                for values, sums in ((excess, state.excess), (variance, state.variance)):
                    if weighted:
                        sums[b, g, c] = values.sum()
                    else:
                        pairs.fixed_sum(values, sums[b, g, c])
        return state

    def merge(self, a: SpiegelhalterSumsState, b: SpiegelhalterSumsState) -> SpiegelhalterSumsState:
        """Sums of both."""
        return SpiegelhalterSumsState(exact.add(a.excess, b.excess), exact.add(a.variance, b.variance))
