"""Rows on either side of thresholds of the score, by outcome: what threshold curves are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.sampling_variance import BoundedEnds, Kind, WeightedMean, rows_of_weight
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.binnings import BinEdges, Explicit
from calibdask.statistics.bins.edges import Closed
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.derived import Derived
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting
from calibdask.statistics.square_sums import with_squares

PERCENTAGES = tuple(number / 100 for number in range(1, 100))


@dataclass(frozen=True, kw_only=True)
class ThresholdEstimator(ColumnEstimator):
    """An estimator of a curve over thresholds of the score, by class for a matrix of scores."""

    usual_setting = "classwise"

    thresholds: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.thresholds is not None:
            object.__setattr__(self, "thresholds", _checked(self.thresholds))

    @property
    def chosen(self) -> Array:
        """The thresholds: 0.01, 0.02, ..., 0.99 where none are given."""
        return np.array(PERCENTAGES if self.thresholds is None else self.thresholds)

    def interval(self, layout: Layout) -> KnownEnds:
        """Ends from formulas."""
        return KnownEnds()

    def sides(self, closed: Closed | None = "right") -> Requests["ThresholdSides"]:
        """The rows on either side of each threshold; one that is equal to it lies below, or ``closed="left"`` above.

        None: above, or from a summary, whose cells are closed on the right, below.
        """
        setting = self.measured((yield from Layout()))
        sums = yield from _SideSums(setting, tuple(self.chosen.tolist()), closed)
        return ThresholdSides.of(setting, sums)


class _Sums(NamedTuple):
    """Sums, and sums with squared weights, on each side of the thresholds; where ties belong."""

    plain: BinSumsState
    squares: BinSumsState
    closed: Closed


@dataclass(frozen=True)
class _SideSums(Derived[_Sums]):
    setting: Setting
    thresholds: tuple[float, ...]
    closed: Closed | None

    def derive(self) -> Requests[_Sums]:
        """Request the sums, rows at a threshold above it where nothing else is chosen."""
        return (yield from self._sums(self.closed or "left"))

    def from_histograms(self, histograms: Histograms) -> Requests[_Sums]:
        """From cells, which do not separate rows at a threshold from those below, unless sums of the rows are there."""
        of_rows = yield from self._request(self.closed or "left")
        closed: Closed = "left" if histograms.holds(of_rows) else "right"
        return (yield from self._sums(self.closed or closed))

    def _sums(self, closed: Closed) -> Requests[_Sums]:
        plain, squares = yield from with_squares((yield from self._request(closed)))
        return _Sums(plain, squares, closed)

    def _request(self, closed: Closed) -> Requests[BinSums]:
        edges = yield from BinEdges(Explicit((0.0, *self.thresholds, 1.0), closed), self.setting)
        return BinSums(self.setting, edges)


@dataclass(frozen=True)
class ThresholdSides:
    """Rows by outcome on either side of thresholds: sums of w and w**2, (batch, groups, [classes,] thresholds).

    ``hits`` have the outcome and a score above the threshold, ``misses`` the outcome and one below; ``false_alarms``
    and ``rejections`` are the rows without the outcome. Each is a pair of sums, of w and of w**2.
    """

    setting: Setting
    hits: tuple[Array, Array]
    misses: tuple[Array, Array]
    false_alarms: tuple[Array, Array]
    rejections: tuple[Array, Array]
    closed: Closed

    @classmethod
    def of(cls, setting: Setting, sums: _Sums) -> "ThresholdSides":
        """Of sums by bin between the thresholds."""
        kinds: list[tuple[Array, ...]] = []
        for state in (sums.plain, sums.squares):
            weight, outcome = exact.value(state.weight), exact.value(state.outcome)
            by_kind = [(_after(of), _before(of)) for of in (outcome, weight - outcome)]
            kinds.append(tuple(setting.by_class(values) for pair in by_kind for values in pair))
        hits, misses, false_alarms, rejections = zip(*kinds, strict=True)
        return cls(setting, hits, misses, false_alarms, rejections, sums.closed)

    def mean(
        self,
        hits: Array | float = 0.0,
        misses: Array | float = 0.0,
        false_alarms: Array | float = 0.0,
        rejections: Array | float = 0.0,
    ) -> tuple[Array, BoundedEnds]:
        """The mean of a value that depends on the outcome and the side, and its limits."""
        values = (hits, misses, false_alarms, rejections)
        kinds = (self.hits, self.misses, self.false_alarms, self.rejections)
        mean = WeightedMean.of_kinds([Kind(value, *sums) for value, sums in zip(values, kinds, strict=True)])
        events, others = (
            tuple(first + second for first, second in zip(*sides, strict=True)) for sides in (kinds[:2], kinds[2:])
        )
        total = events[0] + others[0]
        of_events, of_others = (rows_of_weight(total, *sums) for sums in (events, others))
        ends, rows = [], []
        for choose in (np.minimum, np.maximum):
            of_event, of_other = choose(hits, misses), choose(false_alarms, rejections)
            end = choose(of_event, of_other)
            ends.append(end)
            rows.append(np.where(end == of_event, np.where(end == of_other, np.nan, of_events), of_others))
        return mean.mean, mean.bounded(*ends, *rows)


def _before(values: Array) -> Array:
    """Sums over the bins before each inner edge."""
    return np.asarray(np.cumsum(values, axis=-1)[..., :-1])


def _after(values: Array) -> Array:
    """Sums over the bins after each inner edge."""
    return np.asarray(np.cumsum(values[..., :0:-1], axis=-1)[..., ::-1])


def _checked(given: Any) -> tuple[float, ...]:
    try:
        values = np.array(given, np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if values.ndim != 1 or not values.size or not ((values > 0) & (values < 1)).all() or (np.diff(values) <= 0).any():
        raise ValueError(f"thresholds expects increasing numbers between 0 and 1, such as [0.1, 0.2], got {given!r}.")
    return tuple(values.tolist())
