"""Sums over rows of functions of the score and the outcome."""

import math

import numpy as np

from calibdask.kernels.compiled import add_units, compiled, inlined, unit, units

__all__ = ["LOGARITHM", "SPIEGELHALTER", "term_sums", "weighted_term_sums"]

SPIEGELHALTER, LOGARITHM = 0, 1


@inlined
def _terms(kind, score, hit, weight, smallest):
    """Two terms of a row, within +-128 for a weight of 1."""
    if kind == SPIEGELHALTER:
        slope = weight * (1.0 - 2.0 * score)
        return slope * (hit - score), slope * slope * score * (1.0 - score)
    chosen = score if hit > 0.0 else 1.0 - score
    return -weight * math.log(max(chosen, smallest)) / 16.0, weight


@compiled
def term_sums(kind, scores, labels, first_class, group, smallest, sums):
    """Add the terms of the rows of one block, each rounded to 2**-44, to ``sums`` (2, groups, columns, 2) int64.

    ``scores`` (n, columns); column c has outcome 1 where the label is ``first_class`` + c; ``group`` (n,) or empty.
    """
    for r in range(scores.shape[0]):
        g = group[r] if group.size else 0
        for c in range(scores.shape[1]):
            hit = np.float64(labels[r] == first_class + c)
            first, second = _terms(kind, unit(scores[r, c]), hit, 1.0, smallest)
            add_units(units(first), sums[0, g, c])
            add_units(units(second), sums[1, g, c])


@compiled
def weighted_term_sums(kind, scores, labels, first_class, weights, group, smallest, sums):
    """The weighted counterpart in float64: ``sums`` (2, groups, columns)."""
    for r in range(scores.shape[0]):
        if not weights[r] > 0.0:
            continue
        g = group[r] if group.size else 0
        for c in range(scores.shape[1]):
            hit = np.float64(labels[r] == first_class + c)
            first, second = _terms(kind, unit(scores[r, c]), hit, weights[r], smallest)
            sums[0, g, c] += first
            sums[1, g, c] += second
