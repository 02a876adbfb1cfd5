"""Scores of several models of shared rows, which form a dimension of models."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.arrays import is_dask
from calibdask.engine.row_notes import level_of_caller

MODEL = "model"


def check_columns(models: Mapping[str, Any]) -> None:
    """Raise ValueError for data frames whose columns differ between models."""
    tables = {name: scores for name, scores in models.items() if hasattr(scores, "columns") and scores.ndim == 2}
    frames = {name: list(table.columns) for name, table in tables.items()}
    if not frames:
        return
    (name, first), *rest = frames.items()
    for other, columns in rest:
        if columns != first:
            raise ValueError(
                f"All models expect the same columns in the same order, got {first} for {name!r} and {columns} for "
                f"{other!r}."
            )


def scores_of_models(variables: Mapping[str, xr.Variable]) -> xr.Variable:
    """The scores of all models, the dimension of models first.

    Raises
    ------
    ValueError
        If they differ in dimensions or known sizes.
    """
    check_compatible(variables)
    dims = next(iter(variables.values())).dims
    arrays = [variable.transpose(*dims).data for variable in variables.values()]
    if not any(map(is_dask, arrays)):
        return xr.Variable((MODEL, *dims), np.stack(arrays))
    import dask.array as da

    return xr.Variable((MODEL, *dims), da.stack(arrays, allow_unknown_chunksizes=True))


def check_compatible(variables: Mapping[str, xr.Variable]) -> None:
    """Raise ValueError for models whose scores differ in dimensions or known sizes; warn of several types."""
    if not variables:
        return
    (name, first), *rest = variables.items()
    if MODEL in first.dims:
        raise ValueError(
            f"The models form a dimension {MODEL!r}, which the scores of {name!r} have already; rename it."
        )
    for other, variable in rest:
        sizes = [(first.sizes.get(dim), size) for dim, size in variable.sizes.items()]
        known = [(a, b) for a, b in sizes if a == a and b == b]
        if np.result_type(first.dtype, np.float32) != np.result_type(variable.dtype, np.float32):
            warnings.warn(
                f"The scores of {name!r} are {first.dtype}, those of {other!r} {variable.dtype}: all are measured as "
                "float64, which represents both exactly. Where scores are 0 or 1, the log loss is clipped at the "
                "smallest float64.",
                UserWarning,
                stacklevel=level_of_caller(),
            )
        if set(variable.dims) != set(first.dims) or any(a != b for a, b in known):
            raise ValueError(
                f"All models expect scores of one shape, got {dict(first.sizes)} for {name!r} and "
                f"{dict(variable.sizes)} for {other!r}."
            )
