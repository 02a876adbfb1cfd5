"""Intercepts of many small slices on the logit of one map, shrunk towards their mean by empirical Bayes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from calibdask.estimators.ordered.score_points import Points, ScorePoints
from calibdask.estimators.regression.column_points import MOST_ROWS
from calibdask.inference.empirical_bayes import NormalEffects
from calibdask.statistics import exact
from calibdask.statistics.counts import RowCount
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.outcome_sums import OutcomeSums, OutcomeSumsState
from calibdask.statistics.prefetch import Prefetch
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting

FEWEST_SLICES = 3
# Steps of the search for intercepts, which settle to 1e-9 in fewer where effects are moderate.
_MOST_STEPS, _SETTLED = 50, 1e-9
# Sum of w p (1 - p) of a slice, up to which its rows say nothing of its intercept.
_LEAST_INFORMATION = 1e-10


@dataclass(frozen=True)
class SlicePoints:
    """The rows of slices by score, with the number of rows by slice, and the weight of the outcome by slice, column."""

    points: Points
    rows: Counts
    events: Array


def slice_points(setting: Setting) -> Requests[SlicePoints]:
    """Ask for the rows of all slices by score."""
    yield from Prefetch(OutcomeSums(setting))
    yield from Prefetch(RowCount())
    points = yield from ScorePoints(setting, MOST_ROWS, by_outcome=True)
    sums: OutcomeSumsState = yield from OutcomeSums(setting)
    return SlicePoints(points, (yield from RowCount()).rows[0], exact.value(sums.outcome)[0])


@dataclass(frozen=True)
class ShrunkenIntercepts:
    """Intercepts to add to the logits of a map, by slice.

    Attributes
    ----------
    intercept : ndarray of shape (slices,)
        Posterior means; without rows the mean of all slices.
    error : ndarray of shape (slices,)
        Root mean square errors of these.
    own_weight : ndarray of shape (slices,)
        The weight of the rows of the slice itself in its intercept, 0 to 1.
    deviation : float
        The standard deviation of the intercepts of slices.
    """

    intercept: Array
    error: Array
    own_weight: Array
    deviation: float

    @classmethod
    def of(cls, logit: Array, slices: Counts, count: int, sums: tuple[Array, Array, Array]) -> "ShrunkenIntercepts":
        """Of points with these logits under the map, numbers of their slices, and sums of w, w o and w**2.

        With p = sigmoid(logit + a_k), U_k = sum w (o - p) and I_k = sum w p (1 - p), the working estimate of a slice is
        a_k + U_k / I_k, with the variance sum w**2 p (1 - p) / I_k**2. The estimates are shrunk as gaps are
        (`NormalEffects`), which gives the next a_k, until they settle: penalised quasi-likelihood [1]_, which has an
        estimate also where all outcomes of a slice are equal.

        References
        ----------
        .. [1] Breslow & Clayton, Approximate inference in generalized linear mixed models, 1993.
        """
        weight, outcome, square = sums
        intercept = np.zeros(count)
        for _ in range(_MOST_STEPS):
            logit_there = logit + intercept[slices]
            probability = special.expit(logit_there)
            # 1 - p would be 0 where p is 1 but for rounding.
            spread = probability * special.expit(-logit_there)
            information = np.bincount(slices, weight * spread, count)
            # Others have no rows, or only scores that are 0 or 1 but for rounding.
            filled = information > _LEAST_INFORMATION
            information = information[filled]
            residual = np.bincount(slices, outcome - weight * probability, count)[filled]
            noise = np.bincount(slices, square * spread, count)[filled] / information**2
            working = intercept[filled] + residual / information
            effects = NormalEffects.of(working, noise, for_intervals=False)
            before, intercept = intercept, np.full(count, effects.mean)
            intercept[filled] = effects.shrunken(working, noise)
            if np.abs(intercept - before).max(initial=0.0) < _SETTLED:
                break
        of_all = np.full(count, np.inf)
        of_all[filled] = noise
        return cls(intercept, effects.standard_error(of_all), effects.share(of_all), effects.variance**0.5)


def column_of(points: Points, column: int) -> tuple[npt.NDArray[np.bool_], Counts]:
    """Which points are of a column, and the slice of each of these."""
    columns = points.shape[2]
    chosen = points.stratum % columns == column
    return chosen, points.stratum[chosen] // columns
