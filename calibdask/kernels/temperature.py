"""Moments of log scores under softmax(beta z), at many beta at once.

The exponentials of a row at all nodes are powers of one: beta is 4, 5, 6 and 7 times the smallest step within an
octave, and doubled from octave to octave, which squares the exponential. Since z is at most 0, no power overflows.
Eight rows at a time are the lanes of vectors, classes come in tiles, so that everything stays in the first cache.
"""

import numpy as np

from calibdask.kernels.compiled import ROWS_BEFORE_CARRY, add_fixed, compiled, fixed, inlined, unit
from calibdask.kernels.exponential import exp_64
from calibdask.kernels.fused import fma
from calibdask.kernels.tiles import LANES, carry_lanes, gather, subtract, take_logarithms
from calibdask.kernels.vectors import larger, load_short, minus, plus, quotient, smaller, store, times

# Nodes of beta: 2**(o - 3) * (1 + j / 4) for octaves o = 0..5, and 8.
IN_OCTAVE, OCTAVES, LOWEST = 4, 6, 0.125
NODES = IN_OCTAVE * OCTAVES + 1
_STEP = LOWEST / IN_OCTAVE
# Classes of a tile.
_CLASSES = 64
# Differences of log scores, at most 745, are summed as fractions of this.
LABEL_SCALE = 1024.0


# A loop for each step, over few arrays: together they would not become vector instructions.
@inlined
def _take_exponentials(z, single):
    for e in range(z.size):
        single[e] = exp_64(z[e] * _STEP)


@inlined
def _take_fourth_powers(single, power):
    for e in range(single.size):
        square = single[e] * single[e]
        power[e] = square * square


@inlined
def _add_tile(z, single, power, square, zeroth, first, second):
    """Add sums over a tile of exp(beta z), z exp(beta z), z**2 exp(beta z) to arrays (nodes * lanes,)."""
    for j in range(IN_OCTAVE):
        at = j * LANES
        s0, s1, s2 = load_short(zeroth, at), load_short(first, at), load_short(second, at)
        for e in range(0, z.size, LANES):
            x, y = load_short(power, e), load_short(z, e)
            store(times(x, load_short(single, e)), power, e)
            store(times(x, x), square, e)
            product = times(x, y)
            s0, s1, s2 = plus(s0, x), plus(s1, product), fma(product, y, s2)
        store(s0, zeroth, at)
        store(s1, first, at)
        store(s2, second, at)
        for k in range(j + IN_OCTAVE, NODES, IN_OCTAVE):
            at = k * LANES
            s0, s1, s2 = load_short(zeroth, at), load_short(first, at), load_short(second, at)
            for e in range(0, z.size, LANES):
                x, y = load_short(square, e), load_short(z, e)
                store(times(x, x), square, e)
                product = times(x, y)
                s0, s1, s2 = plus(s0, x), plus(s1, product), fma(product, y, s2)
            store(s0, zeroth, at)
            store(s1, first, at)
            store(s2, second, at)


@inlined
def _finish(ones, scales, zeroth, first, second):
    """Replace sums by scaled means of -z, and variances."""
    one = load_short(ones, 0)
    zero = minus(one, one)
    for at in range(0, zeroth.size, LANES):
        over = quotient(one, load_short(zeroth, at))
        mean = times(load_short(first, at), over)
        variance = larger(minus(times(load_short(second, at), over), times(mean, mean)), zero)
        store(larger(minus(zero, times(mean, load_short(scales[0], at))), zero), first, at)
        store(times(variance, load_short(scales[1], at)), second, at)


@inlined
def _add_fixed(values, parts):
    for e in range(values.size):
        parts[e] += fixed(values[e])


@inlined
def _moments(scores, start, count, smallest, scales, top, buffers, sums):
    """Scaled means of -z and variances of a few rows, in [0, 1], (2, nodes * lanes) in the rear of ``sums``."""
    zeroth, first, second = sums[0], sums[1], sums[2]
    for e in range(zeroth.size):
        zeroth[e], first[e], second[e] = 0.0, 0.0, 0.0
    for c in range(0, scores.shape[1], _CLASSES):
        size = min(_CLASSES, scores.shape[1] - c) * LANES
        z, single, power, square = buffers[0, :size], buffers[1, :size], buffers[2, :size], buffers[3, :size]
        # A tile of all classes is still there from `_look_up`.
        if scores.shape[1] > _CLASSES:
            gather(scores, start, count, c, z)
        take_logarithms(z, smallest)
        subtract(z, top)
        _take_exponentials(z, single)
        _take_fourth_powers(single, power)
        _add_tile(z, single, power, square, zeroth, first, second)
    buffers[0, :LANES] = 1.0
    _finish(buffers[0], scales, zeroth, first, second)


