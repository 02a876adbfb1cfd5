"""Judgements: whether intervals lie within limits, of all rows and of slices."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.analyses.evaluation import evaluated
from calibdask.analyses.gating.limits import Limit
from calibdask.analyses.gating.outcome_rows import RowsOfOutcomes
from calibdask.analyses.gating.unseen_losses import EVIDENCE, DecidingEnds, RowLosses
from calibdask.data.input import Input
from calibdask.engine.axes import column_name
from calibdask.estimators.bounded_mean import CLOPPER_PEARSON
from calibdask.estimators.cluster_totals import ClusterTotals
from calibdask.estimators.constant_outcomes import setting_of
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.ordered.cutoff import CutoffError
from calibdask.estimators.outcome_counts import OutcomeCounts
from calibdask.inference.choice import IntervalChoice
from calibdask.results.cautions import TOO_FEW_IN_A_SLICE
from calibdask.results.decisions import (
    MOST_ROWS,
    OUTCOMES,
    Decision,
    Evidence,
    Outcome,
    cautious_metric,
    has_bins,
    requires_evidence,
    with_deciding_ends,
)
from calibdask.results.format import slice_text
from calibdask.results.values import PartResult, Results, Value
from calibdask.safe_text import listed
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.views.clusters import FEWEST_CLUSTERS

_OUTCOMES = "outcomes of "
_CLUSTERS = f"{EVIDENCE}clusters"
# Methods of intervals that hold with any number of rows, of equal weight.
_EXACT = (CLOPPER_PEARSON, "score")
# Replicates beyond both ends of an interval that should be there, and most replicates.
_BEYOND, _MOST_REPLICATES = 20, 10_000
# The mean range of a Brownian motion on [0, 1], and the distance of the upper end of a cut-off error, in deviations.
_RANGE_BY_CHANCE, _NORMAL_REACH = math.sqrt(8 / math.pi), 1.96


@dataclass(frozen=True)
class Judgement:
    """The decision on one limit.

    Attributes
    ----------
    limit : str
        The metric, and its part.
    least, most : float
        The values that meet the limit.
    where : mapping from name to text
        The slice; empty for all rows.
    value, low, high : float
        The number with the interval used for the decision, simultaneous for all slices at the stated confidence.
    rows : float
        Number of rows behind it; NaN if unknown.
    rows_needed : float
        Number of rows that would decide it; NaN if it is decided, or if the number is unknown.
    title, meaning : str
        Description of the number.
    reason : str
        Why there is no interval for a decision.
    leaning : {"met", "broken", "cannot be decided"}
        What that many rows would decide if the number stayed the same; unknown if this cannot be determined.
    scope : str
        ``"of the bins"`` if the number is a binned error: errors that cancel within bins are not detected.
    """

    limit: str
    least: float
    most: float
    where: Mapping[str, str]
    value: float
    low: float
    high: float
    rows: float = math.nan
    rows_needed: float = math.nan
    title: str = ""
    meaning: str = ""
    reason: str = ""
    leaning: Outcome = "cannot be decided"
    scope: str = ""

    @property
    def name(self) -> str:
        """Name of the limit, with its scope if it is narrower than the error: ``"ece of the bins"``."""
        return f"{self.limit} {self.scope}".rstrip()

    @property
    def outcome(self) -> Outcome:
        """Met or broken, if both ends are on that side; comparisons with NaN are false."""
        if self.low > self.most or self.high < self.least:
            return "broken"
        return "met" if self.least <= self.low and self.high <= self.most else "cannot be decided"

    @property
    def place(self) -> str:
        """The slice in words."""
        return ", ".join(f"{column_name(name)}={label}" for name, label in self.where.items()) or "all rows"


@dataclass(frozen=True)
class Judges:
    """Limits, and the metrics that they need."""

    limits: Sequence[Limit]
    metrics: Mapping[str, Estimator]

    @classmethod
    def of(cls, limits: Sequence[Limit], layout: Layout) -> "Judges":
        """With the metrics made.

        Raises
        ------
        ValueError
            If a metric has no such part.
        """
        metrics: dict[str, Estimator] = {}
        chosen = []
        for limit in limits:
            name = str(limit.metric)
            metric = limit.metric.make()
            parts = metric.describe(layout)
            if not limit.part and "" not in parts and limit.metric.keyword in parts:
                limit = replace(limit, part=limit.metric.keyword)  # noqa: PLW2901
            chosen.append(limit)
            if limit.part not in parts:
                known = [f"{name}.{part}" if part else name for part in parts]
                raise ValueError(f"{name} has no number {limit.text!r}; a limit expects one of {listed(known)}.")
            info = parts[limit.part].settled("number")
            # Before anything is measured; several numbers are refused when they are.
            if info.kind not in ("curve", "diagram"):
                limit.check_breakable(info)
            metrics[name] = with_deciding_ends(metric)
            metrics |= RowLosses.needs(metric, name)
            cautious = cautious_metric(metric, layout)
            # Its bounds hold for independent rows.
            if cautious is not None and not layout.clustered:
                metrics[EVIDENCE + name] = cautious
        return cls(tuple(chosen), metrics)

    def judge(
        self, data: Input, choice: IntervalChoice, shown: Mapping[str, Estimator] | None = None
    ) -> tuple[list[Judgement], xr.Dataset]:
        """Test all limits in every slice at the simultaneous level; returns decisions and measurements.

        ``shown`` are metrics that are measured besides.

        Raises
        ------
        ValueError
            If a limit does not say which values keep it, or a metric has several numbers.
        """
        slices = math.prod(axis.size for axis in data.by)
        level = 1 - (1 - choice.level) / max(1, slices)
        replicates = int(min(max(choice.n_boot, np.ceil(_BEYOND / (1 - level))), _MOST_REPLICATES))
        layout = data.source.layout
        clusters = {_CLUSTERS: ClusterTotals()} if layout.clustered else {}
        metrics = {**(shown or {}), **self.metrics, **_outcome_counts(self.metrics, data), **clusters}
        result = evaluated(data, metrics, IntervalChoice(level, choice.method, replicates, choice.seed))
        results = Results(result)
        judgements = []
        for at, labels in results.strata():
            here = results.at(at)
            where = {str(name): slice_text(label) for name, label in labels.items()}
            judgements += [self._judgement(limit, here, where, layout) for limit in self.limits]
        return judgements, result

    def _judgement(self, limit: Limit, here: Results, where: Mapping[str, str], layout: Layout) -> Judgement:
        name = str(limit.metric)
        (part,) = here.of(name, limit.part)
        if part.values.ndim:
            raise ValueError(
                f"{limit.text} has several numbers, along {listed(part.values.dims)}; a limit expects one. Choose a "
                "class by its number, as in ece(setting=0)."
            )
        least, most = limit.range(part.kind, part.direction)
        value, rows = part.value(), _rows(here.dataset)
        outcomes = RowsOfOutcomes.of(here, _outcomes_of(self.metrics[name], layout), layout)
        if layout.clustered:
            share = float(here.dataset["effective_rows"]) / rows if rows else math.nan
            outcomes = outcomes.worth(share, float(here.dataset[f"{_CLUSTERS}_skewness"]))
        ends = _ends(part, value, here, name, most, rows, outcomes)
        losses = RowLosses.of(self.metrics[name], name, limit.part, layout, here)
        ends = losses.allowed_for(ends, value, here.level, outcomes.rows)
        if math.isnan(ends.low + ends.high) and outcomes.are_few and not ends.reason:
            ends = replace(ends, reason=outcomes.reason)
        if (refused := part.notes.get("no_interval")) and math.isnan(_end(value.low)) and not ends.reason:
            ends = ends.undecided(f"no interval {refused}")
        if math.isnan(ends.low + ends.high) and not ends.reason:
            ends = ends.undecided(str(part.notes.get("no_replicates", "it has no interval")))
        if clipping := part.notes.get("rests_on_clipping"):
            ends = ends.undecided(str(clipping))
        if layout.clustered and float(here.dataset["clusters"]) < FEWEST_CLUSTERS:
            ends = ends.undecided(f"fewer than {FEWEST_CLUSTERS} clusters")
        if rows < TOO_FEW_IN_A_SLICE:
            ends = ends.undecided(f"fewer than {TOO_FEW_IN_A_SLICE} rows")
        about = (part.title, part.meaning, ends.reason)
        numbers = (float(value.value), ends.low, ends.high, rows, ends.rows_needed)
        is_binned = part.kind == "error" or (part.kind == "term" and part.part != "uncertainty")
        scope = "of the bins" if has_bins(self.metrics[name]) and is_binned else ""
        return Judgement(limit.text, least, most, where, *numbers, *about, ends.leaning, scope)


def _outcomes_of(metric: Estimator, layout: Layout) -> str:
    """Name of the outcome counts of a metric: for its column, or the usual one for several columns."""
    return f"{EVIDENCE}{_OUTCOMES}{_counted_setting(metric, layout)}"


def _counted_setting(metric: Estimator, layout: Layout) -> Setting:
    setting = setting_of(metric, layout)
    return setting if setting.columns(layout.classes) == 1 else layout.setting(None)


def _outcome_counts(metrics: Mapping[str, Estimator], data: Input) -> dict[str, Estimator]:
    """Estimators that count the outcomes of all metrics, except those that a summary lacks."""
    layout, source = data.source.layout, data.source
    counts: dict[str, Estimator] = {}
    for metric in metrics.values():
        setting = _counted_setting(metric, layout)
        if source.has_histogram(setting):
            choice = setting.index if setting.kind == "class" else setting.kind
            k = setting.index if setting.kind == "top-k" else None
            counts[_outcomes_of(metric, layout)] = OutcomeCounts(setting=choice, k=k)
    return counts


def _ends(
    part: PartResult, value: Value, here: Results, name: str, most: float, rows: float, outcomes: RowsOfOutcomes
) -> DecidingEnds:
    """Ends that decide by the interval, and by the evidence for errors that have it."""
    needs = requires_evidence(part)
    if "clusters" in here.dataset.coords and part.kind == "error" and not part.part:
        ends = DecidingEnds(_end(value.low), _end(value.high))
        return ends.undecided(outcomes.reason, outcomes.rows_needed(rows)) if outcomes.are_few else ends
    if not needs or part.kind != "error" or part.part:
        ends = DecidingEnds(_end(value.low), _end(value.high))
        if part.estimator_class == CutoffError.__name__:
            return _with_rows_needed(ends, value, most, rows)
        is_exact = part.interval_method in _EXACT and not outcomes.weighted
        return (
            ends.undecided(outcomes.reason, outcomes.rows_needed(rows)) if outcomes.are_few and not is_exact else ends
        )
    evidence = Evidence.of(here, EVIDENCE + name) if here.of(EVIDENCE + name) else None
    decision = Decision(value, most, evidence, needs)
    weight = max(1.0, rows / evidence.effective_rows) if evidence is not None and evidence.effective_rows else math.nan
    ends = DecidingEnds(*decision.ends, decision.rows_needed * weight, decision.leaning)
    if outcomes.weighted and outcomes.are_few:
        return ends.undecided(outcomes.reason, outcomes.rows_needed(rows))
    return ends


def _with_rows_needed(ends: DecidingEnds, value: Value, most: float, rows: float) -> DecidingEnds:
    """Ends of a cut-off error, and the rows that would decide a limit.

    At least as many as calibrated models need, whose error is 1.6 standard deviations of its noise, and whose upper end
    is 1.96 further off at 95 %; beyond those, as many as it takes if nothing but the width of the interval changes.
    """
    if not ends.low <= most < ends.high:
        return ends
    error = float(value.value)
    deviation = ends.high - error
    by_chance = rows * (deviation * (1 + _RANGE_BY_CHANCE / _NORMAL_REACH) / most) ** 2 if most > 0 else math.inf
    if rows < by_chance:
        return replace(ends, rows_needed=float(np.ceil(by_chance)) if math.isfinite(by_chance) else math.nan)
    reach = deviation if error < most else error - ends.low
    needed = rows * (reach / (most - error)) ** 2 if error != most else math.inf
    leaning: Outcome = "met" if error < most else "broken"
    return replace(ends, rows_needed=float(np.ceil(needed)), leaning=leaning) if needed < MOST_ROWS else ends


def _end(end: Any) -> float:
    return math.nan if end is None else float(end)


def _rows(dataset: xr.Dataset) -> float:
    return float(dataset["rows"]) if "rows" in dataset.coords else float(dataset.attrs.get("rows", math.nan))


def overall(judgements: Sequence[Judgement]) -> Outcome:
    """Broken, if one is; met, if all are; without any nothing can be decided."""
    outcomes = {judgement.outcome for judgement in judgements} or {"cannot be decided"}
    return next((outcome for outcome in OUTCOMES[:-1] if outcome in outcomes), "met")


def difference_judged(limit: Limit, result: xr.Dataset, data: Input) -> Judgement:
    """A limit of how much worse a model may be than the baseline, held against a result of `calibdask.compare`.

    ``data`` are the same rows with the scores of the model.

    Raises
    ------
    ValueError
        If the metric has no best value.
    """
    results = Results(result)
    name, metric, layout = str(limit.metric), limit.metric.make(), data.source.layout
    counts = Results(evaluated(data, {**_outcome_counts({name: metric}, data), **RowLosses.needs(metric, name)}))
    outcomes = RowsOfOutcomes.of(counts, _outcomes_of(metric, layout), layout)
    (part,) = results.of(name, limit.part)
    parts = results.of(name, f"{limit.part}_difference" if limit.part else "difference")
    (difference,) = (one for one in parts if one.kind != "pvalue")
    worse = {"lower": 1.0, "zero": 1.0, "higher": -1.0}.get(part.direction)
    if worse is None or limit.bound is None or limit.bound < 0:
        raise ValueError(
            "not_worse expects a metric with a direction (lower or higher is better) and a number >= 0, such as "
            f"log-loss=0.001; got {limit.text}."
        )
    value = difference.value()
    low, high = sorted((worse * _end(value.low), worse * _end(value.high)))
    rows = float(result.attrs["rows"])
    ends = DecidingEnds(low, high)
    if outcomes.are_few or math.isnan(low + high):
        missing = parts[0].notes.get("no_interval", "")
        reason = f"no interval {missing}" if missing else ""
        ends = ends.undecided(outcomes.reason if outcomes.are_few else reason, outcomes.rows_needed(rows))
    losses = RowLosses.of(metric, name, limit.part, layout, counts).differences
    shifted = replace(value, value=worse * float(value.value))
    ends = losses.allowed_for(ends, shifted, results.level, outcomes.rows)
    return Judgement(
        f"worsening of {limit.text}",
        -math.inf,
        limit.bound,
        {},
        float(shifted.value),
        ends.low,
        ends.high,
        rows,
        ends.rows_needed,
        part.title,
        "difference from the baseline, positive where the model is worse",
        ends.reason,
    )
