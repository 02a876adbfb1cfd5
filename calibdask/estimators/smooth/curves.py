"""Curves over the score: the local calibration error and the continuous reliability curve."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.checks import check_choice
from calibdask.estimators.parts import Coordinate, Curve, Estimate, FixedPart
from calibdask.estimators.smooth.gridded import Gridded, SmoothedEstimator
from calibdask.estimators.smooth.local_fit import NARROWER, LocalFit, local_fit
from calibdask.estimators.smooth.smoothing import frequency
from calibdask.statistics.bins.grid import Grid, cells_of
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# Sums of weights are rounded by the order of the rows, and fits to windows that are almost empty magnify that.
_ROUNDING = (
    "with weights the median, ends and bands may depend on the chunks of the rows at scores that the kernels of hardly "
    "any rows reach"
)


@dataclass(frozen=True, kw_only=True)
class _Curve(SmoothedEstimator):
    """A curve at evenly spaced nodes of the grid."""

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
                f"points expects one plus a divisor of the number of cells, {cells}, such as 101 or 301, got "
                f"{points!r}."
            )

    def for_replicates(self) -> SmoothedEstimator:
        """Local quadratic fits, whose bias is of higher order, unless ``band="plain"``."""
        if self.band == "plain" or self.kernel == "beta":
            return self
        return _FittedCurve(**{field.name: getattr(self, field.name) for field in fields(_Curve)}, local=self._local)

    @property
    def _local(self) -> bool:
        """Whether the curve is the difference from the diagonal."""
        return False

    @override
    def describe(self, layout: Layout) -> Description:
        excess = PartInfo("observed rate minus score", "curve")
        return {
            **({"": excess} if self._local else {"reliability": PartInfo("frequency of the outcome", "curve")}),
            "density": PartInfo("density of the scores", "curve"),
            "bandwidth": PartInfo("width of the kernel", "choice"),
        }

    @override
    def estimate(self) -> Requests[Estimate]:
        gridded = yield from self.gridded()
        bandwidth = self.chosen_bandwidths(gridded)
        curves = self._at_points(self.by_columns(self._curves, gridded, bandwidth))
        return self._estimate(gridded, bandwidth, curves[..., 0, :], curves[..., 1, :])

    def _curves(self, grid: Grid, weights: Array, bandwidth: Array) -> Array:
        """Reliability and density on the nodes, (columns, 2, nodes)."""
        f, g = self.densities(weights, bandwidth, grid)
        return np.stack([frequency(f, g), f], 1)

    def _at_points(self, curves: Array) -> Array:
        return curves[..., :: (curves.shape[-1] - 1) // (self.points - 1)]

    def _estimate(
        self,
        gridded: Gridded,
        bandwidth: Array,
        reliability: Array,
        density: Array,
        spread: Callable[..., tuple[Array, Array]] | None = None,
    ) -> Estimate:
        """Parts of the result."""
        score = self._at_points(gridded.grid.nodes)
        zero = score if self._local else 0.0
        name = "" if self._local else "reliability"

        def ends(compute: Callable[..., tuple[Array, Array]], *arguments: Any) -> tuple[Array, Array]:
            low, high = compute(*arguments)
            return gridded.setting.by_class(low) - zero, gridded.setting.by_class(high) - zero

        labelled, dims = gridded.setting.by_class, gridded.setting.dims
        curve = Curve(
            labelled(reliability) - zero,
            (*dims, "score"),
            {"rounding": _ROUNDING} if gridded.state.weighted else {},
            limits=(0.0 - zero, 1.0 - zero),
            known_ends=partial(ends, spread) if spread else None,
            ends_of_clusters=partial(ends, spread) if spread else None,
        )
        return {
            "score": Coordinate(score, ("score",)),
            name: curve,
            # Without ends: where the density is steep, its bias is larger than they are, and more rows do not help.
            "density": FixedPart(labelled(density), (*dims, "score")),
            "bandwidth": FixedPart(labelled(bandwidth), dims),
        }


@dataclass(frozen=True, kw_only=True)
class ReliabilityCurve(_Curve):
    """The continuous reliability curve: the frequency of the outcome as a function of the score.

    ::

        reliability(s) = P(o = 1) f1(s) / f(s) = s + LCE(s)

    with the kernel density estimates of `DensityECE`.

    Parameters
    ----------
    kernel, bandwidth, setting, k, step
        As for `DensityECE`.
    points : int, default 301
        Number of scores, evenly spaced over the support, at which the curve is evaluated.
    band : {"corrected", "plain"}, default "corrected"
        Method of the intervals and bands; see Notes.

    Notes
    -----
    Parts: the coordinate ``score``; ``reliability``, NaN if there is no density; ``density`` of the scores; and
    ``bandwidth``. In the class-wise setting they have a dimension ``class``.

    With ``ci``: pointwise ends ``reliability_low`` and ``reliability_high``, the ``reliability_median`` of the
    replicates, and a simultaneous band ``reliability_band_low``, ``reliability_band_high`` for the whole curve, from
    multinomial resampling of the histogram (cell x outcome), which is equivalent to resampling rows at a cost that does
    not depend on their number. ``band="plain"``, as in the paper: percentiles of replicates of this curve. They cover
    its expectation, not the true curve: mirroring flattens it at the ends, smoothing rounds off its bends, and if all
    outcomes within the kernel are equal, all replicates agree. ``band="corrected"``: replicates are local quadratic
    fits with the same kernel, whose bias is of higher order, the pointwise ends are those of
    `LCECalibrator.predict_interval`, and the band widens them by one factor so that it contains whole replicates; with
    ``groups`` both allow for the design effect at each score, or that of all rows where events are few. Near
    an end of the support the band may not contain the curve. Without rows within the kernel it spans 0 to 1. Neither
    shows jumps: where the true rate drops by 0.3 over a fifteenth of the scores, 90 % bands of 500 rows contained
    the whole curve in 0.65 (standard error 0.05) of data sets.

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

    about = About(
        "Reliability curve",
        "The frequency of the outcome given the score, P(o = 1) f1(s) / f(s), by kernel densities. The "
        "narrower band is pointwise, the wider one simultaneous; both are corrected for the bias of smoothing.",
        "Posocco & Bonnefoy, 2021",
    )


