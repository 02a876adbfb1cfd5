"""Scores and labels of induced models."""

import numpy as np

from calibdask.kernels.compiled import compiled


@compiled
def largest(scores, labels, k, seen, codes):
    """The k largest scores of each row in decreasing order, and the rest; the rank of the label, or k.

    Among equal scores the lower class comes first. ``seen`` (n, k) or, with a rest, (n, k + 1); ``codes`` (n,). A label
    that is no class becomes -1.
    """
    top = np.empty(k, np.int64)
    for i in range(scores.shape[0]):
        filled = 0
        for c in range(scores.shape[1]):
            position = filled
            while position > 0 and scores[i, top[position - 1]] < scores[i, c]:
                if position < k:
                    top[position] = top[position - 1]
                position -= 1
            if position < k:
                top[position] = c
                filled = min(k, filled + 1)
        codes[i] = k if 0 <= labels[i] < scores.shape[1] else -1
        rest = 1.0
        for rank in range(k):
            seen[i, rank] = scores[i, top[rank]]
            rest -= seen[i, rank]
            if top[rank] == labels[i]:
                codes[i] = rank
        if seen.shape[1] > k:
            seen[i, k] = max(rest, 0.0)


@compiled
def grouped(scores, labels, group, seen, codes):
    """Sums of the scores of each group of classes, and the group of the label; -1 for a label that is no class."""
    for i in range(scores.shape[0]):
        seen[i, :] = 0.0
        for c in range(scores.shape[1]):
            seen[i, group[c]] += scores[i, c]
        codes[i] = group[labels[i]] if 0 <= labels[i] < scores.shape[1] else -1
