"""Cluster totals of each slice: clusters, and the effective number of independent rows."""

from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import Description, PartInfo
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate, FixedPart
from calibdask.statistics.cluster_sums import ClustersOfSlices, SliceClusters
from calibdask.statistics.counts import RowCount
from calibdask.statistics.layout import Layout
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests

# The names of the coordinates of a result.
CLUSTER_TOTALS = ("clusters", "effective_rows")


@dataclass(frozen=True)
class ClusterTotals(Estimator):
    """Clusters of each slice, and how many independent rows have as much information on the mean gap.

    The effective number of rows is that of rows divided by the design effect of the mean residual, the variance of the
    mean from sums by cluster relative to that of independent rows, in the setting that metrics have by default.
    """

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "clusters": PartInfo("clusters of dependent rows", "count"),
            "effective_rows": PartInfo("independent rows with equal information on the mean gap", "statistic"),
            "effective_clusters": PartInfo("equal clusters with as large a sum of squares", "statistic"),
            "largest": PartInfo("share of the largest cluster", "statistic"),
            "design_effect": PartInfo("variance of the mean gap relative to independent rows", "statistic"),
            "correlation": PartInfo("intracluster correlation of the residuals", "statistic"),
            "equivalent_clusters": PartInfo("equal clusters with as certain a variance", "statistic"),
            "skewness": PartInfo("skewness of the mean gap", "statistic"),
            "sampled": PartInfo("one cluster of so many was counted", "count"),
        }

    @override
    def interval(self, layout: Layout) -> NoInterval:
        return NoInterval()

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        # Prefetch, to be counted in the same pass.
        yield from Prefetch(RowCount())
        known = yield from ClustersOfSlices(layout.setting(None))
        rows = (yield from RowCount()).rows
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = rows / known.design_effect
        values = {
            "clusters": known.clusters,
            "effective_rows": worth,
            "effective_clusters": known.effective,
            "largest": known.largest,
            "design_effect": known.design_effect,
            "correlation": known.correlation,
            "equivalent_clusters": known.equivalent,
            "skewness": known.skewness,
            "sampled": np.full(layout.groups, 1 << known.level),
        }
        return {name: FixedPart(np.broadcast_to(value, rows.shape)) for name, value in values.items()}


def clusters_of(estimate: Estimate) -> SliceClusters:
    """Cluster information of each slice."""
    return SliceClusters(
        clusters=estimate["clusters"].values[0],
        effective=estimate["effective_clusters"].values[0],
        largest=estimate["largest"].values[0],
        design_effect=estimate["design_effect"].values[0],
        correlation=estimate["correlation"].values[0],
        equivalent=estimate["equivalent_clusters"].values[0],
        skewness=estimate["skewness"].values[0],
        level=int(estimate["sampled"].values[0, 0]).bit_length() - 1,
    )
