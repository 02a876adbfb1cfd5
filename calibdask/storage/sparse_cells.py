"""Sparse arrays that keep only nonzero values: the variables of summaries of many small slices."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from calibdask.statistics.bins.sparse_grid import SMALL_BYTES, SparseGridState, check_whole, is_sparse, summed, united
from calibdask.statistics.exact import Counts

_Mapping = Sequence["npt.NDArray[np.intp] | None"]


class SparseCells(NDArrayOperatorsMixin):
    """An array of numbers, most of them 0, as xarray holds it.

    Selections, transpositions, sums over dimensions, additions and concatenations keep it so; all other functions of
    NumPy get the whole array, unless that is too large.

    Attributes
    ----------
    shape : tuple of int
    at : ndarray of int64 or uint32, shape (occupied,)
        Places in the flattened array, each once, in increasing order.
    values : ndarray, shape (occupied,)

    Examples
    --------
    >>> sparse = SparseCells((2, 3), np.array([1, 5]), np.array([7, 8]))
    >>> np.asarray(sparse).tolist(), np.asarray(sparse.sum(0)).tolist(), np.asarray(sparse[1]).tolist()
    ([[0, 7, 0], [0, 0, 8]], [0, 7, 8], [0, 0, 8])
    """

    # Before NumPy's own arrays.
    __array_priority__: ClassVar[float] = 100.0

    def __init__(self, shape: Iterable[int], at: Counts, values: npt.NDArray[Any]) -> None:
        self.shape = tuple(map(int, shape))
        self.at = at
        self.values = values

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.values.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of all numbers."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Memory of those that are kept."""
        return self.at.nbytes + self.values.nbytes

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<SparseCells shape={self.shape} dtype={self.dtype} occupied={self.at.size}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """All numbers; raises ValueError where they are too many."""
        check_whole(self.shape, 1)
        whole = np.zeros(self.size, self.dtype if dtype is None else dtype)
        whole[self.at] = self.values
        return whole.reshape(self.shape)

    def astype(self, dtype: Any, **options: Any) -> "SparseCells":
        """The array converted to another type."""
        return SparseCells(self.shape, self.at, self.values.astype(dtype, **options))

    def transpose(self, *axes: Any) -> "SparseCells":
        """The array with its dimensions permuted."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple(reversed(range(self.ndim))) if not order or order == (None,) else tuple(order)
        order = tuple(axis % self.ndim for axis in order)
        if order == tuple(range(self.ndim)):
            return self
        along = np.unravel_index(self.at, self.shape)
        shape = tuple(self.shape[axis] for axis in order)
        return _of(shape, np.ravel_multi_index([along[axis] for axis in order], shape), self.values)

    def reshape(self, *shape: Any) -> "SparseCells":
        """The array in another shape, in C order."""
        sizes = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        if -1 in sizes:
            sizes[sizes.index(-1)] = self.size // max(1, -math.prod(sizes))
        if math.prod(sizes) != self.size:
            raise ValueError(f"An array of shape {self.shape} cannot be reshaped to {tuple(sizes)}.")
        return SparseCells(sizes, self.at, self.values)

    def sum(self, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
        """Sums over dimensions; an array of NumPy where few numbers are left."""
        gone = range(self.ndim) if axis is None else np.ravel(axis).tolist()
        gone = {int(one) % self.ndim for one in gone}
        left = [one for one in range(self.ndim) if one not in gone]
        shape = tuple(self.shape[one] for one in left)
        along = np.unravel_index(self.at, self.shape)
        places = np.ravel_multi_index([along[one] for one in left], shape) if left else np.zeros_like(self.at)
        if 8 * math.prod(shape) <= SMALL_BYTES:
            total: Any = np.zeros(math.prod(shape), self.dtype)
            np.add.at(total, places, self.values)
            total = total.reshape(shape)
        else:
            total = _of(shape, places, self.values)
        if keepdims:
            return total.reshape(tuple(1 if one in gone else size for one, size in enumerate(self.shape)))
        return total if shape else total[()]

    def __getitem__(self, key: Any) -> Any:
        keys = _full_key(key if isinstance(key, tuple) else (key,), self.ndim)
        selection = _selection([one for one in keys if one is not None], self.shape)
        if selection is None:
            return np.asarray(self)[key]
        chosen, sizes = selection
        shape = [size if one is None else one.size for one, size in zip(chosen, self.shape, strict=True)]
        found = self.mapped([_places_of(*both) for both in zip(chosen, self.shape, strict=True)], shape)
        left = iter(sizes)
        result = [1 if one is None else next(left) for one in keys] if len(sizes) == self.ndim else [*left]
        result = [size for size in result if size is not None]
        return found.reshape(result) if result else found.values.sum(dtype=self.dtype)

    def mapped(self, places: _Mapping, shape: Sequence[int]) -> "SparseCells":
        """The numbers at other places: along each dimension, a place for each of this one, or -1 where it goes.

        None leaves a dimension as it is. What comes to one place is added up.
        """
        at, values = self.at, self.values
        if self.ndim and places[0] is not None:
            # Slices lead: most are left out without looking at them.
            kept = np.flatnonzero(places[0] >= 0)
            size = math.prod(self.shape[1:])
            first, last = (kept[0] * size, (kept[-1] + 1) * size) if kept.size else (0, 0)
            here = slice(*np.searchsorted(at, (first, last)))
            at, values = at[here], values[here]
        if all(one is None for one in places):
            return SparseCells(shape, at, values)
        moved, chosen = _moved(at.astype(np.int64, copy=False), self.shape, places, shape)
        return _of(shape, moved, values) if chosen.all() else _of(shape, moved[chosen], values[chosen])

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        own = _FUNCTIONS.get(func)
        result = NotImplemented if own is None else own(*args, **kwargs)
        if result is not NotImplemented:
            return result
        return func(*_whole(args), **{name: _whole(value) for name, value in kwargs.items()})

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        same = all(isinstance(one, SparseCells) and one.shape == self.shape for one in inputs)
        if ufunc is np.add and method == "__call__" and same and not kwargs:
            ats = (one.at.astype(np.int64, copy=False) for one in inputs)
            both = united(*(SparseGridState(at, one.values[None]) for at, one in zip(ats, inputs, strict=True)))
            return SparseCells(self.shape, both.at, both.sums[0])
        return getattr(ufunc, method)(*_whole(inputs), **kwargs)


def sparse_cells(array: Any) -> SparseCells:
    """Convert a NumPy array to an array that keeps only nonzero values."""
    if isinstance(array, SparseCells):
        return array
    flat = np.ravel(array)
    at = np.flatnonzero(flat)
    return SparseCells(np.shape(array), at, flat[at])


def settled(array: Any, slices: int) -> Any:
    """The array in the form that its numbers call for, whatever it was computed from; see `is_sparse`."""
    if not is_sparse(0, math.prod(array.shape), slices):
        return np.asarray(array)
    occupied = array.at.size if isinstance(array, SparseCells) else np.count_nonzero(array)
    if is_sparse(int(occupied), math.prod(array.shape), slices):
        return sparse_cells(array)
    return np.asarray(array)


def placed(shape: Sequence[int], parts: Sequence[tuple[Any, _Mapping]]) -> SparseCells:
    """Arrays at places of a larger one (see `SparseCells.mapped`), as one; what comes to one place is added up."""
    moved = [sparse_cells(array).mapped(places, shape) for array, places in parts]
    return _of(shape, np.concatenate([one.at for one in moved]), np.concatenate([one.values for one in moved]))


def _of(shape: Sequence[int], places: Counts, values: npt.NDArray[Any]) -> SparseCells:
    state = summed(places, values[None])
    return SparseCells(shape, state.at, state.sums[0])


def _full_key(key: tuple[Any, ...], ndim: int) -> list[Any]:
    """A key with a selection for every dimension; None stands for a new one."""
    given = sum(one is not None and one is not Ellipsis for one in key)
    rest = [slice(None)] * (ndim - given)
    if any(one is Ellipsis for one in key):
        at = next(number for number, one in enumerate(key) if one is Ellipsis)
        return [*key[:at], *rest, *key[at + 1 :]]
    return [*key, *rest]


def _selection(keys: Sequence[Any], shape: Sequence[int]) -> tuple[list[Any], list[int | None]] | None:
    """Chosen places along each dimension, None for all, and the sizes of the result, None for a dimension that goes.

    Of several arrays those that `numpy.ix_` makes, which choose along each dimension by itself; their common shape is
    that of the result. None altogether for others, and where a place is chosen twice.
    """
    arrays = [one for one in keys if not isinstance(one, int | np.integer | slice)]
    if len(arrays) > 1:
        common = np.broadcast_shapes(*(np.shape(one) for one in arrays))
        axes = [np.shape(one).index(np.size(one)) for one in arrays if np.size(one) > 1]
        if len(arrays) < len(keys) or axes != sorted(set(axes)) or math.prod(common) != math.prod(map(np.size, arrays)):
            return None
    chosen: list[Any] = []
    for one, size in zip(keys, shape, strict=True):
        if isinstance(one, slice):
            chosen.append(None if one == slice(None) else np.arange(size)[one])
            continue
        places = np.ravel(one)
        places = np.flatnonzero(places) if places.dtype == bool else np.where(places < 0, places + size, places)
        if places.size and not (places.min() >= 0 and places.max() < size):
            raise IndexError(f"An index is out of bounds of a dimension of {size}.")
        if np.unique(places).size < places.size:
            return None
        chosen.append(places)
    if len(arrays) > 1:
        return chosen, [*common] + [None] * (len(keys) - len(common))
    sizes = (size if one is None else one.size for one, size in zip(chosen, shape, strict=True))
    gone = (isinstance(one, int | np.integer) for one in keys)
    return chosen, [None if is_gone else size for is_gone, size in zip(gone, sizes, strict=True)]


def _moved(
    at: Counts, old: Sequence[int], places: _Mapping, new: Sequence[int]
) -> tuple[Counts, npt.NDArray[np.bool_]]:
    """Places at other positions along dimensions, and which of them stay; dimension by dimension, to save memory."""
    rest, moved = at, np.zeros(at.size, np.int64)
    chosen = np.ones(at.size, bool)
    for place, before, after, stride in zip(places[::-1], old[::-1], new[::-1], _strides(new)[::-1], strict=True):
        if before == 1 and place is None:
            continue
        rest, along = np.divmod(rest, before)
        if place is not None:
            along = place[along]
            chosen &= along >= 0
        if after > 1:
            along *= stride
            moved += along
    return moved, chosen


def _strides(shape: Sequence[int]) -> list[int]:
    """Distances of neighbours along each dimension, in C order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _places_of(chosen: npt.NDArray[np.intp] | None, size: int) -> npt.NDArray[np.intp] | None:
    if chosen is None or np.array_equal(chosen, np.arange(size)):
        return None
    places = np.full(size, -1)
    places[chosen] = np.arange(chosen.size)
    return places


