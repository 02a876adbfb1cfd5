"""Calibration intercept and slope, with the joint test of both."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import PVALUE, About, Description, PartInfo
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.parts import Estimate, FixedPart, Number
from calibdask.estimators.regression.column_points import ColumnPoints
from calibdask.estimators.regression.logistic import (
    LogisticFit,
    covariance_of,
    fit_logistic,
    mean_loss,
    robust_errors,
    standard_errors,
)
from calibdask.estimators.regression.logits import logits_of
from calibdask.estimators.regression.separation import is_separated
from calibdask.estimators.validation.by_column import SEPARATED, column_numbers
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

_NUMBERS = ("slope", "slope_error", "intercept", "intercept_error", "intercept_refused", "statistic", "pvalue")
# Fewer rows of the rarer outcome say next to nothing about how far either may be off.
_FEWEST = 3
# Of fewer with weights the sandwich variance is too small: 12 % of calibrated models were rejected at 5 %.
_FEWEST_OF_TEST = 10
# The intercept gets the sandwich error if its residual variance is this many times that of a model of slope 1.
_MISFIT = 1.2
# An intercept with such an error moves no score that is known.
_BOUNDLESS = 1e3
_CLIPPED = "scores of exactly 0 or 1 have infinite logits: where they are clipped decides the slope"
_FEW_OF_TEST = "no p-value with weights and fewer than 10 effective rows of the rarer outcome"
_FEW = "no intervals with fewer than 3 rows of the rarer outcome"
_VAGUE = "where less than one score is expected to be on the wrong side of 1/2, and hardly any is"
# Of the intercept: that of three rows with a probability next to 0 or 1.
_VAGUE_ERROR = 3**-0.5
_NO_INTERVAL = "of the slope, which rests on where the infinite logits of scores of exactly 0 or 1 are clipped"


@dataclass(frozen=True, kw_only=True)
class CalibrationSlope(ColumnEstimator):
    """Calibration slope and intercept: logistic regression of the outcome on the logit of the score.

    ::

        logit P(o = 1) = a + slope * logit(s),       logit P(o = 1) = intercept + logit(s)
        statistic = 2 (log-likelihood at the best a, slope  -  log-likelihood at a = 0, slope = 1)

    A slope below 1 means that scores are too extreme, as for an overfitted model; above 1: not extreme enough. An
    intercept below 0 means that scores are too high on average (on the logit scale); above 0: too low.

    Parameters
    ----------
    setting : str, int or None
        ``"confidence"``, ``"binary"``, a class, ``"top-k"``, ``"classwise"`` (each class by itself); None: binary for a
        vector of scores and class-wise for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If the setting is unknown.

    Notes
    -----
    Parts ``slope``, ``intercept`` (with the logit as an offset, that is with the slope fixed at 1), ``statistic`` and
    ``pvalue`` of the joint likelihood-ratio test of a = 0 and slope = 1, chi-square with 2 degrees of freedom if the
    model is calibrated. In the class-wise setting there is one of each per class.

    With ``ci``: Wald intervals from the inverse of the Hessian; none (NaN) with fewer than 3 rows of the rarer outcome.
    The intercept has none either if scores on both sides of 1/2 are so near to 0 and 1 that less than one is expected
    to be on the wrong side, and so few are that the standard error by the model is above 0.58.
    In simulations with 30 to 1000 rows (``experiments/calibration`` of the repository) intervals at 90 % missed the
    true value in up to 13 % of data sets, and the test at 5 % rejected up to 7 % of calibrated models. The standard
    error of the intercept is the sandwich one where that is over 1.2 times as large: the slope may differ from 1. With
    weights, standard errors have the sandwich form, from w**2 and the residuals that rows have without themselves; with
    weights of infinite variance (Pareto, 1.5) intervals at 90 % missed 14 % and the test rejected 7 %. The statistic
    is multiplied by the ratio of the Wald statistics of the two covariances, and half of it is compared with F with 2
    and m / 2 degrees of freedom for m effective rows of the rarer outcome; both are NaN with m below 10, where the
    sandwich variance is too small.

    They are NaN if all outcomes are equal, if fewer than two scores are distinct (the intercept is still given), and if
    a score separates the outcomes, so that the slope is infinite; the attribute ``undefined`` says so. Scores of 0 and
    1 are clipped at the smallest normal number of their type (logits of -708 and 708, for float32 -87 and 87); such
    rows may dominate the slope; the attribute ``clipped_logits`` is their weight. In this case the slope has no
    interval, and a limit on it is undecided: first move such scores inside, for example to 1 / (2 n) and 1 - 1 / (2 n)
    of n rows.

    The two numbers describe only a straight line in the logits: a slope of 1 and an intercept of 0 do not prove
    calibration (see `calibdask.ReliabilityCurve` or `calibdask.CalibrationBelt`). On the rows that a logistic
    regression was fitted to, they are 1 and 0 for any model. One pass, exact up to four million rows (times columns);
    beyond that, and from a summary, the cells of a fine grid serve as rows, which changes numbers by about a thousandth
    of their standard error.

    References
    ----------
    .. [1] Cox, Two further applications of a model for binary regression, 1958.
    .. [2] Steyerberg, Clinical Prediction Models, 2nd edition, 2019, chapter 15.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(20_000)
    >>> y_true = rng.random(20_000) < y_prob**2 / (y_prob**2 + (1 - y_prob) ** 2)  # slope 2 in the logits
    >>> result = cd.evaluate(y_true, y_prob, cd.CalibrationSlope(), ci=0.95)
    >>> [round(float(result[f"calibration_slope_{part}"]), 3) for part in ("slope_low", "slope", "slope_high")]
    [2.005, 2.064, 2.123]
    """

    about = About(
        "Calibration slope and intercept",
        "Logistic regression of the outcome on the logit of the score, logit P = a + slope * logit(s); the intercept "
        "is that with the slope fixed at 1. A calibrated model has slope 1 and intercept 0; the joint likelihood-ratio "
        "test of both is chi-square with 2 degrees of freedom; with weights, half the statistic has an F distribution.",
        "Cox, Two further applications of a model for binary regression, 1958",
        "calibration slope",
    )

    usual_setting = "classwise"

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "slope": PartInfo(
                "slope of the outcome on the logit of the score, 1 if calibrated", "number", quantity="slope"
            ),
            "intercept": PartInfo(
                "intercept with slope 1, 0 if calibrated: calibration in the large", "number", quantity="offset"
            ),
            "statistic": PartInfo(
                "likelihood ratio of slope and intercept, chi-square with 2 df without weights", "statistic"
            ),
            "pvalue": PartInfo(PVALUE, "pvalue"),
        }

    def interval(self, layout: Layout) -> KnownEnds:
        """Wald intervals."""
        return KnownEnds()

    @override
    def estimate(self) -> Requests[Estimate]:
        setting = self.measured((yield from Layout()))
        values, notes = yield from column_numbers(setting, dict.fromkeys(_NUMBERS, ()), _fit)
        by_class = {name: setting.by_class(value) for name, value in values.items()}

        def number(name: str) -> Number:
            value, error = by_class[name], by_class[f"{name}_error"]
            return Number(value, setting.dims, notes, known_ends=partial(_wald, value, error))

        of_test = {**notes, "assumes": "rows are independent and many", "null_hypothesis": "the model is calibrated"}
        statistic = by_class["statistic"]
        slope = number("slope")
        if "clipped_logits" in notes:
            slope = replace(slope, notes={**notes, "rests_on_clipping": _CLIPPED, "no_interval": _NO_INTERVAL})
        return {
            "slope": slope,
            "intercept": number("intercept").without_ends(by_class["intercept_refused"] == 1, _VAGUE),
            "statistic": FixedPart(statistic, setting.dims, of_test),
            "pvalue": FixedPart(by_class["pvalue"], setting.dims, of_test),
        }


def _wald(value: Array, error: Array, level: float) -> tuple[Array, Array]:
    reach = scipy.special.ndtri(0.5 + level / 2) * error
    return value - reach, value + reach


def _fit(points: ColumnPoints) -> tuple[dict[str, float], str]:
    """Both fits of one column, and why one of them is missing."""
    z = logits_of(points.score, points.clip)
    constant = np.ones_like(z)
    shifted = fit_logistic(constant[None], points.weight, points.outcome, z)
    model_error = standard_errors(shifted, constant[None], points, z).item()
    robust = robust_errors(shifted, constant[None], points, z).item()
    # Residuals vary more than this model expects where the slope that it fixes is wrong.
    error = robust if robust > _MISFIT * model_error else model_error
    if not (shifted.converged and error < _BOUNDLESS):
        return {}, "nearly all scores are 0 or 1, so that no intercept is determined"
    unknown, reason = (np.nan, _FEW) if points.rarer < _FEWEST - 0.5 else (1.0, "")
    refused = model_error > _VAGUE_ERROR and _are_sharp(points)
    numbers = {
        "intercept": shifted.coefficients.item(),
        "intercept_error": np.nan if refused else unknown * error,
        "intercept_refused": float(refused),
    }
    if np.ptp(z) == 0:
        return numbers, "no slope where all scores are equal"
    if is_separated(z, points.weight, points.outcome, 2):
        return numbers, SEPARATED
    terms = np.stack([constant, z])
    fit = fit_logistic(terms, points.weight, points.outcome)
    if not fit.converged:
        return numbers, SEPARATED
    covariance = covariance_of(fit, terms, points)
    ratio = 2 * points.weight.sum() * max(0.0, mean_loss(z, points) - fit.loss)
    statistic = ratio * _information(fit, covariance, points)
    if not points.has_equal_weights and points.rarer < _FEWEST_OF_TEST - 0.5:
        statistic, reason = np.nan, f"{reason}; {_FEW_OF_TEST}".removeprefix("; ")
    error = np.nan if points.clipped else unknown * np.sqrt(covariance[1, 1])
    of_test = {"statistic": statistic, "pvalue": _pvalue(statistic, points)}
    return {**numbers, "slope": fit.coefficients[1], "slope_error": error, **of_test}, reason


def _are_sharp(points: ColumnPoints) -> bool:
    """Whether scores on both sides of 1/2 are so near to 0 and 1 that less than one is expected to be wrong.

    The few that are wrong then move the intercept far, either way, and its error is known only from them.
    """
    score, weight = points.score, points.weight
    has_both_sides = ((score < 0.5) & (weight > 0)).any() and ((score > 0.5) & (weight > 0)).any()
    wrong = float(weight @ np.minimum(score, 1 - score)) * points.information
    return bool(has_both_sides and wrong < 1)


def _pvalue(statistic: float, points: ColumnPoints) -> float:
    """Chi-square with 2 degrees of freedom; with weights, statistic / 2 is compared with F(2, m / 2).

    m are the effective rows of the rarer outcome. So few rows with large weights carry the sandwich variance that it
    varies as if it came from half as many.
    """
    if points.has_equal_weights or np.isnan(statistic):
        return float(np.exp(-statistic / 2))
    freedom = points.rarer / 2
    return float((1 + statistic / freedom) ** (-freedom / 2))


def _information(fit: LogisticFit, covariance: Array, points: ColumnPoints) -> float:
    """Information factor of the likelihood ratio: the Wald statistic relative to rows of weight 1."""
    if points.has_equal_weights:
        return points.information
    distance = fit.coefficients - np.array([0.0, 1.0])
    if not np.isfinite(covariance).all():
        return np.nan
    wald, of_units = (float(distance @ np.linalg.solve(matrix, distance)) for matrix in (covariance, fit.covariance))
    return wald / of_units if of_units > 0 else points.information
