"""Mean gaps of groups of slices whose rows are clustered, by the variance of sums over buckets of clusters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibdask.explore.summaries.sparse_sums import SliceNumbers
from calibdask.inference.cluster_bootstrap import farther_on_long_side
from calibdask.statistics.bins.grid import unit_of
from calibdask.statistics.cluster_cells import CountedClusters, counted_clusters
from calibdask.statistics.cluster_sums import MOST_OF_A_CLUSTER, equivalent_clusters, skewness_of_sum
from calibdask.statistics.views.clusters import FEWEST_CLUSTERS
from calibdask.storage.summary_clusters import BY_BUCKET, CLUSTER_BUCKET, CLUSTER_ROWS

if TYPE_CHECKING:
    from calibdask.explore.summaries.pool import Pool

Array = npt.NDArray[np.float64]

# Cells of clusters that are in memory at a time.
_MOST_BYTES = 1 << 27


class BucketSums:
    """Sums of weights, outcomes and scores of each slice by bucket of clusters, in a setting of one column.

    Parameters
    ----------
    pool : Pool
        Of a summary with clusters.
    setting : str, int or None
    """

    def __init__(self, pool: "Pool", setting: str | int | None) -> None:
        from scipy.sparse import csr_array

        self._pool = pool
        measured = pool.source.layout.setting(setting)
        histogram = pool.source.finest(measured)
        edge, step = histogram.grid.nearer
        total: Any = 0
        for name in pool.gap_variables(setting):
            variable = pool.summary[name]
            sizes = {str(dim): size for dim, size in variable.sizes.items() if dim not in pool.axes}
            bucket, cell, outcome = (
                at.ravel() for dim, at in zip(sizes, np.indices([*sizes.values()]), strict=True) if dim != "class"
            )
            one = np.ones(cell.size)
            if name.endswith(f"_offset{BY_BUCKET}"):
                terms = [0 * one, 0 * one, step[cell] * unit_of(np.zeros(0, variable.dtype))]
            else:
                terms = [one, 1.0 * outcome, edge[cell]]
            if "class" in sizes:
                of_class = np.indices([*sizes.values()])[[*sizes].index("class")].ravel() == measured.index
                terms = [term * of_class for term in terms]
            columns = np.concatenate([3 * bucket + number for number in range(3)])
            rows = np.tile(np.arange(cell.size), 3)
            matrix = csr_array((np.concatenate(terms), (rows, columns)), (cell.size, 3 * sizes[CLUSTER_BUCKET]))
            matrix.eliminate_zeros()
            total = total + pool.sums.projected(name, matrix)
        self._sums: Array = total.reshape(len(total), -1, 3)

    def gaps(self, groups: Sequence[SliceNumbers], level: float) -> tuple[Array, Array, Array, Array]:
        """Mean gaps with the ends of their intervals, and mean scores; rows of each group are not none.

        The variance is B / (B - 1) times the sum over buckets of (outcomes - scores - gap * weights)**2, over the
        squared weight, with B - 1 degrees of freedom: B equal clusters are worth as much as these or give as certain a
        variance, or there are B buckets, if that is fewer. The end on the long side of a skewed sum is farther away
        (`calibdask.inference.cluster_bootstrap`).
        """
        from scipy.special import stdtrit

        sums = np.stack([self._sums[numbers].sum(0) for numbers in groups])
        weight, outcome, score = np.moveaxis(sums, -1, 0)
        total = weight.sum(-1)
        gap = (outcome - score).sum(-1) / total
        clusters, effective, largest = self._clusters(groups, weight)
        deviations = outcome - score - gap[:, None] * weight
        squares, fourth_powers = ((deviations**power).sum(-1) for power in (2, 4))
        equivalent = equivalent_clusters(squares, fourth_powers, (weight > 0).sum(-1))
        units = np.minimum(np.fmin(effective, equivalent), weight.shape[-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            quantile = stdtrit(units - 1.0, 0.5 + level / 2)
            error = np.sqrt(squares * units / (units - 1)) / total
            skewness = np.nan_to_num(skewness_of_sum(deviations))
            farther = farther_on_long_side(skewness, quantile)
        error = np.where((clusters >= FEWEST_CLUSTERS) & (largest <= MOST_OF_A_CLUSTER), error, np.nan)
        low = gap - error * (quantile + np.where(skewness < 0, farther, 0.0))
        high = gap + error * (quantile + np.where(skewness > 0, farther, 0.0))
        return gap, np.maximum(low, -1.0), np.minimum(high, 1.0), score.sum(-1) / total

    def _clusters(self, groups: Sequence[SliceNumbers], weight: Array) -> CountedClusters:
        """The clusters of each group."""
        cells = self._pool.summary[CLUSTER_ROWS].sizes
        width = cells["cluster_bucket"] * cells["cluster_cell"]
        size = max(1, _MOST_BYTES // (8 * width))
        parts = []
        for start in range(0, len(groups), size):
            batch = groups[start : start + size]
            rows = self._pool.sums.of(CLUSTER_ROWS, batch).astype(np.int64)
            parts.append(counted_clusters(rows).weighed(weight[start : start + size]))
        return CountedClusters(*map(np.concatenate, zip(*parts, strict=True)))
