"""The averaged two-bin calibration error: one that honest scores minimise, whatever the number of rows."""

from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.interval import FromHistograms
from calibdask.estimators.ordered.score_points import Points, ScorePoints, histogram_of
from calibdask.estimators.parts import Estimate, calibration_error
from calibdask.estimators.sampling_variance import rarer_rows
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# Replicates of fewer rows of the rarer outcome say next to nothing about how far it may be off.
_FEWEST = 3
_FEW = "where fewer than 3 rows have the rarer outcome"


@dataclass(frozen=True, kw_only=True)
class ATB(ColumnEstimator):
    """Averaged two-bin calibration error, a truthful measure of calibration.

    Two bins, below and above a boundary q, averaged over q; with n rows (the sum of weights), scores s and outcomes o::

        ATB = integral over q from 0 to 1 of [ (sum_{s_i < q} w_i (s_i - o_i))**2
                                             + (sum_{s_i >= q} w_i (s_i - o_i))**2 ] / n**2 dq

    The integrand is constant between neighbouring scores, so the integral is a sum, and there are no parameters to
    choose.

    Parameters
    ----------
    setting, k
        As for `ECE`.

    Raises
    ------
    ValueError
        If the setting is invalid.

    Notes
    -----
    Truthful: no scores have a smaller expectation than the true probabilities, for any number of rows; other
    calibration errors reward scores that hide the noise of their bins. Without weights this expectation is mean(s (1 -
    s)) / n, not 0: compare ATB with it. ATB is a squared error: its root is comparable with other errors. In the
    class-wise setting there is one for each class.

    Exact up to about four million distinct scores in total; beyond that, and from a summary, boundaries within a cell
    of a fine grid, 1/3600 wide or less, are left out, and rows of a cell are placed at their mean: the attribute
    ``points`` says which applies. O(n log n) time, one pass (two for the grid). Intervals (``ci``) come from replicates
    of the histogram; there are none (NaN) with fewer than 3 rows of the rarer outcome.

    References
    ----------
    .. [1] Hartline, Hu & Wu, A perfectly truthful calibration measure, 2026.

    Examples
    --------
    >>> import calibdask as cd
    >>> round(float(cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ATB()).atb), 6)
    0.0585
    """

    about = About(
        "Averaged two-bin calibration error (ATB)",
        "The mean over borders q of the squared sums of score - outcome below and above q, divided by n**2. No scores "
        "have a smaller expectation than the true probabilities, mean(s (1 - s)) / n.",
        "Hartline, Hu & Wu, A perfectly truthful calibration measure, 2026",
        "ATB",
    )

    @property
    @override
    def name(self) -> str:
        return "atb"

    @override
    def describe(self, layout: Layout) -> Description:
        return {"": PartInfo("mean squared gap of two bins, over all borders", "error")}

    @override
    def interval(self, layout: Layout) -> FromHistograms:
        """From replicates of a fine histogram in place of distinct scores."""
        return FromHistograms((histogram_of(self.measured(layout)),), self)

    @override
    def estimate(self) -> Requests[Estimate]:
        setting = self.measured((yield from Layout()))
        points = yield from ScorePoints(setting)
        values, events = np.full((2, *points.shape), np.nan)
        for index, at in points.strata():
            values[index], events[index] = _integral(points, at), _rarer(points, at)
        few, notes = setting.by_class(events < _FEWEST - 0.5), dict(points.notes)
        if few.any():
            notes["no_interval"] = _FEW
        error = calibration_error(setting.by_class(values)[..., None], dims=setting.dims, **notes)
        # NaN as a limit leaves no interval.
        limits = np.where(few, np.nan, 0.0), np.where(few, np.nan, 1.0)
        return {"": replace(error, limits=limits) if few.any() else error}


def _rarer(points: Points, at: slice) -> float:
    """Rows of the rarer outcome."""
    sums = (points.weight, points.square, points.outcome, points.square_outcome)
    return float(rarer_rows(*(values[at].sum() for values in sums)))


def _integral(points: Points, at: slice) -> float:
    score, weight = points.score[at], points.weight[at]
    below = np.r_[0.0, np.cumsum(weight * score - points.outcome[at])] / weight.sum()
    widths = np.diff(np.r_[0.0, score, 1.0])
    return float((widths * (below**2 + (below[-1] - below) ** 2)).sum())
