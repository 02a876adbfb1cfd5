"""What estimators on the fine grid have in common: their choices, checked, and smoothing column by column."""

import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from calibdask.estimators.bandwidths import Bandwidth, bandwidths, check_bandwidth
from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.smoothing import KERNELS, WIDEST_BETA, Kernel, Mirrored, beta_smoothed
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import (
    DIVISIBLE,
    Grid,
    GridHistogram,
    GridState,
    cells_of,
    node_weights,
    smooth_weights,
    support,
)
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting

__all__ = ["Gridded", "GriddedEstimator", "SmoothedEstimator", "check_step", "shared_weights"]

# Columns are smoothed a few at a time, with so many nodes in all: what is made of them stays in the cache.
_NODES_AT_ONCE = 1 << 15
_FEW_NODES = 8
# Cells of a bandwidth that replicates need.
_CELLS_OF_A_BANDWIDTH = 10
# The share of rows at the ends of the support, which beta kernels leave out, that is worth a warning.
_LOST = 1e-3


class Gridded(NamedTuple):
    """The histogram of each column of a setting, and the grid that it is on."""

    setting: Setting
    grid: Grid
    state: GridState

    @property
    def shape(self) -> tuple[int, int, int]:
        """Batch, groups and columns."""
        batch, groups, columns = self.state.mass.shape[:3]
        return batch, groups, columns

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of a result beyond batch and groups: of classes where each has a column."""
        return ("class",) if self.setting.per_class else ()

    def by_class(self, values: Array) -> Array:
        """Values by (batch, group, column, ...) along those dimensions."""
        return values if self.setting.per_class else values[:, :, 0]

    def by_columns(self, compute: Callable[..., Array], *arguments: Array, smooth: Array | None = None) -> Array:
        """``compute(weights, *arguments)`` for all columns, a few at a time; arguments have the shape (b, g, c).

        ``weights`` (columns, 3, nodes) are those of `shared_weights` for the bandwidths ``smooth``, or linearly binned,
        divided by the weight of all rows; where no row is, the values become NaN.
        """
        count = int(np.prod(self.shape))
        flat = GridState.of(lambda sums: sums.reshape(1, 1, count, *sums.shape[3:]), self.state)
        given = [argument.reshape(count) for argument in arguments]
        widths = np.zeros(count) if smooth is None else smooth.reshape(count)
        parts = []
        at_once = max(1, _NODES_AT_ONCE // self.grid.cells)
        for start in range(0, count, at_once):
            few = slice(start, start + at_once)
            state = GridState.of(lambda sums: sums[:, :, few], flat)  # noqa: B023 - called at once
            total = np.asarray(state.mass.sum((-1, -2)), np.float64).reshape(-1, 1, 1)
            weights = shared_weights(state, self.grid, widths[None, None, few])[0, 0]
            values = compute(weights / np.where(total > 0, total, 1.0), *(argument[few] for argument in given))
            parts.append(np.where((total == 0).reshape(-1, *[1] * (values.ndim - 1)), np.nan, values))
        values = np.concatenate(parts)
        return values.reshape(*self.shape, *values.shape[1:])


def shared_weights(state: GridState, grid: Grid, bandwidth: Array) -> Array:
    """Weights on the nodes, of outcome 0, outcome 1 and the scores: linearly binned for windows of few nodes.

    There negative weights would show.
    """
    wide = (bandwidth >= _FEW_NODES * grid.width)[..., None, None]
    if wide.all():
        return smooth_weights(state, grid)
    linear = node_weights(state, grid)
    return np.where(wide, smooth_weights(state, grid), linear) if wide.any() else linear


@dataclass(frozen=True, kw_only=True)
class GriddedEstimator(ColumnEstimator):
    """The choices of what is measured, and on how fine a grid."""

    step: float = 0.0003

    def __post_init__(self) -> None:
        super().__post_init__()
        check_step(self.step)

    def lowest(self, setting: Setting, classes: int) -> float:
        """The lower end of the grid: that of the support of the setting."""
        return support(setting, classes)

    def histograms(self, layout: Layout) -> tuple[GridHistogram]:
        """The one that it is computed from."""
        setting = layout.setting(self.setting, self.k)
        return (GridHistogram(setting, Grid(cells_of(self.step), self.lowest(setting, layout.classes))),)

    def gridded(self) -> Generator[Any, Any, Gridded]:
        """Ask for the histogram."""
        layout = yield Layout()
        (histogram,) = self.histograms(layout)
        state = yield histogram
        return Gridded(histogram.setting, histogram.grid, state)


@dataclass(frozen=True, kw_only=True)
class SmoothedEstimator(GriddedEstimator):
    """The choices of a kernel density estimate; `calibdask.DensityECE` documents them."""

    kernel: Kernel = "triweight"
    bandwidth: Bandwidth = "silverman"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("kernel", self.kernel, KERNELS)
        object.__setattr__(self, "bandwidth", check_bandwidth(self.bandwidth))

    def on_fewer_cells(self, bandwidth: float, lowest: float) -> Self:
        """The same on the grid with the fewest cells that are whole ones of this grid, and narrow for the bandwidth.

        Replicates that are computed there differ from those on this grid by what the data themselves do; but for that,
        their ends by 1e-3 of the width of an interval (local fits: 3e-3, at the ends of the support up to a tenth).
        """
        cells, points = cells_of(self.step), getattr(self, "points", 2)
        for fewer in range(DIVISIBLE, cells, DIVISIBLE) if self.kernel != "beta" else ():
            narrow = (1.0 - lowest) * _CELLS_OF_A_BANDWIDTH <= bandwidth * fewer
            if narrow and cells % fewer == 0 and fewer % (points - 1) == 0:
                return replace(self, step=1 / fewer)
        return self

    def chosen_bandwidths(self, gridded: Gridded) -> Array:
        """The bandwidth of each (batch, group, column)."""
        _tell_degenerate(gridded)
        widest = np.inf
        if self.kernel == "beta":
            _tell_lost(gridded)
            widest = WIDEST_BETA * (1.0 - gridded.grid.low)
        return bandwidths(self.bandwidth, gridded.state, gridded.grid, widest)

    def by_columns(self, compute: Callable[..., Array], gridded: Gridded, bandwidth: Array) -> Array:
        """``compute(grid, weights, bandwidth)`` for all columns, with the weights that suit the kernel."""
        smooth = None if self.kernel == "beta" else bandwidth
        return gridded.by_columns(partial(compute, gridded.grid), bandwidth, smooth=smooth)

    def densities(self, weights: Array, bandwidth: Array, grid: Grid) -> tuple[Array, Array]:
        """f, the density of scores, and g, that of scores of rows with outcome 1 times their share."""
        total = weights[:, 0] + weights[:, 1]
        f, g = np.moveaxis(self.smoothed(np.stack([total, weights[:, 1]], 1), bandwidth, grid), 1, 0)
        return f, g

    def smoothed(self, weights: Array, bandwidth: Array, grid: Grid) -> Array:
        """Weights (columns, signals, nodes) smoothed with the bandwidth of each column."""
        if self.kernel != "beta":
            return Mirrored(weights, grid).by(self.kernel, bandwidth[:, None])
        return np.stack([beta_smoothed(w, h, grid) for w, h in zip(weights, bandwidth.tolist(), strict=True)])


def _tell_degenerate(gridded: Gridded) -> None:
    """Warn where the data cannot tell a curve."""
    negative, positive = gridded.state.mass[..., 0], gridded.state.mass[..., 1]
    cells = ((negative + positive) > 0).sum(-1)
    one_kind = (negative.sum(-1) == 0) | (positive.sum(-1) == 0)
    filled = cells > 0
    for what, count in (
        ("outcomes of one kind only", int((filled & one_kind).sum())),
        ("equal scores only", int((cells == 1).sum())),
    ):
        if count:
            warnings.warn(
                f"{count} of {filled.sum()} columns of scores have {what}: what is estimated there says little.",
                UserWarning,
                stacklevel=2,
            )


def _tell_lost(gridded: Gridded) -> None:
    """Warn of rows at the ends of the support, where beta kernels have no density."""
    weights = node_weights(gridded.state, gridded.grid)[..., :2, :].sum(-2)
    total = weights.sum(-1)
    share = np.divide(weights[..., 0] + weights[..., -1], total, out=np.zeros_like(total), where=total > 0).max()
    if share > _LOST:
        warnings.warn(
            f"The beta kernel gives no weight to scores at the ends of the support: up to {share:.1%} of the rows are "
            "left out; use another kernel.",
            UserWarning,
            stacklevel=2,
        )


def check_step(step: object) -> None:
    """Refuse what is no sensible width of a cell."""
    if isinstance(step, bool) or not isinstance(step, int | float | np.number) or not 1e-6 <= float(step) <= 0.01:
        raise ValueError(f"step expects a number from 1e-6 to 0.01, the width of a cell of the grid, got {step!r}.")
