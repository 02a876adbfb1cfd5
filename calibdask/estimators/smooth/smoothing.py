"""Kernel smoothing of linearly binned weights: mirrored at the ends of the support, or by beta kernels.

Weights are on the nodes of a grid, last axis; bandwidths and results are in units of the score.
"""

import math
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy

from calibdask.kernels.smoothing import smooth_narrowly
from calibdask.statistics.bins.grid import Grid
from calibdask.statistics.exact import Array, Counts

Kernel = Literal["triweight", "gaussian", "epanechnikov", "cosine", "beta"]
KERNELS: tuple[Kernel, ...] = get_args(Kernel)

# Half the width of the support of each compact kernel of standard deviation 1; the Gaussian is cut off there.
REACH = {"triweight": 3.0, "epanechnikov": 5**0.5, "cosine": (1 - 8 / np.pi**2) ** -0.5, "gaussian": 6.0}
_BETA_ROWS = 128
# Any power of 0 is nothing, however close to 0 the exponent.
_LOG_OF_0 = -1e200
# Up to this number of nodes, which every grid has more of, kernels are narrow.
_NARROW = 128
# Densities up to this count as 0; the curve is undefined there.
_NO_DENSITY = 1e-8
# The beta kernel is defined up to b = 1/4.
WIDEST_BETA = 0.25


def profile(kernel: Kernel, u: Array) -> Array:
    """A kernel of standard deviation 1, up to a factor."""
    if kernel == "gaussian":
        return np.where(np.abs(u) < REACH[kernel], np.exp(-(u**2) / 2), 0.0)
    v = np.minimum(np.abs(u) / REACH[kernel], 1.0)
    if kernel == "cosine":
        return np.cos(np.pi / 2 * v)
    bowl = 1 - v * v
    return bowl * bowl * bowl if kernel == "triweight" else bowl


def _response(kernel: Kernel, bandwidth: Array, grid: Grid) -> Array:
    """The factor for each cosine coefficient: the transform of the kernel sampled on the nodes, of sum 1.

    Sampled kernels have no negative lobes, however narrow they are; values beyond the support are folded back.
    """
    length = 1.0 - grid.low
    distance = np.arange(grid.cells + 1) * grid.width
    reach = REACH[kernel] * bandwidth.max(initial=0.0)
    values = np.zeros((*bandwidth.shape, distance.size))
    # Mirror images from beyond either end.
    for image in range(-math.ceil((reach / length + 1) / 2) + 1, math.ceil(reach / (2 * length))):
        shifted = distance + 2 * length * image
        near = slice(*np.searchsorted(shifted, (-reach, reach), "right").tolist())
        values[..., near] += profile(kernel, shifted[near] / bandwidth[..., None])
    response = scipy.fft.dct(values, 1)
    return np.asarray(response / response[..., :1])


class Mirrored:
    """Weights smoothed by a kernel under reflection at both ends of the support.

    Kernels that reach few nodes are applied to the weights themselves, which takes less time; others are products of
    cosine coefficients.
    """

    def __init__(self, weights: Array, grid: Grid) -> None:
        self._weights, self._grid = weights, grid

    @cached_property
    def coefficients(self) -> Array:
        """Cosine coefficients."""
        halved = self._weights * 0.5
        halved[..., [0, -1]] = self._weights[..., [0, -1]]
        return np.asarray(scipy.fft.dct(halved, 1))

    def at(self, columns: Counts) -> "Mirrored":
        """Some columns, with the coefficients that they have among all."""
        some = Mirrored(self._weights[columns], self._grid)
        some.coefficients = self.coefficients[columns]
        return some

    def by(self, kernel: Kernel, bandwidth: Array) -> Array:
        """Values on the nodes; the bandwidth has the shape of the leading axes, or one that broadcasts to it."""
        widths = np.broadcast_to(bandwidth, self._weights.shape[:-1])
        # Of each column by itself: which others are smoothed with it must not matter.
        narrow = is_narrow(kernel, widths, self._grid)
        if not narrow.any():
            return self._by_coefficients(self.coefficients, kernel, np.asarray(bandwidth))
        values = np.empty(self._weights.shape)
        values[narrow] = self._narrowly(self._weights[narrow], kernel, widths[narrow])
        if not narrow.all():
            values[~narrow] = self._by_coefficients(self.coefficients[~narrow], kernel, widths[~narrow])
        return values

    def _by_coefficients(self, coefficients: Array, kernel: Kernel, bandwidth: Array) -> Array:
        damped = coefficients * _response(kernel, bandwidth, self._grid)
        return np.asarray(scipy.fft.dct(damped, 1) / (1.0 - self._grid.low))

    def _narrowly(self, weights: Array, kernel: Kernel, bandwidth: Array) -> Array:
        reached = math.ceil(REACH[kernel] * bandwidth.max() / self._grid.width)
        distance = np.arange(reached + 1) * self._grid.width / bandwidth[:, None]
        values = np.empty(weights.shape)
        smooth_narrowly(weights, profile(kernel, distance), (distance < REACH[kernel]).sum(-1), values)
        return values / self._grid.width


