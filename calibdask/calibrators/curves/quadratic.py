"""Quadratic scaling: logistic regression on the logit of the score and its square."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from calibdask.calibrators.curves.columns import Curve
from calibdask.calibrators.curves.likelihood import LogitCalibrator, falling_caution, fit_notes, fit_terms
from calibdask.calibrators.fitted import Numbers, Sliced
from calibdask.estimators.regression.column_points import ColumnPoints
from calibdask.estimators.regression.logits import logits_of
from calibdask.statistics.exact import Array

_NAMES = ("intercept", "coef", "curvature")


class QuadraticScaling(LogitCalibrator):
    """Quadratic scaling: q = sigmoid(intercept + coef * z + curvature * z**2), z = logit(s), by maximum likelihood.

    Platt scaling with curvature: over- and underconfidence may differ between low and high scores. The map turns at
    z = -coef / (2 * curvature); beyond that point an increasing map decreases.

    Parameters
    ----------
    setting : {"classwise", "confidence"}, optional
        For matrices: calibrate each class separately and divide rows by their sums, or calibrate only the largest
        score. With two classes P(y = 1) is calibrated.
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    intercept_, coef_, curvature_ : float, or ndarray with axes of slices and classes
        The parameters.
    intercept_se_, coef_se_, curvature_se_ : of the same shape
        Their standard errors, from the inverse of the Hessian; with weights, for the effective number of rows.
    turning_point_ : of the same shape
        The score at which the map turns; NaN if it does not.
    falling_ : of the same shape
        Share of the rows, by weight, for which the map decreases in the score.
    smoothed_ : of the same shape
        1 where outcomes were smoothed because a quadratic in z separates them.
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
        If there are fewer than three distinct scores, or all outcomes are equal.

    Warns
    -----
    UserWarning
        If the map decreases for some rows; if many rows of a summary are so close to 0 or 1 that their logits are
        unknown; or if outcomes are separated, so that the likelihood has no maximum: the map of smoothed targets is
        used.

    Notes
    -----
    One pass, exact up to four million distinct scores; beyond that, and for a summary, the cells of a fine grid serve
    as rows. Scores of 0 and 1 are clipped at the smallest normal number of their type, z = -708 and 708 in double
    precision: if such scores are common, their squares dominate the fit. In a summary, all scores within 4e-9 of 0 or 1
    have the same logit: with one such score in 800 parameters were off by up to 0.04 standard errors of 2 * 10^5 rows,
    with one in 60 by 6; fits that are likely to be affected warn (``merged_``).

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(50_000)
    >>> z = np.log(y_prob / (1 - y_prob))
    >>> y_true = rng.random(50_000) < 1 / (1 + np.exp(-z - 0.1 * z**2))
    >>> fitted = cd.QuadraticScaling().fit(y_true, np.clip(y_prob, 0.01, 0.99))
    >>> round(float(fitted.curvature_), 1)
    0.1
    """

    def __init__(self, *, setting: Literal["classwise", "confidence"] | None = None, logits: bool = False) -> None:
        self.setting = setting
        self.logits = logits

    def _fit_points(self, points: ColumnPoints) -> dict[str, Any]:
        z = logits_of(points.score, points.clip)
        fit, errors, is_smoothed = fit_terms(points, z, np.stack([np.ones_like(z), z, z**2]))
        coefficients = dict(zip(_NAMES, fit.coefficients, strict=True))
        _, slope, curvature = fit.coefficients
        return {
            **coefficients,
            **dict(zip((f"{name}_se" for name in _NAMES), errors, strict=True)),
            "turning_point": special.expit(-slope / (2 * curvature)) if curvature else np.nan,
            "falling": points.weight[slope + 2 * curvature * z < 0].sum() / points.weight.sum(),
            **fit_notes(points, was_smoothed=is_smoothed),
        }

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        yield from super()._cautions(sliced)
        yield from falling_caution(sliced.numbers["falling"], ", on one side of turning_point_")

    def _curve(self, numbers: Numbers) -> Curve:
        return _Quadratic(*(float(numbers[name]) for name in (*_NAMES, "clip")))


@dataclass(frozen=True)
class _Quadratic:
    intercept: float
    coef: float
    curvature: float
    clip: float

    def __call__(self, scores: Array) -> Array:
        z = logits_of(scores, self.clip)
        return np.asarray(special.expit(self.intercept + z * (self.coef + z * self.curvature)), np.float64)
