"""Calibration in the large: the mean difference between outcomes and scores."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.parts import Estimate, FixedPart, Number
from calibdask.estimators.sampling_variance import WeightedMean
from calibdask.estimators.smooth.gridded import GriddedEstimator
from calibdask.statistics.bins.grid import Grid, GridState, scores_of_cells
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting

# With fewer rows of either outcome score intervals are too short, or where all rows together have half that variance.
_FEW = 20
_ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True)
class MeanGap(GriddedEstimator):
    """Calibration in the large: the observed rate minus the mean prediction.

        gap = sum w (o - s) / sum w

    Negative: scores are too high on average; positive: too low. Errors of opposite sign at different scores cancel: a
    model with a gap of 0 may be far from calibrated.

    Parameters
    ----------
    setting, k, step
        As for `DensityECE`.

    Notes
    -----
    Parts: the gap itself, and the two means ``score`` and ``outcome``; in the class-wise setting for each class. One
    pass; can be computed from a summary.

    With ``ci`` the gap has score intervals [2]_: all gaps d with (gap - d)**2 <= z**2 v(d) / n, where v(d) is the
    variance of o - s, with the variance of o replaced by its value at the frequency mean score + d. They are at least
    as wide as limits that are valid for any number of events:

    - with fewer than 20 rows of either outcome the limits of Clopper & Pearson for the frequency minus the mean score,
      which are valid for any scores [3]_;
    - else, where n v < 10, as for scores that are nearly all certain and right, their limits for a mean of values from
      -1 to 1, which allow for errors that did not occur.

    With weights n is the number of equal rows whose mean gap has the sampling variance sum w**2 (o - s - gap)**2 /
    (sum w)**2; the weight of outcomes that did not occur is unknown.

    References
    ----------
    .. [1] Van Calster et al., Calibration: the Achilles heel of predictive analytics, 2019.
    .. [2] Wilson, Probable inference, the law of succession, and statistical inference, 1927, for equal scores.
    .. [3] Hoeffding, On the distribution of the number of successes in independent trials, 1956: of all probabilities
       with the same mean, equal ones have the longest tails.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.MeanGap())
    >>> round(float(result.mean_gap), 6), float(result.mean_gap_outcome)
    (0.25, 0.75)
    """

    about = About(
        "Calibration in the large",
        "The observed rate minus mean prediction, sum w (o - s) / sum w. Negative: scores are "
        "too high on average; errors of opposite sign cancel.",
        "Van Calster et al., Calibration: the Achilles heel of predictive analytics, 2019",
        "mean gap",
    )

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "": PartInfo("observed rate minus mean prediction", "difference"),
            "score": PartInfo("mean score", "statistic", bounds=(0.0, 1.0)),
            "outcome": PartInfo("frequency of the outcome", "statistic", bounds=(0.0, 1.0)),
        }

    def interval(self, layout: Layout) -> KnownEnds:
        """A score interval: the gap is a mean over rows."""
        return KnownEnds()

    def grid_start(self, setting: Setting, classes: int) -> float:
        """The whole unit interval, whatever the setting."""
        return 0.0

    @override
    def estimate(self) -> Requests[Estimate]:
        gridded = yield from self.gridded()
        means = GapMeans(*map(gridded.setting.by_class, _means(gridded.state, gridded.grid)))
        dims = gridded.setting.dims
        return {
            "": Number(
                means.outcome - means.score, dims, limits=(-1.0, 1.0), known_ends=means.ends, ends_method="score"
            ),
            "score": FixedPart(means.score, dims),
            "outcome": FixedPart(means.outcome, dims),
        }


class GapMeans(NamedTuple):
    """Mean score and outcome, variance of their difference over rows, and the (effective) number of rows."""

    score: Array
    outcome: Array
    variance: Array
    rows: Array

    def ends(self, level: float) -> tuple[Array, Array]:
        """The ends of the score interval of the gap."""
        square = scipy.special.ndtri(0.5 + level / 2) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            least, most = self._ends_of_few(level)
            share = square / self.rows
            # The roots of (outcome - p)**2 = share (p (1 - p) + of_scores), of which the outcome lies between.
            of_scores = self.variance - self.outcome * (1 - self.outcome)
            middle = (self.outcome + share / 2) / (1 + share)
            reach = np.sqrt(np.maximum(middle**2 - (self.outcome**2 - share * of_scores) / (1 + share), 0.0))
            low = np.minimum(middle - reach, self.outcome) - self.score
            high = np.maximum(middle + reach, self.outcome) - self.score
        # Unknown ends of few rows are NaN.
        return np.maximum(np.fmin(low, least), -1.0), np.minimum(np.fmax(high, most), 1.0)

    def _ends_of_few(self, level: float) -> tuple[Array, Array]:
        """Ends that hold with few events or few errors; NaN where there are many."""
        rarer = self.rows * np.minimum(self.outcome, 1 - self.outcome)
        frequency = BoundedMean(self.outcome, self.outcome * (1 - self.outcome), self.rows, 0.0, 1.0).ends(level)
        of_errors = BoundedMean(self.outcome - self.score, self.variance, self.rows, -1.0, 1.0).ends(level)
        few_errors = self.rows * self.variance < _FEW / 2 - _ROUNDING
        least, most = (
            np.where(rarer < _FEW - _ROUNDING, of_outcomes - self.score, np.where(few_errors, of_gaps, np.nan))
            for of_outcomes, of_gaps in zip(frequency, of_errors, strict=True)
        )
        return least, most


def _means(state: GridState, grid: Grid) -> tuple[Array, Array, Array, Array]:
    """The fields of `GapMeans`, by (batch, group, column).

    Rows of one cell and outcome are placed at their mean score, which leaves the means unchanged and lowers the
    variance by less than a millionth.
    """
    mass = np.moveaxis(np.asarray(state.mass, np.float64), -1, -2)
    distance = np.moveaxis(state.distance, -1, -2)
    positions = distance / np.maximum(mass, np.finfo(float).tiny)
    residual = np.array([[0.0], [1.0]]) - scores_of_cells(grid, positions)
    total = mass.sum((-1, -2))
    squares = np.moveaxis(state.square, -1, -2) if state.weighted else mass
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = (mass * residual).sum((-1, -2)) / total
        outcome = mass[..., 1, :].sum(-1) / total
        distance = (residual - gap[..., None, None]) ** 2
        spread, variance = ((of * distance).sum((-1, -2)) / total**power for of, power in ((mass, 1), (squares, 2)))
    return outcome - gap, outcome, spread, WeightedMean(gap, spread, variance, state.effective_rows).effective_rows
