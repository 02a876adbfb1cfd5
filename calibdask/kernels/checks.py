"""Checks of scores and labels: fast while all is well, exact about what is not."""

import numpy as np
from numba import njit, types
from numba.extending import overload

from calibdask.kernels.compiled import compiled, inlined

__all__ = ["LABEL", "NOT_FINITE", "OUT_OF_RANGE", "ROW_SUM", "check_rows", "rough_sum"]

# What can be wrong with a row; one row may have several.
NOT_FINITE, OUT_OF_RANGE, ROW_SUM, LABEL = range(4)

_TILE_ELEMENTS = 8192


@inlined
def _note(kind, row, value, marks, counts, first, values):
    if marks[kind, row]:
        return
    marks[kind, row] = True
    counts[kind] += 1
    if row < first[kind]:
        first[kind] = row
        values[kind] = value


def _is_whole(label):
    """Whether a label is a whole number; nothing to do for integers."""
    raise NotImplementedError


@overload(_is_whole)
def _choose_is_whole(label):
    if isinstance(label, types.Integer):
        return lambda label: True
    return lambda label: label == np.floor(label)


# Terms in any order, so that wide rows are summed by vector instructions: only here, where the sum need not be exact.
@njit(nogil=True, fastmath={"reassoc"})
def rough_sum(row, total):
    """The sum of a row and ``total``, in the type of both."""
    for c in range(row.size):
        total += row[c]
    return total


@inlined
def _fine(scores, labels, n_classes, certain, check_sums):
    """Whether all rows are certainly valid."""
    good = True
    low, high, tolerance, zero = certain
    values = scores.reshape(-1)
    for e in range(values.size):
        good &= (values[e] >= low) & (values[e] <= high)
    if check_sums:
        for r in range(scores.shape[0]):
            good &= abs(rough_sum(scores[r], zero) - 1) <= tolerance
    for r in range(labels.size):
        label = labels[r]
        good &= (label >= 0) & (label < n_classes) & _is_whole(label)
    return good


@inlined
def _inspect(
    scores, labels, weights, start, stop, n_classes, tolerance, sum_tolerance, check_sums, marks, counts, first, values
):
    for r in range(start, stop):
        if weights.size and weights[r] == 0.0:
            continue
        total = 0.0
        not_finite = False
        out_of_range = False
        for c in range(scores.shape[1]):
            x = np.float64(scores[r, c])
            total += x
            if not np.isfinite(x):
                if not not_finite:
                    _note(NOT_FINITE, r, x, marks, counts, first, values)
                not_finite = True
            elif x < -tolerance or x > 1.0 + tolerance:
                if not out_of_range:
                    _note(OUT_OF_RANGE, r, x, marks, counts, first, values)
                out_of_range = True
        if check_sums and not not_finite and abs(total - 1.0) > sum_tolerance:
            _note(ROW_SUM, r, total, marks, counts, first, values)
        label = np.float64(labels[r])
        if not (label >= 0 and label < n_classes and label == np.floor(label)):
            _note(LABEL, r, label, marks, counts, first, values)


@compiled
def check_rows(
    scores, labels, weights, n_classes, tolerance, sum_tolerance, certain, check_sums, marks, counts, first, values
):
    """Count the invalid rows of each kind; keep the first one and its value.

    ``weights`` is (n,) or empty; rows of weight 0 are not checked. ``certain`` are limits within which rows are
    certainly valid: the lowest and the highest score, of the type of the scores, and the difference of the sum of a row
    from 1; and 0, both of the type to add in. ``marks`` (4, n) are the invalid rows already counted; ``counts`` (4,),
    ``first`` (4,) row numbers and ``values`` (4,) are updated.
    """
    tile = max(1, _TILE_ELEMENTS // max(1, scores.shape[1]))
    options = (n_classes, tolerance, sum_tolerance, check_sums, marks, counts, first, values)
    for start in range(0, scores.shape[0], tile):
        stop = min(scores.shape[0], start + tile)
        if not _fine(scores[start:stop], labels[start:stop], n_classes, certain, check_sums):
            _inspect(scores, labels, weights, start, stop, *options)
