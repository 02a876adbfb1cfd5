"""Classes by name: labels as scikit-learn's classifiers know them, turned into the class numbers that are measured."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.arrays import is_dask, plain
from calibdask.engine.frames import is_frame

__all__ = ["numbered"]

# So many classes an error names.
_SHOWN = 5


def numbered(
    y_true: Any,
    y_prob: Any,
    labels: Any = None,
    pos_label: Any = None,
    sample_dim: str = "sample",
    class_dim: str = "class",
) -> tuple[Any, Any]:
    """Labels as class numbers, and scores whose columns are called as the classes are, where these have names.

    Parameters
    ----------
    y_true : array of shape (..., n)
        Class numbers, which stay as they are, or names. Of any of the kinds that `calibdask.evaluate` takes.
    y_prob : array of shape (..., n) or (..., n, K)
        Scores.
    labels : sequence of K, optional
        The classes in the order of the columns of scores. Where names come without it: what the scores call their
        columns, in xarray and in data frames, else the sorted distinct values of ``y_true``.
    pos_label : label, optional
        For a vector of scores: the class whose probability they are.
    sample_dim, class_dim : str
        Names of these dimensions.

    Raises
    ------
    ValueError
        If labels and columns do not fit each other, or nothing says which class a vector of scores is about. Labels in
        Dask collections are looked at when they are computed; a ``pos_label`` that none of them is makes all rows
        negative, unless ``labels`` names both classes.

    Examples
    --------
    >>> numbered(["ham", "spam"], [0.2, 0.7], pos_label="spam")
    (array([False,  True]), [0.2, 0.7])
    """
    if y_prob is None:
        if labels is not None or pos_label is not None:
            raise ValueError("labels and pos_label belong to arrays; blocks and summaries expect class numbers.")
        return y_true, y_prob
    if labels is None and pos_label is None and not _has_names(y_true):
        return y_true, y_prob
    given = None if labels is None else _classes(labels)
    columns = _columns(y_true, y_prob, class_dim)
    if columns is None:
        outcomes = _each(y_true, _of_vector(given, pos_label))
        if given is None:
            _check_occurs(y_true, outcomes, pos_label)
        return outcomes, y_prob
    if pos_label is not None:
        raise ValueError(f"pos_label belongs to vectors of scores; name the {columns} classes of a matrix by labels.")
    names = given or _own_names(y_prob, class_dim) or _distinct(y_true)
    if len(names) != columns:
        raise ValueError(
            f"labels expects one class for each of the {columns} columns of scores, in their order, got {len(names)}: "
            f"{_shown(names)}."
        )
    return _each(y_true, partial(_positions, names=names)), _named(y_prob, names, sample_dim, class_dim)


def _has_names(y_true: Any) -> bool:
    dtype = y_true.dtype if hasattr(y_true, "dtype") else np.asarray(y_true).dtype
    return getattr(dtype, "kind", "O") not in "fiub"


def _classes(labels: Any) -> list[Any]:
    """The classes that the user names, none of them twice."""
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


def _own_names(y_prob: Any, class_dim: str) -> list[Any] | None:
    """What the scores call their columns."""
    if isinstance(y_prob, xr.DataArray):
        return y_prob[class_dim].values.tolist() if class_dim in y_prob.coords else None
    return list(y_prob.columns) if hasattr(y_prob, "columns") else None


def _distinct(y_true: Any) -> list[Any]:
    """The classes there are, sorted, as scikit-learn's classifiers have them."""
    values = _bare(y_true)
    if is_dask(values):
        raise ValueError("Names of classes in a Dask collection expect labels, the classes in the order of the scores.")
    import pandas as pd

    found = pd.unique(plain(values).ravel())
    _check_present(found)
    return sorted(found.tolist())


def _check_present(values: np.ndarray) -> None:
    import pandas as pd

    if pd.isna(values).any():
        raise ValueError("y_true expects a class in every row, some are missing; drop these rows.")


def _of_vector(labels: list[Any] | None, pos_label: Any) -> Callable[[np.ndarray], np.ndarray]:
    """What tells the outcome of the class that a vector of scores is about."""
    if labels is None and pos_label is None:
        raise ValueError(
            "Names of classes expect pos_label, the class that a vector of scores is the probability of; or labels, "
            "both classes with this one last."
        )
    if labels is None:
        return partial(_is, pos_label=pos_label)
    if len(labels) != 2:
        raise ValueError(f"A vector of scores expects labels of two classes, got {len(labels)}: {_shown(labels)}.")
    if pos_label is not None and pos_label not in labels:
        raise ValueError(f"pos_label expects one of {_shown(labels)}, got {pos_label!r}.")
    return partial(_positions, names=labels[::-1] if pos_label == labels[0] else labels)


def _is(values: np.ndarray, pos_label: Any) -> np.ndarray:
    """Whether each label is the positive one."""
    _check_present(values)
    return np.asarray(values == pos_label, bool)


def _check_occurs(y_true: Any, outcomes: Any, pos_label: Any) -> None:
    """Refuse a positive class that is none of several; mistyped it would make all rows negative."""
    values, found = _bare(y_true), _bare(outcomes)
    # A chunk may lack it, and looking at all of them would take a pass.
    if is_dask(values) or found.any():
        return
    values = plain(values).ravel()
    if (values != values[:1]).any():
        raise ValueError(f"pos_label expects a class of y_true, such as {values[:1].tolist()[0]!r}, got {pos_label!r}.")


def _bare(given: Any) -> Any:
    return given.data if isinstance(given, xr.DataArray | xr.Variable) else given


def _positions(values: np.ndarray, names: list[Any]) -> np.ndarray:
    """Number of the class of each row."""
    import pandas as pd

    flat = pd.Index(values.ravel())
    positions = pd.Index(names).get_indexer(flat)
    if (positions < 0).any():
        raise ValueError(f"y_true expects classes among {_shown(names)}, got {flat[positions.argmin()]!r}.")
    return positions.reshape(values.shape)


def _each(y_true: Any, encode: Callable[[np.ndarray], np.ndarray]) -> Any:
    """All labels encoded, in a container of the same kind; those of Dask lazily."""
    if isinstance(y_true, xr.DataArray | xr.Variable):
        return y_true.copy(data=_each(y_true.data, encode))
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
    """Scores that call their columns so; results do then."""
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
