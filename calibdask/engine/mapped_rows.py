"""A function of the rows of a Dask array, applied lazily block by block."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt

from calibdask.engine.arrays import StrayValue

Rows = npt.NDArray[np.float64]


def mapped_blocks(function: Callable[..., Rows], scores: Any, codes: Any, columns: int) -> da.Array:
    """``function(scores[, codes])`` of every block, of shape (n, columns).

    ``scores`` (n,) or (n, K), also a Dask frame; ``codes`` (n,) or (n, m), or None.
    """
    array = scores.to_dask_array() if hasattr(scores, "to_dask_array") else da.asarray(scores)
    compute = _Located(function if array.ndim == 2 else _OfVectors(function))
    array = array.rechunk({1: -1}) if array.ndim == 2 else array[:, None]
    of_rows = {"chunks": (array.chunks[0], (columns,)), "dtype": np.float64, "meta": np.empty((0, columns))}
    if codes is None:
        return array.map_blocks(compute, **of_rows)
    codes = da.asarray(codes)
    if not np.isnan(array.chunks[0]).any():
        codes = codes.rechunk({0: array.chunks[0]})
    if codes.ndim == 2:
        return array.map_blocks(compute, codes, **of_rows)
    return array.map_blocks(_Located(_WithCodes(compute.function)), codes[:, None], **of_rows)


def mapped_codes(functions: Sequence[tuple[Callable[..., Any], Any]]) -> da.Array:
    """Values (n, columns) uint8 of functions of columns, arrays or Dask series, in blocks of all columns."""
    arrays = [
        values.to_dask_array() if hasattr(values, "to_dask_array") else da.asarray(values) for _, values in functions
    ]
    chunks = next((array.chunks for array in arrays if array.npartitions > 1), arrays[0].chunks)
    aligned = [array if np.isnan(chunks[0]).any() else array.rechunk(chunks) for array in arrays]
    codes = [
        array.map_blocks(function, dtype=np.uint8, meta=np.empty(0, np.uint8))
        for (function, _), array in zip(functions, aligned, strict=True)
    ]
    return da.stack(codes, axis=-1, allow_unknown_chunksizes=True).rechunk({1: -1})


@dataclass(frozen=True)
class _Located:
    """A function whose errors name the row of all rows, where Dask knows it."""

    function: Callable[..., Rows]

    def __call__(self, *arrays: Any, block_info: Any = None) -> Rows:
        try:
            return self.function(*arrays)
        except StrayValue as error:
            raise error.in_block(block_info) from None


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
