"""Calibration in the large: by how much outcomes exceed scores on average."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special

from calibdask.estimators.estimator import Estimation, Meanings, Part
from calibdask.estimators.gridded import GriddedEstimator
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import Grid, GridState, scores_of_cells
from calibdask.statistics.layout import Layout

__all__ = ["MeanGap"]


@dataclass(frozen=True, kw_only=True)
class MeanGap(GriddedEstimator):
    """Calibration in the large: the frequency of the outcome less the mean score.

        gap = sum w (o - s) / sum w

    Below 0 the scores promise more than comes true, on average; above 0 less. Errors of opposite sign at different
    scores cancel: a model with a gap of 0 may be far from calibrated.

    Parameters
    ----------
    setting, k, step
        As for `DensityECE`.

    Notes
    -----
    Parts: the gap itself, ``score`` and ``outcome``, the two means. Class-wise for each class. With ``ci`` the gap has
    normal intervals from the variance of o - s. One pass; a summary tells it.

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

    @property
    def name(self) -> str:
        """``mean_gap``."""
        return "mean_gap"

    @property
    def knows_ends(self) -> bool:
        """A mean of rows: its variance is known."""
        return True

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        return {
            "": "frequency of the outcome less the mean score",
            "score": "mean score",
            "outcome": "frequency of the outcome",
        }

    def estimate(self) -> Estimation:
        """Means of the histogram."""
        gridded = yield from self.gridded()
        score, outcome, error = map(gridded.by_class, _means(gridded.state, gridded.grid))
        dims, gap = gridded.dims, outcome - score
        return {
            "": Part(gap, dims, limits=(-1.0, 1.0), spread=partial(_ends, gap, error)),
            "score": Part(score, dims, role="given"),
            "outcome": Part(outcome, dims, role="given"),
        }


def _ends(gap: Array, error: Array, level: float) -> tuple[Array, Array]:
    half = special.ndtri(0.5 + level / 2) * error
    return np.maximum(gap - half, -1.0), np.minimum(gap + half, 1.0)


def _means(state: GridState, grid: Grid) -> tuple[Array, Array, Array]:
    """Mean score, mean outcome, and the standard error of their difference, by (batch, group, column).

    The rows of a cell and outcome are taken to be at their mean, which leaves the means as they are and takes less than
    a millionth off the variance.
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
