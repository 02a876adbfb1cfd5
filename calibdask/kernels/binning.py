"""Per-bin sums: exact, or weighted."""

import numpy as np

from calibdask.kernels.bins import TILE, UNIFORM_RIGHT, locate
from calibdask.kernels.compiled import (
    FRACTION_BITS,
    ROWS_BEFORE_CARRY,
    add_fixed,
    carry,
    compiled,
    fixed,
    inlined,
    unit,
)

__all__ = ["OFFSETS", "PLAIN", "SQUARES", "bin_sums", "weighted_bin_sums"]

# What is summed besides count, outcome and score.
PLAIN = 0
SQUARES = 1  # score**2 and score * outcome
OFFSETS = 2  # position t within the bin, t * outcome and t * score

_FRACTION = (1 << FRACTION_BITS) - 1
# Up to this many cells, four neighbours add into four copies, so that equal bins in a row do not wait for each other.
_COPIED_CELLS = 512


@inlined
def _columns_of_tile(n_columns, n_bins, size):
    """The column of each score of a tile of whole rows, times the number of bins."""
    columns = np.empty(size, np.int32)
    for e in range(size):
        columns[e] = (e % n_columns) * n_bins
    return columns


@inlined
def _choose_slots(labels, first_class, n_columns, cells, copied, n_cells, slots):
    """Two slots for each cell, the second one for hits; in one of four copies of all cells where ``copied``."""
    if copied:
        for e in range(cells.size):
            slots[e] = 2 * (cells[e] + (e & 3) * n_cells)
    else:
        for e in range(cells.size):
            slots[e] = 2 * cells[e]
    if n_columns == 1:
        for r in range(labels.size):
            slots[r] += np.int32(labels[r] == first_class)
        return
    for r in range(labels.size):
        c = np.int64(labels[r]) - first_class
        if 0 <= c < n_columns:
            slots[r * n_columns + c] += 1


@inlined
def _scatter(slots, terms, sums):
    for e in range(slots.size):
        sums[np.uint64(slots[e])] += terms[e]


@inlined
def _add_scores(scores, slots, terms, table):
    """Add 1 and the score to the slot of each score."""
    counts, sums = table[0], table[1]
    for e in range(scores.size):
        terms[e] = fixed(unit(scores[e]))
    for e in range(scores.size):
        slot = np.uint64(slots[e])
        counts[slot] += 1
        sums[slot] += terms[e]


@inlined
def _add_squares(scores, slots, terms, table):
    for e in range(scores.size):
        x = unit(scores[e])
        terms[e] = fixed(x * x)
    _scatter(slots, terms, table[2])


@inlined
def _offset(x, cell, left, width):
    """Position of a score in its bin; by division, so that it is exactly 1 at the upper edge."""
    return (x - left[cell]) / width[cell]


@inlined
def _look_up_offsets(scores, cells, left, width, offsets, widths):
    """`_offset` of each score."""
    for e in range(scores.size):
        cell = np.uint64(cells[e])
        offsets[e] = left[cell]
        widths[e] = width[cell]
    for e in range(scores.size):
        offsets[e] = (unit(scores[e]) - offsets[e]) / widths[e]


@inlined
def _compute_offsets(scores, cells, n_bins, offsets):
    """`_offset` of each score in uniform bins, whose edges are computed as everywhere else."""
    number = np.float64(n_bins)
    for e in range(scores.size):
        left = cells[e] / number
        offsets[e] = (unit(scores[e]) - left) / ((cells[e] + 1) / number - left)


@inlined
def _add_offsets(scores, offsets, slots, terms, table):
    """Add the position in the bin, and its product with the score."""
    for e in range(scores.size):
        terms[e] = fixed(offsets[e])
    _scatter(slots, terms, table[2])
    for e in range(scores.size):
        terms[e] = fixed(offsets[e] * unit(scores[e]))
    _scatter(slots, terms, table[3])


@inlined
def _carry(table, whole):
    """Move the full units of all sums of ``table`` to ``whole``; the first row counts."""
    for k in range(1, table.shape[0]):
        carry(table[k], whole[k])


@inlined
def _carry_touched(slots, table, whole):
    for k in range(1, table.shape[0]):
        fraction, full = table[k], whole[k]
        for e in range(slots.size):
            slot = np.uint64(slots[e])
            full[slot] += fraction[slot] >> FRACTION_BITS
            fraction[slot] &= _FRACTION


