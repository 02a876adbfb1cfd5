"""Sums of what rows say at test locations."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import pairs
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.pair_kernel import PairKernel, places
from calibdask.statistics.statistic import Statistic

__all__ = ["LocationSums", "LocationSumsState"]

_UNIT = 2.0**-44


class LocationSumsState(NamedTuple):
    """Exact sums by (batch, group): ``rows``; ``first`` (..., m) of z; ``second`` (..., m, m) of z z^T."""

    rows: Counts
    first: Counts
    second: Counts


@dataclass(frozen=True)
class LocationSums(Statistic):
    """Sums of z_ij = (e_yi - p_i)^T k(p_i, q_j) e_lj over rows i, for test locations (q_j, l_j).

    Parameters
    ----------
    kernel : PairKernel
        The kernel k.
    scores : FrozenArray, shape (batch, groups, m, K)
        Predictions q of the locations in each place.
    labels : FrozenArray of int64, shape (batch, groups, m)
        Their labels l.

    Notes
    -----
    One pass, O(n m K) time. Values are divided by the bound of the kernel. Defined without weights.
    """

    kernel: PairKernel
    scores: FrozenArray
    labels: FrozenArray

    def from_block(self, block: Block) -> LocationSumsState:
        """Sums of one block."""
        count = self.labels.values.shape[2]
        shape = (block.layout.batch, block.layout.groups)
        rows = np.zeros(shape, np.int64)
        first, second = np.zeros((*shape, count, 2), np.int64), np.zeros((*shape, count, count, 2), np.int64)
        for b, g, index in places(block):
            rows[b, g] = index.size
            values = self._values(block, b, g, index)
            for j in range(count):
                pairs.fixed_sum(values[:, j].copy(), first[b, g, j])
                for k in range(j + 1):
                    pairs.fixed_sum(values[:, j] * values[:, k], second[b, g, j, k])
                    second[b, g, k, j] = second[b, g, j, k]
        return LocationSumsState(rows, first, second)

    def merge(self, a: LocationSumsState, b: LocationSumsState) -> LocationSumsState:
        """Sums of both."""
        return LocationSumsState(a.rows + b.rows, exact.add(a.first, b.first), exact.add(a.second, b.second))

    def _values(self, block: Block, b: int, g: int, index: Counts) -> Array:
        """Z of each row at each location, (rows, m)."""
        rows = self.kernel.rows(block, b, index)
        located = np.ascontiguousarray(self.scores.values[b, g], rows.scores.dtype)
        units = np.zeros_like(located)
        units[np.arange(len(units)), self.labels.values[b, g]] = 1
        right = np.stack([self.kernel.multiplied(term, units) for term in self.kernel.terms])
        values = np.empty((index.size, len(units)))
        how = (self.kernel.kinds, self.kernel.scales(b, g, located.dtype), _UNIT)
        pairs.pair_values(rows.scores, rows.left, located, right, *how, values)
        return values
