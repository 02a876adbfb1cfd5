"""Slices: groups of rows by the values of one or several variables."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.arrays import in_memory, is_dask, local_times, plain, unmasked
from calibdask.engine.axes import MISSING, Axis, check_identifiers, slice_axis, with_missing
from calibdask.engine.progress_events import Stage, start_stage
from calibdask.safe_text import check_labels, listed

# More slices than this are a mistake, such as an identifier used as a category.
_MOST_SLICES = 1_000_000
_NANOSECONDS = "datetime64[ns]"
# What may stand in an array of objects, and is no label.
_NESTED = (dict, list, tuple, set, np.ndarray)
# Name of the Dask tasks that find the distinct values.
_LABELS = "calibdask-labels"


@dataclass(frozen=True)
class SliceCodes:
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


def coded(by: Any, n: float, sample_dim: str, keep: Any = None) -> tuple[Any, tuple[Axis, ...]]:
    """One slice number for each row (None without slices), and an axis for each variable.

    The distinct values of a Dask array are found by reading that array alone, once. Values that only rows have which
    ``keep`` (n,) does not mark make no slices.
    """
    group: Any = None
    axes = []
    for name, values in named(by).items():
        check_labels("Each name of by", [name])
        codes, labels = _codes(str(name), values, n, sample_dim, keep)
        if labels.dtype.kind in "OU":
            check_labels(f"by {name!r}", labels.tolist(), partial(_first_row, codes))
        axes.append(slice_axis(name, labels))
        group = codes if group is None else group * len(labels) + codes
    total = int(np.prod([axis.size for axis in axes], dtype=np.int64))
    if total > _MOST_SLICES:
        sizes = listed(f"{axis.name}: {axis.size}" for axis in axes)
        raise ValueError(f"by expects at most {_MOST_SLICES} slices, got {total} ({sizes}); group the values first.")
    return group, tuple(axes)


def missing_slices(axes: Sequence[Axis]) -> np.ndarray | None:
    """Whether each combination of slices lacks a value of a variable; None where none does.

    Examples
    --------
    >>> missing_slices([Axis("g", 2, np.array(["be", "missing"]))])
    array([False,  True])
    """
    lacking = np.zeros(1, bool)
    for axis in axes:
        last = np.asarray(axis.labels)[-1:].tolist()
        # The slice without a value is the last one.
        is_missing = bool(last) and (last[0] is None or last[0] != last[0] or str(last[0]).strip("()") == MISSING)
        lacking = (lacking[:, None] | (np.arange(axis.size) >= axis.size - is_missing)).ravel()
    return lacking if lacking.any() else None


def _first_row(codes: Any, position: int) -> str:
    """Where a label is first found, for a message; nothing where codes are not in memory."""
    return "" if is_dask(codes) else f" in row {int(np.argmax(np.asarray(codes) == position))}"


def _codes(name: str, values: Any, n: float, sample_dim: str, keep: Any = None) -> tuple[Any, np.ndarray]:
    """Code of each row and the sorted distinct values; categories keep their order."""
    if isinstance(values, SliceCodes):
        return values.codes, values.labels
    if isinstance(values, xr.DataArray):
        if values.dims != (sample_dim,):
            raise ValueError(f"by {name!r} expects the one dimension {sample_dim!r}, got {values.dims}.")
        values = values.data
    categories = getattr(getattr(values, "cat", values), "categories", None)
    if categories is not None and not is_dask(values):
        codes = np.asarray(getattr(values, "cat", values).codes)
        _check_rows(name, codes.shape, n)
        return _of_kept(
            codes, keep, lambda kept: _with_last(kept.astype(np.int32), kept < 0, local_times(np.asarray(categories)))
        )
    array = plain(values, f"by {name!r}")
    _check_rows(name, array.shape, n)
    if array.dtype.kind == "V":
        raise ValueError(f"by {name!r} expects numbers, texts or dates, got records; take one field of them.")
    if is_dask(array):
        return _dask_codes(name, array, keep)
    return _of_kept(array, keep, partial(_memory_codes, name))


def _of_kept(
    values: np.ndarray, keep: Any, code: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Codes and labels of the rows that are kept; the others have the first code."""
    if keep is None:
        return code(values)
    keep = in_memory(keep)
    of_kept, labels = code(values[keep])
    codes = np.zeros(len(values), np.int32)
    codes[keep] = of_kept
    return codes, labels


