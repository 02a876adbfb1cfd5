"""The largest scores of each row: the predicted class, and the k largest together."""

from typing import Any, NamedTuple

import numpy as np

from calibdask.kernels.checks import rough_sum
from calibdask.kernels.compiled import compiled

# From this many classes on, the largest score is found by vector instructions, then compared with that of the label.
_WIDE = 32


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
    furthest = zero
    for r in range(scores.shape[0]):
        row = bits[r]
        best = signs = row[0]
        for c in range(1, n_classes):
            best = max(best, row[c])
            signs |= row[c]
        top[r] = best
        label = labels[r]
        hit = False
        known = 0 <= label < n_classes
        if known and row[label] == best:
            hit = True
            for c in range(label):
                hit &= row[c] != best
        hits[r] = hit
        off = abs(rough_sum(scores[r], zero) - 1)
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
    largest = np.empty(k, np.float64)
    for r in range(scores.shape[0]):
        largest[:] = -np.inf
        for c in range(scores.shape[1]):
            x = np.float64(scores[r, c])
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
        above = k
        if 0 <= label < scores.shape[1]:
            above = 0
            for c in range(scores.shape[1]):
                if scores[r, c] > scores[r, label] or (scores[r, c] == scores[r, label] and c < label):
                    above += 1
        hits[r] = above < k
