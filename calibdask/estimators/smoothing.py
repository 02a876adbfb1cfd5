"""Kernel smoothing of linearly binned weights: mirrored at the ends of the support, or by beta kernels.

Weights are on the nodes of a grid, last axis; bandwidths and what comes out are in units of the score.
"""

from typing import Literal, get_args

import numpy as np
from scipy.fft import dct
from scipy.special import betaln, xlog1py, xlogy

from calibdask.statistics.exact import Array
from calibdask.statistics.grid import Grid

__all__ = ["KERNELS", "REACH", "Kernel", "Mirrored", "beta_smoothed", "integral"]

Kernel = Literal["triweight", "gaussian", "epanechnikov", "cosine", "beta"]
KERNELS: tuple[Kernel, ...] = get_args(Kernel)

# Half the width of the support of each compact kernel of standard deviation 1; the Gaussian is cut off there.
REACH = {"triweight": 3.0, "epanechnikov": 5**0.5, "cosine": (1 - 8 / np.pi**2) ** -0.5, "gaussian": 6.0}
_BETA_ROWS = 128


def _bessel_ratio(t: Array, order: Literal[1, 3]) -> Array:
    """The Fourier transform of (1 - x**2)**order on [-1, 1], 1 at 0: 3 j1(t) / t or 105 j3(t) / t**3."""
    small = np.minimum(t, 1.0) ** 2 / 4
    series = np.ones_like(t)
    for term in range(10, 0, -1):
        series = 1 - small / (term * (term + order + 0.5)) * series
    far = np.maximum(t, 1.0)
    sine, cosine = np.sin(far), np.cos(far)
    if order == 1:
        closed = 3 * (sine / far - cosine) / far**2
    else:
        closed = 105 * ((15 / far**2 - 6) * sine / far - (15 / far**2 - 1) * cosine) / far**4
    return np.where(t < 1, series, closed)


def _transform(kernel: Kernel, frequency: Array) -> Array:
    """The Fourier transform of a kernel of standard deviation 1."""
    if kernel == "gaussian":
        return np.exp(-(frequency**2) / 2)
    t = frequency * REACH[kernel]
    if kernel == "cosine":
        return np.pi / 4 * (np.sinc(t / np.pi - 0.5) + np.sinc(t / np.pi + 0.5))
    return _bessel_ratio(t, 3 if kernel == "triweight" else 1)


class Mirrored:
    """Weights smoothed by a kernel under reflection at both ends of the support: a product of cosine coefficients.

    Linear binning is a convolution with a triangle, whose transform is divided out; what is left of it are aliases of
    frequencies beyond the grid.
    """

    def __init__(self, weights: Array, grid: Grid) -> None:
        halved = weights * 0.5
        halved[..., [0, -1]] = weights[..., [0, -1]]
        self.order = np.arange(grid.cells + 1)
        self.coefficients: Array = dct(halved, 1) / np.sinc(self.order / (2 * grid.cells)) ** 2
        self._length = 1.0 - grid.low

    def by(self, kernel: Kernel, bandwidth: Array) -> Array:
        """Values on the nodes; the bandwidth has the shape of the leading axes, or one that broadcasts to it."""
        frequency = np.pi / self._length * self.order
        damped = self.coefficients * _transform(kernel, frequency * np.asarray(bandwidth)[..., None])
        return np.asarray(dct(damped, 1) / self._length)


def beta_smoothed(weights: Array, bandwidth: float, grid: Grid) -> Array:
    """Weights smoothed by the second beta kernel of Chen (1999), whose shape changes with the place; no mirroring.

    On the support rescaled to [0, 1] its parameter is b = 4 h**2, so that the standard deviation in the middle is h.
    The matrix is made in strips: 4 MB at a time, ``cells**2`` evaluations of the kernel in all.
    """
    x = np.arange(grid.cells + 1) / grid.cells
    b = 4 * (bandwidth / (1.0 - grid.low)) ** 2
    alpha, beta = _chen(x, b), _chen(1 - x, b)
    values = np.empty_like(weights)
    for start in range(0, x.size, _BETA_ROWS):
        rows = slice(start, start + _BETA_ROWS)
        power = xlogy(alpha[rows, None] - 1, x) + xlog1py(beta[rows, None] - 1, -x)
        strip = np.exp(power - betaln(alpha[rows], beta[rows])[:, None])
        values[..., rows] = weights @ strip.T
    return values / (1.0 - grid.low)


def _chen(x: Array, b: float) -> Array:
    """The shape parameter on the side of 0: x / b, and next to 0 what keeps the bias small there."""
    near = np.minimum(x, 2 * b)
    bent = 2 * b**2 + 2.5 - np.sqrt(4 * b**4 + 6 * b**2 + 2.25 - near**2 - near / b)
    return np.where(x >= 2 * b, x / b, bent)


def integral(values: Array, grid: Grid) -> Array:
    """The integral over the support by the trapezium rule."""
    return np.asarray((values.sum(-1) - (values[..., 0] + values[..., -1]) / 2) * grid.width)
