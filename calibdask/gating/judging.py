"""Judgements: whether intervals lie within limits, of all rows and of slices."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.inputs.input import Input
from calibdask.estimators.bounded_mean import CLOPPER_PEARSON, BoundedMean
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.evaluation import evaluated
from calibdask.gating.limits import Limit
from calibdask.inference.choice import IntervalChoice
from calibdask.results.cautions import TOO_FEW_IN_A_SLICE
from calibdask.results.decisions import OUTCOMES, Decision, Evidence, Outcome, cautious_metric, requires_evidence
from calibdask.results.format import slice_text
from calibdask.results.values import PartResult, Results, Value
from calibdask.safe_text import listed
from calibdask.statistics.layout import Layout

_EVIDENCE = "evidence of "
_OPEN: Outcome = "cannot be decided"
# Fewest events, and rows without one, with which intervals of replicates and of normal theory decide anything.
FEWEST_EVENTS = 20
_FEW_EVENTS = f"fewer than {FEWEST_EVENTS} events, or rows without one"
# These hold with any number of rows.
_EXACT = (CLOPPER_PEARSON,)
# Replicates beyond both ends of an interval that should be there, and most replicates.
_BEYOND, _MOST_REPLICATES = 20, 10_000


@dataclass(frozen=True)
class Judgement:
    """One limit, held against one number.

    Attributes
    ----------
    limit : str
        The metric, and its part.
    least, most : float
        The values that keep the limit.
    where : mapping from name to text
        The slice; empty for all rows.
    value, low, high : float
        The number with the ends that decide: they hold at the stated confidence for all slices together.
    rows : float
        How many it rests on; NaN where nobody has counted them.
    rows_needed : float
        How many would decide it; NaN where it is decided, or that cannot be said.
    title, meaning : str
        What the number is.
    reason : str
        Why it has no ends that decide.
    leaning : {"met", "broken", "cannot be decided"}
        What these rows would decide if the number stayed what it is; the last where that cannot be said.
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

    @property
    def outcome(self) -> Outcome:
        """Met or broken, if both ends are on that side; comparisons with NaN are false."""
        if self.low > self.most or self.high < self.least:
            return "broken"
        return "met" if self.least <= self.low and self.high <= self.most else "cannot be decided"

    @property
    def place(self) -> str:
        """The slice in words."""
        return ", ".join(f"{name}={label}" for name, label in self.where.items()) or "all rows"


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
            if not limit.part and "" not in parts and limit.metric.word in parts:
                limit = replace(limit, part=limit.metric.word)  # noqa: PLW2901
            chosen.append(limit)
            if limit.part not in parts:
                known = [f"{name}.{part}" if part else name for part in parts]
                raise ValueError(f"{name} has no number {limit.text!r}; a limit expects one of {listed(known)}.")
            info = parts[limit.part].settled("number")
            # Before anything is measured; several numbers are refused when they are.
            if info.kind not in ("curve", "diagram"):
                limit.check_breakable(info)
            metrics[name] = metric
            cautious = cautious_metric(metric, layout)
            if cautious is not None:
                metrics[_EVIDENCE + name] = cautious
        return cls(tuple(chosen), metrics)

    def judge(
        self, data: Input, choice: IntervalChoice, shown: Mapping[str, Estimator] | None = None
    ) -> tuple[list[Judgement], xr.Dataset]:
        """All limits, of every slice of the data, at the level for so many slices together; and what was measured.

        ``shown`` are metrics that are measured besides.

        Raises
        ------
        ValueError
            If a limit does not say which values keep it, or a metric has several numbers.
        """
        slices = math.prod(axis.size for axis in data.by)
        level = 1 - (1 - choice.level) / max(1, slices)
        replicates = int(min(max(choice.n_boot, np.ceil(_BEYOND / (1 - level))), _MOST_REPLICATES))
        metrics = {**(shown or {}), **self.metrics}
        result = evaluated(data, metrics, IntervalChoice(level, choice.method, replicates, choice.seed))
        results = Results(result)
        judgements = []
        for at, labels in results.strata():
            here = results.at(at)
            where = {str(name): slice_text(label) for name, label in labels.items()}
            judgements += [_judgement(limit, here, where) for limit in self.limits]
        return judgements, result


def _judgement(limit: Limit, here: Results, where: Mapping[str, str]) -> Judgement:
    name = str(limit.metric)
    (part,) = here.of(name, limit.part)
    if part.values.ndim:
        raise ValueError(
            f"{limit.text} has several numbers, along {listed(part.values.dims)}; a limit expects one. Choose a class "
            "by its number, as in ece(setting=0)."
        )
    least, most = limit.range(part.kind, part.direction)
    value, rows = part.value(), _rows(here.dataset)
    low, high, needed, leaning = _ends(part, value, here, name, most, rows)
    reason = _FEW_EVENTS if math.isnan(low + high) and _rarest(here.dataset, rows) < FEWEST_EVENTS else ""
    if rows < TOO_FEW_IN_A_SLICE:
        low, high, reason = math.nan, math.nan, f"fewer than {TOO_FEW_IN_A_SLICE} rows"
    about = (part.title, part.meaning, reason)
    return Judgement(limit.text, least, most, where, float(value.value), low, high, rows, needed, *about, leaning)


