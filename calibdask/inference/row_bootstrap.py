"""The bootstrap of rows, for intervals of numbers that cannot be computed from histograms of the scores."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from calibdask.engine.plan import Outcome
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.parts import Estimate, estimated
from calibdask.inference.choice import IntervalChoice
from calibdask.inference.methods import NumberReplicates
from calibdask.statistics.replicates.histograms import GROUPS
from calibdask.statistics.request import Requests
from calibdask.statistics.views.clusters import Buckets, BucketWeights
from calibdask.statistics.views.drawn_labels import drawn_labels
from calibdask.statistics.views.left_out import LeftOut
from calibdask.statistics.views.poisson import PoissonWeights
from calibdask.statistics.views.view import View, view_requests


@dataclass(frozen=True)
class RowBootstrap:
    """Replicates of the rows: each row is weighted by a Poisson variable keyed by the seed and the row number."""

    choice: IntervalChoice
    # Of buckets of clusters, where rows have these.
    buckets: int | None = None

    def requests(
        self, metrics: Mapping[str, Estimator], resampled: Iterable[str], by_chance: Set[str] = frozenset()
    ) -> dict[Any, Requests[Any]]:
        """Requests of the metrics by (name,), and of their replicates by (name, field of `NumberReplicates`).

        Raises
        ------
        ValueError
            If one that is resampled does not support weights.
        """
        requests = {(name,): metric.estimate() for name, metric in metrics.items()}
        viewed = {}
        for name in resampled:
            for field, view in self._views(metrics[name]).items():
                viewed[name, field] = view_requests(view, metrics[name].estimate())
            if name in by_chance and self.choice.method in (None, "corrected"):
                viewed[name, "by_chance"] = self._by_chance(metrics[name])
        return {**requests, **viewed}

    def _by_chance(self, metric: Estimator) -> Requests[Estimate]:
        """The estimate of replicates for which the model is calibrated."""
        view = yield from drawn_labels(self.choice.n_boot, self.choice.seed)
        return (yield from view_requests(view, metric.estimate()))

    def _views(self, metric: Estimator) -> dict[str, View]:
        if not metric.supports_weights:
            raise ValueError(
                f"Rows are resampled by weights, which {metric!r} does not support; leave it out or use another metric."
            )
        views: dict[str, View] = {"values": PoissonWeights(self.choice.n_boot, self.choice.seed)}
        if self.buckets is not None:
            views["values"] = BucketWeights(self.choice.n_boot, self.choice.seed, Buckets(self.buckets))
        if self.choice.method == "bca":
            views["left_out"] = LeftOut(GROUPS, self.choice.seed)
        return views

    def replicates(self, name: str, outcome: Outcome[Any]) -> dict[str, NumberReplicates]:
        """The replicates of each number of a metric, from the outcome of the requests.

        Raises
        ------
        TypeError
            If a calibration error is not declared as one, so that its size by chance was not computed.
        """
        viewed = {key[1]: estimate for key, estimate in outcome.estimates.items() if key[0] == name and len(key) > 1}
        numbers = estimated(outcome.estimates[(name,)])
        if self.choice.method in (None, "corrected") and "by_chance" not in viewed:
            undeclared = [part for part, number in numbers.items() if number.kind == "error"]
            if undeclared:
                raise TypeError(
                    f"The part {undeclared[0]!r} is a calibration error, but `describe` of its estimator does not "
                    "declare it: return PartInfo(..., kind='error') for it."
                )
        return {
            part: NumberReplicates(
                centre=number.values,
                resampled="rows",
                **{
                    field: other[part].values.reshape(-1, *number.values.shape)
                    for field, other in viewed.items()
                    # Only calibration errors start at 0 by chance, not the other terms of a decomposition.
                    if field != "by_chance" or number.kind == "error"
                },
            )
            for part, number in numbers.items()
            if not number.has_band
        }
