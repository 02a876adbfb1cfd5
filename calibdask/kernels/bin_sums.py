"""Per-bin sums: exact, or weighted."""

import numpy as np

from calibdask.kernels.bin_numbers import TILE, exact_left_bin, exact_right_bin, locate, uniform_bin
from calibdask.kernels.compiled import FRACTION_BITS, ROWS_BEFORE_CARRY, add_fixed, compiled, fixed, inlined, unit
from calibdask.kernels.labels import read_labels

_FRACTION = (1 << FRACTION_BITS) - 1
# Of a row of cells, visited by vector instructions, so many take as long as one that is visited by itself.
_VISITED = 4
# Up to this many cells, four neighbours add into four copies, so that equal bins in a row do not wait for each other.
_COPIED_CELLS = 512


# What is None is left out as numba compiles.
@inlined
def _find_slots(scores, n_bins, uniform, exact, columns, slots, terms):
    """Slot of each score without the outcome, and its fixed-point form; bins as in `locate` for one group."""
    if uniform is not None:
        for e in range(scores.size):
            x = unit(scores[e])
            slots[e] = 2 * (uniform_bin(x, n_bins, uniform) + columns[e])
            terms[e] = fixed(x)
    if exact is not None:
        number = np.float64(n_bins)
        if exact:
            for e in range(scores.size):
                x = unit(scores[e])
                slots[e] = 2 * (exact_right_bin(x, number) + columns[e])
                terms[e] = fixed(x)
        else:
            for e in range(scores.size):
                x = unit(scores[e])
                slots[e] = 2 * (exact_left_bin(x, number) + columns[e])
                terms[e] = fixed(x)


@inlined
def _add_terms(slots, terms, sums):
    for e in range(slots.size):
        sums[np.uint64(slots[e])] += terms[e]


@inlined
def _add_squares(scores, slots, terms, table):
    """Add the square of each score."""
    for e in range(scores.size):
        x = unit(scores[e])
        terms[e] = fixed(x * x)
    _add_terms(slots, terms, table[2])


@inlined
def _look_up_offsets(scores, cells, left, width, offsets, widths):
    """Position of each score in its bin; by division, so that it is exactly 1 at the upper edge."""
    for e in range(scores.size):
        cell = np.uint64(cells[e])
        offsets[e] = left[cell]
        widths[e] = width[cell]
    for e in range(scores.size):
        offsets[e] = (unit(scores[e]) - offsets[e]) / widths[e]


@inlined
def _compute_offsets(scores, cells, n_bins, offsets):
    """Positions of scores within uniform bins, with edges computed exactly as elsewhere."""
    number = np.float64(n_bins)
    for e in range(scores.size):
        left = cells[e] / number
        offsets[e] = (unit(scores[e]) - left) / ((cells[e] + 1) / number - left)


@inlined
def _add_offsets(scores, offsets, slots, terms, table):
    """Add the position in the bin, and its product with the score."""
    for e in range(scores.size):
        terms[e] = fixed(offsets[e])
    _add_terms(slots, terms, table[2])
    for e in range(scores.size):
        terms[e] = fixed(offsets[e] * unit(scores[e]))
    _add_terms(slots, terms, table[3])


@inlined
def _fold(fraction, whole, n_cells, slot, words):
    """Add the sum of a slot to that of its cell."""
    cell = (slot >> 1) % n_cells
    words[cell, 0] += whole[slot]
    add_fixed(fraction[slot], words[cell])


