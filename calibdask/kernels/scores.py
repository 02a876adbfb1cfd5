"""Sums of per-row proper scores: Brier and logarithmic."""

import numpy as np

from calibdask.kernels.compiled import (
    ROWS_BEFORE_CARRY,
    add_fixed,
    add_fixed_at,
    add_value_at,
    compiled,
    fixed,
    inlined,
    unit,
)
from calibdask.kernels.labels import read_labels
from calibdask.kernels.logarithm import log_64

# Rows whose scores are kept while those that share them are added up.
_TILE = 1024


@inlined
def _brier(row, label, vector):
    if vector:
        difference = unit(row[0]) - np.float64(label == 1)
        return difference * difference
    total = 0.0
    for c in range(row.size):
        difference = unit(row[c]) - np.float64(label == c)
        total += difference * difference
    return total


# Of ``vector`` and ``matrix`` one is None, and what it is for left out as numba compiles.
@inlined
def _look_up(scores, labels, vector, matrix, smallest, p, log):
    """Scores of the observed classes, 0 for labels that are no class, and their logarithmic scores."""
    if vector is not None:
        for r in range(labels.size):
            x = unit(scores[r, 0])
            p[r] = x if labels[r] == 1 else 1.0 - x
    if matrix is not None:
        n_classes = np.uint64(scores.shape[1])
        for r in range(labels.size):
            # Unsigned, so that one comparison decides whether it is a class, and no index is negative.
            label = np.uint64(labels[r])
            there = label < n_classes
            x = scores[r, label if there else np.uint64(0)]
            p[r] = unit(x) if there else 0.0
    for r in range(labels.size):
        log[r] = -log_64(max(p[r], smallest))


@inlined
def _add_log(log, words):
    """Add up to 1024 numbers in [0, 2**11) as whole and fraction."""
    whole, fraction = np.int64(0), np.int64(0)
    for r in range(log.size):
        below = np.floor(log[r])
        whole += np.int64(below)
        fraction += fixed(log[r] - below)
    words[0] += whole
    add_fixed(fraction, words)


@inlined
def _add_brier(scores, labels, p, vector, matrix, words):
    """Add squared distances of scores and outcomes, each rounded to 2**-52."""
    if vector is not None:
        total = np.int64(0)
        for r in range(labels.size):
            difference = unit(scores[r, 0]) - np.float64(labels[r] == 1)
            total += fixed(difference * difference)
        add_fixed(total, words)
    if matrix is not None:
        values = scores.reshape(-1)
        for at in range(0, values.size, ROWS_BEFORE_CARRY):
            part = values[at : at + ROWS_BEFORE_CARRY]
            total = np.int64(0)
            for e in range(part.size):
                x = unit(part[e])
                total += fixed(x * x)
            add_fixed(total, words)
        # The squares of the scores of the observed classes are replaced by those of their distances to 1.
        total = np.int64(0)
        for r in range(labels.size):
            if 0 <= labels[r] < scores.shape[1]:
                missing = 1.0 - p[r]
                total += fixed(missing * missing) - fixed(p[r] * p[r])
        add_fixed(total, words)


@inlined
def _add_brier_of_row(scores, labels, r, p, vector, matrix, table, at):
    """Add the Brier terms of one row to row ``at`` of a table."""
    if vector is not None:
        difference = unit(scores[r, 0]) - np.float64(labels[r] == 1)
        add_fixed_at(fixed(difference * difference), table, at)
    if matrix is not None:
        total = np.int64(0)
        for c in range(scores.shape[1]):
            x = unit(scores[r, c])
            total += fixed(x * x)
            if c % ROWS_BEFORE_CARRY == ROWS_BEFORE_CARRY - 1:
                add_fixed_at(total, table, at)
                total = np.int64(0)
        if 0 <= labels[r] < scores.shape[1]:
            missing = 1.0 - p[r]
            total += fixed(missing * missing) - fixed(p[r] * p[r])
        add_fixed_at(total, table, at)


