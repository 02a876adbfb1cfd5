"""Pairs of rows: the terms h_ij of the kernel calibration error, tile by tile.

h_ij = sum over the terms of a kernel of k(d(p_i, p_j) / bandwidth) * <r_i, M r_j>, with residuals r = e_y - p. Loops
over the later rows of a tile are innermost, so that they become vector instructions, and every h_ij is made by the same
operations in the same order wherever its rows lie; it is then rounded to a multiple of 2**-44 and summed as an integer.
"""

import math

import numpy as np

from calibdask.kernels.compiled import add_units, compiled, inlined, units
from calibdask.kernels.exponential import exp_32, exp_64

__all__ = [
    "EUCLIDEAN",
    "EXPONENTIAL",
    "GAUSSIAN",
    "TV",
    "distances",
    "pair_sum",
    "pair_values",
    "run_sums",
    "weighted_pair_sum",
]

EXPONENTIAL, GAUSSIAN = 0, 1
TV, EUCLIDEAN = 0, 1

# Rows of a tile: its scores and residuals stay in the cache, and its integer sum in 63 bits.
_TILE = 256


@inlined
def _tile(scores, residuals, start, stop):
    """Rows start..stop-1 with the rows last: scores (K, rows) and residuals (terms, K, rows)."""
    rows, classes = stop - start, scores.shape[1]
    tile_scores = np.empty((classes, rows), scores.dtype)
    tile_residuals = np.empty((residuals.shape[0], classes, rows), scores.dtype)
    for j in range(rows):
        for c in range(classes):
            tile_scores[c, j] = scores[start + j, c]
            for t in range(residuals.shape[0]):
                tile_residuals[t, c, j] = residuals[t, start + j, c]
    return tile_scores, tile_residuals


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


@inlined
def _dots_with(r, tile, begin, dots):
    """<r, r_j> for the rows of a tile."""
    dots[:] = 0
    whole = r.size - r.size % 4
    for c in range(0, whole, 4):
        r0, r1, r2, r3 = r[c], r[c + 1], r[c + 2], r[c + 3]
        t0, t1, t2, t3 = tile[c, begin:], tile[c + 1, begin:], tile[c + 2, begin:], tile[c + 3, begin:]
        for j in range(dots.size):
            dots[j] += (r0 * t0[j] + r1 * t1[j]) + (r2 * t2[j] + r3 * t3[j])
    for c in range(whole, r.size):
        r0, t0 = r[c], tile[c, begin:]
        for j in range(dots.size):
            dots[j] += r0 * t0[j]


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
def _row(p, r, tile_scores, tile_residuals, kinds, scales, begin, end, buffers):
    """h_ij of one row and the rows of a tile from ``begin`` to before ``end``; a part of ``buffers`` (3, rows)."""
    far, dots, h = buffers[0, begin:end], buffers[1, begin:end], buffers[2, begin:end]
    h[:] = 0
    for t in range(kinds.shape[0]):
        _distances_to(p, tile_scores, kinds[t, 1], begin, far)
        _dots_with(r, tile_residuals[t], begin, dots)
        _add_term(far, dots, kinds[t, 0], kinds[t, 1], scales[t], h)
    return h


@compiled
def pair_sum(scores_a, residuals_a, scores_b, residuals_b, same, kinds, scales, words):
    """Add the h_ij of all i of ``a`` and j of ``b``, or with ``same`` (a is b) of all i < j.

    ``scores`` (n, K); ``residuals_a`` (n_a, K); ``residuals_b`` (terms, n_b, K), multiplied by each term's matrix;
    ``kinds`` (terms, 2) of profile and distance; ``scales`` (terms,); ``words`` (2,) int64 is added to. |h_ij| <= 2.
    """
    for at in range(0, scores_b.shape[0], _TILE):
        tile_scores, tile_residuals = _tile(scores_b, residuals_b, at, min(scores_b.shape[0], at + _TILE))
        rows = tile_scores.shape[1]
        buffers = np.empty((3, rows), scores_a.dtype)
        total = np.int64(0)
        last = min(scores_a.shape[0], at + rows) if same else scores_a.shape[0]
        for i in range(last):
            begin = max(0, i + 1 - at) if same else 0
            h = _row(scores_a[i], residuals_a[i], tile_scores, tile_residuals, kinds, scales, begin, rows, buffers)
            for j in range(h.size):
                total += units(h[j])
            if i % _TILE == _TILE - 1 or i == last - 1:
                add_units(total, words)
                total = np.int64(0)


@compiled
def run_sums(scores, residuals_a, residuals_b, length, kinds, scales, sums):
    """Fill ``sums`` (runs,) int64 with the sums of h_ij over i < j within runs of ``length`` rows, in units of 2**-44.

    At most 2**9 rows a run; the arrays are those of `pair_sum`, with runs * length rows.
    """
    sums[:] = 0
    step = max(1, _TILE // length)
    for at in range(0, sums.size, step):
        stop = min(sums.size, at + step)
        tile_scores, tile_residuals = _tile(scores, residuals_b, at * length, stop * length)
        buffers = np.empty((3, tile_scores.shape[1]), scores.dtype)
        for i in range(tile_scores.shape[1]):
            run = i // length
            row = at * length + i
            end = (run + 1) * length
            h = _row(scores[row], residuals_a[row], tile_scores, tile_residuals, kinds, scales, i + 1, end, buffers)
            for j in range(h.size):
                sums[at + run] += units(h[j])


@compiled
def weighted_pair_sum(scores_a, residuals_a, weights_a, scores_b, residuals_b, weights_b, same, kinds, scales, total):
    """The weighted counterpart: adds w_i w_j h_ij to ``total`` (1,) float64."""
    for at in range(0, scores_b.shape[0], _TILE):
        tile_scores, tile_residuals = _tile(scores_b, residuals_b, at, min(scores_b.shape[0], at + _TILE))
        rows = tile_scores.shape[1]
        buffers = np.empty((3, rows), scores_a.dtype)
        for i in range(min(scores_a.shape[0], at + rows) if same else scores_a.shape[0]):
            begin = max(0, i + 1 - at) if same else 0
            h = _row(scores_a[i], residuals_a[i], tile_scores, tile_residuals, kinds, scales, begin, rows, buffers)
            row = 0.0
            for j in range(h.size):
                row += weights_b[at + begin + j] * np.float64(h[j])
            total[0] += weights_a[i] * row


@compiled
def pair_values(scores_a, residuals_a, scores_b, residuals_b, kinds, scales, unit, values):
    """Fill ``values`` (n_a, n_b) float64 with h_ij, rounded to multiples of ``unit``, a power of two."""
    tile_scores, tile_residuals = _tile(scores_b, residuals_b, 0, scores_b.shape[0])
    buffers = np.empty((3, scores_b.shape[0]), scores_a.dtype)
    for i in range(scores_a.shape[0]):
        h = _row(scores_a[i], residuals_a[i], tile_scores, tile_residuals, kinds, scales, 0, buffers.shape[1], buffers)
        for j in range(h.size):
            values[i, j] = np.rint(np.float64(h[j]) / unit) * unit


@compiled
def distances(scores_a, scores_b, same, distance, low, high, shift, counts, kept):
    """Count the distances of all pairs by the cell (key - low) >> shift of their key, and keep those between ends.

    The key of a distance is the bit pattern of its double, which has the order of the distances. ``counts`` gets
    the pairs of each cell; keys below ``low`` and above ``high`` are not counted. Distances themselves go to ``kept``
    as far as it has room; returns how many there were.
    """
    found = 0
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
                    if found < kept.size:
                        kept[found] = d
                    found += 1
    return found
