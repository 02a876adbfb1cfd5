"""Replicates of the data for intervals: rows that count more or less often, or a share of the rows left out."""

import math
from dataclasses import dataclass, replace

import numpy as np

from calibdask.kernels import keyed_random
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array
from calibdask.statistics.keyed_random import philox_key
from calibdask.statistics.layout import Layout
from calibdask.statistics.views import View

__all__ = ["LeftOut", "PoissonWeights"]

_PURPOSE = 3
_LEFT_OUT_PURPOSE = 4
# Weights of so many replicates and rows are held at a time.
_WEIGHTS_AT_ONCE = 1 << 21
# Values of the distribution function of Poisson(1), up to the last one below 1 in double precision.
_THRESHOLDS = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(18)])


@dataclass(frozen=True)
class _Weighted(View):
    """Replicates along the batch axis that differ in the weights of the rows."""

    ordered = True

    @property
    def count(self) -> int:
        """Number of replicates."""
        raise NotImplementedError

    def weights(self, block: Block) -> Array:
        """How often each row counts, (replicates, n)."""
        raise NotImplementedError

    def layout(self, layout: Layout) -> Layout:
        """All replicates of all batch elements, the replicates the slower part."""
        return replace(layout, batch=layout.batch * self.count, rows=None, weighted=True)

    def step(self, block: Block) -> int:
        """Rows whose weights in all replicates fit."""
        return max(1, _WEIGHTS_AT_ONCE // (block.layout.batch * self.count))

    def block(self, block: Block) -> Block:
        """Rows with the weights of all replicates."""
        weights = np.repeat(self.weights(block), block.layout.batch, axis=0)
        if block.weights is not None:
            weights *= np.resize(block.weights, weights.shape)
        return replace(block, layout=self.layout(block.layout), weights=weights)


@dataclass(frozen=True)
class PoissonWeights(_Weighted):
    """Bootstrap replicates: every row counts as often as a Poisson(1) variable says.

    In each replicate all batch elements (models) have the same rows. Draws are keyed by the seed, the global row number
    and the number of the replicate.

    Parameters
    ----------
    first, stop : int
        Numbers of the replicates.
    seed : int
        Of the draws.
    """

    first: int
    stop: int
    seed: int

    @property
    def count(self) -> int:
        """Number of replicates."""
        return self.stop - self.first

    def weights(self, block: Block) -> Array:
        """Poisson counts."""
        counts = np.empty((self.count, block.rows))
        key = philox_key(self.seed, _PURPOSE)
        keyed_random.poisson_counts(block.row_numbers, self.first, _THRESHOLDS, key, counts)
        return counts


@dataclass(frozen=True)
class LeftOut(_Weighted):
    """Jackknife replicates: one after the other of some random groups of rows is left out.

    Parameters
    ----------
    groups : int
        Number of groups of rows, and of replicates.
    seed : int
        Of the groups, which are keyed by it and the global row number.
    """

    groups: int
    seed: int

    @property
    def count(self) -> int:
        """Number of replicates."""
        return self.groups

    def weights(self, block: Block) -> Array:
        """0 for the rows of the group left out, 1 for the others."""
        priority = np.empty(block.rows, np.int64)
        keyed_random.priorities(block.row_numbers, philox_key(self.seed, _LEFT_OUT_PURPOSE), priority)
        return (priority % self.groups != np.arange(self.groups)[:, None]).astype(np.float64)
