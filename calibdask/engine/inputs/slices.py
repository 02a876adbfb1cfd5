"""Slices: groups of rows by the values of one or several variables."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.inputs.arrays import is_dask, plain
from calibdask.engine.progress_events import Stage, start_stage

__all__ = ["Axis", "Coded", "coded", "missing_values", "named"]

# More slices than this are a mistake, such as an identifier used as a category.
_MOST_SLICES = 1_000_000
# Name of the Dask tasks that find the distinct values.
_LABELS = "calibdask-labels"


@dataclass(frozen=True)
class Axis:
    """A dimension of the result, and the labels along it."""

    name: Hashable
    size: int
    labels: Any = None


@dataclass(frozen=True)
class Coded:
    """Precomputed slice codes, and their labels."""

    codes: Any
    labels: Any


def named(by: Any) -> dict[Hashable, Any]:
    """Slicing variables by name; a single one is called by its own name, or ``by``."""
    if by is None:
        return {}
    name = getattr(by, "name", None)
    # The name of a Dask array is a token, not chosen by the user.
    return dict(by) if isinstance(by, Mapping) else {name if isinstance(name, str) and not _is_token(by) else "by": by}


def _is_token(values: Any) -> bool:
    return is_dask(values) and not hasattr(values, "to_dask_array")


def coded(by: Any, n: float, sample_dim: str) -> tuple[Any, tuple[Axis, ...]]:
    """One slice number for each row (None without slices), and an axis for each variable.

    The distinct values of a Dask array are found by reading that array alone, once.
    """
    group: Any = None
    axes = []
    for name, values in named(by).items():
        codes, labels = _codes(str(name), values, n, sample_dim)
        axes.append(Axis(name, len(labels), labels))
        group = codes if group is None else group * len(labels) + codes
    total = int(np.prod([axis.size for axis in axes], dtype=np.int64))
    if total > _MOST_SLICES:
        sizes = ", ".join(f"{axis.name}: {axis.size}" for axis in axes)
        raise ValueError(f"by expects at most {_MOST_SLICES} slices, got {total} ({sizes}); group the values first.")
    return group, tuple(axes)


def _codes(name: str, values: Any, n: float, sample_dim: str) -> tuple[Any, np.ndarray]:
    """Code of each row and the sorted distinct values; categories keep their order."""
    if isinstance(values, Coded):
        return values.codes, values.labels
    if isinstance(values, xr.DataArray):
        if values.dims != (sample_dim,):
            raise ValueError(f"by {name!r} expects the one dimension {sample_dim!r}, got {values.dims}.")
        values = values.data
    categories = getattr(getattr(values, "cat", values), "categories", None)
    if categories is not None and not is_dask(values):
        codes = np.asarray(getattr(values, "cat", values).codes)
        _check_rows(name, codes.shape, n)
        if (codes < 0).any():
            raise missing_values(name, int((codes < 0).sum()))
        return codes.astype(np.int32), np.asarray(categories)
    array = plain(values)
    _check_rows(name, array.shape, n)
    if is_dask(array):
        return _dask_codes(name, array)
    _check_present(name, array)
    labels, codes = np.unique(array, return_inverse=True)
    return codes.astype(np.int32), labels


def _check_rows(name: str, shape: tuple[float, ...], n: float) -> None:
    if len(shape) != 1 or (shape[0] == shape[0] and n == n and shape[0] != n):
        raise ValueError(f"by {name!r} expects one value for each of the {n} rows, got an array of shape {shape}.")


def missing_values(name: str, count: int) -> ValueError:
    """The error about rows without a slice."""
    return ValueError(
        f"by {name!r} expects a value in every row, {count} are missing; fill them (for example with 'missing') "
        "or drop these rows."
    )


def _check_present(name: str, array: np.ndarray) -> None:
    import pandas as pd

    absent = pd.isna(array)
    if absent.any():
        raise missing_values(name, int(absent.sum()))


def _dask_codes(name: str, array: Any) -> tuple[Any, np.ndarray]:
    from calibdask.engine.sources.reduction import tree

    chunks = ((1,) * array.numblocks[0],)
    boxes = array.map_blocks(_distinct, dtype=object, meta=np.empty(0, object), chunks=chunks)
    distinct = tree(boxes, _both, axis=0, name=_LABELS)
    start_stage(Stage("slices", total=array.numblocks[0], tasks=(_LABELS,)))
    labels, missing = distinct.compute().item()
    if missing:
        raise missing_values(name, missing)
    return array.map_blocks(_search, labels, dtype=np.int32, meta=np.empty(0, np.int32)), labels


def _distinct(values: np.ndarray) -> np.ndarray:
    """Sorted distinct values of a chunk and the number of missing ones, packed."""
    import pandas as pd

    from calibdask.engine.sources.reduction import packed

    absent = pd.isna(values)
    return packed((np.unique(values[~absent]), int(absent.sum())), 1)


def _both(a: tuple[np.ndarray, int], b: tuple[np.ndarray, int]) -> tuple[np.ndarray, int]:
    return np.union1d(a[0], b[0]), a[1] + b[1]


def _search(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.searchsorted(labels, values).astype(np.int32)
