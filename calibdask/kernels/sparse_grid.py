"""Occupied cells of a fine grid: the sums of rows sorted by slice, column, cell and outcome."""

from typing import Any

import numpy as np

from calibdask.kernels.compiled import compiled, inlined
from calibdask.kernels.gridding import OFFSET_BITS, cell_ways, located

# The position of a row within its cell takes one bit more than its unit: the upper end belongs to the cell.
_POSITION_BITS = OFFSET_BITS + 1
# No block has as many rows; the number of a cell and its outcome takes the other bits.
_ROW_BITS = 31
# Mass and offset of a cell with fewer rows than this are one number: the offset takes this many of its bits, one more
# than needed, so that the sum of two such cells fits as well.
PACKED_ROWS = 1 << 15
PACKED_BITS = OFFSET_BITS + 16


@compiled
def sort_by_slice(group, starts, order):
    """Row numbers sorted by slice, in the original order within each slice.

    ``starts`` (groups + 1,), zeros at first, gets the first of each slice, ``order`` (n,) the numbers of the rows.
    """
    for r in range(group.size):
        starts[group[r] + 1] += 1
    for g in range(starts.size - 1):
        starts[g + 1] += starts[g]
    following = starts.copy()
    for r in range(group.size):
        order[following[group[r]]] = r
        following[group[r]] += 1


def occupied_cells(
    scores: Any,
    labels: Any,
    weights: Any,
    first_class: int,
    rows_of_slices: tuple[Any, Any],
    cells: tuple[int, float, float, int],
    at: Any,
    sums: Any,
) -> int:
    """Write the sums of all occupied cells, in order; returns how many there are.

    Parameters
    ----------
    scores, labels : ndarray, shapes (n, columns) and (n,)
        Column c is hit where the label is ``first_class + c``.
    weights : ndarray, shape (n,), or None
    first_class : int
    rows_of_slices : tuple
        ``starts`` and ``order`` of `sort_by_slice`.
    cells : tuple
        Number of cells of [low, 1], low, cells per unit of score, and number of cells or their parts.
    at : ndarray of int64 or uint32, shape (n * columns,)
        Gets (slice, column, cell, outcome) as one number.
    sums : ndarray, shape (2, n * columns), or (4, n * columns) with weights
        Gets the sums that `grid_sums` or `weighted_grid_sums` add, the latter in the order of the rows. Without
        weights it may have the shape (1, n * columns), for both sums as one number: -1 is returned if a cell has too
        many rows.
    """
    n_cells, low, scale, size = cells
    ways = cell_ways(scores, n_cells, low, scale, size)
    if weights is None:
        return int(_counted(scores, labels, first_class, *rows_of_slices, n_cells, low, scale, *ways, size, at, sums))
    return int(
        _weighted(scores, labels, weights, first_class, *rows_of_slices, n_cells, low, scale, *ways, size, at, sums)
    )


@inlined
def _longest(starts):
    # Numba compiles np.diff in half a second.
    longest = 0
    for g in range(starts.size - 1):
        longest = max(longest, starts[g + 1] - starts[g])
    return longest


@compiled
def _counted(scores, labels, first_class, starts, order, n_cells, low, scale, single, double, refined, size, at, sums):
    columns, longest = scores.shape[1], _longest(starts)
    all_values, all_keys = np.empty(longest, scores.dtype), np.empty(longest, np.int64)
    all_cells, all_offsets = np.empty(longest, np.int32), np.empty(longest, np.int32)
    filled = -1
    for g in range(starts.size - 1):
        rows = order[starts[g] : starts[g + 1]]
        values, keys = all_values[: rows.size], all_keys[: rows.size]
        cells, offsets = all_cells[: rows.size], all_offsets[: rows.size]
        for c in range(columns):
            for i in range(rows.size):
                values[i] = scores[rows[i], c]
            located(values, n_cells, low, scale, single, double, refined, cells, offsets)
            for i in range(rows.size):
                hit = np.int64(labels[rows[i]]) == first_class + c
                keys[i] = (np.int64(2 * cells[i] + hit) << _POSITION_BITS) + np.int64(offsets[i])
            keys.sort()
            last, rows_of_cell = np.int64(-1), 0
            for i in range(keys.size):
                key, position = keys[i] >> _POSITION_BITS, keys[i] & ((np.int64(1) << _POSITION_BITS) - 1)
                if key != last:
                    filled += 1
                    at[filled] = (g * columns + c) * size * 2 + key
                    for k in range(sums.shape[0]):
                        sums[k, filled] = 0
                    last, rows_of_cell = key, 0
                rows_of_cell += 1
                if sums.shape[0] == 2:
                    sums[0, filled] += 1
                    sums[1, filled] += position
                elif rows_of_cell < PACKED_ROWS:
                    sums[0, filled] += (np.int64(1) << PACKED_BITS) + position
                else:
                    return -1
    return filled + 1