@inlined
def _fold(table, whole, kind, counts, sums):
    """From slots to cells."""
    for slot in range(table.shape[1]):
        cell, hit = (slot >> 1) % counts.shape[1], slot & 1
        counts[0, cell] += table[0, slot]
        counts[1, cell] += hit * table[0, slot]
        _add_to(sums[0, cell], table[1, slot], whole[1, slot])
        if kind == SQUARES:
            _add_to(sums[1, cell], table[2, slot], whole[2, slot])
            _add_to(sums[2, cell], hit * table[1, slot], hit * whole[1, slot])
        elif kind == OFFSETS:
            _add_to(sums[1, cell], table[2, slot], whole[2, slot])
            _add_to(sums[2, cell], hit * table[2, slot], hit * whole[2, slot])
            _add_to(sums[3, cell], table[3, slot], whole[3, slot])


@inlined
def _add_to(words, fraction, whole):
    words[0] += whole
    add_fixed(fraction, words)


@compiled
def bin_sums(scores, labels, first_class, group, n_bins, bins, thresholds, left, width, kind, counts, sums):
    """Add the rows of one block to per-bin counts and exact sums.

    ``scores`` (n, columns); ``labels`` (n,), column c is hit where the label is ``first_class + c``; ``group`` (n,)
    or empty. ``bins`` are uniform, or given: right-closed at ``thresholds`` (groups or 1, columns or 1, n_bins - 1),
    of the dtype of the scores. ``counts`` (2, cells) gets rows and hits, ``sums`` (1 or 3 or 4, cells, 2) the whole
    and the fraction in units of 2**-52.
    """
    n, n_columns = scores.shape
    n_cells = counts.shape[1]
    copied = n_columns == 1 and n_cells <= _COPIED_CELLS
    table = np.zeros((2 + kind, 2 * n_cells * (4 if copied else 1)), np.int64)
    whole = np.zeros(table.shape, np.int64)
    tile = max(1, TILE // n_columns)
    size = tile * n_columns
    columns = _columns_of_tile(n_columns, n_bins, size)
    cells_of_tile, slots_of_tile = np.empty(size, np.int32), np.empty(size, np.int32)
    terms, offsets, widths = np.empty(size, np.int64), np.empty(size), np.empty(size)
    pending = 0
    for start in range(0, n, tile):
        stop = min(n, start + tile)
        values = scores[start:stop].reshape(-1)
        members = group[start:stop] if group.size else group
        cells, slots = cells_of_tile[: values.size], slots_of_tile[: values.size]
        locate(values, n_columns, members, n_bins, bins, thresholds, columns, cells)
        _choose_slots(labels[start:stop], first_class, n_columns, cells, copied, n_cells, slots)
        _add_scores(values, slots, terms, table)
        if kind == SQUARES:
            _add_squares(values, slots, terms, table)
        elif kind == OFFSETS:
            if bins == UNIFORM_RIGHT and n_cells == n_bins:
                _compute_offsets(values, cells, n_bins, offsets)
            else:
                _look_up_offsets(values, cells, left, width, offsets, widths)
            _add_offsets(values, offsets, slots, terms, table)
        if table.shape[1] > slots.size:
            # With many cells, visiting those of the tile is cheaper than visiting all.
            _carry_touched(slots, table, whole)
            continue
        pending += stop - start
        if pending + tile > ROWS_BEFORE_CARRY:
            pending = 0
            _carry(table, whole)
    _carry(table, whole)
    _fold(table, whole, kind, counts, sums)


@compiled
def weighted_bin_sums(
    scores, labels, weights, first_class, group, n_bins, bins, thresholds, left, width, kind, counts, sums
):
    """The weighted counterpart of ``bin_sums``, in float64 and row order.

    ``counts`` (2, cells) gets rows and hits of positive weight; ``sums`` (4 or 6 or 7, cells) the sums of w, w**2,
    w * outcome, w * score and, by ``kind``, of the further products times w.
    """
    n, n_columns = scores.shape
    tile = max(1, TILE // n_columns)
    columns = _columns_of_tile(n_columns, n_bins, tile * n_columns)
    cells = np.empty(tile * n_columns, np.int32)
    for start in range(0, n, tile):
        stop = min(n, start + tile)
        values = scores[start:stop].reshape(-1)
        members = group[start:stop] if group.size else group
        locate(values, n_columns, members, n_bins, bins, thresholds, columns, cells[: values.size])
        e = 0
        for r in range(start, stop):
            w = weights[r]
            label = labels[r] - first_class
            for c in range(n_columns):
                cell = cells[e]
                x = unit(values[e])
                e += 1
                if not w > 0.0:
                    continue
                hit = 1.0 if label == c else 0.0
                counts[0, cell] += 1
                counts[1, cell] += label == c
                sums[0, cell] += w
                sums[1, cell] += w * w
                sums[2, cell] += w * hit
                sums[3, cell] += w * x
                if kind == SQUARES:
                    sums[4, cell] += w * x * x
                    sums[5, cell] += w * x * hit
                elif kind == OFFSETS:
                    t = _offset(x, cell, left, width)
                    sums[4, cell] += w * t
                    sums[5, cell] += w * t * hit
                    sums[6, cell] += w * t * x
