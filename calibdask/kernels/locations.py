"""Statistics of rows at test locations, and their covariance for a calibrated model."""

import numpy as np

from calibdask.kernels.compiled import add_units, compiled, inlined, units

# Sums of this many terms of at most 2 fit in an int64.
_ROWS_BEFORE_CARRY = 1 << 16


@inlined
def _carry(held, words):
    for j in range(held.size):
        add_units(held[j], words[j])
        held[j] = 0


@compiled
def location_sums(scores, residuals, kernels, labels, matrices, calibrated, first, second):
    """Add z_j and, for all j and k, z_j z_k or their covariance for ``calibrated`` rows, to ``first`` and ``second``.

    z_j = sum over terms t of kernels[t, i, j] * <residual_i, matrices[t, label_j]>. Given the prediction p, a
    calibrated residual has the covariance diag(p) - p p^T.

    ``scores`` and ``residuals`` (n, K), ``kernels`` (terms, n, m), ``labels`` (m,), ``matrices`` (terms, K, K) float64;
    ``first`` (m, 2) and ``second`` (m * m, 2) int64. Every addend is rounded to a multiple of 2**-44.
    """
    n, classes = scores.shape
    count = labels.size
    along = np.empty((count, classes))
    z, mean = np.empty(count), np.empty(count)
    held_first, held_second = np.zeros(count, np.int64), np.zeros(count * count, np.int64)
    for i in range(n):
        for j in range(count):
            z[j] = 0.0
            mean[j] = 0.0
            for c in range(classes):
                a = 0.0
                for t in range(kernels.shape[0]):
                    a += kernels[t, i, j] * matrices[t, labels[j], c]
                along[j, c] = a
                z[j] += np.float64(residuals[i, c]) * a
                mean[j] += np.float64(scores[i, c]) * a
            held_first[j] += units(z[j])
        for j in range(count):
            for k in range(count):
                value = z[j] * z[k]
                if calibrated:
                    value = -mean[j] * mean[k]
                    for c in range(classes):
                        value += np.float64(scores[i, c]) * (along[j, c] * along[k, c])
                held_second[j * count + k] += units(value)
        if (i + 1) % _ROWS_BEFORE_CARRY == 0 or i + 1 == n:
            _carry(held_first, first)
            _carry(held_second, second)
