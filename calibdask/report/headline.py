"""The calibration error that a report is about."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from calibdask.estimators.as_json import as_json
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.without_interval import bare
from calibdask.results.format import PLAIN, POINTS, Scale
from calibdask.results.values import PartResult
from calibdask.statistics.layout import Layout

# What a part declares if it is the mean absolute difference of score and frequency.
_MEAN_GAP = "mean-gap"


def headline_of(errors: Iterable[PartResult]) -> PartResult | None:
    """The error that the verdict is about; None if there are no errors."""
    return min(errors, key=lambda part: _rank(part.quantity, part.choices, part.part), default=None)


def is_mean_gap(part: PartResult) -> bool:
    """Whether it is a mean gap between score and frequency, and so in percentage points."""
    return part.quantity == _MEAN_GAP


def is_binned(part: PartResult) -> bool:
    """Whether it is a mean gap over bins."""
    return is_mean_gap(part) and "binning" in part.choices


def is_smooth(part: PartResult) -> bool:
    """Whether it is a mean gap that is smoothed on a grid of scores, without bins."""
    return is_mean_gap(part) and "binning" not in part.choices and "step" in part.choices


def scale_of(part: PartResult) -> Scale:
    """How sentences write the values of an error."""
    return POINTS if is_mean_gap(part) else PLAIN


def headline_metric(metrics: Mapping[str, Estimator], layout: Layout) -> dict[str, Estimator]:
    """The metric that will be the headline, by its name; empty if none of them is an error."""
    ranks = {
        name: min((_rank(*error) for error in _errors(estimator, layout)), default=None)
        for name, estimator in metrics.items()
    }
    known = {name: rank for name, rank in ranks.items() if rank is not None}
    return {name: metrics[name] for name in [min(known, key=known.__getitem__)]} if known else {}


def measures_binned_gap(estimator: Estimator, layout: Layout) -> bool:
    """Whether it measures a mean gap over bins."""
    errors = _errors(estimator, layout)
    return any(quantity == _MEAN_GAP and "binning" in choices for quantity, choices, _ in errors)


def _errors(estimator: Estimator, layout: Layout) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Quantity, parameters and part of each error that it estimates."""
    parameters = json.loads(as_json(bare(estimator)))["parameters"]
    for part, info in estimator.describe(layout).items():
        if info.kind == "error":
            yield info.quantity, parameters, part


def _rank(quantity: str, choices: Mapping[str, Any], part: str) -> tuple[int, int]:
    """The place in the order of preference: mean gaps, other errors, terms of decompositions."""
    if quantity == _MEAN_GAP:
        return 0, _preference(choices)
    return 1 + bool(part), 0


def _preference(choices: Mapping[str, Any]) -> int:
    """Rank among mean gaps: uniform bins, other bins, kernels with a bandwidth, grids, others."""
    if "binning" in choices:
        return int(choices["binning"] != "uniform")
    return next((place for place, parameter in enumerate(("bandwidth", "step"), 2) if parameter in choices), 4)
