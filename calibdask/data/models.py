"""Scores of several models of shared rows, read as one source with a model dimension."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from calibdask.data import slices
from calibdask.data.alignment import aligned
from calibdask.data.arrays import (
    NamedArrays,
    check_coordinates,
    coordinates_of,
    frames_to_arrays,
    hosted,
    read_named,
)
from calibdask.data.class_names import encode_labels
from calibdask.data.clusters import CLUSTERS, clusters_of
from calibdask.data.input import Input
from calibdask.data.options import InputOptions
from calibdask.data.shapes import Shape
from calibdask.engine.arrays import is_dask

MODEL = "model"


def read_models(y_true: Any, models: Mapping[str, Any], by: Any, sample_weight: Any, options: InputOptions) -> Input:
    """A source for the scores of all models, the dimension ``model`` first.

    Raises
    ------
    ValueError
        If shapes or types do not match.
    """
    _check_columns(models)
    arguments = {name: f"y_prob of {name!r}" for name in models}
    slicing = slices.named(by)
    names = {name: f"by {name!r}" for name in slicing}
    arrays = {"y_true": y_true, "sample_weight": sample_weight}
    arrays |= {arguments[name]: scores for name, scores in models.items()}
    arrays = {name: hosted(name, array) for name, array in arrays.items()} | clusters_of(options)
    arrays = aligned(arrays | {names[name]: values for name, values in slicing.items()})
    slicing = {name: arrays.pop(argument) for name, argument in names.items()}
    shapes = {name: Shape.of(arrays["y_true"], arrays[argument], options) for name, argument in arguments.items()}
    first = next(iter(models))
    shape = shapes[first]
    encoded = encode_labels(arrays["y_true"], arrays[arguments[first]], shape)
    inputs, slicing, _ = frames_to_arrays({**arrays, "y_true": encoded.labels}, slicing, None, shape)
    clusters = inputs.pop(CLUSTERS, None)
    labelled = [array for array in inputs.values() if isinstance(array, xr.DataArray)]
    check_coordinates(labelled, None if shape.multilabel or shape.one_hot else options.class_dim)
    variables = {name: shapes[name].scores(inputs[argument], argument) for name, argument in arguments.items()}
    check_compatible(variables)
    weights = inputs["sample_weight"]
    named = NamedArrays(
        shape.labels(inputs["y_true"]),
        _stacked(list(variables.values())),
        None if weights is None else shape.weights(weights),
        slicing,
        {**coordinates_of(labelled), MODEL: np.array(list(models))},
        clusters=clusters,
    )
    return read_named(named, shape, encoded)


def _check_columns(models: Mapping[str, Any]) -> None:
    """Reject data frames whose columns differ between models."""
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


def _stacked(variables: list[xr.Variable]) -> xr.Variable:
    """All scores, models first."""
    dims = variables[0].dims
    arrays = [variable.transpose(*dims).data for variable in variables]
    if not any(map(is_dask, arrays)):
        return xr.Variable((MODEL, *dims), np.stack(arrays))
    import dask.array as da

    return xr.Variable((MODEL, *dims), da.stack(arrays, allow_unknown_chunksizes=True))


def check_compatible(variables: Mapping[str, xr.Variable]) -> None:
    """Raise ValueError for models whose scores differ in type, dimensions or known sizes."""
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