def _memory_codes(name: str, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes and labels of values in memory; missing ones are the last."""
    absent = _absent(array)
    if not absent.any():
        labels, codes = _unique(name, array)
        return codes.astype(np.int32), labels
    labels, present = _unique(name, array[~absent])
    codes = np.zeros(len(array), np.int32)
    codes[~absent] = present
    return _with_last(codes, absent, labels)


def codes_among(axes: tuple[Axis, ...], by: Any, n: float) -> Any:
    """The number of each row among slices that are known; -1 for a value that is not among theirs.

    Raises
    ------
    ValueError
        If ``by`` has other variables, or not one value for each of the ``n`` rows.
    """
    given = named(by)
    names = [str(axis.name) for axis in axes]
    if len(axes) == len(given) == 1 and not isinstance(by, Mapping):
        given = {axes[0].name: next(iter(given.values()))}
    if {*map(str, given)} != {*names}:
        raise ValueError(f"by expects the slices {listed(names)}, got {listed(given) or 'none'}.")
    total: Any = None
    for axis in axes:
        values = given[axis.name]
        array = plain(values.data if isinstance(values, xr.DataArray) else values, f"by {axis.name!r}")
        _check_rows(str(axis.name), array.shape, n)
        labels = np.arange(axis.size) if axis.labels is None else np.asarray(axis.labels)
        if is_dask(array):
            codes = array.map_blocks(_positions, labels, dtype=np.int64, meta=np.empty(0, np.int64))
            both = None if total is None else (codes >= 0) & (total >= 0)
            total = codes if both is None else (total * axis.size + codes) * both - (1 - both)
        else:
            codes = _positions(array, labels)
            total = codes if total is None else np.where((codes >= 0) & (total >= 0), total * axis.size + codes, -1)
    return total


def _positions(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The position of each value among labels in any order, -1 where it is not among them."""
    absent, absent_labels = _absent(values), _absent(labels)
    # Rows without a value have the last slice, if there were such.
    last = len(labels) - 1 if absent_labels.any() or labels[-1:].tolist() == [MISSING] else -1
    codes = np.full(len(values), last, np.int64)
    present = values[~absent]
    if labels.dtype.kind == "M":
        labels, present = labels.astype(_NANOSECONDS), present.astype(_NANOSECONDS)
    # Values keep their type: in that of the labels longer texts would be cut, and fractions lost.
    positions = {label: position for position, label in enumerate(labels.tolist())}
    distinct, inverse = _distinct_and_place(present)
    codes[~absent] = np.array([positions.get(value, -1) for value in distinct.tolist()], np.int64)[inverse]
    return codes


def _unique(name: str, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct values, and the number of each value among them."""
    try:
        labels, codes = _distinct_and_place(values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"by {name!r} expects numbers, texts or dates, all of one kind, got values that cannot be sorted ({error})."
        ) from error
    if labels.dtype.kind == "f":
        check_identifiers(labels)
    nested = next((label for label in labels.tolist() if isinstance(label, _NESTED)), None)
    if nested is not None:
        kind = type(nested).__name__
        raise ValueError(f"by {name!r} expects numbers, texts or dates, got values of type {kind}; take one field.")
    return labels, codes


def _distinct_and_place(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `numpy.unique`, which sorts all rows; here numbers, dates and texts are hashed, and sorted once distinct."""
    import pandas as pd

    if values.dtype.kind in "Mm" and values.dtype.isnative:
        distinct, place = _distinct_and_place(values.view(np.int64))
        return distinct.view(values.dtype), place
    if not (_is_hashed(values.dtype) or _are_texts(values)):
        return np.unique(values, return_inverse=True)
    codes, seen = pd.factorize(values)
    distinct, place = np.unique(np.asarray(seen, values.dtype), return_inverse=True)
    return distinct, place[codes]


def _is_hashed(dtype: np.dtype) -> bool:
    """Whether pandas hashes numbers of a type as they are: it knows neither half floats nor other orders of bytes."""
    return dtype.isnative and (dtype.kind in "biu" or dtype in (np.float32, np.float64))


def _are_texts(values: np.ndarray) -> bool:
    """Whether every value of an array of objects is a text, without missing ones."""
    from pandas.api.types import infer_dtype

    return values.dtype == object and infer_dtype(values, skipna=False) == "string"


def _with_last(codes: np.ndarray, absent: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes and labels, where values are missing with a slice of their own, the last."""
    if not absent.any():
        return codes, labels
    codes[absent] = len(labels)
    return codes, with_missing(labels)


def _check_rows(name: str, shape: tuple[float, ...], n: float) -> None:
    if len(shape) != 1 or (shape[0] == shape[0] and n == n and shape[0] != n):
        mend = "" if shape else ", a single value; names of columns are for frames and files"
        raise ValueError(
            f"by {name!r} expects one value for each of the {n} rows, got an array of shape {shape}{mend}."
        )


def _absent(array: np.ndarray) -> np.ndarray:
    """Where values are missing."""
    import pandas as pd

    return np.asarray(pd.isna(array), bool)


def _dask_codes(name: str, array: Any, keep: Any) -> tuple[Any, np.ndarray]:
    from calibdask.engine.sources.reduction import tree
    from calibdask.engine.workers import scheduler

    chunks = ((1,) * array.numblocks[0],)
    of_boxes = {"dtype": object, "meta": np.empty(0, object), "chunks": chunks}
    if keep is None:
        boxes = array.map_blocks(_distinct, slicing=name, **of_boxes)
    else:
        kept = _chunked_like(keep, array)
        boxes = array.map_blocks(_distinct, kept, slicing=name, **of_boxes)
    distinct = tree(boxes, _both, axis=0, name=_LABELS)
    start_stage(Stage("slices", total=array.numblocks[0], tasks=(_LABELS,)))
    labels, missing = distinct.compute(scheduler=scheduler()).item()
    codes = array.map_blocks(_search, labels, dtype=np.int32, meta=np.empty(0, np.int32))
    return codes, with_missing(labels) if missing else labels


def _chunked_like(keep: Any, array: Any) -> Any:
    """Marks as a Dask array in the chunks of another."""
    import dask.array as da

    if is_dask(keep):
        has_known_sizes = not any(size != size for size in (*keep.chunks[0], *array.chunks[0]))
        return keep.rechunk(array.chunks) if has_known_sizes and keep.chunks != array.chunks else keep
    if any(size != size for size in array.chunks[0]):
        raise ValueError("by of Dask expects known chunk sizes next to arrays in memory; call compute_chunk_sizes().")
    return da.from_array(keep, chunks=array.chunks)


def _distinct(values: np.ndarray, keep: np.ndarray | None = None, *, slicing: str) -> np.ndarray:
    """Sorted distinct values of the rows of a chunk that are kept and the number of missing ones, packed."""
    from calibdask.engine.sources.reduction import packed

    values = local_times(unmasked(values))
    values = values if keep is None else values[keep]
    absent = _absent(values)
    return packed((_unique(slicing, values[~absent])[0], int(absent.sum())), 1)


def _both(a: tuple[np.ndarray, int], b: tuple[np.ndarray, int]) -> tuple[np.ndarray, int]:
    return np.union1d(a[0], b[0]), a[1] + b[1]


def _search(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    values = local_times(values)
    absent = _absent(values)
    codes = np.full(len(values), len(labels), np.int32)
    present = values[~absent]
    distinct, place = _distinct_and_place(present)
    # Values that only rows have which are left out are not among the labels; their codes are not used.
    codes[~absent] = np.searchsorted(labels, distinct)[place]
    return codes
