"""Bounds of slices whose outcomes are all alike, which replicates of such rows do not have."""

from collections.abc import Mapping

from calibdask.engine.sources.source import Source
from calibdask.engine.sources.summary import SummarySource
from calibdask.estimators.about import LOSSES, Description
from calibdask.estimators.constant_outcomes import ConstantOutcomes, setting_of
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.parts import Estimate, Part
from calibdask.inference.ends import Bounds, ConstantOutcomeSlices, where_outcomes_differ
from calibdask.statistics.layout import Layout

# The beginning of the name of an estimator that is no metric: no user can give it.
_OUTCOMES = "\0outcomes "


def bounds_where_outcomes_differ(
    bounds: Mapping[str, Bounds], description: Description, frequency: Part
) -> dict[str, Bounds]:
    """Keep the bounds of losses only for slices with both outcomes."""
    return {
        part: where_outcomes_differ(ends, frequency)
        if part in description and description[part].kind in LOSSES
        else ends
        for part, ends in bounds.items()
    }


def error_bounds(
    estimate: Estimate,
    bounds: Mapping[str, Bounds],
    description: Description,
    alike: ConstantOutcomeSlices,
    level: float,
) -> tuple[Estimate, Mapping[str, Bounds]]:
    """The parts that are errors, and their bounds, with what holds where all outcomes are equal."""
    parts, ends = dict(estimate), dict(bounds)
    for name, of_part in bounds.items():
        if name in description and description[name].settled(estimate[name].kind).kind == "error":
            is_mean_gap = description[name].quantity == "mean-gap"
            parts[name] = alike.notes(estimate[name], of_part, is_mean_gap=is_mean_gap)
            ends[name] = alike.bounds(of_part, level, is_mean_gap=is_mean_gap)
    return parts, ends


def outcomes_name(metric: Estimator, layout: Layout) -> str:
    """The name of what says where outcomes are alike in the columns that a metric measures."""
    return f"{_OUTCOMES}{setting_of(metric, layout)}"


def outcome_checks(metrics: Mapping[str, Estimator], source: Source) -> dict[str, Estimator]:
    """Estimators that detect constant outcomes in all columns with errors."""
    layout = source.layout
    of_errors = [
        metric
        for metric in metrics.values()
        if any(info.kind == "error" for info in metric.describe(layout).values())
        and (not isinstance(source, SummarySource) or source.has_score_sums(setting_of(metric, layout)))
    ]
    return {outcomes_name(metric, layout): ConstantOutcomes(setting_of(metric, layout)) for metric in of_errors}
