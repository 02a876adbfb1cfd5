"""Data without some of their rows, a group of rows at a time: what a jackknife looks at."""

from dataclasses import dataclass, replace

import numpy as np

from calibdask.kernels import keyed_random
from calibdask.statistics.block import Block
from calibdask.statistics.keyed_random import philox_key
from calibdask.statistics.layout import Layout
from calibdask.statistics.views import View

__all__ = ["LeftOut"]

_PURPOSE = 4
# Weights of so many replicates and rows are held at a time.
_WEIGHTS_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class LeftOut(View):
    """Replicates along the batch axis, the rows of one random group missing from each.

    Parameters
    ----------
    groups : int
        Number of groups, and so of replicates; they become the slower part of the batch axis.
    seed : int
        The group of a row is keyed by it and the global row number.
    """

    groups: int
    seed: int
    ordered = True

    def layout(self, layout: Layout) -> Layout:
        """All replicates of all batch elements."""
        return replace(layout, batch=layout.batch * self.groups, rows=None, weighted=True)

    def step(self, block: Block) -> int:
        """Rows whose weights in all replicates fit."""
        return max(1, _WEIGHTS_AT_ONCE // (block.layout.batch * self.groups))

    @property
    def copies(self) -> int:
        """Replicates keep bandwidths of kernels on the simplex."""
        return self.groups

    def block(self, block: Block) -> Block:
        """Rows of weight 0 in the replicate of their group."""
        number = np.empty(block.rows, np.int64)
        keyed_random.priorities(block.row_numbers, philox_key(self.seed, _PURPOSE), number)
        there = (number % self.groups != np.arange(self.groups)[:, None]).astype(np.float64)
        weights = np.repeat(there, block.layout.batch, axis=0)
        if block.weights is not None:
            weights *= np.resize(block.weights, weights.shape)
        return replace(block, layout=self.layout(block.layout), weights=weights)
