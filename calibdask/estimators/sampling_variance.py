"""Sampling variances of weighted means and of M-estimators.

Both are sums of contributions of independent rows. A mean m = sum w v / sum w moves by w (v - m) / sum w with a row, an
M-estimator b, the root of sum w u(b) = 0, by J w u with J the inverse of minus the derivative of that sum. Variances
are the sums of the squares of these contributions, the sandwich form::

    Var(m) = sum w**2 (v - m)**2 / (sum w)**2         Cov(b) = J (sum w**2 u u') J'

which holds for weights that depend on the outcome, as in a case-control sample or with balanced classes, and for
weights that do not. Kish's number of rows, (sum w)**2 / sum w**2, takes them for independent of what is averaged.

Of dependent rows the contributions are added up within each cluster before they are squared: `sum_of_squares` and
`sandwich` take contributions of any independent units.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.statistics.exact import Array

# Numbers of rows that differ by less are equal up to rounding.
_ROUNDING = 1e-9
# Skewness of a sum of outcomes from which a normal test at 5 % rejects more than 9 % of calibrated models: that of one
# expected outcome.
_MOST_SKEWNESS = 1.0
SKEWED = "no p-value where outcomes are so rare that hardly one is expected"
UNKNOWN_WEIGHT = "where all outcomes are equal: the weight of the other outcome is unknown"


class Kind(NamedTuple):
    """Rows of equal value: the value, their sum of w and their sum of w**2."""

    value: Any
    weight: Any
    square: Any


class BoundedEnds(NamedTuple):
    """Limits of Clopper & Pearson for a weighted mean, whose lower and upper ends rest on rows of their own."""

    low: BoundedMean
    high: BoundedMean

    def ends(self, level: float) -> tuple[Array, Array]:
        """The lower and the upper limit of the interval of this level."""
        chance = (1 - level) / 2
        return self.low.lower(chance), self.high.upper(chance)


@dataclass(frozen=True)
class WeightedMean:
    """The weighted mean of a value of the rows, with its sampling variance.

    Attributes
    ----------
    mean : ndarray
        m = sum w v / sum w.
    spread : ndarray
        Variance of the value among the rows, sum w (v - m)**2 / sum w.
    variance : ndarray
        Sampling variance of the mean, sum w**2 (v - m)**2 / (sum w)**2.
    rows : ndarray
        Kish's number of rows.

    References
    ----------
    .. [1] Korn & Graubard, Confidence intervals for proportions with small expected number of positive counts
       estimated from survey data, 1998, for the effective number of rows.

    Examples
    --------
    Two events of weight 10 among 1000 rows of weight 1 count as two events, not as 20.

    >>> mean = WeightedMean.of_kinds([Kind(1.0, 20.0, 200.0), Kind(0.0, 1000.0, 1000.0)])
    >>> round(float(mean.mean * mean.effective_rows), 2)
    2.04
    """

    mean: Array
    spread: Array
    variance: Array
    rows: Array

    @classmethod
    def of_kinds(cls, kinds: Sequence[Kind]) -> "WeightedMean":
        """Of rows that have one of a few values each; all arrays are broadcast."""
        weight, square = (np.asarray(sum(kind[field] for kind in kinds)) for field in (1, 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.asarray(sum(kind.weight * kind.value for kind in kinds) / weight)
            spread = np.asarray(sum(kind.weight * (kind.value - mean) ** 2 for kind in kinds) / weight)
            variance = np.asarray(sum(kind.square * (kind.value - mean) ** 2 for kind in kinds) / weight**2)
            rows = np.asarray(weight**2 / square)
        return cls(mean, spread, variance, rows)

    @property
    def effective_rows(self) -> Array:
        """Number of rows of equal weight whose mean has this variance, spread / variance; Kish's where that is 0 / 0.

        Of a share of events it makes the number of events (sum w o)**2 / sum w**2 o where these are rare, whatever the
        weights of the other rows.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            rows = np.where((self.variance > 0) & (self.spread > 0), self.spread / self.variance, self.rows)
            # Equal weights change no bit.
            return np.where(np.abs(rows / self.rows - 1) < _ROUNDING, self.rows, rows)

    def with_variance(self, variance: Array) -> "WeightedMean":
        """With another sampling variance where that is larger and weights differ."""
        differ = self.effective_rows != self.rows
        return replace(self, variance=np.where(differ, np.fmax(self.variance, variance), self.variance))

    def bounded(self, least: Any, most: Any, rows_of_least: Any = np.nan, rows_of_most: Any = np.nan) -> BoundedEnds:
        """Confidence limits of the mean of values between these.

        ``rows_of_least`` and ``rows_of_most`` are how many rows of the weight that such values have make the sum of the
        weights: a row of such a value that did not occur moves the mean by the reciprocal of that. NaN where unknown.
        """
        return BoundedEnds(self._limits(least, most, rows_of_least), self._limits(least, most, rows_of_most))

    def _limits(self, least: Any, most: Any, rows_of_end: Any) -> BoundedMean:
        rows = self.effective_rows
        count = np.fmin(rows, rows_of_end)
        is_fewer = count < rows * (1 - _ROUNDING)
        spread, count = np.where(is_fewer, self.variance * count, self.spread), np.where(is_fewer, count, rows)
        return BoundedMean(self.mean, spread, count, least, most)


