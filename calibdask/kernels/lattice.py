"""Sums of rows by values of a few features and cell of scores; features cut into values, and counted before."""

import numpy as np

from calibdask.kernels.compiled import FRACTION_BITS, compiled, inlined, unit

# Scores and s (1 - s) are added in units of 2**-40: sums of 2**22 rows fit in an int64.
UNIT_BITS = 40
_UNIT = np.float64(1 << UNIT_BITS)
# Rows at a time: what is known of them stays in the cache closest to the processor.
_TILE = 1024


@compiled
def row_cells(scores, thresholds, cells, clipped):
    """Fill ``cells`` (n,) uint32 with the number of thresholds below each score, and ``clipped`` with the score.

    ``thresholds`` (2**k - 1,) are increasing; infinite ones are last.
    """
    half = (thresholds.size + 1) // 2
    for start in range(0, scores.size, _TILE):
        given, here, below = scores[start : start + _TILE], clipped[start : start + _TILE], cells[start : start + _TILE]
        for r in range(here.size):
            here[r] = unit(given[r])
        below[:] = 0
        step = half
        # One step of the search for all rows of a tile: the processor compares many at a time.
        while step > 0:
            middle = thresholds[step - 1 :]
            for r in range(here.size):
                below[r] += np.uint32(step) * np.uint32(middle[below[r]] < here[r])
            step //= 2


@compiled
def sort_by_cell(cells, first, starts, order):
    """Fill ``order`` (n,) uint32 with the rows from ``first`` on, sorted stably by cell.

    ``starts`` (cells + 1,) int64 is where each cell begins among them; n is the size of ``order``.
    """
    starts[:] = 0
    for r in range(order.size):
        starts[cells[first + r] + 1] += 1
    for cell in range(1, starts.size):
        starts[cell] += starts[cell - 1]
    next_place = starts[:-1].copy()
    for r in range(order.size):
        cell = cells[first + r]
        order[next_place[cell]] = first + r
        next_place[cell] += 1


@compiled
def sort_codes(codes, order, into):
    """Fill ``into`` (features, n) with the columns of ``codes`` in this order."""
    for feature in range(codes.shape[0]):
        of_feature, sorted_codes = codes[feature], into[feature]
        for r in range(order.size):
            sorted_codes[r] = of_feature[order[r]]


@compiled
def sort_terms(hits, scores, order, terms):
    """Fill ``terms`` (1, n, 4) int64 in this order of rows: 1, the hit, and s and s (1 - s) in units of 2**-40."""
    for r in range(order.size):
        s = unit(scores[order[r]])
        terms[0, r, 0] = 1
        terms[0, r, 1] = np.int64(hits[order[r]])
        terms[0, r, 2] = np.int64(s * _UNIT + 0.5)
        terms[0, r, 3] = np.int64(s * (1.0 - s) * _UNIT + 0.5)


@compiled
def sort_weighted_terms(hits, scores, weights, order, terms):
    """Fill ``terms`` (2, n, 4) float64: 1, the hit o, w and w o; and w s, w**2 s (1 - s), w**2 and w**2 o."""
    for r in range(order.size):
        row = order[r]
        s, w, hit = unit(scores[row]), weights[row], np.float64(hits[row])
        terms[0, r, 0] = 1.0
        terms[0, r, 1] = hit
        terms[0, r, 2] = w
        terms[0, r, 3] = w * hit
        terms[1, r, 0] = w * s
        terms[1, r, 1] = w * w * s * (1.0 - s)
        terms[1, r, 2] = w * w
        terms[1, r, 3] = w * w * hit


@inlined
def _places(codes, group, sizes, start, places):
    """Number of the values of all features of the group, which -1 ends, for the rows of a tile."""
    places[:] = 0
    for feature in group:
        if feature < 0:
            break
        values, size = codes[feature, start : start + places.size], np.uint32(sizes[feature])
        for r in range(places.size):
            places[r] = places[r] * size + values[r]


@inlined
def _add_rows(places, terms, table):
    """Add ``terms`` (n, 4) of rows to the places of ``table`` (values, 4)."""
    for r in range(places.size):
        at = places[r]
        a, b = table[at, 0] + terms[r, 0], table[at, 1] + terms[r, 1]
        c, d = table[at, 2] + terms[r, 2], table[at, 3] + terms[r, 3]
        table[at, 0], table[at, 1], table[at, 2], table[at, 3] = a, b, c, d


