"""How much each calibrator improves scores, cross-fitted, and which to take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from calibdask.calibrators.base import Calibrator
from calibdask.calibrators.comparing.cross_fitting import CalibratorChoice, CrossFit, CrossFitted, FoldMaps, FrozenMaps
from calibdask.calibrators.comparing.improvement import LossMeans, Mean, Rule
from calibdask.calibrators.comparing.refinement import MOST_FOLDS, EnoughOutcomes, Refinement, paired_losses
from calibdask.calibrators.curves.beta import BetaCalibration
from calibdask.calibrators.curves.histogram_binning import HistogramBinning
from calibdask.calibrators.curves.isotonic import IsotonicCalibration
from calibdask.calibrators.curves.local import LCECalibrator
from calibdask.calibrators.curves.platt import PlattScaling
from calibdask.calibrators.curves.quadratic import QuadraticScaling
from calibdask.calibrators.curves.spline import SplineCalibration
from calibdask.calibrators.curves.venn_abers import VennAbers
from calibdask.calibrators.mapping import BlockMap
from calibdask.calibrators.softmax.structured import StructuredScaling
from calibdask.calibrators.softmax.temperature import TemperatureScaling
from calibdask.calibrators.softmax.vector import VectorScaling
from calibdask.data.clusters import key_numbers
from calibdask.data.input import Input
from calibdask.engine.axes import Axis
from calibdask.engine.plan import run_requests
from calibdask.estimators.about import PartInfo
from calibdask.estimators.binned.ece import ECE
from calibdask.estimators.checks import check_whole
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.metrics import check_distinct
from calibdask.estimators.parts import Estimate, FixedPart, Number, Part
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.scores.proper import BrierScore, LogLoss
from calibdask.estimators.slice_totals import SliceTotals
from calibdask.estimators.smooth.smooth_ece import SmoothECE
from calibdask.inference.choice import check_level
from calibdask.inference.multiplicity import holm, largest_of_correlated
from calibdask.results.build import DatasetBuilder
from calibdask.results.cautions import FEW_ROWS
from calibdask.safe_text import listed
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.prefetch import Prefetch, together
from calibdask.statistics.request import Requests
from calibdask.statistics.views.folds import Folds, KeyFolds, RowFolds, fold_numbers
from calibdask.statistics.views.pooled import Pooled
from calibdask.statistics.views.view import View, view_requests

# Scores are tried at these logits, and of so many classes.
_LOGITS = np.linspace(-16.0, 16.0, 641)
_MOST_CLASSES = 50
_ROUNDING = 1e-12


def is_monotone(block_map: BlockMap, classes: int, *, vector: bool) -> bool:
    """Whether no calibrated score falls as its score rises; in a matrix the others share the rest equally."""
    scores = special.expit(_LOGITS)
    if vector:
        return bool((np.diff(block_map(scores)) >= -_ROUNDING).all())
    for c in np.unique(np.linspace(0, classes - 1, min(classes, _MOST_CLASSES)).astype(int)).tolist():
        rows = np.repeat(((1 - scores) / (classes - 1))[:, None], classes, axis=1)
        rows[:, c] = scores
        if (np.diff(block_map(rows)[:, c]) < -_ROUNDING).any():
            return False
    return True


_MOST_NAMES = 3


@dataclass(frozen=True)
class Recommendation:
    """The calibrator to take, or "none", and the reason."""

    best: str
    reason: str

    @classmethod
    def of(cls, names: Sequence[str], means: LossMeans, adjusted: Array, level: float) -> "Recommendation":
        """The first that helps and is not significantly worse than the largest improvement.

        ``adjusted``: p-values of no improvement, adjusted for all calibrators; NaN where there are none.
        """
        gains = [means.improvement("log", model) for model in range(len(names))]
        value = np.array([gain.value[0, 0] for gain in gains])
        order = np.argsort(-value, kind="stable").tolist()
        if not np.isfinite(adjusted).any():
            return cls(
                "none",
                "These rows do not show whether a calibrator helps: those of one outcome are too few or of too unequal "
                "weight, or one group has more than a quarter of them.",
            )
        helps = [model for model in range(len(names)) if value[model] > 0 and adjusted[model] < 1 - level]
        loss = float(means.before("log").value[0, 0])
        if not helps:
            top = order[0]
            low, high = (float(end[0, 0]) for end in gains[top].ends(level))
            digits = _digits(low, high)
            return cls(
                "none",
                f"No single map for all rows is significantly better: the best, {names[top]}, improves the log loss of "
                f"{loss:{digits}} by {value[top]:z{digits}} ({low:z{digits}} to {high:z{digits}}).",
            )
        top = max(helps, key=lambda model: (value[model], -model))
        others = [model for model in range(len(names)) if model != top]
        worse = holm(np.array([means.advantage("log", top, model).pvalue[0, 0] for model in others]))
        equal = {top, *(model for model, p in zip(others, worse.tolist(), strict=True) if not p < 1 - level)}
        taken = next(model for model in helps if model in equal)
        low, high = (float(end[0, 0]) for end in gains[taken].ends(level))
        digits = _digits(low, high)
        reason = (
            f"{names[taken]} lowers the log loss by {value[taken]:{digits}} ({low:{digits}} to {high:{digits}}), from "
            f"{loss:{digits}} to {loss - value[taken]:{digits}}"
        )
        no_better = [names[model] for model in order if model in equal and model != taken and value[model] > 0]
        inferior = [names[model] for model in order if model not in equal]
        if no_better:
            reason += f"; {_counted(no_better)} not significantly better"
        if inferior:
            reason += f"; {_counted(inferior)} worse than {names[top]}"
        return cls(names[taken], f"{reason}.")


def _counted(names: Sequence[str]) -> str:
    """Names, a few of them, with the verb that follows."""
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{listed(names)} are" if len(names) <= _MOST_NAMES else f"{len(names)} others are"


def _digits(low: float, high: float) -> str:
    """The format that shows two digits of the width of an interval."""
    width = max(high - low, 1e-12)
    return f".{int(np.clip(1 - np.floor(np.log10(width)), 1, 12))}f"


NONE = "none"
# Up to so many classes matrices of scores have maps of each class by default, and those with two numbers for each.
MOST_CLASSES = 20
# Keys are put together into at most so many clusters, for the variance.
_MOST_CLUSTERS = 512
_MEASURED: dict[str, Estimator] = {"ece": ECE(), "smooth_ece": SmoothECE(), "mean_gap": MeanGap()}
_IMPROVEMENT = PartInfo("log loss that the map takes away", "difference", "higher")


def default_calibrators(classes: int, *, vector: bool) -> tuple[Calibrator, ...]:
    """Default calibrators of a comparison, the simplest first."""
    if vector or classes == 2:
        return (
            PlattScaling(),
            BetaCalibration(),
            QuadraticScaling(),
            SplineCalibration(),
            IsotonicCalibration(centred=True, bounded=True),
            HistogramBinning(binning="equal-mass", bounded=True),
            VennAbers(),
            LCECalibrator(monotone=True),
        )
    of_vectors = (TemperatureScaling(), StructuredScaling(), VectorScaling())
    if classes > MOST_CLASSES:
        return of_vectors[:1]
    return (*of_vectors, PlattScaling(), IsotonicCalibration(centred=True, bounded=True))


def compared_calibrators(
    data: Input, choices: Mapping[str, CalibratorChoice] | None, folds: int, level: float, seed: int
) -> xr.Dataset:
    """The result of `calibdask.compare_calibrators`; slices of the data are clusters, which stay in one fold."""
    check_level(level, "ci")
    check_whole("folds", folds, 2, MOST_FOLDS)
    check_whole("seed", seed, 0)
    layout = data.source.layout
    if choices is None:
        choices = named_choices(default_calibrators(layout.classes, vector=layout.vector))
    split = _folds(data, folds, seed) if data.by else (RowFolds(folds, seed), None)
    measured = run_requests({"all": _compared(choices, *split)}, data.source)
    compared: Any = measured.estimates["all"]
    return _dataset(compared, replace(data, by=()), measured.passes, level, seed)


def named_choices(given: Any) -> dict[str, CalibratorChoice]:
    """Calibrators by name, from a mapping, a sequence or a single one; raises ValueError for none."""
    if isinstance(given, Mapping):
        check_distinct("calibrators", given)
        chosen = {str(name): CalibratorChoice.of(calibrator) for name, calibrator in given.items()}
    else:
        single = isinstance(given, Calibrator) or not isinstance(given, Sequence)
        choices = [CalibratorChoice.of(calibrator) for calibrator in ([given] if single else given)]
        chosen = {}
        for choice in choices:
            alike = sum(other.kind is choice.kind for other in choices) > 1
            chosen[repr(choice) if alike else choice.kind.__name__] = choice
    if not chosen or NONE in chosen:
        raise ValueError(f"calibrators expects one or more, none of them called {NONE!r}; got {', '.join(chosen)}.")
    return chosen


def _folds(data: Input, folds: int, seed: int) -> tuple[Folds, FrozenArray]:
    """Folds of the values of a key, and their clusters."""
    (axis,) = data.by
    numbers = key_numbers(np.arange(axis.size) if axis.labels is None else axis.labels)
    clusters = np.arange(axis.size)
    if axis.size > _MOST_CLUSTERS:
        clusters = fold_numbers(numbers, _MOST_CLUSTERS, seed + 1)
    return KeyFolds(folds, FrozenArray(fold_numbers(numbers, folds, seed))), FrozenArray(clusters)


@dataclass(frozen=True)
class _Viewed(Derived[Estimate]):
    """Estimate for the rows as changed by a view."""

    view: View
    estimator: Estimator

    def derive(self) -> Requests[Estimate]:
        return (yield from view_requests(self.view, self.estimator.estimate()))


@dataclass(frozen=True)
class _Compared:
    """Losses and errors of all calibrators that could be fitted, the scores as they are first."""

    names: tuple[str, ...]
    left_out: Mapping[str, str]
    means: LossMeans
    errors: Mapping[str, tuple[Estimate, ...]]
    monotone: tuple[bool, ...]
    varied: bool
    totals: Estimate


def _compared(choices: Mapping[str, CalibratorChoice], folds: Folds, clusters: Any) -> Requests[_Compared]:
    layout = folds.layout((yield from Layout()))
    everything = [FoldMaps(choice, folds, None) for choice in choices.values()]
    cross_fits = [CrossFit(choice, folds) for choice in choices.values()]
    started: list[Any] = [*everything, *cross_fits]
    yield from Prefetch(EnoughOutcomes(), (Pooled(),))
    yield from together(started)
    fits, whole, left_out = {}, {}, {}
    for (name, _), maps, cross_fit in zip(choices.items(), everything, cross_fits, strict=True):
        of_all: FrozenMaps = yield from maps
        fit: CrossFitted = yield from cross_fit
        if fit.fitted.all() and of_all.fitted.values.all():
            fits[name], whole[name] = fit, of_all
        else:
            left_out[name] = of_all.reason or fit.reason
    if not fits:
        reasons = {*left_out.values()}
        why = f"None can be: {reasons.pop()}" if len(reasons) == 1 else _why(left_out)
        raise ValueError(f"compare_calibrators expects data to which a calibrator can be fitted. {why}.")
    views: list[View] = [Pooled(), *fits.values()]
    losses = paired_losses(tuple(fits.values()), folds, clusters)
    wanted: list[Any] = [losses, *(_Viewed(view, metric) for metric in _MEASURED.values() for view in views)]
    state, *estimates = yield from together([*wanted, _Viewed(Pooled(), SliceTotals())])
    rows = len(views)
    errors = {name: tuple(estimates[at * rows : (at + 1) * rows]) for at, name in enumerate(_MEASURED)}
    totals = estimates[-1]
    varied = yield from EnoughOutcomes().viewed_by(Pooled())
    monotone = tuple(
        is_monotone(fit.choice.make()._map(whole[name].of_slice(0)), layout.classes, vector=layout.vector)
        for name, fit in fits.items()
    )
    means = LossMeans(state, folds.count)
    return _Compared((NONE, *fits), left_out, means, errors, monotone, bool(varied.all()), totals)


def _why(left_out: Mapping[str, str]) -> str:
    """Why calibrators are left out, each reason once."""
    names: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        names.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(of_reason)}: {reason}" for reason, of_reason in names.items())


def _dataset(compared: _Compared, data: Input, passes: int, level: float, seed: int) -> xr.Dataset:
    """The table."""
    means, count = compared.means, len(compared.names) - 1
    axes = (Axis("calibrator", count + 1, np.array(compared.names)),)
    result = DatasetBuilder(data, data.class_dim("class"))
    losses: dict[str, tuple[Estimator, Rule]] = {
        "log_loss": (LogLoss(), "log"),
        "brier_score": (BrierScore(), "brier"),
    }
    for name, (metric, rule) in losses.items():
        of_all = [means.before(rule), *(means.after(rule, model) for model in range(count))]
        result.add(name, metric, {"": Number(np.stack([mean.value[0] for mean in of_all]))}, {}, axes)
    for name, metric in _MEASURED.items():
        estimates = [estimate[""] for estimate in compared.errors[name]]
        values = np.concatenate([part.values for part in estimates])
        result.add(name, metric, {"": Number(values, estimates[0].dims)}, {}, axes)
    gains = [means.improvement("log", model) for model in range(count)]
    bounds = _bounds(gains, level, compared.varied)
    pvalues = np.array([gain.pvalue[0, 0] if compared.varied else np.nan for gain in gains])
    adjusted = largest_of_correlated(pvalues, means.correlations("log", count))
    bounds |= {"pvalue": _column(pvalues), "pvalue_adjusted": _column(adjusted)}
    result.add("improvement", Refinement(), {"": _improvements(gains)}, {"": bounds}, axes, {"": _IMPROVEMENT})
    of_brier = [means.improvement("brier", model) for model in range(count)]
    ends = {"": _bounds(of_brier, level, compared.varied)}
    info = replace(_IMPROVEMENT, meaning="Brier score that the map takes away")
    brier = Refinement(rule="brier")
    result.add("brier_improvement", brier, {"": _improvements(of_brier)}, ends, axes, {"": info})
    monotone = FixedPart(np.array([[1.0], *([float(flag)] for flag in compared.monotone)]))
    monotone_info = PartInfo("whether the map keeps the order of the scores", "choice")
    result.add("monotone", Refinement(), {"": monotone}, {}, axes, {"": monotone_info})
    needed = {"": PartInfo("rows that such an improvement takes to be significant", "count")}
    rows = float(means.state.rows.sum())
    result.add("rows_needed", Refinement(), {"": _column(_rows_needed(gains, rows, level))}, {}, axes, needed)
    recommendation = Recommendation.of(compared.names[1:], means, adjusted, level)
    attributes: dict[str, Any] = {"ci": level, "seed": seed, "folds": means.folds}
    attributes |= {"best": recommendation.best, "reason": recommendation.reason}
    if compared.varied and rows < FEW_ROWS:
        attributes["reason"] += f" With fewer than {FEW_ROWS} rows such intervals are rough."
    attributes |= {"left_out": _why(compared.left_out)}
    return result.dataset(passes, **attributes, **data.attributes)


def _improvements(gains: Sequence[Mean]) -> Number:
    return Number(np.array([[0.0], *([gain.value[0, 0]] for gain in gains)]))


def _bounds(gains: Sequence[Mean], level: float, varied: bool) -> dict[str, Part]:
    ends = np.array([np.stack(gain.ends(level))[:, 0, 0] if varied else (np.nan, np.nan) for gain in gains])
    return {"low": _column(ends[:, 0]), "high": _column(ends[:, 1])}


def _column(values: Array) -> Number:
    """Values of all calibrators, without one for the scores as they are."""
    return Number(np.concatenate([[np.nan], values])[:, None])


def _rows_needed(gains: Sequence[Mean], rows: float, level: float) -> Array:
    z = special.ndtri((1 + level) / 2)
    value, error = (np.array([getattr(gain, name)[0, 0] for gain in gains]) for name in ("value", "error"))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(value > 0, np.ceil(rows * (z * error / value) ** 2), np.nan)