@compiled
def bin_sums(
    scores,
    labels,
    first_class,
    group,
    n_bins,
    uniform,
    exact,
    thresholds,
    squares,
    positions,
    left,
    width,
    counts,
    sums,
):
    """Add the rows of one block to per-bin counts and exact sums.

    ``scores`` (n, columns); packed ``labels`` (n), column c is hit where the label is ``first_class + c``; ``group``
    (n,) or empty; bins as `locate` has them. ``counts`` (2, cells) gets rows and hits, ``sums`` (1 or 3 or 4, cells, 2)
    the whole and the fraction in units of 2**-52: of the score; where ``squares`` is True of score**2 and score *
    outcome; where ``positions`` is True of the position t in the bin, t * outcome and t * score. ``left`` edges and
    widths of all cells are None where they follow from the number of bins. What is None is left out as numba compiles.

    The body is long because a function of its own costs numba a tenth of a second to compile, for each of its types.
    """
    n, n_columns = scores.shape
    n_cells = counts.shape[1]
    copied = n_columns == 1 and n_cells <= _COPIED_CELLS
    # Two slots for each cell, the second one for hits; rows that count, and sums of the score and of what is asked for.
    rows = sums.shape[0] if sums.shape[0] == 1 else sums.shape[0] - 1
    table = np.zeros((1 + rows, 2 * n_cells * (4 if copied else 1)), np.int64)
    whole = np.zeros(table.shape, np.int64)
    counted, added = table[0], table[1]
    tile = max(1, TILE // n_columns)
    size = tile * n_columns
    columns, columns_of_slots = np.empty(size, np.int32), np.empty(size, np.int32)
    for e in range(size):
        columns[e] = (e % n_columns) * n_bins
        columns_of_slots[e] = columns[e] + (e & 3) * n_cells if copied else columns[e]
    # Without thresholds, positions and groups slots follow without cells.
    fused = group.size == 0
    if thresholds is not None:
        fused = False
    if positions is not None:
        fused = False
    cells_of_tile, slots_of_tile = np.empty(size, np.int32), np.empty(size, np.int32)
    terms, offsets, widths = np.empty(size, np.int64), np.empty(size), np.empty(size)
    labels_of_tile = np.empty(tile, np.int64)
    pending = 0
    for start in range(0, n, tile):
        stop = min(n, start + tile)
        values = scores[start:stop].reshape(-1)
        observed = read_labels(labels, start, stop, labels_of_tile)
        cells, slots = cells_of_tile[: values.size], slots_of_tile[: values.size]
        members = group[start:stop] if group.size else group
        if fused:
            _find_slots(values, n_bins, uniform, exact, columns_of_slots, slots, terms)
        else:
            locate(values, n_columns, members, n_bins, uniform, exact, thresholds, columns, cells)
            for e in range(cells.size):
                slots[e] = 2 * (cells[e] + (columns_of_slots[e] - columns[e]))
                terms[e] = fixed(unit(values[e]))
        if n_columns == 1:
            for r in range(observed.size):
                slots[r] += np.int32(observed[r] == first_class)
        else:
            for r in range(observed.size):
                c = observed[r] - first_class
                if 0 <= c < n_columns:
                    slots[r * n_columns + c] += 1
        for e in range(values.size):
            at = np.uint64(slots[e])
            counted[at] += 1
            added[at] += terms[e]
        if squares is not None:
            _add_squares(values, slots, terms, table)
        if positions is not None:
            if left is not None:
                _look_up_offsets(values, cells, left, width, offsets, widths)
            else:
                _compute_offsets(values, cells, n_bins, offsets)
            _add_offsets(values, offsets, slots, terms, table)
        if table.shape[1] > _VISITED * ROWS_BEFORE_CARRY * n_columns:
            # With many cells, visiting those of the tile is cheaper than visiting all, if seldom.
            for k in range(1, table.shape[0]):
                fraction, full = table[k], whole[k]
                for e in range(slots.size):
                    at = np.uint64(slots[e])
                    full[at] += fraction[at] >> FRACTION_BITS
                    fraction[at] &= _FRACTION
            continue
        pending += stop - start
        if pending + tile > ROWS_BEFORE_CARRY:
            pending = 0
            for k in range(1, table.shape[0]):
                fraction, full = table[k], whole[k]
                for i in range(fraction.size):
                    full[i] += fraction[i] >> FRACTION_BITS
                    fraction[i] &= _FRACTION
    for slot in range(table.shape[1]):
        cell, hit = (slot >> 1) % n_cells, slot & 1
        counts[0, cell] += counted[slot]
        counts[1, cell] += hit * counted[slot]
        _fold(added, whole[1], n_cells, slot, sums[0])
        if squares is not None:
            _fold(table[2], whole[2], n_cells, slot, sums[1])
            if hit:
                _fold(added, whole[1], n_cells, slot, sums[2])
        if positions is not None:
            _fold(table[2], whole[2], n_cells, slot, sums[1])
            if hit:
                _fold(table[2], whole[2], n_cells, slot, sums[2])
            _fold(table[3], whole[3], n_cells, slot, sums[3])


@compiled
def weighted_bin_sums(
    scores,
    labels,
    weights,
    first_class,
    group,
    n_bins,
    uniform,
    exact,
    thresholds,
    squares,
    positions,
    left,
    width,
    counts,
    sums,
):
    """The weighted counterpart of ``bin_sums``, in float64 and row order.

    ``counts`` (2, cells) gets rows and hits of positive weight; ``sums`` (4 or 6 or 7, cells) the sums of w, w**2,
    w * outcome, w * score and of the further products times w. ``left`` and ``width`` are given with ``positions``.
    """
    n, n_columns = scores.shape
    tile = max(1, TILE // n_columns)
    columns = np.empty(tile * n_columns, np.int32)
    for e in range(columns.size):
        columns[e] = (e % n_columns) * n_bins
    cells = np.empty(tile * n_columns, np.int32)
    for start in range(0, n, tile):
        stop = min(n, start + tile)
        values = scores[start:stop].reshape(-1)
        members = group[start:stop] if group.size else group
        locate(values, n_columns, members, n_bins, uniform, exact, thresholds, columns, cells[: values.size])
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
                if squares is not None:
                    sums[4, cell] += w * x * x
                    sums[5, cell] += w * x * hit
                if positions is not None:
                    t = (x - left[cell]) / width[cell]
                    sums[4, cell] += w * t
                    sums[5, cell] += w * t * hit
                    sums[6, cell] += w * t * x
