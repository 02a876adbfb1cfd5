"""The integrated calibration index, and quantiles of the distance of a smoothed curve from the diagonal."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import gap
from calibdask.estimators.interval import FromHistograms, IntervalMethod
from calibdask.estimators.parts import Estimate, FixedPart, calibration_error
from calibdask.estimators.smooth.gridded import SmoothedEstimator
from calibdask.estimators.smooth.local_fit import rows_within
from calibdask.estimators.smooth.lowess import SPAN, lowess
from calibdask.estimators.smooth.smoothing import REACH, frequency
from calibdask.statistics.bins.grid import Grid
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# Shares of the rows whose distance a quantile is not below.
_QUANTILES = {"e50": 0.5, "e90": 0.9}
# Replicates tell how far these may be off.
_WITH_INTERVALS = ("ici", "e90")
# Emax leaves out scores whose curve rests on fewer rows.
FEWEST_ROWS = 20
# Cumulative shares that differ by less are equal up to rounding.
_ROUNDING = 1e-12
# Rows shared between two nodes may lie beyond the reach in part.
_FRACTION = 1e-6

Smoother = Literal["kernel", "lowess"]


@dataclass(frozen=True, kw_only=True)
class ICI(SmoothedEstimator):
    """Integrated calibration index: the mean distance of a smoothed calibration curve from the diagonal at the rows.

    ::

        ici = sum w |c(s) - s| / sum w,   e50, e90, emax: its median, 90 % quantile and maximum over the rows

    The curve c is the same as in `calibdask.ReliabilityCurve`: the ratio of kernel densities, mirrored at the ends of
    the support, with Silverman's bandwidth and the triweight kernel unless others are chosen. With
    ``smoother="lowess"`` it is R's ``lowess(f = 2/3, iter = 0)``, as in ``rms::val.prob``: lines fitted to the nearest
    two thirds of the rows, which follow the data less closely and give smaller numbers with few rows.

    Parameters
    ----------
    smoother : {"kernel", "lowess"}, default "kernel"
        The smoother of the curve.
    kernel, bandwidth, setting, k, step
        As for `DensityECE`; for a matrix of scores the setting is class-wise by default, with each class separate.
        ``kernel`` and ``bandwidth`` apply to the smoother ``"kernel"``.

    Raises
    ------
    ValueError
        If a parameter is invalid, out of range, or without effect on the smoother.

    Warns
    -----
    UserWarning
        As for `DensityECE`.

    Notes
    -----
    Parts ``ici``, ``e50``, ``e90``, ``emax`` and, for kernels, ``bandwidth``. The number depends on the smoother: the
    authors use loess or restricted cubic splines, which are smoother and give smaller numbers with few rows.
    `DensityECE` is nearly the same as ``ici``, with the density of the scores smoothed too.

    ``rms::val.prob`` differs from ``smoother="lowess"`` in that it interpolates the 90 % quantile between two rows
    and leaves out scores of exactly 0 and 1; here rows are placed on a grid, which changes the numbers by less than the
    width of a cell. Its Eavg is ``ici``.

    All of them are positive by chance for calibrated models: with uniform scores ``ici`` is 0.06 on average for 100
    rows, 0.02 for 1000 and 0.01 for 10,000. With ``ci``: intervals of ``ici`` and ``e90`` from replicates of the
    histogram, which start at 0 if calibrated models have errors that large. ``e50`` has none: with 1000 rows, rare
    outcomes and scores half as large as they should be, intervals at 90 % covered it in only 81 % of data sets.
    ``emax`` has none: it is the distance at a single row. It leaves out scores where the curve is based on fewer than
    20 rows (within reach of the kernel; for lowess, two thirds of all rows), such as an isolated last row, and is NaN
    if no scores are left.

    One pass; can be computed from a summary. Rows are placed on the two nearest nodes of the grid. Lowess takes 5 ms
    for each column and replicate.

    References
    ----------
    .. [1] Austin & Steyerberg, The Integrated Calibration Index (ICI) and related metrics for quantifying the
       calibration of logistic regression models, 2019.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ICI(bandwidth=0.1))
    >>> [round(float(result[f"ici_{part}"]), 3) for part in ("ici", "e50", "e90", "emax")]
    [0.281, 0.2, 0.472, nan]
    """

    about = About(
        "Integrated calibration index (ICI)",
        "The mean over the rows of |c(s) - s|, with c the calibration curve smoothed by kernel densities or by lowess; "
        "E50, E90 and Emax are the median, the 90 % quantile and the maximum of |c(s) - s|, the last where c rests on "
        "20 rows or more. The value depends on the smoother.",
        "Austin & Steyerberg, The Integrated Calibration Index (ICI) and related metrics, 2019",
        "ICI",
    )

    usual_setting = "classwise"

    smoother: Smoother = "kernel"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("smoother", self.smoother, get_args(Smoother))
        if self.smoother == "lowess" and (self.kernel, self.bandwidth) != ("triweight", "silverman"):
            raise ValueError('kernel and bandwidth have no effect with smoother="lowess"; leave them out.')

    @override
    def interval(self, layout: Layout) -> IntervalMethod:
        """From replicates of the histogram; lowess keeps the grid."""
        if self.smoother == "kernel":
            return super().interval(layout)
        return FromHistograms((self.histogram(layout),), self)

    @override
    def describe(self, layout: Layout) -> Description:
        quantity = gap(layout, self.measured(layout))
        of_kernel = {"bandwidth": PartInfo("width of the kernel", "choice")} if self.smoother == "kernel" else {}
        return {
            "ici": PartInfo(f"mean {quantity} over the rows, by a smoothed curve", "error", quantity="mean-gap"),
            "e50": PartInfo("median distance of curve and score over the rows", "error"),
            "e90": PartInfo("90 % quantile of the distance over the rows", "error"),
            "emax": PartInfo(f"largest distance at a row whose curve rests on {FEWEST_ROWS} rows", "error"),
            **of_kernel,
        }

    @override
    def estimate(self) -> Requests[Estimate]:
        gridded = yield from self.gridded()
        setting, rows = gridded.setting, np.asarray(gridded.state.effective_rows)
        if self.smoother == "lowess":
            bandwidth = np.zeros(gridded.shape)
            distances = gridded.by_columns(partial(self._of_lowess, gridded.grid), rows)
            notes: dict[str, Any] = {"smoother": f"lowess of {SPAN:.0%} of the rows"}
        else:
            bandwidth = self.chosen_bandwidths(gridded)
            distances = gridded.by_columns(partial(self._of_kernel, gridded.grid), bandwidth, rows)
            notes = {"smoother": f"ratio of {self.kernel} kernel densities"}
        values = map(setting.by_class, np.moveaxis(distances, -1, 0))
        by_class = dict(zip(("ici", *_QUANTILES, "emax"), values, strict=True))
        chosen = {"bandwidth": FixedPart(setting.by_class(bandwidth), setting.dims)}
        return {
            **{
                name: calibration_error(of[..., None], dims=setting.dims, **notes)
                if name in _WITH_INTERVALS
                else FixedPart(of, setting.dims, notes)
                for name, of in by_class.items()
            },
            **(chosen if self.smoother == "kernel" else {}),
        }

    def _of_kernel(self, grid: Grid, weights: Array, bandwidth: Array, rows: Array) -> Array:
        """Mean, quantiles and maximum of the distances at the rows, (columns, 4), of the ratio of densities."""
        distance = np.abs(frequency(*self.densities(weights, bandwidth, grid)) - grid.nodes)
        # Beta kernels reach everywhere.
        reach = bandwidth * REACH[self.kernel] if self.kernel in REACH else np.full(bandwidth.shape, 1.0)
        shares = weights[:, 0] + weights[:, 1]
        return _summary(distance, shares, rows_within(shares, reach, grid) * rows[:, None])

    def _of_lowess(self, grid: Grid, weights: Array, rows: Array) -> Array:
        """Summary of the distances between the scores and their frequencies as smoothed by lowess."""
        shares = weights[:, 0] + weights[:, 1]
        columns = zip(shares, weights[:, 1], rows.tolist(), strict=True)
        curve = np.stack([lowess(grid.nodes, own, events, total) for own, events, total in columns])
        return _summary(np.abs(curve - grid.nodes), shares, np.broadcast_to(SPAN * rows[:, None], shares.shape))


def _summary(distance: Array, shares: Array, resting: Array) -> Array:
    """Mean, quantiles and maximum of distances at the nodes, (columns, 4), for the rows there.

    ``resting``: the number of rows that each value of the curve rests on.
    """
    # Where a beta kernel has no density, at the ends, rows are left out.
    mass = np.where(np.isfinite(distance), shares, 0.0)
    distance = np.where(mass > 0, distance, 0.0)
    total = mass.sum(-1, keepdims=True)
    mass = mass / np.where(total > 0, total, np.nan)
    order = np.argsort(distance, -1)
    ordered = np.take_along_axis(distance, order, -1)
    reached = np.cumsum(np.take_along_axis(mass, order, -1), -1)
    places = [(reached < share - _ROUNDING).sum(-1, keepdims=True) for share in _QUANTILES.values()]
    quantiles = [np.take_along_axis(ordered, place, -1)[:, 0] for place in places]
    supported = (mass > 0) & (resting >= FEWEST_ROWS - _FRACTION)
    largest = np.where(supported, distance, -np.inf).max(-1)
    measured = np.stack([(mass * distance).sum(-1), *quantiles, np.where(supported.any(-1), largest, np.nan)], -1)
    return np.where(total > 0, measured, np.nan)
