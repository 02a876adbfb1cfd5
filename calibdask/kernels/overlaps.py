"""Sums over the rows that segments share, for each two of them."""

import numpy as np

from calibdask.kernels.compiled import compiled, unit
from calibdask.kernels.lattice import UNIT_BITS, add_words

_UNIT = np.float64(1 << UNIT_BITS)
# Rows at a time: which segments each is in stays in the cache closest to the processor.
_TILE = 256


@compiled
def overlap_terms(hits, scores, terms):
    """Fill ``terms`` (n, 9) int64 in units of 2**-40: 1, v, v**2, v**3, e**2, e**2 v, e**2 v**2, e and e v.

    v = s (1 - s) and e = o - s.
    """
    for r in range(hits.size):
        s = unit(scores[r])
        v, e = s * (1.0 - s), np.float64(hits[r]) - s
        square = e * e
        values = (1.0, v, v * v, v * v * v, square, square * v, square * v * v, e, e * v)
        for t in range(9):
            terms[r, t] = np.int64(np.floor(values[t] * _UNIT + 0.5))


@compiled
def weighted_overlap_terms(hits, scores, weights, terms):
    """Fill ``terms`` (n, 11) float64: w (1, v, v**2), w**2 (v, v**2, v**3, e**2, e**2 v, e**2 v**2), w e and w e v.

    v = s (1 - s) and e = o - s.
    """
    for r in range(hits.size):
        s, w = unit(scores[r]), weights[r]
        v, e = s * (1.0 - s), np.float64(hits[r]) - s
        square, twice = e * e, w * w
        terms[r, 0], terms[r, 1], terms[r, 2] = w, w * v, w * v * v
        terms[r, 3], terms[r, 4], terms[r, 5] = twice * v, twice * v * v, twice * v * v * v
        terms[r, 6], terms[r, 7], terms[r, 8] = twice * square, twice * square * v, twice * square * v * v
        terms[r, 9], terms[r, 10] = w * e, w * e * v


@compiled
def add_overlaps(codes, features, values, terms, sums):
    """Add the ``terms`` (n, k) of rows to ``sums`` (segments, segments, k) of each two segments i <= j that have them.

    Parameters
    ----------
    codes : uint8 (features, n)
    features, values : int64 (segments, depth)
        Of each segment; features of -1 are none.
    """
    count, rows = features.shape[0], codes.shape[1]
    inside, counts = np.empty((_TILE, count), np.int64), np.empty(_TILE, np.int64)
    is_in = np.empty(_TILE, np.uint8)
    for first in range(0, rows, _TILE):
        size = min(_TILE, rows - first)
        counts[:] = 0
        for segment in range(count):
            here = is_in[:size]
            here[:] = 1
            for place in range(features.shape[1]):
                feature, value = features[segment, place], values[segment, place]
                if feature < 0:
                    break
                of_feature = codes[feature, first : first + size]
                for r in range(size):
                    here[r] &= np.uint8(of_feature[r] == value)
            for r in range(size):
                # Written without asking: what is not in the segment is overwritten by the next one.
                inside[r, counts[r]] = segment
                counts[r] += here[r]
        for r in range(size):
            for a in range(counts[r]):
                of_row, shared = terms[first + r], sums[inside[r, a]]
                for b in range(a, counts[r]):
                    into = shared[inside[r, b]]
                    for t in range(of_row.size):
                        into[t] += of_row[t]


@compiled
def carry_overlaps(sums, words):
    """Add ``sums`` (...) int64 in units of 2**-40 to ``words`` (..., 2), and set them to 0."""
    flat, into = sums.reshape(-1), words.reshape(-1, 2)
    for i in range(flat.size):
        add_words(flat[i], into[i])
        flat[i] = 0
