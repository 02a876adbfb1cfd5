"""Sums of each cluster: rows, weights and residuals, of all clusters or of a random sample of them.

A cluster is in the sample if its number, a hash, is below a threshold, which falls until the sample is small enough:
whichever blocks its rows are in, a cluster that is in the sample at the end was in it all along, with all of its rows.
Clusters that are not in the sample are added up by bucket of their hash: one of them that dominates its slice dominates
its bucket.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels.cluster_codes import cluster_codes, cluster_sums
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.block import Block
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import read_only
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.views.clusters import FEWEST_CLUSTERS, bucket_count

# A cluster with a larger share of the rows decides the numbers, and the others are too few to show how they vary. Of 60
# clusters, 90 % intervals cover in three of four data sets if one cluster has a third of the rows, and in 43 % if it
# has half.
MOST_OF_A_CLUSTER = 0.25
# Clusters, by slice, whose sums are kept.
MOST_CLUSTERS = 1 << 17
_HASH_BITS = 52
# Buckets of all slices together, and fewest of a slice, of clusters that are not in the sample.
_BUCKETS_TOGETHER, _FEWEST_BUCKETS = 1 << 20, 16
# Clusters with a larger share of the weight are too rare for a sample to represent; the buckets of all rows are used.
_LARGE = 0.05
# Residuals and their squares are whole numbers of this unit: sums of 2**31 rows fit an int64.
_UNIT = 2.0**-32


class ClusterSumsState(NamedTuple):
    """Sums of the sampled clusters of each slice, in the order of ``slice`` and ``cluster``, (clusters,) each.

    One cluster of 2**level is in the sample, all at level 0. ``rows`` of positive weight; ``weight`` (2, clusters) the
    sums of w and w**2; ``residual`` (3, clusters) those of w r, w**2 r and (w r)**2 with r = o - s, without weights as
    int64 in units of 2**-32. ``others`` (2, groups, buckets) are the sums of w and w r of the clusters that are not in
    the sample, by bucket; (0, groups, buckets) at level 0, where all are.
    """

    level: npt.NDArray[np.int64]
    slice: Counts
    cluster: Counts
    rows: Counts
    weight: npt.NDArray[Any]
    residual: npt.NDArray[Any]
    others: npt.NDArray[Any]


@dataclass(frozen=True)
class ClusterSums(Statistic[ClusterSumsState]):
    """Rows, weights and residuals of each cluster, in the first column of a setting and the first model.

    Parameters
    ----------
    setting : Setting
        Which columns of (score, outcome).

    Notes
    -----
    Exact up to 131,072 pairs of a slice and a cluster; beyond that a random sample of at least half as many of them,
    so that the number of clusters is off by 0.4 % or less. Memory: 72 bytes for each; of a sample also 16 for each of
    the 16 to 512 buckets of a slice.
    """

    setting: Setting

    def from_block(self, block: Block) -> ClusterSumsState:
        """Sums of one block."""
        if block.clusters is None:
            raise ValueError("Sums of clusters expect rows with clusters; pass groups.")
        weights = None if block.weights is None else np.nan_to_num(block.weights_of(0))
        chosen: Any = slice(None) if weights is None else np.flatnonzero(weights > 0)
        clusters = block.clusters[chosen]
        groups = block.group[chosen] if block.group.size else block.group
        scores, labels = block.columns(self.setting).of(0)
        clipped = np.nan_to_num(scores[chosen, 0].astype(np.float64)).clip(0.0, 1.0)
        residual = (labels[chosen] == block.columns(self.setting).first_class) - clipped
        codes, pairs = _codes(groups, clusters)
        rows, weight, by_cluster = _sums(codes, pairs, residual, None if weights is None else weights[chosen])
        others = np.zeros((0, block.layout.groups, _buckets(block.layout)), by_cluster.dtype)
        return _thinned(ClusterSumsState(np.zeros(1, np.int64), *pairs, rows, weight, by_cluster, others))

    def merge(self, a: ClusterSumsState, b: ClusterSumsState) -> ClusterSumsState:
        """Sums of both, of the clusters below the lower threshold."""
        level = np.maximum(a.level, b.level)
        a, b = (_below(state, level) for state in (a, b))
        slices, clusters = (np.concatenate(pair) for pair in ((a.slice, b.slice), (a.cluster, b.cluster)))
        order = np.lexsort((clusters, slices))
        slices, clusters = slices[order], clusters[order]
        is_new = np.r_[True, (np.diff(slices) != 0) | (np.diff(clusters) != 0)][: slices.size]
        codes = np.empty(order.size, np.int64)
        codes[order] = np.cumsum(is_new) - 1
        distinct = int(is_new.sum())

        def total(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[Any]:
            result = np.zeros((*x.shape[:-1], distinct), x.dtype)
            for part, at in ((x, codes[: len(a.rows)]), (y, codes[len(a.rows) :])):
                # Clusters of one state are distinct.
                result[..., at] += part
            return result

        rows, weight, residual = (total(x, y) for x, y in zip(a[3:6], b[3:6], strict=True))
        others = a.others + b.others
        return _thinned(ClusterSumsState(level, slices[is_new], clusters[is_new], rows, weight, residual, others))

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return 72 * MOST_CLUSTERS + 16 * layout.groups * _buckets(layout)


def _buckets(layout: Layout) -> int:
    """Number of buckets of each slice, a power of 2."""
    most = max(_FEWEST_BUCKETS, _BUCKETS_TOGETHER // layout.groups)
    return min(bucket_count(layout), 1 << (most.bit_length() - 1))


def _codes(groups: npt.NDArray[np.int32], clusters: Counts) -> tuple[Counts, tuple[Counts, Counts]]:
    """A number for each pair of a slice and a cluster in their order, and the pairs."""
    codes, first = np.empty((2, clusters.size), np.int64)
    count = cluster_codes(read_only(clusters), read_only(groups), codes, first)
    first = first[:count]
    slices = groups[first].astype(np.int64) if groups.size else np.zeros(count, np.int64)
    order = np.lexsort((clusters[first], slices))
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    return rank[codes], (slices[order], clusters[first][order])


def _sums(
    codes: Counts, pairs: tuple[Counts, Counts], residual: Array, weights: Array | None
) -> tuple[Counts, npt.NDArray[Any], npt.NDArray[Any]]:
    """The rows, weights and residuals of each pair."""
    size = pairs[0].size
    if weights is None:
        rows, whole = np.zeros(size, np.int64), np.zeros((2, size), np.int64)
        cluster_sums(codes, residual, rows, whole)
        return rows, np.stack([rows, rows]), whole[[0, 0, 1]]
    rows = np.bincount(codes, minlength=size)
    terms = weights * residual, weights**2 * residual, (weights * residual) ** 2
    # Sums of no rows would be whole numbers.
    weight, by_cluster = (
        np.stack([np.bincount(codes, term, size) for term in terms_of]).astype(np.float64)
        for terms_of in ((weights, weights**2), terms)
    )
    return rows, weight, by_cluster


def _below(state: ClusterSumsState, level: npt.NDArray[np.int64]) -> ClusterSumsState:
    """The clusters of a sample of this level, and the others by bucket."""
    if level[0] == state.level[0]:
        return state
    kept = state.cluster < (1 << (_HASH_BITS - int(level[0])))
    left_out = _by_bucket(state, ~kept)
    others = state.others + left_out if len(state.others) else left_out
    slices, clusters, rows, weight, residual = (sums[..., kept] for sums in state[1:6])
    return ClusterSumsState(level, slices, clusters, rows, weight, residual, others)


def _by_bucket(state: ClusterSumsState, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Sums of w and w r of some of the sampled clusters, (2, groups, buckets)."""
    sums = np.zeros((2, *state.others.shape[1:]), state.others.dtype)
    place = state.slice[chosen], state.cluster[chosen] % sums.shape[-1]
    for total, of_clusters in zip(sums, (state.weight[0], state.residual[0]), strict=True):
        np.add.at(total, place, of_clusters[chosen])
    return sums


