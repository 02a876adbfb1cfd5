"""Evaluation of soft labels: which metrics are defined, and what results say."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.soft_labels import soft_data
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.metrics import Metrics, named_metrics, refuse_unsupported, supported_metrics
from calibdask.results.build import DEFAULT_PANEL
from calibdask.statistics.layout import Layout

# Metrics of a source where the user named none, and the evaluation of some.
Panel = Callable[[Input], Mapping[str, Estimator]]
Evaluation = Callable[[Input, Metrics | None], xr.Dataset]

# Of metrics that count labels, or test against labels that are drawn, by class.
_UNDEFINED = {
    "ConformalThreshold": "a set holds a label or does not",
    "GradeTests": "its binomial tests count outcomes",
    "SpiegelhalterTest": "its expectation is that of labels that are 0 or 1",
    "ConsistencyBars": "its bars are those of labels that are drawn",
    "Refinement": "its maps are fitted to labels",
}


def evaluated_soft(
    data: Data, metrics: Metrics | None, panel: Panel, evaluated: Evaluation, *, has_names: bool
) -> xr.Dataset:
    """The result of rows whose labels are shares; ``has_names`` says whether metrics were named.

    Shares that are all 0 or 1 are evaluated as the labels that they are.
    """
    parts = soft_data(data)
    read = parts.read(takes_groups=True)
    if parts.weights is None:
        return evaluated(read, metrics)
    layout = read.source.layout
    if has_names:
        assert metrics is not None
        chosen = named_metrics(metrics)
        check_soft(chosen, layout)
    else:
        chosen = soft_panel(panel(read), layout)
    result = evaluated(read, chosen)
    if metrics is None:
        result = result.assign_attrs(panel=DEFAULT_PANEL)
    has_groups = data.options.groups is not None
    return with_rows_counted(result, len(data.labels), has_groups=has_groups)


def check_soft(metrics: Mapping[str, Estimator], layout: Layout) -> None:
    """Refuse metrics that are not defined for soft labels.

    Raises
    ------
    ValueError
        If there is one; the message says why.
    """
    refuse_unsupported("soft_labels", metrics, lambda metric: soft_refusal(metric, layout), "Leave the metric out.")


def soft_refusal(metric: Estimator, layout: Layout) -> str:
    """Why a metric is not defined for soft labels, as a clause; empty where it is."""
    if metric.is_test(layout):
        return "its p-value holds for labels that are 0 or 1"
    if getattr(metric, "debias", False):
        return "its correction is that of labels that are 0 or 1"
    return _UNDEFINED.get(type(metric).__name__, "") or metric.cluster_refusal(layout)


def soft_panel(panel: Mapping[str, Estimator], layout: Layout) -> dict[str, Estimator]:
    """The metrics of a panel that are defined for soft labels."""
    return supported_metrics(panel, lambda metric: soft_refusal(metric, layout))


def with_rows_counted(result: xr.Dataset, rows: int, *, has_groups: bool) -> xr.Dataset:
    """A result of parts of rows with the numbers of rows: the sums of their weights, which are 1 for each row."""
    coordinates: dict[str, Any] = {}
    if {"events", "frequency"} <= set(result.coords):
        events, frequency, counted = (result[name].values for name in ("events", "frequency", "rows"))
        with np.errstate(divide="ignore", invalid="ignore"):
            total = np.rint(events / frequency)
        own = np.where(frequency > 0, total, counted).astype(np.int64)
        coordinates["rows"] = result["rows"].copy(data=own)
    result = result.assign_coords(coordinates).assign_attrs(rows=rows, soft_labels="shares of labels")
    if has_groups:
        return result
    # Rows are independent here: the clusters are their parts.
    effects = [name for name in result.data_vars if str(name).endswith("_design_effect")]
    kept = result.drop_vars([*effects, *({"clusters", "effective_rows"} & set(result.coords))])
    for name in ("groups", "cluster_buckets", "intracluster_correlation", "clusters_sampled"):
        kept.attrs.pop(name, None)
    return kept
