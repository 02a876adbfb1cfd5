"""The rows with their weights squared: sums of w**2 instead of w, which variances of weighted means need."""

from dataclasses import dataclass, replace

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.layout import Layout
from calibdask.statistics.views.view import View


@dataclass(frozen=True)
class SquaredWeights(View):
    """The same rows, each with the square of its weight."""

    def layout(self, layout: Layout) -> Layout:
        """The same shape."""
        return layout

    def block(self, block: Block) -> Block:
        """The same rows; weights that are refused later, negative ones and NaN, count as 0 until then."""
        if block.weights is None:
            return block
        return replace(block, weights=np.where(block.weights > 0, block.weights, 0.0) ** 2)
