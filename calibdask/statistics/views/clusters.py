"""Rows of clusters: buckets of clusters, and replicates in which whole buckets are drawn.

Rows of one cluster are dependent, clusters are not. A hash of its cluster sends each row to one of a fixed number of
buckets; rows of different buckets are independent whatever the blocks, their order and where a cluster is cut. A state
is kept for each bucket, in the same pass, and a replicate of the data is the sum of these states with one Poisson(1)
weight for each bucket: the bootstrap of clusters, or of sets of clusters where there are more of them than buckets. The
relative error of a standard error from B buckets is about 1 / sqrt(2 (B - 1)), 3 % of 512.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from calibdask.statistics.block import Block
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.keyed_random import philox_key
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.statistic import Statistic, ViewedStatistic
from calibdask.statistics.views.folds import fold_numbers
from calibdask.statistics.views.poisson import poisson_counts
from calibdask.statistics.views.reweighted import Reweighted
from calibdask.statistics.views.view import View

StateT = TypeVar("StateT")

MOST_BUCKETS, _FEWEST_BUCKETS = 512, 64
# Of all slices, models and classes together, where that leaves enough of each.
_BUCKETS_TOGETHER = 2048
_PURPOSE = 11
# With fewer clusters no interval and no test holds its level.
FEWEST_CLUSTERS = 10


def bucket_count(layout: Layout) -> int:
    """Number of buckets of each slice: a power of 2, fewer of many slices, models or classes, for their memory.

    Summaries have the number that was chosen for them.

    Examples
    --------
    >>> bucket_count(Layout()), bucket_count(Layout(groups=20)), bucket_count(Layout(groups=1000))
    (512, 64, 64)
    """
    if layout.buckets is not None:
        return layout.buckets
    together = layout.batch * layout.groups * (1 if layout.vector else layout.classes)
    most = max(_FEWEST_BUCKETS, _BUCKETS_TOGETHER // together)
    return int(min(MOST_BUCKETS, 1 << (most.bit_length() - 1)))


@dataclass(frozen=True)
class Buckets(View):
    """Slices cut into buckets of clusters: slice g becomes the slices g * count to before (g + 1) * count.

    Parameters
    ----------
    count : int
        Number of buckets.
    by_rows : bool
        Whether rows are sent to buckets by their own number, as if each were a cluster.
    """

    count: int
    by_rows: bool = False

    @property
    def ordered(self) -> bool:  # type: ignore[override]  # a class attribute of other views
        """Whether rows go by their position."""
        return self.by_rows

    def layout(self, layout: Layout) -> Layout:
        """More slices."""
        return replace(layout, groups=layout.groups * self.count, rows=None)

    def block(self, block: Block) -> Block:
        """The rows by bucket."""
        group = self.of_rows(block)
        if block.group.size:
            group = group + block.group.astype(np.int64) * self.count
        return replace(block, layout=self.layout(block.layout), group=group.astype(np.int32), before=None)

    def of_rows(self, block: Block) -> Counts:
        """The bucket of each row."""
        if self.by_rows:
            return fold_numbers(block.row_numbers, self.count, 0)
        if block.clusters is None:
            raise ValueError("Buckets of clusters expect rows with clusters; pass groups.")
        return block.clusters % self.count


@dataclass(frozen=True)
class BucketWeights(Reweighted):
    """Replicates along the batch axis in which the rows of a bucket have one Poisson(1) weight.

    Sums of a replicate are weighted sums of those of the buckets, which one pass finds whatever the number of
    replicates. Statistics that do not add up see the rows with their weights.

    Parameters
    ----------
    replicates : int
        Number of replicates.
    seed : int
        Weights are keyed by it, the replicate and the bucket.
    buckets : Buckets
        Of the rows.
    """

    replicates: int
    seed: int
    buckets: Buckets

    @property
    def ordered(self) -> bool:  # type: ignore[override]  # a class attribute of other views
        """Whether buckets go by the position of rows."""
        return self.buckets.ordered

    @property
    def copies(self) -> int:
        """Number of replicates."""
        return self.replicates

    @property
    def of_buckets(self) -> Array:
        """The weights of the buckets, (replicates, buckets)."""
        key = philox_key(self.seed, _PURPOSE, int(self.buckets.by_rows))
        return poisson_counts(np.arange(self.buckets.count), self.replicates, key)

    @property
    def signs_of_buckets(self) -> Array:
        """A random sign for each replicate and bucket, (replicates, buckets)."""
        random = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_PURPOSE, 2)))
        heads = random.integers(0, 2, (self.replicates, self.buckets.count))
        return np.where(heads > 0, 1.0, -1.0)

    def keys(self, block: Block) -> Counts:
        """The bucket of each row."""
        return self.buckets.of_rows(block)

    def weights(self, numbers: Counts) -> Array:
        """Weights of rows of these buckets."""
        return self.of_buckets[:, numbers]

    def layout(self, layout: Layout) -> Layout:
        """All replicates; curves of the score are fitted to cells, since their states add up."""
        return replace(super().layout(layout), by_cells=True)

    def from_states(self, statistic: Statistic[StateT]) -> Derived[StateT] | None:
        """Weighted sums of the states of the buckets, if replicates are such sums."""
        return ReplicatedBuckets(self, statistic) if statistic.is_reweighted else None

    def of_states(self, statistic: Statistic[StateT], state: StateT, layout: Layout) -> StateT:
        """States of all replicates, from that of the buckets; ``layout`` is that of the data."""
        sums, weights = _BucketSums(layout, self.buckets.count), self.of_buckets

        def drawn(values: Sums, axis: int, power: int) -> Any:
            if power:
                return sums.weighted(values, axis, weights**power)
            return np.rint(sums.weighted(values, axis, (weights > 0).astype(np.float64))).astype(np.int64)

        return statistic.reweighted(state, drawn)


@dataclass(frozen=True)
class CalibratedReplicates(BucketWeights):
    """Replicates of a calibrated model, for statistics that sum outcomes and scores; others see the data.

    Each replicate has the scores of the data, and outcomes that add up to the scores plus the residuals of each bucket
    with a random sign: noise that depends within clusters as that of the data does, and has the mean 0 (the wild
    bootstrap of clusters, Cameron, Gelbach & Miller 2008).
    """

    def from_states(self, statistic: Statistic[StateT]) -> Derived[StateT] | None:
        """As the residuals of the buckets have them."""
        if statistic.has_calibrated_form:
            return ReplicatedBuckets(self, statistic)
        return super().from_states(statistic)

    def of_states(self, statistic: Statistic[StateT], state: StateT, layout: Layout) -> StateT:
        """States of all replicates: residuals of buckets with random signs."""
        if not statistic.has_calibrated_form:
            return super().of_states(statistic, state, layout)
        sums, noise = _BucketSums(layout, self.buckets.count), self.signs_of_buckets
        every = np.ones((1, self.buckets.count))

        def total(values: Sums, axis: int) -> Any:
            once = sums.weighted(values, axis, every)
            return np.concatenate([once] * len(noise), axis)

        return statistic.as_calibrated(state, total, lambda values, axis: sums.weighted(values, axis, noise))


@dataclass(frozen=True)
class ReplicatedBuckets(Derived[StateT]):
    """States of all replicates, from the states of the buckets."""

    view: BucketWeights
    statistic: Statistic[StateT]

    def derive(self) -> Requests[StateT]:
        """Request the states of the buckets."""
        layout = yield from Layout()
        state = yield from ViewedStatistic(self.view.buckets, self.statistic)
        return self.view.of_states(self.statistic, state, layout)


@dataclass(frozen=True)
class _BucketSums:
    """Weighted sums over the buckets of each slice of a layout."""

    layout: Layout
    count: int

    def weighted(self, sums: Sums, axis: int, factor: Array) -> Array:
        """Sums with a factor (replicates, buckets); ``axis`` is that of the batch, followed by that of the buckets."""
        values = np.moveaxis(sums, axis, 0)
        leading, others = values.shape[1 : axis + 1], values.shape[axis + 2 :]
        by_bucket = values.reshape(-1, self.count, math.prod(others))
        total = np.zeros((len(factor), len(by_bucket), by_bucket.shape[-1]))
        for number, of_slice in enumerate(by_bucket):
            total[:, number] = _weighted_sums(factor, of_slice)
        total = total.reshape(len(factor) * self.layout.batch, *leading, self.layout.groups, *others)
        return np.ascontiguousarray(np.moveaxis(total, 0, axis))


def _weighted_sums(factor: Array, sums: Sums) -> Array:
    """``factor`` (replicates, buckets) times ``sums`` (buckets, n), skipping zeros."""
    filled = sums != 0
    rows, columns = np.flatnonzero(filled.any(1)), np.flatnonzero(filled.any(0))
    if 2 * rows.size * columns.size > sums.size:
        return np.asarray(factor @ sums)
    total = np.zeros((len(factor), sums.shape[1]))
    total[:, columns] = factor[:, rows] @ sums[rows][:, columns]
    return total