@compiled
def _weighted(
    scores, labels, weights, first_class, starts, order, n_cells, low, scale, single, double, refined, size, at, sums
):
    columns, longest = scores.shape[1], _longest(starts)
    all_values, all_keys = np.empty(longest, scores.dtype), np.empty(longest, np.int64)
    all_cells, all_offsets = np.empty(longest, np.int32), np.empty(longest, np.int32)
    filled = -1
    for g in range(starts.size - 1):
        rows = order[starts[g] : starts[g + 1]]
        values, keys = all_values[: rows.size], all_keys[: rows.size]
        cells, offsets = all_cells[: rows.size], all_offsets[: rows.size]
        for c in range(columns):
            for i in range(rows.size):
                values[i] = scores[rows[i], c]
            located(values, n_cells, low, scale, single, double, refined, cells, offsets)
            for i in range(rows.size):
                hit = np.int64(labels[rows[i]]) == first_class + c
                keys[i] = (np.int64(2 * cells[i] + hit) << _ROW_BITS) + i
            # Float sums keep the order of the rows, whose numbers are part of the keys.
            keys.sort()
            last = np.int64(-1)
            for e in range(keys.size):
                key, i = keys[e] >> _ROW_BITS, keys[e] & ((np.int64(1) << _ROW_BITS) - 1)
                w = weights[rows[i]]
                if not w > 0.0:
                    continue
                if key != last:
                    filled += 1
                    at[filled] = (g * columns + c) * size * 2 + key
                    for k in range(4):
                        sums[k, filled] = 0.0
                    last = key
                sums[0, filled] += w
                sums[1, filled] += w * offsets[i] * 2.0**-OFFSET_BITS
                sums[2, filled] += w * w
                sums[3, filled] += 1.0
    return filled + 1


@compiled
def count_occupied(at_a, at_b):
    """Length of the union of two lists of occupied cells, both in order."""
    a, b, filled = 0, 0, 0
    while a < at_a.size and b < at_b.size:
        first, second = at_a[a], at_b[b]
        a += first <= second
        b += second <= first
        filled += 1
    return filled + at_a.size - a + at_b.size - b


@compiled
def add_occupied(at_a, sums_a, at_b, sums_b, at, sums):
    """Union of two lists of occupied cells, both in order, in ``at`` and ``sums``, which have its length.

    With one list empty, or no cell in both, sums are unchanged to the last bit.
    """
    a, b, filled = 0, 0, 0
    while a < at_a.size or b < at_b.size:
        from_a = b == at_b.size or (a < at_a.size and at_a[a] <= at_b[b])
        from_b = a == at_a.size or (b < at_b.size and at_b[b] <= at_a[a])
        at[filled] = at_a[a] if from_a else at_b[b]
        for k in range(sums.shape[0]):
            if from_a and from_b:
                sums[k, filled] = sums_a[k, a] + sums_b[k, b]
            elif from_a:
                sums[k, filled] = sums_a[k, a]
            else:
                sums[k, filled] = sums_b[k, b]
        a += from_a
        b += from_b
        filled += 1


@compiled
def occupied_bin_sums(at, sums, unit, size, edge, step, borders, rows, totals):
    """Add occupied cells without weights to bins of whole cells, in their order.

    Parameters
    ----------
    at, sums : ndarray of int64, shapes (n,) and (2, n)
        Places (stratum, cell, outcome) in order; rows, and positions in this ``unit`` of a cell.
    size : int
        Number of cells of a stratum.
    edge, step : ndarray, shape (size,)
        The score at position 0 of each cell, and its change to position 1.
    borders : ndarray of int64, shape (strata, bins + 1)
        The first cell of each bin; a cell belongs to the last bin that begins no later.
    rows, totals : ndarray, shapes (strata, bins) and (4, strata, bins)
        Sums are added: of rows; of outcomes, scores, squared scores (each cell and outcome at its mean) and scores of
        rows with the outcome.
    """
    i, stratum, b = 0, np.int64(-1), 0
    while i < at.size:
        place = at[i] // 2
        cell = place % size
        if place // size != stratum:
            stratum, b = place // size, 0
        while b + 1 < rows.shape[1] and borders[stratum, b + 1] <= cell:
            b += 1
        score, square = 0.0, 0.0
        while i < at.size and at[i] // 2 == place:
            count = np.float64(sums[0, i])
            own = count * edge[cell] + sums[1, i] * unit * step[cell]
            rows[stratum, b] += sums[0, i]
            score += own
            square += own * own / count
            if at[i] % 2 == 1:
                totals[0, stratum, b] += count
                totals[3, stratum, b] += own
            i += 1
        totals[1, stratum, b] += score
        totals[2, stratum, b] += square
