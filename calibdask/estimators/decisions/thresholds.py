"""Rows on either side of thresholds of the score, by outcome: what threshold curves are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import KnownEnds
from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import BinEdges, Explicit
from calibdask.statistics.bins.edges import Closed
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting

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

    def sides(self, closed: Closed = "right") -> Requests["Sides"]:
        """The rows on either side of each threshold; one that is equal to it lies below, or ``closed="left"`` above."""
        setting = self.measured((yield from Layout()))
        edges = yield from BinEdges(Explicit((0.0, *self.chosen.tolist(), 1.0), closed), setting)
        sums = yield from BinSums(setting, edges)
        weight, square, outcome = map(exact.value, (sums.weight, sums.weight_square, sums.outcome))
        total, squares = weight.sum(-1, keepdims=True), square.sum(-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            hits, false_alarms, frequency = (
                setting.by_class(values / total)
                for values in (_after(outcome), _after(weight - outcome), outcome.sum(-1, keepdims=True))
            )
            rows = setting.by_class(total**2 / squares)
        return Sides(setting, hits, false_alarms, frequency, rows)


@dataclass(frozen=True)
class Sides:
    """Shares of the rows, (batch, groups, [classes,] thresholds); ``rows`` is their number, with weights Kish's.

    ``hits`` have the outcome and a score above the threshold, ``false_alarms`` the latter only; ``frequency`` is that
    of the outcome, whatever the score, with one position in place of the thresholds, like ``rows``.
    """

    setting: Setting
    hits: Array
    false_alarms: Array
    frequency: Array
    rows: Array

    def mean(self, first: Array, of_first: Array | float, second: Array, of_second: Array) -> BoundedMean:
        """The mean of a value that rows of two such shares have, and all others 0."""
        mean = first * of_first + second * of_second
        variance = np.maximum(first * of_first**2 + second * of_second**2 - mean**2, 0.0)
        least, most = (choose(choose(of_first, of_second), 0.0) for choose in (np.minimum, np.maximum))
        return BoundedMean(mean, variance, self.rows, least, most)


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
