"""Calibration errors from cumulative differences, without bins or bandwidths."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.estimator import PVALUE, Estimation, Meanings, Part, calibration_error
from calibdask.estimators.score_points import ScorePoints, histogram_of
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import GridHistogram
from calibdask.statistics.layout import Layout

__all__ = ["ECCE", "exceeded_maximum", "exceeded_range"]

_ODD = 2 * np.arange(100) + 1.0
# Below the first nothing is missed, but series are slow; from the second on the other ones are as fast.
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
        If a choice is unknown.

    Notes
    -----
    Parts: the error itself, and ``pvalue``: for a calibrated model C over sigma, with sigma**2 = sum w**2 s (1 - s) /
    n**2, is about a Brownian motion, whose maximum and range have known distributions. The error of a calibrated model
    has an expectation of about 1.25 sigma (mad) or 1.6 sigma (range).

    Exact while distinct scores fit (about four million for all places together); beyond, runs are cells of a fine grid,
    an error of at most 1/3600 times the share of rows in a cell. The attribute ``points`` says which. O(n log n) time,
    one pass (two for the grid).

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

    kind: Literal["mad", "range"] = "mad"

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("mad", "range"))
        super().__post_init__()

    @property
    def name(self) -> str:
        """``ecce``, or ``ecce_range``."""
        return "ecce" if self.kind == "mad" else "ecce_range"

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        what = "largest" if self.kind == "mad" else "range of the"
        return {"": f"{what} cumulative gap, in order of the scores", "pvalue": PVALUE}

    @property
    def is_error(self) -> bool:
        """An error."""
        return True

    def histograms(self, layout: Layout) -> tuple[GridHistogram]:
        """The one that stands for distinct scores."""
        return (histogram_of(layout.setting(self.setting, self.k)),)

    def estimate(self) -> Estimation:
        """The largest cumulative difference."""
        layout = yield Layout()
        setting = layout.setting(self.setting, self.k)
        points = yield ScorePoints(setting)
        values, pvalues = np.full(points.shape, np.nan), np.full(points.shape, np.nan)
        for place, at in points.places():
            score, weight = points.score[at], points.weight[at]
            total = weight.sum()
            walk = np.cumsum(points.outcome[at] - weight * score) / total
            top, bottom = max(0.0, walk.max()), min(0.0, walk.min())
            values[place] = max(top, -bottom) if self.kind == "mad" else top - bottom
            sigma = np.sqrt((points.square[at] * score * (1 - score)).sum()) / total
            if sigma > 0:
                exceeded = exceeded_maximum if self.kind == "mad" else exceeded_range
                pvalues[place] = exceeded(np.asarray(values[place] / sigma))
        notes = {**points.notes, "assumes": "rows are independent and many"}
        dims = ("class",) if setting.per_class else ()
        if not setting.per_class:
            values, pvalues = values[..., 0], pvalues[..., 0]
        return {
            "": replace(calibration_error(values[..., None], **notes), dims=dims),
            "pvalue": Part(pvalues, dims, notes=notes, role="given"),
        }


def exceeded_maximum(x: Array) -> Array:
    """P(max |B| > x) of a Brownian motion B on [0, 1].

    ::

        1 - (4 / pi) sum over odd k of (-1)**((k - 1) / 2) exp(-k**2 pi**2 / (8 x**2)) / k
        = 4 sum over odd k of (-1)**((k - 1) / 2) Q(k x),  Q the upper tail of the normal distribution

    The first form is for small x, the second for large ones, whose digits it keeps.

    Examples
    --------
    >>> (1 - exceeded_maximum(np.array([1.0, 2.0, 3.0]))).round(6).tolist()
    [0.370777, 0.908999, 0.9946]
    """
    near = np.maximum(x, _SMALL)[..., None]
    signs = np.where(_ODD % 4 == 1, 1.0, -1.0)
    small = 1 - 4 / np.pi * (signs / _ODD * np.exp(-((_ODD * np.pi / near) ** 2) / 8)).sum(axis=-1)
    large = 4 * (signs * special.ndtr(-_ODD * near)).sum(axis=-1)
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
    every = np.arange(1, _ODD.size)
    large = 8 * (np.where(every % 2, 1.0, -1.0) * every * special.ndtr(-every * near)).sum(axis=-1)
    return np.asarray(np.where(x < _LARGE, small, large).clip(0.0, 1.0))
