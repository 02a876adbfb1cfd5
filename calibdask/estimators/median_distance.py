"""The median heuristic: bandwidths that are medians of distances between predictions."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.kernels import pairs
from calibdask.statistics.pair_kernel import Distance

__all__ = ["median_distance"]

_CODES = {"tv": pairs.TV, "euclidean": pairs.EUCLIDEAN}
# So many distances are held; of more, first those around the median are looked for.
_KEPT = 1 << 20
_CELL_BITS = 20
_KEY_BITS = 62  # keys of doubles below 2


def median_distance(scores: npt.NDArray[np.floating], distance: Distance, *, full: bool) -> float:
    """Median of the distances of rows (n, K): of pairs i < j, or of the ``full`` matrix with its zero diagonal.

    The mean of the two middle ones where their number is even; NaN where there is none. O(n**2 K) time, 16 MB.

    Examples
    --------
    >>> median_distance(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), "tv", full=False)
    0.5
    """
    n = len(scores)
    count = n * n if full else n * (n - 1) // 2
    if count == 0:
        return math.nan
    low, high = (_distance_of_rank(scores, distance, rank, full) for rank in ((count - 1) // 2, count // 2))
    return (low + high) / 2


def _distance_of_rank(scores: npt.NDArray[np.floating], distance: Distance, rank: int, full: bool) -> float:
    """The distance with ``rank`` others before it. In the full matrix every distance stands twice."""
    n = len(scores)
    if full:
        if rank < n:
            return 0.0
        rank = (rank - n) // 2
    found, low, width = n * (n - 1) // 2, 0, _KEY_BITS
    while found > _KEPT and width > 0:
        shift = max(0, width - _CELL_BITS)
        counts = np.zeros(1 << (width - shift), np.int64)
        _look(scores, distance, low, width, shift, counts, np.zeros(0))
        below = np.cumsum(counts)
        cell = int(np.searchsorted(below, rank, side="right"))
        found = int(counts[cell])
        rank -= int(below[cell]) - found
        low, width = low + (cell << shift), shift
    if width == 0:
        return float(np.int64(low).view(np.float64))
    kept = np.empty(found)
    _look(scores, distance, low, width, width, np.zeros(1, np.int64), kept)
    return float(np.partition(kept, rank)[rank])


def _look(scores: Any, distance: Distance, low: int, width: int, shift: int, counts: Any, kept: Any) -> None:
    """Count or keep the distances of pairs i < j whose key is one of 2**width from ``low`` on."""
    pairs.distances(scores, scores, True, _CODES[distance], low, low + (1 << width) - 1, shift, counts, kept)
