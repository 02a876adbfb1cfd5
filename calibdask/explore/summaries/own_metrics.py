"""A user's own estimators beside the usual metrics: their values and intervals, or why they have none."""

import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from calibdask.analyses.evaluation import evaluate
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.metrics import Metrics, named_metrics
from calibdask.explore.cancellation import error_text
from calibdask.explore.summaries.page_metrics import LEVEL, PAGE_NAMES, SlowMetrics
from calibdask.results.values import PartResult, Results
from calibdask.statistics.layout import Layout
from calibdask.storage.summary import Summary


def in_setting(estimator: Any, setting: str | int | None) -> Estimator:
    """The estimator with this setting, where it has a choice of settings and names none."""
    has_choice = is_dataclass(estimator) and any(parameter.name == "setting" for parameter in fields(estimator))
    return replace(estimator, setting=setting) if has_choice and estimator.setting is None else estimator


@dataclass(frozen=True, eq=False)
class OwnMetrics:
    """Estimators that a page shows beside the usual ones, by name.

    Examples
    --------
    >>> import calibdask as cd
    >>> own = OwnMetrics.of({"coarse": cd.ECE(bins=2), "kernel": cd.SKCE()})
    >>> summary = cd.summarize([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], settings=["binary"])
    >>> result, reasons = own.measured(Summary.of(summary), None)
    >>> float(result.coarse), list(reasons)
    (0.25, ['kernel'])
    """

    estimators: Mapping[str, Estimator] = field(default_factory=dict)

    @classmethod
    def of(cls, metrics: Metrics | None) -> "OwnMetrics":
        """Estimators as `calibdask.evaluate` takes them.

        Raises
        ------
        TypeError
            If something is not an estimator.
        ValueError
            If the page has a metric of the same name.
        """
        estimators = {} if metrics is None else named_metrics(metrics)
        if taken := [name for name in estimators if name in PAGE_NAMES]:
            verb = "is" if len(taken) == 1 else "are"
            raise ValueError(
                f"metrics: {', '.join(taken)} {verb} already shown on this page; rename your estimators, in a mapping."
            )
        return cls(estimators)

    def measured(self, pooled: Summary, setting: str | int | None) -> tuple[xr.Dataset, dict[str, str]]:
        """The values of a summary, and why there are none of some metrics, by their name."""
        values, reasons = xr.Dataset(), {}
        for name, estimator in self.estimators.items():
            try:
                # An error in one estimator is no reason to show nothing of the others.
                result = evaluate(pooled, metrics={name: in_setting(estimator, setting)})
                values = values.merge(result, combine_attrs="override")
            except Exception as error:
                reasons[name] = f"{estimator.label} ({name}): {error_text(error)}"
        return values, reasons

    def refinements(self, pooled: Summary, setting: str | int | None, names: Collection[str]) -> Iterator[SlowMetrics]:
        """Computations of the intervals of some metrics, in their order."""
        layout = pooled.source.layout
        for name, estimator in self.estimators.items():
            if name in names and not isinstance(estimator.interval(layout), NoInterval):
                compute = partial(_with_interval, pooled, {name: in_setting(estimator, setting)})
                yield SlowMetrics(f"interval of {name.replace('_', ' ')}", (name,), compute)

    def errors(self, layout: Layout) -> dict[str, Estimator]:
        """The estimators of one calibration error, by their label: what slices can be ordered by."""
        return {
            estimator.label: estimator for estimator in self.estimators.values() if error_of(_tried(estimator, layout))
        }


def error_of(result: xr.Dataset) -> PartResult | None:
    """The one calibration error of a result of one metric; of several that of the metric as a whole."""
    errors = Results(result).errors if result.data_vars else ()
    whole = [part for part in errors if not part.part]
    return whole[0] if whole else errors[0] if len(errors) == 1 else None


def _with_interval(pooled: Summary, metrics: Mapping[str, Estimator]) -> xr.Dataset:
    """The result with intervals; empty if replicates of the histograms do not do."""
    try:
        return evaluate(pooled, metrics=metrics, ci=LEVEL)
    except Exception:
        return xr.Dataset()


def _tried(estimator: Estimator, layout: Layout) -> xr.Dataset:
    """The result for two rows of this layout, to learn what its parts are without reading the summary."""
    scores = np.array([0.25, 0.75]) if layout.vector else np.full((2, layout.classes), 1 / layout.classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return evaluate(np.array([0, 1]), scores, {"error": estimator})
        except Exception:
            return xr.Dataset()
