"""Sums over rows of functions of the score and the outcome."""

import numpy as np

from calibdask.kernels.compiled import add_units_at, compiled, inlined, unit, units
from calibdask.kernels.logarithm import log_64

SPIEGELHALTER, LOGARITHM, EXCESS, SATURATED = 0, 1, 2, 3

# A sum of this many integers up to 2**51 fits in an int64.
_TOGETHER = 256


@inlined
def _deviation(score, hit, weight):
    """Excess of the Brier score of a row over its expectation, and its variance; within +-1 for a weight of 1."""
    slope = weight * (1.0 - 2.0 * score)
    return slope * (hit - score), slope * slope * score * (1.0 - score)


@inlined
def _moments(score, hit, weight):
    """Square of the excess of a row, and its third cumulant if the score is right; within +-1 for a weight of 1."""
    slope = weight * (1.0 - 2.0 * score)
    excess = slope * (hit - score)
    return excess * excess, slope * slope * slope * score * (1.0 - score) * (1.0 - 2.0 * score)


@inlined
def _surprise(score, hit, smallest):
    """-log(p) / 16 of the observed outcome; at most 47."""
    chosen = score if hit > 0.0 else 1.0 - score
    return -log_64(max(chosen, smallest)) / 16.0


@inlined
def _is_saturated(score, smallest):
    """1 where the logarithm of the score, or of its complement, is that of the smallest number, else 0."""
    return 1.0 if score < smallest or 1.0 - score < smallest else 0.0


@inlined
def _find_terms(kind, column, labels, chosen, smallest, buffers, firsts, seconds):
    """The terms of up to 256 rows of one column, in units of 2**-44."""
    scores, hits = buffers[0, : labels.size], buffers[1, : labels.size]
    for r in range(labels.size):
        scores[r] = unit(column[r])
        hits[r] = labels[r] == chosen
    # A loop for each kind: with the choice inside they would not become vector instructions.
    if kind == SPIEGELHALTER:
        for r in range(scores.size):
            first, second = _deviation(scores[r], hits[r], 1.0)
            firsts[r], seconds[r] = units(first), units(second)
    elif kind == EXCESS:
        for r in range(scores.size):
            first, second = _moments(scores[r], hits[r], 1.0)
            firsts[r], seconds[r] = units(first), units(second)
    elif kind == SATURATED:
        for r in range(scores.size):
            firsts[r], seconds[r] = units(_is_saturated(scores[r], smallest)), units(1.0)
    else:
        for r in range(scores.size):
            firsts[r], seconds[r] = units(_surprise(scores[r], hits[r], smallest)), units(1.0)


@compiled
def term_sums(kind, scores, labels, first_class, group, smallest, sums):
    """Add the terms of the rows of one block, each rounded to 2**-44, to ``sums`` (2, groups, columns, 2) int64.

    ``scores`` (n, columns); column c has outcome 1 where the label is ``first_class`` + c; ``group`` (n,) or empty.
    """
    n, n_columns = scores.shape
    first_words, second_words = sums[0], sums[1]
    # Columns are copied: strided loops do not become vector instructions.
    buffers, terms = np.empty((2, _TOGETHER)), np.empty((2, _TOGETHER), np.int64)
    for start in range(0, n, _TOGETHER):
        stop = min(n, start + _TOGETHER)
        firsts, seconds = terms[0, : stop - start], terms[1, : stop - start]
        for c in range(n_columns):
            chosen = first_class + c
            _find_terms(kind, scores[start:stop, c], labels[start:stop], chosen, smallest, buffers, firsts, seconds)
            if group.size:
                for r in range(firsts.size):
                    g = group[start + r]
                    add_units_at(firsts[r], first_words, g, c)
                    add_units_at(seconds[r], second_words, g, c)
                continue
            first, second = np.int64(0), np.int64(0)
            for r in range(firsts.size):
                first += firsts[r]
                second += seconds[r]
            add_units_at(first, first_words, 0, c)
            add_units_at(second, second_words, 0, c)


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
            elif kind == EXCESS:
                first, second = _moments(unit(scores[r, c]), hit, weights[r])
            elif kind == SATURATED:
                first, second = weights[r] * _is_saturated(unit(scores[r, c]), smallest), weights[r]
            else:
                first, second = weights[r] * _surprise(unit(scores[r, c]), hit, smallest), weights[r]
            sums[0, g, c] += first
            sums[1, g, c] += second
