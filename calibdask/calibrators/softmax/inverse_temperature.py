"""The root of the derivative of the logarithmic score in the inverse temperature, from its values at nodes."""

from typing import NamedTuple

import numpy as np

from calibdask.statistics import exact
from calibdask.statistics.exact import Array
from calibdask.statistics.temperature import NODES, SHORTFALL_UNIT, TemperatureState, units

# Nodes of the interpolant, with values and derivatives: a polynomial of degree 19.
_WINDOW = 10
# Means below this are no whole numbers of many units, and their logarithms too coarse.
_RESOLVED = 1e-9
_STEPS = 60


class InverseTemperature(NamedTuple):
    """By slice: beta; the second derivative of the mean score there; which end of the range bounds it, -1 or 1."""

    beta: Array
    curvature: Array
    bounded: Array


def inverse_temperature(state: TemperatureState, classes: int) -> InverseTemperature:
    """The beta of the least logarithmic score of softmax(beta z), by slice.

    With M(beta) the mean of max(z) - z under softmax(beta z), decreasing, and L that of max(z) - z_y, it is the root of
    M = L. log M as a function of log beta is interpolated by its values and derivatives at ten nodes around the root.
    Where there is no root between 1/8 and 8, beta is the end; where all scores are equal it is 1.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = exact.value(state.weight)[0, :, None]
        means, variances = exact.value(state.means)[0] / weight, exact.value(state.variances)[0] / weight
        means, variances = np.stack([means, variances]) * units(classes)[:, None]
        shortfall = exact.value(state.shortfall)[0] * SHORTFALL_UNIT / weight[:, 0]
        low, high = shortfall >= means[:, 0], shortfall <= means[:, -1]
        equal = (means[:, 0] <= 0) & (shortfall <= 0)
        inside = ~(low | high | np.isnan(shortfall))
        beta = np.where(equal, 1.0, np.where(low, NODES[0], NODES[-1]))
        curvature = np.full(beta.shape, np.nan)
        beta[inside], curvature[inside] = _roots(means[inside], variances[inside], shortfall[inside])
        beta[np.isnan(shortfall)] = np.nan
        return InverseTemperature(beta, curvature, np.where(equal, 0.0, high * 1.0 - (low & ~high)))


def _roots(means: Array, variances: Array, shortfall: Array) -> tuple[Array, Array]:
    x = np.log(NODES)
    # The number of the node behind the root, and of the last one that is resolved.
    behind = (means > shortfall[:, None]).sum(1)
    last = np.maximum((means > np.minimum(_RESOLVED, shortfall)[:, None]).sum(1), _WINDOW)
    first = np.clip(behind - _WINDOW // 2, 0, last - _WINDOW)
    window = first[:, None] + np.arange(_WINDOW)
    nodes = x[window]
    values = np.take_along_axis(means, window, 1)
    values = np.maximum(values, np.finfo(np.float64).tiny)
    slopes = -np.exp(nodes) * np.take_along_axis(variances, window, 1) / values
    origin = np.log(shortfall)
    points, coefficients = _newton_form(nodes, np.log(values) - origin[:, None], slopes)
    left, right = x[behind - 1], x[behind]
    at = (left + right) / 2
    for _ in range(_STEPS):
        value, slope = _evaluate(points, coefficients, at)
        left, right = np.where(value > 0, at, left), np.where(value > 0, right, at)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = at - value / slope
        at = np.where((step > left) & (step < right), step, (left + right) / 2)
    slope = _evaluate(points, coefficients, at)[1]
    beta = np.exp(at)
    return beta, -slope * shortfall / beta


def _newton_form(nodes: Array, values: Array, slopes: Array) -> tuple[Array, Array]:
    """Points (rows, 2 * nodes), each node twice, and divided differences, of the polynomials through rows of values."""
    points = np.repeat(nodes, 2, axis=1)
    column = np.repeat(values, 2, axis=1)
    coefficients = [column[:, 0]]
    for order in range(1, points.shape[1]):
        step = points[:, order:] - points[:, :-order]
        with np.errstate(divide="ignore", invalid="ignore"):
            column = (column[:, 1:] - column[:, :-1]) / step
        if order == 1:
            column[:, ::2] = slopes
        coefficients.append(column[:, 0])
    return points, np.stack(coefficients, 1)


def _evaluate(points: Array, coefficients: Array, at: Array) -> tuple[Array, Array]:
    """Values and derivatives of polynomials in Newton's form."""
    value, slope = coefficients[:, -1], np.zeros(at.shape)
    for k in range(points.shape[1] - 2, -1, -1):
        slope = slope * (at - points[:, k]) + value
        value = value * (at - points[:, k]) + coefficients[:, k]
    return value, slope
