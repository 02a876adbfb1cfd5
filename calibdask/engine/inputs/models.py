"""Reading the scores of several models for the same rows, as one source with a dimension of models."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.inputs.arrays import as_variable, is_dask
from calibdask.engine.inputs.input import Input, check_coordinates, frames_to_arrays, read_arrays
from calibdask.statistics.validity import Validity

__all__ = ["MODEL", "read_models"]

MODEL = "model"


def read_models(
    y_true: Any,
    models: Mapping[str, Any],
    by: Any,
    sample_weight: Any,
    sample_dim: str,
    class_dim: str,
    validity: Validity,
) -> Input:
    """A source for the scores of all models, the dimension ``model`` first.

    Raises
    ------
    ValueError
        If shapes or types do not match.
    """
    columns = _columns(models)
    arguments = {name: f"y_prob of {name!r}" for name in models}
    rest = {"y_true": y_true, "sample_weight": sample_weight}
    inputs, by = frames_to_arrays(rest | {arguments[name]: scores for name, scores in models.items()}, by)
    labelled = [array for array in inputs.values() if isinstance(array, xr.DataArray)]
    check_coordinates(labelled, class_dim)
    labels = as_variable("y_true", inputs["y_true"], sample_dim, None, None)
    variables = {
        name: as_variable(argument, inputs[argument], sample_dim, class_dim, labels)
        for name, argument in arguments.items()
    }
    _check_alike(variables)
    coords = {dim: array[dim].values for array in reversed(labelled) for dim in array.dims if dim in array.coords}
    if columns is not None:
        coords.setdefault(class_dim, columns)
    stacked = _stacked(list(variables.values()))
    known = {dim: values for dim, values in coords.items() if dim in stacked.dims}
    scores = xr.DataArray(stacked, {MODEL: list(models), **known})
    return read_arrays(inputs["y_true"], scores, by, inputs["sample_weight"], sample_dim, class_dim, validity)


def _columns(models: Mapping[str, Any]) -> Any:
    """The columns of data frames, checked to be the same for all models."""
    tables = {name: scores for name, scores in models.items() if hasattr(scores, "columns") and scores.ndim == 2}
    frames = {name: list(table.columns) for name, table in tables.items()}
    if not frames:
        return None
    (name, first), *rest = frames.items()
    for other, columns in rest:
        if columns != first:
            raise ValueError(
                f"All models expect the same columns in the same order, got {first} for {name!r} and {columns} for "
                f"{other!r}."
            )
    return np.asarray(first, object)


def _stacked(variables: list[xr.Variable]) -> xr.Variable:
    """All scores, models first."""
    dims = variables[0].dims
    arrays = [variable.transpose(*dims).data for variable in variables]
    if not any(map(is_dask, arrays)):
        return xr.Variable((MODEL, *dims), np.stack(arrays))
    import dask.array as da

    return xr.Variable((MODEL, *dims), da.stack(arrays, allow_unknown_chunksizes=True))


def _check_alike(variables: Mapping[str, xr.Variable]) -> None:
    """Raise ValueError for models whose scores differ in type, dimensions or known sizes."""
    (name, first), *rest = variables.items()
    if MODEL in first.dims:
        raise ValueError(
            f"The models form a dimension {MODEL!r}, which the scores of {name!r} have already; rename it."
        )
    for other, variable in rest:
        sizes = [(first.sizes.get(dim), size) for dim, size in variable.sizes.items()]
        known = [(a, b) for a, b in sizes if a == a and b == b]
        if np.result_type(first.dtype, np.float32) != np.result_type(variable.dtype, np.float32):
            # Scores of 0 are clipped at the smallest number of their type: the log loss would depend on it.
            raise ValueError(
                f"All models expect scores of one type, got {first.dtype} for {name!r} and {variable.dtype} for "
                f"{other!r}; convert one of them by astype."
            )
        if set(variable.dims) != set(first.dims) or any(a != b for a, b in known):
            raise ValueError(
                f"All models expect scores of one shape, got {dict(first.sizes)} for {name!r} and "
                f"{dict(variable.sizes)} for {other!r}."
            )
