"""Inductive Venn-Abers prediction: isotonic regression with the row itself, for either outcome."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from calibdask.calibrators.curves.columns import Curve, PointsCalibrator
from calibdask.calibrators.curves.intervals import EndCurves, Interval, predicted_interval
from calibdask.calibrators.curves.isotonic import distinct
from calibdask.calibrators.curves.shapes import Steps
from calibdask.calibrators.fitted import Numbers, Sliced
from calibdask.estimators.regression.column_points import ColumnPoints
from calibdask.kernels.isotonic_insertion import slopes_with_a_hit
from calibdask.statistics.exact import Array

# Maps of more numbers than this are no longer small files.
_MANY_NUMBERS = 100_000


class VennAbers(PointsCalibrator):
    """Inductive Venn-Abers prediction: two probabilities per score, one of them perfectly calibrated.

    For a score s, p0 and p1 are the values at s of the isotonic regressions of the fitted rows plus one row with score
    s and outcome 0 or 1. The calibrated probability p1 / (1 - p0 + p1) minimises the largest regret of the logarithmic
    loss; it is never 0 or 1.

    Parameters
    ----------
    setting : {"classwise", "confidence"}, optional
        For matrices: calibrate each class separately and divide rows by their sums, or calibrate only the largest
        score. With two classes P(y = 1) is calibrated.
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    low_, low_score_ : ndarray of shape (..., steps)
        p0, from each of the scores on; 0 below the first. The last is repeated if a slice or class has fewer.
    high_, high_score_ : ndarray of shape (..., steps)
        p1, from the score before up to each of the scores; 1 above the last.
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Raises
    ------
    ValueError
        If outcomes are all alike.

    Warns
    -----
    UserWarning
        If the map consists of more than 100,000 numbers.

    Notes
    -----
    If the fitted rows and the new one are exchangeable - the scores come from a model that has not seen either - the
    one of p0 and p1 that corresponds to the new outcome is perfectly calibrated, for any model and number of rows. The
    statement is about binary outcomes: one class against all others, before rows are divided by their sums.

    p0 and p1 are step functions of s, computed for all s at once in O(n log n), and exact at and between the fitted
    scores up to four million distinct ones; beyond that, and for a summary, the cells of a fine grid serve as rows, at
    their mean score. Prediction is a look-up. A weight of w stands for w rows; the added row has weight 1.

    References
    ----------
    .. [1] Vovk & Petej, Venn-Abers predictors, 2014.
    .. [2] Vovk, Petej & Fedorova, Large-scale probabilistic predictors with and without guarantees of validity, 2015.

    Examples
    --------
    >>> import calibdask as cd
    >>> fitted = cd.VennAbers().fit([0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.7, 0.8])
    >>> fitted.predict_proba([0.2, 0.65])[:, 1].round(3)
    array([0.333, 0.6  ])
    >>> [end[:, 1].round(3).tolist() for end in fitted.predict_interval([0.2, 0.65])]
    [[0.0, 0.333], [0.5, 1.0]]
    """

    def __init__(self, *, setting: Literal["classwise", "confidence"] | None = None, logits: bool = False) -> None:
        self.setting = setting
        self.logits = logits

    def _fit_points(self, points: ColumnPoints) -> dict[str, Any]:
        points = distinct(points)
        rise, run = _with_a_hit(points.weight, points.outcome)
        high = np.minimum(rise / run, 1.0)
        # With a row of outcome 0 all is mirrored.
        rise, run = _with_a_hit(points.weight[::-1], (points.weight - points.outcome)[::-1])
        low = np.maximum((run - rise) / run, 0.0)[::-1]
        up, down = np.diff(low, prepend=0.0) != 0, np.diff(high, append=1.0) != 0
        return {"low": low[up], "low_score": points.score[up], "high": high[down], "high_score": points.score[down]}

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        size = sum(values.size for values in sliced.numbers.values())
        if size > _MANY_NUMBERS:
            yield f"the map consists of {size:,} numbers; one that is fitted to a summary has fewer."

    def _curve(self, numbers: Numbers) -> Curve:
        return _Probability(*_ends(numbers))

    def predict_interval(self, y_prob: Any, by: Any = None) -> Interval:
        """The probabilities p0 and p1 of each class, each end of shape (n, K).

        With more than two classes this is before rows are divided by their sums. With ``setting="confidence"`` only the
        class with the largest score has p0 and p1; the others share the rest.

        Raises
        ------
        ValueError
            If ``y_prob`` does not hold scores of the same classes.
        """
        return predicted_interval(self, y_prob, by, _end_curves)


@dataclass(frozen=True)
class _Probability:
    low: Curve
    high: Curve

    def __call__(self, scores: Array) -> Array:
        high = self.high(scores)
        return np.asarray(high / (1 - self.low(scores) + high), np.float64)


def _ends(numbers: Numbers) -> tuple[Curve, Curve]:
    """The functions p0 and p1 of one column; of one whose outcomes are all alike nothing is known."""
    if np.isnan(numbers["low"]).all():
        return partial(np.full_like, fill_value=0.0), partial(np.full_like, fill_value=1.0)
    low = Steps(numbers["low_score"], np.r_[0.0, numbers["low"]], "right")
    return low, Steps(numbers["high_score"], np.r_[numbers["high"], 1.0], "left")


def _end_curves(numbers: Numbers) -> EndCurves:
    columns = ({name: values[c] for name, values in numbers.items()} for c in range(len(numbers["low"])))
    low, high = zip(*map(_ends, columns), strict=True)
    return low, high


def _with_a_hit(weight: Array, outcome: Array) -> tuple[Array, Array]:
    """The slope of isotonic regression at each point, if a row of outcome 1 comes to it, as rise and run."""
    rise, run = np.empty((2, weight.size))
    corners = np.empty((weight.size + 2, 2))
    slopes_with_a_hit(np.r_[0.0, np.cumsum(weight)], np.r_[0.0, np.cumsum(outcome)], corners, rise, run)
    return rise, run
