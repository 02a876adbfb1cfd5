"""The cumulative calibration error (ECCE), and the distributions of its p-values."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import PVALUE, About, Description, PartInfo
from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import FromHistograms
from calibdask.estimators.ordered.score_points import Points, ScorePoints, histogram_of
from calibdask.estimators.parts import Estimate, FixedPart, calibration_error
from calibdask.estimators.sampling_variance import SKEWED, UNKNOWN_WEIGHT, is_too_skewed
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

_ODD = 2 * np.arange(100) + 1.0
# Below the first limit the probability is 1 to double precision; the two series are used below and above the second.
_SMALL, _LARGE = 0.05, 2.0


@dataclass(frozen=True, kw_only=True)
class ECCE(ColumnEstimator):
    """Empirical cumulative calibration error.

    With rows in the order of their scores, and n the number of rows (the sum of weights)::

        C_k = (1/n) sum_{i <= k} w_i (o_i - s_i),  C_0 = 0,  at the end of every run of equal scores
        mad    max_k |C_k|
        range  max_k C_k - min_k C_k

    Parameters
    ----------
    kind : {"mad", "range"}, default "mad"
        Maximum absolute deviation, or the range.
    setting : str, int or None
        ``"confidence"``, ``"binary"``, a class, ``"top-k"``, ``"classwise"`` (a value for each class); None: binary for
        a vector of scores, confidence for a matrix.
    k : int, optional
        Number of classes of the setting ``"top-k"``.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    Notes
    -----
    Parts: the error itself, and ``pvalue``: for a calibrated model C over sigma, with sigma**2 = sum w**2 s (1 - s) /
    n**2, is approximately a Brownian motion, whose maximum and range have known distributions. The error of a
    calibrated model has an expectation of about 1.25 sigma (mad) or 1.6 sigma (range). The p-value is NaN if the sum of
    w (o - s) has a skewness above 1, as with less than one expected outcome. Weights may depend on the outcome: if it
    is larger, the variance used is sum w**2 (o - s)**2 / n**2, and the p-value is NaN if all outcomes are equal.

    Exact up to about four million distinct scores in total; beyond that, and from a summary, runs are the cells of a
    fine grid, 1/3600 wide or less: too small by at most half the share of rows in one cell (``kind="range"``: by that
    share), since the sums within a cell are unknown. The attribute ``points`` says which applies, and ``largest_share``
    is the largest share in a cell. O(n log n) time, one pass (two for the grid).

    References
    ----------
    .. [1] Arrieta-Ibarra, Gujral, Tannen, Tygert & Xu, Metrics of calibration for probabilistic predictions, 2022.
    .. [2] Feller, The asymptotic distribution of the range of sums of independent random variables, 1951.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 0, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ECCE())
    >>> round(float(result.ecce), 6), round(float(result.ecce_pvalue), 3)
    (0.15, 0.918)
    """

    about = About(
        "Estimated cumulative calibration error (ECCE)",
        "With rows in order of their scores, the largest absolute value (or the range) of the partial sums of "
        "(outcome - score) / N.",
        "Arrieta-Ibarra, Gujral, Tannen, Tygert & Xu, Metrics of calibration for probabilistic predictions, 2022",
        "ECCE",
    )

    kind: Literal["mad", "range"] = "mad"

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("mad", "range"))
        super().__post_init__()

    @property
    @override
    def name(self) -> str:
        return "ecce" if self.kind == "mad" else "ecce_range"

    @override
    def describe(self, layout: Layout) -> Description:
        measure = "largest" if self.kind == "mad" else "range of the"
        return {
            "": PartInfo(f"{measure} cumulative gap, in order of the scores", "error"),
            "pvalue": PartInfo(PVALUE, "pvalue"),
        }

    def interval(self, layout: Layout) -> FromHistograms:
        """From replicates of a fine histogram in place of distinct scores."""
        return FromHistograms((histogram_of(self.measured(layout)),), self)

    @override
    def estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        setting = self.measured(layout)
        points = yield from ScorePoints(setting)
        values, pvalues = np.full(points.shape, np.nan), np.full(points.shape, np.nan)
        reasons: set[str] = set()
        for index, at in points.strata():
            score, weight = points.score[at], points.weight[at]
            total = weight.sum()
            walk = np.cumsum(points.outcome[at] - weight * score) / total
            top, bottom = max(0.0, walk.max()), min(0.0, walk.min())
            values[index] = max(top, -bottom) if self.kind == "mad" else top - bottom
            variance, reason = _null_variance(points, at, weighted=layout.weighted)
            sigma = np.sqrt(variance) / total
            exceeded = exceeded_maximum if self.kind == "mad" else exceeded_range
            reasons |= {reason} - {""}
            if sigma > 0 and not reason:
                pvalues[index] = exceeded(np.asarray(values[index] / sigma))
            elif sigma == 0 and values[index] > 0:
                # A wrong score of 0 or 1 cannot be if the model is calibrated.
                pvalues[index] = 0.0
        notes = {**points.notes, "assumes": "rows are independent and many"}
        if reasons:
            notes["undefined"] = "; ".join(sorted(reasons))
        return {
            "": calibration_error(setting.by_class(values)[..., None], dims=setting.dims, **notes),
            "pvalue": FixedPart(setting.by_class(pvalues), setting.dims, notes),
        }


def _null_variance(points: Points, at: slice, *, weighted: bool) -> tuple[float, str]:
    """Variance of the sum of w (o - s) if scores are right, and why there is no p-value, if there is none."""
    score, weight, outcome, square = (of[at] for of in (points.score, points.weight, points.outcome, points.square))
    spread = score * (1 - score)
    variance = (square * spread).sum()
    # Of unequal weights at one score a lower bound of the sum of cubes.
    third = (np.divide(square**2, weight, out=np.zeros_like(weight), where=weight > 0) * spread * (1 - 2 * score)).sum()
    if variance > 0 and is_too_skewed(variance, third):
        return float(variance), SKEWED
    if weighted and variance > 0:
        if not 0 < outcome.sum() < weight.sum():
            return float(variance), f"no p-value {UNKNOWN_WEIGHT}"
        events = points.square_outcome[at]
        variance = max(variance, (events * (1 - score) ** 2 + (square - events) * score**2).sum())
    return float(variance), ""


def exceeded_maximum(x: Array) -> Array:
    """P(max |B| > x) of a Brownian motion B on [0, 1].

    ::

        1 - (4 / pi) sum over odd k of (-1)**((k - 1) / 2) exp(-k**2 pi**2 / (8 x**2)) / k
        = 4 sum over odd k of (-1)**((k - 1) / 2) Q(k x),  Q the upper tail of the normal distribution

    The first form is used for small x, the second for large x, where it is more accurate.

    Examples
    --------
    >>> (1 - exceeded_maximum(np.array([1.0, 2.0, 3.0]))).round(6).tolist()
    [0.370777, 0.908999, 0.9946]
    """
    near = np.maximum(x, _SMALL)[..., None]
    signs = np.where(_ODD % 4 == 1, 1.0, -1.0)
    small = 1 - 4 / np.pi * (signs / _ODD * np.exp(-((_ODD * np.pi / near) ** 2) / 8)).sum(axis=-1)
    large = 4 * (signs * scipy.special.ndtr(-_ODD * near)).sum(axis=-1)
    return np.asarray(np.where(x < _LARGE, small, large).clip(0.0, 1.0))


def exceeded_range(x: Array) -> Array:
    """P(max B - min B > x) of a Brownian motion B on [0, 1].

    ::

        1 - 8 sum over odd k of (1 / (k pi)**2 + 1 / x**2) exp(-k**2 pi**2 / (2 x**2))
        = 8 sum over k of (-1)**(k - 1) k Q(k x),  Q the upper tail of the normal distribution

    Examples
    --------
    >>> (1 - exceeded_range(np.array([1.0, 2.0, 3.0]))).round(6).tolist()
    [0.063365, 0.818506, 0.989201]
    """
    near = np.maximum(x, _SMALL)[..., None]
    small = 1 - 8 * ((1 / (_ODD * np.pi) ** 2 + near**-2) * np.exp(-((_ODD * np.pi / near) ** 2) / 2)).sum(axis=-1)
    k = np.arange(1, _ODD.size)
    large = 8 * (np.where(k % 2, 1.0, -1.0) * k * scipy.special.ndtr(-k * near)).sum(axis=-1)
    return np.asarray(np.where(x < _LARGE, small, large).clip(0.0, 1.0))
