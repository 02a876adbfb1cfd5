"""Pairs of rows: the terms h_ij of the kernel calibration error, tile by tile.

h_ij = sum over the terms of a kernel of k(d(p_i, p_j) / bandwidth) * <r_i, M r_j>, with residuals r = e_y - p. Later
rows j are packed as the lanes of vectors, whose sums over classes stay in registers. Every h_ij is made by the same
operations in the same order wherever its rows lie; it is then rounded to a multiple of 2**-44 and summed as an integer.
"""

import math

import numpy as np

from calibdask.kernels.compiled import add_units, compiled, inlined, units
from calibdask.kernels.exponential import exp_32, exp_64
from calibdask.kernels.fused import fma
from calibdask.kernels.vectors import absolute, lanes, load, minus, plus, splat, store

EXPONENTIAL, GAUSSIAN = 0, 1
TV, EUCLIDEAN = 0, 1

# A tile of later rows is some blocks of as many rows as a vector has lanes. It stays in the second cache: at most so
# many vectors, unless a single block has more. A group of rows, an even number, meets block after block; its integer
# sum with a tile is below 2**60.
_TILE_VECTORS, _MOST_BLOCKS = 2048, 8
_GROUP = 16
# Rows of a tile of distances.
_TILE = 256


@inlined
def _aligned(size, like):
    """An array (size,) of the type of another that begins with a line of the cache, so that loads never cross lines."""
    rest = 64 // like.itemsize
    room = np.empty(size + rest, like.dtype)
    begin = (-room.ctypes.data) % 64 // like.itemsize
    return room[begin : begin + size]


@inlined
def _pack(rows, first, step, count, out):
    """Fill ``out`` (K, lanes) with rows first, first + step, ... as lanes; lanes without a row with zeros."""
    out[:] = 0
    for j in range(count):
        for c in range(rows.shape[1]):
            out[c, j] = rows[first + j * step, c]


@inlined
def _blocks(scores, residuals, start, blocks):
    """The rows from ``start`` on in blocks: scores (blocks, K, lanes) and residuals (blocks, terms, K, lanes)."""
    width, terms, classes = lanes(scores), residuals.shape[0], scores.shape[1]
    tile_scores = _aligned(blocks * classes * width, scores).reshape((blocks, classes, width))
    tile_residuals = _aligned(blocks * terms * classes * width, scores).reshape((blocks, terms, classes, width))
    for b in range(blocks):
        at = start + b * width
        count = min(width, scores.shape[0] - at)
        _pack(scores, at, 1, count, tile_scores[b])
        for t in range(terms):
            _pack(residuals[t], at, 1, count, tile_residuals[b, t])
    return tile_scores, tile_residuals


