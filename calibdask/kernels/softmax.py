"""The logarithmic score of softmax(W z + b), z the log scores, and its derivatives in W and b, summed over rows."""

import numpy as np

from calibdask.kernels.compiled import ROWS_BEFORE_CARRY, add_fixed, compiled, fixed, inlined
from calibdask.kernels.fused import fma
from calibdask.kernels.logarithm import log_64
from calibdask.kernels.tiles import LANES, carry_lanes, gather, take_logarithms, take_softmax
from calibdask.kernels.vectors import load_short, store

# Half of a term in [-1, 1], added to this, is rounded to 2**-52: terms are summed in units of 2**-51.
_ROUNDER = 1.5
_ROUNDER_BITS = np.float64(_ROUNDER).view(np.int64)


@inlined
def _halves(x):
    """Half of x in [-1, 1] as a multiple of 2**-52."""
    return np.float64(0.5 * x + _ROUNDER).view(np.int64) - _ROUNDER_BITS


@inlined
def _spread(rows, group, start, count, lanes):
    """Numbers (entries,) of the slice of each row, as lanes (entries * lanes,)."""
    for r in range(LANES):
        g = group[start + r] if r < count and group.size else 0
        for c in range(rows.shape[1]):
            lanes[c * LANES + r] = rows[g, c]


@inlined
def _temper(z, tempering, group, start, count, high, over):
    """Replace log scores by log((1 - m) softmax(beta z) + m / K)."""
    classes = z.size // LANES
    for r in range(LANES):
        g = group[start + r] if r < count and group.size else 0
        for c in range(classes):
            z[c * LANES + r] *= tempering[g, 0]
    take_softmax(z, high, over)
    for r in range(LANES):
        g = group[start + r] if r < count and group.size else 0
        for c in range(classes):
            z[c * LANES + r] = (1.0 - tempering[g, 1]) * z[c * LANES + r] + tempering[g, 1] / classes
    take_logarithms(z, 0.0)


@inlined
def _scale(z, coefficients, intercepts, out):
    for e in range(z.size):
        out[e] = coefficients[e] * z[e] + intercepts[e]


@inlined
def _mix(z, coefficients, intercepts, out):
    """Products of a matrix, (K * K * lanes,), and log scores."""
    at = 0
    for c in range(0, z.size, LANES):
        total = load_short(intercepts, c)
        for d in range(0, z.size, LANES):
            total = fma(load_short(coefficients, at), load_short(z, d), total)
            at += LANES
        store(total, out, c)


@inlined
def _copy(a, out):
    for e in range(out.size):
        out[e] = a[e]


@inlined
def _multiply(a, b, out):
    for e in range(out.size):
        out[e] = a[e] * b[e]


@inlined
def _take_depths(z, scale):
    """Replace log scores by -z / scale in [0, 1]."""
    for e in range(z.size):
        z[e] = min(max(-z[e] * scale, 0.0), 1.0)


@inlined
def _take_variances(q, out):
    for e in range(q.size):
        out[e] = q[e] * (1.0 - q[e])


@inlined
def _add_products(a, terms):
    """The entries of a tile, and products of all pairs c <= d of them."""
    at = a.size
    _copy(a, terms[: a.size])
    for c in range(0, a.size, LANES):
        for d in range(c, a.size, LANES):
            for r in range(LANES):
                terms[at + r] = a[c + r] * a[d + r]
            at += LANES


