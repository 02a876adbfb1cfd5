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
def row_terms(hits, scores, terms):
    """Fill ``terms`` (3, n) int64 with 1 and, 32 bits up, the hit; and the score s and s (1 - s) in units of 2**-40."""
    for r in range(scores.size):
        s = unit(scores[r])
        terms[0, r] = 1 + np.int64(hits[r]) * _HIT
        terms[1, r] = np.int64(s * _UNIT + 0.5)
        terms[2, r] = np.int64(s * (1.0 - s) * _UNIT + 0.5)


@inlined
def _places(codes, group, sizes, cells, n_cells, start, places):
    """Number of the values of all features of the group and of the cell, for the rows of a tile."""
    places[:] = 0
    for feature in group:
        values, size = codes[feature], np.uint32(sizes[feature])
        for r in range(places.size):
            places[r] = places[r] * size + values[start + r]
    for r in range(places.size):
        places[r] = places[r] * np.uint32(n_cells) + cells[start + r]


@compiled
def fill(codes, group, sizes, cells, n_cells, first, last, terms, table):
    """Add ``terms`` (3, n) of rows from ``first`` to before ``last`` to ``table`` (values times cells, 3).

    Values are the combinations of those of the features of a group, the last one's next to each other. ``codes``
    (features, n) uint8 below ``sizes`` (features,); ``cells`` (n,) uint32 below ``n_cells``.
    """
    places = np.empty(_TILE, np.uint32)
    for start in range(first, last, _TILE):
        here = places[: min(_TILE, last - start)]
        _places(codes, group, sizes, cells, n_cells, start, here)
        for r in range(here.size):
            at = here[r]
            table[at, 0] += terms[0, start + r]
            table[at, 1] += terms[1, start + r]
            table[at, 2] += terms[2, start + r]


@compiled
def fill_weighted(codes, group, sizes, cells, n_cells, first, last, hits, scores, weights, counts, sums):
    """The same with weights.

    ``counts`` (values * cells, 1) takes rows and, 32 bits up, hits; ``sums`` (values * cells, 5) w, w o, w s,
    w**2 s (1 - s) and w**2.
    """
    places = np.empty(_TILE, np.uint32)
    for start in range(first, last, _TILE):
        here = places[: min(_TILE, last - start)]
        _places(codes, group, sizes, cells, n_cells, start, here)
        for r in range(here.size):
            at = here[r]
            w, s, hit = weights[start + r], unit(scores[start + r]), np.int64(hits[start + r])
            counts[at, 0] += 1 + hit * _HIT
            sums[at, 0] += w
            sums[at, 1] += w * hit
            sums[at, 2] += w * s
            sums[at, 3] += w * w * s * (1.0 - s)
            sums[at, 4] += w * w


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
