"""Consistency resampling of the multi-class ECE for many small data sets: predictions resampled, labels drawn.

What `calibdask.ConsistencyTest` with ``predictions="resampled"`` tests, by a loop over the labels of each replicate.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

BINS = 10
# Values closer than this relative difference are equal, as in `calibdask.ConsistencyTest`.
_TOLERANCE = 1e-12


def _compiled(function: Callable[..., Any]) -> Any:
    """Compile; threads run side by side, and the next process finds the code on disk."""
    return numba.njit(nogil=True, cache=True)(function)


def _reordered(function: Callable[..., Any]) -> Any:
    """Compile such that sums may be reordered: several products are added at once."""
    return numba.njit(nogil=True, fastmath={"reassoc", "contract"})(function)


def uniform_cells(scores: Any) -> Any:
    """Number of the cell (rows,) of each prediction: where rows share one of ten right-closed bins in every class."""
    return _numbered(_bins(scores, _edges()))


def product_cells(scores: Any) -> Any:
    """Cells of rows with the same product of the numbers 1 to 10 of their bins, as the authors' code numbered them.

    Rows of unlike predictions meet there: (0.05, 0.95) and (0.95, 0.05) share the product 10.
    """
    return _numbered((1.0 + _bins(scores, _edges())).prod(axis=1, keepdims=True))


def cell_error(scores: Any, labels: Any, cells: Any) -> float:
    """The multi-class ECE of a data set by cells, total variation."""
    rows = np.arange(len(labels), dtype=np.int32)[None]
    return float(cell_errors(scores, cells, rows, np.asarray(labels, np.int32)[None])[0])


def replicates(scores: Any, resamples: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Rows drawn with replacement, and labels drawn from their predictions; each (resamples, rows)."""
    return draw(np.cumsum(scores, axis=1), rng.random((resamples, len(scores))))


def pvalue(observed: float, drawn: Any) -> float:
    """(1 + number of replicates with at least the observed error) / (1 + number of replicates)."""
    return float((1 + (drawn >= observed * (1 - _TOLERANCE)).sum()) / (1 + drawn.size))


def _edges() -> Any:
    # That division: other ways to the same numbers round otherwise.
    return np.arange(1, BINS) / BINS


@_compiled
def _bins(scores: Any, edges: Any) -> Any:
    """Number of the right-closed bin of each score, from 0."""
    bins = np.zeros(scores.shape, np.uint8)
    for i in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            while bins[i, c] < edges.size and scores[i, c] > edges[bins[i, c]]:
                bins[i, c] += 1
    return bins


@_compiled
def _numbered(keys: Any) -> Any:
    """Number the rows (rows, parts) such that equal rows have equal numbers, in the order of their first appearance."""
    numbers, first, distinct = np.empty(keys.shape[0], np.int32), np.empty(keys.shape[0], np.int32), 0
    for i in range(keys.shape[0]):
        number = 0
        while number < distinct and not np.array_equal(keys[first[number]], keys[i]):
            number += 1
        if number == distinct:
            first[distinct] = i
            distinct += 1
        numbers[i] = number
    return numbers


@_compiled
def draw(reached: Any, uniforms: Any) -> Any:
    """Rows and labels (replicates, rows) by inversion; one uniform number determines the row, its remainder the label.

    ``reached`` (rows, classes) holds cumulated predictions. A label is the first class whose cumulated prediction is
    above the threshold; ``starts`` holds where to begin to look (Chen & Asau 1974), so that two steps or so will do.
    """
    rows, classes = reached.shape
    starts = np.empty((rows, classes), np.int32)
    for i in range(rows):
        c = 0
        for k in range(classes):
            while c < classes - 1 and reached[i, c] <= k / classes * reached[i, classes - 1]:
                c += 1
            # One less: the threshold is rounded otherwise.
            starts[i, k] = max(c - 1, 0)
    chosen, labels = np.empty(uniforms.shape, np.int32), np.empty(uniforms.shape, np.int32)
    for r in range(uniforms.shape[0]):
        for i in range(uniforms.shape[1]):
            scaled = uniforms[r, i] * rows
            row = min(np.int64(scaled), rows - 1)
            share = min(scaled - row, 1.0)
            threshold = share * reached[row, classes - 1]
            label = starts[row, min(np.int64(share * classes), classes - 1)]
            while label < classes - 1 and reached[row, label] <= threshold:
                label += 1
            chosen[r, i], labels[r, i] = row, label
    return chosen, labels


@_reordered
def _dot(a: Any, b: Any) -> Any:
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@_compiled
def cell_errors(scores: Any, cells: Any, chosen: Any, labels: Any) -> Any:
    """The multi-class ECE of each replicate (replicates,): rows ``chosen`` of the scores, with ``labels``.

    The predictions and the labels in a cell have the same sum over the classes, so that half the sum of the absolute
    differences is the sum of those by which labels exceed predictions: only classes of labels are looked at.
    """
    rows, classes = scores.shape
    order = np.argsort(cells, kind="mergesort")
    ordered, columns = cells[order], np.ascontiguousarray(scores[order].T)
    position, starts = np.empty(rows, np.int64), np.searchsorted(ordered, np.arange(ordered[-1] + 2))
    position[order] = np.arange(rows)
    counts = np.zeros((starts.size - 1) * classes)
    times, keys = np.empty(rows), np.empty(rows, np.int64)
    errors = np.zeros(chosen.shape[0])
    for r in range(chosen.shape[0]):
        times[:] = 0.0
        distinct = 0
        for i in range(rows):
            at = position[chosen[r, i]]
            times[at] += 1.0
            key = ordered[at] * classes + labels[r, i]
            if counts[key] == 0.0:
                keys[distinct] = key
                distinct += 1
            counts[key] += 1.0
        for key in keys[:distinct]:
            cell = key // classes
            here = slice(starts[cell], starts[cell + 1])
            predicted = _dot(times[here], columns[key - cell * classes, here])
            errors[r] += max(0.0, counts[key] - predicted)
            counts[key] = 0.0
        errors[r] /= rows
    return errors
