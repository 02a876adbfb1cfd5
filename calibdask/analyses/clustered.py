"""Analyses of clustered rows: skipped and unsupported metrics, and notes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calibdask.analyses.soft_evaluation import refuse_soft
from calibdask.data.input import Input
from calibdask.estimators.about import Description
from calibdask.estimators.cluster_totals import clusters_of
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.metrics import refuse_unsupported, supported_metrics
from calibdask.estimators.parts import Estimate
from calibdask.inference.cluster_bootstrap import cluster_notes
from calibdask.results.build import CLUSTER_NOTES
from calibdask.statistics.layout import Layout
from calibdask.statistics.views.clusters import bucket_count

_NO_PVALUE = "none: this p-value assumes independent rows, but rows of a cluster are dependent"


def check_clustered(metrics: Mapping[str, Estimator], data: Input) -> None:
    """Refuse metrics that were asked for and do not support clusters, or soft labels.

    Raises
    ------
    ValueError
        If there is one; the message says why.
    """
    refuse_soft(metrics, data)
    layout = data.source.layout
    if layout.clustered:
        advice = "Leave the metric out, or evaluate one row of each cluster without groups."
        refuse_unsupported("groups", metrics, lambda metric: metric.cluster_refusal(layout), advice)


def check_binomial(caller: str, layout: Layout, *, has_rows: bool) -> None:
    """Refuse rows whose errors are not binomial: dependent ones, and those with weights.

    Raises
    ------
    ValueError
        If there are such; the message of ``caller`` says why.
    """
    if layout.clustered:
        mend = "leave groups out" if has_rows else "summarize these without groups"
        raise ValueError(
            f"{caller} expects independent rows: its guarantee comes from exact binomial tests, which are not valid "
            f"for clusters of dependent rows. Draw one row of each cluster at random, and {mend}: the guarantee then "
            "applies to the risk of a random row of a random cluster."
        )
    if layout.weighted:
        raise ValueError(
            f"{caller} expects rows, or a summary without weights, and multilabel rows without skip_missing: its "
            "guarantee counts rows."
        )


def refusal_of(metric: Estimator, layout: Layout) -> str:
    """Why a metric does not support the weights or the clusters of rows, as a clause; empty if it does."""
    if layout.weighted and not metric.supports_weights:
        return "it does not support weights"
    return metric.cluster_refusal(layout) if layout.clustered else ""


def supported_panel(panel: Mapping[str, Estimator], layout: Layout) -> dict[str, Estimator]:
    """The metrics of a panel that support the weights and the clusters of rows."""
    return supported_metrics(panel, lambda metric: refusal_of(metric, layout))


def without_row_pvalues(metric: Estimator, estimate: Estimate, description: Description) -> Estimate:
    """The estimate without p-values that hold for independent rows."""
    if metric.tests_clusters:
        return estimate
    return {
        name: replace(part, values=np.full(part.values.shape, np.nan), notes={**part.notes, "no_pvalue": _NO_PVALUE})
        if name in description and description[name].kind == "pvalue"
        else part
        for name, part in estimate.items()
    }


def cluster_attributes(data: Input, estimate: Estimate) -> dict[str, Any]:
    """Attributes of results about the clusters of their rows."""
    known = clusters_of(estimate)
    said: dict[str, Any] = {"cluster_buckets": bucket_count(data.source.layout)}
    if known.clusters.size == 1 and np.isfinite(known.correlation[0]):
        said["intracluster_correlation"] = float(known.correlation[0])
    if known.level:
        said["clusters_sampled"] = f"one of {1 << known.level}"
    notes = cluster_notes(known)
    return {**said, CLUSTER_NOTES: notes} if notes else said
