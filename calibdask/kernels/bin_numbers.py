"""Bin numbers of scores."""

import numpy as np

from calibdask.kernels.compiled import inlined, unit

# Bins between given thresholds; or between the edges i / n_bins, either end of a bin belonging to it.
GIVEN, UNIFORM_RIGHT, UNIFORM_LEFT = 0, 1, 2

# Scores at a time: buffers of this size stay in the first-level cache.
TILE = 1024
# Products of up to so many bins with a score of single precision are exact in double precision.
MOST_EXACT_BINS = 1 << 16
_COUNTED_THRESHOLDS = 48  # up to here counting all thresholds beats a search


@inlined
def uniform_bin(x, n_bins, right):
    """The bin of x in [0, 1] among those between the edges i / n_bins, closed on the ``right`` or on the left.

    The factor is a few units too large, so that rounding can never make the index too low; it is at most one too high,
    and a comparison with the lower edge of that bin, a division rounded like that of the edges, corrects it. Without a
    look-up, this becomes vector instructions.
    """
    number = np.float64(n_bins)
    j = np.floor(x * (number * (1.0 + 2.0**-50)))
    edge = j / number
    below = (x < edge) | (right & (x == edge) & (j > 0.0))
    return min(np.int32(j) - np.int32(below), np.int32(n_bins - 1))


@inlined
def _uniform_bins(scores, n_bins, right, cells):
    """The uniform bin of each score."""
    for e in range(scores.size):
        cells[e] = uniform_bin(unit(scores[e]), n_bins, right)


@inlined
def exact_right_bin(x, number):
    """The uniform bin, closed on the right, of x in [0, 1] of single precision: products with ``number`` are exact.

    No such score lies strictly between i / number and its rounded value, which is the edge: they would differ by less
    than i / number * 2**-53, and differ by 2**-24 / number of the score at least if at all.
    """
    return np.int32(max(np.ceil(x * number), 1.0)) - np.int32(1)


@inlined
def exact_left_bin(x, number):
    """Bin number for bins closed on the left."""
    return np.int32(min(np.floor(x * number), number - 1.0))


@inlined
def _exact_bins(scores, number, right, cells):
    """The uniform bin of each score of single precision."""
    if right:
        for e in range(scores.size):
            cells[e] = exact_right_bin(unit(scores[e]), number)
    else:
        for e in range(scores.size):
            cells[e] = exact_left_bin(unit(scores[e]), number)


@inlined
def _edge_bins(scores, n_columns, group, thresholds, cells):
    """Bin = number of thresholds below the score; thresholds may differ by column and group."""
    groups, columns, n_thresholds = thresholds.shape
    few = n_thresholds <= _COUNTED_THRESHOLDS
    if few and groups * columns == 1:
        # Some thresholds at a time, which vectorises.
        row = thresholds[0, 0]
        for e in range(scores.size):
            cells[e] = 0
        whole = n_thresholds - n_thresholds % 4
        for t in range(0, whole, 4):
            t0, t1, t2, t3 = row[t], row[t + 1], row[t + 2], row[t + 3]
            for e in range(scores.size):
                x = scores[e]
                cells[e] += np.int32(x > t0) + np.int32(x > t1) + np.int32(x > t2) + np.int32(x > t3)
        for t in range(whole, n_thresholds):
            for e in range(scores.size):
                cells[e] += np.int32(scores[e] > row[t])
        return
    for e in range(scores.size):
        g = group[e // n_columns] if groups > 1 else 0
        own = thresholds[g, e % n_columns if columns > 1 else 0]
        x, low = scores[e], 0
        if few:
            for t in range(n_thresholds):
                low += x > own[t]
        else:
            high = n_thresholds
            while low < high:
                middle = (low + high) >> 1
                if x > own[middle]:
                    low = middle + 1
                else:
                    high = middle
        cells[e] = low


@inlined
def locate(scores, n_columns, group, n_bins, uniform, exact, thresholds, columns, cells):
    """Flat cell (group, column, bin) of each score of a tile of whole rows.

    Of three ways one is not None, and the others are left out as numba compiles: ``uniform`` bins, closed on the right
    if it is True; the same where products of scores with their number are ``exact``; or right-closed bins between
    ``thresholds`` (groups or 1, columns or 1, n_bins - 1), of the dtype of the scores. ``columns`` holds the column of
    each score of a tile, times the number of bins.
    """
    if uniform is not None:
        _uniform_bins(scores, n_bins, uniform, cells)
    if exact is not None:
        _exact_bins(scores, np.float64(n_bins), exact, cells)
    if thresholds is not None:
        _edge_bins(scores, n_columns, group, thresholds, cells)
    if n_columns > 1:
        for e in range(scores.size):
            cells[e] += columns[e]
    if group.size:
        e = 0
        for r in range(scores.size // n_columns):
            first = group[r] * n_columns * n_bins
            for _ in range(n_columns):
                cells[e] += first
                e += 1
