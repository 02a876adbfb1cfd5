"""Chunks of a variable of very many, read one after the other."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr


def chunk_reader(variable: xr.Variable, axes: int) -> Callable[[Sequence[tuple[int, slice]]], npt.NDArray[Any]]:
    """A function that reads one chunk along the first axes, with all that is on the others.

    The graph of all chunks is made once: each choice from an array of Dask goes through all of them.

    Parameters
    ----------
    variable : xarray.Variable
    axes : int
        Number of the first axes.

    Returns
    -------
    function
        Takes the number and the range of the chunk along each of these axes. Chunks are read by the thread that calls.

    Examples
    --------
    >>> variable = xr.Variable(("day", "cell"), np.arange(6).reshape(3, 2)).chunk(day=2)
    >>> chunk_reader(variable, 1)([(1, slice(2, 3))]).tolist()
    [[4, 5]]
    """
    import dask
    from dask.optimization import cull

    if variable.chunks is None:
        return lambda place: np.asarray(variable[tuple(along for _, along in place)].values)
    (array,) = dask.optimize(variable.data.rechunk(dict.fromkeys(range(axes, variable.ndim), -1)))
    graph, others = dict(array.__dask_graph__()), (0,) * (variable.ndim - axes)

    def read(place: Sequence[tuple[int, slice]]) -> npt.NDArray[Any]:
        key = (array.name, *(number for number, _ in place), *others)
        return np.asarray(dask.get(cull(graph, [key])[0], key))

    return read
