"""Density, residual and smooth estimates of many samples at once, each sorted by score.

Residuals and densities are smoothed on a grid as fine as the bandwidth asks for, by adding the kernel at each node that
holds a row: few rows cost little, and many no more than the nodes that there are.
"""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from scipy.fft import dct

Floats = npt.NDArray[np.floating[Any]]
# Division by 0 is IEEE's: the check for it keeps loops from becoming vector instructions.
_compiled: Any = numba.njit(nogil=True, cache=True, error_model="numpy")

# Nodes of the grid in one bandwidth, and cells of the support at most: as many as calibdask has.
_NODES = 12
MOST_CELLS = 3600
_FEW_NODES = 8
# Half the width of the triweight kernel of standard deviation 1; the Gaussian is cut off at 6.
_TRIWEIGHT = 3.0
_GAUSSIAN = 6.0
# Cells of the grid of which the improved Sheather-Jones method sees the cosine coefficients.
ISJ_CELLS = 600
_STAGES = 7
_TOLERANCE = 1e-5


@_compiled
def _score(key):
    return np.float64(np.int32(key >> 1).view(np.float32))


@_compiled
def _quantile(keys, share):
    """Linear interpolation between order statistics."""
    rank = (keys.size - 1) * share
    below = int(rank)
    low, high = _score(keys[below]), _score(keys[min(below + 1, keys.size - 1)])
    return low + (rank - below) * (high - low)


@_compiled
def silverman(keys, low):
    """Silverman's bandwidth of each sample, never below a cell of the finest grid; (samples,)."""
    samples, n = keys.shape
    widths = np.empty(samples)
    for sample in range(samples):
        one = keys[sample]
        mean = 0.0
        for i in range(n):
            mean += _score(one[i])
        mean /= n
        square = 0.0
        for i in range(n):
            square += (_score(one[i]) - mean) ** 2
        spread = min(np.sqrt(square / max(n - 1, 1)), (_quantile(one, 0.75) - _quantile(one, 0.25)) / 1.34898)
        if spread <= 0:
            spread = (_quantile(one, 0.99) - _quantile(one, 0.01)) / 4.65265
        widths[sample] = max(spread * (0.75 * n) ** -0.2, (1.0 - low) / MOST_CELLS)
    return widths


@_compiled
def _gridded(keys, low, cells, weights):
    """Linearly binned weights (cells + 1, 3) of all rows, of those with outcome 1, and of residuals, divided by n."""
    weights[: cells + 1] = 0.0
    scale, share = cells / (1.0 - low), 1.0 / keys.size
    for key in keys:
        score = _score(key)
        outcome = key & 1
        position = min(max((score - low) * scale, 0.0), float(cells))
        node = min(int(position), cells - 1)
        above = (position - node) * share
        below = share - above
        weights[node, 0] += below
        weights[node + 1, 0] += above
        weights[node, 1] += outcome * below
        weights[node + 1, 1] += outcome * above
        weights[node, 2] += (outcome - score) * below
        weights[node + 1, 2] += (outcome - score) * above


@_compiled
def _folded(wide, reach, cells, values):
    """Mass beyond the ends of the support is reflected until it lies inside."""
    for node in range(cells + 1):
        values[node] = wide[node + reach]
    for beyond in range(1, reach + 1):
        node = beyond % (2 * cells)
        node = min(node, 2 * cells - node)
        values[node] += wide[reach - beyond]
        values[cells - node] += wide[reach + cells + beyond]
    # The ends are their own mirror images.
    values[0] *= 2.0
    values[cells] *= 2.0


@_compiled
def _spread(weights, profile, reach, cells, wide):
    """The kernel at each node, times its weight."""
    wide[: cells + 1 + 2 * reach] = 0.0
    for node in range(cells + 1):
        weight = weights[node]
        if weight != 0.0:
            for k in range(2 * reach + 1):
                wide[node + k] += weight * profile[k]


@_compiled
def _absolute_integral(values, cells, width):
    total = -(abs(values[0]) + abs(values[cells])) / 2
    for node in range(cells + 1):
        total += abs(values[node])
    return total * width


@_compiled
def _triweight(bandwidth, width, profile):
    """The kernel on the nodes around its own, of sum 1; returns how many there are on each side."""
    # Linear binning spreads a row with the variance width**2 / 6 in the mean over places; the kernel makes up for it,
    # but where there are few nodes: there calibdask does not, either.
    excess = width**2 / 6 if bandwidth >= _FEW_NODES * width else 0.0
    half = _TRIWEIGHT * np.sqrt(bandwidth**2 - excess)
    reach = int(half / width)
    total = 0.0
    for k in range(2 * reach + 1):
        u = (k - reach) * width / half
        profile[k] = max(1.0 - u * u, 0.0) ** 3
        total += profile[k]
    for k in range(2 * reach + 1):
        profile[k] /= total
    return reach


