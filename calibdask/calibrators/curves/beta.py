"""Beta calibration: logistic regression on the logarithms of the score and of its complement."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from calibdask.calibrators.curves.columns import Curve
from calibdask.calibrators.curves.likelihood import LogitCalibrator, fit_notes, smoothed
from calibdask.calibrators.fitted import Numbers, Sliced
from calibdask.estimators.regression.column_points import ColumnPoints, Undetermined
from calibdask.estimators.regression.logistic import LogisticFit, covariance_of, fit_logistic
from calibdask.estimators.regression.logits import log_scores
from calibdask.estimators.regression.separation import check_distinct, is_separated
from calibdask.statistics.exact import Array

_NAMES = ("a", "b", "c")
_LOG2 = float(np.log(2))


class _Term(NamedTuple):
    """A function of the score at the points, and what a unit of its coefficient adds to a, b and c."""

    values: Array
    share: tuple[float, float, float]


class BetaCalibration(LogitCalibrator):
    """Beta calibration: logit(q) = a * log(s) - b * log(1 - s) + c with a, b >= 0, by maximum likelihood.

    This map is correct if the scores of each outcome have beta distributions. It never decreases; with a = b = 1 and c
    = 0 it is the identity.

    Parameters
    ----------
    parameters : {"abm", "ab", "am"}, default "abm"
        All three; c = (a - b) * log(2), so that 1/2 stays 1/2; or a = b, which is Platt scaling restricted to
        non-decreasing maps.
    setting : {"classwise", "confidence"}, optional
        For matrices: calibrate each class separately and divide rows by their sums, or calibrate only the largest
        score. With two classes P(y = 1) is calibrated.
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    a_, b_, c_ : float, or ndarray with axes of slices and classes
        The parameters.
    a_se_, b_se_, c_se_ : of the same shape
        Their standard errors, from the inverse of the Hessian; with weights, for the effective number of rows. NaN if a
        or b is 0.
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
        If ``parameters`` is unknown, there are fewer than three distinct scores (two for ``"am"`` and ``"ab"``), or all
        outcomes are equal.

    Warns
    -----
    UserWarning
        If outcomes are separated by a score, so that the likelihood has no maximum: the map of smoothed targets is
        used. If the outcome is less frequent at higher scores, so that the map is constant.

    Notes
    -----
    If a or b would be negative, it is set to 0 and the others are fitted again, as in the authors' package betacal; if
    either could be left out, the fit with the larger likelihood is used. One pass, exact up to four million distinct
    scores; beyond that, and for a summary, the cells of a fine grid serve as rows. Scores of 0 and 1 are clipped at the
    smallest normal number of their type (betacal: at the precision of the type).

    References
    ----------
    .. [1] Kull, Silva Filho & Flach, Beta calibration: a well-founded and easily implemented improvement on logistic
       calibration for binary classifiers, 2017.

    Examples
    --------
    >>> import calibdask as cd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_true = rng.random(50_000) < 0.5
    >>> y_prob = np.where(y_true, rng.beta(4, 1, 50_000), rng.beta(1, 2, 50_000))
    >>> fitted = cd.BetaCalibration().fit(y_true, y_prob)
    >>> [round(float(value)) for value in (fitted.a_, fitted.b_)]
    [3, 1]
    """

    def __init__(
        self,
        *,
        parameters: Literal["abm", "ab", "am"] = "abm",
        setting: Literal["classwise", "confidence"] | None = None,
        logits: bool = False,
    ) -> None:
        self.parameters = parameters
        self.setting = setting
        self.logits = logits

    def _check(self) -> None:
        if self.parameters not in ("abm", "ab", "am"):
            raise ValueError(f"parameters expects 'abm', 'ab' or 'am', got {self.parameters!r}.")

    def _fit_points(self, points: ColumnPoints) -> dict[str, Any]:
        positive, negative = log_scores(points.score, points.clip)
        z = positive - negative
        slopes, others = self._terms(positive, negative)
        check_distinct(points, z, len(slopes) + len(others))
        separated = self._is_separated_rising(points, z)
        rows = replace(points, outcome=smoothed(points)) if separated else points
        fit, terms = self._likeliest(rows, z, slopes, others)
        matrix = np.transpose([term.share for term in terms]) if terms else np.zeros((3, 1))
        values = np.stack([term.values for term in terms]) if terms else np.zeros((1, z.size))
        covariance = matrix @ covariance_of(fit, values, points) @ matrix.T
        known = matrix.any(-1) & (not separated)
        errors = np.where(known, np.sqrt(np.diag(covariance)), np.nan)
        return {
            **dict(zip(_NAMES, matrix @ fit.coefficients, strict=True)),
            **dict(zip((f"{name}_se" for name in _NAMES), errors, strict=True)),
            **fit_notes(points, was_smoothed=separated),
        }

    def _terms(self, positive: Array, negative: Array) -> tuple[list[_Term], list[_Term]]:
        """Terms whose coefficients are not to be negative, and others; with what a unit adds to a, b and c."""
        constant = _Term(np.ones_like(positive), (0.0, 0.0, 1.0))
        if self.parameters == "am":
            return [_Term(positive - negative, (1.0, 1.0, 0.0))], [constant]
        if self.parameters == "abm":
            return [_Term(positive, (1.0, 0.0, 0.0)), _Term(-negative, (0.0, 1.0, 0.0))], [constant]
        return [_Term(positive + _LOG2, (1.0, 0.0, _LOG2)), _Term(-negative - _LOG2, (0.0, 1.0, -_LOG2))], []

    def _is_separated_rising(self, points: ColumnPoints, z: Array) -> bool:
        """Whether a threshold has all positive rows above and all others below, or at it; of "ab" the threshold 0."""
        least, most = z[points.outcome > 0].min(), z[points.outcome < points.weight].max()
        return bool(least >= 0 >= most if self.parameters == "ab" else least >= most)

    def _is_separated(self, rows: ColumnPoints, z: Array, terms: int) -> bool:
        """Whether the likelihood has no maximum if coefficients may be negative."""
        if self.parameters != "ab":
            return is_separated(z, rows.weight, rows.outcome, terms)
        # All maps are 1/2 at z = 0, as if rows of both outcomes there made a constant vanish.
        weight, outcome = np.append(rows.weight, 2.0), np.append(rows.outcome, 1.0)
        return is_separated(np.append(z, 0.0), weight, outcome, terms + 1)

    def _likeliest(
        self, rows: ColumnPoints, z: Array, slopes: list[_Term], others: list[_Term]
    ) -> tuple[LogisticFit, list[_Term]]:
        """The likeliest fit without negative slopes, and its terms, whose shares make a, b and c of its coefficients.

        The loss is convex: a slope is 0 only where it would be negative otherwise. Where the likelihood has no maximum
        it grows with a slope below 0, since rising maps do not separate outcomes here.
        """
        for count in range(len(slopes), 0, -1):
            fits = []
            for chosen in combinations(slopes, count):
                terms = [*chosen, *others]
                if self._is_separated(rows, z, len(terms)):
                    continue
                try:
                    fit = fit_logistic(np.stack([term.values for term in terms]), rows.weight, rows.outcome)
                except Undetermined:
                    # Next to 0 or to 1 one of the logarithms does not vary; the other does.
                    if len(slopes) == 1:
                        raise
                    continue
                if (fit.coefficients[:count] >= 0).all():
                    fits.append((fit, terms))
            if fits:
                return min(fits, key=lambda candidate: candidate[0].loss)
        if others:
            fit = fit_logistic(np.stack([term.values for term in others]), rows.weight, rows.outcome)
            return fit, others
        return LogisticFit(np.zeros(1), np.zeros((1, 1)), _LOG2, True), []

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        yield from super()._cautions(sliced)
        if ((sliced.numbers["a"] == 0) & (sliced.numbers["b"] == 0)).any():
            yield (
                "higher scores have the outcome less often, which no map of this kind shows: it is constant "
                "(attributes a_ and b_ are 0)."
            )

    def _curve(self, numbers: Numbers) -> Curve:
        return _Beta(*(float(numbers[name]) for name in (*_NAMES, "clip")))


@dataclass(frozen=True)
class _Beta:
    a: float
    b: float
    c: float
    clip: float

    def __call__(self, scores: Array) -> Array:
        positive, negative = log_scores(scores, self.clip)
        return np.asarray(special.expit(self.a * positive - self.b * negative + self.c), np.float64)
