"""The smooth calibration error."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from calibdask.estimators.columns import gap
from calibdask.estimators.estimator import Estimation, Meanings, Part, calibration_error
from calibdask.estimators.gridded import GriddedEstimator
from calibdask.estimators.smoothing import Mirrored, integral
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import Grid
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

__all__ = ["SmoothECE"]

# How far the bandwidth may be from the root, as a share of it.
_TOLERANCE = 2.0**-44
_BISECTED = 8
# Errors below a thousandth of the bandwidth say no more than that it is much too wide.
_SMALLEST_RATIO = 1e-3
_NOT_ZERO = 1e-30


@dataclass(frozen=True, kw_only=True)
class SmoothECE(GriddedEstimator):
    """Smooth calibration error smECE: a residual form whose bandwidth is its own value.

    ::

        smECE_σ = ∫ | (1/N) sum_i (o_i - s_i) K_σ(t - s_i) | dt,   smECE = smECE_σ at the σ with smECE_σ = σ

    with the Gaussian kernel K_σ reflected at 0 and 1. In the class-wise setting the mean over classes.

    Parameters
    ----------
    setting, k, step
        As for `DensityECE`.

    Notes
    -----
    Parts: the number, and ``bandwidth``, the largest σ with smECE_σ >= σ (class-wise for each class); no less than a
    step of the grid is tried. A consistent measure: within constant factors of the distance to the nearest perfectly
    calibrated predictor. One pass; then 2 ms a column. Memory: 115 kB for each class and slice.

    References
    ----------
    .. [1] Blasiok & Nakkiran, Smooth ECE: Principled reliability diagrams via kernel smoothing, 2023.

    Examples
    --------
    >>> import calibdask as cd
    >>> round(cd.smooth_ece([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8]), 3)
    0.25
    """

    @property
    def name(self) -> str:
        """``smooth_ece``."""
        return "smooth_ece"

    def lowest(self, setting: Setting, classes: int) -> float:
        """The whole unit interval, whatever the setting."""
        return 0.0

    @property
    def is_error(self) -> bool:
        """An error."""
        return True

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        of = gap(layout, self.setting, self.k)
        return {"": f"mean {of}, smoothed over its own width", "bandwidth": "that width"}

    def estimate(self) -> Estimation:
        """The root for every column."""
        gridded = yield from self.gridded()
        widest = np.ones(gridded.shape)
        found = gridded.by_columns(partial(_fixed_points, gridded.grid), widest, smooth=widest)
        value, bandwidth = found[..., 0], found[..., 1]
        given = Part(gridded.by_class(bandwidth), gridded.dims, role="given")
        return {"": calibration_error(value), "bandwidth": given}


def _fixed_points(grid: Grid, weights: Array, widest: Array) -> Array:
    """Value and bandwidth of each column, (columns, 2); one after the other, so that a column stays in the cache."""
    found = [_fixed_point(grid, column, end) for column, end in zip(weights, widest.tolist(), strict=True)]
    return np.asarray(found, np.float64).reshape(-1, 2)


def _fixed_point(grid: Grid, weights: Array, widest: float) -> tuple[float, float]:
    """Value and bandwidth of a column.

    The error does not grow with the bandwidth, so there is one root, which stays between two bandwidths. The next one
    is where a line through log(error / bandwidth) at both, over log(bandwidth), meets 0; an end that stays where it is
    counts less and less (Anderson & Bjorck 1973), and now and then the interval is halved.
    """
    mirrored = Mirrored(weights[1] - weights[2], grid)

    def error(bandwidth: float) -> float:
        return float(integral(np.abs(mirrored.by("gaussian", np.asarray(bandwidth))), grid))

    low, high = grid.width, widest
    value = error(low)
    if value < low:
        return value, low
    above, below = _height(value, low), _height(error(high), high)
    last, step = 0, 0
    while high - low > (nearest := _TOLERANCE * high):
        step += 1
        above, below = max(above, _NOT_ZERO), min(below, -_NOT_ZERO)
        share = above / (above - below) if step % _BISECTED else 0.5
        middle = low * (high / low) ** share
        middle = min(max(middle, low + nearest / 2), high - nearest / 2)
        found = error(middle)
        height = _height(found, middle)
        if found >= middle:
            below *= _less(height / above) if last > 0 else 1.0
            low, value, above, last = middle, found, height, 1
        else:
            above *= _less(height / below) if last < 0 else 1.0
            high, below, last = middle, height, -1
    return value, low


def _less(ratio: float) -> float:
    """By what the end that stayed is multiplied, from the new height at the other end over the old one."""
    return 1.0 - ratio if ratio < 1.0 else 0.5


def _height(error: float, bandwidth: float) -> float:
    """By how much an error is larger than its bandwidth, as a logarithm."""
    return math.log(max(error / bandwidth, _SMALLEST_RATIO))
