"""The c statistic: how well scores tell rows with the outcome from rows without it."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.ordered.score_points import Points, ScorePoints
from calibdask.estimators.parts import Estimate, Number
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# Placements of fewer rows than this of either outcome say nothing of their variance.
_FEWEST = 2
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class CStatistic(ColumnEstimator):
    """c statistic (AUC, AUROC): the probability that a row with the outcome has a larger score than a row without it.

    ::

        c = sum_{i: o_i = 1} sum_{j: o_j = 0} w_i w_j (1[s_i > s_j] + 1[s_i = s_j] / 2) / (P N)

    with P and N the sums of weights of the rows with the outcome and without.

    Parameters
    ----------
    setting : str, int or None
        ``"confidence"`` (right and wrong predictions), ``"binary"``, a class, ``"top-k"``, ``"classwise"`` (each class
        against all others); None: binary for a vector of scores and class-wise for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If the setting is unknown.

    Notes
    -----
    It measures discrimination, not calibration: increasing transformations of the scores do not change it. 0.5 is
    chance, 1 perfect. It is NaN if all rows have the outcome, or none; the attribute ``undefined`` counts such
    columns of scores.

    Exact up to about four million distinct scores in total; beyond that, and from a summary, rows in the same cell of a
    fine grid, 1/3600 wide or less, count as tied: the attribute ``c_bound`` bounds the resulting error of c.
    O(n log n) time, one pass (two for the grid).

    With ``ci``: the variance of DeLong et al., of the placements of rows among those of the other outcome, in the
    limits of Clopper & Pearson for a mean of this variance over as many values as there are rows of the rarer outcome.
    They stay below 1, and above 0, even if the scores separate the outcomes. They are NaN with fewer than 2 rows of
    either outcome. With weights placements have the variance sum w**2 (v - c)**2 / (sum w)**2 over the rows of each
    outcome, which count as (sum w)**2 / sum w**2 rows.

    References
    ----------
    .. [1] Hanley & McNeil, The meaning and use of the area under a receiver operating characteristic (ROC) curve, 1982.
    .. [2] DeLong, DeLong & Clarke-Pearson, Comparing the areas under two or more correlated receiver operating
       characteristic curves: a nonparametric approach, 1988.

    Examples
    --------
    >>> import calibdask as cd
    >>> float(cd.evaluate([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], cd.CStatistic()).c_statistic)
    0.75
    """

    about = About(
        "c statistic (AUC)",
        "The chance that a row with the outcome has a larger score than a row without it, ties counted half: the area "
        "under the receiver operating characteristic. It measures discrimination, not calibration.",
        "Hanley & McNeil, The meaning and use of the area under a ROC curve, 1982; DeLong et al., 1988",
        "AUC",
    )

    usual_setting = "classwise"

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "": PartInfo(
                "chance that an outcome has the larger score, 0.5 by chance", "number", "higher", bounds=(0.0, 1.0)
            )
        }

    def interval(self, layout: Layout) -> KnownEnds:
        """From the variance of placements."""
        return KnownEnds()

    @override
    def estimate(self) -> Requests[Estimate]:
        setting = self.measured((yield from Layout()))
        points = yield from ScorePoints(setting)
        value, variance, count = np.full((3, *points.shape), np.nan)
        bound = 0.0
        for index, at in points.strata():
            value[index], variance[index], count[index], furthest = _discrimination(points, at)
            bound = bound if points.exact else max(bound, furthest)
        notes = {**points.notes, "undefined": int(np.isnan(value).sum())}
        value, variance, count = (setting.by_class(values) for values in (value, variance, count))
        mean = BoundedMean(value, count * variance, count, 0.0, 1.0)
        return {
            "": Number(
                value,
                setting.dims,
                notes if points.exact else {**notes, "c_bound": bound},
                limits=(0.0, 1.0),
                known_ends=partial(_ends, mean),
                ends_method="delong",
            )
        }


def _discrimination(points: Points, at: slice) -> tuple[float, float, float, float]:
    """The number, its variance, the rows of the rarer outcome, and how far ties move it; NaN for one kind of rows."""
    weight, with_it = points.weight[at], points.outcome[at]
    without = np.maximum(weight - with_it, 0.0)
    positive, negative = with_it.sum(), without.sum()
    if not (positive > 0 and negative > 0):
        return np.nan, np.nan, np.nan, 0.0
    # Shares of the other outcome below each score, of that score counted half.
    below = (np.cumsum(without) - without / 2) / negative
    above = 1 - (np.cumsum(with_it) - with_it / 2) / positive
    value = float((with_it * below).sum() / positive)
    square_with = points.square_outcome[at]
    square_without = np.maximum(points.square[at] - square_with, 0.0)
    of_squares = np.array([square_with.sum(), square_without.sum()])
    rows = np.array([positive, negative]) ** 2 / of_squares
    contributions = np.array(
        [(square_with * (below - value) ** 2).sum(), (square_without * (above - value) ** 2).sum()]
    )
    enough = rows.min() >= _FEWEST - _ROUNDING
    variance = float((contributions / of_squares / (rows - 1)).sum()) if enough else np.nan
    return value, variance, float(rows.min()), float((with_it * without).sum() / (2 * positive * negative))


def _ends(mean: BoundedMean, level: float) -> tuple[Array, Array]:
    """The ends; NaN where the variance is not known."""
    low, high = mean.ends(level)
    known = np.isfinite(mean.variance)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)
