"""The largest scores of each row: the predicted class, and the k largest together."""

from typing import Any, NamedTuple

import numpy as np

from calibdask.kernels.checks import PIECE, rough_sum
from calibdask.kernels.compiled import compiled, inlined
from calibdask.kernels.labels import label_at, read_labels
from calibdask.kernels.vectors import (
    absolute,
    larger,
    load_own_column,
    load_short,
    minus,
    plus,
    short_lanes,
    smaller,
    splat_short,
    store,
    times,
    where_larger,
)

# From this many classes on, the largest score is found by vector instructions within a row, not over several, and
# compared with that of the label.
MANY = 32
# Rows whose labels are read together.
_ROWS = 1024
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


def top_class(scores: Any, labels: Any, top: Any, hits: Any, classes: Any) -> Extremes:
    """Largest score of each row, and whether its class (the lowest one among equals) is the label.

    ``scores`` (n, classes), C-contiguous; packed ``labels`` (n); ``top`` (n,) of the same dtype, ``hits`` (n,) uint8
    and, where there are fewer than `MANY` classes, ``classes`` (n,) uint8 are filled.
    """
    zero = scores.dtype.type(0)
    if scores.shape[1] < MANY:
        return Extremes(*_top_of_few(scores, labels, top, hits, classes))
    # Bit patterns are ordered like scores that are not negative, as the largest one of a valid row is not, and
    # integers are compared by the dozen.
    bits = f"i{scores.dtype.itemsize}"
    regular, furthest = _top_of_many(scores, scores.view(bits), labels, zero, top.view(bits), hits)
    return Extremes(regular, 0.0, float(top.max(initial=0)), furthest)


# Extremes of lanes: the smallest and the largest score, and the largest distance of a sum from 1; sums of sums times 0.
_LOWEST, _HIGHEST, _FURTHEST, _REGULAR = range(4)


@inlined
def _find_largest(scores, start, tops, winners, extremes):
    """Largest scores of as many rows as a short vector has lanes, and their classes, the lowest among equals."""
    lanes = short_lanes(tops)
    zero, one = splat_short(tops, 0.0), splat_short(tops, 1.0)
    best = load_own_column(scores, start, 0)
    smallest, total, winner = best, best, zero
    for c in range(1, scores.shape[1]):
        x = load_own_column(scores, start, c)
        winner = where_larger(x, best, splat_short(tops, c), winner)
        best, smallest, total = larger(x, best), smaller(x, smallest), plus(total, x)
    store(best, tops, 0)
    store(winner, winners, 0)
    lowest, highest = load_short(extremes, _LOWEST * lanes), load_short(extremes, _HIGHEST * lanes)
    furthest, regular = load_short(extremes, _FURTHEST * lanes), load_short(extremes, _REGULAR * lanes)
    store(smaller(smallest, lowest), extremes, _LOWEST * lanes)
    store(larger(best, highest), extremes, _HIGHEST * lanes)
    store(larger(absolute(minus(total, one)), furthest), extremes, _FURTHEST * lanes)
    # Not 0 where a score is NaN, which comparisons skip, or infinite.
    store(plus(regular, times(total, zero)), extremes, _REGULAR * lanes)


@compiled
def _top_of_few(scores, labels, top, hits, classes):
    n, n_classes = scores.shape
    lanes = short_lanes(scores)
    tops, winners = np.empty(lanes, scores.dtype), np.empty(lanes, scores.dtype)
    extremes = np.zeros(4 * lanes, scores.dtype)
    extremes[:lanes] = 1
    # The last rows, repeated until there are as many as lanes.
    last = np.empty((lanes, n_classes), scores.dtype)
    labels_of_tile = np.empty(_ROWS, np.int64)
    regular = True
    for start in range(0, n, _ROWS):
        stop = min(n, start + _ROWS)
        observed = read_labels(labels, start, stop, labels_of_tile)
        for r in range(0, observed.size, lanes):
            count = min(lanes, observed.size - r)
            if count == lanes:
                _find_largest(scores, start + r, tops, winners, extremes)
            else:
                for i in range(lanes):
                    # Arrays that are assigned cost numba a second: its message about their shapes is compiled as well.
                    for c in range(n_classes):
                        last[i, c] = scores[start + r + min(i, count - 1), c]
                _find_largest(last, 0, tops, winners, extremes)
            # Slices, whose indices cannot be negative: so their loops become vector instructions.
            rows = slice(start + r, start + r + count)
            own_top, own_hits, own_classes, own_labels = top[rows], hits[rows], classes[rows], observed[r : r + count]
            for i in range(count):
                own_top[i] = tops[i]
                own_classes[i] = np.uint8(winners[i])
                own_hits[i] = own_labels[i] == own_classes[i]
        for r in range(observed.size):
            regular &= (observed[r] >= 0) & (observed[r] < n_classes)
    lowest, highest, furthest = extremes[_LOWEST * lanes], extremes[_HIGHEST * lanes], extremes[_FURTHEST * lanes]
    for i in range(lanes):
        regular &= extremes[_REGULAR * lanes + i] == 0
        lowest = min(lowest, extremes[_LOWEST * lanes + i])
        highest = max(highest, extremes[_HIGHEST * lanes + i])
        furthest = max(furthest, extremes[_FURTHEST * lanes + i])
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
        label = label_at(labels, r)
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
def count_predicted(scores, labels, weights, top, hits, classes, counts):
    """Rows by label and predicted class, given what `top_class` found of them, into ``counts`` (classes, classes).

    ``labels`` and ``hits`` are packed. Without ``weights`` (empty) every row counts, else those of positive weight.
    """
    n_classes = scores.shape[1]
    for r in range(scores.shape[0]):
        label = label_at(labels, r)
        if label < 0 or label >= n_classes or (weights.size > 0 and not weights[r] > 0):
            continue
        predicted = label
        if classes.size > 0:
            predicted = np.int64(classes[r])
        elif label_at(hits, r) == 0:
            predicted = 0
            while predicted < n_classes - 1 and scores[r, predicted] != top[r]:
                predicted += 1
        counts[label, predicted] += 1


@compiled
def top_k(scores, labels, k, top, hits):
    """Sum of the k largest scores of each row, and whether the label is among their classes.

    Among equal scores the lower class counts as the larger. ``labels`` are packed; ``top`` (n,) float64 and ``hits``
    (n,) uint8 are filled.
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
        label = label_at(labels, r)
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
