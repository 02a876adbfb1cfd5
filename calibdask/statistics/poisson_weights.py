"""Replicates of the data for intervals: rows that count more or less often."""

import math
from dataclasses import dataclass, replace

import numpy as np

from calibdask.kernels import keyed_random
from calibdask.statistics.block import Block
from calibdask.statistics.keyed_random import philox_key
from calibdask.statistics.layout import Layout
from calibdask.statistics.views import View

__all__ = ["PoissonWeights"]

_PURPOSE = 3
# Weights of so many replicates and rows are held at a time.
_WEIGHTS_AT_ONCE = 1 << 21
# Values of the distribution function of Poisson(1) in units of 2**-32, those below 1.
_THRESHOLDS = np.array([sum(math.exp(-1) / math.factorial(j) for j in range(k + 1)) * 2.0**32 for k in range(12)])


@dataclass(frozen=True)
class PoissonWeights(View):
    """Bootstrap replicates along the batch axis: every row counts as often as a Poisson(1) variable says.

    In each replicate all batch elements (models) have the same rows. Draws are keyed by the seed, the global row number
    and the number of the replicate, so that a pass over blocks makes the same ones in any chunking.

    Parameters
    ----------
    replicates : int
        Number of replicates; they become the slower part of the batch axis.
    seed : int
        Of the draws.
    """

    replicates: int
    seed: int
    ordered = True

    def layout(self, layout: Layout) -> Layout:
        """All replicates of all batch elements."""
        return replace(layout, batch=layout.batch * self.replicates, rows=None, weighted=True)

    def step(self, block: Block) -> int:
        """Rows whose weights in all replicates fit."""
        return max(1, _WEIGHTS_AT_ONCE // (block.layout.batch * self.replicates))

    @property
    def copies(self) -> int:
        """Replicates keep bandwidths of kernels on the simplex."""
        return self.replicates

    def block(self, block: Block) -> Block:
        """Rows with the weights of all replicates."""
        counts = np.empty((self.replicates, block.rows))
        key = philox_key(self.seed, _PURPOSE)
        keyed_random.poisson_counts(block.row_numbers, _THRESHOLDS.astype(np.uint64), key, counts)
        weights = np.repeat(counts, block.layout.batch, axis=0)
        if block.weights is not None:
            weights *= np.resize(block.weights, weights.shape)
        return replace(block, layout=self.layout(block.layout), weights=weights)
