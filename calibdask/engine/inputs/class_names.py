"""Encoding of class names: labels as in scikit-learn's classifiers, converted to class numbers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.inputs.arrays import is_dask, plain
from calibdask.engine.inputs.frames import is_frame

__all__ = ["encode_labels"]

# Number of classes that an error message lists.
_SHOWN = 5


def encode_labels(
    y_true: Any,
    y_prob: Any,
    labels: Any = None,
    pos_label: Any = None,
    sample_dim: str = "sample",
    class_dim: str = "class",
) -> tuple[Any, Any]:
    """Labels as class numbers, and scores whose columns are named after the classes, where these have names.

    Parameters
    ----------
    y_true : array of shape (..., n)
        Class numbers, which are returned unchanged, or names; of any kind that `calibdask.evaluate` accepts.
    y_prob : array of shape (..., n) or (..., n, K)
        Scores.
    labels : sequence of K, optional
        The classes in the order of the columns of scores. By default for names: the column names of the scores, in
        xarray and in data frames, else the sorted distinct values of ``y_true``.
    pos_label : label, optional
        For a vector of scores: the class whose probability the scores are.
    sample_dim, class_dim : str
        Names of these dimensions.

    Raises
    ------
    ValueError
        If labels and columns do not match, or the positive class of a vector of scores is not specified. Labels in Dask
        collections are checked when they are computed; with a ``pos_label`` that does not occur in them all rows are
        negative, unless ``labels`` names both classes.

    Examples
    --------
    >>> encode_labels(["ham", "spam"], [0.2, 0.7], pos_label="spam")
    (array([False,  True]), [0.2, 0.7])
    """
    if y_prob is None:
        if labels is not None or pos_label is not None:
            raise ValueError("labels and pos_label belong to arrays; blocks and summaries expect class numbers.")
        return y_true, y_prob
    if labels is None and pos_label is None and not _has_names(y_true):
        return y_true, y_prob
    classes = None if labels is None else _classes(labels)
    columns = _columns(y_true, y_prob, class_dim)
    if columns is None:
        outcomes = _encode(y_true, _binary_encoder(classes, pos_label))
        if classes is None:
            _check_occurs(y_true, outcomes, pos_label)
        return outcomes, y_prob
    if pos_label is not None:
        raise ValueError(f"pos_label belongs to vectors of scores; name the {columns} classes of a matrix by labels.")
    names = classes or _column_names(y_prob, class_dim) or _distinct(y_true)
    if len(names) != columns:
        raise ValueError(
            f"labels expects one class for each of the {columns} columns of scores, in their order, got {len(names)}: "
            f"{_shown(names)}."
        )
    return _encode(y_true, partial(_positions, names=names)), _named(y_prob, names, sample_dim, class_dim)


def _has_names(y_true: Any) -> bool:
    dtype = y_true.dtype if hasattr(y_true, "dtype") else np.asarray(y_true).dtype
    return getattr(dtype, "kind", "O") not in "fiub"


def _classes(labels: Any) -> list[Any]:
    """The classes that the user lists, checked to be distinct."""
    names = [] if isinstance(labels, str) else np.asarray(labels, object).ravel().tolist()
    if len(set(names)) != len(names) or len(names) < 2:
        raise ValueError(f"labels expects different classes, at least two of them, got {labels!r}.")
    return names


def _columns(y_true: Any, y_prob: Any, class_dim: str) -> int | None:
    """Number of columns of scores; None for a vector."""
    if isinstance(y_prob, xr.DataArray | xr.Variable):
        return y_prob.sizes.get(class_dim)
    shape = y_prob.shape if hasattr(y_prob, "shape") else np.shape(y_prob)
    dimensions = y_true.ndim if hasattr(y_true, "ndim") else np.ndim(y_true)
    return shape[-1] if len(shape) > dimensions else None


def _column_names(y_prob: Any, class_dim: str) -> list[Any] | None:
    """The names of the columns of scores."""
    if isinstance(y_prob, xr.DataArray):
        return y_prob[class_dim].values.tolist() if class_dim in y_prob.coords else None
    return list(y_prob.columns) if hasattr(y_prob, "columns") else None


def _distinct(y_true: Any) -> list[Any]:
    """The distinct classes, sorted as by scikit-learn's classifiers."""
    values = _data(y_true)
    if is_dask(values):
        raise ValueError("Class names in a Dask collection require labels=..., the classes in the order of the scores.")
    import pandas as pd

    names = pd.unique(plain(values).ravel())
    _check_present(names)
    return sorted(names.tolist())


