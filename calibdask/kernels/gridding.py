"""Fine cells: counts and positions within the cell, by outcome, from which linear binning and moments follow."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined, unit

__all__ = ["HALVINGS", "OFFSET_BITS", "PARTS", "grid_sums", "weighted_grid_sums"]

# Positions within a cell are counted in units of 2**-30, so that plain int64 sums hold 2**33 rows of one cell.
OFFSET_BITS = 30
# Parts of refined cells, for each doubling of the distance to the end, and how often the outermost cell is halved.
PART_BITS = 5
PARTS = 1 << PART_BITS
HALVINGS = 16
_SMALLEST = 1 << (OFFSET_BITS - HALVINGS)
_FIRST = ((1023 + OFFSET_BITS - HALVINGS) << PART_BITS) - 1
_TILE = 2048  # scores at a time
_COLUMNS = 16


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
def _refine(n_cells, cells, offsets):
    """From the numbers of cells to those of their parts.

    The distance to the nearer end of the support, in units of 2**-30 of a cell, is split as floating-point numbers are:
    every doubling has ``PARTS`` equal parts, from 2**-HALVINGS of a cell (below which there is one part) up to PARTS
    cells, beyond which cells have no parts. Parts never cross the edges of cells.
    """
    outside = PARTS * HALVINGS + 1  # parts of the outermost cell
    more = outside + PARTS * PART_BITS - PARTS  # by how much parts outnumber the cells that have them
    for e in range(cells.size):
        j = cells[e]
        upper = 2 * j >= n_cells
        cell = n_cells - 1 - j if upper else j
        # A score on the border of two parts belongs to the one next to the end.
        distance = (np.int64(cell) << OFFSET_BITS) + max(offsets[e], 1) - 1
        bits = np.float64(max(distance, _SMALLEST - 1)).view(np.int64)
        part = (bits >> (52 - PART_BITS)) - _FIRST if distance >= _SMALLEST else 0
        part = part if cell < PARTS else cell + more
        cells[e] = n_cells - 1 + 2 * more - part if upper else part


@inlined
def _tile(scores, begin, end, first, last, buffer):
    """Scores of some rows and columns one after the other."""
    if last - first == scores.shape[1]:
        return scores[begin:end].reshape(-1)
    e = 0
    for r in range(begin, end):
        for c in range(first, last):
            buffer[e] = scores[r, c]
            e += 1
    return buffer[:e]


@inlined
def _place(labels, first_class, group, first, last, columns, size, cells):
    """From cells of columns ``first <= c < last`` to places in the table of (group, column, cell, outcome)."""
    if columns == 1 and group.size == 0:
        for e in range(cells.size):
            cells[e] = 2 * cells[e] + np.int64(labels[e] == first_class)
        return
    e = 0
    for r in range(labels.size):
        row = (group[r] if group.size else 0) * columns
        for c in range(first, last):
            cells[e] = 2 * ((row + c) * size + cells[e]) + np.int64(labels[r] == first_class + c)
            e += 1


@inlined
def _placed(scores, labels, first_class, group, begin, end, first, last, bounds, low, scale, size, buffers):
    """Places in the table, and positions, of the scores of some rows and columns."""
    buffer, cells, offsets = buffers
    values = _tile(scores, begin, end, first, last, buffer)
    here = cells[: values.size]
    _locate(values, bounds, low, scale, here, offsets)
    if size > bounds.size - 1:
        _refine(bounds.size - 1, here, offsets)
    members = group[begin:end] if group.size else group
    _place(labels[begin:end], first_class, members, first, last, scores.shape[1], size, here)
    return here


@inlined
def _width(columns):
    """Columns at a time: the sums of few stay in the cache, and a cache line of scores is used whole."""
    return columns if columns <= 2 * _COLUMNS else _COLUMNS


@compiled
def grid_sums(scores, labels, first_class, group, bounds, low, scale, size, sums):
    """Add the rows of one block to counts and offsets by cell and outcome.

    ``scores`` (n, columns); ``labels`` (n,), column c is hit where the label is ``first_class + c``; ``group`` (n,) or
    empty. ``bounds`` (cells + 1,) and ``scale``, cells per unit of score, describe the cells of [low, 1]; ``size`` is
    their number, or that of their parts. ``sums``, for every (group, column, fine cell, outcome) in this order, gets
    the count and the sum of positions in units of 2**-30.
    """
    n, columns = scores.shape
    width = _width(columns)
    rows = max(1, _TILE // width)
    buffers = np.empty(rows * width, scores.dtype), np.empty(rows * width, np.int64), np.empty(rows * width, np.int32)
    offsets = buffers[2]
    for first in range(0, columns, width):
        last = min(columns, first + width)
        for begin in range(0, n, rows):
            end = min(n, begin + rows)
            here = _placed(
                scores, labels, first_class, group, begin, end, first, last, bounds, low, scale, size, buffers
            )
            for e in range(here.size):
                sums[here[e], 0] += 1
                sums[here[e], 1] += offsets[e]


@compiled
def weighted_grid_sums(scores, labels, weights, first_class, group, bounds, low, scale, size, sums):
    """The weighted counterpart of ``grid_sums``, in float64 and row order.

    ``sums`` gets the sums of w, w * position, w**2 and the number of rows.
    """
    n, columns = scores.shape
    width = _width(columns)
    rows = max(1, _TILE // width)
    buffers = np.empty(rows * width, scores.dtype), np.empty(rows * width, np.int64), np.empty(rows * width, np.int32)
    offsets = buffers[2]
    for first in range(0, columns, width):
        last = min(columns, first + width)
        for begin in range(0, n, rows):
            end = min(n, begin + rows)
            here = _placed(
                scores, labels, first_class, group, begin, end, first, last, bounds, low, scale, size, buffers
            )
            for e in range(here.size):
                w = weights[begin + e // (last - first)]
                if w > 0.0:
                    sums[here[e], 0] += w
                    sums[here[e], 1] += w * offsets[e] * 2.0**-OFFSET_BITS
                    sums[here[e], 2] += w * w
                    sums[here[e], 3] += 1.0
