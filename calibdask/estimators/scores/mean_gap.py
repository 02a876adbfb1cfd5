"""Calibration in the large: the mean difference between outcomes and scores."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.interval import KnownEnds
from calibdask.estimators.parts import Estimate, Given, Number
from calibdask.estimators.smooth.gridded import GriddedEstimator
from calibdask.statistics.bins.grid import Grid, GridState, scores_of_cells
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

__all__ = ["MeanGap"]


@dataclass(frozen=True, kw_only=True)
class MeanGap(GriddedEstimator):
    """Calibration in the large: the frequency of the outcome less the mean score.

        gap = sum w (o - s) / sum w

    Negative: scores are too high on average; positive: too low. Errors of opposite sign at different scores cancel: a
    model with a gap of 0 may be far from calibrated.

    Parameters
    ----------
    setting, k, step
        As for `DensityECE`.

    Notes
    -----
    Parts: the gap itself, and the two means ``score`` and ``outcome``; in the class-wise setting for each class. With
    ``ci`` the gap has normal intervals from the variance of o - s. One pass; can be computed from a summary.

    References
    ----------
    .. [1] Van Calster et al., Calibration: the Achilles heel of predictive analytics, 2019.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.MeanGap())
    >>> round(float(result.mean_gap), 6), float(result.mean_gap_outcome)
    (0.25, 0.75)
    """

    about = About(
        "Calibration in the large",
        "The frequency of the outcome less the mean score, sum w (o - s) / sum w. Negative: scores are "
        "too high on average; errors of opposite sign cancel.",
        "Van Calster et al., Calibration: the Achilles heel of predictive analytics, 2019",
        "mean gap",
    )

    @override
    def describe(self, layout: Layout) -> Description:
        return {
            "": PartInfo("frequency of the outcome less the mean score", "difference"),
            "score": PartInfo("mean score", "statistic"),
            "outcome": PartInfo("frequency of the outcome", "statistic"),
        }

    def interval(self, layout: Layout) -> KnownEnds:
        """A normal interval: the gap is a mean over rows."""
        return KnownEnds()

    @override
    def estimate(self) -> Requests[Estimate]:
        gridded = yield from self.gridded()
        score, outcome, error = map(gridded.setting.by_class, _means(gridded.state, gridded.grid))
        dims, gap = gridded.setting.dims, outcome - score
        return {
            "": Number(gap, dims, limits=(-1.0, 1.0), known_ends=partial(_ends, gap, error)),
            "score": Given(score, dims),
            "outcome": Given(outcome, dims),
        }


def _ends(gap: Array, error: Array, level: float) -> tuple[Array, Array]:
    half = special.ndtri(0.5 + level / 2) * error
    return np.maximum(gap - half, -1.0), np.minimum(gap + half, 1.0)


def _means(state: GridState, grid: Grid) -> tuple[Array, Array, Array]:
    """Mean score, mean outcome, and the standard error of their difference, by (batch, group, column).

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
        error = np.sqrt((squares * (residual - gap[..., None, None]) ** 2).sum((-1, -2))) / total
    return outcome - gap, outcome, error
