"""Scores from logits, one row at a time."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined
from calibdask.kernels.exponential import exp_64

# Below this the exponential counts as 0, like the smallest numbers of float64.
_LEAST = -700.0


@inlined
def _exp(x):
    """exp(x) for x <= 0."""
    return exp_64(x) if x > _LEAST else 0.0


@compiled
def softmax(rows):
    """Replace each row of ``rows`` (n, K), float64, by its softmax; a row with NaN or infinity by that.

    A logit of -inf, of a class that is masked, has the score 0 unless all logits of the row are.

    Terms are added in the order of the classes: a row has the same scores in any block.
    """
    for r in range(rows.shape[0]):
        row = rows[r]
        highest, broken = row[0], 0.0
        for c in range(row.size):
            highest = max(highest, row[c])
            if np.isnan(row[c]) or row[c] == np.inf:
                broken = row[c]
        if highest == -np.inf:
            broken = highest
        if broken != 0.0:
            row[:] = broken
            continue
        total = 0.0
        for c in range(row.size):
            row[c] = _exp(row[c] - highest)
            total += row[c]
        for c in range(row.size):
            row[c] /= total


@compiled
def sigmoid(values):
    """Replace each of ``values``, float64, by 1 / (1 + exp(-x)); those that are not finite stay."""
    for e in range(values.size):
        x = values[e]
        if np.isfinite(x):
            tail = _exp(-abs(x))
            values[e] = 1.0 / (1.0 + tail) if x >= 0.0 else tail / (1.0 + tail)
