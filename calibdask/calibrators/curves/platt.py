"""Platt scaling: logistic regression on the logit of the score."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from scipy import optimize, special

from calibdask.calibrators.curves.columns import Curve
from calibdask.calibrators.curves.likelihood import LogitCalibrator, fit_notes, fit_terms, smoothed
from calibdask.calibrators.curves.shrunken_intercepts import (
    FEWEST_SLICES,
    ShrunkenIntercepts,
    SlicePoints,
    column_of,
    slice_points,
)
from calibdask.calibrators.fitted import Numbers, Sliced, given_columns, slices_and_all
from calibdask.data.input import Input
from calibdask.engine.axes import Axis
from calibdask.estimators.checks import check_flags
from calibdask.estimators.regression.column_points import ColumnPoints, Undetermined
from calibdask.estimators.regression.logistic import fit_logistic, standard_errors
from calibdask.estimators.regression.logits import logits_of
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

# By so many standard errors a slope is below 0 not by chance.
_BEYOND_CHANCE = 3.0


class PlattScaling(LogitCalibrator):
    """Platt scaling: q = sigmoid(intercept + coef * logit(s)), by maximum likelihood.

    It is fitted on logits, not on probabilities, so the identity is one of the maps: intercept 0 and coef 1.

    Parameters
    ----------
    slope : bool, default True
        Whether the slope ``coef_`` is fitted. False: the slope is 1 and only the intercept is fitted, which corrects
        calibration in the large if the prevalence differs from the training data. This keeps the order of the scores
        and their odds ratios.
    mean : float, optional
        With ``slope=False``: the mean that the calibrated scores of the fitted rows should have, such as a long-run
        default rate (central tendency), in place of the observed rate. The intercept is chosen for this mean; outcomes
        are not used, and its standard error is 0.
    shrink : bool, default False
        For slices (``by``): the slope is that of all rows, and the intercept of each slice is shrunk towards the mean
        of all slices according to its noise, by empirical Bayes. Intended for many small slices; requires at least
        three, and ``min_rows`` has no effect.
    smooth_targets : bool, default False
        Outcomes count as (N+ + 1) / (N+ + 2) and 1 / (N- + 2) instead of 1 and 0, with N+ and N- the weights of the two
        classes, as in [1]_.
    setting : {"classwise", "confidence"}, optional
        For matrices: calibrate each class separately and divide rows by their sums, or calibrate only the largest
        score. With two classes P(y = 1) is calibrated.
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    coef_, intercept_ : float, or ndarray with axes of slices and classes
        The parameters.
    coef_se_, intercept_se_ : of the same shape
        Their standard errors, from the inverse of the Hessian, with weights in the sandwich form; 0 for a slope that is
        not fitted.
    own_weight_ : of the same shape
        With ``shrink``: the weight of the rows of a slice in its intercept, 0 (that of all slices) to 1 (not shrunk).
    deviation_ : of the same shape
        With ``shrink``: the standard deviation of intercepts between slices; equal for all of them.
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
        If there are fewer than two distinct scores and the slope is fitted, or all outcomes are equal; if ``mean`` is
        not between 0 and 1, or is given with a slope, with smoothed targets or for several classes; if ``shrink`` is
        given with ``mean``, or with fewer than three slices.

    Warns
    -----
    UserWarning
        If outcomes are separated by a score, so that the likelihood has no maximum: the map of smoothed targets is
        used. If the outcome is significantly less frequent at higher scores.

    Notes
    -----
    One pass, exact up to four million rows (times classes); beyond that, and for a summary, the cells of a fine grid
    serve as rows, which changes parameters by about a thousandth of their standard error; by more, and with a warning,
    if many scores are within 4e-9 of 0 or 1 (``merged_``). Scores of 0 and 1 are clipped at the smallest normal number
    of their type.

    *Shrinkage.* With the logit z of the map of all rows, q = sigmoid(z + a_k) in slice k, with random intercepts a_k of
    variance tau**2, by penalised quasi-likelihood and Paule & Mandel, as `calibdask.shrink_slices` for gaps. Slices
    without rows have the mean intercept; ``intercept_se_`` of a slice is a root mean square error given the map of all
    rows, which allows for the uncertainty of the mean and of tau (Prasad & Rao); intercepts plus and minus 1.96 of it
    covered 0.92 to 1 of 100 slices in simulations, the least with 30 rows each and tau of 0.25.

    References
    ----------
    .. [1] Platt, Probabilistic outputs for support vector machines, 1999.
    .. [2] Steyerberg et al., Validation and updating of predictive logistic regression models, 2004, method 2 for
       ``slope=False`` and method 3.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(50_000)
    >>> y_true = rng.random(50_000) < y_prob**2 / (y_prob**2 + (1 - y_prob) ** 2)
    >>> round(float(cd.PlattScaling().fit(y_true, y_prob).coef_), 1)
    2.0
    >>> float(cd.PlattScaling(slope=False).fit(y_true, y_prob).coef_)
    1.0
    >>> calibrator = cd.PlattScaling(slope=False, mean=0.1).fit(y_true, y_prob)
    >>> round(float(calibrator.predict_proba(y_prob)[:, 1].mean()), 12)
    0.1
    """

    def __init__(
        self,
        *,
        slope: bool = True,
        mean: float | None = None,
        shrink: bool = False,
        smooth_targets: bool = False,
        setting: Literal["classwise", "confidence"] | None = None,
        logits: bool = False,
    ) -> None:
        self.slope = slope
        self.mean = mean
        self.shrink = shrink
        self.smooth_targets = smooth_targets
        self.setting = setting
        self.logits = logits

    def _fit_points(self, points: ColumnPoints) -> dict[str, Any]:
        z = logits_of(points.score, points.clip)
        if self.mean is not None:
            numbers = {"intercept": _intercept(z, points.weight, self.mean), "coef": 1.0}
            return {**numbers, "intercept_se": 0.0, "coef_se": 0.0, **fit_notes(points, was_smoothed=False)}
        rows = replace(points, outcome=smoothed(points)) if self.smooth_targets else points
        if not self.slope:
            return self._fit_intercept(points, rows, z)
        fit, errors, separated = fit_terms(rows, z, np.stack([np.ones_like(z), z]))
        intercept, coef = fit.coefficients
        return {
            "intercept": intercept,
            "coef": coef,
            "intercept_se": errors[0],
            "coef_se": errors[1],
            **fit_notes(points, was_smoothed=separated),
        }

    def _fit_intercept(self, points: ColumnPoints, rows: ColumnPoints, z: Array) -> dict[str, Any]:
        """The intercept with the logit as an offset; where both outcomes occur its likelihood has a maximum."""
        constant = np.ones((1, z.size))
        fit = fit_logistic(constant, rows.weight, rows.outcome, z)
        if not fit.converged:
            raise Undetermined("scores that are not nearly all 0 or 1")
        error = standard_errors(fit, constant, rows, z).item()
        numbers = {"intercept": fit.coefficients.item(), "coef": 1.0, "intercept_se": error, "coef_se": 0.0}
        return {**numbers, **fit_notes(points, was_smoothed=False)}

    def _fit_slices(self, data: Input, all_rows: Input | None, min_rows: int) -> Sliced:
        if not self.shrink:
            return super()._fit_slices(data, all_rows, min_rows)
        slices = math.prod(axis.size for axis in data.by)
        if not data.by or slices < FEWEST_SLICES:
            raise ValueError(
                f"shrink expects at least {FEWEST_SLICES} slices (by), whose intercepts it compares; got "
                f"{slices if data.by else 'none'}."
            )
        self._check()
        of_slices, whole = slices_and_all(self, slice_points(self._setting(data.source.layout)), data, all_rows)
        return self._with_intercepts(of_slices, whole, data.by)

    def _with_intercepts(self, of_slices: SlicePoints, whole: Sliced, axes: tuple[Axis, ...]) -> Sliced:
        """The map of all rows, with the intercepts of slices."""
        points, count = of_slices.points, len(of_slices.rows)
        numbers = {name: np.repeat(values, count + 1, 0) for name, values in whole.numbers.items()}
        numbers |= {"own_weight": np.ones_like(numbers["coef"]), "deviation": np.zeros_like(numbers["coef"])}
        for column in range(points.shape[2]):
            intercept, coef, clip = (float(whole.numbers[name][0, column]) for name in ("intercept", "coef", "clip"))
            if np.isnan(intercept):
                continue
            chosen, slices = column_of(points, column)
            logit = intercept + coef * logits_of(points.score[chosen], clip)
            sums = points.weight[chosen], points.outcome[chosen], points.square[chosen]
            shrunken = ShrunkenIntercepts.of(logit, slices, count, sums)
            numbers["intercept"][:-1, column] += shrunken.intercept
            numbers["intercept_se"][:-1, column] = shrunken.error
            numbers["own_weight"][:-1, column] = shrunken.own_weight
            numbers["deviation"][:, column] = shrunken.deviation
        rows = np.append(of_slices.rows, whole.rows)
        events = None if whole.events is None else np.concatenate([of_slices.events, whole.events])
        return Sliced(numbers, rows, given_columns(axes), (), whole.cautions, events)

    def _check(self) -> None:
        check_flags(slope=self.slope, shrink=self.shrink, smooth_targets=self.smooth_targets)
        mean: Any = self.mean
        if mean is None:
            return
        if isinstance(mean, bool) or not isinstance(mean, Real) or not 0 < float(mean) < 1:
            raise ValueError(f"mean expects a number between 0 and 1 such as 0.025, got {mean!r}.")
        if self.shrink:
            raise ValueError("shrink has no effect with mean, which uses no outcomes; omit one of them.")
        if self.slope or self.smooth_targets:
            raise ValueError("mean expects slope=False and no smooth_targets: the intercept alone is moved.")

    def _setting(self, layout: Layout) -> Setting:
        setting = super()._setting(layout)
        if self.mean is not None and setting.per_class:
            raise ValueError("mean expects one score per row, P(y = 1), or setting='confidence'; got several classes.")
        return setting

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        yield from super()._cautions(sliced)
        coef, error = sliced.numbers["coef"], sliced.numbers["coef_se"]
        if (coef < -_BEYOND_CHANCE * np.nan_to_num(error)).any():
            yield (
                "higher scores have the outcome less often, so that the map turns the order of scores round (attribute "
                "coef_ is below 0)."
            )

    def _curve(self, numbers: Numbers) -> Curve:
        return _Sigmoid(float(numbers["intercept"]), float(numbers["coef"]), float(numbers["clip"]))


def _intercept(z: Array, weight: Array, mean: float) -> float:
    """The intercept a with the weighted mean of sigmoid(a + z) equal to ``mean``, which rises with a."""
    share = weight / weight.sum()
    low, high = special.logit(mean) - z.max(), special.logit(mean) - z.min()
    # At the ends every score is at most, or at least, the mean; a margin keeps the signs apart for equal scores.
    return float(
        optimize.brentq(lambda a: share @ special.expit(a + z) - mean, low - 1e-9, high + 1e-9, xtol=1e-14, rtol=1e-15)
    )


@dataclass(frozen=True)
class _Sigmoid:
    intercept: float
    coef: float
    clip: float

    def __call__(self, scores: Array) -> Array:
        return np.asarray(special.expit(self.intercept + self.coef * logits_of(scores, self.clip)), np.float64)
