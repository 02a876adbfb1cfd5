"""Fine cells: counts and positions within the cell, by outcome, from which linear binning and moments follow."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined, unit

__all__ = ["OFFSET_BITS", "grid_sums", "weighted_grid_sums"]

# Positions within a cell are counted in units of 2**-30, so that plain int64 sums hold 2**33 rows of one cell.
OFFSET_BITS = 30
_TILE = 2048


@inlined
def _locate(scores, bounds, low, scale, cells, offsets):
    """The cell of each score, and its position within from the nearer end of the support, in units of 2**-30.

    ``bounds`` are the edges of the cells, the first one -1: a score belongs to the cell whose bounds it lies between,
    the upper one included. The index is computed a few units too large and settled by comparing.
    """
    n_cells = np.int32(bounds.size - 1)
    last = n_cells - 1
    for e in range(scores.size):
        x = unit(scores[e])
        t = max((x - low) * scale, 0.0)
        j = min(np.int32(t * (1.0 + 2.0**-50)), n_cells)
        j = max(j - np.int32(x <= bounds[j]), np.int32(0))
        # From the nearer end, so that the positions of scores next to 1 are as exact as those next to 0.
        position = t - j if 2 * j < n_cells else (1.0 - x) * scale - (last - j)
        cells[e] = j
        offsets[e] = np.int32(min(max(position, 0.0), 1.0) * 2.0**OFFSET_BITS + 0.5)


@inlined
def _refine(starts, parts, cells, offsets):
    """From the numbers of cells to those of their parts.

    Cells next to the ends of the support have several parts: ``parts[k]`` for the k-th cell from the nearer end, equal
    ones but in the outermost cell, which is halved again and again towards the end, every half having ``parts[0]``.
    """
    last_cell = starts.size - 2
    for e in range(cells.size):
        j = cells[e]
        from_end = min(j, last_cell - j)
        cells[e] = starts[j]
        if from_end < parts.size:
            offset = np.int64(max(offsets[e], 1) - 1)  # a score on the border belongs to the part next to the end
            last_part = starts[j + 1] - starts[j] - 1
            number = parts[from_end]
            if from_end > 0:
                part = min(offset * number >> OFFSET_BITS, last_part)
            else:
                part = _halved(offset, number, last_part)
            cells[e] += part if 2 * j <= last_cell else last_part - part


@inlined
def _halved(offset, number, last):
    """Part of the outermost cell: part 0 next to the end, then ``number`` parts for every doubling of the distance."""
    halves = last // number
    octave = 0  # 0: the outer half of the cell
    while octave < halves and offset < (np.int64(1) << (OFFSET_BITS - 1 - octave)):
        octave += 1
    if octave == halves:
        return 0
    begin = np.int64(1) << (OFFSET_BITS - 1 - octave)
    return last - number * (octave + 1) + 1 + ((offset - begin) * number >> (OFFSET_BITS - 1 - octave))


@inlined
def _place(labels, first_class, group, columns, size, cells):
    """From cells to places in the table of (group, column, cell, outcome)."""
    if columns == 1 and group.size == 0:
        for e in range(cells.size):
            cells[e] = 2 * cells[e] + np.int64(labels[e] == first_class)
        return
    e = 0
    for r in range(labels.size):
        first = (group[r] if group.size else 0) * columns
        for c in range(columns):
            cells[e] = 2 * ((first + c) * size + cells[e]) + np.int64(labels[r] == first_class + c)
            e += 1


@compiled
def grid_sums(scores, labels, first_class, group, bounds, low, scale, starts, parts, sums):
    """Add the rows of one block to counts and offsets by cell and outcome.

    ``scores`` (n, columns); ``labels`` (n,), column c is hit where the label is ``first_class + c``; ``group`` (n,) or
    empty. ``bounds`` (cells + 1,) and ``scale``, cells per unit of score, describe the cells of [low, 1]; ``starts``
    (cells + 1,) and ``parts`` the finer parts of some, ``parts`` empty if there are none. ``sums``, for every (group,
    column, fine cell, outcome) in this order, gets the count and the sum of positions in units of 2**-30.
    """
    n, columns = scores.shape
    rows = max(1, _TILE // columns)
    cells = np.empty(rows * columns, np.int64)
    offsets = np.empty(rows * columns, np.int32)
    for begin in range(0, n, rows):
        end = min(n, begin + rows)
        values = scores[begin:end].reshape(-1)
        here = cells[: values.size]
        _locate(values, bounds, low, scale, here, offsets)
        if parts.size:
            _refine(starts, parts, here, offsets)
        _place(labels[begin:end], first_class, group[begin:end] if group.size else group, columns, starts[-1], here)
        for e in range(here.size):
            sums[here[e], 0] += 1
            sums[here[e], 1] += offsets[e]


@compiled
def weighted_grid_sums(scores, labels, weights, first_class, group, bounds, low, scale, starts, parts, sums):
    """The weighted counterpart of ``grid_sums``, in float64 and row order.

    ``sums`` gets the sums of w, w * position, w**2 and the number of rows.
    """
    n, columns = scores.shape
    rows = max(1, _TILE // columns)
    cells = np.empty(rows * columns, np.int64)
    offsets = np.empty(rows * columns, np.int32)
    for begin in range(0, n, rows):
        end = min(n, begin + rows)
        values = scores[begin:end].reshape(-1)
        here = cells[: values.size]
        _locate(values, bounds, low, scale, here, offsets)
        if parts.size:
            _refine(starts, parts, here, offsets)
        _place(labels[begin:end], first_class, group[begin:end] if group.size else group, columns, starts[-1], here)
        for e in range(here.size):
            w = weights[begin + e // columns]
            if w > 0.0:
                sums[here[e], 0] += w
                sums[here[e], 1] += w * offsets[e] * 2.0**-OFFSET_BITS
                sums[here[e], 2] += w * w
                sums[here[e], 3] += 1.0
