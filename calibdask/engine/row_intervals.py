"""Replicates of the rows, for the intervals of numbers that no histogram of the scores tells."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibdask.engine.interval_ends import GROUPS, Method, Replicates, number_ends
from calibdask.estimators.estimator import Estimate, Estimation, Estimator, Part
from calibdask.statistics.drawn_labels import DrawnLabels
from calibdask.statistics.left_out import LeftOut
from calibdask.statistics.poisson_weights import PoissonWeights
from calibdask.statistics.views import View, seen_through

__all__ = ["known_ends", "replicates_of", "row_ends", "row_replicates"]


@dataclass(frozen=True)
class _Seen(Estimator):
    """An estimator of the data as seen through a view, in the pass of the metrics."""

    estimator: Estimator
    view: View

    def estimate(self) -> Estimation:
        """The values of all replicates, along the batch axis."""
        return seen_through(self.view, self.estimator.estimate())


def row_replicates(estimator: Estimator, method: Method | None, n_boot: int, seed: int) -> dict[str, Estimator]:
    """What has to be estimated for intervals of an estimator, by the name that `Replicates` has for it.

    Raises
    ------
    ValueError
        If the estimator takes no weights.
    """
    if not estimator.weighs:
        raise ValueError(
            f"Rows are resampled by weights, and {estimator!r} takes none; leave it out, or take a metric that does."
        )
    asked: dict[str, View] = {"values": PoissonWeights(n_boot, seed)}
    if estimator.is_error and method in (None, "corrected"):
        asked["chance"] = DrawnLabels(n_boot, seed)
    if method == "bca":
        asked["left_out"] = LeftOut(GROUPS, seed)
    return {name: _Seen(estimator, view) for name, view in asked.items()}


def replicates_of(estimate: Estimate, found: Mapping[str, Estimate]) -> dict[str, Replicates]:
    """The replicates of each number of an estimate, by the name of its part."""
    return {
        name: Replicates(
            centre=part.values,
            what="rows",
            **{kind: _by_replicate(each[name].values, part.values) for kind, each in found.items()},
        )
        for name, part in estimate.items()
        if part.role == "number"
    }


def _by_replicate(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    return values.reshape(-1, *like.shape)


def row_ends(
    estimate: Estimate, found: Mapping[str, Estimate], level: float, method: Method | None, keep: bool
) -> dict[str, Part]:
    """Ends at a level, as parts ``low`` and ``high`` after the name of the part they belong to; see `number_ends`."""
    return {
        _called(name, end): limit
        for name, replicates in replicates_of(estimate, found).items()
        for end, limit in number_ends(estimate[name], replicates, level, method, keep).items()
    }


def known_ends(estimate: Estimate, level: float) -> dict[str, Part]:
    """Ends that numbers bring along."""
    found = {}
    for name, part in estimate.items():
        if part.role == "number" and part.spread is not None:
            notes = {"interval": "normal", "resampled": "nothing"}
            for end, values in zip(("low", "high"), part.spread(level), strict=True):
                found[_called(name, end)] = Part(values, part.dims, notes=notes)
    return found


def _called(name: str, end: str) -> str:
    return f"{name}_{end}".removeprefix("_")