def share_of(weight: Array, square: Array, of_weight: Array, of_square: Array) -> WeightedMean:
    """The share of the rows with an outcome: sums of w and w**2 of all rows, and of those with it."""
    return WeightedMean.of_kinds(
        [Kind(1.0, of_weight, of_square), Kind(0.0, rest_of(weight, of_weight), rest_of(square, of_square))]
    )


def rows_of_weight(total: Any, weight: Any, square: Any) -> Array:
    """How many rows of the mean weight sum w**2 / sum w of some rows make a total of weights; NaN without such rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(square) > 0, np.asarray(total * weight) / square, np.nan)


def rarer_rows(weight: Array, square: Array, of_weight: Array, of_square: Array) -> Array:
    """Rows with an outcome, or without it, whichever are fewer: as many as carry their information with equal weights.

    (sum w)**2 / sum w**2 over the rows of one kind is at most their number, which it is if their weights are equal; it
    does not depend on the weights of the other rows.
    """
    with_it = _kish(np.asarray(of_weight), np.asarray(of_square))
    return np.asarray(np.minimum(with_it, _kish(rest_of(weight, of_weight), rest_of(square, of_square))))


def rows_for_each(rows: Array, weight: Array, square: Array) -> Array:
    """How many rows of one kind there are for each that carries its information (Kish); NaN without rows.

    Examples
    --------
    Ten rows of weight 1, and ten of which one has as much weight as the others together.

    >>> rows_for_each(np.full(2, 10.0), np.array([10.0, 18.0]), np.array([10.0, 90.0])).round(2).tolist()
    [1.0, 2.78]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(rows / _kish(np.asarray(weight), np.asarray(square)))


def variance_of_few(weight: Array, square: Array, of_weight: Array, of_square: Array) -> tuple[Array, Array]:
    """The sampling variance of the share of an outcome among few rows, and their number; 0 below two rows.

    Each row contributes what leaving it out changes, the jackknife [1]_, with k1 rows of weight v1 with the outcome and
    k0 of weight v0 without it, v = sum w**2 / sum w and k = sum w / v over the rows of each kind, and W = sum w::

        (1 - 1 / k) (k1 v1**2 (1 - m)**2 / (W - v1)**2 + k0 v0**2 m**2 / (W - v0)**2),  k = k1 + k0

    With equal weights that is m (1 - m) / (k - 1), which has no bias.

    References
    ----------
    .. [1] MacKinnon & White, Some heteroskedasticity-consistent covariance matrix estimators with improved finite
       sample properties, 1985.

    Examples
    --------
    Three events among ten rows, and three of weight 4 among rows of weight 1.

    >>> sums = np.array([[10.0, 19.0], [10.0, 55.0], [3.0, 12.0], [3.0, 48.0]])
    >>> variance, rows = variance_of_few(*sums)
    >>> variance.round(4).tolist(), rows.tolist()
    ([0.0233, 0.0338], [10.0, 10.0])
    """
    others, other_squares = rest_of(weight, of_weight), rest_of(square, of_square)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = _kish(of_weight, of_square) + _kish(others, other_squares)
        total = np.zeros_like(rows)
        for of, squares, rest in ((of_weight, of_square, others), (others, other_squares, of_weight)):
            left = np.maximum(weight - squares / of, 0.0)
            total = total + squares * (rest / weight / left) ** 2
        # Of two different rows each is the mean without the other one: no variance is larger.
        variance = np.minimum(total * (1 - 1 / rows), 0.5)
    is_known = (rows >= 2) & (of_weight > 0) & (others > 0)
    return np.where(is_known, variance, 0.0), np.asarray(rows)


