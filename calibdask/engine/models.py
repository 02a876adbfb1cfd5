"""Scores of several models for the same rows, as one source with a dimension of models."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.arrays import as_variable, is_dask
from calibdask.engine.inputs import Input, check_coordinates, read_arrays, without_frames
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
        If shapes or types do not fit each other.
    """
    columns = _columns(models)
    words = {name: f"y_prob of {name!r}" for name in models}
    rest = {"y_true": y_true, "sample_weight": sample_weight}
    given, by = without_frames(rest | {words[name]: scores for name, scores in models.items()}, by)
    labelled = [each for each in given.values() if isinstance(each, xr.DataArray)]
    check_coordinates(labelled, class_dim)
    labels = as_variable("y_true", given["y_true"], sample_dim, None, None)
    variables = {name: as_variable(word, given[word], sample_dim, class_dim, labels) for name, word in words.items()}
    _check_alike(variables)
    coords = {dim: array[dim].values for array in reversed(labelled) for dim in array.dims if dim in array.coords}
    if columns is not None:
        coords.setdefault(class_dim, columns)
    stacked = _stacked(list(variables.values()))
    known = {dim: values for dim, values in coords.items() if dim in stacked.dims}
    scores = xr.DataArray(stacked, {MODEL: list(models), **known})
    return read_arrays(given["y_true"], scores, by, given["sample_weight"], sample_dim, class_dim, validity)


def _columns(models: Mapping[str, Any]) -> Any:
    """The columns of data frames, which all models have in one order."""
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
    """Refuse models whose scores have not the same dimensions and sizes; unknown sizes are as good as equal."""
    (name, first), *rest = variables.items()
    if MODEL in first.dims:
        raise ValueError(f"The models make a dimension {MODEL!r}, and the scores of {name!r} have one; rename it.")
    for other, variable in rest:
        sizes = [(first.sizes.get(dim), size) for dim, size in variable.sizes.items()]
        known = [(a, b) for a, b in sizes if a == a and b == b]
        if np.result_type(first.dtype, np.float32) != np.result_type(variable.dtype, np.float32):
            # A score of 0 is clipped at the smallest number of its type: with another type the model has another score.
            raise ValueError(
                f"All models expect scores of one type, got {first.dtype} for {name!r} and {variable.dtype} for "
                f"{other!r}; convert one of them by astype."
            )
        if set(variable.dims) != set(first.dims) or any(a != b for a, b in known):
            raise ValueError(
                f"All models expect scores of one shape, got {dict(first.sizes)} for {name!r} and "
                f"{dict(variable.sizes)} for {other!r}."
            )
