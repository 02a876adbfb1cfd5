"""Estimates with their intervals, computed in the same passes over the data."""

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from typing_extensions import override

from calibdask.engine.plan import Outcome, run
from calibdask.engine.progress_events import Stage, start_stage
from calibdask.engine.sources.source import Source
from calibdask.engine.sources.summary import SummarySource
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import FromHistograms, FromRows, Interval, KnownEnds
from calibdask.estimators.parts import Curve, Estimate, Number
from calibdask.inference.ends import Bounds, bounds_of_curve, bounds_of_number, known_bounds
from calibdask.inference.histogram_bootstrap import HistogramBootstrap, Replicates
from calibdask.inference.methods import Method
from calibdask.inference.row_bootstrap import RowBootstrap
from calibdask.statistics.bins.grid import GridHistogram
from calibdask.statistics.request import Requests

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


@dataclass(frozen=True)
class BoundedEstimates:
    """Estimates by metric, bounds by metric and part, and the number of passes over the data."""

    estimates: Mapping[str, Estimate]
    bounds: Mapping[str, Mapping[str, Bounds]]
    passes: int


@dataclass(frozen=True)
class _HistogramRequest(Estimator):
    """Requests a histogram for intervals in the pass of the metrics."""

    histogram: GridHistogram

    @override
    def estimate(self) -> Requests[Estimate]:
        yield from self.histogram
        return {}


def estimates_with_intervals(
    metrics: Mapping[str, Estimator], source: Source, choice: IntervalChoice
) -> BoundedEstimates:
    """Estimates and bounds: by formulas, from replicates of histograms, or from replicates of the rows."""
    intervals = {name: estimator.interval(source.layout) for name, estimator in metrics.items()}
    records, by_rows = _interval_sources(metrics, intervals, source, choice)
    viewed = {
        name: choice.row_bootstrap.estimators(metrics[name], by_chance=by_chance) for name, by_chance in by_rows.items()
    }
    requests: dict[Hashable, Estimator] = {(name,): estimator for name, estimator in metrics.items()}
    for name, estimators in viewed.items():
        requests |= {(name, field): estimator for field, estimator in estimators.items()}
    if not isinstance(source, SummarySource):
        histograms = dict.fromkeys(histogram for record in records.values() for histogram in record.histograms)
        requests |= {histogram: _HistogramRequest(histogram) for histogram in histograms}
    outcome = run(requests, source)
    estimates = {name: outcome.estimates[(name,)] for name in metrics}
    bounds: dict[str, dict[str, Bounds]] = {name: {} for name in metrics}
    for name, interval in intervals.items():
        if isinstance(interval, KnownEnds):
            bounds[name] |= known_bounds(estimates[name], choice.level)
    # Metrics with replicates of rows need histograms only for the bands of curves.
    banded = {name: record for name, record in records.items() if name not in by_rows or _has_curve(estimates[name])}
    if banded:
        drawn = _draw_replicates(banded, _resampled_source(source, outcome), choice)
        for name, replicates in drawn.items():
            bounds[name] |= _bounds_of_histograms(estimates[name], replicates, choice)
    for name, estimators in viewed.items():
        resampled = {field: outcome.estimates[name, field] for field in estimators}
        for part, replicates_of_part in choice.row_bootstrap.replicates(estimates[name], resampled).items():
            number = estimates[name][part]
            assert isinstance(number, Number)
            bounds[name][part] = bounds_of_number(
                number, replicates_of_part, choice.level, choice.method, keep=choice.keep
            )
    return BoundedEstimates(estimates, bounds, outcome.passes)


def _interval_sources(
    metrics: Mapping[str, Estimator], intervals: Mapping[str, Interval], source: Source, choice: IntervalChoice
) -> tuple[dict[str, FromHistograms], dict[str, bool]]:
    """The metrics with intervals from histograms, and those with intervals from rows and whether they err by chance.

    A summary has no rows: all its intervals are computed from its histograms. Kept replicates are compared, and only
    those of rows are paired.
    """
    records: dict[str, FromHistograms] = {}
    by_rows: dict[str, bool] = {}
    stored = isinstance(source, SummarySource)
    for name, interval in intervals.items():
        if isinstance(interval, FromHistograms):
            records[name] = interval
            if choice.keep and not stored:
                by_rows[name] = interval.by_chance
        elif isinstance(interval, FromRows) and stored and not interval.by_rows_only:
            records[name] = FromHistograms((), metrics[name], interval.by_chance)
        elif isinstance(interval, FromRows) and not stored:
            by_rows[name] = interval.by_chance
    return records, by_rows


def _has_curve(estimate: Estimate) -> bool:
    return any(isinstance(part, Curve) for part in estimate.values())


def _resampled_source(source: Source, outcome: Outcome[Hashable]) -> SummarySource:
    """The source of the histograms to resample."""
    if isinstance(source, SummarySource):
        return source
    known = {statistic: state for statistic, state in outcome.states.items() if isinstance(statistic, GridHistogram)}
    stored = {histogram: partial(known.__getitem__, histogram) for histogram in known}
    return SummarySource(stored, source.layout, source.rows)


def _draw_replicates(
    records: Mapping[str, FromHistograms], source: SummarySource, choice: IntervalChoice
) -> dict[str, Replicates]:
    """Replicates, without the warnings that the estimates themselves have already issued."""
    start_stage(Stage("intervals"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return choice.histogram_bootstrap.of(records, source)


def _bounds_of_histograms(estimate: Estimate, replicates: Replicates, choice: IntervalChoice) -> dict[str, Bounds]:
    """The bounds of each part, around the estimate itself."""
    bounds: dict[str, Bounds] = {}
    for name, centre in replicates.centre.items():
        number = estimate[name]
        if isinstance(centre, Curve):
            bounds[name] = bounds_of_curve(centre, replicates.values[name], choice.level)
        elif isinstance(number, Number):
            bounds[name] = bounds_of_number(number, replicates.of(name), choice.level, choice.method, keep=choice.keep)
    return bounds
