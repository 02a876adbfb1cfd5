"""The metrics of pooled rows on a page: values that are quick first, then intervals that take longer."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import xarray as xr

from calibdask.analyses.evaluation import evaluate, usual_metrics
from calibdask.estimators.binned.base import BinnedEstimator
from calibdask.estimators.binned.diagram import ReliabilityDiagram
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.panel import summary_metrics
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.scores.saturation import Saturation
from calibdask.estimators.smooth.adaptive import AdaptiveCurve, AdaptiveDiagram
from calibdask.estimators.smooth.curves import ReliabilityCurve
from calibdask.estimators.smooth.gridded import on_grid
from calibdask.results import cautions as sentences
from calibdask.results.build import CLUSTER_NOTES, sentences_of
from calibdask.results.reliability import BinnedReliability
from calibdask.results.values import Results
from calibdask.statistics.settings import Setting
from calibdask.storage.summary import Summary

LEVEL = 0.95
# More plots than this, one for each class, are too many to look at.
MOST_CLASSES = 12
# Names of the metrics that are drawn or told in words, and of the dimension of classes that have a curve.
DIAGRAM, CURVE, SATURATION, CURVE_CLASS = "diagram", "curve", "saturation", "curve_class"
# What the panels draw.
MARKS, SMOOTH = "marks", "smooth"
DRAWN = frozenset((DIAGRAM, CURVE, MARKS, SMOOTH))
_ECE, _MEAN_GAP, _SMOOTH_ECE = "ece", "mean_gap", "smooth_ece"
PAGE_NAMES = {*summary_metrics(vector=False, full=True), DIAGRAM, CURVE, MARKS, SMOOTH, SATURATION}
# Replicates of smoothed histograms of so many classes take a minute.
_MOST_SMOOTHED = 3
# The pointwise band does not depend on the number of replicates, and this is the smallest.
_FEWEST_REPLICATES = 2
_BOUNDS_OF_REPLICATES = ("median", "band_low", "band_high")


@dataclass(frozen=True)
class RowChoice:
    """How pooled rows are looked at.

    Parameters
    ----------
    setting : str, int or None
        ``"confidence"``, ``"classwise"``, a class; None for binary scores.
    bins : int
    binning : {"auto", "uniform", "equal-mass"}
        Of the diagram; ``"auto"``: as the scores are distributed. The number of bins is that of all binned metrics too.
    """

    setting: str | int | None
    bins: int = 15
    binning: Literal["auto", "uniform", "equal-mass"] = "auto"


def metrics_of(pooled: Summary, choice: RowChoice) -> dict[str, Estimator]:
    """The usual metrics that a summary suffices for, in one setting."""
    usual: Mapping[str, Any] = usual_metrics(pooled.source, choice.setting, full=True)
    metrics: dict[str, Estimator] = (
        {} if choice.setting == "classwise" else on_grid({_MEAN_GAP: MeanGap(setting=choice.setting)}, pooled.step)
    )
    for name, estimator in usual.items():
        # Others have a setting of their own, or none.
        if getattr(estimator, "setting", "") is None and name != _MEAN_GAP:
            bins = {"bins": choice.bins} if "bins" in {field.name for field in fields(estimator)} else {}
            metrics[name] = replace(estimator, setting=choice.setting, **bins)
    return metrics


@dataclass(frozen=True)
class SlowMetrics:
    """Something that takes longer: its description, the metrics that it concerns, and what computes it."""

    description: str
    names: tuple[str, ...]
    compute: Callable[[], xr.Dataset]


def quick(pooled: Summary, choice: RowChoice, *, banded: bool = True, like: xr.Dataset | None = None) -> xr.Dataset:
    """Values, the intervals of binned metrics, the metrics `DIAGRAM` and `CURVE`.

    The curve has its pointwise band if it is to be ``banded``. Of more than `MOST_CLASSES` classes those with the
    largest calibration errors have curves, without bands; or those that have one in another result, ``like``.
    """
    metrics = metrics_of(pooled, choice)
    # Rows with weights are resampled by cells, which takes longer.
    result = evaluate(pooled, metrics=_binned(metrics) | _bins(choice), ci=None if _weighted(pooled) else LEVEL)
    others = on_grid({**_smooth(metrics), SATURATION: Saturation(setting=choice.setting)}, pooled.step)
    result = result.assign({**result.data_vars, **evaluate(pooled, metrics=others).data_vars})
    classes = _worst_classes(result, choice)
    if like is not None and classes is not None:
        labels = result[Results(result).class_dim].values
        classes = np.flatnonzero(np.isin(labels, like[CURVE_CLASS].values)).tolist()
    for of in (_curves(pooled, choice, classes, banded=banded), _pictures(pooled, choice, classes)):
        result = result.assign(of.data_vars).assign_coords(of.coords)
    return result


def refinements(pooled: Summary, choice: RowChoice, *, banded: bool = True) -> Iterator[SlowMetrics]:
    """Slow computations in their order, to be added to the result of `quick`."""
    metrics = metrics_of(pooled, choice)
    columns = pooled.source.layout.classes if choice.setting == "classwise" else 1

    def refined(description: str, chosen: Mapping[str, Estimator]) -> SlowMetrics:
        return SlowMetrics(description, tuple(chosen), lambda: evaluate(pooled, metrics=chosen, ci=LEVEL))

    if columns <= MOST_CLASSES and not banded:
        yield SlowMetrics("pointwise band", (CURVE,), lambda: _curves(pooled, choice, None, banded=True))
    if _weighted(pooled):
        yield refined("intervals of binned errors", _binned(metrics) | _bins(choice))
    for name, estimator in _smooth(metrics).items():
        if columns <= (_MOST_SMOOTHED if name == _SMOOTH_ECE else MOST_CLASSES):
            yield refined(f"interval of {name.replace('_', ' ')}", {name: estimator})


def without_interval(pooled: Summary, choice: RowChoice) -> list[str]:
    """Metrics whose intervals take too long for a page."""
    refined = {name for refinement in refinements(pooled, choice) for name in refinement.names}
    return [name for name in _smooth(metrics_of(pooled, choice)) if name not in refined]


def cautions(result: xr.Dataset) -> list[str]:
    """Warnings in words: few rows, unequal weights, errors that chance makes too, outcomes alike, saturated scores."""
    results = Results(result)
    spread = {part.part: part.values for part in results.of("saturation")}
    words = [*sentences_of(result, CLUSTER_NOTES), *sentences.few_rows(results.rows)]
    words += sentences.unequal_weights(results.rows, float(spread["effective_rows"].min()))
    for error in results.of("ece", ""):
        words += sentences.interval_from_zero("ECE", error.value())
    setting = Setting.parse(next((part.setting for part in results.of(DIAGRAM)), ""))
    if setting is not None and setting.kind == "class":
        bins = BinnedReliability.of(result, DIAGRAM)
        words += sentences.reversed_scores(float(spread["effective_rows"].min()), bins.weight, bins.score, bins.outcome)
    for outcome in results.of("mean_gap", "outcome"):
        words += sentences.one_sided(float(outcome.values))
    words += sentences.of_metrics(results.numbers)
    return [*words, *sentences.saturated(float(spread["at_zero"].max()), float(spread["at_one"].max()))]


def _binned(metrics: Mapping[str, Estimator]) -> dict[str, Estimator]:
    """Metrics whose intervals take milliseconds."""
    return {name: metric for name, metric in metrics.items() if isinstance(metric, BinnedEstimator | MeanGap)}


def _smooth(metrics: Mapping[str, Estimator]) -> dict[str, Estimator]:
    return {name: metric for name, metric in metrics.items() if name not in _binned(metrics)}


def _renamed(result: xr.Dataset) -> xr.Dataset:
    """Classes that have curves on a dimension of their own: there may be fewer."""
    results = Results(result)
    has_classes = (results.of(CURVE) or results.of(SMOOTH)) and results.class_dim in result.dims
    return result.rename({results.class_dim: CURVE_CLASS}) if has_classes else result


def _bins(choice: RowChoice) -> dict[str, Estimator]:
    binning = "uniform" if choice.binning == "auto" else choice.binning
    return {DIAGRAM: ReliabilityDiagram(bins=choice.bins, binning=binning, setting=choice.setting)}


def _curve(pooled: Summary, setting: str | int | None) -> dict[str, Estimator]:
    return on_grid({CURVE: ReliabilityCurve(setting=setting)}, pooled.step)


def _weighted(pooled: Summary) -> bool:
    return pooled.source.layout.weighted


def _worst_classes(result: xr.Dataset, choice: RowChoice) -> list[int] | None:
    """The classes with the largest calibration errors by the bins, in their order; None if there are not many."""
    if choice.setting != "classwise":
        return None
    errors = np.nan_to_num([bins.error for bins in BinnedReliability.by_class(result, DIAGRAM).values()])
    if errors.size <= MOST_CLASSES:
        return None
    return sorted(np.argsort(-errors, kind="stable")[:MOST_CLASSES].tolist())


def _pictures(pooled: Summary, choice: RowChoice, classes: list[int] | None) -> xr.Dataset:
    """Diagrams and curves of the panels, on adaptive axes; with many classes only those with curves."""

    def evaluated(setting: str | int | None) -> xr.Dataset:
        given: Any = {"setting": setting, "step": pooled.step}
        bins = AdaptiveDiagram(bins=choice.bins, binning=choice.binning, **given)
        return evaluate(pooled, metrics={MARKS: bins, SMOOTH: AdaptiveCurve(**given)}, ci=LEVEL)

    if classes is None:
        return _renamed(evaluated(choice.setting))
    labels = pooled.classes[classes]
    joined = xr.concat(
        [evaluated(k) for k in classes], xr.Variable(CURVE_CLASS, labels), combine_attrs="drop_conflicts"
    )
    return joined.transpose(CURVE_CLASS, ...)


def _curves(pooled: Summary, choice: RowChoice, classes: list[int] | None, *, banded: bool) -> xr.Dataset:
    """The curves without what depends on the number of replicates."""
    if classes is not None:
        labels = pooled.classes[classes]
        curves = [evaluate(pooled, metrics=_curve(pooled, k)) for k in classes]
        joined = xr.concat(curves, xr.Variable(CURVE_CLASS, labels), combine_attrs="drop_conflicts")
        return joined.transpose(CURVE_CLASS, ...)
    options: dict[str, Any] = {"ci": LEVEL, "n_boot": _FEWEST_REPLICATES} if banded else {}
    curve = evaluate(pooled, metrics=_curve(pooled, choice.setting), **options)
    random = [
        bound.name
        for part in Results(curve)
        for name, bound in part.bounds.items()
        if part.part == "density" or name in _BOUNDS_OF_REPLICATES
    ]
    return _renamed(curve.drop_vars(random))
