"""One-hot rows decoded to class numbers; invalid rows are encoded as negative error codes."""

import numpy as np
import xarray as xr

from calibdask.engine.arrays import is_dask
from calibdask.engine.row_filter import MISSING_LABEL

# A row without a single 1 is -1 less the number of its ones; one with other numbers than 0 and 1 is this.
_NEITHER = -(2**30)


def decoded(labels: xr.Variable, class_dim: str) -> xr.Variable:
    """The position of the 1 in each row; for Dask lazily, block by block.

    Examples
    --------
    >>> decoded(xr.Variable(("sample", "class"), [[0, 1, 0], [1, 1, 0]]), "class").values
    array([ 1, -3])
    """
    moved = labels.transpose(..., class_dim)
    data = moved.data
    if is_dask(data):
        merged = data.rechunk({data.ndim - 1: -1}) if data.numblocks[-1] > 1 else data
        meta = np.empty((0,) * (data.ndim - 1), np.int64)
        data = merged.map_blocks(_decoded, drop_axis=data.ndim - 1, dtype=np.int64, meta=meta)
    else:
        data = _decoded(data)
    return xr.Variable(moved.dims[:-1], data)


def _decoded(rows: np.ndarray) -> np.ndarray:
    is_one = np.asarray(rows == 1)
    ones = is_one.sum(axis=-1)
    only = (is_one | np.asarray(rows == 0)).all(axis=-1)
    numbers = np.where(ones == 1, is_one.argmax(axis=-1), -1 - ones)
    numbers = np.where(only, numbers, _NEITHER)
    if rows.dtype.kind == "f":
        numbers = np.where(np.isnan(rows).any(axis=-1), MISSING_LABEL, numbers)
    return numbers.astype(np.int64)


def one_hot_fault(number: float) -> str:
    """Describe the error code of an invalid row.

    Examples
    --------
    >>> one_hot_fault(-3)
    'with 2 ones'
    """
    if number == MISSING_LABEL:
        return "with missing values"
    return "with other numbers than 0 and 1" if number == _NEITHER else f"with {int(-1 - number)} ones"
