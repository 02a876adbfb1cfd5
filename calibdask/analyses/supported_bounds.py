"""Intervals and p-values are refused where losses are unbounded, or rows or clusters too few or of uneven weight."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from calibdask.analyses.constant_outcome_bounds import (
    FEWEST_OUTCOMES,
    DifferenceSupport,
    has_weighted_ends,
    outcome_checks,
)
from calibdask.engine.sources.source import Source
from calibdask.estimators.about import Description, Kind, PartInfo
from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.estimators.cluster_totals import clusters_of
from calibdask.estimators.constant_outcomes import setting_of
from calibdask.estimators.decisions.excess_cost import ExcessCost
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.outcome_counts import FEWEST_EFFECTIVE, MOST_UNEVEN, SettingOutcomeCounts
from calibdask.estimators.parts import Estimate, FixedPart, Part
from calibdask.estimators.saturated_scores import UNBOUNDED, SaturatedScores, saturation_setting
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.validation.calibration_slope import CalibrationSlope
from calibdask.inference.ends import Bounds, is_replicated, where
from calibdask.inference.methods import TIED, are_tied
from calibdask.statistics.cluster_sums import MOST_OF_A_CLUSTER
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

PartT = TypeVar("PartT", bound=Part)

# The beginning of names of estimators that are no metrics: no user can give them.
_SATURATED, _COUNTS = "\0saturated", "\0counts "
# The name of the totals of clusters, `calibdask.estimators.cluster_totals.ClusterTotals`.
CLUSTERS = "\0clusters"
# Effective rows of the rarer outcome below which intervals by replicates were too short, measured with weights of all
# kinds. Errors need fewer, since they are also compared with calibrated models; mean gaps need none.
# Of 13 expected ones excess costs held in .72 at 90 %, promised costs of 2 to 3 in .83 (400 data sets).
_FEWEST_WITH_WEIGHTS, _FEWEST_FOR_ERRORS, _FEWEST_FOR_COSTS = 10, 5, 20
# Parts that vary with the outcomes.
_VARIES: tuple[Kind, ...] = ("score", "term", "number", "difference")
# So few rows of the heavier outcome with as much weight as all rows together make numbers jump from row to row: of
# weights of 1000 to 1 formulas missed up to 45 % at 90 %. Mean gaps and other errors hold.
_FEWEST_OF_HEAVIER = 10
_HOLD: tuple[Kind, ...] = ("error", "diagram")
_UNEVEN = (
    f"with weights so uneven that an outcome has more than {MOST_UNEVEN} rows for each effective row, or fewer than "
    f"{FEWEST_EFFECTIVE} effective rows; trim the weights, or collect more rows"
)
_DOUBTFUL = (
    "the weights of an outcome are so unequal, or its rows so few, that larger weights may exist in the population "
    "without occurring in these data; intervals and p-values are valid only if none do"
)
_DOMINATED = f"where one cluster has more than {100 * MOST_OF_A_CLUSTER:.0f} % of the rows"
_HEAVY = f"where fewer than {_FEWEST_OF_HEAVIER} rows of the heavier outcome would weigh as much as all rows"
_FEW = "with weights where fewer than {} effective rows have the rarer outcome"
_UNSEEN = "the interval allows for rows that did not occur"


def is_unbounded(metric: Estimator, part: str, layout: Layout) -> bool:
    """Whether a single row may have any value of a part that is a mean over rows."""
    return not np.isfinite(metric.row_range(part, layout) or 0.0).all()


def has_saturated_ends(metric: Estimator, layout: Layout) -> bool:
    """Whether ends of differences of a metric are refused with scores of exactly 0 or 1."""
    is_slope = isinstance(metric, CalibrationSlope)
    return is_slope or any(is_unbounded(metric, part, layout) for part in metric.describe(layout))


def support_checks(metrics: Mapping[str, Estimator], source: Source) -> dict[str, Estimator]:
    """Estimators that decide whether rows support the bounds of these metrics, with `outcome_checks`."""
    layout, checks = source.layout, outcome_checks(metrics, source)
    for metric in metrics.values():
        setting = setting_of(metric, layout)
        unbounded = any(is_unbounded(metric, part, layout) for part in metric.describe(layout))
        if unbounded and source.has_histogram(saturation_setting(layout)):
            checks[_SATURATED] = SaturatedScores()
        if metric.interval(layout).resampled or has_weighted_ends(metric, layout):
            checks |= _counts(setting, source)
    return checks | pvalue_checks(metrics, source)


def pvalue_checks(metrics: Mapping[str, Estimator], source: Source) -> dict[str, Estimator]:
    """Estimators that decide whether the weights of rows support the p-values of these metrics."""
    checks: dict[str, Estimator] = {}
    for metric in metrics.values():
        if any(info.kind == "pvalue" for info in metric.describe(source.layout).values()):
            checks |= _counts(setting_of(metric, source.layout), source)
    return checks


def _counts(setting: Setting, source: Source) -> dict[str, Estimator]:
    """What counts the rows of the outcomes in the columns of a setting; without weights nothing does."""
    is_needed = source.layout.weighted and source.has_histogram(setting)
    return {_COUNTS + str(setting): SettingOutcomeCounts(setting)} if is_needed else {}


def supported_bounds(
    metric: Estimator,
    estimate: Estimate,
    bounds: Mapping[str, Bounds],
    description: Description,
    layout: Layout,
    checks: Mapping[str, Estimate],
) -> tuple[Estimate, Mapping[str, Bounds]]:
    """The parts of an estimate and their bounds, NaN with the note ``no_interval`` where the rows do not support them.

    All intervals and p-values of `calibdask.evaluate` pass here; p-values are NaN with the note ``undefined``, and what
    rests on weights that may lack larger ones has the note ``uneven_weights``. ``checks`` are the estimates of
    `support_checks`, or without intervals of `pvalue_checks`, and with clusters their totals.
    """
    parts, ends = dict(estimate), dict(bounds)
    clusters = clusters_of(checks[CLUSTERS]) if layout.clustered else None
    saturated, counts = checks.get(_SATURATED), checks.get(_COUNTS + str(setting_of(metric, layout)))
    if counts is not None:
        uneven, doubtful = counts["unevenness"].values > MOST_UNEVEN, counts["doubtful"].values > 0
        for name, part in estimate.items():
            if name in description and description[name].kind == "pvalue":
                parts[name] = _noted(where(_undefined(part, uneven), ~uneven), doubtful & ~uneven)
    for name, of_part in bounds.items():
        if name not in description:
            continue
        possible = description[name].settled(estimate[name].kind).possible
        span = metric.row_range(name, layout) or possible
        ends[name] = {bound: _within(end, possible, span) for bound, end in of_part.items()}
        if saturated is not None and is_unbounded(metric, name, layout):
            refused: npt.NDArray[np.bool_] = saturated[""].values
            parts[name], ends[name] = refuse(parts[name], ends[name], refused, UNBOUNDED)
        if clusters is not None:
            batch = len(estimate[name].values)
            dominated = np.broadcast_to(clusters.dominated, (batch, clusters.dominated.size))
            parts[name], ends[name] = refuse(parts[name], ends[name], dominated, _DOMINATED)
        if counts is None:
            continue
        kind = description[name].settled(estimate[name].kind).kind
        is_replicate = any(map(is_replicated, of_part.values()))
        if is_replicate or kind not in _HOLD:
            parts[name], ends[name] = refuse(_noted(parts[name], doubtful & ~uneven), ends[name], uneven, _UNEVEN)
        if layout.clustered:
            continue
        if not is_replicate:
            if kind not in _HOLD and not isinstance(metric, MeanGap):
                heavy = counts["rows"].values < _FEWEST_OF_HEAVIER - 0.5
                parts[name], ends[name] = refuse(parts[name], ends[name], heavy, _HEAVY)
        else:
            fewest = _fewest(metric, description[name].settled(estimate[name].kind))
            few = counts["rarer"].values < fewest - 0.5
            parts[name], ends[name] = refuse(parts[name], ends[name], few, _FEW.format(fewest))
    return parts, ends


def _within(end: Part, possible: tuple[float, float], span: tuple[float, float]) -> Part:
    """An end within the bounds of the number, and within the range of a row where it is a mean over rows."""
    lowest, highest = max(possible[0], span[0]), min(possible[1], span[1])
    return end if isinstance(end, FixedPart) else replace(end, values=np.clip(end.values, lowest, highest))


def _undefined(part: PartT, refused: npt.NDArray[np.bool_]) -> PartT:
    """A p-value with the reason why slices that would have one have none."""
    if not np.isfinite(part.values[refused]).any():
        return part
    own = part.notes.get("undefined")
    reasons = [own] if isinstance(own, str) and own else []
    return replace(part, notes={**part.notes, "undefined": "; ".join([*reasons, f"no p-value {_UNEVEN}"])})


def _noted(part: PartT, doubtful: npt.NDArray[np.bool_]) -> PartT:
    """A part with a note where weights may lack larger ones, in some slices or in all."""
    if not doubtful.any():
        return part
    of_slices = "" if doubtful.all() else f"in {doubtful.sum():,} of {doubtful.size:,}, "
    return replace(part, notes={**part.notes, "uneven_weights": of_slices + _DOUBTFUL})


def _fewest(metric: Estimator, info: PartInfo) -> int:
    """Effective rows of the rarer outcome that replicates of a part need with weights."""
    if isinstance(metric, ExcessCost) and info.kind in ("error", "difference", "statistic"):
        return _FEWEST_FOR_COSTS
    if info.kind in _VARIES:
        return _FEWEST_WITH_WEIGHTS
    return _FEWEST_FOR_ERRORS if info.kind == "error" and info.quantity != "mean-gap" else 0


def supported_ends(part: PartT, ends: Bounds, support: DifferenceSupport) -> tuple[PartT, dict[str, Part]]:
    """A difference and its bounds, NaN with the reason where outcomes are few or their weights uneven."""
    few = f"where fewer than {FEWEST_OUTCOMES} rows, with weights effective rows, have the rarer outcome"
    part, bounds = refuse(part, ends, support.few, few)
    part, bounds = refuse(part, bounds, support.uneven & ~support.few, _UNEVEN)
    return _noted(part, support.doubtful), bounds


def refuse_difference(
    part: PartT, ends: Bounds, saturated: npt.NDArray[np.bool_], models: tuple[int, int], reason: str
) -> tuple[PartT, dict[str, Part]]:
    """Differences without ends in slices where the baseline or the challenger has scores of exactly 0 or 1.

    Parameters
    ----------
    saturated : numpy.ndarray
        Whether a (batch, group) has such scores.
    models : pair of int
        The place of the baseline and the number of models, which vary slowest along the first axis of ``saturated``.
    """
    base, count = models
    groups = saturated.shape[-1]
    apart = saturated.reshape(count, -1, groups)
    either = np.delete(apart, base, 0) | apart[[base]]
    return refuse(part, ends, either.reshape(-1, groups), reason)


def refuse(part: PartT, ends: Bounds, refused: npt.NDArray[np.bool_], reason: str) -> tuple[PartT, dict[str, Part]]:
    """A part with the reason as its note, and its ends, NaN in refused slices."""
    if not refused.any():
        return part, dict(ends)
    reasons = [str(part.notes["no_interval"])] if part.notes.get("no_interval") else []
    noted = replace(part, notes={**part.notes, "no_interval": "; ".join([*reasons, reason])})
    return noted, {bound: where(end, ~refused) for bound, end in ends.items()}


def bounds_of_few(
    part: PartT, ends: Bounds, moves: Array, units: Array, span: tuple[float, float] | None, level: float
) -> tuple[PartT, dict[str, Part]]:
    """Widen or remove the interval of a difference of losses where the models differ in few rows (`are_tied`).

    Losses within ``span`` differ by at most its length, and rows of which models differ may be missing: the bounds
    contain the limits of Clopper & Pearson for ``units`` independent rows. Without such limits there are none. There
    is no p-value either, unless no row differs at all.

    Parameters
    ----------
    moves : ndarray of shape (replicates, batch, groups, ...)
        Replicates of the difference.
    units : ndarray of shape (models and batch, groups)
        Independent rows, the same for all models; NaN where they have weights.
    """
    tied = are_tied(moves)
    if not tied.any():
        return part, dict(ends)
    values = part.values
    rows = np.resize(units, values.shape[:2]).reshape(*values.shape[:2], *(1,) * (values.ndim - 2))
    length = np.inf if span is None else span[1] - span[0]
    low = high = np.full(values.shape, np.nan)
    if np.isfinite(length):
        low, high = BoundedMean(values, 0.0, np.maximum(rows, 1), -length, length).ends(level)
    limits = {"low": np.fmin(low, ends["low"].values), "high": np.fmax(high, ends["high"].values)}
    limits = {bound: np.where(np.isnan(low), np.nan, end) for bound, end in limits.items()}
    limits["pvalue"] = np.where((moves == 0).all(0), ends["pvalue"].values, np.nan)
    note = {"no_interval": TIED} if np.isnan(low[tied]).all() else {"no_replicates": f"{TIED}, {_UNSEEN}"}
    moved = {
        bound: replace(end, values=np.where(tied, limits[bound], end.values)) if bound in limits else end
        for bound, end in ends.items()
    }
    return replace(part, notes={**part.notes, **note}), moved