def _whole(value: Any) -> Any:
    if isinstance(value, SparseCells):
        return np.asarray(value)
    return type(value)(map(_whole, value)) if isinstance(value, tuple | list) else value


def _concatenate(arrays: Sequence[Any], axis: int = 0, **options: Any) -> Any:
    if options or axis is None:
        return NotImplemented
    parts = [sparse_cells(array) for array in arrays]
    axis %= parts[0].ndim
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    start, mapped = 0, []
    for part in parts:
        places: list[Any] = [None] * part.ndim
        places[axis] = start + np.arange(part.shape[axis])
        mapped.append((part, places))
        start += part.shape[axis]
    return placed(shape, mapped)


def _stack(arrays: Sequence[Any], axis: int = 0, **options: Any) -> Any:
    parts = [sparse_cells(array) for array in arrays]
    place = axis % (parts[0].ndim + 1)
    return _concatenate([part.reshape((*part.shape[:place], 1, *part.shape[place:])) for part in parts], place)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: lambda array, axis=None, dtype=None, **options: (
        array.sum(axis, **options) if dtype is None else NotImplemented
    ),
    np.transpose: lambda array, axes=None: array.transpose(axes),
    np.reshape: lambda array, shape, **options: array.reshape(shape),
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.shape: lambda array: array.shape,
    np.ndim: lambda array: array.ndim,
    np.size: lambda array, axis=None: array.size if axis is None else array.shape[axis],
    np.result_type: lambda *arrays: np.result_type(
        *(array.dtype if isinstance(array, SparseCells) else array for array in arrays)
    ),
}
