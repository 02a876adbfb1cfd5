"""Rows, hits and exact scores by cell of order-preserving keys.

A key is the bit pattern of a score as float64, a cell a range of keys with equal leading bits. Cell 0 begins at key 0,
every other one at a multiple of 2**shift.
"""

import numpy as np
from numba import float32
from numba.extending import overload

from calibdask.kernels.compiled import compiled, fixed, inlined, unit
from calibdask.kernels.labels import read_labels

# Number of zeros at the end of keys of float32 scores.
FLOAT32_BITS = 29

_TILE_ELEMENTS = 1024
# From here on a float32 score is a multiple of 2**-52, and adding this rounds a smaller one to such a multiple.
_ROUNDER = np.float32(2.0**-29)
_WORD = (1 << 32) - 1


@inlined
def _bits_32(x):
    return np.float32(x).view(np.int32)


@inlined
def _float_32(bits):
    return np.int32(bits).view(np.float32)


@inlined
def _bits_64(x):
    return np.float64(x).view(np.int64)


@inlined
def _float_64(bits):
    return np.int64(bits).view(np.float64)


@inlined
def _clipped(x):
    """The float32 score clipped to [0, 1]; NaN and -0.0 become 0."""
    x = x if x > np.float32(0.0) else np.float32(0.0)
    return x if x < np.float32(1.0) else np.float32(1.0)


def cells_of(scores, shift, smallest, cells):
    """Cell of each score; for float32 scores ``shift`` and ``smallest`` refer to float32 bit patterns, int32."""
    raise NotImplementedError("Called by kernels only.")


@overload(cells_of)
def _cells_of(scores, shift, smallest, cells):
    def cells_32(scores, shift, smallest, cells):
        base = np.int32(smallest >> shift)
        for e in range(scores.size):
            cells[e] = np.int32(max(_bits_32(_clipped(scores[e])), smallest) >> shift) - base

    def cells_64(scores, shift, smallest, cells):
        base = smallest >> shift
        for e in range(scores.size):
            cells[e] = (max(_bits_64(unit(scores[e])), smallest) >> shift) - base

    return cells_32 if scores.dtype == float32 else cells_64


@inlined
def _locate_32(scores, shift, smallest, room, cells, offsets):
    """Cell of each score and, ``room`` bits up, how far it lies above the cell's beginning.

    Scores are multiples of 2**-52 here, as in all exact sums, and offsets count those - or units of their own binary
    order of magnitude from 2**-29 on, where these are larger.
    """
    base = np.int32(smallest >> shift)
    exact = _bits_32(_ROUNDER)
    for e in range(scores.size):
        x = _clipped(scores[e])
        bits = _bits_32(x)
        cell = np.int32(max(bits, smallest) >> shift)
        first = np.int32(cell << shift) if cell > base else np.int32(0)
        rounded = _bits_32(x + _ROUNDER) - _bits_32(_float_32(first) + _ROUNDER)
        offset = np.int32(bits - first) if bits >= exact else np.int32(rounded)
        cells[e] = cell - base
        offsets[e] = np.uint32(offset) << room


@inlined
def _locate_64(scores, shift, smallest, cells, offsets):
    """Cell of each score and how far it lies above the cell's beginning in units of 2**-52."""
    base = smallest >> shift
    for e in range(scores.size):
        x = unit(scores[e])
        cell = max(_bits_64(x), smallest) >> shift
        first = cell << shift if cell > base else np.int64(0)
        cells[e] = cell - base
        offsets[e] = fixed(x) - fixed(_float_64(first))


