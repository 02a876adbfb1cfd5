"""Local quadratic regression of the outcome on the score: curves with a bias of higher order, and their errors.

The mirrored ratio of densities flattens the curve at the ends of the support and rounds off its bends. A parabola
fitted around each node avoids both to that order; bands and intervals for the true curve are based on it.
"""

from typing import NamedTuple

import numpy as np
import scipy

from calibdask.estimators.smooth.smoothing import REACH, Kernel, profile
from calibdask.statistics.bins.grid import Grid
from calibdask.statistics.exact import Array

# The window of fits for bands and intervals, relative to that of density estimates: the remaining bias is then small
# compared with the error.
NARROWER = 0.7

# Ridge on the moments of slope and curvature, relative to the mass: where the scores in the window do not determine
# them, they become 0.
_RIDGE = 1e-6
# A node whose window holds a smaller share of all rows has no data, only rounding errors of transforms: rows weighted
# by the kernel, and by its square.
_EMPTY = 1e-9
_EMPTY_SQUARE = 1e-13
_EVENTS_OF_ALL = 5.0


class LocalFit(NamedTuple):
    """Fitted values on the nodes, 0 to 1; where ``rows`` is 0 there is no data within reach.

    ``rows``: effective number of rows of a value, 1 / sum l_i**2 with l_i its weights on the outcomes, as a share of
    all rows; ``error``: the standard error times the root of the number of rows, from sum l_i**2 v_i with v_i the
    variance given for each node.
    """

    value: Array
    rows: Array
    error: Array

    def interval(self, level: float, rows: Array, effect: Array | float = 1.0) -> tuple[Array, Array]:
        """Ends of intervals for the frequency of the outcome at each node, with ``rows`` (columns,) in total.

        ``effect``: the variance of the values relative to that of independent rows.

        Wilson's score interval with the effective number of rows, its variance raised where outcomes elsewhere in the
        window vary more than those at the node. It has a positive width even where all outcomes within reach are equal,
        and is 0 to 1 where there are no rows.
        """
        z = scipy.special.ndtri((1 + level) / 2)
        effective = np.maximum(self.rows * rows[..., None] / effect, 1e-6)
        binomial = self.value * (1 - self.value) / effective
        more = np.maximum(effect * self.variance(rows) - binomial, 0.0)
        shrunk = 1 / (1 + z**2 / effective)
        centre = (self.value + z**2 / (2 * effective)) * shrunk
        reach = z * shrunk * np.sqrt(binomial + (z / (2 * effective)) ** 2 + more)
        known = self.rows > 0
        return (
            np.where(known, np.maximum(centre - reach, 0.0), 0.0),
            np.where(known, np.minimum(centre + reach, 1.0), 1.0),
        )

    def variance(self, rows: Array) -> Array:
        """The variance of the values for ``rows`` independent rows in total."""
        return np.asarray(self.error**2 / np.maximum(rows[..., None], 1.0))

    def effect(self, variance: Array, rows: Array, of_all: Array) -> Array:
        """The design effect at each node, 1 or more, from a variance of the values that allows for dependent rows.

        The variance of few events is no guide: the effect ``of_all`` rows counts as much as 5 events.
        """
        events = self.rows * rows[..., None] * np.minimum(self.value, 1 - self.value)
        with np.errstate(divide="ignore", invalid="ignore"):
            here = np.nan_to_num(variance / self.variance(rows), nan=0.0, posinf=0.0)
        return np.maximum((events * here + _EVENTS_OF_ALL * of_all) / (events + _EVENTS_OF_ALL), 1.0)


class _Windows:
    """Sums over the window around each node: of weights times kernel (or its square) times powers of the distance."""

    def __init__(self, kernel: Kernel, bandwidth: Array, grid: Grid) -> None:
        self._nodes = grid.cells + 1
        self._length = scipy.fft.next_fast_len(2 * self._nodes, real=True)
        step = np.arange(self._length)
        distance = np.where(step < self._nodes, step, step - self._length) * grid.width
        self._u = distance / np.asarray(bandwidth)[..., None]
        self._kernel = profile(kernel, self._u)

    def moments(self, weights: Array, powers: int, *, squared: bool = False) -> Array:
        """Sums for the powers 0, 1, ..., along a new first axis."""
        spectrum = scipy.fft.rfft(weights, self._length)
        term = self._kernel**2 if squared else self._kernel
        sums = []
        for _ in range(powers):
            sums.append(scipy.fft.irfft(spectrum * scipy.fft.rfft(term).conj(), self._length)[..., : self._nodes])
            term = term * self._u
        return np.stack(sums)


def local_fit(weights: Array, kernel: Kernel, bandwidth: Array, grid: Grid, variance: Array | None = None) -> LocalFit:
    """Fit a parabola around each node by weighted least squares.

    ``weights`` (columns, 2 or 3, nodes), shares of rows by outcome first, linearly binned; ``bandwidth`` (columns,);
    ``variance`` (columns, nodes) of the outcome given the score, without which no errors are computed and ``rows``
    only says whether there is data.
    """
    total, positive = weights[..., 0, :] + weights[..., 1, :], weights[..., 1, :]
    windows = _Windows(kernel, bandwidth, grid)
    s0, s1, s2, s3, s4 = windows.moments(total, 5)
    filled = s0 > _EMPTY * total.sum(-1, keepdims=True)
    s0 = np.where(filled, s0, 1.0)
    slope, bend = s2 + _RIDGE * s0, s4 + _RIDGE * s0
    # The first row of the inverse of the matrix of moments.
    line = np.stack([slope * bend - s3 * s3, s2 * s3 - s1 * bend, s1 * s3 - slope * s2])
    determinant = s0 * line[0] + s1 * line[1] + s2 * line[2]
    line = np.where(filled, line / np.where(determinant > 0, determinant, np.inf), 0.0)
    value = np.clip((line * windows.moments(positive, 3)).sum(0), 0.0, 1.0)
    if variance is None:
        return LocalFit(value, filled * 1.0, np.zeros(0))
    moments = windows.moments(total, 5, squared=True)
    filled &= moments[0] > _EMPTY_SQUARE * total.sum(-1, keepdims=True)
    squares = [_quadratic(line, m) for m in (moments, windows.moments(total * variance, 5, squared=True))]
    # No fit has more rows than its window; where the window barely reaches any, transforms leave only noise.
    within = rows_within(total, np.asarray(bandwidth) * REACH[kernel], grid)
    rows = np.where(filled, np.minimum(1 / np.maximum(squares[0], 1e-300), within), 0.0)
    return LocalFit(value, rows, np.sqrt(np.maximum(squares[1], 0.0)))


def rows_within(shares: Array, reach: Array, grid: Grid) -> Array:
    """Share of the rows within reach of each node, (columns, nodes), from shares at the nodes."""
    far = np.ceil(reach / grid.width).astype(np.int64)[:, None]
    node = np.arange(grid.cells + 1)
    below = np.pad(np.cumsum(shares, -1), ((0, 0), (1, 0)))
    last, first = np.minimum(node + far, grid.cells) + 1, np.maximum(node - far, 0)
    return np.take_along_axis(below, last, -1) - np.take_along_axis(below, first, -1)


def _quadratic(line: Array, sums: Array) -> Array:
    """Sum over the window of the square of the parabola with these coefficients, times the weights."""
    a, b, c = line
    return a * a * sums[0] + 2 * a * b * sums[1] + (b * b + 2 * a * c) * sums[2] + 2 * b * c * sums[3] + c * c * sums[4]