def _thinned(state: ClusterSumsState) -> ClusterSumsState:
    """At the lowest level at which the sample is small enough."""
    while state.rows.size > MOST_CLUSTERS:
        state = _below(state, state.level + 1)
    return state


class SliceClusters(NamedTuple):
    """Cluster totals of each slice, (groups,) each.

    Attributes
    ----------
    clusters : ndarray
        Their number.
    effective : ndarray
        (sum n_g)**2 / sum n_g**2 with the weight n_g of each: as many equal ones.
    largest : ndarray
        Share of the largest in the weight of the slice. If it is not in the sample, of its bucket less the mean of the
        others.
    design_effect : ndarray
        Of the mean residual: its variance, from sums by cluster, relative to that of independent rows.
    correlation : ndarray
        Intracluster correlation of the residuals, by the analysis of variance; NaN where each row is a cluster.
    equivalent : ndarray
        Equal clusters that give as certain a variance as the buckets of these (`equivalent_clusters`); NaN if unknown.
    skewness : ndarray
        Of the mean residual, by the buckets (`skewness_of_sum`); NaN if unknown.
    level : int
        One cluster of 2**level is in the sample.
    """

    clusters: Counts
    effective: Array
    largest: Array
    design_effect: Array
    correlation: Array
    equivalent: Array
    skewness: Array
    level: int

    @property
    def dominated(self) -> npt.NDArray[np.bool_]:
        """Whether one cluster has so much of the weight of a slice that its numbers have no interval."""
        return np.asarray(self.largest > MOST_OF_A_CLUSTER)

    @property
    def suffice(self) -> npt.NDArray[np.bool_]:
        """Whether clusters are enough, and even enough, for intervals and tests of a slice."""
        return (self.clusters >= FEWEST_CLUSTERS) & ~self.dominated