@_compiled
def _cells(bandwidth, low, most):
    return int(min(max(np.ceil(_NODES * (1.0 - low) / bandwidth), 32.0), most))


@_compiled
def density_estimates(keys, low, bandwidths, most_cells):
    """ECE_d and its residual form with a bandwidth for each sample, (2, samples); triweight kernel, mirrored.

    Bandwidths are no narrower than a cell of the finest grid, which has ``most_cells`` cells.
    """
    samples = keys.shape[0]
    out = np.empty((2, samples))
    weights = np.empty((most_cells + 1, 3))
    most = most_cells + 1 + 2 * (int(_TRIWEIGHT * most_cells) + 1)
    wide, profile, values, other = np.empty(most), np.empty(most), np.empty(most_cells + 1), np.empty(most_cells + 1)
    columns = np.empty((3, most_cells + 1))
    for sample in range(samples):
        cells = _cells(bandwidths[sample], low, most_cells)
        width = (1.0 - low) / cells
        _gridded(keys[sample], low, cells, weights)
        # Arrays that are assigned take numba seconds: its message about their shapes is compiled as well.
        for node in range(cells + 1):
            for kind in range(3):
                columns[kind, node] = weights[node, kind]
        reach = _triweight(bandwidths[sample], width, profile)
        _spread(columns[0], profile, reach, cells, wide)
        _folded(wide, reach, cells, values)
        _spread(columns[1], profile, reach, cells, wide)
        _folded(wide, reach, cells, other)
        for node in range(cells + 1):
            other[node] -= (low + node * width) * values[node]
        # Densities are weights divided by the width, which the integral multiplies with.
        out[0, sample] = _absolute_integral(other, cells, 1.0)
        _spread(columns[2], profile, reach, cells, wide)
        _folded(wide, reach, cells, values)
        out[1, sample] = _absolute_integral(values, cells, 1.0)
    return out


# Smooth errors: cells of the unit interval.
_SMOOTH_CELLS = 400
_STEPS = 12


@_compiled
def _residuals(keys, cells):
    """Linearly binned residuals of all samples on [0, 1]."""
    out = np.empty((keys.shape[0], cells + 1))
    weights = np.empty((cells + 1, 3))
    for sample in range(keys.shape[0]):
        _gridded(keys[sample], 0.0, cells, weights)
        for node in range(cells + 1):
            out[sample, node] = weights[node, 2]
    return out


def _coefficients(weights: Floats) -> Floats:
    """Cosine coefficients; single precision halves the time, and is more accurate than the grid and the sample."""
    halved = (weights * 0.5).astype(np.float32)
    halved[:, [0, -1]] = weights[:, [0, -1]]
    return np.asarray(dct(halved, 1))


def smooth_estimates(keys: npt.NDArray[np.int32]) -> Floats:
    """The smooth calibration error of each sample, (samples,): the bandwidth that is its own error."""
    order = np.arange(_SMOOTH_CELLS + 1)
    # Linear binning has damped the coefficients, which is undone.
    coefficients = _coefficients(_residuals(keys, _SMOOTH_CELLS))
    coefficients /= (np.sinc(order / (2 * _SMOOTH_CELLS)) ** 2).astype(np.float32)
    square = ((np.pi * order) ** 2 / 2).astype(np.float32)

    def excess(bandwidth: Floats) -> Floats:
        values = np.abs(dct(coefficients * np.exp(np.multiply.outer(-(bandwidth**2).astype(np.float32), square)), 1))
        return np.asarray((values.sum(-1) - (values[:, 0] + values[:, -1]) / 2) / _SMOOTH_CELLS - bandwidth)

    low = np.full(len(keys), 1 / MOST_CELLS)
    return _falling_root(excess, low, np.ones(len(keys)))


def _falling_root(function: Any, low: Floats, high: Floats) -> Floats:
    """The root of a decreasing function, for all samples at once: false position with the Illinois rule."""
    at_low, at_high = function(low), function(high)
    # Samples that are done stay as they are: none depends on which others there are.
    best, done = low, at_low <= 0
    for _ in range(_STEPS):
        if done.all():
            break
        best = np.where(done, best, low + (high - low) * at_low / np.where(done, 1.0, at_low - at_high))
        value = function(best)
        up = value > 0
        low, high = np.where(up, best, low), np.where(up, high, best)
        at_low, at_high = np.where(up, value, at_low / 2), np.where(up, at_high / 2, value)
        done |= np.abs(value) < _TOLERANCE
    return best


