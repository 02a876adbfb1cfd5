"""Validity checks of scores and labels: a fast path for valid rows, exact counts for invalid ones."""

from functools import partial

import numpy as np

from calibdask.kernels.compiled import CompiledKernel, compiled
from calibdask.kernels.labels import read_labels

# What can be wrong with a row; one row may have several.
NOT_FINITE, OUT_OF_RANGE, ROW_SUM, LABEL = range(4)

_TILE_ELEMENTS = 8192
# Scores of a row that are added together: the sum of so many is sharp in single precision too, and a second look at
# them finds them in the first-level cache.
PIECE = 1024


def tile_rows(columns: int) -> int:
    """Rows that are checked, and inspected, together: one where it takes several pieces."""
    return 1 if columns > PIECE else _TILE_ELEMENTS // max(1, columns)


# Terms in any order, so that wide rows are summed by vector instructions: only here, where the sum need not be exact.
@partial(CompiledKernel, inlined=True, fastmath={"reassoc"})
def rough_sum(row, total):
    """The sum of up to `PIECE` scores and ``total``, in the type of both."""
    for c in range(row.size):
        total += row[c]
    return total


@compiled
def first_doubtful(scores, labels, n_classes, low, high, tolerance, zero, start, tile):
    """The first row, from ``start`` on, of a tile in which not all rows are certainly valid; their number if all are.

    ``labels`` are packed. ``low`` and ``high`` are limits of the scores, of their type, and ``tolerance`` of the
    difference of the sum of a row from 1, None where sums are not checked; ``zero`` is of the type to add up to `PIECE`
    scores in.
    """
    n, n_columns = scores.shape
    labels_of_piece = np.empty(PIECE, np.int64)
    for begin in range(start, n, tile):
        end = min(n, begin + tile)
        good = True
        # Slices, whose indices cannot be negative: so their loops become vector instructions.
        rows = scores[begin:end]
        values = rows.reshape(-1)
        step = PIECE if n_columns > PIECE else values.size
        total = 0.0
        for at in range(0, values.size, step):
            piece = values[at : at + step]
            for e in range(piece.size):
                good &= (piece[e] >= low) & (piece[e] <= high)
            if tolerance is not None and n_columns > PIECE:
                total += rough_sum(piece, zero)
        if tolerance is not None:
            if n_columns > PIECE:
                good &= abs(total - 1) <= tolerance
            else:
                for r in range(rows.shape[0]):
                    good &= abs(rough_sum(rows[r], zero) - 1) <= tolerance
        for at in range(begin, end, PIECE):
            observed = read_labels(labels, at, min(end, at + PIECE), labels_of_piece)
            for r in range(observed.size):
                good &= (observed[r] >= 0) & (observed[r] < n_classes)
        if not good:
            return begin
    return n


@compiled
def inspect_rows(
    scores, labels, weights, start, stop, n_classes, tolerance, sum_tolerance, check_sums, marks, counts, first, values
):
    """Count the invalid rows of each kind; keep the first one and its value.

    ``weights`` is (n,) or empty; rows of weight 0 are not checked. ``marks`` (4, n) are the invalid rows already
    counted; ``counts`` (4,), ``first`` (4,) row numbers and ``values`` (4,) are updated.
    """
    found, wrong = np.empty(4), np.empty(4, np.bool_)
    for r in range(start, stop):
        if weights.size and weights[r] == 0.0:
            continue
        total = 0.0
        wrong[:] = False
        for c in range(scores.shape[1]):
            x = np.float64(scores[r, c])
            total += x
            finite = np.isfinite(x)
            kind = OUT_OF_RANGE if finite else NOT_FINITE
            if not wrong[kind] and not (finite and -tolerance <= x <= 1.0 + tolerance):
                wrong[kind] = True
                found[kind] = x
        if check_sums and not wrong[NOT_FINITE] and abs(total - 1.0) > sum_tolerance:
            wrong[ROW_SUM] = True
            found[ROW_SUM] = total
        if not 0 <= labels[r] < n_classes:
            wrong[LABEL] = True
            found[LABEL] = labels[r]
        for kind in range(4):
            if wrong[kind] and not marks[kind, r]:
                marks[kind, r] = True
                counts[kind] += 1
                if r < first[kind]:
                    first[kind] = r
                    values[kind] = found[kind]
