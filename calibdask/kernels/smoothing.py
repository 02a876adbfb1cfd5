"""Linearly binned weights shared between nodes, and smoothed by narrow Gaussian kernels."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined
from calibdask.kernels.exponential import exp_64

# Nodes at a time: their sums stay in the cache while the kernel passes over them.
_TILE = 1024
# Cells without rows have no positions either.
_NO_ROWS = np.finfo(np.float64).tiny


@inlined
def _shares(t, node, smooth):
    """The share of a row at ``t`` from 0 to 1 between two nodes that goes to one of the two, or four, nearest."""
    if not smooth:
        return t if node == 1 else 1.0 - t
    before, after, beyond = t + 1.0, t - 1.0, t - 2.0
    if node == 0:
        return t * after * beyond * (-1 / 6)
    if node == 1:
        return before * beyond * after * 0.5
    if node == 2:
        return before * beyond * t * -0.5
    return t * after * before * (1 / 6)


@compiled
def share_between_nodes(mass, offset, unit, half, nodes, width, smooth, weights):
    """Weights of outcome 0, outcome 1 and the scores on the nodes, (columns, 3, nodes), from sums by cell and outcome.

    ``mass`` and ``offset`` (columns, cells, 2); offsets, in this ``unit``, are counted from the upper edge in cells
    from number ``half`` on. Rows are at the mean position of their cell and outcome.
    """
    columns, cells, _ = mass.shape
    margin = 1 if smooth else 0
    count, position, scores = np.empty((2, cells)), np.empty((2, cells)), np.empty((2, cells))
    sums = np.empty((3, cells + 1 + 2 * margin))
    for column in range(columns):
        for outcome in range(2):
            for cell in range(cells):
                rows = np.float64(mass[column, cell, outcome])
                # Noise of a calibrated model may leave less than nothing of an outcome.
                divisor = rows if rows < -_NO_ROWS else max(rows, _NO_ROWS)
                t = np.float64(offset[column, cell, outcome]) * unit / divisor
                t = t if cell < half else 1.0 - t
                count[outcome, cell], position[outcome, cell] = rows, t
                scores[outcome, cell] = rows * (nodes[cell] + width * t)
        sums[:] = 0.0
        for node in range(2 + 2 * margin):
            for cell in range(cells):
                lower, upper = _shares(position[0, cell], node, smooth), _shares(position[1, cell], node, smooth)
                sums[0, cell + node] += count[0, cell] * lower
                sums[1, cell + node] += count[1, cell] * upper
                sums[2, cell + node] += scores[0, cell] * lower + scores[1, cell] * upper
        for kind in range(3):
            if smooth:
                # Nodes beyond an end are mirrored.
                sums[kind, 2] += sums[kind, 0]
                sums[kind, cells] += sums[kind, cells + 2]
            for node in range(cells + 1):
                weights[column, kind, node] = sums[kind, margin + node]


@inlined
def _mirrored(values, margin, extended):
    """Values with ``margin`` more on either side, reflected at the first and at the last, which count twice."""
    last = values.size - 1
    for node in range(values.size):
        extended[margin + node] = values[node]
    for j in range(1, margin + 1):
        extended[margin - j] = values[j]
        extended[margin + last + j] = values[last - j]
    extended[margin] *= 2.0
    extended[margin + last] *= 2.0


@inlined
def _smoothed(extended, first, factors, number, here):
    """Sums of values around those from number ``first`` on by a symmetric kernel of ``number`` factors."""
    size = here.size
    for t in range(size):
        here[t] = factors[0] * extended[first + t]
    # Four at a time: as many sums in the same order, with a quarter of the loads and stores.
    j = 1
    while j + 3 < number:
        a, b, c, d = factors[j], factors[j + 1], factors[j + 2], factors[j + 3]
        low, high = extended[first - j - 3 : first - j + size], extended[first + j : first + j + 3 + size]
        for t in range(size):
            total = here[t] + a * (low[t + 3] + high[t])
            total += b * (low[t + 2] + high[t + 1])
            total += c * (low[t + 1] + high[t + 2])
            here[t] = total + d * (low[t] + high[t + 3])
        j += 4
    while j < number:
        low, high = extended[first - j : first - j + size], extended[first + j : first + j + size]
        for t in range(size):
            here[t] += factors[j] * (low[t] + high[t])
        j += 1


@inlined
def _gaussian(ratio, reach, factors):
    """A Gaussian kernel sampled at whole multiples of ``ratio`` standard deviations, of sum 1; where it ends."""
    number = 0
    total = 0.0
    while number < factors.size and number * ratio < reach:
        factors[number] = exp_64(-0.5 * (number * ratio) * (number * ratio))
        total += factors[number] if number == 0 else 2.0 * factors[number]
        number += 1
    for j in range(number):
        factors[j] /= total
    return number


@compiled
def absolute_sums(weights, columns, ratios, reach, errors):
    """The sums of absolute values of weights (columns, nodes), each smoothed by a Gaussian kernel under reflection.

    The kernel of a column has its next value at ``ratios`` standard deviations, and ends before ``reach`` of them,
    within as many nodes as there are. The two outer nodes count half.
    """
    nodes = weights.shape[1]
    extended, factors = np.empty(3 * nodes), np.empty(nodes)
    smoothed = np.empty(_TILE)
    for k in range(columns.size):
        number = _gaussian(ratios[k], reach, factors)
        margin = number - 1
        _mirrored(weights[columns[k]], margin, extended)
        total = 0.0
        for begin in range(0, nodes, _TILE):
            size = min(_TILE, nodes - begin)
            here = smoothed[:size]
            _smoothed(extended, begin + margin, factors, number, here)
            for t in range(size):
                total += abs(here[t])
            if begin == 0:
                total -= 0.5 * abs(here[0])
            if begin + size == nodes:
                total -= 0.5 * abs(here[size - 1])
        errors[k] = total


@compiled
def smooth_narrowly(weights, kernels, numbers, smoothed):
    """Weights (columns, nodes), each smoothed by a symmetric kernel (columns, values from the middle outwards).

    The first ``numbers`` of these values count, divided by their sum. Under reflection at both ends; kernels are
    narrower than the grid.
    """
    nodes, most = weights.shape[1], kernels.shape[1]
    extended, factors = np.empty(nodes + 2 * most), np.empty(most)
    for column in range(len(weights)):
        number = numbers[column]
        total = kernels[column, 0]
        for j in range(1, number):
            total += 2.0 * kernels[column, j]
        for j in range(number):
            factors[j] = kernels[column, j] / total
        margin = number - 1
        _mirrored(weights[column], margin, extended)
        for begin in range(0, nodes, _TILE):
            end = min(begin + _TILE, nodes)
            _smoothed(extended, begin + margin, factors, number, smoothed[column, begin:end])