def _check_present(values: np.ndarray) -> None:
    import pandas as pd

    if pd.isna(values).any():
        raise ValueError("y_true expects a class in every row, some are missing; drop these rows.")


def _binary_encoder(labels: list[Any] | None, pos_label: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The function from labels to outcomes of the class whose probability a vector of scores is."""
    if labels is None and pos_label is None:
        raise ValueError(
            "Class names require pos_label=..., the class whose probability a vector of scores is; or labels=..., "
            "both classes with this one last."
        )
    if labels is None:
        return partial(_is_positive, pos_label=pos_label)
    if len(labels) != 2:
        raise ValueError(f"A vector of scores expects labels of two classes, got {len(labels)}: {_shown(labels)}.")
    if pos_label is not None and pos_label not in labels:
        raise ValueError(f"pos_label expects one of {_shown(labels)}, got {pos_label!r}.")
    return partial(_positions, names=labels[::-1] if pos_label == labels[0] else labels)


def _is_positive(values: np.ndarray, pos_label: Any) -> np.ndarray:
    """Whether each label is the positive one."""
    _check_present(values)
    return np.asarray(values == pos_label, bool)


def _check_occurs(y_true: Any, outcomes: Any, pos_label: Any) -> None:
    """Raise ValueError if the positive class does not occur: a misspelt one would make all rows negative."""
    values, positive = _data(y_true), _data(outcomes)
    # Dask: a chunk may lack the class, and checking all chunks would take a pass.
    if is_dask(values) or positive.any():
        return
    values = plain(values).ravel()
    if (values != values[:1]).any():
        raise ValueError(f"pos_label expects a class of y_true, such as {values[:1].tolist()[0]!r}, got {pos_label!r}.")


def _data(array: Any) -> Any:
    return array.data if isinstance(array, xr.DataArray | xr.Variable) else array


def _positions(values: np.ndarray, names: list[Any]) -> np.ndarray:
    """Number of the class of each row."""
    import pandas as pd

    flat = pd.Index(values.ravel())
    positions = pd.Index(names).get_indexer(flat)
    if (positions < 0).any():
        raise ValueError(f"y_true expects classes among {_shown(names)}, got {flat[positions.argmin()]!r}.")
    return positions.reshape(values.shape)


def _encode(y_true: Any, encode: Callable[[np.ndarray], np.ndarray]) -> Any:
    """All labels encoded, in a container of the same kind; those of Dask lazily."""
    if isinstance(y_true, xr.DataArray | xr.Variable):
        return y_true.copy(data=_encode(y_true.data, encode))
    if is_frame(y_true):
        import pandas as pd

        return y_true.map_partitions(_encoded_series, encode, meta=pd.Series([], dtype=np.int64))
    if is_dask(y_true):
        return y_true.map_blocks(_encoded, encode, dtype=np.int64, meta=np.empty((0,) * y_true.ndim, np.int64))
    return encode(plain(y_true))


def _encoded(values: np.ndarray, encode: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return encode(values).astype(np.int64)


def _encoded_series(part: Any, encode: Callable[[np.ndarray], np.ndarray]) -> Any:
    import pandas as pd

    return pd.Series(_encoded(part.to_numpy(), encode), index=part.index)


def _named(y_prob: Any, names: list[Any], sample_dim: str, class_dim: str) -> Any:
    """Scores with named columns, which become the class labels of results."""
    if hasattr(y_prob, "columns") or isinstance(y_prob, xr.Variable):
        return y_prob
    if not isinstance(y_prob, xr.DataArray):
        values = plain(y_prob)
        lead = [f"dim_{i}" for i in range(values.ndim - 2)]
        y_prob = xr.DataArray(values, dims=(*lead, sample_dim, class_dim))
    return y_prob.assign_coords({class_dim: names})


def _shown(names: list[Any]) -> str:
    few = ", ".join(map(repr, names[:_SHOWN]))
    return f"[{few}, ...]" if len(names) > _SHOWN else f"[{few}]"
