"""Results that a command shows besides a report, computed in shared passes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import xarray as xr

from calibdask.estimators.estimator import Estimator
from calibdask.estimators.without_interval import WithoutInterval, bare


@dataclass(frozen=True)
class SideMetrics:
    """Metrics that are evaluated besides a report.

    Attributes
    ----------
    metrics : mapping from name to estimator
    options : mapping
        Those of `calibdask.evaluate` that concern intervals; empty: none are shown.
    """

    metrics: Mapping[str, Estimator]
    options: Mapping[str, Any]


def evaluate_both(
    evaluate: Callable[..., xr.Dataset],
    metrics: Mapping[str, Estimator],
    options: Mapping[str, Any],
    shown: SideMetrics,
) -> tuple[xr.Dataset, xr.Dataset]:
    """Results of a report's metrics and of the metrics shown besides, for shared rows.

    Both come from one evaluation, unless a name stands for two metrics or the intervals differ.
    """
    alike = all(bare(metrics.get(name, metric)) == bare(metric) for name, metric in shown.metrics.items())
    if not alike or (shown.options and not shown.options.items() <= options.items()):
        return evaluate(metrics=metrics, **options), evaluate(metrics=shown.metrics, **shown.options)
    besides = {name: metric if shown.options else WithoutInterval(metric) for name, metric in shown.metrics.items()}
    joint = {**besides, **{name: metric for name, metric in metrics.items() if not (shown.options and name in besides)}}
    result = evaluate(metrics=joint, **options)
    own = _of(result, shown.metrics)
    return _of(result, metrics), own if shown.options else _without_intervals(own)


def _of(result: xr.Dataset, metrics: Mapping[str, Any]) -> xr.Dataset:
    """The variables of some metrics."""
    return result[[name for name, variable in result.data_vars.items() if variable.attrs["metric"] in metrics]]


def _without_intervals(result: xr.Dataset) -> xr.Dataset:
    """A result as it is without ``ci``."""
    kept = result[[name for name, variable in result.data_vars.items() if "bound" not in variable.attrs]]
    attributes = {name: value for name, value in result.attrs.items() if name not in ("ci", "n_boot", "seed")}
    return kept.drop_attrs(deep=False).assign_attrs(attributes)
