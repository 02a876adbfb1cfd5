"""The largest scores of each row: the predicted class, and the k largest together."""

from typing import Any, NamedTuple

import numpy as np

from calibdask.kernels.checks import PIECE, rough_sum
from calibdask.kernels.compiled import compiled

# From this many classes on, the largest score is found by vector instructions, then compared with that of the label.
_WIDE = 32
# Scores that are compared with the smallest of the k largest together.
_TOGETHER = 256


class Extremes(NamedTuple):
    """Extremes of scores and labels, which may prove all rows valid without another loop over the scores.

    Attributes
    ----------
    regular : bool
        Whether scores are numbers and labels those of classes; where not, the others mean nothing.
    lowest, highest : float
        Scores.
    furthest : float
        Of the sums of rows, added in the type of the scores in any order, from 1.
    """

    regular: bool
    lowest: float
    highest: float
    furthest: float

    def joined(self, other: "Extremes") -> "Extremes":
        """Of the rows of both."""
        return Extremes(
            self.regular and other.regular,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            max(self.furthest, other.furthest),
        )


def top_class(scores: Any, labels: Any, top: Any, hits: Any) -> Extremes:
    """Largest score of each row, and whether its class (the lowest one among equals) is the label.

    ``scores`` (n, classes), C-contiguous; ``top`` (n,) of the same dtype and ``hits`` (n,) int64 are filled.
    """
    zero = scores.dtype.type(0)
    if scores.shape[1] < _WIDE:
        return Extremes(*_top_of_few(scores, labels, zero, top, hits))
    # Bit patterns are ordered like scores that are not negative, as the largest one of a valid row is not, and
    # integers are compared by the dozen.
    bits = f"i{scores.dtype.itemsize}"
    regular, furthest = _top_of_many(scores, scores.view(bits), labels, zero, top.view(bits), hits)
    return Extremes(regular, 0.0, float(top.max(initial=0)), furthest)


@compiled
def _top_of_few(scores, labels, zero, top, hits):
    n_classes = scores.shape[1]
    regular = True
    lowest, highest, furthest = zero + 1, zero, zero
    for r in range(scores.shape[0]):
        row = scores[r]
        best = smallest = total = row[0]
        winner = 0
        for c in range(1, n_classes):
            x = row[c]
            # A select and no branch: which class is ahead is unpredictable.
            winner = c if x > best else winner
            best = max(best, x)
            smallest = min(smallest, x)
            total += x
        top[r] = best
        label = labels[r]
        hits[r] = label == winner
        off = abs(total - 1)
        # False where a score is NaN, which the comparisons above may have skipped.
        regular &= (off >= 0) & (label >= 0) & (label < n_classes)
        lowest, highest, furthest = min(lowest, smallest), max(highest, best), max(furthest, off)
    return regular, lowest, highest, furthest


@compiled
def _top_of_many(scores, bits, labels, zero, top, hits):
    n_classes = scores.shape[1]
    regular = True
    furthest = 0.0
    for r in range(scores.shape[0]):
        row = bits[r]
        best = signs = row[0]
        first = 0
        total = 0.0
        for at in range(0, n_classes, PIECE):
            piece = row[at : at + PIECE]
            before = best
            for c in range(piece.size):
                best = max(best, piece[c])
                signs |= piece[c]
            # The piece that the lowest class with the largest score is in.
            first = at if best > before else first
            total += rough_sum(scores[r, at : at + PIECE], zero)
        top[r] = best
        label = labels[r]
        hit = False
        known = 0 <= label < n_classes
        if known and row[label] == best:
            hit = True
            for c in range(first, label):
                hit &= row[c] != best
        hits[r] = hit
        off = abs(total - 1)
        regular &= known & (signs >= 0) & (off >= 0)
        furthest = max(furthest, off)
    return regular, furthest


@compiled
def count_predicted(scores, labels, weights, top, hits, counts):
    """Rows by label and predicted class, given what `top_class` found of them, into ``counts`` (classes, classes).

    Without ``weights`` (empty) every row counts, else those of positive weight.
    """
    n_classes = scores.shape[1]
    for r in range(scores.shape[0]):
        label = labels[r]
        if label < 0 or label >= n_classes or (weights.size > 0 and not weights[r] > 0):
            continue
        predicted = label
        if hits[r] == 0:
            predicted = 0
            while predicted < n_classes - 1 and scores[r, predicted] != top[r]:
                predicted += 1
        counts[label, predicted] += 1


@compiled
def top_k(scores, labels, k, top, hits):
    """Sum of the k largest scores of each row, and whether the label is among their classes.

    Among equal scores the lower class counts as the larger. ``top`` (n,) float64 and ``hits`` (n,) int64 are filled.
    """
    n_classes = scores.shape[1]
    largest = np.empty(k, scores.dtype)
    for r in range(scores.shape[0]):
        row = scores[r]
        largest[:] = -np.inf
        for at in range(0, n_classes, _TOGETHER):
            piece = row[at : at + _TOGETHER]
            # Of many classes few pieces have one of the largest scores, which vector instructions tell.
            promising = False
            for c in range(piece.size):
                promising |= piece[c] > largest[k - 1]
            if not promising:
                continue
            for c in range(piece.size):
                x = piece[c]
                if x > largest[k - 1]:
                    position = k - 1
                    while position > 0 and largest[position - 1] < x:
                        largest[position] = largest[position - 1]
                        position -= 1
                    largest[position] = x
        total = 0.0
        for i in range(k):
            total += largest[i]
        top[r] = total
        label = labels[r]
        hits[r] = 0
        if 0 <= label < n_classes:
            x, smallest = row[label], largest[k - 1]
            hits[r] = x > smallest
            if x == smallest:
                # Which of several equal scores are among the largest depends on how many are larger, or as large.
                above = 0
                for c in range(n_classes):
                    above += row[c] > x or (row[c] == x and c < label)
                hits[r] = above < k
