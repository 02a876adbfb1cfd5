"""Order-preserving integer keys of scores, and weights by cell of keys."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined, unit


@inlined
def key_of(score):
    """Bit pattern of the score as float64: non-negative doubles are ordered like their patterns."""
    return np.float64(unit(score) + 0.0).view(np.int64)


@compiled
def score_keys(scores, keys):
    """Keys of ``scores`` (n, columns) into ``keys`` (columns, n)."""
    for r in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            keys[c, r] = key_of(scores[r, c])


@compiled
def weigh_keys(scores, weights, group, shift, smallest, counts, masses):
    """Rows of positive weight and their weight by key cell ``max(key, smallest) >> shift``.

    ``counts`` (2, groups, columns, cells), of the rows and of those whose weight is not a whole number, and ``masses``
    (groups, columns, cells) count cells from that of ``smallest`` on.
    """
    base = smallest >> shift
    for r in range(scores.shape[0]):
        g = group[r] if group.size else 0
        if not weights[r] > 0.0:
            continue
        fractional = np.int64(weights[r] != np.floor(weights[r]))
        for c in range(scores.shape[1]):
            cell = (max(key_of(scores[r, c]), smallest) >> shift) - base
            counts[0, g, c, cell] += 1
            counts[1, g, c, cell] += fractional
            masses[g, c, cell] += weights[r]
