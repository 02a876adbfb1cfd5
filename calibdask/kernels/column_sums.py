"""Exact sums of whole columns."""

import numpy as np

from calibdask.kernels.compiled import ROWS_BEFORE_CARRY, add_fixed, add_fixed_at, compiled, fixed, inlined, unit
from calibdask.kernels.labels import read_labels


@inlined
def _add_column(column, observed, hit, counts, sums):
    total, hits = np.int64(0), np.int64(0)
    for r in range(column.size):
        total += fixed(unit(column[r]))
        hits += observed[r] == hit
    counts[0] += column.size
    counts[1] += hits
    add_fixed(total, sums)


@compiled
def column_sums(scores, labels, first_class, group, counts, sums):
    """Add the rows of one block to counts and sums of columns.

    ``scores`` (n, columns); packed ``labels`` (n), column c is hit where the label is ``first_class + c``; ``group``
    (n,) or empty. ``counts`` (groups, columns, 2) gets rows and hits, ``sums`` (groups, columns, 2) the whole and the
    fraction of the scores, each rounded to 2**-52.
    """
    n, n_columns = scores.shape
    words = sums.reshape(-1, 2)
    labels_of_tile = np.empty(ROWS_BEFORE_CARRY, np.int64)
    for start in range(0, n, ROWS_BEFORE_CARRY):
        stop = min(n, start + ROWS_BEFORE_CARRY)
        observed = read_labels(labels, start, stop, labels_of_tile)
        if n_columns == 1 and not group.size:
            # Without gaps between scores: so they become vector instructions.
            _add_column(scores[start:stop].reshape(-1), observed, first_class, counts[0, 0], sums[0, 0])
            continue
        if not group.size:
            for c in range(n_columns):
                _add_column(scores[start:stop, c], observed, first_class + c, counts[0, c], sums[0, c])
            continue
        for r in range(observed.size):
            g, hit = group[start + r], observed[r] - first_class
            for c in range(n_columns):
                counts[g, c, 0] += 1
                counts[g, c, 1] += hit == c
                add_fixed_at(fixed(unit(scores[start + r, c])), words, g * n_columns + c)
