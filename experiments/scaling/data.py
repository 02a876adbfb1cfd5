"""Predictions for the benchmarks, and reading them as a reference."""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Rows = tuple[npt.NDArray[np.int32], npt.NDArray[Any]]


def binary(rows: int, dtype: str, *, skewed: bool = False, seed: int = 0) -> Rows:
    """Labels and scores of two classes: uniform scores, or nine of ten near 0 (Beta(0.2, 2))."""
    rng = np.random.default_rng(seed)
    scores = (rng.beta(0.2, 2.0, rows) if skewed else rng.random(rows)).astype(dtype)
    return (rng.random(rows) < scores).astype(np.int32), scores


def matrix(rows: int, classes: int, dtype: str, seed: int = 0) -> Rows:
    """Labels and scores of many classes: softmax of normal numbers with standard deviation 2."""
    rng = np.random.default_rng(seed)
    scores = np.exp(2 * rng.standard_normal((rows, classes), np.float32))
    scores /= scores.sum(1, keepdims=True, dtype=np.float64)
    labels = (np.cumsum(scores, axis=1) < rng.random((rows, 1))).sum(1).clip(0, classes - 1)
    return labels.astype(np.int32), np.ascontiguousarray(scores, dtype)


@numba.njit(nogil=True, cache=True)
def _sum(words: Any) -> Any:
    total = np.int64(0)
    for i in range(words.size):
        total += words[i]
    return total


def read(*arrays: npt.NDArray[Any]) -> int:
    """Read every byte once, as fast as a core can: sums of the bits as integers."""
    return int(sum(_sum(array.reshape(-1).view(np.int64 if array.nbytes % 8 == 0 else np.int32)) for array in arrays))