@dataclass(frozen=True, kw_only=True)
class LocalCalibrationError(_Curve):
    """The local calibration error: the frequency of the outcome minus the score.

    ::

        LCE(s) = P(o = 1) f1(s) / f(s) - s

    Accepts the arguments of `ReliabilityCurve` and has the same parts, with the local error in place of
    ``reliability``.

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

    about = About(
        "Local calibration error (LCE)",
        "The frequency of the outcome given the score minus the score, P(o = 1) f1(s) / f(s) - s, by kernel densities.",
        "Posocco & Bonnefoy, Estimating Expected Calibration Errors, 2021, definition 6",
        "LCE",
    )

    @property
    @override
    def name(self) -> str:
        return "lce"

    @property
    def _local(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class _FittedCurve(_Curve):
    """The curve as a local quadratic fit; bands for the true curve are computed from its replicates."""

    local: bool = False

    @property
    def _local(self) -> bool:
        return self.local

    @override
    def estimate(self) -> Requests[Estimate]:
        gridded = yield from self.gridded()
        bandwidth = self.chosen_bandwidths(gridded)
        grid = gridded.grid
        curves = self._at_points(gridded.by_columns(partial(self._fitted, grid), bandwidth))

        def spread(level: float, *of_clusters: Array) -> tuple[Array, Array]:
            fitted = self._at_points(gridded.by_columns(partial(self._fit, grid), bandwidth))
            fit, rows, effect = LocalFit(*np.moveaxis(fitted, -2, 0)), gridded.state.effective_rows, np.ones(())
            if of_clusters:
                variance, of_all, widening = (values.reshape(fit.value.shape) for values in of_clusters)
                effect = fit.effect(variance, rows, of_all) * widening**2
            return fit.interval(level, rows, effect)

        return self._estimate(gridded, bandwidth, curves[..., 0, :], curves[..., 1, :], spread)

    def _fitted(self, grid: Grid, weights: Array, bandwidth: Array) -> Array:
        """Fitted curve and density, (columns, 2, nodes)."""
        fit = local_fit(weights, self.kernel, NARROWER * bandwidth, grid)
        density = self.smoothed((weights[:, 0] + weights[:, 1])[:, None], bandwidth, grid)[:, 0]
        return np.stack([np.where(fit.rows > 0, fit.value, np.nan), density], 1)

    def _fit(self, grid: Grid, weights: Array, bandwidth: Array) -> Array:
        """Values, rows and errors of the fit, (columns, 3, nodes)."""
        pilot = np.nan_to_num(self._curves(grid, weights, bandwidth)[:, 0], nan=0.5)
        return np.stack(local_fit(weights, self.kernel, NARROWER * bandwidth, grid, pilot * (1 - pilot)), 1)
