"""The map from scores to calibrated probabilities, s + LCE(s), and how sure it is of them."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri
from sklearn.isotonic import isotonic_regression

from calibdask.estimators.gridded import Gridded, SmoothedEstimator, shared_weights
from calibdask.estimators.local_fit import NARROWER, LocalFit, local_fit
from calibdask.estimators.smoothing import REACH
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import Grid, node_weights

__all__ = ["CalibrationMap", "fitted_map"]

_NO_DENSITY = 1e-8


@dataclass(frozen=True)
class CalibrationMap:
    """Calibrated probabilities on the nodes of the grid, (columns, nodes), and fits for their intervals.

    ``fit`` is local and quadratic, its ``rows`` counted in rows.
    """

    grid: Grid
    bandwidth: Array
    probability: Array
    density: Array
    fit: LocalFit

    def made_monotone(self) -> "CalibrationMap":
        """The nearest non-decreasing maps, nodes weighted by the density of scores."""
        # Where there is no density the curve still has to go somewhere, at hardly any weight.
        weights = np.maximum(self.density, 1e-9 * self.density.max(-1, keepdims=True))
        rows = [isotonic_regression(p, sample_weight=w) for p, w in zip(self.probability, weights, strict=True)]
        return replace(self, probability=np.stack(rows))

    def interval(self, level: float) -> tuple[Array, Array]:
        """Ends of intervals for the frequency of the outcome at each node.

        Wilson's score interval with the effective number of rows of the fit, its variance raised by what outcomes
        farther off in the window vary more than those at the node; widened to hold the calibrated probability.
        """
        z = ndtri((1 + level) / 2)
        value, rows, error = self.fit.value, np.maximum(self.fit.rows, 1e-6), self.fit.error
        more = np.maximum(error**2 - value * (1 - value) / rows, 0.0)
        shrunk = 1 / (1 + z**2 / rows)
        centre = (value + z**2 / (2 * rows)) * shrunk
        reach = z * shrunk * np.sqrt(value * (1 - value) / rows + (z / (2 * rows)) ** 2 + more)
        low = np.minimum(np.maximum(centre - reach, 0.0), self.probability)
        high = np.maximum(np.minimum(centre + reach, 1.0), self.probability)
        return low, high


def fitted_map(choices: SmoothedEstimator, gridded: Gridded) -> CalibrationMap:
    """The map of a histogram with one batch element and one group."""
    grid, state = gridded.grid, gridded.state
    bandwidth = choices.chosen_bandwidths(gridded)[0, 0]
    weights = shared_weights(state, grid, bandwidth[None, None])[0, 0]
    total = state.mass[0, 0].sum((-1, -2)).astype(np.float64)
    rows = total**2 / state.square[0, 0].sum((-1, -2)) if state.weighted else total
    shares = weights / total[:, None, None]
    f, g = np.moveaxis(
        choices.smoothed(np.stack([shares[:, 0] + shares[:, 1], shares[:, 1]], 1), bandwidth, grid), 1, 0
    )
    probability = np.clip(grid.nodes + _local_errors(f, g, grid), 0.0, 1.0)
    kernel = "gaussian" if choices.kernel == "beta" else choices.kernel
    # Linearly binned weights are never negative, as the precision of a fit expects.
    linear = node_weights(state, grid)[0, 0] / total[:, None, None]
    fit = local_fit(linear, kernel, NARROWER * bandwidth, grid, probability * (1 - probability))
    # No fit has more rows than its window; where the window only just reaches any, transforms leave nothing but noise.
    behind = np.minimum(fit.rows, _within(linear[:, :2].sum(1), NARROWER * bandwidth * REACH[kernel], grid))
    scaled = LocalFit(fit.value, behind * rows[:, None], fit.error / np.sqrt(rows)[:, None])
    return CalibrationMap(grid, bandwidth, probability, np.maximum(f, 0.0), scaled)


def _within(shares: Array, reach: Array, grid: Grid) -> Array:
    """Share of rows within reach of each node."""
    far = np.ceil(reach / grid.width).astype(np.int64)[:, None]
    node = np.arange(grid.cells + 1)
    below = np.pad(np.cumsum(shares, -1), ((0, 0), (1, 0)))
    last, first = np.minimum(node + far, grid.cells) + 1, np.maximum(node - far, 0)
    return np.take_along_axis(below, last, -1) - np.take_along_axis(below, first, -1)


def _local_errors(f: Array, g: Array, grid: Grid) -> Array:
    """LCE on all nodes: where there is no density, interpolated, and beyond all scores as at the last one."""
    errors = np.empty_like(f)
    for column, (density, positive) in enumerate(zip(f, g, strict=True)):
        there = density > max(_NO_DENSITY, -2 * density.min())
        known = np.clip(positive[there] / density[there], 0.0, 1.0) - grid.nodes[there]
        errors[column] = np.interp(grid.nodes, grid.nodes[there], known)
    return errors
