"""Isotonic regression of the outcomes on the score, plain and centred."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.isotonic import isotonic_regression

from calibdask.calibrators.curves.columns import Curve, PointsCalibrator
from calibdask.calibrators.curves.shapes import Polyline
from calibdask.calibrators.fitted import Numbers, Sliced
from calibdask.estimators.checks import check_flags
from calibdask.estimators.regression.column_points import ColumnPoints
from calibdask.statistics.exact import Array, Counts

# Frequencies of 0 or 1 among fewer rows than this are said to rest on few.
FEW_ROWS = 100


class IsotonicCalibration(PointsCalibrator):
    """Isotonic regression: the non-decreasing function of the score with the least squared error.

    It starts from the frequencies of the outcome by score and pools decreasing neighbours to their mean until none is
    left. Between scores the map is linear, and constant beyond the lowest and the highest.

    Parameters
    ----------
    centred : bool, default False
        Each run of equal values is one point at the weighted mean of its scores, and the map is linear in between:
        strictly increasing from the first point to the last, as in [2]_. Runs of 0 and 1 are points as well, so fewer
        scores are mapped to exactly 0 or 1.
    bounded : bool, default False
        Whether a row of outcome 1 is added at the lowest score and one of outcome 0 at the highest, each of weight 1.
        Then no probability is 0 or 1, and the log loss of every row is finite.
    setting : {"classwise", "confidence"}, optional
        For matrices: calibrate each class separately and divide rows by their sums, or calibrate only the largest
        score. With two classes P(y = 1) is calibrated.
    logits : bool, default False
        Whether ``y_prob`` are logits.

    Attributes
    ----------
    probability_, score_ : ndarray of shape (..., knots)
        The map at its knots: the first and the last score of each run of equal values, or its centre; the last knot is
        repeated if a slice or class has fewer than others.
    certain_ : ndarray of shape (..., 2)
        Number of rows (effective, with weights) that are mapped to exactly 0, and to exactly 1.
    classes_ : ndarray of shape (K,)
    n_features_in_ : int

    Raises
    ------
    ValueError
        If outcomes are all alike.

    Warns
    -----
    UserWarning
        If probabilities of exactly 0 or 1 are based on fewer than 100 rows.

    Notes
    -----
    Equal to scikit-learn's ``IsotonicRegression(out_of_bounds="clip")``, 0 and 1 at the ends included, to the last bit,
    except for scores less than 1e-15 apart, which scikit-learn treats as equal.

    One pass, exact up to four million distinct scores; beyond that, and for a summary, the cells of a fine grid serve
    as rows, at their mean score (two passes). For n rows it keeps about 5 n**(1/3) knots, half as many if centred.

    References
    ----------
    .. [1] Zadrozny & Elkan, Transforming classifier scores into accurate multiclass probability estimates, 2002.
    .. [2] Oron & Flournoy, Centered isotonic regression: point and interval estimation for dose-response studies, 2017;
       there, runs of 0 and 1 remain runs.

    Examples
    --------
    >>> import calibdask as cd
    >>> y_true, y_prob = [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.7, 0.8]
    >>> cd.IsotonicCalibration(bounded=True).fit(y_true, y_prob).predict_proba([0.1, 0.25, 0.5])[:, 1].round(3)
    array([0.333, 0.417, 0.5  ])
    >>> fitted = cd.IsotonicCalibration(centred=True, bounded=True).fit(y_true, y_prob)
    >>> fitted.score_.round(3), fitted.probability_.round(3)
    (array([0.133, 0.45 , 0.767]), array([0.333, 0.5  , 0.667]))
    """

    def __init__(
        self,
        *,
        centred: bool = False,
        bounded: bool = False,
        setting: Literal["classwise", "confidence"] | None = None,
        logits: bool = False,
    ) -> None:
        self.centred = centred
        self.bounded = bounded
        self.setting = setting
        self.logits = logits

    def _check(self) -> None:
        check_flags(centred=self.centred, bounded=self.bounded)

    def _fit_points(self, points: ColumnPoints) -> dict[str, Any]:
        points = distinct(points)
        rows = points.weight * points.information
        if self.bounded:
            points = _with_a_miss_of_either_kind(points)
        score, weight = points.score, points.weight
        value = isotonic_regression(points.outcome / weight, sample_weight=weight, y_min=0.0, y_max=1.0)
        first, last = _runs(value)
        if self.centred:
            centre = np.add.reduceat(weight * score, first) / np.add.reduceat(weight, first)
            # A mean may be rounded beyond its terms.
            knots, at = centre.clip(score[first], score[last]), first
            certain = [rows[score <= knots[0]], rows[score >= knots[-1]]]
        else:
            at = np.union1d(first, last)
            knots = score[at]
            certain = [rows[value == 0], rows[value == 1]]
        sure = value[[0, -1]] == (0.0, 1.0)
        return {"probability": value[at], "score": knots, "certain": sure * [part.sum() for part in certain]}

    def _cautions(self, sliced: Sliced) -> Iterable[str]:
        yield from few_rows_caution(sliced.numbers["certain"])

    def _curve(self, numbers: Numbers) -> Curve:
        # Without the repeated last knot.
        size = int(np.searchsorted(numbers["score"], numbers["score"][-1])) + 1
        return Polyline(numbers["score"][:size], numbers["probability"][:size])


def distinct(points: ColumnPoints) -> ColumnPoints:
    """Points of distinct scores; means of cells may coincide."""
    score, number = np.unique(points.score, return_inverse=True)
    if score.size == points.score.size:
        return points
    weight, outcome = np.zeros((2, score.size))
    np.add.at(weight, number, points.weight)
    np.add.at(outcome, number, points.outcome)
    return replace(points, score=score, weight=weight, outcome=outcome)


def few_rows_caution(certain: Array) -> Iterable[str]:
    """A sentence on probabilities of 0 and 1, if ``certain`` counts few rows of some."""
    few = certain[(certain > 0) & (certain < FEW_ROWS)]
    if few.size:
        yield (
            f"probabilities of exactly 0 or 1 rest on as few as {few.min():.3g} rows; a single error there has "
            "infinite log loss. bounded=True avoids them."
        )


def _with_a_miss_of_either_kind(points: ColumnPoints) -> ColumnPoints:
    """One row more of outcome 1 at the lowest score, and one of outcome 0 at the highest."""
    weight, outcome = points.weight.copy(), points.outcome.copy()
    weight[0] += 1
    outcome[0] += 1
    weight[-1] += 1
    return replace(points, weight=weight, outcome=outcome)


def _runs(values: Array) -> tuple[Counts, Counts]:
    """Numbers of the first and of the last point of each run of equal values."""
    ends = np.flatnonzero(np.diff(values))
    return np.r_[0, ends + 1], np.r_[ends, len(values) - 1]
