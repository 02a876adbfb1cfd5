"""The median heuristic: bandwidths that are medians of distances between predictions."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.kernels import pairs
from calibdask.statistics.pairs.pair_kernel import Distance

_CODES = {"tv": pairs.TV, "euclidean": pairs.EUCLIDEAN}
# Up to this number of distances are stored; with more, the range around the median is narrowed first.
_KEPT = 1 << 20
_CELL_BITS = 20
_KEY_BITS = 62  # keys of doubles below 2


def median_distance(scores: npt.NDArray[np.floating], distance: Distance, *, full: bool) -> float:
    """Median of the distances of rows (n, K): of pairs i < j, or of the ``full`` matrix with its zero diagonal.

    The mean of the two middle distances for an even number; NaN without pairs. O(n**2 K) time, 16 MB.

    Examples
    --------
    >>> median_distance(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), "tv", full=False)
    0.5
    """
    n = len(scores)
    count = n * n if full else n * (n - 1) // 2
    if count == 0:
        return math.nan
    ranks = (count - 1) // 2, count // 2
    if full:
        # Every distance occurs twice, after the zeros of the diagonal.
        ranks = (ranks[0] - n) // 2, (ranks[1] - n) // 2
    return sum(_distances_of_ranks(scores, distance, ranks)) / 2


def _distances_of_ranks(
    scores: npt.NDArray[np.floating], distance: Distance, ranks: tuple[int, int]
) -> tuple[float, float]:
    """The distances of pairs i < j at these ranks; 0 for a negative rank. Ranks differ by 0 or 1."""
    low, high = ranks
    if high < 0:
        return 0.0, 0.0
    if low < 0:
        return 0.0, _distances_of_ranks(scores, distance, (high, high))[0]
    count, start, width = len(scores) * (len(scores) - 1) // 2, 0, _KEY_BITS
    while count > _KEPT and width > 0:
        shift = max(0, width - _CELL_BITS)
        counts = np.zeros(1 << (width - shift), np.int64)
        _scan(scores, distance, start, width, shift, counts, np.zeros(0))
        below = np.cumsum(counts)
        cell, other = np.searchsorted(below, (low, high), side="right").tolist()
        if cell != other:
            # They lie in two cells: find them separately.
            lower, upper = (_distances_of_ranks(scores, distance, (rank, rank))[0] for rank in ranks)
            return lower, upper
        count = int(counts[cell])
        low, high = (rank - int(below[cell]) + count for rank in (low, high))
        start, width = start + (cell << shift), shift
    if width == 0:
        value = float(np.int64(start).view(np.float64))
        return value, value
    kept = np.empty(count)
    _scan(scores, distance, start, width, width, np.zeros(1, np.int64), kept)
    kept.partition((low, high))
    return float(kept[low]), float(kept[high])


def _scan(scores: Any, distance: Distance, start: int, width: int, shift: int, counts: Any, kept: Any) -> None:
    """Count or keep the distances of pairs i < j whose key is one of 2**width from ``start`` on."""
    pairs.distances(scores, scores, True, _CODES[distance], start, start + (1 << width) - 1, shift, counts, kept)
