"""The bootstrap of rows, for intervals of numbers that cannot be computed from histograms of the scores."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from calibdask.estimators.estimator import Estimator
from calibdask.estimators.parts import CalibrationError, Estimate, Number
from calibdask.inference.methods import Method, NumberReplicates
from calibdask.statistics.replicates.histograms import GROUPS
from calibdask.statistics.request import Requests
from calibdask.statistics.views.drawn_labels import DrawnLabels
from calibdask.statistics.views.left_out import LeftOut
from calibdask.statistics.views.poisson import PoissonWeights
from calibdask.statistics.views.view import View, seen_through

__all__ = ["RowBootstrap"]


@dataclass(frozen=True)
class _ViewedEstimator(Estimator):
    """An estimator applied to a view of the data, in the pass of the metrics."""

    estimator: Estimator
    view: View

    @override
    def estimate(self) -> Requests[Estimate]:
        return seen_through(self.view, self.estimator.estimate())


@dataclass(frozen=True)
class RowBootstrap:
    """The number of replicates of the rows, their seed, and the method of the intervals.

    Every row is weighted by a Poisson variable keyed by the seed and the row number.
    """

    method: Method | None
    n_boot: int
    seed: int

    def estimators(self, estimator: Estimator, *, by_chance: bool) -> dict[str, Estimator]:
        """The estimators of the replicates, by the field of `NumberReplicates`.

        Raises
        ------
        ValueError
            If the estimator does not support weights.
        """
        if not estimator.supports_weights:
            raise ValueError(
                f"Rows are resampled by weights, which {estimator!r} does not support; leave it out or use another "
                "metric."
            )
        views: dict[str, View] = {"values": PoissonWeights(self.n_boot, self.seed)}
        if by_chance and self.method in (None, "corrected"):
            views["by_chance"] = DrawnLabels(self.n_boot, self.seed)
        if self.method == "bca":
            views["left_out"] = LeftOut(GROUPS, self.seed)
        return {field: _ViewedEstimator(estimator, view) for field, view in views.items()}

    def replicates(self, estimate: Estimate, viewed: Mapping[str, Estimate]) -> dict[str, NumberReplicates]:
        """The replicates of each number of an estimate, from the estimates of `estimators`.

        Raises
        ------
        TypeError
            If a calibration error is not declared as one, so that its size by chance was not computed.
        """
        numbers = {name: part for name, part in estimate.items() if isinstance(part, Number)}
        if self.method in (None, "corrected") and "by_chance" not in viewed:
            undeclared = [name for name, part in numbers.items() if isinstance(part, CalibrationError)]
            if undeclared:
                raise TypeError(
                    f"The part {undeclared[0]!r} is a calibration error, but `describe` of its estimator does not "
                    "declare it: return PartInfo(..., kind='error') for it."
                )
        return {
            name: NumberReplicates(
                centre=part.values,
                resampled="rows",
                **{field: _by_replicate(other[name].values, part.values) for field, other in viewed.items()},
            )
            for name, part in numbers.items()
        }


def _by_replicate(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    return values.reshape(-1, *like.shape)
