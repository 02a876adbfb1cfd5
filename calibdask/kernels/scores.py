"""Sums of per-row proper scores: Brier and logarithmic."""

import math

import numpy as np

from calibdask.kernels.compiled import ROWS_BEFORE_CARRY, carry, compiled, fixed, inlined, unit

__all__ = ["score_sums", "weighted_score_sums"]

# Rows whose scores are kept while those that share them are added up.
_TILE = 1024


@inlined
def _brier(row, label, vector):
    if vector:
        difference = unit(row[0]) - np.float64(label == 1)
        return difference * difference
    total = 0.0
    for c in range(row.size):
        difference = unit(row[c]) - np.float64(label == c)
        total += difference * difference
    return total


@inlined
def _label_probability(row, label, vector):
    """The score of the class that came; 0 for a label that is no class (a validity check reports it)."""
    if vector:
        return unit(row[0]) if label == 1 else 1.0 - unit(row[0])
    return unit(row[label]) if 0 <= label < row.size else 0.0


@inlined
def _add(value, group, k, sums):
    """Add a value in [0, 2**11) as whole and fraction."""
    whole = np.int64(value)
    sums[k, group, 0] += whole
    sums[k, group, 1] += fixed(value - whole)


@compiled
def score_sums(scores, labels, group, vector, smallest, counts, sums):
    """Add the rows of one block to the exact sums of both scores.

    ``scores`` (n, classes) or, for a ``vector`` of P(y = 1), (n, 1). ``counts`` (2, groups) gets rows and rows whose
    probability was clipped at ``smallest``; ``sums`` (2, groups, 2) the Brier and the logarithmic score.
    """
    for r in range(scores.shape[0]):
        g = group[r] if group.size else 0
        label = np.int64(labels[r])
        p = _label_probability(scores[r], label, vector)
        counts[0, g] += 1
        counts[1, g] += p < smallest
        _add(_brier(scores[r], label, vector), g, 0, sums)
        _add(-math.log(max(p, smallest)), g, 1, sums)
        if (r + 1) % ROWS_BEFORE_CARRY == 0 or r + 1 == scores.shape[0]:
            for k in range(2):
                carry(sums[k, :, 1], sums[k, :, 0])


@compiled
def weighted_score_sums(scores, labels, weights, group, vector, smallest, counts, sums):
    """The weighted counterpart in float64, of all batch elements, whose scores, labels or weights may be shared.

    ``scores``, ``labels`` and ``weights`` (some, n, ...), of which batch element b has number b % some; ``counts``
    (batch, 2, groups); ``sums`` (batch, 3, groups) of w, w * Brier, w * logarithmic score.
    """
    batch, n = counts.shape[0], scores.shape[1]
    apart = max(scores.shape[0], labels.shape[0])
    brier, log, clipped = np.empty(_TILE), np.empty(_TILE), np.empty(_TILE, np.bool_)
    for start in range(0, n, _TILE):
        stop = min(n, start + _TILE)
        for s in range(apart):
            own_scores, own_labels = scores[s % scores.shape[0]], labels[s % labels.shape[0]]
            for r in range(start, stop):
                label = np.int64(own_labels[r])
                p = _label_probability(own_scores[r], label, vector)
                brier[r - start] = _brier(own_scores[r], label, vector)
                log[r - start] = -math.log(max(p, smallest))
                clipped[r - start] = p < smallest
            for b in range(s, batch, apart):
                row = weights[b % weights.shape[0]]
                for r in range(start, stop):
                    w = row[r]
                    if w > 0.0:
                        g = group[r] if group.size else 0
                        counts[b, 0, g] += 1
                        counts[b, 1, g] += clipped[r - start]
                        sums[b, 0, g] += w
                        sums[b, 1, g] += w * brier[r - start]
                        sums[b, 2, g] += w * log[r - start]
