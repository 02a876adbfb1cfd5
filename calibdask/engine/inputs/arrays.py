"""Arrays of all supported kinds as NumPy or Dask arrays."""

from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.inputs.protocols import host_array, speaks_protocols


def is_dask(array: Any) -> bool:
    """Whether this is a Dask collection; does not import dask."""
    return type(array).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(array, "dask")


def is_named(array: Any) -> bool:
    """Whether the dimensions have names."""
    return isinstance(array, xr.DataArray | xr.Variable)


def is_pandas(array: Any) -> bool:
    """Whether this is a series or a data frame of pandas; does not import pandas."""
    return type(array).__module__.partition(".")[0] == "pandas" and hasattr(array, "index") and hasattr(array, "loc")


def ndim_of(array: Any) -> int:
    """Number of dimensions."""
    return int(array.ndim) if hasattr(array, "ndim") else np.ndim(array)


def with_axis(array: Any, axis: int) -> Any:
    """The array with one more axis of size 1; for Dask as a blockwise layer, which fuses where slicing does not."""
    if not is_dask(array):
        return np.expand_dims(array, axis)
    return array.map_blocks(
        np.expand_dims, axis=axis, new_axis=axis, dtype=array.dtype, meta=np.empty((0,) * (array.ndim + 1), array.dtype)
    )


def plain(array: Any, name: str = "An array") -> Any:
    """A NumPy or Dask array from an array, a data frame, a series, a tensor of another library or a list."""
    if is_dask(array):
        return array.map_blocks(unmasked, dtype=array.dtype) if _is_masked(getattr(array, "_meta", None)) else array
    if isinstance(array, np.ndarray):
        return unmasked(array)
    # The to_numpy of Arrow refuses texts.
    if hasattr(array, "to_numpy") and type(array).__module__.partition(".")[0] != "pyarrow":
        return unmasked(array.to_numpy())
    if speaks_protocols(array):
        return unmasked(host_array(name, array))
    if isinstance(array, list | tuple):
        # Converted as one array, masked rows would lose their masks.
        array = [unmasked(row) if _is_masked(row) and row.ndim else row for row in array]
    return np.asarray(array)


def unmasked(array: Any) -> Any:
    """The array without a mask.

    Raises
    ------
    ValueError
        If values are masked.
    """
    if not _is_masked(array):
        return array
    if np.ma.getmaskarray(array).any():
        raise ValueError("Masked values are not supported; remove these rows, or give them weight 0.")
    return np.asarray(array.data)


def _is_masked(array: Any) -> bool:
    return isinstance(array, np.ma.MaskedArray)


def rows_of_lists(array: np.ndarray, name: str) -> np.ndarray:
    """A matrix of an array whose cells are lists or arrays, as in a column of vectors; missing ones are rows of NaN.

    Examples
    --------
    >>> cells = np.empty(2, object)
    >>> cells[:] = [[0.2, 0.8], [0.7, 0.3]]
    >>> rows_of_lists(cells, "y_prob").shape
    (2, 2)
    """
    if (
        array.dtype != object
        or array.ndim != 1
        or not array.size
        or not isinstance(array[0], list | tuple | np.ndarray)
    ):
        return array
    absent = np.array([not isinstance(cell, list | tuple | np.ndarray) for cell in array])
    sizes = {np.shape(cell) for cell in array[~absent]}
    if len(sizes) > 1:
        raise ValueError(
            f"{name} holds lists, and expects one value for each class in every row, got "
            f"{' and '.join(str(size[0]) for size in sorted(sizes)[:2])} of them."
        )
    rows = np.stack([np.asarray(unmasked(cell)) for cell in array[~absent]])
    if not absent.any():
        return rows
    matrix = np.full((array.size, *rows.shape[1:]), np.nan, np.result_type(rows, np.float16))
    matrix[~absent] = rows
    return matrix


def merged_in_float64(values: Any) -> int | None:
    """The first whole number so large that float64 does not tell it from its neighbours; None without any.

    Examples
    --------
    >>> merged_in_float64([7, 2**53 + 1]), merged_in_float64([0.5, np.inf])
    (9007199254740993, None)
    """
    numbers = np.asarray(values)
    if numbers.dtype.kind == "f":
        numbers = np.where(np.isfinite(numbers), numbers, 0).astype(np.float64)
    large = numbers[(numbers >= 2**53) | (numbers <= -(2**53))]
    return int(large[0]) if large.size else None


def check_types(scores: xr.Variable, others: dict[str, xr.Variable]) -> None:
    """Raise ValueError for types that cannot be scores, labels or weights."""
    if scores.dtype.kind not in "fiub":
        narrow = "; convert it to float32" if scores.dtype.kind == "V" else ""
        raise ValueError(f"y_prob expects real numbers in [0, 1], got an array of type {scores.dtype}{narrow}.")
    if others["labels"].dtype.kind not in "fiub":
        raise ValueError(
            f"y_true expects class numbers 0, 1, ..., got an array of type {others['labels'].dtype}; "
            "name the classes in the order of the score columns by labels=...."
        )
    if "weights" in others and others["weights"].dtype.kind not in "fiub":
        raise ValueError(f"sample_weight expects real numbers, got an array of type {others['weights'].dtype}.")
