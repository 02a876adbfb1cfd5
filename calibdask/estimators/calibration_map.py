"""The map from scores to calibrated probabilities, s + LCE(s), and how sure it is of them."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.isotonic import isotonic_regression

from calibdask.estimators.gridded import Gridded, SmoothedEstimator, shared_weights
from calibdask.estimators.local_fit import NARROWER, LocalFit, local_fit
from calibdask.estimators.smoothing import frequency
from calibdask.statistics.exact import Array
from calibdask.statistics.grid import Grid, node_weights

__all__ = ["CalibrationMap", "fitted_map"]


@dataclass(frozen=True)
class CalibrationMap:
    """Calibrated probabilities on the nodes of the grid, (columns, nodes), and fits for their intervals.

    ``fit`` is local and quadratic, of ``rows`` (columns,) in all.
    """

    grid: Grid
    bandwidth: Array
    probability: Array
    density: Array
    fit: LocalFit
    rows: Array

    def made_monotone(self) -> "CalibrationMap":
        """The nearest non-decreasing maps, nodes weighted by the density of scores."""
        # Where there is no density the curve still has to go somewhere, at hardly any weight.
        weights = np.maximum(self.density, 1e-9 * self.density.max(-1, keepdims=True))
        rows = [isotonic_regression(p, sample_weight=w) for p, w in zip(self.probability, weights, strict=True)]
        return replace(self, probability=np.stack(rows))

    def interval(self, level: float) -> tuple[Array, Array]:
        """Ends of intervals for the frequency of the outcome at each node.

        Those of the fit, widened to hold the calibrated probability.
        """
        low, high = self.fit.interval(level, self.rows)
        return np.minimum(low, self.probability), np.maximum(high, self.probability)


def fitted_map(choices: SmoothedEstimator, gridded: Gridded) -> CalibrationMap:
    """The map of a histogram with one batch element and one group."""
    grid, state = gridded.grid, gridded.state
    bandwidth = choices.chosen_bandwidths(gridded)[0, 0]
    weights = shared_weights(state, grid, bandwidth[None, None])[0, 0]
    total = state.mass[0, 0].sum((-1, -2)).astype(np.float64)
    rows = state.effective_rows[0, 0]
    shares = weights / total[:, None, None]
    f, g = choices.densities(shares, bandwidth, grid)
    probability = np.clip(grid.nodes + _local_errors(f, g, grid), 0.0, 1.0)
    kernel = "gaussian" if choices.kernel == "beta" else choices.kernel
    # Linearly binned weights are never negative, as the precision of a fit expects.
    linear = node_weights(state, grid)[0, 0] / total[:, None, None]
    fit = local_fit(linear, kernel, NARROWER * bandwidth, grid, probability * (1 - probability))
    return CalibrationMap(grid, bandwidth, probability, np.maximum(f, 0.0), fit, rows)


def _local_errors(f: Array, g: Array, grid: Grid) -> Array:
    """LCE on all nodes: where there is no density, interpolated, and beyond all scores as at the last one."""
    errors = np.empty_like(f)
    for column, found in enumerate(frequency(f, g)):
        there = np.isfinite(found)
        errors[column] = np.interp(grid.nodes, grid.nodes[there], found[there] - grid.nodes[there])
    return errors
