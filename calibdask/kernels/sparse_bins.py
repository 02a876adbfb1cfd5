"""Per-bin sums of many columns, where nearly all scores lie in the first bin: the others are added one by one."""

import numpy as np

from calibdask.kernels.bin_numbers import GIVEN, UNIFORM_RIGHT, uniform_bin
from calibdask.kernels.compiled import ROWS_BEFORE_CARRY, add_fixed, carry, compiled, fixed, inlined, unit
from calibdask.kernels.labels import label_at

# Scores of a row sum to 1, so that few reach beyond the first of many bins where columns are so many.
FEWEST_COLUMNS = 32
_TOGETHER = 32  # columns that are skipped at once


@inlined
def _bin(x, n_bins, bins, thresholds):
    if bins != GIVEN:
        return np.int64(uniform_bin(unit(x), n_bins, bins == UNIFORM_RIGHT))
    j = 0
    for t in range(thresholds.size):
        j += x > thresholds[t]
    return j


@inlined
def _any_above(scores, first):
    above = np.int32(0)
    for c in range(scores.size):
        above |= np.int32(scores[c] > first)
    return above


@inlined
def _add(x, cell, hit, counts, sums):
    counts[0, cell] += 1
    counts[1, cell] += hit
    add_fixed(fixed(unit(x)), sums[cell])


@inlined
def _add_row(row, label, n_bins, bins, thresholds, counts, sums):
    """Add the scores of a row beyond the first bin, and that of the label."""
    first = thresholds[0]
    for at in range(0, row.size, _TOGETHER):
        part = row[at : at + _TOGETHER]
        if _any_above(part, first):
            for c in range(part.size):
                if part[c] > first:
                    cell = (at + c) * n_bins + _bin(part[c], n_bins, bins, thresholds)
                    _add(part[c], cell, np.int64(at + c == label), counts, sums)


@compiled
def sparse_bin_sums(scores, labels, first_class, n_bins, bins, thresholds, counts, sums):
    """Add the rows of one block to per-bin counts and exact sums, as `bin_sums` of `calibdask.kernels.bin_sums`.

    ``thresholds`` (n_bins - 1,), at least one, are those of all columns, of uniform bins too; ``counts`` (2, cells)
    gets rows and hits, ``sums`` (cells, 2) the whole and the fraction. Of the first bins only hits are counted; all
    else about them is what the sums of whole columns leave.
    """
    n, n_columns = scores.shape
    fraction, whole = np.zeros(n_columns, np.int64), np.zeros(n_columns, np.int64)
    hits = np.zeros(n_columns, np.int64)
    beyond = np.zeros(counts.shape, np.int64)
    beyond_sums = np.zeros(sums.shape, np.int64)
    for r in range(n):
        row = scores[r]
        for c in range(row.size):
            fraction[c] += fixed(unit(row[c]))
        if r % ROWS_BEFORE_CARRY == ROWS_BEFORE_CARRY - 1:
            carry(fraction, whole)
        label = label_at(labels, r) - first_class
        _add_row(row, label, n_bins, bins, thresholds, beyond, beyond_sums)
        if 0 <= label < row.size:
            hits[label] += not row[label] > thresholds[0]
    for c in range(n_columns):
        first = c * n_bins
        for cell in range(first + 1, first + n_bins):
            beyond[0, first] -= beyond[0, cell]
            whole[c] -= beyond_sums[cell, 0]
            fraction[c] -= beyond_sums[cell, 1]
        beyond[0, first] += n
        beyond[1, first] = hits[c]
        beyond_sums[first, 0] = whole[c]
        add_fixed(fraction[c], beyond_sums[first])
    for cell in range(counts.shape[1]):
        counts[0, cell] += beyond[0, cell]
        counts[1, cell] += beyond[1, cell]
        sums[cell, 0] += beyond_sums[cell, 0]
        add_fixed(beyond_sums[cell, 1], sums[cell])
