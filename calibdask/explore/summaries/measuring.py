"""What a page says of pooled rows: numbers that are quick at first, intervals that take longer after them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import xarray as xr

from calibdask.engine.summaries import read_summary
from calibdask.estimators.binned import BinnedEstimator
from calibdask.estimators.curves import ReliabilityCurve
from calibdask.estimators.diagram import ReliabilityDiagram
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.mean_gap import MeanGap
from calibdask.estimators.saturation import Saturation
from calibdask.evaluation import evaluate, usual_metrics

__all__ = [
    "LEVEL",
    "MOST_CLASSES",
    "Choice",
    "Refinement",
    "cautions",
    "later",
    "metrics_of",
    "quick",
    "without_interval",
]

LEVEL = 0.95
# Pictures of more classes than these are too many to look at.
MOST_CLASSES = 12
# Replicates of smoothed histograms of so many classes take a minute.
_MOST_SMOOTHED = 3
# The pointwise band does not depend on replicates, and fewer there cannot be.
_FEWEST = 2
_OF_REPLICATES = ("reliability_median", "reliability_band_low", "reliability_band_high", "density_low", "density_high")
_FEW_ROWS, _MANY_SATURATED = 100, 0.01


@dataclass(frozen=True)
class Choice:
    """How pooled rows are looked at.

    Parameters
    ----------
    setting : str, int or None
        ``"confidence"``, ``"classwise"``, a class; None for binary scores.
    bins : int
    binning : {"uniform", "equal-mass"}
        Of the diagram. The number of bins is that of all binned metrics too.
    """

    setting: str | int | None
    bins: int = 15
    binning: Literal["uniform", "equal-mass"] = "uniform"


def metrics_of(pooled: xr.Dataset, choice: Choice) -> dict[str, Estimator]:
    """The usual metrics of what a summary tells, in one setting."""
    usual: Mapping[str, Any] = usual_metrics(read_summary(pooled).source, choice.setting)
    found: dict[str, Estimator] = {} if choice.setting == "classwise" else {"mean_gap": MeanGap(setting=choice.setting)}
    for name, each in usual.items():
        # Others have a setting of their own.
        if each.setting is None:
            bins = {"bins": choice.bins} if "bins" in {field.name for field in fields(each)} else {}
            found[name] = replace(each, setting=choice.setting, **bins)
    return found


@dataclass(frozen=True)
class Refinement:
    """Something that takes longer: in words, the metrics that it concerns, and what computes it."""

    words: str
    names: tuple[str, ...]
    compute: Callable[[], xr.Dataset]


def quick(pooled: xr.Dataset, choice: Choice, *, banded: bool = True, like: xr.Dataset | None = None) -> xr.Dataset:
    """Values, the intervals of binned metrics, bins (``diagram_...``), and the curve (``curve_...``).

    The curve has its pointwise band, if it is to be ``banded``. Of more than `MOST_CLASSES` classes those with the
    largest calibration errors have curves, without bands; or those that have one in another result, ``like``.
    """
    metrics = metrics_of(pooled, choice)
    # Rows with weights are resampled by cells, which takes longer.
    result = evaluate(pooled, metrics=_at_once(metrics) | _bins(choice), ci=None if _weighted(pooled) else LEVEL)
    others = {**_smooth(metrics), "saturation": Saturation(setting=choice.setting)}
    found = {**result.data_vars, **evaluate(pooled, metrics=others).data_vars}
    result = result.assign(found)
    classes = _largest(result, choice)
    if like is not None and classes is not None:
        classes = np.flatnonzero(np.isin(result["class"].values, like["curve_class"].values)).tolist()
    curves = _curves(pooled, choice, classes, banded=banded)
    return result.assign(curves.data_vars).assign_coords(curves.coords)


def later(pooled: xr.Dataset, choice: Choice, *, banded: bool = True) -> Iterator[Refinement]:
    """What takes longer, one after the other, as part of what `quick` has given."""
    metrics = metrics_of(pooled, choice)
    columns = int(pooled["classes"]) if choice.setting == "classwise" else 1

    def refined(words: str, some: Mapping[str, Estimator]) -> Refinement:
        return Refinement(words, tuple(some), lambda: _renamed(evaluate(pooled, metrics=some, ci=LEVEL)))

    if columns <= MOST_CLASSES:
        if not banded:
            yield Refinement("pointwise band", ("curve",), lambda: _curves(pooled, choice, None, banded=True))
        yield refined("simultaneous band", _curve(choice.setting))
    if _weighted(pooled):
        yield refined("intervals of binned errors", _at_once(metrics) | _bins(choice))
    for name, each in _smooth(metrics).items():
        if columns <= (_MOST_SMOOTHED if name == "smooth_ece" else MOST_CLASSES):
            yield refined(f"interval of {name.replace('_', ' ')}", {name: each})


def without_interval(pooled: xr.Dataset, choice: Choice) -> list[str]:
    """Metrics whose intervals take too long for a page."""
    coming = {name for step in later(pooled, choice) for name in step.names}
    return [name for name in _smooth(metrics_of(pooled, choice)) if name not in coming]


def cautions(result: xr.Dataset) -> list[str]:
    """Warnings in words: few rows, errors that chance makes too, saturated scores."""
    words = []
    rows = int(result.attrs["rows"])
    effective = float(result["saturation_effective_rows"].min()) if rows else 0.0
    if rows < _FEW_ROWS:
        words.append(f"Only {rows:,} rows: every number here is uncertain, and errors look larger than they are.")
    elif effective < _FEW_ROWS:
        words.append(f"The weights leave the information of {effective:,.0f} rows: every number here is uncertain.")
    if rows and "ece_low" in result and float(result["ece_low"]) == 0:
        words.append("The interval of the ECE begins at 0: a calibrated model may show such an error by chance.")
    if "mean_gap_outcome" in result and float(result["mean_gap_outcome"]) in (0.0, 1.0):
        words.append("All outcomes are alike: curves say little.")
    for end, number in (("at_zero", 0), ("at_one", 1)):
        share = float(result[f"saturation_{end}"].max())
        if share >= _MANY_SATURATED:
            words.append(
                f"{100 * share:.3g} % of the scores are {number} to within 1e-6: they claim certainty, and curves near "
                "that end show them alone."
            )
    return words


def _at_once(metrics: Mapping[str, Estimator]) -> dict[str, Estimator]:
    """Metrics whose intervals take milliseconds."""
    return {name: each for name, each in metrics.items() if isinstance(each, BinnedEstimator) or each.knows_ends}


def _smooth(metrics: Mapping[str, Estimator]) -> dict[str, Estimator]:
    quick_ones = _at_once(metrics)
    return {name: each for name, each in metrics.items() if name not in quick_ones}


def _renamed(curve: xr.Dataset) -> xr.Dataset:
    """Classes that have curves on a dimension of their own: there may be fewer."""
    return curve.rename({"class": "curve_class"}) if "curve_reliability" in curve and "class" in curve.dims else curve


def _bins(choice: Choice) -> dict[str, Estimator]:
    return {"diagram": ReliabilityDiagram(bins=choice.bins, binning=choice.binning, setting=choice.setting)}


def _curve(setting: str | int | None) -> dict[str, Estimator]:
    return {"curve": ReliabilityCurve(setting=setting)}


def _weighted(pooled: xr.Dataset) -> bool:
    return read_summary(pooled).source.layout.weighted


def _largest(result: xr.Dataset, choice: Choice) -> list[int] | None:
    """The classes with the largest calibration errors by the bins, in their order; None if there are not many."""
    if choice.setting != "classwise" or result["diagram_weight"].shape[0] <= MOST_CLASSES:
        return None
    weight, gap = result["diagram_weight"].values, result["diagram_outcome"].values - result["diagram_score"].values
    errors = np.nansum(weight * np.abs(gap), -1) / np.maximum(weight.sum(-1), 1e-300)
    return sorted(np.argsort(-errors, kind="stable")[:MOST_CLASSES].tolist())


def _curves(pooled: xr.Dataset, choice: Choice, classes: list[int] | None, *, banded: bool) -> xr.Dataset:
    """The curves without what depends on the number of replicates."""
    if classes is not None:
        names = pooled[_class_dim(pooled)].values[classes]
        several = [evaluate(pooled, metrics=_curve(k)).drop_attrs() for k in classes]
        return xr.concat(several, xr.Variable("curve_class", names)).transpose("curve_class", ...)
    options: dict[str, Any] = {"ci": LEVEL, "n_boot": _FEWEST} if banded else {}
    curve = evaluate(pooled, metrics=_curve(choice.setting), **options)
    drawn = [f"curve_{name}" for name in _OF_REPLICATES if f"curve_{name}" in curve]
    return _renamed(curve.drop_vars(drawn))


def _class_dim(pooled: xr.Dataset) -> str:
    return next(str(dim) for dim in pooled["classwise_count"].dims if dim not in ("cell", "outcome"))
