"""Estimates and their intervals from shared passes over the data."""

import warnings
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from calibdask.engine.plan import Outcome, run_requests
from calibdask.engine.progress_events import Stage, start_stage
from calibdask.engine.sources.source import Source
from calibdask.engine.sources.summary import SummarySource
from calibdask.estimators.cluster_totals import ClusterTotals, clusters_of
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import FromHistograms, IntervalMethod, KnownEnds
from calibdask.estimators.parts import Estimate, estimated
from calibdask.inference.choice import IntervalChoice
from calibdask.inference.cluster_bootstrap import ClusterBootstrap
from calibdask.inference.ends import Bounds, bounds_of_curve, bounds_of_number, known_bounds
from calibdask.inference.histogram_bootstrap import HistogramBootstrap, Replicates
from calibdask.inference.row_bootstrap import RowBootstrap
from calibdask.statistics.bins.grid import GridHistogram


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
    summary = source.histograms_to_resample
    records = {
        name: interval.of_histograms(metrics[name])
        for name, interval in intervals.items()
        if interval.resampled == "histograms" or (summary and interval.from_summaries)
    }
    by_rows = {
        name
        for name, interval in intervals.items()
        if not summary and (interval.resampled == "rows" or (interval.resampled and choice.keep))
    }
    by_chance = {name for name, metric in metrics.items() if metric.errs_by_chance(source.layout)}
    rows = RowBootstrap(choice)
    clusters = ClusterBootstrap(choice, source.layout, summary is None) if source.layout.clustered else None
    if clusters is not None:
        # Those of independent rows are what design effects are relative to.
        choice, by_rows, by_chance = replace(choice, method="percentile", keep=False), set(), set()
    requests = rows.requests(metrics, by_rows, by_chance)
    if clusters is not None:
        resampled = {name: metrics[name] for name, interval in intervals.items() if not _is_none(interval)}
        requests |= clusters.requests(resampled)
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
        for part, replicates_of_part in rows.replicates(name, outcome).items():
            bounds[name][part] = bounds_of_number(numbers[part], replicates_of_part, choice)
    if clusters is not None:
        known = next(clusters_of(estimates[name]) for name, one in metrics.items() if isinstance(one, ClusterTotals))
        bounds = {name: clusters.bounds(name, outcome, known, bounds[name]) for name in resampled}
    return BoundedEstimates(estimates, bounds, outcome.passes)


def _is_none(interval: IntervalMethod) -> bool:
    """Whether there is no interval."""
    return not interval.resampled and not isinstance(interval, KnownEnds)


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
        return HistogramBootstrap(choice).of(records, source, by_chance)


def _bounds_of_histograms(estimate: Estimate, replicates: Replicates, choice: IntervalChoice) -> dict[str, Bounds]:
    """The bounds of each part, around the estimate itself."""
    numbers = estimated(estimate)
    return {
        name: bounds_of_curve(centre, replicates.fields["values"][name], choice.level)
        if centre.has_band
        else bounds_of_number(numbers[name], replicates.of(name), choice)
        for name, centre in estimated(replicates.centre).items()
    }
