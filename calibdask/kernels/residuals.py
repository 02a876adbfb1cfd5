"""Residuals e_y - p of rows, and their products with a matrix; each row by itself, in a fixed order of terms."""

from calibdask.kernels.compiled import compiled


@compiled
def residuals(scores, labels, out):
    """Fill ``out`` (n, K) with e_y - p. A label that is no class (a validity check reports it) has no e_y."""
    for i in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            out[i, c] = -scores[i, c]
        label = labels[i]
        if 0 <= label < scores.shape[1]:
            out[i, label] += 1


@compiled
def multiplied(rows, matrix, out):
    """Fill ``out`` (n, K) with the rows times a symmetric matrix (K, K)."""
    for i in range(rows.shape[0]):
        for c in range(rows.shape[1]):
            total = 0.0
            for e in range(rows.shape[1]):
                total += rows[i, e] * matrix[c, e]
            out[i, c] = total


@compiled
def squares(left, right, out):
    """Fill ``out`` (n,) with the sums over terms of <left_i, right_ti>; ``right`` is (terms, n, K)."""
    for i in range(left.shape[0]):
        total = 0.0
        for t in range(right.shape[0]):
            for c in range(left.shape[1]):
                total += left[i, c] * right[t, i, c]
        out[i] = total