@_compiled
def _norm(square, powers, time):
    """sum_k k**(2 p) a_k**2 exp(-k**2 pi**2 t), the exponentials by their ratios."""
    ratio, step = np.exp(-(np.pi**2) * time), np.exp(-2 * np.pi**2 * time)
    damping, total = 1.0, 0.0
    most = min(square.size, int(np.sqrt(90.0 / time) / np.pi) + 1)
    for k in range(most):
        damping *= ratio
        ratio *= step
        total += powers[k] * square[k] * damping
    return total


@_compiled
def _diffusion_gap(square, powers, rows, time):
    """Time less what the estimate of algorithm 1 of Botev et al. makes of it."""
    norm = 2 * np.pi ** (2 * _STAGES) * _norm(square, powers[_STAGES], time)
    for stage in range(_STAGES - 1, 1, -1):
        odd = 1.0 / np.sqrt(2 * np.pi)
        for factor in range(1, 2 * stage, 2):
            odd *= factor
        share = (1 + 0.5 ** (stage + 0.5)) / 3
        at = (2 * share * odd / (rows * norm)) ** (2 / (3 + 2 * stage))
        norm = 2 * np.pi ** (2 * stage) * _norm(square, powers[stage], at)
    return time - (2 * rows * np.sqrt(np.pi) * norm) ** -0.4


@_compiled
def _diffusion_times(squares, powers, rows, times):
    """The smallest fixed point of each sample; NaN where there is none, 0 below the first of the times."""
    out = np.empty(squares.shape[0])
    for sample in range(out.size):
        low = times[0]
        at_low = _diffusion_gap(squares[sample], powers, rows, low)
        out[sample] = 0.0 if at_low >= 0 else np.nan
        if at_low >= 0:
            continue
        for high in times[1:]:
            at_high = _diffusion_gap(squares[sample], powers, rows, high)
            if at_low < 0 <= at_high:
                out[sample] = _rising_root(squares[sample], powers, rows, low, high)
                break
            low, at_low = high, at_high
    return out


@_compiled
def _rising_root(square, powers, rows, low, high):
    at_low = _diffusion_gap(square, powers, rows, low)
    at_high = _diffusion_gap(square, powers, rows, high)
    best = low
    for _ in range(30):
        best = low - at_low * (high - low) / (at_high - at_low)
        value = _diffusion_gap(square, powers, rows, best)
        if abs(value) < 1e-6 * best:
            break
        if value < 0:
            low, at_low, at_high = best, value, at_high / 2
        else:
            high, at_high, at_low = best, value, at_low / 2
    return best


@_compiled
def _cubic(keys, low, cells):
    """Rows of all samples, each shared by the four nearest nodes so that cubic polynomials keep their sums; over n.

    As calibdask does it: the rows of a cell with one outcome are taken to be at their mean; what is beyond an end is
    mirrored.
    """
    out = np.zeros((keys.shape[0], cells + 3))
    scale, rows = cells / (1.0 - low), keys.shape[1]
    count, offset = np.empty((cells, 2)), np.empty((cells, 2))
    for sample in range(keys.shape[0]):
        count[:], offset[:] = 0.0, 0.0
        for key in keys[sample]:
            position = min(max((_score(key) - low) * scale, 0.0), float(cells))
            cell = max(int(np.ceil(position)) - 1, 0)
            count[cell, key & 1] += 1.0
            offset[cell, key & 1] += position - cell
        nodes = out[sample]
        for cell in range(cells):
            for outcome in range(2):
                if count[cell, outcome] > 0.0:
                    t = offset[cell, outcome] / count[cell, outcome]
                    share = count[cell, outcome] / rows
                    nodes[cell] -= share * t * (t - 1) * (t - 2) / 6
                    nodes[cell + 1] += share * (t + 1) * (t - 1) * (t - 2) / 2
                    nodes[cell + 2] -= share * (t + 1) * t * (t - 2) / 2
                    if cell < cells - 1:
                        nodes[cell + 3] += share * (t + 1) * t * (t - 1) / 6
                    else:
                        nodes[cells] += share * (t + 1) * t * (t - 1) / 6
        nodes[2] += nodes[0]
    return out[:, 1 : cells + 2]


def sheather_jones(keys: npt.NDArray[np.int32], low: float) -> Floats:
    """The improved Sheather-Jones bandwidth of each sample, Silverman's where there is none; (samples,)."""
    squares = _coefficients(_cubic(keys, low, ISJ_CELLS))[:, 1:].astype(np.float64) ** 2
    order = np.arange(1, ISJ_CELLS + 1.0)
    powers = order ** (2 * np.arange(_STAGES + 1)[:, None])
    times = np.geomspace(ISJ_CELLS**-2.0, 0.04, 24)
    widths = _diffusion_times(squares, powers, float(keys.shape[1]), times)
    least = (1.0 - low) / ISJ_CELLS
    bounded = np.maximum(np.sqrt(np.nan_to_num(widths)) * (1 - low), least)
    return np.where(np.isnan(widths), silverman(keys, low), bounded)
