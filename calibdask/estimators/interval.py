"""How intervals of an estimator are computed: a record of one of four kinds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from calibdask.estimators.parts import Estimate
from calibdask.statistics.bins.grid import GridHistogram
from calibdask.statistics.request import Requests


class Estimating(Protocol):
    """Interface of an estimator that replicates need."""

    def estimate(self) -> Requests[Estimate]:
        """Request statistics and return the estimate."""


@dataclass(frozen=True)
class IntervalMethod:
    """The base class."""

    # What is resampled: nothing, "rows" or "histograms".
    resampled: ClassVar[str] = ""

    @property
    def from_summaries(self) -> bool:
        """Whether replicates of the histograms of a summary serve instead."""
        return bool(self.resampled)

    def of_histograms(self, estimator: Estimating) -> "FromHistograms":
        """Intervals of an estimator from the histograms of a summary."""
        return FromHistograms((), estimator)


@dataclass(frozen=True)
class NoInterval(IntervalMethod):
    """No intervals, such as for a test."""


@dataclass(frozen=True)
class KnownEnds(IntervalMethod):
    """Ends from a formula; see ``known_ends`` of `calibdask.estimators.parts.Number`."""


@dataclass(frozen=True)
class FromRows(IntervalMethod):
    """Intervals from replicates of the rows."""

    # Whether histograms do not determine how the estimate varies, so that from a summary it has no interval.
    by_rows_only: bool = False

    resampled: ClassVar[str] = "rows"

    @property
    def from_summaries(self) -> bool:
        """Whether histograms do."""
        return not self.by_rows_only


@dataclass(frozen=True)
class FromHistograms(IntervalMethod):
    """Intervals from replicates of the histograms that the estimate is computed from.

    ``for_replicates`` is the estimator that is applied to the replicates, possibly a different one that has less bias.
    ``coarsened`` maps one histogram on its grid to the record for the coarsest grid that suffices for its replicates.
    ``above`` maps the estimate to the estimator that is applied to replicates of a calibrated model, possibly another
    one that shows sooner whether these exceed the estimate.
    """

    histograms: tuple[GridHistogram, ...]
    for_replicates: Estimating
    coarsened: Callable[[Any], "FromHistograms"] | None = None
    above: Callable[[Estimate], Estimating] | None = None

    resampled: ClassVar[str] = "histograms"

    def of_histograms(self, estimator: Estimating) -> "FromHistograms":
        """These."""
        return self

    def by_chance(self, estimate: Estimate) -> Estimating:
        """The estimator that is applied to replicates of a calibrated model."""
        return self.for_replicates if self.above is None else self.above(estimate)
