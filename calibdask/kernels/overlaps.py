"""How many rows each two segments share, by cell of scores and outcome."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined
from calibdask.kernels.lattice import add_words

# Rows at a time: which segments each is in stays in the cache closest to the processor.
_TILE = 256


@inlined
def _fill_members(codes, features, values, first, is_in, inside, counts):
    """Fill ``inside`` (tile, segments) with the segments of rows from the first one on, ``counts`` with how many."""
    counts[:] = 0
    for segment in range(features.shape[0]):
        is_in[:] = 1
        for place in range(features.shape[1]):
            if features[segment, place] < 0:
                break
            of_feature = codes[features[segment, place], first : first + is_in.size]
            value = np.uint8(values[segment, place])
            for r in range(is_in.size):
                is_in[r] &= np.uint8(of_feature[r] == value)
        for r in range(is_in.size):
            # Written without asking: what is not in the segment is overwritten by the next one.
            inside[r, counts[r]] = segment
            counts[r] += is_in[r]


@compiled
def add_overlaps(codes, starts, features, values, terms, words):
    """Add the rows that each two segments i <= j share to ``words`` (segments, segments, k, 2) int64.

    Parameters
    ----------
    codes : uint8 (features, n)
        Of rows that are sorted by group, fewer than 2**22.
    starts : int64 (groups + 1,)
        Where each group begins.
    features, values : int64 (segments, depth)
        Conditions of segments; features of -1 are none.
    terms : int64 (groups, k)
        What each row of a group adds, in units of 2**-40, up to 1.
    """
    count = features.shape[0]
    is_in, counts = np.empty(_TILE, np.uint8), np.empty(_TILE, np.uint32)
    inside, shared = np.empty((_TILE, count + 1), np.uint32), np.zeros((count, count), np.uint32)
    for group in range(starts.size - 1):
        if starts[group] == starts[group + 1]:
            continue
        for first in range(starts[group], starts[group + 1], _TILE):
            size = min(_TILE, starts[group + 1] - first)
            _fill_members(codes, features, values, first, is_in[:size], inside, counts[:size])
            for r in range(size):
                members = inside[r, : counts[r]]
                for a in range(members.size):
                    with_a = shared[members[a]]
                    for b in range(a, members.size):
                        with_a[members[b]] += np.uint32(1)
        for i in range(count):
            for j in range(i, count):
                rows = np.int64(shared[i, j])
                if rows:
                    shared[i, j] = 0
                    for t in range(terms.shape[1]):
                        add_words(rows * terms[group, t], words[i, j, t])


@compiled
def add_weighted_overlaps(codes, starts, features, values, weights, squares, terms, sums):
    """Add weighted rows: ``sums`` (segments, segments, k) float64.

    ``weights``, ``squares`` (n,); ``terms`` (groups, k) float64, of weights the first three, of squares the others.
    """
    count = features.shape[0]
    is_in, counts = np.empty(_TILE, np.uint8), np.empty(_TILE, np.uint32)
    inside, shared = np.empty((_TILE, count + 1), np.uint32), np.zeros((count, count, 2))
    for group in range(starts.size - 1):
        if starts[group] == starts[group + 1]:
            continue
        shared[:] = 0
        for first in range(starts[group], starts[group + 1], _TILE):
            size = min(_TILE, starts[group + 1] - first)
            _fill_members(codes, features, values, first, is_in[:size], inside, counts[:size])
            for r in range(size):
                members, w, square = inside[r, : counts[r]], weights[first + r], squares[first + r]
                for a in range(members.size):
                    with_a = shared[members[a]]
                    for b in range(a, members.size):
                        with_a[members[b], 0] += w
                        with_a[members[b], 1] += square
        for i in range(count):
            for j in range(i, count):
                for t in range(terms.shape[1]):
                    sums[i, j, t] += shared[i, j, 0 if t < 3 else 1] * terms[group, t]
