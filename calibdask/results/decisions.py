"""Decisions: whether a calibration error keeps a limit. The one place that decides, for reports and whatever gates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import scipy

from calibdask.estimators.binned.base import BinnedEstimator
from calibdask.estimators.binned.betting_ends import poisson_end
from calibdask.estimators.binned.cautious import CautiousECE
from calibdask.estimators.binned.ece import ECE
from calibdask.estimators.binned.multiclass import MulticlassECE
from calibdask.estimators.columns import SettingEstimator
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.ordered.cumulative import ECCE
from calibdask.estimators.ordered.cutoff import CutoffError
from calibdask.estimators.without_interval import bare
from calibdask.results.values import PartResult, Results, Value
from calibdask.statistics.layout import Layout

Outcome = Literal["broken", "cannot be decided", "met"]
OUTCOMES: tuple[Outcome, ...] = ("broken", "cannot be decided", "met")
# The icon and the word say what the colour of that name says.
ICONS: Mapping[Outcome, str] = {"met": "✓", "broken": "✗", "cannot be decided": "?"}
WORDS: Mapping[Outcome, str] = {"met": "met", "broken": "broken", "cannot be decided": "undecided"}

_MEAN_GAP = "mean-gap"
# By how much the error of resampled rows exceeds that of the rows, and its standard deviation, where all of it is
# chance: both have twice the variance, and sqrt(1 - 2 / pi) is the standard deviation of |z| for a normal z.
_RESAMPLED, _DEVIATION = np.sqrt(2.0), np.sqrt(2 * (1 - 2 / np.pi))
# Beyond so many rows nobody asks.
MOST_ROWS = 10**13


@dataclass(frozen=True)
class Evidence:
    """`CautiousECE` of the rows that decide an error.

    Attributes
    ----------
    low, high : float
        Ends of the error that hold with few rows and few events.
    level : float
        Their level.
    effective_rows, noise, variance : float
        See `calibdask.estimators.binned.cautious.CautiousECE`.
    """

    low: float
    high: float
    level: float
    effective_rows: float
    noise: float
    variance: float

    @classmethod
    def of(cls, results: Results, metric: str) -> "Evidence | None":
        """Read it from a result without dimensions; None where it was not measured, or without intervals."""
        values = {part.part: part.value() for part in results.of(metric)}
        if "" not in values or not values[""].has_interval or results.level is None:
            return None
        ends = values.pop("")
        return cls(ends.low, ends.high, results.level, **{name: value.value for name, value in values.items()})

    def rows_needed(self, limit: float) -> float:
        """Of how many rows calibrated models with such scores meet a limit in about half of the samples.

        Effective ones, with weights.

        Examples
        --------
        >>> f"{Evidence(0, 1, 0.95, 30, 0.16, 0.04).rows_needed(0.03):.0f}"
        '470'
        """
        return float(np.ceil(_least_rows(lambda rows: self._end_by_chance(rows) <= limit)))

    def _end_by_chance(self, rows: float) -> float:
        """The larger upper end of these and of replicates, for calibrated models of so many rows."""
        alpha, events = (1 - self.level) / 2, rows * self.variance
        cautious = self.noise / np.sqrt(rows) + (float(poisson_end(events, alpha)) - events) / rows
        z = -scipy.special.ndtri(alpha)
        resampled = (_RESAMPLED * self.noise + z * _DEVIATION * np.sqrt(self.variance)) / np.sqrt(rows)
        return float(max(cautious, resampled))


@dataclass(frozen=True)
class Decision:
    """Whether an error keeps its limit.

    Attributes
    ----------
    error : Value or None
        The error with its interval.
    limit : float
        The largest that is accepted.
    evidence : Evidence or None
        What its rows can carry; None where it was not measured.
    requires_evidence : bool
        Whether the ends of the interval decide nothing without it, see `requires_evidence`.

    Examples
    --------
    Thirty rows without an event.

    >>> error = Value("ece", 0.01, 0.0, 0.01)
    >>> evidence = Evidence(0.0, 0.123, 0.95, effective_rows=30, noise=0.079, variance=0.0099)
    >>> Decision(error, 0.03, evidence).outcome, Decision(error, 0.03, evidence).rows_needed
    ('cannot be decided', 216.0)
    """

    error: Value | None
    limit: float
    evidence: Evidence | None = None
    requires_evidence: bool = True

    @property
    def ends(self) -> tuple[float, float]:
        """The ends that decide: the outer ones of the interval and of the evidence; NaN where there are none."""
        error, evidence = self.error, self.evidence
        if error is None or not error.has_interval or (evidence is None and self.requires_evidence):
            return np.nan, np.nan
        if evidence is None:
            return error.low, error.high
        return float(np.minimum(error.low, evidence.low)), float(np.maximum(error.high, evidence.high))

    @property
    def outcome(self) -> Outcome:
        """Met or broken, if both ends are on that side of the limit."""
        low, high = self.ends
        # Comparisons with NaN are false: without an interval nothing is decided.
        if low > self.limit:
            return "broken"
        return "met" if high <= self.limit else "cannot be decided"

    @property
    def rows_needed(self) -> float:
        """How many rows would decide it; NaN where it is decided, or that cannot be said.

        As many as a calibrated model needs; if there are as many already, those that would do if nothing but the width
        of the interval changed. With weights effective rows.
        """
        evidence, (low, high) = self.evidence, self.ends
        if self.error is None or evidence is None or self.outcome != "cannot be decided" or np.isnan(high):
            return np.nan
        if evidence.effective_rows < (needed := self._fewest):
            return needed
        value = self.error.value
        reach = high - value if value < self.limit else value - low
        with np.errstate(divide="ignore"):
            needed = float(np.ceil(evidence.effective_rows * np.square(np.divide(reach, self.limit - value))))
        return needed if needed < MOST_ROWS else np.nan

    @property
    def leaning(self) -> Outcome:
        """Outcome that `rows_needed` would give if the estimate did not change.

        Of fewer rows than a calibrated model needs, most of an error may be due to chance.
        """
        if np.isnan(self.rows_needed) or self.error is None or self.evidence is None:
            return self.outcome
        if self.evidence.effective_rows < self._fewest:
            return "cannot be decided"
        return "met" if self.error.value < self.limit else "broken"

    @cached_property
    def _fewest(self) -> float:
        """Rows that a calibrated model needs."""
        return np.nan if self.evidence is None else self.evidence.rows_needed(self.limit)


def cautious_metric(metric: Estimator, layout: Layout) -> CautiousECE | None:
    """Additional metric that decides an error; None if its interval decides."""
    metric = bare(metric)
    if isinstance(metric, ECE) and metric.mapping == "hard":
        names = ("bins", "binning", "setting", "k", "closed", "range", "compat", "norm")
        return CautiousECE(**{name: getattr(metric, name) for name in names})
    is_gap = any(info.quantity == _MEAN_GAP for info in metric.describe(layout).values())
    if not is_gap and not isinstance(metric, ECE | ECCE):
        return None
    if isinstance(metric, SettingEstimator):
        return CautiousECE(setting=metric.setting, k=metric.k, signs="common")
    return CautiousECE(signs="common")


def with_deciding_ends(metric: Estimator) -> Estimator:
    """The metric with the ends that a limit is decided by: of a cut-off error each end by itself."""
    return replace(metric, ends="one-sided") if isinstance(metric, CutoffError) else metric


def has_bins(metric: Estimator) -> bool:
    """Whether a metric is an error of bins or cells, which does not see errors that cancel within one."""
    return isinstance(bare(metric), BinnedEstimator | MulticlassECE)


def requires_evidence(part: PartResult) -> bool:
    """Whether an error can be decided with evidence only: those that are never below the absolute mean gap."""
    return part.quantity == _MEAN_GAP or part.estimator_class in (ECE.__name__, ECCE.__name__)


def _least_rows(serve: Callable[[float], bool]) -> float:
    """The least number of rows that serve, to a thousandth."""
    low, high = 0.0, float(np.log(MOST_ROWS))
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if serve(float(np.exp(middle))) else (middle, high)
    return float(np.exp(high))
