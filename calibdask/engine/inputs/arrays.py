"""Conversion of arrays of all supported kinds to xarray variables with named dimensions."""

from typing import Any

import numpy as np
import xarray as xr

__all__ = ["as_variable", "check_types", "is_dask", "plain", "with_axis"]


def is_dask(array: Any) -> bool:
    """Whether this is a Dask collection; does not import dask."""
    return type(array).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(array, "dask")


def with_axis(array: Any, axis: int) -> Any:
    """The array with one more axis of size 1; for Dask as a blockwise layer, which fuses where slicing does not."""
    if not is_dask(array):
        return np.expand_dims(array, axis)
    return array.map_blocks(
        np.expand_dims, axis=axis, new_axis=axis, dtype=array.dtype, meta=np.empty((0,) * (array.ndim + 1), array.dtype)
    )


def plain(array: Any) -> Any:
    """A NumPy or Dask array from an array, a data frame, a series or a list."""
    if is_dask(array):
        return array
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.getmaskarray(array).any():
            raise ValueError("Masked values are not supported; remove these rows, or give them weight 0.")
        return np.asarray(array.data)
    if hasattr(array, "to_numpy"):
        return array.to_numpy()
    return np.asarray(array)


def as_variable(
    name: str, values: Any, sample_dim: str, class_dim: str | None, labels: xr.Variable | None
) -> xr.Variable:
    """Name the dimensions; unnamed ones are (dim_0, ..., sample) or (dim_0, ..., sample, class).

    Scores have a class dimension if they have one dimension more than the labels, or the labels are one-dimensional.
    """
    if isinstance(values, xr.DataArray | xr.Variable):
        variable = values.variable if isinstance(values, xr.DataArray) else values
        if sample_dim not in variable.dims:
            raise ValueError(
                f"{name} expects a dimension {sample_dim!r} of samples, got {variable.dims}; name it by sample_dim."
            )
    else:
        array = plain(values)
        if array.ndim == 0:
            raise ValueError(f"{name} expects at least one dimension, of samples; got a single number.")
        classes = labels is not None and _has_classes(array.shape, labels.shape)
        tail = (sample_dim, class_dim) if classes else (sample_dim,)
        lead = [f"dim_{i}" for i in range(array.ndim - len(tail))]
        variable = xr.Variable((*lead, *tail), array)
    if class_dim is not None and variable.sizes.get(class_dim) == 1:
        raise ValueError(
            f"{name} has a single class column; give the vector of P(y = 1), shape (n,), or two columns (1 - p, p)."
        )
    return variable


def _has_classes(scores: tuple[int, ...], labels: tuple[int, ...]) -> bool:
    if len(scores) == len(labels):
        return False
    if len(scores) == len(labels) + 1 or (len(labels) == 1 and len(scores) > 2):
        return True
    raise ValueError(
        f"y_true and y_prob expect shapes (..., n) and (..., n) or (..., n, K), got shapes {labels} and {scores}."
    )


def check_types(scores: xr.Variable, others: dict[str, xr.Variable]) -> None:
    """Raise ValueError for types that cannot be scores, labels or weights."""
    if scores.dtype.kind not in "fiub":
        raise ValueError(f"y_prob expects real numbers in [0, 1], got an array of type {scores.dtype}.")
    if others["labels"].dtype.kind not in "fiub":
        raise ValueError(
            f"y_true expects class numbers 0, 1, ..., got an array of type {others['labels'].dtype}; "
            "encode class names in the order of the score columns."
        )
    if "weights" in others and others["weights"].dtype.kind not in "fiub":
        raise ValueError(f"sample_weight expects real numbers, got an array of type {others['weights'].dtype}.")