def _ends(
    part: PartResult, value: Value, here: Results, name: str, most: float, rows: float
) -> tuple[float, float, float, Outcome]:
    """Ends that decide, rows that would do, and what these would decide."""
    needs = requires_evidence(part)
    if not needs or part.kind != "error" or part.part:
        low, high, rarest = _end(value.low), _end(value.high), _rarest(here.dataset, rows)
        if rarest >= FEWEST_EVENTS or part.interval_method in _EXACT:
            return low, high, math.nan, _OPEN
        if (gap := _gap_of_few(part, here)) is not None:
            return min(low, gap[0]), max(high, gap[1]), math.nan, _OPEN
        needed = float(np.ceil(rows * FEWEST_EVENTS / rarest)) if rarest else math.nan
        return math.nan, math.nan, needed, _OPEN
    evidence = Evidence.of(here, _EVIDENCE + name) if here.of(_EVIDENCE + name) else None
    decision = Decision(value, most, evidence, needs)
    weight = max(1.0, rows / evidence.effective_rows) if evidence is not None and evidence.effective_rows else math.nan
    low, high = decision.ends
    return low, high, decision.rows_needed * weight, decision.leaning


def _end(end: Any) -> float:
    return math.nan if end is None else float(end)


def _rarest(dataset: xr.Dataset, rows: float) -> float:
    """Events, or rows without one, whichever are fewer; of weighted rows as many as their share."""
    if "frequency" not in dataset.coords or math.isnan(share := float(dataset["frequency"])):
        return 0.0
    # Whole numbers of events are exact in this product but for its rounding.
    return round(min(share, 1 - share) * rows, 6)


def _gap_of_few(part: PartResult, here: Results) -> tuple[float, float] | None:
    """Ends of the mean gap by the limits of Clopper & Pearson for the frequency; None for other numbers."""
    totals = here.totals
    is_counted = "events" in totals and totals["events"].dtype.kind in "iu"
    if part.estimator_class != MeanGap.__name__ or part.part or part.choices["setting"] is not None or not is_counted:
        return None
    assert here.level is not None
    rows, score, share = (float(totals[name]) for name in ("rows", "mean_score", "frequency"))
    low, high = BoundedMean(share, share * (1 - share), rows, 0.0, 1.0).ends(here.level)
    return float(low) - score, float(high) - score


def _rows(dataset: xr.Dataset) -> float:
    return float(dataset["rows"]) if "rows" in dataset.coords else float(dataset.attrs.get("rows", math.nan))


def overall(judgements: Sequence[Judgement]) -> Outcome:
    """Broken, if one is; met, if all are; without any nothing can be decided."""
    outcomes = {judgement.outcome for judgement in judgements} or {"cannot be decided"}
    return next((outcome for outcome in OUTCOMES[:-1] if outcome in outcomes), "met")


def difference_judged(limit: Limit, result: xr.Dataset, whole: xr.Dataset) -> Judgement:
    """A limit of how much worse a model may be than the baseline, held against a result of `calibdask.compare`.

    ``whole`` is what was measured of the same rows.

    Raises
    ------
    ValueError
        If the metric has no best value.
    """
    results = Results(result)
    name = str(limit.metric)
    (part,) = results.of(name, limit.part)
    parts = results.of(name, f"{limit.part}_difference" if limit.part else "difference")
    (difference,) = (one for one in parts if one.kind != "pvalue")
    worse = {"lower": 1.0, "zero": 1.0, "higher": -1.0}.get(part.direction)
    if worse is None or limit.bound is None or limit.bound < 0:
        raise ValueError(
            f"not_worse expects a metric of which lower or higher is better and a number from 0 on, such as "
            f"log-loss=0.001; got {limit.text}."
        )
    value = difference.value()
    ends = sorted((worse * _end(value.low), worse * _end(value.high)))
    rows = float(result.attrs["rows"])
    few = (rarest := _rarest(whole, rows)) < FEWEST_EVENTS
    low, high = (math.nan, math.nan) if few or math.isnan(sum(ends)) else ends
    return Judgement(
        f"worsening of {limit.text}",
        -math.inf,
        limit.bound,
        {},
        worse * float(value.value),
        low,
        high,
        rows,
        float(np.ceil(rows * FEWEST_EVENTS / rarest)) if few and rarest else math.nan,
        part.title,
        "difference from the baseline, positive where the model is worse",
        _FEW_EVENTS if few else "",
    )
