"""Spline calibration: a penalised natural cubic spline of the logit of the score, fitted as a logistic regression."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special
from scipy.interpolate import CubicSpline

from calibdask.calibrators.curves.columns import Curve
from calibdask.calibrators.curves.likelihood import LogitCalibrator, falling_caution, fit_notes, smoothed
from calibdask.calibrators.fitted import Numbers, Sliced
from calibdask.estimators.regression.column_points import ColumnPoints
from calibdask.estimators.regression.logistic import LogisticProblem, starts_of_parts
from calibdask.estimators.regression.logits import logits_of
from calibdask.estimators.regression.separation import check_distinct, is_separated
from calibdask.statistics.exact import Array

# Knots nearer to one another than this share of their range are one.
_APART = 1e-3
# Smoothing is chosen among these, relative to what a row says about the bends: from straight to next to none.
_CHOICES = 10.0 ** np.arange(3.0, -8.0, -1.0)
# Smoothing is chosen on so many parts of the rows, each at its mean; the spline is fitted to all points.
_PARTS = 400
# The last step of the fits among which it is chosen.
_LAST_STEP = 1e-6
# The bends have at most one effective parameter for so many rows of the rarer outcome.
_ROWS_A_PARAMETER = 10


class SplineCalibration(LogitCalibrator):
    """Spline calibration: q = sigmoid(f(z)), z = logit(s), f a natural cubic spline, by penalised maximum likelihood.

    ::

        minimise  mean(w * log-loss) / mean(w) + smoothing / 2 * integral of f''(z)**2

    With strong smoothing f is a straight line, which is Platt scaling; with more rows it can bend.

    Parameters
    ----------
    knots : int, default 10
        Number of knots: quantiles of z by weight, the lowest and the highest with half as many rows outside as there
        are between two. Beyond them f is linear. Equal scores reduce their number.
    smoothing : float or "reml", default "reml"
        The smoothing, or restricted maximum likelihood, which treats the curvature as random and chooses the smoothing
        under which the outcomes are most likely, in Laplace's approximation; with at most one effective curvature
        parameter per ten rows of the rarer outcome.
    setting : {"classwise", "confidence"}, optional
        For matrices: calibrate each class separately and divide rows by their sums, or calibrate only the largest
        score. With two classes P(y = 1) is calibrated.
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    knots_ : ndarray of shape (knots,), or with axes of slices and classes before
        The knots, as logits; if a class or slice has fewer than another, its last knot is repeated.
    values_ : of the same shape
        The logits of the calibrated probabilities at the knots, which determine f.
    values_se_ : of the same shape
        Their standard errors, with the smoothing as a prior (Bayesian, as in [2]_).
    smoothing_ : float, or ndarray with axes of slices and classes
        The smoothing.
    dof_ : of the same shape
        Effective number of parameters, from 2, a straight line, to the number of knots.
    falling_ : of the same shape
        Share of the rows, by weight, for which the map decreases in the score.
    smoothed_ : of the same shape
        1 if outcomes were smoothed because a score separates them.
    clipped_ : of the same shape
        Rows (weights) with scores of exactly 0 or 1, whose logits are clipped.
    merged_ : of the same shape
        Rows (effective, with weights) in the outermost cells of a grid fit, within about 4e-9 of 0 or 1; many of them
        change the parameters.
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Raises
    ------
    ValueError
        If an option is invalid, there are fewer than two distinct scores, or all outcomes are equal.

    Warns
    -----
    UserWarning
        If the map decreases for some rows, or if outcomes are separated by a score, so that the likelihood has no
        maximum: the map of smoothed targets is used.

    Notes
    -----
    Lucena [1]_ proposes natural cubic splines with a ridge penalty chosen by cross-validation; with a penalty on the
    curvature, the identity is not penalised, and restricted maximum likelihood needs no folds and rarely undersmooths
    small samples [2]_. One pass, exact up to four million distinct scores; beyond that, and for a summary, the cells of
    a fine grid serve as rows. Scores of 0 and 1 are clipped at the smallest normal number of their type.

    References
    ----------
    .. [1] Lucena, Spline-based probability calibration, 2018.
    .. [2] Wood, Fast stable restricted maximum likelihood and marginal likelihood estimation of semiparametric
       generalized linear models, 2011.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(50_000)
    >>> y_true = rng.random(50_000) < 0.2 + 0.6 * y_prob**2
    >>> fitted = cd.SplineCalibration().fit(y_true, y_prob)
    >>> fitted.predict_proba([0.1, 0.5, 0.9])[:, 1].round(1)
    array([0.2, 0.4, 0.7])
    """

    def __init__(
        self,
        *,
        knots: int = 10,
        smoothing: float | Literal["reml"] = "reml",
        setting: Literal["classwise", "confidence"] | None = None,
        logits: bool = False,
    ) -> None:
        self.knots = knots
        self.smoothing = smoothing
        self.setting = setting
        self.logits = logits

    def _check(self) -> None:
        given: Any = self.knots
        whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
        if not whole or not 3 <= self.knots <= 50:
            raise ValueError(f"knots expects a whole number from 3 to 50, got {self.knots!r}.")
        given = self.smoothing
        positive = isinstance(given, int | float | np.number) and not isinstance(given, bool) and 0 < given < np.inf
        if str(given) != "reml" and not positive:
            raise ValueError(f"smoothing expects 'reml' or a positive number, got {given!r}.")

    def _fit_points(self, points: ColumnPoints) -> dict[str, Any]:
        z = logits_of(points.score, points.clip)
        check_distinct(points, z, 2)
        # The penalty bounds the bends; only a straight line may separate.
        separated = is_separated(z, points.weight, points.outcome, 2)
        outcome = smoothed(points) if separated else points.outcome
        spline = _Spline(_knots(z, points.weight, self.knots))
        start = None
        if self.smoothing == "reml":
            smoothing, start = _chosen_smoothing(spline, z, points.weight, outcome, points.information)
        else:
            smoothing = float(self.smoothing)
        penalty = smoothing * spline.penalty
        terms = spline.terms(z)
        fit = LogisticProblem.of(terms, points.weight, outcome).fit(penalty, start)
        if not (separated or fit.converged):
            separated, fit = True, LogisticProblem.of(terms, points.weight, smoothed(points)).fit(penalty)
        values = spline.values @ fit.coefficients
        errors = np.sqrt(np.diag(spline.values @ fit.covariance @ spline.values.T) / points.information)
        slope = spline.slope(values, z)
        return {
            "values": values,
            "values_se": np.full_like(errors, np.nan) if separated else errors,
            "knots": spline.knots,
            "smoothing": smoothing,
            "dof": len(spline.knots) - np.trace(fit.covariance @ penalty) * points.weight.sum(),
            "falling": points.weight[slope < 0].sum() / points.weight.sum(),
            **fit_notes(points, was_smoothed=separated),
        }

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        yield from super()._cautions(sliced)
        yield from falling_caution(sliced.numbers["falling"])

    def _curve(self, numbers: Numbers) -> Curve:
        # Shorter lists of knots repeat their last one.
        knots, first = np.unique(numbers["knots"], return_index=True)
        return _SplineCurve(_Spline(knots), numbers["values"][first], float(numbers["clip"]))


@dataclass(frozen=True)
class _Spline:
    """Natural cubic splines with these knots, linear in their values at the knots, straight beyond."""

    knots: Array

    def at(self, values: Array, z: Array) -> Array:
        """The splines of some values, (knots, ...), at z, (points, ...)."""
        inside = np.clip(z, self.knots[0], self.knots[-1])
        curve = self._inside(values)
        outside, low = (part.reshape(-1, *[1] * (values.ndim - 1)) for part in (z - inside, z < inside))
        return np.asarray(curve(inside) + outside * np.where(low, *curve(self.knots[[0, -1]], 1)))

    def slope(self, values: Array, z: Array) -> Array:
        """Its derivative."""
        return np.asarray(self._inside(values)(np.clip(z, self.knots[0], self.knots[-1]), 1))

    def terms(self, z: Array) -> Array:
        """1, z, and the splines with value 1 at an inner knot and 0 at the others, shape (knots, points).

        The penalty is that of the inner knots alone, without rounding in straight lines, whatever its size.
        """
        inner = np.eye(len(self.knots))[:, 1:-1]
        return np.concatenate([np.stack([np.ones_like(z), z]), self.at(inner, z).T])

    @property
    def values(self) -> Array:
        """The terms at the knots, shape (knots, terms)."""
        inner = np.eye(len(self.knots))[:, 1:-1]
        return np.column_stack([np.ones_like(self.knots), self.knots, inner])

    @property
    def penalty(self) -> Array:
        """The matrix of the integral of the squared second derivative."""
        matrix = np.zeros((len(self.knots), len(self.knots)))
        if len(self.knots) == 2:
            return matrix
        bends = self._inside(np.eye(len(self.knots)))(self.knots, 2)
        # The second derivative is linear between knots.
        width = np.diff(self.knots)[:, None, None]
        low, high = bends[:-1, :, None], bends[1:, :, None]
        products = low * low.swapaxes(1, 2) + high * high.swapaxes(1, 2)
        crossed = low * high.swapaxes(1, 2) + high * low.swapaxes(1, 2)
        matrix[2:, 2:] = (width * (products / 3 + crossed / 6)).sum(0)[1:-1, 1:-1]
        return matrix

    def _inside(self, values: Array) -> CubicSpline:
        return CubicSpline(self.knots, values, bc_type="natural")


@dataclass(frozen=True)
class _SplineCurve:
    spline: _Spline
    values: Array
    clip: float

    def __call__(self, scores: Array) -> Array:
        return np.asarray(special.expit(self.spline.at(self.values, logits_of(scores, self.clip))), np.float64)


def _knots(z: Array, weight: Array, number: int) -> Array:
    """Weighted quantiles of z that are values of z and well apart; the ends of z if only one remains."""
    order = np.argsort(z, kind="stable")
    cumulated = np.cumsum(weight[order])
    at = np.searchsorted(cumulated, (np.arange(number) + 0.5) / number * cumulated[-1])
    quantiles = z[order][np.minimum(at, len(z) - 1)]
    least = _APART * (quantiles[-1] - quantiles[0])
    knots = [quantiles[0]]
    for quantile in quantiles[1:]:
        if quantile - knots[-1] > least:
            knots.append(quantile)
    return np.array(knots if len(knots) > 1 else [z.min(), z.max()])


def _chosen_smoothing(
    spline: _Spline, z: Array, weight: Array, outcome: Array, information: float
) -> tuple[float, Array | None]:
    """The smoothing under which the outcomes are likeliest, and coefficients nearby.

    The bends are random with variance 1 / (rows * smoothing).
    """
    number = len(spline.knots)
    if number == 2:
        return 0.0, None
    z, weight, outcome = _parts(z, weight, outcome)
    rows = weight.sum() * information
    terms, penalty = spline.terms(z), spline.penalty
    # A unit of smoothing that does not depend on the scale of z.
    unit = (terms[2:] ** 2 * weight).sum() / (weight.sum() * np.trace(penalty))
    # Where outcomes hardly overlap, Laplace's approximation is too good to be true.
    most = 2 + min(outcome.sum(), weight.sum() - outcome.sum()) * information / _ROWS_A_PARAMETER
    problem = LogisticProblem.of(terms, weight, outcome)
    criteria: list[float] = []
    start, nearby = None, None
    for smoothing in (unit * _CHOICES).tolist():
        fit = problem.fit(smoothing * penalty, start, _LAST_STEP)
        dof = number - smoothing * np.trace(fit.covariance @ penalty) * weight.sum()
        if not fit.converged or dof > most:
            criteria.append(np.inf)
            continue
        start = fit.coefficients
        spread = np.linalg.slogdet(fit.covariance * weight.sum() / rows)[1]
        criteria.append(rows * fit.loss - spread / 2 - (number - 2) / 2 * np.log(rows * smoothing))
        if criteria[-1] == min(criteria):
            nearby = start
    return float(unit * _lowest(np.log(_CHOICES), np.array(criteria))), nearby


def _lowest(position: Array, values: Array) -> float:
    """The exponential of the position of the lowest value, of the parabola through it and its neighbours."""
    at = int(values.argmin())
    if not 0 < at < len(values) - 1 or not np.isfinite(values[at - 1 : at + 2]).all():
        return float(np.exp(position[at]))
    before, lowest, after = values[at - 1 : at + 2]
    move = (before - after) / (2 * (before - 2 * lowest + after))
    return float(np.exp(position[at] + move * (position[at + 1] - position[at])))


def _parts(z: Array, weight: Array, outcome: Array) -> tuple[Array, Array, Array]:
    """Parts of about equal weight, at their mean of z; the points themselves if there are no more."""
    if len(z) <= _PARTS:
        return z, weight, outcome
    order = np.argsort(z, kind="stable")
    z, weight, outcome = z[order], weight[order], outcome[order]
    starts = starts_of_parts(weight, _PARTS)
    mass = np.add.reduceat(weight, starts)
    return np.add.reduceat(weight * z, starts) / mass, mass, np.add.reduceat(outcome, starts)
