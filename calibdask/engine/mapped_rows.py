"""A function of the rows of a Dask array, applied lazily block by block."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float64]


def mapped_blocks(function: Callable[..., Rows], scores: Any, codes: Any, columns: int) -> da.Array:
    """``function(scores[, codes])`` of every block, of shape (n, columns).

    ``scores`` (n,) or (n, K), also a Dask frame; ``codes`` (n,), or None.
    """
    array = scores.to_dask_array() if hasattr(scores, "to_dask_array") else scores
    compute = function if array.ndim == 2 else _OfVectors(function)
    array = array.rechunk({1: -1}) if array.ndim == 2 else array[:, None]
    of_rows = {"chunks": (array.chunks[0], (columns,)), "dtype": np.float64, "meta": np.empty((0, columns))}
    if codes is None:
        return array.map_blocks(compute, **of_rows)
    codes = da.asarray(codes)
    if not np.isnan(array.chunks[0]).any():
        codes = codes.rechunk((array.chunks[0],))
    return array.map_blocks(_WithCodes(compute), codes[:, None], **of_rows)


@dataclass(frozen=True)
class _OfVectors:
    """A function of vectors, for blocks with one column."""

    function: Callable[..., Rows]

    def __call__(self, scores: Any, codes: Any = None) -> Rows:
        return self.function(np.asarray(scores)[:, 0], codes)


@dataclass(frozen=True)
class _WithCodes:
    """A function that takes codes as a vector, for blocks that have them as a column."""

    function: Callable[..., Rows]

    def __call__(self, scores: Any, codes: Any) -> Rows:
        return self.function(scores, codes[:, 0])
