"""Labels and scores as users pass them to calibrators, in either order, as vectors and columns."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d, validate_data

from calibdask.data.frames import aligned
from calibdask.data.slices import named
from calibdask.engine.arrays import is_dask, plain


def labels_and_scores(name: str, y_true: Any, y_prob: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Labels and scores: labels first, or scores of several columns before labels, or by scikit-learn's names."""
    labels, scores = y_true, y_prob
    if X is not None or y is not None:
        labels, scores = y, y_true if X is None else X
    if labels is None or scores is None:
        raise ValueError(
            f"{name} requires y to be passed, but the target y is None; fit expects labels and scores: "
            "fit(y_true, y_prob) or fit(X, y)."
        )
    if _columns(labels) > _columns(scores) <= 1:
        return scores, labels
    return labels, scores


def aligned_rows(
    labels: Any, scores: Any, sample_weight: Any, by: Any
) -> tuple[Any, Any, Any, dict[Hashable, Any] | None]:
    """All of them with rows in the order of the first index of pandas among them.

    Raises
    ------
    ValueError
        If indexes hold different rows.
    """
    slices = named(by)
    names = {name: f"by {name!r}" for name in slices}
    arrays = {"y_true": labels, "y_prob": scores, "sample_weight": sample_weight}
    rows = aligned(arrays | {names[name]: values for name, values in slices.items()})
    slicing = {name: rows[argument] for name, argument in names.items()} or None
    return rows["y_true"], rows["y_prob"], rows["sample_weight"], slicing


def label_vector(array: Any) -> Any:
    """Labels as a vector."""
    labels = _unwrapped(array)
    if _columns(labels) > 1:
        raise ValueError(
            f"y_true expects one label for each row, y should be a 1d array, got an array of shape {labels.shape}; "
            "decode one-hot rows by y_true.argmax(axis=1)."
        )
    if not is_dask(labels):
        return column_or_1d(plain(labels), warn=True)
    if labels.ndim == 2 and labels.shape[1] == 1:
        return _first_column(labels)
    if labels.ndim != 1:
        raise ValueError(f"y_true expects one label for each row, shape (n,), got {labels.ndim} dimensions.")
    return labels


def score_columns(calibrator: Any, array: Any, *, reset: bool) -> Any:
    """Scores as an array, a single column as a vector; ``reset`` records the columns, otherwise they must match."""
    scores = _unwrapped(array)
    dimensions = _dimensions(scores)
    if dimensions == 1 and not reset and calibrator.n_features_in_ > 1:
        raise ValueError(
            f"y_prob expects rows of {calibrator.n_features_in_} scores, got a vector. Reshape your data to shape "
            f"(1, {calibrator.n_features_in_}) if it is a single row."
        )
    if is_dask(scores):
        if dimensions > 2:
            raise ValueError(f"y_prob expects shape (n,) or (n, K), got {dimensions} dimensions.")
        # Chunks are checked when they are read; here only the number of columns is.
        columns = np.empty((0, scores.shape[1] if dimensions == 2 else 1))
        validate_data(calibrator, columns, reset=reset, skip_check_array=True)
        return _first_column(scores) if dimensions == 2 and columns.shape[1] == 1 else scores
    if dimensions == 1 or isinstance(scores, np.ma.MaskedArray):
        scores = plain(scores)
    scores = scores[:, None] if dimensions == 1 else scores
    # Whether they are finite is checked with the rest, apart from rows of weight 0.
    scores = validate_data(calibrator, scores, reset=reset, ensure_all_finite=False, ensure_min_samples=int(reset))
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _dimensions(array: Any) -> int:
    return int(array.ndim) if hasattr(array, "ndim") else np.asarray(array).ndim


def _columns(array: Any) -> int:
    """Number of columns; 0 for a vector."""
    shape = array.shape if hasattr(array, "shape") else np.asarray(array).shape
    return int(shape[1]) if len(shape) == 2 else 0


def _unwrapped(array: Any) -> Any:
    """The array of an xarray object, with samples first."""
    if not hasattr(array, "dims"):
        return array
    return (array.transpose("sample", ...) if "sample" in array.dims else array).data


def _first_column(array: Any) -> Any:
    """The first column of a Dask array or data frame."""
    return array[array.columns[0]] if hasattr(array, "columns") else array[:, 0]
