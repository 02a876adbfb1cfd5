"""Estimates with their intervals, computed in the same passes over the data."""

import warnings
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from calibdask.engine.plan import Outcome, run_requests
from calibdask.engine.progress_events import Stage, start_stage
from calibdask.engine.sources.source import Source
from calibdask.engine.sources.summary import SummarySource
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import FromHistograms, KnownEnds
from calibdask.estimators.parts import Estimate, Number, estimated
from calibdask.inference.ends import Bounds, bounds_of_curve, bounds_of_number, known_bounds
from calibdask.inference.histogram_bootstrap import HistogramBootstrap, Replicates
from calibdask.inference.methods import Method, NumberReplicates
from calibdask.inference.row_bootstrap import RowBootstrap
from calibdask.statistics.bins.grid import GridHistogram

__all__ = ["BoundedEstimates", "IntervalChoice", "check_interval", "check_level", "estimates_with_intervals"]


def check_level(level: object, name: str = "level") -> None:
    """Raise ValueError unless this is a level of an interval."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < float(level) < 1:
        raise ValueError(f"{name} expects a number between 0 and 1 such as 0.95, got {level!r}.")


def check_interval(ci: object, n_boot: object, seed: object) -> None:
    """Raise ValueError unless these are a level, a number of replicates and a seed."""
    check_level(ci, "ci")
    if isinstance(n_boot, bool) or not isinstance(n_boot, int | np.integer) or n_boot < 2:
        raise ValueError(f"n_boot expects a number of replicates from 2 on, got {n_boot!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed expects a whole number from 0 on, got {seed!r}.")


@dataclass(frozen=True)
class IntervalChoice:
    """The requested intervals: level, method, number of replicates and seed, and whether replicates are kept."""

    level: float
    method: Method | None
    n_boot: int
    seed: int
    keep: bool = False

    @property
    def row_bootstrap(self) -> RowBootstrap:
        """Replicates of the rows."""
        return RowBootstrap(self.method, self.n_boot, self.seed)

    @property
    def histogram_bootstrap(self) -> HistogramBootstrap:
        """Replicates of histograms."""
        return HistogramBootstrap(self.method, self.n_boot, self.seed, self.keep)

    def bounds(self, number: Number, replicates: NumberReplicates) -> Bounds:
        """Ends of the interval of a number from its replicates."""
        return bounds_of_number(number, replicates, self.level, self.method, keep=self.keep)


@dataclass(frozen=True)
class BoundedEstimates:
    """Estimates by metric, bounds by metric and part, and the number of passes over the data."""

    estimates: Mapping[str, Estimate]
    bounds: Mapping[str, Mapping[str, Bounds]]
    passes: int


def estimates_with_intervals(
    metrics: Mapping[str, Estimator], source: Source, choice: IntervalChoice
) -> BoundedEstimates:
    """Estimates and bounds: by formulas, from replicates of histograms, or from replicates of the rows.

    A summary has no rows: all its intervals are computed from its histograms. Kept replicates are compared, and only
    those of rows are paired.
    """
    intervals = {name: estimator.interval(source.layout) for name, estimator in metrics.items()}
    summary = source if isinstance(source, SummarySource) else None
    records = {
        name: interval.of_histograms(metrics[name])
        for name, interval in intervals.items()
        if interval.resampled == "histograms" or (interval.resampled and summary)
    }
    by_rows = {
        name
        for name, interval in intervals.items()
        if not summary and (interval.resampled == "rows" or (interval.resampled and choice.keep))
    }
    by_chance = {name for name, metric in metrics.items() if metric.errs_by_chance(source.layout)}
    requests = choice.row_bootstrap.requests(metrics, by_rows, by_chance)
    if summary is None:
        requests |= {(histogram,): iter(histogram) for record in records.values() for histogram in record.histograms}
    outcome = run_requests(requests, source)
    estimates = {name: outcome.estimates[(name,)] for name in metrics}
    bounds = {
        name: known_bounds(estimates[name], choice.level) if isinstance(interval, KnownEnds) else {}
        for name, interval in intervals.items()
    }
    # Metrics with replicates of rows need histograms only for the bands of curves.
    banded = {name: record for name, record in records.items() if name not in by_rows or _has_band(estimates[name])}
    if banded:
        drawn = _draw_replicates(banded, summary or _summary_of(source, outcome), choice, by_chance)
        for name, replicates in drawn.items():
            bounds[name] |= _bounds_of_histograms(estimates[name], replicates, choice)
    for name in by_rows:
        numbers = estimated(estimates[name])
        for part, replicates_of_part in choice.row_bootstrap.replicates(name, outcome).items():
            bounds[name][part] = choice.bounds(numbers[part], replicates_of_part)
    return BoundedEstimates(estimates, bounds, outcome.passes)


def _has_band(estimate: Estimate) -> bool:
    return any(number.has_band for number in estimated(estimate).values())


def _summary_of(source: Source, outcome: Outcome[Any]) -> SummarySource:
    """The source of the histograms to resample."""
    known = {statistic: state for statistic, state in outcome.states.items() if isinstance(statistic, GridHistogram)}
    stored = {histogram: partial(known.__getitem__, histogram) for histogram in known}
    return SummarySource(stored, source.layout, source.rows)


def _draw_replicates(
    records: Mapping[str, FromHistograms], source: SummarySource, choice: IntervalChoice, by_chance: Set[str]
) -> dict[str, Replicates]:
    """Replicates, without the warnings that the estimates themselves have already issued."""
    start_stage(Stage("intervals"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return choice.histogram_bootstrap.of(records, source, by_chance)


def _bounds_of_histograms(estimate: Estimate, replicates: Replicates, choice: IntervalChoice) -> dict[str, Bounds]:
    """The bounds of each part, around the estimate itself."""
    numbers = estimated(estimate)
    return {
        name: bounds_of_curve(centre, replicates.fields["values"][name], choice.level)
        if centre.has_band
        else choice.bounds(numbers[name], replicates.of(name))
        for name, centre in estimated(replicates.centre).items()
    }
