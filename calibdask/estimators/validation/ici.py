"""The integrated calibration index, and quantiles of the distance of a smoothed curve from the diagonal."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.columns import gap
from calibdask.estimators.parts import Estimate, FixedPart, calibration_error
from calibdask.estimators.smooth.gridded import SmoothedEstimator
from calibdask.estimators.smooth.smoothing import frequency
from calibdask.statistics.bins.grid import Grid
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

# Shares of the rows whose distance a quantile is not below.
_QUANTILES = {"e50": 0.5, "e90": 0.9}
# Replicates tell how far these may be off.
_WITH_INTERVALS = ("ici", "e90")
# Cumulative shares that differ by less are equal up to rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class ICI(SmoothedEstimator):
    """Integrated calibration index: the mean distance of a smoothed calibration curve from the diagonal at the rows.

    ::

        ici = sum w |c(s) - s| / sum w,   e50, e90, emax: its median, 90 % quantile and maximum over the rows

    The curve c is that of `calibdask.ReliabilityCurve`: the ratio of kernel densities, mirrored at the ends of the
    support, with Silverman's bandwidth and the triweight kernel unless others are chosen.

    Parameters
    ----------
    kernel, bandwidth, setting, k, step
        As for `DensityECE`; for a matrix of scores the setting is class-wise by default, each class by itself.

    Raises
    ------
    ValueError
        If a parameter is invalid or out of range.

    Warns
    -----
    UserWarning
        As for `DensityECE`.

    Notes
    -----
    Parts ``ici``, ``e50``, ``e90``, ``emax`` and ``bandwidth``. The number depends on the smoother: the authors take
    loess or restricted cubic splines, which with few rows are smoother and give smaller numbers. `DensityECE` is nearly
    the same as ``ici``, with the density of the scores smoothed too.

    All of them are positive for calibrated models, by chance: with uniform scores ``ici`` is 0.06 on average for 100
    rows, 0.02 for 1000 and 0.01 for 10,000. With ``ci``: intervals of ``ici`` and ``e90`` from replicates of the
    histogram, which start at 0 if calibrated models have errors as large. ``e50`` has none: with 1000 rows, rare
    outcomes and scores half as large as they should be, intervals at 90 % held it in 81 % of data sets. ``emax`` has
    none: it is the distance at a single row, mostly one without neighbours, and says more about these than about the
    model.

    One pass; can be computed from a summary. Rows are placed on the two nearest nodes of the grid.

    References
    ----------
    .. [1] Austin & Steyerberg, The Integrated Calibration Index (ICI) and related metrics for quantifying the
       calibration of logistic regression models, 2019.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ICI(bandwidth=0.1))
    >>> [round(float(result[f"ici_{part}"]), 3) for part in ("ici", "e50", "e90", "emax")]
    [0.281, 0.2, 0.472, 0.472]
    """

    about = About(
        "Integrated calibration index (ICI)",
        "The mean over the rows of |c(s) - s|, with c the calibration curve smoothed by kernel densities; E50, E90 and "
        "Emax are the median, the 90 % quantile and the maximum of |c(s) - s|. The value depends on the smoother.",
        "Austin & Steyerberg, The Integrated Calibration Index (ICI) and related metrics, 2019",
        "ICI",
    )

    usual_setting = "classwise"

    @override
    def describe(self, layout: Layout) -> Description:
        quantity = gap(layout, self.measured(layout))
        return {
            "ici": PartInfo(f"mean {quantity} over the rows, by a smoothed curve", "error", quantity="mean-gap"),
            "e50": PartInfo("median distance of curve and score over the rows", "error"),
            "e90": PartInfo("90 % quantile of the distance over the rows", "error"),
            "emax": PartInfo("largest distance at a row", "error"),
            "bandwidth": PartInfo("width of the kernel", "choice"),
        }

    @override
    def estimate(self) -> Requests[Estimate]:
        gridded = yield from self.gridded()
        bandwidth, setting = self.chosen_bandwidths(gridded), gridded.setting
        distances = gridded.by_columns(partial(self._distances, gridded.grid), bandwidth)
        values = map(setting.by_class, np.moveaxis(distances, -1, 0))
        by_class = dict(zip(("ici", *_QUANTILES, "emax"), values, strict=True))
        notes: dict[str, Any] = {"smoother": f"ratio of {self.kernel} kernel densities"}
        return {
            **{
                name: calibration_error(of[..., None], dims=setting.dims, **notes)
                if name in _WITH_INTERVALS
                else FixedPart(of, setting.dims, notes)
                for name, of in by_class.items()
            },
            "bandwidth": FixedPart(setting.by_class(bandwidth), setting.dims),
        }

    def _distances(self, grid: Grid, weights: Array, bandwidth: Array) -> Array:
        """Mean, quantiles and maximum of the distances at the rows, (columns, 4)."""
        distance = np.abs(frequency(*self.densities(weights, bandwidth, grid)) - grid.nodes)
        # Where a beta kernel has no density, at the ends, rows are left out.
        mass = np.where(np.isfinite(distance), weights[:, 0] + weights[:, 1], 0.0)
        distance = np.where(mass > 0, distance, 0.0)
        total = mass.sum(-1, keepdims=True)
        mass = mass / np.where(total > 0, total, np.nan)
        order = np.argsort(distance, -1)
        ordered = np.take_along_axis(distance, order, -1)
        reached = np.cumsum(np.take_along_axis(mass, order, -1), -1)
        places = [(reached < share - _ROUNDING).sum(-1, keepdims=True) for share in _QUANTILES.values()]
        quantiles = [np.take_along_axis(ordered, place, -1)[:, 0] for place in places]
        measured = np.stack([(mass * distance).sum(-1), *quantiles, ordered[:, -1]], -1)
        return np.where(total > 0, measured, np.nan)
