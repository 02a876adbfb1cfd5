"""Per-bin sums: which bin a score falls in, and exact or weighted sums by bin."""

import numpy as np

from calibdask.kernels.compiled import FRACTION_BITS, ROWS_BEFORE_CARRY, carry, compiled, fixed, inlined, unit

__all__ = ["OFFSETS", "PLAIN", "SQUARES", "bin_sums", "uniform_bin", "weighted_bin_sums"]

# What is summed besides count, outcome and score.
PLAIN = 0
SQUARES = 1  # score**2 and score * outcome
OFFSETS = 2  # position t within the bin, t * outcome and t * score

_TILE_ELEMENTS = 8192  # buffers of a tile stay in the first-level cache
_COUNTED_THRESHOLDS = 48  # up to here counting all thresholds beats a search
_ROWS = (1 << 32) - 1  # a row count and, above it, a hit count share one int64


@inlined
def uniform_bin(x, n_bins, lower):
    """The bin of x in [0, 1] among the bins i / n_bins, by index with an exact correction.

    The factor is a few units too large, so that rounding can never make the index too low; it is at most one too high,
    and comparing with the bound of the bin found settles that.
    """
    j = np.int32(x * (n_bins * (1.0 + 2.0**-50)))
    return j - np.int32(x <= lower[j])


@inlined
def _uniform_bins(scores, n_bins, lower, cells):
    """The uniform bin of each score."""
    for e in range(scores.size):
        cells[e] = uniform_bin(unit(scores[e]), n_bins, lower)


@inlined
def _count_bins(scores, thresholds, cells):
    """Bin = number of thresholds below the score; threshold by threshold, which vectorises."""
    for e in range(scores.size):
        cells[e] = 0
    for t in range(thresholds.size):
        threshold = thresholds[t]
        for e in range(scores.size):
            cells[e] += np.int32(scores[e] > threshold)