@inlined
def _add_up(step, table):
    """Sums over one feature, within ``table`` (4 values,): where they are, where they go, outer, size, inner."""
    source, target, outer, size, width = 4 * step[0], 4 * step[1], step[2], step[3], 4 * step[4]
    for _ in range(outer):
        sums, first = table[target : target + width], table[source : source + width]
        for i in range(width):
            sums[i] = first[i]
        for value in range(1, size):
            further = table[source + value * width : source + (value + 1) * width]
            for i in range(width):
                sums[i] += further[i]
        source += size * width
        target += width


@inlined
def _fill_tables(codes, group, values, sizes, start, stop, terms, steps, places, tables):
    """Sums of the rows from start to before stop by the values of a group of features, and of fewer of them."""
    tables[:, :values] = 0
    for first in range(start, stop, _TILE):
        last = min(first + _TILE, stop)
        here = places[: last - first]
        _places(codes, group, sizes, first, here)
        for part in range(len(terms)):
            _add_rows(here, terms[part, first:last], tables[part])
    for part in range(len(terms)):
        table = tables[part].reshape(-1)
        for number in range(len(steps)):
            _add_up(steps[number], table)


@compiled
def fill(codes, starts, terms, plan, tables, rows, hits, score, spread):
    """Add rows that are sorted by cell to the sums of all segments.

    Parameters
    ----------
    codes : uint8 (features, n)
    starts : int64 (cells + 1,)
    terms : int64 (1, n, 4)
    plan : tuple
        See `calibdask.statistics.lattice.lattice_sums`.
    tables : int64 (1, values, 4)
        Scratch space: the sums of one cell and group stay in the cache closest to the processor.
    rows, hits : int64 (segments, cells)
    score : int64 (segments, cells, 2)
    spread : int64 (segments, 2)
    """
    sizes, groups, values, steps, step_ends, targets, target_ends = plan
    places = np.empty(_TILE, np.uint32)
    for cell in range(starts.size - 1):
        start, stop = starts[cell], starts[cell + 1]
        if start == stop:
            continue
        for group in range(len(groups)):
            of_group = steps[step_ends[group] : step_ends[group + 1]]
            _fill_tables(codes, groups[group], values[group], sizes, start, stop, terms, of_group, places, tables)
            for target in range(target_ends[group], target_ends[group + 1]):
                at, first, count = targets[target]
                for value in range(count):
                    sums, segment = tables[0, at + value], first + value
                    if sums[0] == 0:
                        continue
                    rows[segment, cell] += sums[0]
                    hits[segment, cell] += sums[1]
                    add_words(sums[2], score[segment, cell])
                    add_words(sums[3], spread[segment])


@inlined
def add_words(total, words):
    """Add multiples of 2**-40 to (whole, fraction in units of 2**-52)."""
    words[0] += total >> UNIT_BITS
    words[1] += (total & ((1 << UNIT_BITS) - 1)) << (FRACTION_BITS - UNIT_BITS)
    words[0] += words[1] >> FRACTION_BITS
    words[1] &= (1 << FRACTION_BITS) - 1


@compiled
def fill_weighted(
    codes, starts, terms, plan, tables, rows, hits, weight, outcome, score, spread, weight_square, outcome_square
):
    """Fill the tables of weighted rows.

    ``terms`` and ``tables`` are float64 (2, n, 4) and (2, values, 4); ``weight``, ``outcome`` and ``score`` (segments,
    cells), ``spread``, ``weight_square`` and ``outcome_square`` (segments,).
    """
    sizes, groups, values, steps, step_ends, targets, target_ends = plan
    places = np.empty(_TILE, np.uint32)
    for cell in range(starts.size - 1):
        start, stop = starts[cell], starts[cell + 1]
        if start == stop:
            continue
        for group in range(len(groups)):
            of_group = steps[step_ends[group] : step_ends[group + 1]]
            _fill_tables(codes, groups[group], values[group], sizes, start, stop, terms, of_group, places, tables)
            for target in range(target_ends[group], target_ends[group + 1]):
                at, first, count = targets[target]
                for value in range(count):
                    counted, weighted, segment = tables[0, at + value], tables[1, at + value], first + value
                    rows[segment, cell] += np.int64(counted[0])
                    hits[segment, cell] += np.int64(counted[1])
                    weight[segment, cell] += counted[2]
                    outcome[segment, cell] += counted[3]
                    score[segment, cell] += weighted[0]
                    spread[segment] += weighted[1]
                    weight_square[segment] += weighted[2]
                    outcome_square[segment] += weighted[3]


