"""The rows with other weights: squared, which variances of weighted means need, or equal, which count rows."""

from dataclasses import dataclass, replace

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.views.view import View


@dataclass(frozen=True)
class SquaredWeights(View):
    """Rows with squared weights."""

    power = 2

    def layout(self, layout: Layout) -> Layout:
        """Layout of the data, unchanged."""
        return layout

    def block(self, block: Block) -> Block:
        """Square the weights; negative ones and NaN, which are rejected later, count as 0 here."""
        if block.weights is None:
            return block
        return replace(block, weights=np.where(block.weights > 0, block.weights, 0.0) ** 2)


@dataclass(frozen=True)
class EqualWeights(View):
    """Rows of positive weight with the weight 1: numbers of rows instead of sums of w."""

    def layout(self, layout: Layout) -> Layout:
        """Layout of the data, unchanged."""
        return layout

    def block(self, block: Block) -> Block:
        """The weight 1 for rows that have one."""
        if block.weights is None:
            return block
        return replace(block, weights=(block.weights > 0).astype(np.float64))
