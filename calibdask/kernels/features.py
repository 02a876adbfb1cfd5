"""Random Fourier features of rows, times their residuals, summed."""

import numpy as np

from calibdask.kernels.compiled import ROUNDER_BITS, add_units, compiled, inlined, raw_units

# Rows between two carries: an int64 holds twice as many multiples of 2**-44 of numbers up to 1.
_ROWS_BEFORE_CARRY = 1 << 16
# Rows whose terms are added together, so that sums are read and written less often.
_TOGETHER = 4
_TO_WHOLE = 6755399441055744.0  # 1.5 * 2**52: adding and subtracting it rounds to whole numbers


@inlined
def _waves(row, frequencies, turns, waves):
    """Fill ``waves`` (2 D,) with the cosines and the sines of the phases of a row; frequencies (K, D) in turns."""
    count = turns.size
    turns[:] = 0
    whole = row.size - row.size % 4
    for c in range(0, whole, 4):
        p0, p1, p2, p3 = np.float64(row[c]), np.float64(row[c + 1]), np.float64(row[c + 2]), np.float64(row[c + 3])
        f0, f1, f2, f3 = frequencies[c], frequencies[c + 1], frequencies[c + 2], frequencies[c + 3]
        for d in range(count):
            turns[d] += (p0 * f0[d] + p1 * f1[d]) + (p2 * f2[d] + p3 * f3[d])
    for c in range(whole, row.size):
        p0, f0 = np.float64(row[c]), frequencies[c]
        for d in range(count):
            turns[d] += p0 * f0[d]
    cosines, sines = waves[:count], waves[count:]
    for d in range(count):
        t = turns[d]
        t -= np.floor(t + 0.5)
        # The nearest eighth of a turn but for the sign: t = quarter / 4 + v with |v| <= 1/8.
        quarter = (4.0 * t + _TO_WHOLE) - _TO_WHOLE
        v = 6.283185307179586 * (t - 0.25 * quarter)
        w = v * v
        s = -2.505210838544172e-8 * w + 2.7557319223985893e-6
        s = s * w - 1.984126984126984e-4
        s = s * w + 8.333333333333333e-3
        s = s * w - 0.16666666666666666
        s = v + v * (w * s)
        k = 2.08767569878681e-9 * w - 2.755731922398589e-7
        k = k * w + 2.48015873015873e-5
        k = k * w - 1.388888888888889e-3
        k = k * w + 4.1666666666666664e-2
        k = 1.0 - 0.5 * w + (w * w) * k
        # quarter**2 is 0, 1 or 4: no branches, so that the loop becomes vector instructions.
        square = quarter * quarter
        sign = 1.0 - 0.5 * square
        odd = square == 1.0
        cosines[d] = -quarter * s if odd else sign * k
        sines[d] = quarter * k if odd else sign * s


@inlined
def _carry(held, sums, rows):
    """Move sums of ``rows`` raw units to (..., whole, fraction)."""
    for c in range(held.shape[0]):
        for d in range(held.shape[1]):
            add_units(held[c, d] - rows * ROUNDER_BITS, sums[c, d])
            held[c, d] = 0


@compiled
def feature_sums(scores, residuals, frequencies, sums):
    """Add cos and sin of <frequency, p> times the residual to ``sums`` (K, 2 D, 2) int64.

    ``scores`` and ``residuals`` (n, K); ``frequencies`` (K, D) in turns. Every product is rounded to 2**-44.
    """
    count = frequencies.shape[1]
    turns, waves = np.empty(count), np.empty((_TOGETHER, 2 * count))
    held = np.zeros((scores.shape[1], 2 * count), np.int64)
    waiting = 0
    whole = scores.shape[0] - scores.shape[0] % _TOGETHER
    for i in range(0, whole, _TOGETHER):
        for k in range(_TOGETHER):
            _waves(scores[i + k], frequencies, turns, waves[k])
        wave0, wave1, wave2, wave3 = waves[0], waves[1], waves[2], waves[3]
        for c in range(scores.shape[1]):
            r0, r1 = np.float64(residuals[i, c]), np.float64(residuals[i + 1, c])
            r2, r3 = np.float64(residuals[i + 2, c]), np.float64(residuals[i + 3, c])
            into = held[c]
            for d in range(into.size):
                # The bits of the rounder add up modulo 2**64 and are subtracted when carried.
                near = raw_units(wave0[d] * r0) + raw_units(wave1[d] * r1)
                into[d] += near + (raw_units(wave2[d] * r2) + raw_units(wave3[d] * r3))
        waiting += _TOGETHER
        if waiting == _ROWS_BEFORE_CARRY:
            _carry(held, sums, waiting)
            waiting = 0
    for i in range(whole, scores.shape[0]):
        _waves(scores[i], frequencies, turns, waves[0])
        for c in range(scores.shape[1]):
            for d in range(held.shape[1]):
                held[c, d] += raw_units(waves[0, d] * np.float64(residuals[i, c]))
        waiting += 1
    _carry(held, sums, waiting)


@compiled
def weighted_feature_sums(scores, residuals, weights, frequencies, sums):
    """The weighted counterpart: adds to ``sums`` (K, 2 D) float64."""
    count = frequencies.shape[1]
    turns, waves = np.empty(count), np.empty(2 * count)
    for i in range(scores.shape[0]):
        _waves(scores[i], frequencies, turns, waves)
        for c in range(scores.shape[1]):
            r, into = np.float64(residuals[i, c]) * weights[i], sums[c]
            for d in range(waves.size):
                into[d] += waves[d] * r
