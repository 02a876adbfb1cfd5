"""Rows without a label, a score or a weight: left out where the user asks for it, and counted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.inputs.alignment import check_divisions
from calibdask.engine.inputs.arrays import is_dask, plain, unmasked
from calibdask.engine.inputs.slices import named


@dataclass(frozen=True)
class Kept:
    """The inputs without the rows that are left out.

    ``skipped`` gives the number of these from the number of rows that are left.
    """

    y_true: Any
    y_prob: Any
    by: Any
    sample_weight: Any
    skipped: Callable[[int], int]


def is_missing(values: Any) -> np.ndarray:
    """Whether each value is missing: NaN, None, NaT or NA."""
    values = np.asarray(unmasked(values))
    if values.dtype.kind in "iub":
        return np.zeros(values.shape, bool)
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    import pandas as pd

    return np.asarray(pd.isna(values))


def without_missing(
    y_true: Any, y_prob: Any, by: Any, sample_weight: Any, sample_dim: str = "sample", *, matrix: bool = False
) -> Kept:
    """Leave out the rows without a label, without all of their scores, or without a weight.

    ``matrix`` says that labels of two dimensions have a column for each class.

    Raises
    ------
    ValueError
        If the labels have more dimensions than that of samples, or the scores more than one besides.

    Examples
    --------
    >>> kept = without_missing(np.array([0, np.nan, 1]), np.array([0.2, 0.3, np.nan]), None, None)
    >>> kept.y_true, kept.y_prob, kept.skipped(1)
    (array([0.]), array([0.2]), 2)
    """
    given = {"y_true": y_true, "y_prob": y_prob, "sample_weight": sample_weight}
    checked = {name: values for name, values in given.items() if values is not None}
    slicing = named(by)
    if any(hasattr(values, "to_dask_array") for values in (*checked.values(), *slicing.values())):
        check_divisions(checked | {f"by {name!r}": values for name, values in slicing.items()})
        keep = _present_in_frames(checked)
        kept = {name: values[keep] for name, values in checked.items()}
        slices: dict[Any, Any] = {name: values[keep] for name, values in slicing.items()}
        count = keep.size
    else:
        keep = _present(checked, sample_dim, {"y_prob", "y_true"} if matrix else {"y_prob"})
        kept = {name: _rows(values, keep, sample_dim) for name, values in checked.items()}
        slices = {name: _rows(values, keep, sample_dim) for name, values in slicing.items()}
        count = keep.shape[0]
        if count != count:
            count = keep.astype(np.int64).map_blocks(np.ones_like).sum()

    def skipped(rows: int) -> int:
        if not is_dask(count):
            return int(count) - rows
        from calibdask.engine.scheduler import scheduler

        return int(count.compute(scheduler=scheduler())) - rows

    return Kept(kept["y_true"], kept.get("y_prob"), slices or None, kept.get("sample_weight"), skipped)


def complete_rows(given: Sequence[Mapping[str, Any]], sample_dim: str = "sample", *, matrix: bool = False) -> Any:
    """Whether each row is complete in all of these inputs, which have the same rows in the same order.

    Examples
    --------
    >>> labels, scores = np.array([0, np.nan, 1]), np.array([0.2, 0.3, np.nan])
    >>> complete_rows([{"y_true": labels}, {"y_prob": scores}])
    array([ True, False, False])
    """
    matrices = {"y_prob", "y_true"} if matrix else {"y_prob"}
    present: Any = True
    for arrays in given:
        known = {name: values for name, values in arrays.items() if values is not None}
        present = present & _present(known, sample_dim, matrices)
    return present


def rows_at(values: Any, keep: Any, sample_dim: str = "sample") -> Any:
    """The rows that are kept, in a container of the same kind where that can be."""
    return None if values is None else _rows(values, keep, sample_dim)


def _present_in_frames(frames: dict[str, Any]) -> Any:
    """A series of Dask: whether nothing is missing."""
    absent = [frame.isna().any(axis=1) if frame.ndim == 2 else frame.isna() for frame in frames.values()]
    first, *others = absent
    for other in others:
        first = first | other
    return ~first


def _present(arrays: dict[str, Any], sample_dim: str, matrices: set[str]) -> Any:
    """Whether nothing is missing in each row; of Dask where one of the arrays is."""
    present: Any = True
    for name, values in arrays.items():
        data = _samples_first(values, sample_dim)
        if data.ndim > (2 if name in matrices else 1):
            raise ValueError(
                "skip_missing expects labels of shape (n,) and scores of shape (n,) or (n, K), got "
                f"{name} of shape {data.shape}; leave out rows before, the same ones for all."
            )
        present = present & ~_absent(data)
    return present


def _absent(data: Any) -> Any:
    if not is_dask(data):
        absent = is_missing(data)
        return absent if absent.ndim == 1 else absent.any(axis=1)
    absent = data.map_blocks(is_missing, dtype=bool, meta=np.empty((0,) * data.ndim, bool))
    return absent if absent.ndim == 1 else absent.any(axis=1)


def _samples_first(values: Any, sample_dim: str) -> Any:
    if isinstance(values, xr.DataArray | xr.Variable):
        return values.transpose(sample_dim, ...).data if sample_dim in values.dims else values.data
    return plain(values)


def _rows(values: Any, keep: Any, sample_dim: str) -> Any:
    """The rows that are kept, in a container of the same kind where that can be."""
    if isinstance(values, xr.DataArray | xr.Variable):
        if not (is_dask(keep) or is_dask(values.data)):
            return values.isel({sample_dim: keep})
        return _labelled(values, keep, sample_dim)
    if is_dask(keep):
        import dask.array as da

        data = plain(values)
        if is_dask(data):
            return data[keep]
        return da.from_array(data, chunks=(keep.chunks[0], *data.shape[1:]))[keep]
    return values[keep] if hasattr(values, "iloc") else plain(values)[keep]


def _labelled(values: Any, keep: Any, sample_dim: str) -> Any:
    """Named axes of Dask arrays; samples lose their coordinates."""
    data = _rows(_samples_first(values, sample_dim), keep, sample_dim)
    dims = (sample_dim, *(dim for dim in values.dims if dim != sample_dim))
    coords = {
        name: coordinate
        for name, coordinate in getattr(values, "coords", {}).items()
        if sample_dim not in coordinate.dims
    }
    return xr.DataArray(data, coords, dims)