@inlined
def _look_up(scores, labels, start, count, smallest, z, least, logs):
    """Smallest scores of rows, and logarithms of the largest scores and label scores, (2 * lanes,)."""
    logs[:] = 1.0
    low, high = load_short(logs, 0), load_short(logs, 0)
    for c in range(0, scores.shape[1], _CLASSES):
        tile = z[: min(_CLASSES, scores.shape[1] - c) * LANES]
        gather(scores, start, count, c, tile)
        if c == 0:
            high = load_short(z, 0)
        for e in range(0, tile.size, LANES):
            x = load_short(z, e)
            low, high = smaller(low, x), larger(high, x)
    store(low, least, 0)
    store(high, logs, 0)
    for r in range(count):
        # Unsigned, so that one comparison decides whether it is a class.
        label = np.uint64(labels[start + r])
        if label < np.uint64(scores.shape[1]):
            logs[LANES + r] = unit(scores[start + r, label])
    take_logarithms(logs, smallest)


@inlined
def _shortfall(logs, r):
    """By how much the log score of the label is below the largest one, over `LABEL_SCALE`."""
    return max(logs[r] - logs[LANES + r], 0.0) / LABEL_SCALE


@compiled
def temperature_sums(scores, labels, group, smallest, scales, counts, sums):
    """Add the rows of one block, each term rounded to 2**-52, to ``sums`` (groups, 1 + 2 * nodes, 2) int64.

    ``scores`` (n, K); ``group`` (n,) or empty; ``scales`` (2, nodes * lanes) bring means of -z and variances of z into
    [0, 1]; ``counts`` (2, groups) gets rows and rows with a score below ``smallest``. The entries of ``sums``: the
    largest log score less that of the label, over `LABEL_SCALE`; means; variances.
    """
    least, logs = np.empty(LANES), np.empty(2 * LANES)
    buffers, moments = np.empty((4, _CLASSES * LANES)), np.empty((3, NODES * LANES))
    parts, tiles = np.zeros((2, NODES * LANES), np.int64), 0
    for start in range(0, scores.shape[0], LANES):
        count = min(LANES, scores.shape[0] - start)
        _look_up(scores, labels, start, count, smallest, buffers[0], least, logs)
        _moments(scores, start, count, smallest, scales, logs, buffers, moments)
        for r in range(count):
            g = group[start + r] if group.size else 0
            counts[0, g] += 1
            counts[1, g] += least[r] < smallest
            add_fixed(fixed(_shortfall(logs, r)), sums[g, 0])
        if group.size == 0 and count == LANES:
            _add_fixed(moments[1], parts[0])
            _add_fixed(moments[2], parts[1])
            tiles += 1
            if tiles % ROWS_BEFORE_CARRY == 0:
                carry_lanes(parts[0], sums[0, 1 : 1 + NODES])
                carry_lanes(parts[1], sums[0, 1 + NODES :])
            continue
        for r in range(count):
            own_sums = sums[group[start + r] if group.size else 0]
            for k in range(NODES):
                add_fixed(fixed(moments[1, k * LANES + r]), own_sums[1 + k])
                add_fixed(fixed(moments[2, k * LANES + r]), own_sums[1 + NODES + k])
    if group.size == 0:
        carry_lanes(parts[0], sums[0, 1 : 1 + NODES])
        carry_lanes(parts[1], sums[0, 1 + NODES :])


@compiled
def weighted_temperature_sums(scores, labels, weights, group, smallest, scales, counts, sums):
    """The weighted counterpart in float64: ``sums`` (groups, 3 + 2 * nodes), with sums of w and w**2 before all."""
    least, logs = np.empty(LANES), np.empty(2 * LANES)
    buffers, moments = np.empty((4, _CLASSES * LANES)), np.empty((3, NODES * LANES))
    for start in range(0, scores.shape[0], LANES):
        count = min(LANES, scores.shape[0] - start)
        _look_up(scores, labels, start, count, smallest, buffers[0], least, logs)
        _moments(scores, start, count, smallest, scales, logs, buffers, moments)
        for r in range(count):
            w = weights[start + r]
            if not w > 0.0:
                continue
            g = group[start + r] if group.size else 0
            counts[0, g] += 1
            counts[1, g] += least[r] < smallest
            sums[g, 0] += w
            sums[g, 1] += w * w
            sums[g, 2] += w * _shortfall(logs, r)
            for k in range(NODES):
                sums[g, 3 + k] += w * moments[1, k * LANES + r]
                sums[g, 3 + NODES + k] += w * moments[2, k * LANES + r]
