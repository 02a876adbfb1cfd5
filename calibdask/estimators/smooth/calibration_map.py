"""The map from scores to calibrated probabilities, s + LCE(s), with intervals."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.isotonic import isotonic_regression

from calibdask.estimators.smooth.gridded import Gridded, SmoothedEstimator, shared_weights
from calibdask.estimators.smooth.local_fit import NARROWER, LocalFit, local_fit
from calibdask.estimators.smooth.smoothing import frequency
from calibdask.statistics.bins.grid import Grid, node_weights
from calibdask.statistics.exact import Array


@dataclass(frozen=True)
class CalibrationMap:
    """Calibrated probabilities on the nodes of the grid, (columns, nodes), and fits for their intervals.

    ``fit`` is the local quadratic fit, ``rows`` (columns,) the total number of rows.
    """

    grid: Grid
    bandwidth: Array
    probability: Array
    density: Array
    fit: LocalFit
    rows: Array

    def made_monotone(self) -> "CalibrationMap":
        """The nearest non-decreasing maps, nodes weighted by the density of scores."""
        # Nodes without density get a negligible weight, so that the curve is defined there.
        weights = np.maximum(self.density, 1e-9 * self.density.max(-1, keepdims=True))
        rows = [isotonic_regression(p, sample_weight=w) for p, w in zip(self.probability, weights, strict=True)]
        return replace(self, probability=np.stack(rows))

    def interval(self, level: float) -> tuple[Array, Array]:
        """Ends of intervals for the frequency of the outcome at each node.

        Those of the fit, widened to contain the calibrated probability.
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
    # The standard error of a fit requires weights that are never negative: linear binning.
    linear = node_weights(state, grid)[0, 0] / total[:, None, None]
    fit = local_fit(linear, kernel, NARROWER * bandwidth, grid, probability * (1 - probability))
    return CalibrationMap(grid, bandwidth, probability, np.maximum(f, 0.0), fit, rows)


def _local_errors(f: Array, g: Array, grid: Grid) -> Array:
    """LCE on all nodes: interpolated where there is no density, constant beyond the outermost scores."""
    errors = np.empty_like(f)
    for column, reliability in enumerate(frequency(f, g)):
        known = np.isfinite(reliability)
        errors[column] = np.interp(grid.nodes, grid.nodes[known], reliability[known] - grid.nodes[known])
    return errors