@compiled
def row_scores(scores, labels, vector, matrix, smallest, out):
    """Fill ``out`` (2, n) with the Brier and the logarithmic score of every row; arguments as for `score_sums`."""
    p, log = np.empty(_TILE), np.empty(_TILE)
    for start in range(0, scores.shape[0], _TILE):
        stop = min(scores.shape[0], start + _TILE)
        _look_up(scores[start:stop], labels[start:stop], vector, matrix, smallest, p, log)
        for r in range(start, stop):
            out[0, r] = _brier(scores[r], np.int64(labels[r]), vector is not None)
            out[1, r] = log[r - start]


@compiled
def score_sums(scores, labels, group, vector, matrix, smallest, brier, counts, sums):
    """Add the rows of one block to the exact sums of both scores.

    ``scores`` (n, classes) of a ``matrix`` or, of a ``vector`` of P(y = 1), (n, 1); packed ``labels`` (n). ``counts``
    (2, groups) gets rows and rows whose probability was clipped at ``smallest``; ``sums`` (2, groups, 2) the Brier and
    the logarithmic score: squares of every score, and logarithms of every row, are rounded to 2**-52. The Brier score
    stays 0 unless ``brier``.
    """
    p, log, labels_of_tile = np.empty(_TILE), np.empty(_TILE), np.empty(_TILE, np.int64)
    brier_words, log_words = sums
    for start in range(0, scores.shape[0], _TILE):
        stop = min(scores.shape[0], start + _TILE)
        values, classes = scores[start:stop], read_labels(labels, start, stop, labels_of_tile)
        chosen, logs = p[: stop - start], log[: stop - start]
        _look_up(values, classes, vector, matrix, smallest, chosen, logs)
        if group.size == 0:
            counts[0, 0] += stop - start
            for r in range(chosen.size):
                counts[1, 0] += chosen[r] < smallest
            if brier:
                _add_brier(values, classes, chosen, vector, matrix, sums[0, 0])
            _add_log(logs, sums[1, 0])
            continue
        for r in range(stop - start):
            g = group[start + r]
            counts[0, g] += 1
            counts[1, g] += chosen[r] < smallest
            if brier:
                _add_brier_of_row(values, classes, r, chosen, vector, matrix, brier_words, g)
            add_value_at(logs[r], log_words, g)


@compiled
def weighted_score_sums(scores, labels, weights, group, vector, matrix, smallest, squares, counts, sums):
    """The weighted counterpart in float64, of all batch elements, whose scores, labels or weights may be shared.

    ``scores``, ``labels`` and ``weights`` (m, n, ...), of which batch element b has number b % m; ``counts``
    (batch, 2, groups); ``sums`` (batch, 3, groups) of w, w * Brier, w * logarithmic score; the Brier score is 0 unless
    ``squares``.
    """
    batch, n = counts.shape[0], scores.shape[1]
    apart = max(scores.shape[0], labels.shape[0])
    brier, p, log = np.zeros(_TILE), np.empty(_TILE), np.empty(_TILE)
    for start in range(0, n, _TILE):
        stop = min(n, start + _TILE)
        for s in range(apart):
            own_scores, own_labels = scores[s % scores.shape[0]], labels[s % labels.shape[0]]
            _look_up(own_scores[start:stop], own_labels[start:stop], vector, matrix, smallest, p, log)
            if squares:
                for r in range(start, stop):
                    brier[r - start] = _brier(own_scores[r], np.int64(own_labels[r]), vector is not None)
            for b in range(s, batch, apart):
                row, count, total = weights[b % weights.shape[0], start:stop], counts[b], sums[b]
                # No branches: which weights of replicates are 0 is unpredictable, and adding 0 changes nothing.
                for r in range(row.size):
                    w = row[r] if row[r] > 0.0 else 0.0
                    g = group[start + r] if group.size else 0
                    count[0, g] += w > 0.0
                    count[1, g] += (w > 0.0) & (p[r] < smallest)
                    total[0, g] += w
                    total[1, g] += w * brier[r]
                    total[2, g] += w * log[r]
