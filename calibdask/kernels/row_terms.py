"""Sums over rows of functions of the score and the outcome."""

import numpy as np

from calibdask.kernels.compiled import add_units, compiled, inlined, unit, units
from calibdask.kernels.logarithm import log_64

SPIEGELHALTER, LOGARITHM = 0, 1

# A sum of this many integers up to 2**51 fits in an int64.
_TOGETHER = 256


@inlined
def _deviation(score, hit, weight):
    """Excess of the Brier score of a row over its expectation, and its variance; within +-1 for a weight of 1."""
    slope = weight * (1.0 - 2.0 * score)
    return slope * (hit - score), slope * slope * score * (1.0 - score)


@inlined
def _surprise(score, hit, smallest):
    """-log(p) / 16 of the observed outcome; at most 47."""
    chosen = score if hit > 0.0 else 1.0 - score
    return -log_64(max(chosen, smallest)) / 16.0


@inlined
def _add_column(kind, column, labels, chosen, smallest, buffers, first_words, second_words):
    """Add the terms of up to 256 rows of one column."""
    firsts, seconds = np.int64(0), np.int64(0)
    scores, hits = buffers[0, : labels.size], buffers[1, : labels.size]
    for r in range(labels.size):
        scores[r] = unit(column[r])
        hits[r] = labels[r] == chosen
    # A loop for each kind: with the choice inside they would not become vector instructions.
    if kind == SPIEGELHALTER:
        for r in range(scores.size):
            first, second = _deviation(scores[r], hits[r], 1.0)
            firsts += units(first)
            seconds += units(second)
    else:
        for r in range(scores.size):
            firsts += units(_surprise(scores[r], hits[r], smallest))
        seconds = scores.size * units(1.0)
    add_units(firsts, first_words)
    add_units(seconds, second_words)


@compiled
def term_sums(kind, scores, labels, first_class, group, smallest, sums):
    """Add the terms of the rows of one block, each rounded to 2**-44, to ``sums`` (2, groups, columns, 2) int64.

    ``scores`` (n, columns); column c has outcome 1 where the label is ``first_class`` + c; ``group`` (n,) or empty.
    """
    step = 1 if group.size else _TOGETHER
    # Columns are copied: strided loops do not become vector instructions.
    buffers = np.empty((2, step))
    for start in range(0, scores.shape[0], step):
        g = group[start] if group.size else 0
        stop = start + step
        for c in range(scores.shape[1]):
            words = sums[0, g, c], sums[1, g, c]
            _add_column(kind, scores[start:stop, c], labels[start:stop], first_class + c, smallest, buffers, *words)


@compiled
def weighted_term_sums(kind, scores, labels, first_class, weights, group, smallest, sums):
    """The weighted counterpart in float64: ``sums`` (2, groups, columns)."""
    for r in range(scores.shape[0]):
        if not weights[r] > 0.0:
            continue
        g = group[r] if group.size else 0
        for c in range(scores.shape[1]):
            hit = np.float64(labels[r] == first_class + c)
            if kind == SPIEGELHALTER:
                first, second = _deviation(unit(scores[r, c]), hit, weights[r])
            else:
                first, second = weights[r] * _surprise(unit(scores[r, c]), hit, smallest), weights[r]
            sums[0, g, c] += first
            sums[1, g, c] += second
