"""Tree reductions of arbitrary objects over the chunks of a Dask array."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import dask.array as da
import numpy as np

# Results of a tree that wait to be merged.
_WAITING_BYTES = 1 << 28


def packed(result: Any, ndim: int) -> np.ndarray:
    """Any object as an object array of one element."""
    box = np.empty(1, object)
    box[0] = result
    return box.reshape((1,) * ndim)


def tree(boxes: Any, merge: Callable[[Any, Any], Any], axis: int, size: int = 0, name: str | None = None) -> Any:
    """A Dask array of one element: the `packed` results in ``boxes`` merged in order along an axis.

    Results wait in memory to be merged: the larger their ``size`` in bytes, the fewer are merged at a time. Keys of the
    tasks that compute the results begin with the ``name``.
    """
    merged = partial(_merged, merge, boxes.ndim)
    return da.reduction(
        boxes,
        _unchanged,
        merged,
        combine=merged,
        name=name,
        axis=axis,
        dtype=object,
        meta=np.empty((0,) * (boxes.ndim - 1), object),
        concatenate=False,
        split_every=_together(boxes.numblocks[axis], size),
    )


def _together(count: int, size: int) -> int:
    """How many of ``count`` results of so many bytes are merged at a time: on each level one less wait for the last.

    Examples
    --------
    >>> [_together(400, size) for size in (0, 10_000_000, 100_000_000)]
    [16, 8, 2]
    """
    for together in (16, 8, 4):
        levels = 1
        while together**levels < count:
            levels += 1
        if levels * (together - 1) * size <= _WAITING_BYTES:
            return together
    return 2


def _unchanged(box: np.ndarray, axis: Any = None, keepdims: bool = True) -> np.ndarray:
    return box


def _merged(
    merge: Callable[[Any, Any], Any], ndim: int, boxes: Any, axis: Any = None, keepdims: bool = False
) -> np.ndarray:
    return packed(reduce(merge, (box.item() for box in _flat(boxes))), ndim if keepdims else ndim - 1)


def _flat(boxes: Any) -> list[np.ndarray]:
    """Arrays of nested lists, or of one array: Dask passes either."""
    if isinstance(boxes, list):
        return [array for part in boxes for array in _flat(part)]
    return [boxes]
