"""Scores from logits, one row at a time."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined
from calibdask.kernels.exponential import exp_64

# Below this the exponential counts as 0, like the smallest numbers of float64.
_LEAST = -700.0
# How far the sum of a row of probabilities may differ from 1.
_SUM_TOLERANCE = 1e-3


@inlined
def _exp(x):
    """exp(x) for x <= 0."""
    return exp_64(x) if x > _LEAST else 0.0


@compiled
def softmax(rows):
    """Replace each row of ``rows`` (n, K), float64, by its softmax; a row with NaN or infinity by that.

    Returns the number of rows that lie in [0, 1] and sum to 1, as probabilities do.

    A logit of -inf, of a class that is masked, has the score 0 unless all logits of the row are.

    Terms are added in the order of the classes: a row has the same scores in any block.
    """
    like_probabilities = 0
    for r in range(rows.shape[0]):
        row = rows[r]
        highest, lowest, given, broken = row[0], row[0], 0.0, 0.0
        for c in range(row.size):
            highest = max(highest, row[c])
            lowest = min(lowest, row[c])
            given += row[c]
            if np.isnan(row[c]) or row[c] == np.inf:
                broken = row[c]
        if highest == -np.inf:
            broken = highest
        if broken != 0.0:
            row[:] = broken
            continue
        like_probabilities += lowest >= 0.0 and highest <= 1.0 and abs(given - 1.0) <= _SUM_TOLERANCE
        total = 0.0
        for c in range(row.size):
            row[c] = _exp(row[c] - highest)
            total += row[c]
        for c in range(row.size):
            row[c] /= total
    return like_probabilities


@compiled
def sigmoid(values):
    """Replace each of ``values``, float64, by 1 / (1 + exp(-x)); those that are not finite stay.

    Returns the number of values in [0, 1], as probabilities are.
    """
    like_probabilities = 0
    for e in range(values.size):
        x = values[e]
        like_probabilities += 0.0 <= x <= 1.0
        if np.isfinite(x):
            tail = _exp(-abs(x))
            values[e] = 1.0 / (1.0 + tail) if x >= 0.0 else tail / (1.0 + tail)
    return like_probabilities