@inlined
def _blocks_together(scores, residuals):
    """How many blocks a tile has."""
    fitting = _TILE_VECTORS // (scores.shape[1] * (1 + residuals.shape[0]))
    return max(1, min(_MOST_BLOCKS, fitting, -(-scores.shape[0] // lanes(scores))))


@inlined
def _meet(scores, residuals, first, stop, block, others, distance, far, dots):
    """Distances and dot products of rows ``first`` to before ``stop`` and the rows of a block, two rows at a time.

    ``block`` and ``others`` (K, lanes) are scores and residuals of the block; ``far`` and ``dots`` (rows * lanes) have
    room for an even number of rows. Distances are twice the total variation, or the square of the Euclidean distance.
    No views of rows and no call for each two rows: counting references would cost more than few classes.
    """
    width = lanes(far)
    zero = splat(far.dtype.type(0))
    for first_of_two in range(first, stop, 2):
        # Unsigned numbers, since negative ones would count from the end. The last of an odd number comes twice; the
        # second is not read.
        i, n, at = np.uintp(first_of_two), np.uintp(min(first_of_two + 1, stop - 1)), (first_of_two - first) * width
        far_i, far_n, dots_i, dots_n = zero, zero, zero, zero
        if distance == TV:
            for number in range(scores.shape[1]):
                c = np.uintp(number)
                there, other = load(block, number * width), load(others, number * width)
                dots_i = fma(splat(residuals[i, c]), other, dots_i)
                far_i = plus(far_i, absolute(minus(splat(scores[i, c]), there)))
                dots_n = fma(splat(residuals[n, c]), other, dots_n)
                far_n = plus(far_n, absolute(minus(splat(scores[n, c]), there)))
        else:
            for number in range(scores.shape[1]):
                c = np.uintp(number)
                there, other = load(block, number * width), load(others, number * width)
                dots_i = fma(splat(residuals[i, c]), other, dots_i)
                gap = minus(splat(scores[i, c]), there)
                far_i = fma(gap, gap, far_i)
                dots_n = fma(splat(residuals[n, c]), other, dots_n)
                gap = minus(splat(scores[n, c]), there)
                far_n = fma(gap, gap, far_n)
        store(far_i, far, at)
        store(far_n, far, at + width)
        store(dots_i, dots, at)
        store(dots_n, dots, at + width)


@inlined
def _add_term(far, dots, profile, distance, scale, h):
    """Add k_j * dots_j to h_j.

    The exponent is -scale * far; for the exponential of a Euclidean distance -scale * sqrt(far), for the Gaussian of a
    total variation -scale * far**2.
    """
    if profile == EXPONENTIAL and distance == EUCLIDEAN:
        for j in range(far.size):
            far[j] = math.sqrt(far[j])
    if profile == GAUSSIAN and distance == TV:
        for j in range(far.size):
            far[j] = far[j] * far[j]
    if far.itemsize == 4:
        for j in range(far.size):
            h[j] += exp_32(np.float32(-(far[j] * scale))) * dots[j]
    else:
        for j in range(far.size):
            h[j] += exp_64(np.float64(-(far[j] * scale))) * dots[j]


@inlined
def _group(scores, residuals, first, stop, block, others, kinds, scales, buffers):
    """Kernel values h_ij of rows ``first`` to before ``stop`` with a block, row by row.

    A part of ``buffers`` (3, group * lanes). Lanes without a row are 0.
    """
    # Rows that are unpacked would lose their contiguity.
    far, dots, h = buffers[0], buffers[1], buffers[2]
    width = lanes(far)
    size = (stop - first) * width
    h[:size] = 0
    for t in range(kinds.shape[0]):
        _meet(scores, residuals, first, stop, block, others[t], kinds[t, 1], far, dots)
        _add_term(far[:size], dots[:size], kinds[t, 0], kinds[t, 1], scales[t], h)
    return h[:size]


@compiled
def pair_sum(scores_a, residuals_a, scores_b, residuals_b, same, kinds, scales, words):
    """Add the h_ij of all i of ``a`` and j of ``b``, or with ``same`` (a is b) of all i < j.

    ``scores`` (n, K); ``residuals_a`` (n_a, K); ``residuals_b`` (terms, n_b, K), multiplied by each term's matrix;
    ``kinds`` (terms, 2) of profile and distance; ``scales`` (terms,); ``words`` (2,) int64 is added to. |h_ij| <= 2.
    """
    width, together = lanes(scores_b), _blocks_together(scores_b, residuals_b)
    buffers = _aligned(3 * _GROUP * width, scores_b).reshape((3, _GROUP * width))
    for start in range(0, scores_b.shape[0], together * width):
        tile, others = _blocks(scores_b, residuals_b, start, together)
        last = min(scores_a.shape[0], start + together * width) if same else scores_a.shape[0]
        for first in range(0, last, _GROUP):
            stop = min(last, first + _GROUP)
            total = np.int64(0)
            for b in range(together):
                at = start + b * width
                if same and at + width <= first + 1:
                    continue
                h = _group(scores_a, residuals_a, first, stop, tile[b], others[b], kinds, scales, buffers)
                if same and at < stop:
                    for i in range(first, stop):
                        for j in range(max(0, i + 1 - at), width):
                            total += units(h[(i - first) * width + j])
                else:
                    for j in range(h.size):
                        total += units(h[j])
            add_units(total, words)


@compiled
def weighted_pair_sum(scores_a, residuals_a, weights_a, scores_b, residuals_b, weights_b, same, kinds, scales, total):
    """The weighted counterpart: adds w_i w_j h_ij to ``total`` (1,) float64."""
    width = lanes(scores_b)
    buffers = _aligned(3 * _GROUP * width, scores_b).reshape((3, _GROUP * width))
    # Sums over i of w_i h_ij.
    sums = np.empty(width)
    for at in range(0, scores_b.shape[0], width):
        tile, others = _blocks(scores_b, residuals_b, at, 1)
        sums[:] = 0
        last = min(scores_a.shape[0], at + width) if same else scores_a.shape[0]
        for first in range(0, last, _GROUP):
            stop = min(last, first + _GROUP)
            h = _group(scores_a, residuals_a, first, stop, tile[0], others[0], kinds, scales, buffers)
            for i in range(first, stop):
                for j in range(max(0, i + 1 - at) if same else 0, width):
                    sums[j] += weights_a[i] * np.float64(h[(i - first) * width + j])
        for j in range(min(width, scores_b.shape[0] - at)):
            total[0] += weights_b[at + j] * sums[j]


@compiled
def pair_values(scores_a, residuals_a, scores_b, residuals_b, kinds, scales, unit, values):
    """Fill ``values`` (n_a, n_b) float64 with h_ij, rounded to multiples of ``unit``, a power of two."""
    width = lanes(scores_b)
    buffers = _aligned(3 * _GROUP * width, scores_b).reshape((3, _GROUP * width))
    for at in range(0, scores_b.shape[0], width):
        tile, others = _blocks(scores_b, residuals_b, at, 1)
        count = min(width, scores_b.shape[0] - at)
        for first in range(0, scores_a.shape[0], _GROUP):
            stop = min(scores_a.shape[0], first + _GROUP)
            h = _group(scores_a, residuals_a, first, stop, tile[0], others[0], kinds, scales, buffers)
            for i in range(first, stop):
                for j in range(count):
                    values[i, at + j] = np.rint(np.float64(h[(i - first) * width + j]) / unit) * unit


@inlined
def _lanes_apart(p, q, r, s, distance, far, dots):
    """Distances and dot products of the rows in equal lanes of (K, lanes); the operations of `_meet`."""
    far[:] = 0
    dots[:] = 0
    for c in range(p.shape[0]):
        if distance == TV:
            for j in range(far.size):
                far[j] += abs(p[c, j] - q[c, j])
        else:
            for j in range(far.size):
                gap = p[c, j] - q[c, j]
                far[j] = fma(gap, gap, far[j])
        for j in range(far.size):
            dots[j] = fma(r[c, j], s[c, j], dots[j])


@compiled
def run_sums(scores, residuals_a, residuals_b, length, kinds, scales, sums):
    """Fill ``sums`` (runs,) int64 with the sums of h_ij over i < j within runs of ``length`` rows, in units of 2**-44.

    The arrays are those of `pair_sum`, with runs * length rows. Runs are lanes here, and all their rows in memory:
    meant for short ones (at most 2**9 rows).
    """
    width, terms, classes = lanes(scores), kinds.shape[0], scores.shape[1]
    p = np.empty((length, classes, width), scores.dtype)
    r = np.empty_like(p)
    s = np.empty((terms, length, classes, width), scores.dtype)
    far, dots, h = np.empty(width, scores.dtype), np.empty(width, scores.dtype), np.empty(width, scores.dtype)
    sums[:] = 0
    for at in range(0, sums.size, width):
        count = min(width, sums.size - at)
        for i in range(length):
            row = at * length + i
            _pack(scores, row, length, count, p[i])
            _pack(residuals_a, row, length, count, r[i])
            for t in range(terms):
                _pack(residuals_b[t], row, length, count, s[t, i])
        for i in range(length):
            for j in range(i + 1, length):
                h[:] = 0
                for t in range(terms):
                    _lanes_apart(p[i], p[j], r[i], s[t, j], kinds[t, 1], far, dots)
                    _add_term(far, dots, kinds[t, 0], kinds[t, 1], scales[t], h)
                for run in range(count):
                    sums[at + run] += units(h[run])


@inlined
def _distances_to(p, tile, distance, begin, far):
    """Twice the total variation, or the square of the Euclidean distance, of p from the rows of a tile."""
    far[:] = 0
    whole = p.size - p.size % 4
    for c in range(0, whole, 4):
        p0, p1, p2, p3 = p[c], p[c + 1], p[c + 2], p[c + 3]
        t0, t1, t2, t3 = tile[c, begin:], tile[c + 1, begin:], tile[c + 2, begin:], tile[c + 3, begin:]
        if distance == TV:
            for j in range(far.size):
                far[j] += (abs(p0 - t0[j]) + abs(p1 - t1[j])) + (abs(p2 - t2[j]) + abs(p3 - t3[j]))
        else:
            for j in range(far.size):
                d0, d1, d2, d3 = p0 - t0[j], p1 - t1[j], p2 - t2[j], p3 - t3[j]
                far[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
    for c in range(whole, p.size):
        p0, t0 = p[c], tile[c, begin:]
        if distance == TV:
            for j in range(far.size):
                far[j] += abs(p0 - t0[j])
        else:
            for j in range(far.size):
                d0 = p0 - t0[j]
                far[j] += d0 * d0


@compiled
def distances(scores_a, scores_b, same, distance, low, high, shift, counts, kept):
    """Count the distances of all pairs by the cell (key - low) >> shift of their key, and keep those between ends.

    The key of a distance is the bit pattern of its double, which has the order of the distances. ``counts`` gets
    the pairs of each cell; keys below ``low`` and above ``high`` are not counted. The distances are written to
    ``kept`` until it is full. Returns the number of distances, including those that did not fit.
    """
    count = 0
    for at in range(0, scores_b.shape[0], _TILE):
        stop = min(scores_b.shape[0], at + _TILE)
        tile = np.empty((scores_b.shape[1], stop - at))
        for j in range(stop - at):
            for c in range(scores_b.shape[1]):
                tile[c, j] = scores_b[at + j, c]
        far = np.empty(stop - at)
        for i in range(min(scores_a.shape[0], stop) if same else scores_a.shape[0]):
            begin = max(0, i + 1 - at) if same else 0
            _distances_to(scores_a[i], tile, distance, begin, far[begin:])
            for j in range(begin, far.size):
                d = 0.5 * far[j] if distance == TV else math.sqrt(far[j])
                key = np.float64(d).view(np.int64)
                if low <= key <= high:
                    counts[(key - low) >> shift] += 1
                    if count < kept.size:
                        kept[count] = d
                    count += 1
    return count
