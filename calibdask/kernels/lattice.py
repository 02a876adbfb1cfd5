"""Sums of rows by values of a few features and cell of scores; features cut into values, and counted before."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined, unit

# Scores and s (1 - s) are added in units of 2**-40: sums of this many rows fit in an int64.
UNIT_BITS = 40
MOST_ROWS = 1 << 22
_UNIT = np.float64(1 << UNIT_BITS)
_HIT = 1 << 32
# Rows at a time: what is known of them stays in the cache closest to the processor.
_TILE = 1024


@compiled
def row_cells(scores, thresholds, cells, clipped):
    """Fill ``cells`` (n,) uint32 with the number of thresholds below each score, and ``clipped`` with the score.

    ``thresholds`` (2**k - 1,) are increasing; infinite ones are last.
    """
    half = (thresholds.size + 1) // 2
    for r in range(scores.size):
        s = unit(scores[r])
        below, step = 0, half
        while step > 0:
            below += step if thresholds[below + step - 1] < s else 0
            step //= 2
        cells[r] = below
        clipped[r] = s


@compiled
def sort_by_cell(cells, first, starts, order):
    """Fill ``order`` (n,) uint32 with the rows from ``first`` on by cell, those of a cell in their order.

    ``starts`` (cells + 1,) int64 is where each cell begins among them; n is the size of ``order``.
    """
    starts[:] = 0
    for r in range(order.size):
        starts[cells[first + r] + 1] += 1
    for cell in range(1, starts.size):
        starts[cell] += starts[cell - 1]
    next_place = starts[:-1].copy()
    for r in range(order.size):
        cell = cells[first + r]
        order[next_place[cell]] = first + r
        next_place[cell] += 1


@compiled
def sort_codes(codes, order, into):
    """Fill ``into`` (features, n) with the columns of ``codes`` in this order."""
    for feature in range(codes.shape[0]):
        of_feature, sorted_codes = codes[feature], into[feature]
        for r in range(order.size):
            sorted_codes[r] = of_feature[order[r]]


@compiled
def sort_terms(hits, scores, order, terms):
    """Fill ``terms`` (n, 3) int64 in this order of rows.

    With 1 and, 32 bits up, the hit; and the score s and s (1 - s) in units of 2**-40.
    """
    for r in range(order.size):
        s = unit(scores[order[r]])
        terms[r, 0] = 1 + np.int64(hits[order[r]]) * _HIT
        terms[r, 1] = np.int64(s * _UNIT + 0.5)
        terms[r, 2] = np.int64(s * (1.0 - s) * _UNIT + 0.5)


@inlined
def _places(codes, group, sizes, start, places):
    """Number of the values of all features of the group, for the rows of a tile."""
    places[:] = 0
    for feature in group:
        values, size = codes[feature], np.uint32(sizes[feature])
        for r in range(places.size):
            places[r] = places[r] * size + values[start + r]


@compiled
def fill(codes, group, sizes, starts, terms, table):
    """Add ``terms`` (n, 3) of rows sorted by cell to ``table`` (cells, values, 3).

    Values are the combinations of those of the features of a group, the last one's next to each other. ``codes``
    (features, n) uint8 below ``sizes`` (features,). The table of one cell stays in the cache closest to the processor.
    """
    places = np.empty(_TILE, np.uint32)
    for cell in range(table.shape[0]):
        of_cell = table[cell]
        for start in range(starts[cell], starts[cell + 1], _TILE):
            here = places[: min(_TILE, starts[cell + 1] - start)]
            _places(codes, group, sizes, start, here)
            for r in range(here.size):
                at = here[r]
                of_cell[at, 0] += terms[start + r, 0]
                of_cell[at, 1] += terms[start + r, 1]
                of_cell[at, 2] += terms[start + r, 2]


@compiled
def fill_weighted(codes, group, sizes, starts, order, hits, scores, weights, counts, sums):
    """The same with weights.

    ``counts`` (cells, values, 1) takes rows and, 32 bits up, hits; ``sums`` (cells, values, 5) w, w o, w s,
    w**2 s (1 - s) and w**2 of the rows in this order.
    """
    places = np.empty(_TILE, np.uint32)
    for cell in range(counts.shape[0]):
        for start in range(starts[cell], starts[cell + 1], _TILE):
            here = places[: min(_TILE, starts[cell + 1] - start)]
            _places(codes, group, sizes, start, here)
            for r in range(here.size):
                at, row = here[r], order[start + r]
                w, s, hit = weights[row], unit(scores[row]), np.int64(hits[row])
                counts[cell, at, 0] += 1 + hit * _HIT
                sums[cell, at, 0] += w
                sums[cell, at, 1] += w * hit
                sums[cell, at, 2] += w * s
                sums[cell, at, 3] += w * w * s * (1.0 - s)
                sums[cell, at, 4] += w * w


@compiled
def cut_codes(values, edges, missing, out):
    """Fill ``out`` (n,) uint8 with the number of increasing edges below each value; NaN is ``missing``."""
    for start in range(0, values.size, _TILE):
        here, codes = values[start : start + _TILE], out[start : start + _TILE]
        codes[:] = 0
        # One edge after the other: the processor compares many values at a time.
        for edge in edges:
            for i in range(here.size):
                codes[i] += np.uint8(here[i] > edge)
        for i in range(here.size):
            if here[i] != here[i]:
                codes[i] = missing


@compiled
def count_keys(values, shifts, bases, counts, totals):
    """Count the order-preserving keys of values by cell: ``counts`` (windows, cells).

    The cell of a key in a window is key >> shift less its base; what is outside is not counted. ``totals`` (3,): rows
    with a value, rows without, and all bits that any value has.
    """
    present, missing, bits = np.int64(0), np.int64(0), np.int64(0)
    for i in range(values.size):
        x = values[i] + 0.0
        if x != x:
            missing += 1
            continue
        pattern = np.float64(x).view(np.int64)
        bits |= pattern
        present += 1
        # Patterns of negative numbers fall as the numbers rise.
        key = pattern ^ ((pattern >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
        for w in range(shifts.size):
            cell = (key >> shifts[w]) - bases[w]
            if 0 <= cell < counts.shape[1]:
                counts[w, cell] += 1
    totals[0] += present
    totals[1] += missing
    totals[2] |= bits
