"""The largest scores of each row: the predicted class, and the k largest together."""

from typing import Any

import numpy as np

from calibdask.kernels.compiled import compiled

__all__ = ["top_class", "top_k"]


# From so many classes on, the largest score is found by vector instructions, and then compared with that of the label.
_WIDE = 32


def top_class(scores: Any, labels: Any, top: Any, hits: Any) -> None:
    """Largest score of each row, and whether its class (the lowest one among equals) is the label.

    ``scores`` (n, classes), C-contiguous; ``top`` (n,) of the same dtype and ``hits`` (n,) uint8 are filled.
    """
    if scores.shape[1] < _WIDE:
        _top_of_few(scores, labels, top, hits)
    else:
        # Bit patterns are ordered like scores that are not negative, as the largest one of a valid row is not, and
        # integers are compared by the dozen.
        bits = f"i{scores.dtype.itemsize}"
        _top_of_many(scores.view(bits), labels, top.view(bits), hits)


@compiled
def _top_of_few(scores, labels, top, hits):
    for r in range(scores.shape[0]):
        row = scores[r]
        best = row[0]
        winner = 0
        for c in range(1, row.size):
            # A choice and no branch: which class is ahead cannot be foretold.
            winner = c if row[c] > best else winner
            best = max(best, row[c])
        top[r] = best
        hits[r] = labels[r] == winner


@compiled
def _top_of_many(scores, labels, top, hits):
    for r in range(scores.shape[0]):
        row = scores[r]
        best = row[0]
        for c in range(1, row.size):
            best = max(best, row[c])
        top[r] = best
        label = labels[r]
        hit = False
        if 0 <= label < row.size and row[label] == best:
            hit = True
            for c in range(label):
                hit &= row[c] != best
        hits[r] = hit


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
