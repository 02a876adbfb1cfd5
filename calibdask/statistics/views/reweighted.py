"""Replicates of the data that differ in the weights of the rows."""

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.views.view import View

# Most weights, of replicates times rows, held at a time: as many as stay in the cache of a core.
_WEIGHTS_AT_ONCE = 1 << 20


class Reweighted(View):
    """Replicates along the batch axis (slower than the existing one), with weights keyed by row.

    In each replicate all batch elements (models) have the same weights, times those that they have already.
    """

    ordered = True

    @property
    @abstractmethod
    def copies(self) -> int:
        """Number of replicates; they use the edges of bins and the bandwidths of the data."""

    @abstractmethod
    def weights(self, numbers: Counts) -> Array:
        """Weights of the rows with these keys, (copies, n)."""

    def keys(self, block: Block) -> Counts:
        """Keys of the weights: row numbers."""
        return block.row_numbers

    def layout(self, layout: Layout) -> Layout:
        """All replicates of all batch elements."""
        return replace(layout, batch=layout.batch * self.copies, rows=None, weighted=True)

    def step(self, block: Block) -> int:
        """Number of rows whose weights in all replicates fit into memory."""
        return max(1, _WEIGHTS_AT_ONCE // (block.layout.batch * self.copies))

    def block(self, block: Block) -> Block:
        """Rows with the weights of all replicates."""
        weights, models = self.weights(self.keys(block)), block.layout.batch
        weights = weights if models == 1 else np.repeat(weights, models, axis=0)
        if block.weights is not None:
            weights *= np.resize(block.weights, weights.shape)
        return replace(block, layout=self.layout(block.layout), weights=weights)
