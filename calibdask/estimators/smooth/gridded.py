"""Base classes of estimators on the fine grid: their parameters, checks, and smoothing column by column."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from typing_extensions import override

from calibdask.estimators.checks import check_choice
from calibdask.estimators.columns import ColumnEstimator
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.interval import FromHistograms, IntervalMethod
from calibdask.estimators.smooth.bandwidths import Bandwidth, bandwidths, check_bandwidth
from calibdask.estimators.smooth.smoothing import KERNELS, WIDEST_BETA, Kernel, Mirrored, beta_smoothed
from calibdask.statistics.bins.grid import (
    DIVISIBLE,
    Grid,
    GridHistogram,
    GridState,
    cells_of,
    node_weights,
    smooth_weights,
    support,
)
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting

# Columns are smoothed in groups of up to this number of nodes: enough for vector instructions, and few for the cache.
_NODES_AT_ONCE = 1 << 16
_FEW_NODES = 8
# Grid cells per bandwidth that suffice for replicates.
_CELLS_OF_A_BANDWIDTH = 10
# Warn if beta kernels ignore more than this share of rows, at the ends of the support.
_IGNORED_SHARE = 1e-3


class Gridded(NamedTuple):
    """The histograms of the columns of a setting, and their grid."""

    setting: Setting
    grid: Grid
    state: GridState

    @property
    def shape(self) -> tuple[int, int, int]:
        """Batch, groups and columns."""
        batch, groups, columns = self.state.mass.shape[:3]
        return batch, groups, columns

    def by_columns(self, compute: Callable[..., Array], *arguments: Array, smooth: Array | None = None) -> Array:
        """``compute(weights, *arguments)`` for all columns, a few at a time; arguments have the shape (b, g, c).

        ``weights`` (columns, 3, nodes) are those of `shared_weights` for the bandwidths ``smooth``, or linearly binned,
        divided by the weight of all rows; without rows, the values become NaN.
        """
        count = int(np.prod(self.shape))
        flat = GridState.of(lambda sums: sums.reshape(1, 1, count, *sums.shape[3:]), self.state)
        columns = [argument.reshape(count) for argument in arguments]
        widths = np.zeros(count) if smooth is None else smooth.reshape(count)
        parts = []
        step = max(1, _NODES_AT_ONCE // self.grid.cells)
        for start in range(0, count, step):
            here = slice(start, start + step)
            state = flat.part((slice(None), slice(None), here))
            total = np.asarray(state.mass.sum((-1, -2)), np.float64).reshape(-1, 1, 1)
            weights = shared_weights(state, self.grid, widths[None, None, here])[0, 0]
            values = compute(weights / np.where(total > 0, total, 1.0), *(argument[here] for argument in columns))
            parts.append(np.where((total == 0).reshape(-1, *[1] * (values.ndim - 1)), np.nan, values))
        values = np.concatenate(parts)
        return values.reshape(*self.shape, *values.shape[1:])


def shared_weights(state: GridState, grid: Grid, bandwidth: Array) -> Array:
    """Weights on the nodes, of outcome 0, outcome 1 and the scores: linearly binned for windows of few nodes.

    There negative weights would be visible.
    """
    wide = (bandwidth >= _FEW_NODES * grid.width)[..., None, None]
    if wide.all():
        return smooth_weights(state, grid)
    linear = node_weights(state, grid)
    return np.where(wide, smooth_weights(state, grid), linear) if wide.any() else linear


@dataclass(frozen=True, kw_only=True)
class GriddedEstimator(ColumnEstimator):
    """An estimator with a setting and a grid."""

    step: float = 0.0003

    def __post_init__(self) -> None:
        super().__post_init__()
        check_step(self.step)

    def grid_start(self, setting: Setting, classes: int) -> float:
        """The lower end of the grid: by default that of the support of the setting."""
        return support(setting, classes)

    def histogram(self, layout: Layout) -> GridHistogram:
        """The histogram that the estimate is computed from."""
        setting = self.measured(layout)
        return GridHistogram(setting, Grid(cells_of(self.step), self.grid_start(setting, layout.classes)))

    def interval(self, layout: Layout) -> IntervalMethod:
        """From replicates of the histogram."""
        return FromHistograms((self.histogram(layout),), self)

    def on_fewer_cells(self, bandwidth: float, grid_start: float) -> Self:
        """Use the coarsest grid that this grid refines and whose cells are narrow for the bandwidth.

        Apart from the shift of the estimate itself, ends of intervals computed there differ by 1e-3 of the width of an
        interval (local fits: 3e-3, at the ends of the support up to a tenth).
        """
        cells, points = cells_of(self.step), getattr(self, "points", 2)
        for fewer in range(DIVISIBLE, cells, DIVISIBLE):
            narrow = (1.0 - grid_start) * _CELLS_OF_A_BANDWIDTH <= bandwidth * fewer
            if narrow and cells % fewer == 0 and fewer % (points - 1) == 0:
                return replace(self, step=1 / fewer)
        return self

    def gridded(self) -> Requests[Gridded]:
        """Request the histogram."""
        layout = yield from Layout()
        histogram = self.histogram(layout)
        state = yield from histogram
        return Gridded(histogram.setting, histogram.grid, state)


@dataclass(frozen=True, kw_only=True)
class SmoothedEstimator(GriddedEstimator):
    """The parameters of a kernel density estimate, documented in `calibdask.DensityECE`."""

    kernel: Kernel = "triweight"
    bandwidth: Bandwidth = "silverman"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("kernel", self.kernel, KERNELS)
        object.__setattr__(self, "bandwidth", check_bandwidth(self.bandwidth))

    def interval(self, layout: Layout) -> IntervalMethod:
        """From replicates of the histogram, on as coarse a grid as the bandwidth allows."""
        chosen = self.for_replicates()
        return FromHistograms((self.histogram(layout),), chosen, partial(chosen.coarsened, layout))

    def for_replicates(self) -> "SmoothedEstimator":
        """The estimator that is applied to replicates; possibly a different one that has less bias."""
        return self

    def coarsened(self, layout: Layout, gridded: Gridded) -> FromHistograms:
        """The record for the coarsest grid that suffices for the bandwidth of this histogram."""
        bandwidth = self.chosen_bandwidths(gridded)
        coarser = self.on_fewer_cells(float(bandwidth.min()), gridded.grid.low)
        return FromHistograms((coarser.histogram(layout),), coarser)

    @override
    def on_fewer_cells(self, bandwidth: float, grid_start: float) -> Self:
        """The shape of beta kernels changes within a cell, so that these have no coarser grid."""
        return self if self.kernel == "beta" else super().on_fewer_cells(bandwidth, grid_start)

    def chosen_bandwidths(self, gridded: Gridded) -> Array:
        """The bandwidth of each (batch, group, column)."""
        _warn_degenerate(gridded)
        widest = np.inf
        if self.kernel == "beta":
            _warn_rows_ignored(gridded)
            widest = WIDEST_BETA * (1.0 - gridded.grid.low)
        return bandwidths(self.bandwidth, gridded.state, gridded.grid, widest)

    def by_columns(self, compute: Callable[..., Array], gridded: Gridded, bandwidth: Array) -> Array:
        """``compute(grid, weights, bandwidth)`` for all columns, with weights suitable for the kernel."""
        smooth = None if self.kernel == "beta" else bandwidth
        return gridded.by_columns(partial(compute, gridded.grid), bandwidth, smooth=smooth)

    def densities(self, weights: Array, bandwidth: Array, grid: Grid) -> tuple[Array, Array]:
        """f, the density of scores, and g, that of scores with outcome 1 times the share of such rows."""
        total = weights[:, 0] + weights[:, 1]
        f, g = np.moveaxis(self.smoothed(np.stack([total, weights[:, 1]], 1), bandwidth, grid), 1, 0)
        return f, g

    def smoothed(self, weights: Array, bandwidth: Array, grid: Grid) -> Array:
        """Weights (columns, signals, nodes) smoothed with the bandwidth of each column."""
        if self.kernel != "beta":
            return Mirrored(weights, grid).by(self.kernel, bandwidth[:, None])
        return np.stack([beta_smoothed(w, h, grid) for w, h in zip(weights, bandwidth.tolist(), strict=True)])


def _warn_degenerate(gridded: Gridded) -> None:
    """Warn where the data do not determine a curve."""
    negative, positive = gridded.state.mass[..., 0], gridded.state.mass[..., 1]
    cells = ((negative + positive) > 0).sum(-1)
    one_kind = (negative.sum(-1) == 0) | (positive.sum(-1) == 0)
    filled = cells > 0
    for what, count in (
        ("only one kind of outcome", int((filled & one_kind).sum())),
        ("only equal scores", int((cells == 1).sum())),
    ):
        if count:
            warnings.warn(
                f"{count} of {filled.sum()} columns of scores have {what}: their estimates are not informative.",
                UserWarning,
                stacklevel=2,
            )


def _warn_rows_ignored(gridded: Gridded) -> None:
    """Warn of rows at the ends of the support, where beta kernels have no density."""
    weights = node_weights(gridded.state, gridded.grid)[..., :2, :].sum(-2)
    total = weights.sum(-1)
    share = np.divide(weights[..., 0] + weights[..., -1], total, out=np.zeros_like(total), where=total > 0).max()
    if share > _IGNORED_SHARE:
        warnings.warn(
            f"The beta kernel gives no weight to scores at the ends of the support: up to {share:.1%} of the rows are "
            "ignored; use another kernel.",
            UserWarning,
            stacklevel=2,
        )


def on_grid(metrics: Mapping[str, Estimator], step: float | None) -> dict[str, Estimator]:
    """The metrics with the grid that a summary has, where theirs is another one; with rows, ``step`` is None.

    Examples
    --------
    >>> import calibdask as cd
    >>> on_grid({"gap": cd.MeanGap()}, 1 / 300)
    {'gap': MeanGap(setting=None, k=None, step=0.0033333333333333335)}
    """
    here: dict[str, Estimator] = {}
    if step is None:
        return {**metrics}
    for name, metric in metrics.items():
        given = getattr(metric, "step", None)
        other = given is not None and cells_of(given) != cells_of(step)
        here[name] = replace(metric, step=step) if other else metric  # type: ignore[type-var]
    return here


def check_step(step: object) -> None:
    """Raise ValueError unless this is a sensible width of a cell."""
    if isinstance(step, bool) or not isinstance(step, int | float | np.number) or not 1e-6 <= float(step) <= 0.01:
        raise ValueError(f"step expects a number from 1e-6 to 0.01, the width of a cell of the grid, got {step!r}.")
