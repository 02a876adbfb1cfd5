"""Fine cells: counts and positions within the cell, by outcome, for linear binning and moments."""

from typing import Any

import numpy as np

from calibdask.kernels.compiled import compiled, inlined
from calibdask.kernels.compiled import unit as clipped
from calibdask.kernels.labels import read_labels
from calibdask.kernels.logarithm import log_64

# Positions within a cell are counted in units of 2**-30, so that plain int64 sums hold 2**33 rows of one cell.
OFFSET_BITS = 30
_UNITS = 1 << OFFSET_BITS
# Parts of refined cells, for each doubling of the distance to the end, and how often the outermost cell is halved.
PART_BITS = 5
PARTS = 1 << PART_BITS
HALVINGS = 16
# Bits of positions that are dropped to find the part: the smallest part is 2**PART_BITS times as wide.
_DROPPED = OFFSET_BITS - HALVINGS - PART_BITS
_COARSER = 1 << (OFFSET_BITS - _DROPPED - PART_BITS)
_FIRST = ((127 + PART_BITS) << PART_BITS) - 1
_TILE = 2048  # scores at a time
_COLUMNS = 16
# Until they are moved to the sums, count and sum of positions of fewer than 2**16 rows share one int64.
_COUNT_BIT = OFFSET_BITS + 16
_ROWS = (1 << 16) - 1


@inlined
def _locate(scores, n_cells, low, scale, cells, offsets):
    """The cell of each score, and its position within from the nearer end of the support, in units of 2**-30.

    A score belongs to the cell whose edges it lies between, the upper one included. The index is computed a few units
    too large and corrected by comparing with the edge, which is computed as `uniform_edges` does: one division is
    faster than a look-up.
    """
    last = n_cells - 1.0
    for e in range(scores.size):
        x = clipped(scores[e])
        t = max((x - low) * scale, 0.0)
        j = min(np.floor(t * (1.0 + 2.0**-50)), last)
        # Python's division, which may raise, would keep the loop from being vectorised.
        edge = low + (1.0 - low) * np.divide(j, n_cells)
        j = max(j - 1.0 if x <= edge else j, 0.0)
        # From the nearer end, so that the positions of scores next to 1 are as exact as those next to 0.
        position = t - j if j + j < n_cells else (1.0 - x) * scale - (last - j)
        cells[e] = np.int32(j)
        offsets[e] = np.int32(min(max(position, 0.0), 1.0) * _UNITS + 0.5)


@inlined
def _locate_single(scores, n_cells, cells, offsets):
    """As ``_locate`` for float32 scores in cells of width 1 / n_cells.

    The product of a float32 and a number of cells is exact in float64, and no edge j / n_cells, rounded to float64, is
    on another side of a float32 than the fraction itself.
    """
    for e in range(scores.size):
        t = clipped(scores[e]) * n_cells
        j = max(np.ceil(t) - 1.0, 0.0)
        position = t - j if j + j < n_cells else 1.0 - (t - j)
        cells[e] = np.int32(j)
        offsets[e] = np.int32(position * _UNITS + 0.5)


