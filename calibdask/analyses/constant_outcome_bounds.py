"""Bounds of slices whose rows lack an outcome that may occur."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.data.input import Input
from calibdask.engine.sources.source import Source
from calibdask.estimators.about import LOSSES, Description
from calibdask.estimators.cluster_totals import clusters_of
from calibdask.estimators.columns import SettingEstimator
from calibdask.estimators.constant_outcomes import ConstantOutcomes, setting_of
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.outcome_counts import MOST_UNEVEN
from calibdask.estimators.parts import Estimate, Part
from calibdask.estimators.sampling_variance import UNKNOWN_WEIGHT
from calibdask.estimators.without_interval import bare
from calibdask.inference.ends import Bounds, UnseenOutcomes, where, where_outcomes_differ
from calibdask.statistics.layout import Layout

# The beginning of the name of an estimator that is no metric: no user can give it.
_OUTCOMES = "\0outcomes "
# Terms that depend on the outcomes alone, or on the scores alone.
_WITHOUT_MATCH = ("uncertainty", "within_variance")
# Of equally good models on fewer rows of the rarer outcome, far more than the nominal share differ by replicates.
FEWEST_OUTCOMES = 5


class DifferenceSupport(NamedTuple):
    """What rows say of differences, (challengers and batch, groups, *dims).

    ``few``: too few rows of the rarer outcome to tell how they vary. ``uneven``: weights of an outcome on too few rows;
    ``doubtful``: weights of an outcome that may lack larger ones.
    """

    few: npt.NDArray[np.bool_]
    uneven: npt.NDArray[np.bool_]
    doubtful: npt.NDArray[np.bool_]


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
    alike: UnseenOutcomes,
    level: float,
    metric: Estimator,
    layout: Layout,
) -> tuple[Estimate, Mapping[str, Bounds]]:
    """The parts, with bounds that are valid where no outcome is unexpected, or all are equal."""
    parts, ends, description = dict(estimate), dict(bounds), metric.describe(layout)
    for name, of_part in bounds.items():
        kind = description[name].settled(estimate[name].kind).kind if name in description else None
        if kind == "error":
            is_mean_gap = description[name].quantity == "mean-gap"
            parts[name] = alike.notes(estimate[name], of_part, is_mean_gap=is_mean_gap)
            ends[name] = alike.bounds(of_part, level, is_mean_gap=is_mean_gap)
        elif kind in (*LOSSES, "number") and name not in _WITHOUT_MATCH:
            parts[name], ends[name] = alike.loss_bounds(estimate[name], of_part, level, metric.row_range(name, layout))
    return parts, ends


def weighted_bounds(
    estimate: Estimate, bounds: Mapping[str, Bounds], alike: UnseenOutcomes
) -> tuple[Estimate, Mapping[str, Bounds]]:
    """The parts and their ends by formulas with weights: none where all outcomes are equal.

    The weight of a row with the other outcome is unknown then, so that no end allows for it.
    """
    if not alike.alike.any():
        return estimate, bounds
    parts, ends = dict(estimate), dict(bounds)
    for name, of_part in bounds.items():
        part = estimate[name]
        parts[name] = replace(part, notes={**part.notes, "no_interval": UNKNOWN_WEIGHT})
        ends[name] = {bound: where(end, ~alike.alike) for bound, end in of_part.items()}
    return parts, ends


def outcomes_name(metric: Estimator, layout: Layout) -> str:
    """The name of what says where outcomes are alike in the columns that a metric measures."""
    return f"{_OUTCOMES}{setting_of(metric, layout)}"


def outcome_checks(metrics: Mapping[str, Estimator], source: Source) -> dict[str, Estimator]:
    """Estimators that detect constant or expected outcomes in all columns whose ends depend on that."""
    layout = source.layout
    checks: dict[str, Estimator] = {}
    for metric in metrics.values():
        setting = setting_of(metric, layout)
        has_errors = any(info.kind == "error" for info in metric.describe(layout).values())
        is_checked = has_errors or has_weighted_ends(metric, layout) or bool(metric.interval(layout).resampled)
        if is_checked and source.has_score_sums(setting):
            stored: Literal["cells", "unknown"] = "cells" if source.has_histogram(setting) else "unknown"
            checks[outcomes_name(metric, layout)] = ConstantOutcomes(setting, "rows" if source.has_rows else stored)
    return checks


def independent_units(data: Input, outcomes: Estimate, clusters: Estimate | None) -> npt.NDArray[np.float64]:
    """How many independent rows, or equal clusters, each slice is worth; NaN with weights of rows."""
    layout = data.source.layout
    rows = np.asarray(outcomes["rows"].values, np.float64)
    has_weights = layout.weighted and (data.soft is None or data.soft.weights is not None)
    if clusters is None or has_weights:
        return np.full_like(rows, np.nan) if has_weights else rows
    return np.broadcast_to(np.nan_to_num(clusters_of(clusters).effective), rows.shape)


def has_weighted_ends(metric: Estimator, layout: Layout) -> bool:
    """Whether weighted ends come from formulas of the outcomes in columns; the ends of a coverage do not."""
    is_of_columns = isinstance(bare(metric), SettingEstimator)
    return layout.weighted and is_of_columns and isinstance(metric.interval(layout), KnownEnds)


def difference_support(totals: Estimate, counts: Estimate | None, models: tuple[int, int]) -> DifferenceSupport:
    """Whether replicates tell how differences vary.

    ``counts`` are those of rows with weights, whose frequency does not count rows.
    """
    share = totals["frequency"].values
    rows = totals["rows"].values
    rarer = np.minimum(share, 1 - share) * rows.reshape(*rows.shape, *(1,) * (share.ndim - rows.ndim))
    if counts is not None:
        of_rows = counts["rarer"].values
        rarer = np.broadcast_to(of_rows.reshape(*of_rows.shape, *(1,) * (share.ndim - of_rows.ndim)), rarer.shape)
    base, count = models
    apart = np.nan_to_num(rarer).reshape(count, -1, *rarer.shape[1:])
    # Of several classes outcomes are whether the predictions of each model are right.
    either = np.maximum(np.delete(apart, base, 0), apart[[base]])
    few = np.asarray(either.reshape(-1, *rarer.shape[1:]) < FEWEST_OUTCOMES - 0.5)
    if counts is None:
        return DifferenceSupport(few, np.zeros_like(few), np.zeros_like(few))

    def of_challengers(values: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """All models share the weights of the rows."""
        by_model = np.delete(values.reshape(count, -1, values.shape[-1]), base, 0).reshape(-1, values.shape[-1])
        return np.broadcast_to(by_model.reshape(*by_model.shape, *(1,) * (few.ndim - 2)), few.shape)

    uneven = counts["unevenness"].values > MOST_UNEVEN
    return DifferenceSupport(few, of_challengers(uneven), of_challengers(~uneven & (counts["doubtful"].values > 0)))
