"""The largest scores of each row: the predicted class, and the k largest together."""

import numpy as np

from calibdask.kernels.compiled import compiled

__all__ = ["top_class", "top_k"]


@compiled
def top_class(scores, labels, top, hits):
    """Largest score of each row, and whether its class (the lowest one among equals) is the label.

    ``scores`` (n, classes); ``top`` (n,) of the same dtype and ``hits`` (n,) uint8 are filled.
    """
    for r in range(scores.shape[0]):
        best = scores[r, 0]
        winner = 0
        for c in range(1, scores.shape[1]):
            if scores[r, c] > best:
                best = scores[r, c]
                winner = c
        top[r] = best
        hits[r] = labels[r] == winner


@compiled
def top_k(scores, labels, k, top, hits):
    """Sum of the k largest scores of each row, and whether the label is among their classes.

    Among equal scores the lower class counts as the larger. ``top`` (n,) float64 and ``hits`` (n,) uint8 are filled.
    """
    largest = np.empty(k, np.float64)
    for r in range(scores.shape[0]):
        largest[:] = -np.inf
        for c in range(scores.shape[1]):
            x = np.float64(scores[r, c])
            if x > largest[k - 1]:
                place = k - 1
                while place > 0 and largest[place - 1] < x:
                    largest[place] = largest[place - 1]
                    place -= 1
                largest[place] = x
        total = 0.0
        for i in range(k):
            total += largest[i]
        top[r] = total
        label = labels[r]
        above = k
        if 0 <= label < scores.shape[1]:
            above = 0
            for c in range(scores.shape[1]):
                if scores[r, c] > scores[r, label] or (scores[r, c] == scores[r, label] and c < label):
                    above += 1
        hits[r] = above < k
