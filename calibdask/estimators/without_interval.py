"""A wrapper that suppresses the intervals of an estimator."""

from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from calibdask.estimators.about import About, Description
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.parts import Estimate
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests


@dataclass(frozen=True, repr=False)
class WithoutInterval(Estimator):
    """The estimates of another estimator, without intervals."""

    of: Estimator

    def __repr__(self) -> str:
        return repr(self.of)

    @override
    def estimate(self) -> Requests[Estimate]:
        return self.of.estimate()

    @property
    @override
    def name(self) -> str:
        return self.of.name

    @property
    @override
    def declared(self) -> About:
        return self.of.declared

    @property
    @override
    def label(self) -> str:
        return self.of.label

    @override
    def describe(self, layout: Layout) -> Description:
        return self.of.describe(layout)

    @override
    def measured_setting(self, layout: Layout) -> str:
        return self.of.measured_setting(layout)

    @override
    def interval(self, layout: Layout) -> NoInterval:
        return NoInterval()


def bare(estimator: Any) -> Any:
    """The wrapped estimator; any other estimator unchanged."""
    return estimator.of if isinstance(estimator, WithoutInterval) else estimator
