"""Rows by cell of the hash of their cluster: sums that add up, from which clusters are counted."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.cluster_sums import effective_of_buckets, largest_of_buckets
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import SumStatistic

# Cells of a level in each bucket, and levels: half of the clusters are in the first level, a quarter in the next one.
_CELLS, _LEVELS = 16, 16
CLUSTER_CELLS = _CELLS * _LEVELS
_MOST = 2.0**52
_STEPS = 80


class ClusterCellsState(NamedTuple):
    """Rows of positive weight by slice, bucket and cell of their cluster, (1, groups, buckets, 256)."""

    rows: Counts


@dataclass(frozen=True)
class ClusterCells(SumStatistic[ClusterCellsState]):
    """Rows by bucket and cell of the hash of their cluster, of the first model.

    Parameters
    ----------
    buckets : int
        Number of buckets of clusters.

    Notes
    -----
    The number of clusters of any union of rows follows from the cells that are not empty (`counted_clusters`),
    whichever states were added: exactly where no two clusters share a cell, as a few dozen seldom do, and within about
    3 % (one standard error) up to 10**7 clusters in 64 buckets. Memory: 2 kB for each bucket and slice.
    """

    buckets: int

    def from_block(self, block: Block) -> ClusterCellsState:
        """Rows of one block."""
        if block.clusters is None:
            raise ValueError("Cells of clusters expect rows with clusters; pass groups.")
        bucket, rest = block.clusters % self.buckets, block.clusters // self.buckets
        cell = (bucket * _LEVELS + _level(rest // _CELLS)) * _CELLS + rest % _CELLS
        size = self.buckets * CLUSTER_CELLS
        if block.group.size:
            cell = cell + block.group.astype(np.int64) * size
        if block.weights is not None:
            cell = cell[np.nan_to_num(block.weights_of(0)) > 0]
        rows = np.bincount(cell, minlength=block.layout.groups * size)
        return ClusterCellsState(rows.reshape(1, block.layout.groups, self.buckets, CLUSTER_CELLS).astype(np.int64))

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return 8 * layout.groups * self.buckets * CLUSTER_CELLS


def _level(numbers: Counts) -> Counts:
    """How often numbers can be halved, up to the last level."""
    lowest = np.where(numbers == 0, 1 << (_LEVELS - 1), numbers & -numbers)
    return np.minimum(np.log2(lowest).astype(np.int64), _LEVELS - 1)


class CountedClusters(NamedTuple):
    """Clusters of each slice, (groups,) each: their number, (sum n)**2 / sum n**2, and the share of the largest."""

    clusters: Counts
    effective: Array
    largest: Array

    def weighed(self, weights: Array) -> "CountedClusters":
        """With the largest by weight, of weights by bucket (groups, buckets), where that has a larger share."""
        with np.errstate(invalid="ignore"):
            share = largest_of_buckets(weights) / weights.sum(-1)
        by_weight = np.where(share > self.largest, effective_of_buckets(weights), self.effective)
        return CountedClusters(self.clusters, np.fmin(self.effective, by_weight), np.fmax(self.largest, share))


def counted_clusters(rows: Counts) -> CountedClusters:
    """The clusters of rows (groups, buckets, 256).

    Of G clusters those of a level with the probability p fall into M cells at random, of which M (1 - exp(-G p / M))
    are not empty on average; G is the most likely number given all levels. Clusters that share a cell are corrected
    for on average: sum n**2 over clusters is (M S - N**2) / (M - 1), with S that over the cells of a level.

    Examples
    --------
    >>> rows = np.zeros((1, 64, 256), np.int64)
    >>> rows[0, :30, 0] = 5
    >>> [float(values[0]) for values in counted_clusters(rows)]
    [30.0, 30.0, 0.03333333333333333]
    """
    cells: Any = rows.reshape(*rows.shape[:2], _LEVELS, _CELLS)
    count = rows.shape[1] * _CELLS
    share = 2.0 ** -np.minimum(np.arange(1, _LEVELS + 1), _LEVELS - 1)
    filled = (cells > 0).sum((1, 3))
    low, high = np.zeros(len(rows)), np.full(len(rows), np.log(_MOST))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        load = np.exp(middle)[:, None] * share / count
        # Derivative of the logarithm of the likelihood.
        with np.errstate(over="ignore"):
            is_below = (share * (filled / np.expm1(load) - (count - filled))).sum(1) > 0
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    clusters = np.where(filled.any(1), np.rint(np.exp(low)), 0).astype(np.int64)
    of_levels = cells.sum((1, 3)).astype(np.float64)
    squares = (cells.astype(np.float64) ** 2).sum((1, 3))
    total = of_levels.sum(1)
    of_clusters = np.maximum((count * squares - of_levels**2) / (count - 1), squares / count).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.minimum(total**2 / of_clusters, clusters)
        largest = rows.max((1, 2), initial=0) / total
    return CountedClusters(clusters, effective, largest)
