"""Cells of the simplex: numbering rows by their uniform cell, and exact or weighted sums of whole rows by cell."""

import numpy as np

from calibdask.kernels.bin_numbers import uniform_bin
from calibdask.kernels.compiled import FRACTION_BITS, compiled, fixed, inlined, unit

_KEY_BITS = 63  # keys stay non-negative, so that they sort alike as numbers and as bytes
_MASK = (1 << FRACTION_BITS) - 1
_HALF = FRACTION_BITS // 2
_HALF_MASK = (1 << _HALF) - 1


@inlined
def _pack(scores, n_bins, digit_bits, row):
    """Digits of a row of scores, the first class in the highest bits, into ``row[1:]``."""
    per_word = _KEY_BITS // digit_bits
    word = np.int64(0)
    filled = 0
    position = 1
    for c in range(scores.size):
        word = (word << digit_bits) | uniform_bin(unit(scores[c]), n_bins, True)
        filled += 1
        if filled == per_word or c + 1 == scores.size:
            row[position] = word
            position += 1
            word = np.int64(0)
            filled = 0


@inlined
def _hash(row):
    """A well-mixed non-negative number: words multiplied in turn, the high bits folded back (as in splitmix64)."""
    h = np.uint64(0)
    for i in range(row.size):
        h = (h ^ np.uint64(row[i])) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(32)
    return np.int64(h >> np.uint64(1))


@inlined
def _equal(a, b):
    for i in range(a.size):
        if a[i] != b[i]:
            return False
    return True


@inlined
def _copy(a, b):
    # An assignment of arrays costs numba two seconds: its error message about shapes is compiled as well.
    for i in range(a.size):
        b[i] = a[i]


@inlined
def _slot(row, keys, slots):
    """The slot of a key: the one that holds its number, or the free one (-1) where it belongs."""
    slot = _hash(row) & (slots.size - 1)
    while slots[slot] >= 0 and not _equal(keys[slots[slot]], row):
        slot = (slot + 1) & (slots.size - 1)
    return slot


