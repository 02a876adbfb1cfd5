"""Evaluation of soft labels: which metrics are defined, and what results say."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from calibdask.analyses.soft_floor import floors, with_floors
from calibdask.data.data import Data
from calibdask.data.input import Input
from calibdask.data.soft_labels import SoftRows
from calibdask.estimators.about import PartInfo
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.hypothesis_tests.noise_floor import NoiseFloor
from calibdask.estimators.metrics import Metrics, named_metrics, refuse_unsupported, supported_metrics
from calibdask.inference.choice import IntervalChoice
from calibdask.results.build import DEFAULT_PANEL, METRICS_LEFT_OUT, beside_metrics, variable_attributes
from calibdask.statistics.layout import Layout

# Metrics of a source where the user named none, and the evaluation of some.
Panel = Callable[[Input], Mapping[str, Estimator]]
Evaluation = Callable[[Input, Metrics | None, IntervalChoice | None, str], xr.Dataset]

# The name of the variable for several raters, and its description.
DISAGREEMENT = "rater_disagreement"
_OF_RATERS = PartInfo("chance that labels of two raters of a row differ", "statistic")
# Of metrics that count labels, or test against labels that are drawn, by class.
_UNDEFINED = {
    "ConformalThreshold": "a set holds a label or does not",
    "GradeTests": "its binomial tests count outcomes",
    "SpiegelhalterTest": "its expectation is that of labels that are 0 or 1",
    "ConsistencyBars": "its bars are those of labels that are drawn",
    "Refinement": "its maps are fitted to labels",
}
# Settings that do not depend on which column a class is in.
_WITHOUT_CLASSES = ("", "confidence", "top-k", "label")


def evaluated_soft(
    data: Data,
    metrics: Metrics | None,
    panel: Panel,
    choice: IntervalChoice | None,
    class_dim: str,
    evaluation: Evaluation,
    *,
    has_names: bool,
) -> xr.Dataset:
    """The result of rows whose labels are shares; ``has_names`` says whether metrics were named.

    Shares that are all 0 or 1 are evaluated as the labels that they are.
    """

    def evaluated(read: Input, chosen: Metrics | None) -> xr.Dataset:
        return evaluation(read, chosen, choice, class_dim)

    read = data.read(takes_groups=True, takes_shares=True)
    rows = read.soft
    assert rows is not None
    are_hard = rows.are_hard
    if has_names:
        assert metrics is not None
        chosen = named_metrics(metrics)
        refuse_soft(chosen, read)
    else:
        chosen = soft_panel(panel(read), read.source.layout, rows)
    left_out = {} if has_names else {METRICS_LEFT_OUT: floors_left_out(rows)}
    if are_hard:
        usual = not has_names and rows.same_classes
        result = evaluated(read, metrics if usual else chosen)
        return with_raters(result.assign_attrs(left_out), rows, read)
    of_replicates = {name: metric for name, metric in chosen.items() if isinstance(metric, NoiseFloor)}
    others = {name: metric for name, metric in chosen.items() if name not in of_replicates}
    if of_replicates and data.options.population is not None:
        raise ValueError("NoiseFloor of soft labels does not support population; omit one of the two.")
    beside = beside_metrics(read, chosen)
    result = evaluated(beside, others or {"mean_gap": named_metrics("mean-gap")["mean_gap"]})
    variables: dict[Any, xr.Variable] = {} if not others else {**result.variables}
    variables |= floors(rows, of_replicates, beside, class_dim)
    named = [name for name in variables if name not in result.coords]
    order = {name: place for place, name in enumerate(chosen)}
    named.sort(key=lambda name: order.get(str(variables[name].attrs.get("metric", "")), len(order)))
    result = xr.Dataset({name: variables[name] for name in named}, result.coords, result.attrs)
    if metrics is None:
        result = result.assign_attrs(panel=DEFAULT_PANEL)
    if left_out.get(METRICS_LEFT_OUT):
        result = result.assign_attrs(left_out)
    return with_raters(of_whole_rows(result, beside), rows, beside)


def soft_refusal(metric: Estimator, layout: Layout, *, are_hard: bool = False, same_classes: bool = True) -> str:
    """Why a metric is not defined for soft labels, as a clause; empty where it is."""
    if not same_classes and metric.measured_setting(layout).partition(" ")[0] not in _WITHOUT_CLASSES:
        return "it is measured by class, and slices have different classes"
    if are_hard:
        return ""
    if isinstance(metric, NoiseFloor):
        if not metric.statistic.supports_weights:
            return "its statistic does not support weights"
        return soft_refusal(metric.statistic, layout, same_classes=same_classes)
    if metric.is_test(layout):
        return "its p-value holds for labels that are 0 or 1"
    if getattr(metric, "debias", False):
        return "its correction is that of labels that are 0 or 1"
    return _UNDEFINED.get(type(metric).__name__, "") or metric.cluster_refusal(layout)


def _refusal(rows: SoftRows, layout: Layout) -> Callable[[Estimator], str]:
    return partial(soft_refusal, layout=layout, are_hard=rows.are_hard, same_classes=rows.same_classes)


def supported_by_shares(metrics: Mapping[str, Estimator], data: Input) -> Mapping[str, Estimator]:
    """The metrics that are defined for the labels, if these are soft."""
    return metrics if data.soft is None else supported_metrics(metrics, _refusal(data.soft, data.source.layout))


def refuse_soft(metrics: Mapping[str, Estimator], data: Input) -> None:
    """Refuse metrics that were asked for and are not defined for soft labels.

    Raises
    ------
    ValueError
        If there is one; the message says why.
    """
    if data.soft is not None:
        refusal = _refusal(data.soft, data.source.layout)
        refuse_unsupported("soft_labels", metrics, refusal, "Leave the metric out.")


def soft_panel(panel: Mapping[str, Estimator], layout: Layout, rows: SoftRows) -> dict[str, Estimator]:
    """The metrics of a panel that are defined for soft labels, with noise floors of errors if there are any."""
    chosen = supported_metrics(panel, _refusal(rows, layout))
    return chosen if floors_left_out(rows) else with_floors(chosen, rows)


def floors_left_out(rows: SoftRows) -> list[str]:
    """Sentences on why errors have no noise floor beside them; none if they have."""
    reason = ""
    if rows.are_hard:
        draws = "rows of a cluster are dependent" if rows.clusters is not None else "NoiseFloor draws such labels"
        reason = f"all labels are 0 or 1 ({draws})"
    elif rows.data.options.population is not None:
        reason = "replicates have the prevalence of the rows"
    return [f"Noise floors are left out: {reason}."] if reason else []


def with_raters(result: xr.Dataset, rows: SoftRows, read: Input) -> xr.Dataset:
    """The result with the disagreement of raters, if there are several."""
    if rows.votes is None:
        return result
    counts = rows.row_counts
    mean = rows.votes.mean_disagreement(rows.group, counts.size, rows.weights).reshape(counts.shape)
    attributes = variable_attributes(DISAGREEMENT, "", _OF_RATERS) | {"estimator": "soft_labels='raters'"}
    return result.assign({DISAGREEMENT: xr.Variable([axis.name for axis in read.by], mean, attributes, fastpath=True)})


def with_row_counts(result: xr.Dataset, read: Input) -> xr.Dataset:
    """The result with the numbers of rows, where labels are shares: parts of them were counted."""
    rows = read.soft
    if rows is None or rows.are_hard:
        return result
    coordinates: dict[str, Any] = {}
    if "rows" in result.coords:
        counted = result["rows"]
        own = np.broadcast_to(rows.row_counts, counted.shape)
        coordinates["rows"] = xr.Variable(counted.dims, own, counted.attrs, fastpath=True)
    of_rows = xr.Variable([axis.name for axis in read.by], rows.effective_rows)
    for name, counted in result.data_vars.items():
        if counted.attrs.get("part") == "effective_rows":
            own = of_rows.set_dims(dict(counted.sizes)).transpose(*counted.dims)
            result = result.assign({name: xr.Variable(counted.dims, own.values, counted.attrs, fastpath=True)})
    return result.assign_coords(coordinates).assign_attrs(rows=len(rows.group), soft_labels="shares of labels")


def of_whole_rows(result: xr.Dataset, read: Input) -> xr.Dataset:
    """The result with the numbers of rows, and without clusters that are only rows."""
    result, rows = with_row_counts(result, read), read.soft
    if rows is None or rows.are_hard or rows.clusters is not None:
        return result
    # Rows are independent here: the clusters are their parts.
    effects = [name for name in result.data_vars if str(name).endswith("_design_effect")]
    kept = result.drop_vars([*effects, *({"clusters", "effective_rows"} & set(result.coords))])
    for name in ("groups", "cluster_buckets", "intracluster_correlation", "clusters_sampled"):
        kept.attrs.pop(name, None)
    return kept
