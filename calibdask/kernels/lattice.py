"""Sums of rows by segment of a lattice of features and by cell of scores, one loop over all subsets of features."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined, unit

# Scores and s (1 - s) are added in units of 2**-40: sums of this many rows fit in an int64.
UNIT_BITS = 40
MOST_ROWS = 1 << 22
_UNIT = np.float64(1 << UNIT_BITS)
# Rows at a time: what is known of them stays in the cache closest to the processor.
_TILE = 2048


@inlined
def _same_beginning(subsets, s, length):
    """Whether the subset before this one has the same first features, and one more."""
    if s == 0 or subsets[s - 1, length] < 0:
        return False
    for k in range(length):
        if subsets[s, k] != subsets[s - 1, k]:
            return False
    return length + 1 == subsets.shape[1] or subsets[s - 1, length + 1] < 0


@inlined
def _begin(codes, start, subset, sizes, length, prefix):
    """Numbers of the values of the first features of a subset, for the rows of a tile."""
    for r in range(prefix.size):
        prefix[r] = 0
    for k in range(length):
        feature = subset[k]
        values = codes[feature]
        for r in range(prefix.size):
            prefix[r] = prefix[r] * sizes[feature] + values[start + r]


@inlined
def _depth(subset):
    depth = 0
    while depth < subset.size and subset[depth] >= 0:
        depth += 1
    return depth


@compiled
def fill(codes, cells, hits, scores, subsets, sizes, base, n_cells, table, spread):
    """Add rows to ``table`` (segments * cells, 2): rows and, 32 bits up, hits; scores in units of 2**-40.

    ``codes`` (features, n) uint8 below ``sizes`` (features,); ``cells`` (n,) below ``n_cells``; ``hits`` (n,) bool;
    ``scores`` (n,), at most ``MOST_ROWS``; ``subsets`` (subsets, depth) of increasing features, then -1, the segments
    of each of which begin at ``base``. ``spread`` (segments,) takes s (1 - s).
    """
    n = scores.size
    prefix = np.zeros(_TILE, np.int64)
    word, score, square = np.empty(_TILE, np.int64), np.empty(_TILE, np.int64), np.empty(_TILE, np.int64)
    for start in range(0, n, _TILE):
        size = min(_TILE, n - start)
        here = prefix[:size]
        for r in range(size):
            s = unit(scores[start + r])
            word[r] = 1 + (np.int64(hits[start + r]) << 32)
            score[r] = np.int64(s * _UNIT + 0.5)
            square[r] = np.int64(s * (1.0 - s) * _UNIT + 0.5)
        for s in range(len(subsets)):
            depth = _depth(subsets[s])
            if depth == 0:
                for r in range(size):
                    at = base[s] * n_cells + cells[start + r]
                    table[at, 0] += word[r]
                    table[at, 1] += score[r]
                    spread[base[s]] += square[r]
                continue
            if not _same_beginning(subsets, s, depth - 1):
                _begin(codes, start, subsets[s], sizes, depth - 1, here)
            last = subsets[s, depth - 1]
            values, count, first = codes[last], sizes[last], base[s]
            for r in range(size):
                segment = first + here[r] * count + values[start + r]
                at = segment * n_cells + cells[start + r]
                table[at, 0] += word[r]
                table[at, 1] += score[r]
                spread[segment] += square[r]


@compiled
def fill_weighted(codes, cells, hits, scores, weights, subsets, sizes, base, n_cells, counts, sums, moments):
    """The same with weights: rows and hits in ``counts`` (segments * cells,), in ``sums`` (segments * cells, 3) those
    of w, w o and w s, and in ``moments`` (segments, 2) of w**2 s (1 - s) and w**2."""
    n = scores.size
    prefix = np.zeros(_TILE, np.int64)
    for start in range(0, n, _TILE):
        size = min(_TILE, n - start)
        here = prefix[:size]
        for s in range(len(subsets)):
            depth = _depth(subsets[s])
            if not (depth > 0 and _same_beginning(subsets, s, depth - 1)):
                _begin(codes, start, subsets[s], sizes, max(0, depth - 1), here)
            for r in range(size):
                segment = base[s]
                if depth > 0:
                    last = subsets[s, depth - 1]
                    segment += here[r] * sizes[last] + codes[last, start + r]
                at = segment * n_cells + cells[start + r]
                w, p = weights[start + r], unit(scores[start + r])
                hit = np.int64(hits[start + r])
                counts[at] += 1 + (hit << 32)
                sums[at, 0] += w
                sums[at, 1] += w * hit
                sums[at, 2] += w * p
                moments[segment, 0] += w * w * p * (1.0 - p)
                moments[segment, 1] += w * w


@compiled
def cut_codes(values, edges, missing, out):
    """Fill ``out`` (n,) uint8 with the number of increasing edges below each value; NaN is ``missing``."""
    for i in range(values.size):
        x = values[i]
        code = 0
        for k in range(edges.size):
            code += np.int64(x > edges[k])
        out[i] = code if x == x else missing


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