@inlined
def spread_strata(cells, first_row, n_columns, group, n_cells):
    """Add the number of the stratum (group, column), times the cells that each has."""
    e = 0
    for r in range(cells.size // n_columns):
        stratum = group[first_row + r] * n_columns if group.size else 0
        for c in range(n_columns):
            cells[e] += (stratum + c) * n_cells
            e += 1


@inlined
def _flush_32(packed, room, wide):
    mask = (np.uint64(1) << room) - np.uint64(1)
    for start in range(0, packed.size, 16):
        part = packed[start : start + 16]
        any_row = np.uint64(0)
        for i in range(part.size):
            any_row |= part[i]
        if any_row == 0:
            continue
        for i in range(part.size):
            word = part[i]
            wide[0, start + i] += np.int64(word & mask)
            wide[1, start + i] += np.int64((word >> room) & mask)
            wide[2, start + i] += np.int64(word >> (room + room))
            part[i] = 0


@inlined
def _flush_64(packed, wide):
    for i in range(packed.shape[0]):
        if packed[i, 0] != 0:
            wide[0, i] += packed[i, 0] & _WORD
            wide[1, i] += packed[i, 0] >> 32
            wide[2, i] += packed[i, 1] & _WORD
            wide[3, i] += packed[i, 1] >> 32
            packed[i, 0] = 0
            packed[i, 1] = 0


@compiled
def sum_cells_32(scores, labels, first_class, group, shift, smallest, n_cells, wide):
    """Add float32 scores to ``wide`` (4, groups * columns * cells): rows, hits, and offsets in two words of 32 bits.

    ``scores`` (n, columns); packed ``labels`` (n), column c is hit where the label is ``first_class + c``; ``group``
    (n,) or empty; ``shift`` and ``smallest`` (int32) are those of float32 patterns. Offsets are in the units of their
    cell.
    """
    n, n_columns = scores.shape
    # Rows, hits and offsets of a cell share a word of 64 bits: an offset has at most ``width`` bits, and below
    # 2**room rows the three fit.
    width = max(shift, 13)
    room = np.uint64(min(16, 32 - width))
    most = (1 << room) - 1
    packed = np.zeros(wide.shape[1], np.uint64)
    tile = max(1, min(most, _TILE_ELEMENTS // n_columns))
    cells = np.empty(tile * n_columns, np.uint32)
    offsets = np.empty(tile * n_columns, np.uint32)
    labels_of_tile = np.empty(tile, np.int64)
    pending = 0
    for start in range(0, n, tile):
        stop = min(n, start + tile)
        values = scores[start:stop].reshape(-1)
        _locate_32(values, shift, smallest, np.uint32(room), cells[: values.size], offsets[: values.size])
        observed = read_labels(labels, start, stop, labels_of_tile)
        if n_columns == 1:
            for r in range(observed.size):
                offsets[r] |= np.uint32(observed[r] == first_class)
        else:
            for r in range(observed.size):
                c = observed[r] - first_class
                if 0 <= c < n_columns:
                    offsets[r * n_columns + c] |= np.uint32(1)
        if n_columns > 1 or group.size:
            spread_strata(cells[: values.size], start, n_columns, group, n_cells)
        if pending + stop - start > most:
            _flush_32(packed, room, wide)
            pending = 0
        for e in range(values.size):
            packed[cells[e]] += (np.uint64(offsets[e]) << room) + np.uint64(1)
        pending += stop - start
    _flush_32(packed, room, wide)


@compiled
def sum_cells_64(scores, labels, first_class, group, shift, smallest, n_cells, wide):
    """Sums by cell for float64 scores; offsets are in units of 2**-52."""
    n, n_columns = scores.shape
    # The largest offset has shift - 1 bits.
    most = 1 << (63 - shift)
    packed = np.zeros((wide.shape[1], 2), np.int64)
    tile = max(1, min(most, _TILE_ELEMENTS // n_columns))
    cells = np.empty(tile * n_columns, np.uint32)
    offsets = np.empty(tile * n_columns, np.int64)
    hits = np.zeros(tile * n_columns, np.uint8)
    labels_of_tile = np.empty(tile, np.int64)
    pending = 0
    for start in range(0, n, tile):
        stop = min(n, start + tile)
        values = scores[start:stop].reshape(-1)
        _locate_64(values, shift, smallest, cells[: values.size], offsets[: values.size])
        observed = read_labels(labels, start, stop, labels_of_tile)
        if n_columns == 1:
            for r in range(observed.size):
                hits[r] = observed[r] == first_class
        else:
            hits[:] = 0
            for r in range(observed.size):
                c = observed[r] - first_class
                if 0 <= c < n_columns:
                    hits[r * n_columns + c] = 1
        if n_columns > 1 or group.size:
            spread_strata(cells[: values.size], start, n_columns, group, n_cells)
        if pending + stop - start > most:
            _flush_64(packed, wide)
            pending = 0
        for e in range(values.size):
            cell = cells[e]
            packed[cell, 0] += (np.int64(hits[e]) << 32) + 1
            packed[cell, 1] += offsets[e]
        pending += stop - start
    _flush_64(packed, wide)
