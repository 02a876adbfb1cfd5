"""What estimators on the fine grid have in common: their choices, checked, and smoothing column by column."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibdask.estimators.bandwidths import Bandwidth, bandwidths, check_bandwidth
from calibdask.estimators.binned import check_choice, check_setting
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.smoothing import KERNELS, Kernel, Mirrored, beta_smoothed
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import Grid, GridHistogram, GridState, cells_of, node_weights, support
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

__all__ = ["Gridded", "GriddedEstimator", "SmoothedEstimator", "check_step"]

# Columns are smoothed so many at a time: what is made of them stays around 100 MB.
_COLUMNS_AT_ONCE = 256


class Gridded(NamedTuple):
    """The histogram of each column of a setting, and the grid that it is on."""

    setting: Setting
    grid: Grid
    state: GridState

    @property
    def shape(self) -> tuple[int, int, int]:
        """Batch, groups and columns."""
        batch, groups, columns = self.state.count.shape[:3]
        return batch, groups, columns

    def by_columns(self, compute: Callable[..., Array], *arguments: Array) -> Array:
        """``compute(weights, *arguments)`` for all columns, a few at a time; arguments have the shape ``(b, g, c)``.

        ``weights`` (columns, 2, nodes) are shares of all rows by outcome; where no row is, the values become NaN.
        """
        count = int(np.prod(self.shape))
        flat = GridState(*(sums.reshape(1, 1, count, *sums.shape[3:]) for sums in self.state))
        given = [argument.reshape(count) for argument in arguments]
        total = np.asarray(flat.count.sum((-1, -2)), np.float64).reshape(count, 1, 1)
        parts = []
        for start in range(0, count, _COLUMNS_AT_ONCE):
            few = slice(start, start + _COLUMNS_AT_ONCE)
            weights = node_weights(GridState(*(sums[:, :, few] for sums in flat)), self.grid)[0, 0]
            shares = weights / np.where(total[few] > 0, total[few], 1.0)
            values = compute(shares, *(argument[few] for argument in given))
            empty = (total[few] == 0).reshape(-1, *[1] * (values.ndim - 1))
            parts.append(np.where(empty, np.nan, values))
        values = np.concatenate(parts)
        return values.reshape(*self.shape, *values.shape[1:])


@dataclass(frozen=True, kw_only=True)
class GriddedEstimator(Estimator):
    """The choices of what is measured, and on how fine a grid."""

    setting: Setting | str | int | None = None
    k: int | None = None
    step: float = 0.0003

    def __post_init__(self) -> None:
        check_setting(self.setting, self.k)
        check_step(self.step)

    def gridded(self, low: float | None = None) -> Generator[Any, Any, Gridded]:
        """Ask for the histogram, on [low, 1] or the support of the setting."""
        layout = yield Layout()
        setting = layout.setting(self.setting, self.k)
        grid = Grid(cells_of(self.step), support(setting, layout.classes) if low is None else low)
        state = yield GridHistogram(setting, grid)
        return Gridded(setting, grid, state)


@dataclass(frozen=True, kw_only=True)
class SmoothedEstimator(GriddedEstimator):
    """The choices of a kernel density estimate; `calibdask.DensityECE` documents them."""

    kernel: Kernel = "triweight"
    bandwidth: Bandwidth = "silverman"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("kernel", self.kernel, KERNELS)
        object.__setattr__(self, "bandwidth", check_bandwidth(self.bandwidth))

    def chosen_bandwidths(self, gridded: Gridded) -> Array:
        """The bandwidth of each (batch, group, column)."""
        return bandwidths(self.bandwidth, gridded.state, gridded.grid)

    def smoothed(self, weights: Array, bandwidth: Array, grid: Grid) -> Array:
        """Weights (columns, signals, nodes) smoothed with the bandwidth of each column."""
        if self.kernel != "beta":
            return Mirrored(weights, grid).by(self.kernel, bandwidth[:, None])
        return np.stack([beta_smoothed(w, h, grid) for w, h in zip(weights, bandwidth.tolist(), strict=True)])


def check_step(step: object) -> None:
    """Refuse what is no sensible width of a cell."""
    if isinstance(step, bool) or not isinstance(step, int | float | np.number) or not 1e-6 <= float(step) <= 0.01:
        raise ValueError(f"step expects a number from 1e-6 to 0.01, the width of a cell of the grid, got {step!r}.")
