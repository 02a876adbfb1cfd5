"""How intervals of an estimator are computed: a record of one of four kinds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibdask.statistics.bins.grid import GridHistogram

if TYPE_CHECKING:
    from calibdask.estimators.estimator import Estimator

__all__ = ["FromHistograms", "FromRows", "Interval", "KnownEnds", "NoInterval"]


@dataclass(frozen=True)
class NoInterval:
    """No intervals, such as for a test."""


@dataclass(frozen=True)
class KnownEnds:
    """Ends from a formula; see ``known_ends`` of `calibdask.estimators.parts.Number`."""


@dataclass(frozen=True)
class FromRows:
    """Intervals from replicates of the rows.

    ``by_chance`` says that a part is an error that is positive by chance for calibrated models: replicates of a
    calibrated model are then drawn as well. ``by_rows_only`` says that histograms do not determine how the estimate
    varies, so that from a summary it has no interval.
    """

    by_chance: bool = False
    by_rows_only: bool = False


@dataclass(frozen=True)
class FromHistograms:
    """Intervals from replicates of the histograms that the estimate is computed from.

    ``for_replicates`` is the estimator that is applied to the replicates, a different one where that reduces bias.
    ``coarsened`` maps one histogram on its grid to the record for the coarsest grid that suffices for its replicates.
    """

    histograms: tuple[GridHistogram, ...]
    for_replicates: "Estimator"
    by_chance: bool = False
    coarsened: Callable[[Any], "FromHistograms"] | None = None


Interval = NoInterval | KnownEnds | FromRows | FromHistograms
