"""Keys that lie in windows: collected, sorted and counted."""

import numpy as np

from calibdask.kernels.compiled import compiled, inlined
from calibdask.kernels.key_cells import cells_of, spread_strata
from calibdask.kernels.labels import label_at
from calibdask.kernels.ranks import key_of

TILE_ELEMENTS = 1024
# Up to this many keys are sorted by insertion.
_FEW = 32
_DIGIT_BITS = 8
_DIGIT = (1 << _DIGIT_BITS) - 1


@inlined
def _pick_range(cells, first, start, stop, picked, count):
    for e in range(start, stop):
        picked[count] = e
        count += np.uint32(first[cells[e]] >= 0)
    return count


@inlined
def _pick(cells, first, picked):
    """Elements of a tile in cells that overlap a window; few do, so eight are tested at once."""
    count = np.uint32(0)
    whole = cells.size - (cells.size & 7)
    for e in range(0, whole, 8):
        c = cells[e : e + 8]
        # -1 has all bits set: it remains where no cell has a window.
        one = first[c[0]] & first[c[1]] & first[c[2]] & first[c[3]]
        two = first[c[4]] & first[c[5]] & first[c[6]] & first[c[7]]
        if one & two != -1:
            count = _pick_range(cells, first, e, e + 8, picked, count)
    return _pick_range(cells, first, whole, cells.size, picked, count)


@inlined
def _find_hits(picked, start, labels, first_class, n_columns, hits):
    """Outcomes of the picked elements of the tile that begins at row ``start``.

    A loop of its own, so that the processor waits for many labels at a time.
    """
    if n_columns == 1:
        for i in range(picked.size):
            hits[i] = label_at(labels, start + picked[i]) == first_class
        return
    for i in range(picked.size):
        hits[i] = label_at(labels, start + picked[i] // n_columns) == first_class + picked[i] % n_columns


@compiled
def collect_keys(
    start,
    scores,
    labels,
    first_class,
    weights,
    group,
    shift,
    smallest,
    n_cells,
    first,
    lows,
    highs,
    keys,
    strata,
    masses,
):
    """Collect scores that lie in windows: 2 * key + hit, and (group * columns + column) * windows + window.

    ``labels`` are packed. ``lows`` and ``highs`` (groups, columns, windows); ``first`` (groups * columns * cells) int32
    is the window to begin with for the keys of a cell, -1 for none; ``shift`` and ``smallest`` are as `cells_of` takes
    them. ``masses``, as long as ``keys``, gets weights, if there are any. Begins at row ``start`` and stops where
    ``keys``, which has room for `TILE_ELEMENTS` or the columns of a row, might not suffice. Returns the number of keys
    and the next row.
    """
    n, n_columns = scores.shape
    n_windows = lows.shape[2]
    tile = max(1, TILE_ELEMENTS // n_columns)
    cells = np.empty(tile * n_columns, np.uint32)
    picked = np.empty(tile * n_columns + 1, np.uint32)
    hits = np.empty(tile * n_columns, np.uint8)
    count = 0
    while start < n and count + cells.size <= keys.size:
        values = scores[start : min(n, start + tile)].reshape(-1)
        here = cells[: values.size]
        cells_of(values, shift, smallest, here)
        if n_columns > 1 or group.size:
            spread_strata(here, start, n_columns, group, n_cells)
        chosen = picked[: _pick(here, first, picked)]
        _find_hits(chosen, start, labels, first_class, n_columns, hits)
        for i in range(chosen.size):
            e = chosen[i]
            r, c, g = start + np.int64(e), 0, 0
            if n_columns > 1:
                r, c = start + e // n_columns, e % n_columns
            if weights.size and not weights[r] > 0.0:
                continue
            if group.size:
                g = group[r]
            key = key_of(values[e])
            window = np.int64(first[here[e]])
            while window + 1 < n_windows and key > highs[g, c, window]:
                window += 1
            if not lows[g, c, window] <= key <= highs[g, c, window]:
                continue
            keys[count] = (key << 1) | hits[i]
            strata[count] = (g * n_columns + c) * n_windows + window
            if weights.size:
                masses[count] = weights[r]
            count += 1
        start += tile
    return count, min(start, n)


@inlined
def _sort_few(keys):
    for i in range(1, keys.size):
        key = keys[i]
        j = i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@inlined
def _sort_by_digits(keys, other, seen, low, high):
    """Sort by the bits from low to high, a digit at a time; returns whether the result is in ``other``."""
    source, target = keys, other
    swapped = False
    for shift in range(low, high, _DIGIT_BITS):
        seen[:] = 0
        for i in range(source.size):
            seen[np.uint64(source[i] >> shift) & np.uint64(_DIGIT)] += 1
        before = 0
        for d in range(seen.size):
            count = seen[d]
            seen[d] = before
            before += count
        for i in range(source.size):
            digit = np.uint64(source[i] >> shift) & np.uint64(_DIGIT)
            target[seen[digit]] = source[i]
            seen[digit] += 1
        source, target = target, source
        swapped = not swapped
    return swapped


@compiled
def sort_windows(keys, strata, lows, shifts, ends, stratum, low, high, rows, hits):
    """Sort collected keys by window, and count those that share a cell of 2**shift keys; returns how many entries.

    ``lows`` and ``shifts`` (windows,) of all strata; ``ends`` (windows + 1,) is zero; the others are as long as keys.
    """
    for i in range(keys.size):
        ends[strata[i] + 1] += 1
    for w in range(lows.size):
        ends[w + 1] += ends[w]
    ordered = np.empty(keys.size, np.int64)
    # ``ends`` holds the beginnings of windows, which move to their ends.
    for i in range(keys.size):
        w = strata[i]
        ordered[ends[w]] = keys[i]
        ends[w] += 1
    other = np.empty(keys.size, np.int64)
    seen = np.zeros(_DIGIT + 1, np.int64)
    entries = 0
    start = 0
    for w in range(lows.size):
        stop = ends[w]
        if stop == start:
            continue
        window = ordered[start:stop]
        if window.size <= _FEW:
            _sort_few(window)
        else:
            # Bits in which keys differ; outcomes, the last one, need no order.
            differ = np.int64(0)
            for i in range(window.size):
                differ |= window[i] ^ window[0]
            first = 1
            while first < 63 and (differ >> first) & 1 == 0:
                first += 1
            last = first
            while last < 63 and differ >> last != 0:
                last += 1
            if _sort_by_digits(window, other[start:stop], seen, first, last):
                window = other[start:stop]
        start = stop
        before = np.int64(-1)
        for i in range(window.size):
            key = window[i] >> 1
            cell = (key - lows[w]) >> shifts[w]
            if cell != before:
                before = cell
                stratum[entries] = w
                low[entries] = key
                rows[entries] = 0
                hits[entries] = 0
                entries += 1
            high[entries - 1] = key
            rows[entries - 1] += 1
            hits[entries - 1] += window[i] & 1
    return entries
