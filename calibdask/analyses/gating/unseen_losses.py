"""Ends of intervals of mean losses that decide limits: they allow for large losses that did not occur."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import scipy

from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.scores.skill import BaseRateScore, LogarithmicScore
from calibdask.results.decisions import Outcome
from calibdask.results.values import Results, Value
from calibdask.statistics.layout import Layout

# Names of measurements that are not shown begin so.
EVIDENCE = "evidence of "
_BASE = f"{EVIDENCE}base rates of "
_OPEN: Outcome = "cannot be decided"
_UNBOUNDED = "it has no bound, and no rows exclude large losses that did not occur; choose a bounded one, such as {}"


@dataclass(frozen=True)
class DecidingEnds:
    """Ends that decide, rows that would do and what these would decide, and why there are no ends if there are none."""

    low: float
    high: float
    rows_needed: float = math.nan
    leaning: Outcome = _OPEN
    reason: str = ""

    def undecided(self, reason: str, rows_needed: float = math.nan) -> "DecidingEnds":
        """Without ends."""
        return DecidingEnds(math.nan, math.nan, rows_needed, _OPEN, reason)


@dataclass(frozen=True)
class RowLosses:
    """The range of the losses of single rows, if a number is their mean.

    Attributes
    ----------
    span : tuple of float, or None
        The least and the largest; None for numbers of other kinds.
    bounded_form : str
        A metric with bounds, for a hint.
    """

    span: tuple[float, float] | None
    bounded_form: str

    @classmethod
    def needs(cls, metric: Estimator, name: str) -> Mapping[str, Estimator]:
        """What `of` reads from the results, by name."""
        if isinstance(metric, LogarithmicScore) and metric.clip:
            return {_BASE + name: BaseRateScore(metric)}
        return {}

    @classmethod
    def of(cls, metric: Estimator, name: str, part: str, layout: Layout, here: Results) -> "RowLosses":
        """The losses that a part of a metric is the mean of, with the results of one slice."""
        span = metric.row_range(part, layout)
        if isinstance(metric, LogarithmicScore) and metric.clip:
            (base,) = here.of(_BASE + name)
            span = metric.range_of_losses(float(base.values))
        return cls(span, metric.bounded_form)

    @property
    def differences(self) -> "RowLosses":
        """Differences of two such losses."""
        if self.span is None:
            return self
        width = self.span[1] - self.span[0]
        return replace(self, span=(-width, width))

    def allowed_for(self, ends: DecidingEnds, value: Value, level: float | None, rows: float) -> DecidingEnds:
        """Ends of a mean over rows that allow for losses that did not occur.

        The limits of Clopper & Pearson for a mean of the variance of its interval; without a bound nothing is decided.
        """
        if self.span is None or math.isnan(ends.low + ends.high) or level is None:
            return ends
        if math.isinf(self.span[1] - self.span[0]):
            return ends.undecided(_UNBOUNDED.format(self.bounded_form))
        without_losses = BoundedMean(float(value.value), 0.0, rows, *self.span)
        if math.isclose(ends.high, float(without_losses.ends(level)[1]), rel_tol=1e-9):
            # They allow for them already, see `calibdask.inference.ends.UnseenOutcomes`.
            return ends
        deviation = (ends.high - ends.low) / (2 * float(scipy.special.ndtri(0.5 + level / 2)))
        mean = BoundedMean(float(value.value), deviation**2 * rows, rows, *self.span)
        low, high = map(float, mean.ends(level))
        return replace(ends, low=min(ends.low, low), high=max(ends.high, high))