@inlined
def _search(score, thresholds):
    """The number of thresholds below the score, by bisection."""
    low, high = 0, thresholds.size
    while low < high:
        middle = (low + high) >> 1
        if score > thresholds[middle]:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _column_bins(scores, n_columns, group, thresholds, cells):
    """Bins where each column (and group) has thresholds of its own."""
    n_thresholds = thresholds.shape[-1]
    groups, columns = thresholds.shape[0], thresholds.shape[1]
    e = 0
    for r in range(scores.size // n_columns):
        g = group[r] if groups > 1 else 0
        for c in range(n_columns):
            row = thresholds[g, c if columns > 1 else 0]
            if n_thresholds <= _COUNTED_THRESHOLDS:
                j = np.int32(0)
                score = scores[e]
                for t in range(n_thresholds):
                    j += np.int32(score > row[t])
                cells[e] = j
            else:
                cells[e] = _search(scores[e], row)
            e += 1


@inlined
def _locate(scores, n_columns, group, n_bins, lower, thresholds, cells):
    """Flat cell (group, column, bin) of each score of a tile."""
    if lower.size:
        _uniform_bins(scores, n_bins, lower, cells)
    elif thresholds.shape[0] * thresholds.shape[1] == 1 and thresholds.shape[2] <= _COUNTED_THRESHOLDS:
        _count_bins(scores, thresholds[0, 0], cells)
    else:
        _column_bins(scores, n_columns, group, thresholds, cells)
    if n_columns > 1 or group.size:
        e = 0
        for r in range(scores.size // n_columns):
            first_column = group[r] * n_columns if group.size else 0
            for c in range(n_columns):
                cells[e] += (first_column + c) * n_bins
                e += 1


@inlined
def _spread_copies(cells, n_cells):
    """Let four neighbours add into four copies, so that equal bins in a row do not wait for each other."""
    for e in range(cells.size):
        cells[e] += (e & 3) * n_cells


@inlined
def _mark_hits(labels, first_class, n_columns, hits):
    """1 where the label of a row is the class of a column, for every score of a tile."""
    if n_columns == 1:
        for r in range(labels.size):
            hits[r] = labels[r] == first_class
        return
    hits[:] = 0
    for r in range(labels.size):
        c = np.int64(labels[r]) - first_class
        if 0 <= c < n_columns:
            hits[r * n_columns + c] = 1


@inlined
def _add_scores(scores, hits, cells, packed, score):
    for e in range(scores.size):
        cell = cells[e]
        packed[cell] += 1 + (np.int64(hits[e]) << 32)
        score[cell] += fixed(unit(scores[e]))


@inlined
def _add_squares(scores, hits, cells, square, product):
    for e in range(scores.size):
        cell = cells[e]
        x = unit(scores[e])
        square[cell] += fixed(x * x)
        product[cell] += fixed(x) * hits[e]


@inlined
def _offset(x, cell, left, width):
    """Position of a score in its bin; by division, so that it is exactly 1 at the upper edge."""
    return (x - left[cell]) / width[cell]


@inlined
def _add_offsets(scores, hits, cells, left, width, offset, by_hit, by_score):
    """Cells count copies of all bins one after another; ``left`` and ``width`` do not."""
    for e in range(scores.size):
        cell = cells[e]
        x = unit(scores[e])
        t = _offset(x, cell % left.size, left, width)
        offset[cell] += fixed(t)
        by_hit[cell] += fixed(t) * hits[e]
        by_score[cell] += fixed(t * x)


@inlined
def _carry_touched(cells, fraction, whole):
    for e in range(cells.size):
        cell = cells[e]
        whole[cell] += fraction[cell] >> FRACTION_BITS
        fraction[cell] &= (1 << FRACTION_BITS) - 1


@inlined
def _unpack_touched(cells, packed, rows, hits):
    for e in range(cells.size):
        cell = cells[e]
        rows[cell] += packed[cell] & _ROWS
        hits[cell] += packed[cell] >> 32
        packed[cell] = 0


@compiled
def bin_sums(scores, labels, first_class, group, n_bins, lower, thresholds, left, width, kind, counts, sums):
    """Add the rows of one block to per-bin counts and exact sums.

    ``scores`` (n, columns); ``labels`` (n,), column c is hit where the label is ``first_class + c``; ``group`` (n,)
    or empty. Bins are uniform when ``lower`` (n_bins + 1,) is not empty, else right-closed at ``thresholds``
    (groups or 1, columns or 1, n_bins - 1), of the dtype of the scores. ``counts`` (2, cells) gets rows and hits,
    ``sums`` (1 or 3 or 4, cells, 2) the whole and the fraction in units of 2**-52.
    """
    n, n_columns = scores.shape
    n_cells = counts.shape[1]
    copies = 4 if n_columns == 1 and n_cells <= 512 else 1
    packed = np.zeros(copies * n_cells, np.int64)
    rows = np.zeros(copies * n_cells, np.int64)
    hits = np.zeros(copies * n_cells, np.int64)
    fraction = np.zeros((sums.shape[0], copies * n_cells), np.int64)
    whole = np.zeros((sums.shape[0], copies * n_cells), np.int64)
    tile = max(1, min(ROWS_BEFORE_CARRY, _TILE_ELEMENTS // n_columns))
    cells = np.empty(tile * n_columns, np.int32)
    hits_of_tile = np.empty(tile * n_columns, np.uint8)
    pending = 0
    for start in range(0, n, tile):
        stop = min(n, start + tile)
        values = scores[start:stop].reshape(-1)
        members = group[start:stop] if group.size else group
        here = cells[: values.size]
        _locate(values, n_columns, members, n_bins, lower, thresholds, here)
        if copies > 1:
            _spread_copies(here, n_cells)
        marks = hits_of_tile[: values.size]
        _mark_hits(labels[start:stop], first_class, n_columns, marks)
        _add_scores(values, marks, here, packed, fraction[0])
        if kind == SQUARES:
            _add_squares(values, marks, here, fraction[1], fraction[2])
        elif kind == OFFSETS:
            _add_offsets(values, marks, here, left, width, fraction[1], fraction[2], fraction[3])
        if counts.shape[1] > here.size:
            # With many slices, visiting the cells of the tile is cheaper than visiting all.
            for k in range(sums.shape[0]):
                _carry_touched(here, fraction[k], whole[k])
            _unpack_touched(here, packed, rows, hits)
            continue
        pending += stop - start
        if pending + tile > ROWS_BEFORE_CARRY or stop == n:
            pending = 0
            for k in range(sums.shape[0]):
                carry(fraction[k], whole[k])
            for i in range(packed.size):
                rows[i] += packed[i] & _ROWS
                hits[i] += packed[i] >> 32
                packed[i] = 0
    for i in range(copies * n_cells):
        cell = i % n_cells
        counts[0, cell] += rows[i]
        counts[1, cell] += hits[i]
        for k in range(sums.shape[0]):
            sums[k, cell, 0] += whole[k, i]
            sums[k, cell, 1] += fraction[k, i]
    for k in range(sums.shape[0]):
        carry(sums[k, :, 1], sums[k, :, 0])


@compiled
def weighted_bin_sums(
    scores, labels, weights, first_class, group, n_bins, lower, thresholds, left, width, kind, counts, sums
):
    """The weighted counterpart of ``bin_sums``, in float64 and row order.

    ``counts`` (2, cells) gets rows and hits of positive weight; ``sums`` (4 or 6 or 7, cells) the sums of w, w**2,
    w * outcome, w * score and, by ``kind``, of the further products times w.
    """
    n, n_columns = scores.shape
    tile = max(1, min(ROWS_BEFORE_CARRY, _TILE_ELEMENTS // n_columns))
    cells = np.empty(tile * n_columns, np.int32)
    for start in range(0, n, tile):
        stop = min(n, start + tile)
        values = scores[start:stop].reshape(-1)
        members = group[start:stop] if group.size else group
        _locate(values, n_columns, members, n_bins, lower, thresholds, cells[: values.size])
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