def is_narrow(kernel: Kernel, bandwidth: Array, grid: Grid) -> npt.NDArray[np.bool_]:
    """Whether kernels reach few nodes."""
    return np.asarray(bandwidth * REACH[kernel] <= _NARROW * grid.width)


def beta_smoothed(weights: Array, bandwidth: float, grid: Grid) -> Array:
    """Weights smoothed by the second beta kernel of Chen (1999), whose shape depends on the score; no mirroring.

    On the support rescaled to [0, 1] its parameter is b = 4 h**2, so that the standard deviation in the middle is h.
    The matrix is made in strips: at most 4 MB at a time, a kernel for each node and each that has weight.
    """
    x = np.arange(grid.cells + 1) / grid.cells
    b = 4 * (bandwidth / (1.0 - grid.low)) ** 2
    alpha, beta = _chen(x, b), _chen(1 - x, b)
    there = weights.any(0)
    log_x, log_rest = scipy.special.xlogy(1.0, x[there]), scipy.special.xlog1py(1.0, -x[there])
    # Finite at the ends, where a parameter of exactly 1 gives 0^0 = 1.
    logs = np.maximum([log_x, log_rest], _LOG_OF_0)
    values, weights = np.empty_like(weights), weights[:, there]
    for start in range(0, x.size, _BETA_ROWS):
        rows = slice(start, start + _BETA_ROWS)
        power = np.outer(alpha[rows] - 1, logs[0]) + np.outer(beta[rows] - 1, logs[1])
        strip = np.exp(power - scipy.special.betaln(alpha[rows], beta[rows])[:, None])
        values[:, rows] = weights @ strip.T
    return values / (1.0 - grid.low)


def _chen(x: Array, b: float) -> Array:
    """The shape parameter on the side of 0: x / b, modified next to 0 to keep the bias small."""
    near = np.minimum(x, 2 * b)
    bent = 2 * b**2 + 2.5 - np.sqrt(4 * b**4 + 6 * b**2 + 2.25 - near**2 - near / b)
    # Exactly 1 at x = 0, whatever the rounding.
    return np.where(x >= 2 * b, x / b, np.maximum(bent, 1.0))


def frequency(f: Array, g: Array) -> Array:
    """The ratio g / f, the frequency of the outcome, within [0, 1]; NaN where there is no density."""
    # Slightly negative weights leave artefacts where there is no density; the negative values show how large.
    known = f > np.maximum(_NO_DENSITY, -2 * f.min(-1, keepdims=True))
    return np.clip(np.where(known, g, np.nan) / np.where(known, f, 1.0), 0.0, 1.0)


def integral(values: Array, grid: Grid) -> Array:
    """The integral over the support by the trapezium rule."""
    return np.asarray((values.sum(-1) - (values[..., 0] + values[..., -1]) / 2) * grid.width)