@inlined
def _outer(a, b, out):
    """Products of every entry of one tile with every entry of another, (a's, b's, lanes)."""
    step = b.size
    for c in range(0, a.size, LANES):
        for e in range(0, step, LANES):
            for r in range(LANES):
                out[c * (step // LANES) + e + r] = a[c + r] * b[e + r]


@inlined
def _add_pairs(q, zq, terms):
    """Products of the entries of two classes c < d: q q, zq q, q zq, zq zq."""
    at = 0
    for c in range(0, q.size, LANES):
        for d in range(c + LANES, q.size, LANES):
            for r in range(LANES):
                terms[at + r] = q[c + r] * q[d + r]
                terms[at + LANES + r] = zq[c + r] * q[d + r]
                terms[at + 2 * LANES + r] = q[c + r] * zq[d + r]
                terms[at + 3 * LANES + r] = zq[c + r] * zq[d + r]
            at += 4 * LANES


@inlined
def _take_off_label(labels, start, count, depths, matrix, terms):
    """Subtract observed outcomes from expectations: 1, and the depths."""
    size = depths.size
    for r in range(count):
        y = labels[start + r]
        if 0 <= y < size // LANES:
            terms[y * LANES + r] -= 1.0
            if not matrix:
                terms[size + y * LANES + r] -= depths[y * LANES + r]
                continue
            for d in range(0, size, LANES):
                terms[size + y * size + d + r] -= depths[d + r]


@inlined
def _fill(labels, start, count, depths, q, matrix, full, terms):
    """All terms of eight rows but their scores, (entries * lanes,), within [-1, 1]."""
    size = q.size
    _copy(q, terms[:size])
    if matrix:
        _outer(q, depths, terms[size : size + size * size // LANES])
        rest = terms[size + size * size // LANES :]
        _add_products(q, rest[: rest.size // 2])
        _add_products(depths, rest[rest.size // 2 :])
    else:
        zq, rest = terms[size : 2 * size], terms[2 * size :]
        _multiply(q, depths, zq)
        if full:
            _add_pairs(q, zq, rest[3 * size :])
        _take_variances(q, rest[:size])
        _multiply(rest[:size], depths, rest[size : 2 * size])
        _multiply(rest[size : 2 * size], depths, rest[2 * size : 3 * size])
    _take_off_label(labels, start, count, depths, matrix, terms)


@inlined
def _add_halves(terms, parts):
    for e in range(terms.size):
        parts[e] += _halves(terms[e])


@inlined
def _add_loss(loss, words):
    below = np.floor(loss)
    words[0] += np.int64(below)
    add_fixed(fixed(loss - below), words)


@compiled
def softmax_sums(
    scores, labels, weights, group, smallest, scale, tempering, coefficients, intercepts, full, counts, exact, floats
):
    """Add the rows of one block.

    ``scores`` (n, K); ``weights`` (n,) or empty; ``group`` (n,) or empty; ``tempering`` (groups, 2) or (0, 2): beta and
    m, by which log scores are first replaced by log((1 - m) softmax(beta z) + m / K); ``coefficients`` (groups, K) or
    (groups, K * K), ``intercepts`` (groups, K); ``scale`` brings -z into [0, 1]; ``counts`` (2, groups) gets rows and
    rows with a score below ``smallest``. Of ``exact`` (groups, 1 + entries, 2) int64, in which but the first entries
    are halves, and ``floats`` (groups, 3 + entries), with sums of w and w**2 before all, one is None. Entries: the
    logarithmic score; with r = q - e_y and d = -scale * z, by class r; d r; q(1 - q), d q(1 - q), d**2 q(1 - q); if
    ``full``, products q q, dq q, q dq, dq dq of the classes of each pair. Of a matrix r; r d'; q and the products of
    its pairs c <= d; the same of d.
    """
    n, size = scores.shape[0], scores.shape[1] * LANES
    matrix = coefficients.shape[1] > intercepts.shape[1]
    z, q, high, over = np.empty(size), np.empty(size), np.empty(LANES), np.empty(LANES)
    low, losses = np.empty(LANES), np.empty(LANES)
    factors, shifts = np.empty(coefficients.shape[1] * LANES), np.empty(size)
    entries = 0
    if exact is not None:
        entries = exact.shape[1] - 1
    if floats is not None:
        entries = floats.shape[1] - 3
    terms, parts, tiles = np.empty(entries * LANES), np.zeros(entries * LANES, np.int64), 0
    _spread(coefficients, group[:0], 0, 0, factors)
    _spread(intercepts, group[:0], 0, 0, shifts)
    for start in range(0, n, LANES):
        count = min(LANES, n - start)
        gather(scores, start, count, 0, z)
        for r in range(count):
            low[r] = z[r]
        for c in range(LANES, size, LANES):
            for r in range(count):
                low[r] = min(low[r], z[c + r])
        take_logarithms(z, smallest)
        if tempering.size:
            _temper(z, tempering, group, start, count, high, over)
        if group.size:
            _spread(coefficients, group, start, count, factors)
            _spread(intercepts, group, start, count, shifts)
        if matrix:
            _mix(z, factors, shifts, q)
        else:
            _scale(z, factors, shifts, q)
        for r in range(count):
            y = labels[start + r]
            losses[r] = -q[y * LANES + r] if 0 <= y < scores.shape[1] else 0.0
        take_softmax(q, high, over)
        for r in range(count):
            losses[r] = max(losses[r] + high[r] - log_64(over[r]), 0.0)
        _take_depths(z, scale)
        _fill(labels, start, count, z, q, matrix, full, terms)
        if exact is not None:
            for r in range(count):
                g = group[start + r] if group.size else 0
                counts[0, g] += 1
                counts[1, g] += low[r] < smallest
                _add_loss(losses[r], exact[g, 0])
            if group.size == 0 and count == LANES:
                _add_halves(terms, parts)
                tiles += 1
                if tiles % ROWS_BEFORE_CARRY == 0:
                    carry_lanes(parts, exact[0, 1:])
                continue
            for r in range(count):
                own = exact[group[start + r] if group.size else 0]
                for k in range(entries):
                    add_fixed(_halves(terms[k * LANES + r]), own[1 + k])
        if floats is not None:
            for r in range(count):
                w = weights[start + r]
                if not w > 0.0:
                    continue
                g = group[start + r] if group.size else 0
                counts[0, g] += 1
                counts[1, g] += low[r] < smallest
                floats[g, 0] += w
                floats[g, 1] += w * w
                floats[g, 2] += w * losses[r]
                for k in range(entries):
                    floats[g, 3 + k] += w * terms[k * LANES + r]
    if exact is not None and group.size == 0:
        carry_lanes(parts, exact[0, 1:])
