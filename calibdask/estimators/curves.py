"""Curves over the score: the local calibration error and the continuous reliability curve."""

from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal

import numpy as np

from calibdask.estimators.binned import check_choice
from calibdask.estimators.estimator import Estimate, Estimation, Estimator, Part
from calibdask.estimators.gridded import Gridded, SmoothedEstimator
from calibdask.estimators.local_fit import NARROWER, local_fit
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import Grid, cells_of

__all__ = ["LocalCalibrationError", "ReliabilityCurve"]

# Where the density of scores is not above this there is no curve.
_NO_DENSITY = 1e-8


@dataclass(frozen=True, kw_only=True)
class _Curve(SmoothedEstimator):
    """A curve on some nodes of the grid."""

    points: int = 301
    band: Literal["corrected", "plain"] = "corrected"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("band", self.band, ("corrected", "plain"))
        cells = cells_of(self.step)
        points: Any = self.points
        whole = isinstance(points, int | np.integer) and not isinstance(points, bool)
        if not whole or points < 2 or cells % (points - 1):
            raise ValueError(
                f"points expects one more than a divisor of the number of cells, {cells}, such as 101 or 301, got "
                f"{points!r}."
            )

    def replicated(self) -> Estimator:
        """Local quadratic fits, whose bias is of a lower order, unless ``band="plain"``."""
        if self.band == "plain" or self.kernel == "beta":
            return self
        return _FittedCurve(**{field.name: getattr(self, field.name) for field in fields(_Curve)}, local=self._local)

    @property
    def _local(self) -> bool:
        """Whether the curve is the difference from the diagonal."""
        return False

    def estimate(self) -> Estimation:
        """Ratio of smoothed weights, and the density."""
        gridded = yield from self.gridded()
        bandwidth = self.chosen_bandwidths(gridded)
        curves = gridded.by_columns(partial(self._curves, gridded.grid), bandwidth, smooth=self.kernel != "beta")
        return self._estimate(gridded, curves, bandwidth)

    def _curves(self, grid: Grid, weights: Array, bandwidth: Array) -> Array:
        """Reliability and density, (columns, 2, points)."""
        signals = np.stack([weights[:, 0] + weights[:, 1], weights[:, 1]], 1)
        stride = grid.cells // (self.points - 1)
        f, g = np.moveaxis(self.smoothed(signals, bandwidth, grid)[..., ::stride], 1, 0)
        # Weights that are slightly negative leave traces where there is no density; how large, shows below zero.
        floor = np.maximum(_NO_DENSITY, -2 * f.min(-1, keepdims=True))
        there = f > floor
        return np.stack([np.clip(np.where(there, g, np.nan) / np.where(there, f, 1.0), 0, 1), f], 1)

    def _estimate(self, gridded: Gridded, curves: Array, bandwidth: Array) -> Estimate:
        """Parts of the result."""
        dims: tuple[str, ...] = ("class",) if gridded.setting.per_class else ()
        if not gridded.setting.per_class:
            curves, bandwidth = curves[:, :, 0], bandwidth[:, :, 0]
        score = gridded.grid.nodes[:: gridded.grid.cells // (self.points - 1)]
        limits: tuple[Any, Any]
        curve, name, limits = curves[..., 0, :], "reliability", (0.0, 1.0)
        if self._local:
            curve, name, limits = curve - score, "", (-score, 1.0 - score)
        return {
            "score": Part(score, ("score",), role="coordinate"),
            name: Part(curve, (*dims, "score"), role="curve", limits=limits),
            "density": Part(curves[..., 1, :], (*dims, "score"), limits=(0.0, np.inf)),
            "bandwidth": Part(bandwidth, dims, role="given"),
        }


@dataclass(frozen=True, kw_only=True)
class ReliabilityCurve(_Curve):
    """The continuous reliability curve: the frequency of the outcome as a function of the score.

        reliability(s) = P(o = 1) f1(s) / f(s) = s + LCE(s)

    with the kernel density estimates of `DensityECE`.

    Parameters
    ----------
    kernel, bandwidth, setting, k, step
        As for `DensityECE`.
    points : int, default 301
        Number of scores, evenly spaced over the support, at which the curve is given.
    band : {"corrected", "plain"}, default "corrected"
        What intervals and bands are made of, see Notes.

    Notes
    -----
    Parts: the coordinate ``score``; ``reliability``, NaN where there is no density; ``density`` of the scores; and
    ``bandwidth``. Class-wise with a dimension ``class``.

    With ``ci``: pointwise percentiles ``reliability_low``, ``reliability_high``, the ``reliability_median``, and a
    simultaneous band ``reliability_band_low``, ``reliability_band_high`` for the whole curve, from multinomial
    resampling of the histogram (cell x outcome): as good as resampling rows, at a cost that does not depend on their
    number. The mirrored estimate is biased at the ends of the support and where the true curve bends: percentiles of
    its replicates (``band="plain"``, as the paper has it) cover its expectation, not the true curve. The replicates of
    the default are local quadratic fits with the same kernel, whose bias is of a lower order; near an end the band may
    then leave the curve aside. Where hardly any outcome of one kind lies within reach, no resampling of the data shows
    how rare it may be, and the band is too narrow; `LCECalibrator.predict_interval` is made for that.

    References
    ----------
    .. [1] Posocco & Bonnefoy, Estimating Expected Calibration Errors, 2021, section 4.4, equation (2).

    Examples
    --------
    >>> import calibdask as cd
    >>> curve = cd.reliability_curve([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], bandwidth=0.1)
    >>> round(float(curve.reliability.sel(score=0.4)), 3)
    0.872
    """

    @property
    def name(self) -> str:
        """``reliability_curve``."""
        return "reliability_curve"


@dataclass(frozen=True, kw_only=True)
class LocalCalibrationError(_Curve):
    """The local calibration error: how much the frequency of the outcome exceeds the score.

        LCE(s) = P(o = 1) f1(s) / f(s) - s

    Takes the arguments of `ReliabilityCurve` and has its parts, the local error itself in place of ``reliability``.

    References
    ----------
    .. [1] Posocco & Bonnefoy, Estimating Expected Calibration Errors, 2021, definition 6.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.LocalCalibrationError(bandwidth=0.1))
    >>> round(float(result.lce.sel(lce_score=0.4)), 3)
    0.472
    """

    @property
    def name(self) -> str:
        """``lce``."""
        return "lce"

    @property
    def _local(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class _FittedCurve(_Curve):
    """The curve as a local quadratic fit; its replicates make bands for the true curve."""

    local: bool = False

    @property
    def _local(self) -> bool:
        return self.local

    def _curves(self, grid: Grid, weights: Array, bandwidth: Array) -> Array:
        stride = grid.cells // (self.points - 1)
        density = super()._curves(grid, weights, bandwidth)[:, 1]
        fit = local_fit(weights, self.kernel, NARROWER * bandwidth, grid)
        reliability = np.where(fit.rows > 0, fit.value, np.nan)[..., ::stride]
        return np.stack([reliability, density], 1)