@compiled
def number_cells(scores, weights, group, n_bins, digit_bits, index):
    """Number the rows of one block by their uniform cell, in the order in which cells first appear.

    ``scores`` (n, classes); ``weights`` and ``group`` (n,) or empty; ``index`` (n,) gets the
    number of the cell, -1 for a row without weight. Returns the keys (cells, 1 + words): group, packed digits.
    """
    n, n_classes = scores.shape
    per_word = _KEY_BITS // digit_bits
    row = np.empty(1 + (n_classes + per_word - 1) // per_word, np.int64)
    keys = np.empty((256, row.size), np.int64)
    slots = np.full(1024, -1, np.int64)
    cells = 0
    for r in range(n):
        if weights.size and not weights[r] > 0.0:
            index[r] = -1
            continue
        row[0] = group[r] if group.size else 0
        _pack(scores[r], n_bins, digit_bits, row)
        slot = _slot(row, keys, slots)
        if slots[slot] < 0:
            if cells == keys.shape[0]:
                longer = np.empty((2 * cells, row.size), np.int64)
                for cell in range(cells):
                    _copy(keys[cell], longer[cell])
                keys = longer
            _copy(row, keys[cells])
            slots[slot] = cells
            index[r] = cells
            cells += 1
            if 2 * cells > slots.size:
                slots = np.full(4 * slots.size, -1, np.int64)
                for cell in range(cells):
                    slots[_slot(keys[cell], keys, slots)] = cell
        else:
            index[r] = slots[slot]
    return keys[:cells].copy()


@inlined
def _product(a, b):
    """The product of two numbers up to 2**52 as (high, low): high * 2**52 + low, low < 2**52."""
    a1, a0 = a >> _HALF, a & _HALF_MASK
    b1, b0 = b >> _HALF, b & _HALF_MASK
    middle = a1 * b0 + a0 * b1
    low = ((middle & _HALF_MASK) << _HALF) + a0 * b0
    return a1 * b1 + (middle >> _HALF) + (low >> FRACTION_BITS), low & _MASK


@inlined
def _add(words, units):
    """Add units of the second word, up to 2**52, and carry: rows of one cell may come in any number."""
    total = words[1] + units
    words[0] += total >> FRACTION_BITS
    words[1] = total & _MASK


@compiled
def cell_sums(scores, labels, index, rows, outcome, score, second):
    """Add the rows of one block to exact sums by cell.

    ``scores`` (n, classes); ``labels`` (n,); ``index`` (n,) the cell of each row, -1 for none. ``rows`` (cells,) and
    ``outcome`` (cells, classes) get counts; ``score`` (cells, classes, 2) the whole and the fraction in units of
    2**-52; ``second`` (cells, classes or 0, 2, 2) the squares of the scores as rounded to that unit, themselves not
    rounded: two such sums, the second one in units of 2**-52.
    """
    n_classes = scores.shape[1]
    for r in range(scores.shape[0]):
        cell = index[r]
        if cell < 0:
            continue
        rows[cell] += 1
        # A label that is no class is reported by the validity check of the same pass.
        if 0 <= labels[r] < n_classes:
            outcome[cell, labels[r]] += 1
        for c in range(n_classes):
            q = fixed(unit(scores[r, c]))
            _add(score[cell, c], q)
            if second.size:
                high, low = _product(q, q)
                _add(second[cell, c, 0], high)
                _add(second[cell, c, 1], low)


@compiled
def add_words(sums, at, total):
    """Add exact ``sums`` (cells, terms, 2) in place to ``total`` (more cells, terms, 2) at ``at`` (cells,)."""
    for cell in range(at.size):
        for i in range(sums.shape[1]):
            total[at[cell], i, 0] += sums[cell, i, 0]
            _add(total[at[cell], i], sums[cell, i, 1])


@compiled
def weighted_cell_sums(scores, labels, weights, index, rows, weight, outcome, score, second):
    """The weighted counterpart of ``cell_sums``, in float64 and row order.

    ``weight`` (cells,) gets sums of w, ``outcome`` and ``score`` (cells, classes) of w * outcome and w * score,
    ``second`` (cells, classes or 0) of w * (score - mean)**2, updated row by row (West 1979): the difference of raw
    moments would lose all digits where scores are nearly equal.
    """
    n_classes = scores.shape[1]
    mean = np.zeros(second.shape)
    for r in range(scores.shape[0]):
        cell = index[r]
        if cell < 0:
            continue
        w = weights[r]
        rows[cell] += 1
        weight[cell] += w
        share = w / weight[cell]
        if 0 <= labels[r] < n_classes:
            outcome[cell, labels[r]] += w
        for c in range(n_classes):
            x = unit(scores[r, c])
            score[cell, c] += w * x
            if second.size:
                difference = x - mean[cell, c]
                mean[cell, c] += share * difference
                second[cell, c] += w * difference * (x - mean[cell, c])


@compiled
def deviations(rows, score, second, deviation):
    """Standard deviations (divisor n) of scores by cell and class, rounded only at the end.

    From the ``rows``, ``score`` and ``second`` of ``cell_sums``; ``deviation`` (cells, classes) is filled.
    With q the scores in units of 2**-52, m a whole number next to their mean and r = sum q - n m:
    sum (q - m)**2 = sum q**2 - m (sum q + r) is exact in words of 52 bits, and small where the scores are nearly equal.
    """
    for cell in range(rows.size):
        n = rows[cell]
        for c in range(score.shape[1]):
            whole, fraction = score[cell, c, 0], score[cell, c, 1]
            m = min(np.int64((whole / n) * 2.0**52 + fraction / n), np.int64(1) << FRACTION_BITS)
            # Exact although both terms overflow: the difference is of the order of n.
            r = (whole << FRACTION_BITS) + fraction - n * m
            t = fraction + r
            high, low = _product(m, t & _MASK)
            carried, middle = _product(m, whole + (t >> FRACTION_BITS))
            units = second[cell, c, 1, 1] - low
            middle_units = second[cell, c, 0, 1] + second[cell, c, 1, 0] - high - middle + (units >> FRACTION_BITS)
            high_units = second[cell, c, 0, 0] - carried + (middle_units >> FRACTION_BITS)
            total = (high_units * 2.0**52 + (middle_units & _MASK)) * 2.0**52 + (units & _MASK)
            deviation[cell, c] = np.sqrt(max(0.0, (total - np.float64(r) * np.float64(r) / n) / n)) * 2.0**-52
