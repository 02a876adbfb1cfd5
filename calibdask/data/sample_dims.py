"""Several dimensions of samples, such as images and their pixels, stacked to one."""

import math
from collections.abc import Hashable, Mapping
from typing import Any

import xarray as xr

from calibdask.engine.arrays import plain
from calibdask.safe_text import listed


def stacked(variable: xr.Variable, sizes: Mapping[Hashable, int], name: str) -> xr.Variable:
    """The variable with the dimensions of ``sizes`` as one, ``name``, in the order of rows of NumPy.

    Chunks of Dask are joined along all of these dimensions but the first, and never split further than that takes:
    rows keep their order, so that results do not depend on the chunks.

    Examples
    --------
    >>> stacked(xr.Variable(("y", "class", "x"), [[[1, 2], [3, 4]]]), {"y": 1, "x": 2}, "sample").values
    array([[1, 3],
           [2, 4]])
    """
    if any(size != size for size in variable.shape):
        raise ValueError("Several dimensions of samples expect known chunk sizes; call compute_chunk_sizes() first.")
    missing = {dim: size for dim, size in sizes.items() if dim not in variable.dims}
    full = variable.set_dims({**missing, **variable.sizes}) if missing else variable
    tail = [dim for dim in full.dims if dim not in sizes]
    ordered = full.transpose(*sizes, *tail)
    data = ordered.data.reshape((math.prod(sizes.values()), *ordered.shape[len(sizes) :]))
    return xr.Variable((name, *tail), data)


def stacked_slices(values: Any, sizes: Mapping[Hashable, int], name: str) -> Any:
    """A slicing variable with one value for each sample; it may lack some of the dimensions."""
    shape = tuple(sizes.values())
    if isinstance(values, xr.DataArray):
        if not {*values.dims} <= {*sizes}:
            raise ValueError(f"by expects dimensions among {listed(sizes)}, got {values.dims}.")
        return stacked(values.variable, sizes, name).data
    if getattr(values, "ndim", 1) == 1 and not isinstance(values, list):
        return values
    array = plain(values)
    return array.reshape(-1) if array.shape == shape else array