def rows_if_calibrated(
    weight: Array, score: Array, outcome: Array, square: Array, square_outcome: Array
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Rows of equal weight by bin whose share of outcomes varies as that of weighted rows of a calibrated model.

    ``weight``, ``outcome``, ``square`` and ``square_outcome`` are sums of w, w o, w**2 and w**2 o by bin, on the last
    axis, and ``score`` is the mean score. With v1 and v0 the mean weights sum w**2 / sum w of all rows with the outcome
    and without it, that is sum w / (v1 (1 - s) + v0 s), whatever the weights depend on. Also whether v1 or v0 is
    unknown, as no row has such an outcome, by all but the last axis; then the other one stands for it.

    Examples
    --------
    Five events of weight 4 and 80 other rows of weight 1, where a share of 0.2 is expected.

    >>> sums = (np.array([of]) for of in (100.0, 0.2, 20.0, 160.0, 80.0))
    >>> rows, unknown = rows_if_calibrated(*sums)
    >>> rows.round(2).tolist(), unknown.tolist()
    ([29.41], False)
    """
    kinds = (outcome, square_outcome), (rest_of(weight, outcome), rest_of(square, square_outcome))
    with np.errstate(divide="ignore", invalid="ignore"):
        with_it, without = (np.asarray(of_square.sum(-1) / of.sum(-1))[..., None] for of, of_square in kinds)
        unknown = ~(np.isfinite(with_it) & np.isfinite(without) & (with_it > 0) & (without > 0))
        with_it, without = np.where(unknown, np.fmax(with_it, without), (with_it, without))
        rows = np.asarray(weight / (with_it * (1 - score) + without * score))
    return rows, unknown[..., 0]


def is_too_skewed(variance: Array, third: Array) -> npt.NDArray[np.bool_]:
    """Whether a sum with this variance and third cumulant is too skewed for a normal test.

    Examples
    --------
    A tenth of an outcome is expected, or ten.

    >>> is_too_skewed(np.array([0.1, 10.0]), np.array([0.1, 10.0])).tolist()
    [True, False]
    """
    return np.asarray(np.abs(third) > _MOST_SKEWNESS * np.maximum(variance, 0.0) ** 1.5)


def sum_of_squares(contributions: Array) -> Array:
    """The variance of a sum of contributions (..., units) of independent units whose expectations add up to 0."""
    return np.asarray((contributions**2).sum(-1))


def sandwich(inverse: Array, meat: Array) -> Array:
    """Covariance J M J' of an M-estimator: J (p, p), and M (p, p) the sum of u u' over independent units."""
    return np.asarray(inverse @ meat @ inverse.T)


def rest_of(whole: Any, part: Any) -> Array:
    """Difference of two sums; 0 where it is only rounding."""
    left = np.asarray(whole - part)
    return np.where(left > _ROUNDING * np.asarray(whole), left, 0.0)


def _kish(weight: Array, square: Array) -> Array:
    rows = np.divide(weight**2, square, out=np.zeros(np.shape(weight)), where=square > 0)
    whole = np.rint(rows)
    return np.where(np.abs(rows - whole) < _ROUNDING * whole, whole, rows)
