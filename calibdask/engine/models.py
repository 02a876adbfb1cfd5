"""Scores of several models for the same rows, as one source with a dimension of models."""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from calibdask.engine.arrays import as_variable
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
    columns = getattr(next(iter(models.values())), "columns", None)
    words = {name: f"the scores of {name!r}" for name in models}
    rest = {"y_true": y_true, "sample_weight": sample_weight}
    given, by = without_frames(rest | {words[name]: scores for name, scores in models.items()}, by)
    labels = as_variable("y_true", given["y_true"], sample_dim, None, None)
    arrays = {name: _array(words[name], given[words[name]], sample_dim, class_dim, labels) for name in models}
    _check_alike(arrays, sample_dim)
    weights = given["sample_weight"]
    others = [each for each in (given["y_true"], weights) if isinstance(each, xr.DataArray)]
    check_coordinates([*arrays.values(), *others], class_dim)
    names = xr.Variable(MODEL, list(models))
    stacked = xr.concat(
        [array.drop_vars(class_dim, errors="ignore") for array in arrays.values()],
        names,
        coords="minimal",
        compat="override",
        join="exact",
    )
    first = next(iter(arrays.values()))
    classes = first[class_dim].values if class_dim in first.coords else columns
    if classes is not None and class_dim in stacked.dims:
        stacked = stacked.assign_coords({class_dim: list(classes)})
    return read_arrays(given["y_true"], stacked, by, weights, sample_dim, class_dim, validity)


def _array(word: str, scores: Any, sample_dim: str, class_dim: str, labels: xr.Variable) -> xr.DataArray:
    if isinstance(scores, xr.DataArray):
        as_variable(word, scores, sample_dim, class_dim, labels)
        return scores
    return xr.DataArray(as_variable(word, scores, sample_dim, class_dim, labels))


def _check_alike(arrays: Mapping[str, xr.DataArray], sample_dim: str) -> None:
    """Refuse models whose scores have not the same dimensions and sizes."""
    (name, first), *rest = arrays.items()
    if MODEL in first.dims:
        raise ValueError(f"The models make a dimension {MODEL!r}, and the scores of {name!r} have one; rename it.")
    for other, array in rest:
        known = {dim: size for dim, size in array.sizes.items() if size == size}
        expected = {dim: size for dim, size in first.sizes.items() if dim not in known or known[dim] == known[dim]}
        unlike = set(array.dims) != set(first.dims) or any(
            size == size and expected[dim] == expected[dim] and size != expected[dim] for dim, size in known.items()
        )
        if unlike:
            raise ValueError(
                f"All models expect scores of one shape, got {dict(first.sizes)} for {name!r} and {dict(array.sizes)} "
                f"for {other!r}."
            )