@inlined
def _refine(n_cells, cells, offsets):
    """Convert cell numbers to numbers of cell parts.

    The distance to the nearer end of the support is split as floating-point numbers are: every doubling has ``PARTS``
    equal parts, from 2**-HALVINGS of a cell (below which there is one part) up to PARTS cells, beyond which cells have
    no parts. Parts never cross the edges of cells.
    """
    outside = PARTS * HALVINGS + 1  # parts of the outermost cell
    # By how much parts outnumber the cells that have them.
    more = np.int32(outside + PARTS * PART_BITS - PARTS)
    last = np.int32(n_cells - 1)
    end = np.int32(last + 2 * more)
    half = np.int32((n_cells + 1) >> 1)
    few = np.int32(PARTS)
    # Numba widens sums to int64, of which half as many fit a register.
    for e in range(cells.size):
        upper = cells[e] >= half
        cell = np.int32(last - cells[e]) if upper else cells[e]
        # A score on the border of two parts belongs to the one next to the end.
        position = np.int32((max(offsets[e], np.int32(1)) - 1) >> _DROPPED)
        # A float32 holds 24 bits, and no part of a further cell is narrower than a 32nd of it.
        position = np.int32(position & -_COARSER) if cell > 0 else position
        distance = np.int32((min(cell, few) << (OFFSET_BITS - _DROPPED)) + position)
        part = np.int32((np.float32(distance).view(np.int32) >> (23 - PART_BITS)) - _FIRST)
        part = max(part, np.int32(0)) if cell < few else np.int32(cell + more)
        cells[e] = np.int32(end - part) if upper else part


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
def _buffers(scores, width):
    """Rows at a time, and buffers for their scores, cells and positions."""
    rows = max(1, _TILE // width)
    size = rows * width
    return rows, (np.empty(size, scores.dtype), np.empty(size, np.int32), np.empty(size, np.int32))


def _width(columns: int) -> int:
    """Columns at a time: the sums of few stay in the cache, and a cache line of scores is used whole."""
    return columns if columns <= 2 * _COLUMNS else _COLUMNS


def cell_ways(scores: Any, n_cells: int, low: float, scale: float, size: int) -> tuple[bool | None, ...]:
    """How cells are found, for scores of single or of double precision, and whether they have parts; None: not so."""
    single = scores.itemsize == 4 and low == 0.0 and scale == n_cells
    return single or None, not single or None, size > n_cells or None


@inlined
def _add_columns(labels, first_class, group, columns, size, cells, offsets, packed):
    """Add the scores of some columns; the table is that of (group, column, cell, outcome)."""
    e = 0
    for r in range(labels.size):
        start = (group[r] if group.size else 0) * columns * size
        hit = np.int64(labels[r]) - first_class
        for c in range(columns):
            packed[2 * (start + c * size + cells[e]) + np.int64(hit == c)] += (1 << _COUNT_BIT) + np.int64(offsets[e])
            e += 1


@inlined
def _unpack(packed, sums):
    """Move counts and positions to the sums."""
    for i in range(packed.size):
        sums[i, 0] += packed[i] >> _COUNT_BIT
        sums[i, 1] += packed[i] & ((1 << _COUNT_BIT) - 1)
        packed[i] = 0


@inlined
def _add_plainly(labels, first_class, group, first, columns, total, size, cells, offsets, sums):
    """Add the scores of some columns to the sums themselves."""
    e = 0
    for r in range(labels.size):
        start = ((group[r] if group.size else 0) * total + first) * size
        hit = np.int64(labels[r]) - first_class - first
        for c in range(columns):
            entry = 2 * (start + c * size + cells[e]) + np.int64(hit == c)
            sums[entry, 0] += 1
            sums[entry, 1] += offsets[e]
            e += 1


def grid_sums(
    scores: Any,
    labels: Any,
    first_class: int,
    group: Any,
    n_cells: int,
    low: float,
    scale: float,
    size: int,
    sums: Any,
) -> None:
    """Add the rows of one block to counts and offsets by cell and outcome.

    ``scores`` (n, columns); packed ``labels`` (n), column c is hit where the label is ``first_class + c``; ``group``
    (n,) or empty. ``n_cells`` and ``scale``, cells per unit of score, describe the cells of [low, 1]; ``size`` is their
    number, or that of their parts. ``sums``, for every (group, column, fine cell, outcome) in this order, gets the
    count and the sum of positions in units of 2**-30.
    """
    ways = cell_ways(scores, n_cells, low, scale, size)
    if scores.shape[1] == 1 and group.size == 0 and len(scores) >= len(sums):
        _sums_of_column(scores, labels, first_class, n_cells, low, scale, *ways, sums)
    else:
        _sums_of_columns(
            scores, labels, first_class, group, n_cells, low, scale, *ways, size, _width(scores.shape[1]), sums
        )


# What is None is left out as numba compiles.
@inlined
def located(values, n_cells, low, scale, single, double, refined, cells, offsets):
    """Cells or their parts, and positions, of scores."""
    if single is not None:
        _locate_single(values, np.float64(n_cells), cells, offsets)
    if double is not None:
        _locate(values, np.float64(n_cells), low, scale, cells, offsets)
    if refined is not None:
        _refine(np.int32(n_cells), cells, offsets)


@compiled
def _sums_of_column(scores, labels, first_class, n_cells, low, scale, single, double, refined, sums):
    """Of one column and no groups, where there are more rows than sums."""
    n = scores.shape[0]
    packed = np.zeros(sums.shape[0], np.int64)
    all_cells, all_offsets = np.empty(_TILE, np.int32), np.empty(_TILE, np.int32)
    labels_of_tile = np.empty(_TILE, np.int64)
    pending = 0
    for begin in range(0, n, _TILE):
        end = min(n, begin + _TILE)
        cells, offsets = all_cells[: end - begin], all_offsets[: end - begin]
        located(scores[begin:end].reshape(-1), n_cells, low, scale, single, double, refined, cells, offsets)
        observed = read_labels(labels, begin, end, labels_of_tile)
        for e in range(cells.size):
            cells[e] = 2 * cells[e] + np.int32(observed[e] == first_class)
        for e in range(cells.size):
            packed[np.uint32(cells[e])] += (1 << _COUNT_BIT) + np.int64(offsets[e])
        pending += end - begin
        if pending + _TILE > _ROWS or end == n:
            pending = 0
            _unpack(packed, sums)


@compiled
def _sums_of_columns(
    scores, labels, first_class, group, n_cells, low, scale, single, double, refined, size, width, sums
):
    """Of any columns, ``width`` at a time, and groups."""
    n, total = scores.shape
    rows, (buffer, all_cells, all_offsets) = _buffers(scores, width)
    labels_of_tile = np.empty(rows, np.int64)
    groups = len(sums) // (2 * size * total)
    for first in range(0, total, width):
        columns = min(total - first, width)
        table = 2 * size * columns * groups
        # With few rows most cells are empty: visiting all of them would cost more than adding twice.
        packed = np.zeros(table if n * columns >= table else 0, np.int64)
        pending = 0
        for begin in range(0, n, rows):
            end = min(n, begin + rows)
            values = _tile(scores, begin, end, first, first + columns, buffer)
            cells, offsets = all_cells[: values.size], all_offsets[: values.size]
            located(values, n_cells, low, scale, single, double, refined, cells, offsets)
            members = group[begin:end] if group.size else group
            observed = read_labels(labels, begin, end, labels_of_tile)
            if packed.size == 0:
                _add_plainly(observed, first_class, members, first, columns, total, size, cells, offsets, sums)
                continue
            _add_columns(observed, first_class + first, members, columns, size, cells, offsets, packed)
            pending += end - begin
            if pending + rows > _ROWS or end == n:
                pending = 0
                block = 2 * size * columns
                for g in range(groups):
                    entry = 2 * size * (g * total + first)
                    _unpack(packed[g * block : (g + 1) * block], sums[entry : entry + block])


@inlined
def _add_weighted(labels, weights, first_class, group, first, columns, total, size, cells, offsets, sums):
    """The weighted counterpart of ``_add_plainly``."""
    e = 0
    for r in range(labels.size):
        start = ((group[r] if group.size else 0) * total + first) * size
        hit = np.int64(labels[r]) - first_class - first
        w = weights[r]
        for c in range(columns):
            entry = 2 * (start + c * size + cells[e]) + np.int64(hit == c)
            if w > 0.0:
                sums[entry, 0] += w
                sums[entry, 1] += w * offsets[e] * 2.0**-OFFSET_BITS
                sums[entry, 2] += w * w
                sums[entry, 3] += 1.0
            e += 1


def weighted_grid_sums(
    scores: Any,
    labels: Any,
    weights: Any,
    first_class: int,
    group: Any,
    n_cells: int,
    low: float,
    scale: float,
    size: int,
    sums: Any,
) -> None:
    """The weighted counterpart of ``grid_sums``, in float64 and row order.

    ``sums`` gets the sums of w, w * position, w**2 and the number of rows.
    """
    ways = cell_ways(scores, n_cells, low, scale, size)
    _weighted_sums(
        scores, labels, weights, first_class, group, n_cells, low, scale, *ways, size, _width(scores.shape[1]), sums
    )


@compiled
def _weighted_sums(
    scores, labels, weights, first_class, group, n_cells, low, scale, single, double, refined, size, width, sums
):
    n, total = scores.shape
    rows, (buffer, all_cells, all_offsets) = _buffers(scores, width)
    for first in range(0, total, width):
        columns = min(total - first, width)
        for begin in range(0, n, rows):
            end = min(n, begin + rows)
            values = _tile(scores, begin, end, first, first + columns, buffer)
            cells, offsets = all_cells[: values.size], all_offsets[: values.size]
            located(values, n_cells, low, scale, single, double, refined, cells, offsets)
            members = group[begin:end] if group.size else group
            _add_weighted(
                labels[begin:end],
                weights[begin:end],
                first_class,
                members,
                first,
                columns,
                total,
                size,
                cells,
                offsets,
                sums,
            )


@compiled
def add_parts(parts, starts, cells):
    """Sums (columns, cells, 2) over the parts of each cell, which begin at ``starts``."""
    for column in range(len(cells)):
        for cell in range(cells.shape[1]):
            first = starts[cell]
            lower, upper = parts[column, first, 0], parts[column, first, 1]
            for part in range(first + 1, starts[cell + 1]):
                lower += parts[column, part, 0]
                upper += parts[column, part, 1]
            cells[column, cell, 0], cells[column, cell, 1] = lower, upper


@compiled
def add_cells(cells, at, sums):
    """Sums (columns, bins) of cells (columns, cells) from those numbered ``at`` (columns, bins + 1) to the next.

    From 0 in the order of the cells, so that cells without rows make no difference to the last bit.
    """
    for column in range(len(cells)):
        for b in range(sums.shape[1]):
            total = cells[column, 0] * 0
            for cell in range(at[column, b], at[column, b + 1]):
                total += cells[column, cell]
            sums[column, b] = total


@compiled
def loss_sums(mass, offset, unit, edge, step, smallest, sums):
    """Sums (columns, 3) of w, w * Brier score and w * logarithmic score over cells or their parts.

    ``mass`` and ``offset`` (columns, parts, 2), offsets in this ``unit``; the score at a position is
    ``edge + step * position``. All rows of a part with one outcome are at their mean; probabilities are clipped at
    ``smallest``.
    """
    rows, chosen, logarithm = np.empty(2 * mass.shape[1]), np.empty(2 * mass.shape[1]), np.empty(2 * mass.shape[1])
    for column in range(len(mass)):
        filled = 0
        for part in range(mass.shape[1]):
            for outcome in range(2):
                count = np.float64(mass[column, part, outcome])
                if count > 0.0:
                    score = clipped(edge[part] + step[part] * (offset[column, part, outcome] * unit / count))
                    rows[filled], chosen[filled] = count, score if outcome == 1 else 1.0 - score
                    filled += 1
        # Apart from the sums, which keep their order: logarithms become vector instructions.
        for i in range(filled):
            logarithm[i] = log_64(max(chosen[i], smallest))
        total, brier, log = 0.0, 0.0, 0.0
        for i in range(filled):
            total += rows[i]
            brier += rows[i] * (1.0 - chosen[i]) * (1.0 - chosen[i])
            log -= rows[i] * logarithm[i]
        sums[column, 0], sums[column, 1], sums[column, 2] = total, brier, log