@compiled
def cut_codes(values, edges, missing, out):
    """Fill ``out`` (n,) uint8 with the number of increasing edges below each value; NaN is ``missing``."""
    for start in range(0, values.size, _TILE):
        here, codes = values[start : start + _TILE], out[start : start + _TILE]
        codes[:] = 0
        # One edge after the other: the processor compares many values at a time.
        for edge in edges:
            for i in range(here.size):
                codes[i] += np.uint8(np.float64(here[i]) > edge)
        for i in range(here.size):
            if here[i] != here[i]:
                codes[i] = missing


@compiled
def count_keys(values, repeats, shifts, bases, counts, low, high, totals):
    """Count the order-preserving keys of values by cell: ``counts`` (windows, cells), and the least and largest key.

    The cell of a key in a window is key >> shift less its base; what is outside is not counted. Each value counts for
    so many ``repeats``, where there are any, or one. ``totals`` (2,): rows with a value, and rows without.
    """
    present, missing = np.int64(0), np.int64(0)
    for i in range(values.size):
        x, rows = np.float64(values[i]) + 0.0, repeats[i] if repeats.size else np.int64(1)
        if x != x:
            missing += rows
            continue
        pattern = np.float64(x).view(np.int64)
        present += rows
        # Patterns of negative numbers fall as the numbers rise.
        key = pattern ^ ((pattern >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
        for w in range(shifts.size):
            cell = (key >> shifts[w]) - bases[w]
            if 0 <= cell < counts.shape[1]:
                first = counts[w, cell] == 0
                counts[w, cell] += rows
                low[w, cell] = key if first else min(low[w, cell], key)
                high[w, cell] = key if first else max(high[w, cell], key)
    totals[0] += present
    totals[1] += missing


@inlined
def _mixed(x):
    """A hash of a number: every bit depends on all of its bits."""
    h = np.uint64(np.float64(x).view(np.int64))
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@inlined
def _place(x, numbers, counts):
    """Where a number is in a table of as many places as a power of two, or the empty place that it takes."""
    last = np.int64(counts.size - 1)
    at = np.int64(_mixed(x) >> np.uint64(32)) & last
    while counts[at] and numbers[at] != x:
        at = (at + 1) & last
    return at


@compiled
def sample_whole(values, repeats, most, numbers, counts, found):
    """Count rows by whole number in a table, of all numbers, or of a sample of at most ``most``.

    A sample of the level l has the numbers whose hash ends in l zeros; l is the least that leaves no more. ``numbers``
    and ``counts`` have as many places as a power of two; ``found`` (2,): the level, and 1 if all numbers are whole and
    finite.
    """
    level, size = found[0], 0
    for i in range(values.size):
        x = np.float64(values[i]) + 0.0
        if x != x:
            continue
        if x != np.floor(x) or x - x != 0.0:
            found[1] = 0
            return
        if _mixed(x) & ((np.uint64(1) << np.uint64(level)) - np.uint64(1)):
            continue
        at = _place(x, numbers, counts)
        size += counts[at] == 0
        numbers[at] = x
        counts[at] += repeats[i] if repeats.size else np.int64(1)
        while size > most:
            level += 1
            old_numbers, old_counts = numbers.copy(), counts.copy()
            counts[:] = 0
            size = 0
            for old in range(old_counts.size):
                x = old_numbers[old]
                if old_counts[old] and not _mixed(x) & ((np.uint64(1) << np.uint64(level)) - np.uint64(1)):
                    at = _place(x, numbers, counts)
                    numbers[at], counts[at] = x, old_counts[old]
                    size += 1
    found[0] = level


@compiled
def count_bytes(values, counts):
    """Count ``values`` (n,) uint8 in ``counts`` (4, 256), in turn: an addition need not wait for the one before."""
    whole = values.size - values.size % 4
    for i in range(0, whole, 4):
        counts[0, values[i]] += 1
        counts[1, values[i + 1]] += 1
        counts[2, values[i + 2]] += 1
        counts[3, values[i + 3]] += 1
    for i in range(whole, values.size):
        counts[0, values[i]] += 1