def slice_clusters(state: ClusterSumsState, groups: int) -> SliceClusters:
    """Cluster totals of each slice from sums of clusters."""
    unit = 1.0 if state.residual.dtype == np.float64 else _UNIT
    weight, square = state.weight.astype(np.float64)
    residual, of_square, squares = state.residual.astype(np.float64) * unit

    def total(values: Array) -> Array:
        return np.asarray(np.bincount(state.slice, values, groups), np.float64)

    count, rows, weights = total(np.ones(weight.size)), total(state.rows.astype(np.float64)), total(weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total(residual) / weights
        of_clusters = total((residual - mean[state.slice] * weight) ** 2)
        of_rows = total(squares) - 2 * mean * total(of_square) + mean**2 * total(square)
        largest = np.zeros(groups)
        np.maximum.at(largest, state.slice, weight)
        # Of clusters that are not sampled the sum of squares is the same multiple of theirs as their number.
        sampled = 2.0 ** int(state.level[0])
        effective = weights**2 / total(weight**2) * sampled
        between = of_clusters * count / (count - 1)
        typical = (rows - total(state.rows.astype(np.float64) ** 2) / rows) / (count - 1)
        correlation = _correlation(total(residual**2 / weight) - mean**2 * weights, of_rows, count, rows, typical)
        effect, share = between / of_rows * (rows - 1) / rows, largest / weights
    all_rows = _AllRows.of(state, unit)
    if state.level[0]:
        share = np.fmax(all_rows.largest, largest / all_rows.weight)
        is_large = share > _LARGE
        effective = np.where(is_large, all_rows.effective, effective)
        effect = np.where(is_large, all_rows.between / (of_rows * all_rows.weight / weights), effect)
    return SliceClusters(
        np.rint(count * sampled).astype(np.int64),
        effective,
        share,
        effect,
        np.where(rows > count, correlation, np.nan),
        all_rows.equivalent,
        all_rows.skewness,
        int(state.level[0]),
    )


def equivalent_clusters(squares: Array, fourth_powers: Array, count: Array) -> Array:
    """How many normal clusters determine a variance as well as these, by sums of u**2 and u**4, and their number.

    The sum of the squared deviations u of G clusters has the relative variance (K - 1) / G with their kurtosis
    K = G sum u**4 / (sum u**2)**2, that of N normal ones 2 / N: N = 2 G / (K - 1). Few clusters with most of the
    events, or of the rows, have a large kurtosis.

    Examples
    --------
    >>> equivalent_clusters(np.array([40.0]), np.array([120.0]), np.array([40])).tolist()
    [40.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(2 * count / np.maximum(count * fourth_powers / squares**2 - 1, 0.0))


def skewness_of_sum(deviations: Array) -> Array:
    """The skewness of a sum over clusters with these deviations u from their means: sum u**3 / (sum u**2)**(3/2).

    Examples
    --------
    >>> skewness_of_sum(np.array([3.0, -1.0, -1.0, -1.0])).round(3).tolist()
    0.577
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((deviations**3).sum(-1) / (deviations**2).sum(-1) ** 1.5)


def largest_of_buckets(weights: Array) -> Array:
    """The weight of the largest cluster of buckets (groups, buckets): of its bucket, less the mean of the others.

    Examples
    --------
    >>> largest_of_buckets(np.array([[2.0, 12.0, 2.0, 2.0]])).tolist()
    [10.0]
    """
    others = (weights.sum(-1)[:, None] - weights) / (weights.shape[-1] - 1)
    return np.asarray((weights - others).max(-1))


def effective_of_buckets(weights: Array) -> Array:
    """(sum n)**2 / sum n**2 of the clusters of buckets (groups, buckets), which share them at random."""
    total, buckets = weights.sum(-1), weights.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        # The products of the sizes of clusters that share a bucket are corrected for on average.
        return np.asarray(total**2 * (buckets - 1) / (buckets * (weights**2).sum(-1) - total**2))


class _AllRows(NamedTuple):
    """Totals of all clusters of each slice, (groups,) each, from sums by bucket; ``largest`` of those not sampled."""

    weight: Array
    largest: Array
    effective: Array
    between: Array
    equivalent: Array
    skewness: Array

    @classmethod
    def of(cls, state: ClusterSumsState, unit: float) -> "_AllRows":
        """Weights, and the squared sums of residuals that the buckets of all clusters have."""
        everything = _by_bucket(state, np.ones(state.slice.size, np.bool_))
        others = state.others[0].astype(np.float64) if len(state.others) else np.zeros(everything.shape[1:])
        everything = everything + state.others if len(state.others) else everything
        weights, residuals = everything[0].astype(np.float64), everything[1] * unit
        weight = weights.sum(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = residuals.sum(-1) / weight
            filled = (weights > 0).sum(-1)
            deviations = residuals - mean[:, None] * weights
            squares = (deviations**2).sum(-1)
            equivalent = equivalent_clusters(squares, (deviations**4).sum(-1), filled)
            between = squares * filled / (filled - 1)
            largest, effective = largest_of_buckets(others) / weight, effective_of_buckets(weights)
            return cls(weight, largest, effective, between, equivalent, skewness_of_sum(deviations))


@dataclass(frozen=True)
class ClustersOfSlices(Derived[SliceClusters]):
    """Cluster totals of each slice, of the residuals in the first column of a setting."""

    setting: Setting

    def derive(self) -> Requests[SliceClusters]:
        """From sums of each cluster."""
        layout = yield from Layout()
        return slice_clusters((yield from ClusterSums(self.setting)), layout.groups)

    def from_histograms(self, histograms: Histograms) -> Requests[SliceClusters]:
        """As a summary has them."""
        yield from ()
        return histograms.clusters(self.setting)


def _correlation(between: Array, total: Array, count: Array, rows: Array, typical: Array) -> Array:
    """(B - W) / (B + (n0 - 1) W) with the mean squares between and within clusters and the typical size n0."""
    of_clusters, within = between / (count - 1), (total - between) / (rows - count)
    return np.asarray((of_clusters - within) / (of_clusters + (typical - 1) * within))
