"""Tables of key cells merged, and exact sums of the scores in them by bin."""

import numpy as np

from calibdask.kernels.compiled import FRACTION_BITS, compiled, fixed, inlined

_MASK = (1 << FRACTION_BITS) - 1
_HALF_BITS = FRACTION_BITS // 2
_HALF = (1 << _HALF_BITS) - 1
_WORD_BITS = 32
_WORD = (1 << _WORD_BITS) - 1


@inlined
def _score(key):
    return np.int64(key).view(np.float64)


@inlined
def _add_product(count, value, words):
    """Add count times value, in units of 2**-52, to (whole, fraction).

    Below 2**36 counts of values up to 2**52 no product of halves overflows.
    """
    upper = count * (value >> _HALF_BITS)
    words[0] += upper >> _HALF_BITS
    words[1] += ((upper & _HALF) << _HALF_BITS) + count * (value & _HALF)
    words[0] += words[1] >> FRACTION_BITS
    words[1] &= _MASK


@compiled
def add_scores(keys, rows, offsets, unit_bits, words):
    """Add to ``words`` (entries, 2) rows times the score of a key, and ``offsets`` in units of 2**(unit_bits - 52).

    ``offsets`` (2, entries) are words of 32 bits, the lower one not carried.
    """
    for i in range(keys.size):
        _add_product(rows[i], fixed(_score(keys[i])), words[i])
        # In float32 cells large units come with small upper words.
        _add_product(offsets[0, i] & _WORD, np.int64(1) << unit_bits[i], words[i])
        upper = offsets[1, i] + (offsets[0, i] >> _WORD_BITS)
        _add_product(upper, np.int64(1) << (unit_bits[i] + _WORD_BITS), words[i])


@compiled
def merge_strata(strata_a, ids_a, strata_b, ids_b, at_a, at_b):
    """Positions of the entries of two tables, ordered by stratum and id, in a merged table; returns the size of it.

    Entries that share both go to one. ``at_a`` and ``at_b`` get positions.
    """
    n_a, n_b = ids_a.size, ids_b.size
    i, j, k = 0, 0, -1
    before_stratum, before = np.int64(-1), np.int64(0)
    while i < n_a or j < n_b:
        first = j == n_b
        if i < n_a and j < n_b:
            first = strata_a[i] < strata_b[j] or (strata_a[i] == strata_b[j] and ids_a[i] <= ids_b[j])
        stratum = strata_a[i] if first else strata_b[j]
        this = ids_a[i] if first else ids_b[j]
        if stratum != before_stratum or this != before:
            k += 1
            before_stratum, before = stratum, this
        if first:
            at_a[i] = k
            i += 1
        else:
            at_b[j] = k
            j += 1
    return k + 1


@compiled
def add_entries(
    at, entry_stratum, entry_low, entry_high, entry_rows, entry_hits, entry_score, stratum, low, high, rows, hits, score
):
    """Add the entries of a table at the positions ``at``; hits and sums of scores if there are any."""
    for i in range(at.size):
        k = at[i]
        stratum[k] = entry_stratum[i]
        low[k] = min(low[k], entry_low[i])
        high[k] = max(high[k], entry_high[i])
        rows[k] += entry_rows[i]
    for i in range(entry_hits.size):
        hits[at[i]] += entry_hits[i]
    for i in range(entry_score.shape[0]):
        k = at[i]
        fraction = score[k, 1] + entry_score[i, 1]
        score[k, 0] += entry_score[i, 0] + (fraction >> FRACTION_BITS)
        score[k, 1] = fraction & _MASK


@compiled
def sums_by_bin(low, high, rows, hits, score, thresholds, counts, words):
    """Add the cells of one stratum, in order, to ``counts`` (2, bins) and exact sums ``words`` (bins, 2).

    The bin of a score is the number of thresholds below it. A cell of one key has that score; of others ``score`` is
    the sum. Returns whether the sums could be computed: no cell contains a threshold, and sums are known (whole >= 0).
    """
    j = 0
    for i in range(low.size):
        while j < thresholds.size and thresholds[j] < _score(low[i]):
            j += 1
        if j < thresholds.size and thresholds[j] < _score(high[i]):
            return False
        counts[0, j] += rows[i]
        counts[1, j] += hits[i]
        if low[i] == high[i]:
            _add_product(rows[i], fixed(_score(low[i])), words[j])
        elif score[i, 0] < 0:
            return False
        else:
            words[j, 1] += score[i, 1]
            words[j, 0] += score[i, 0] + (words[j, 1] >> FRACTION_BITS)
            words[j, 1] &= _MASK
    return True
