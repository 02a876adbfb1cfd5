"""Rows of data frames: pandas objects are matched by index, columns of Dask joined to arrays with common chunks."""

import warnings
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from calibdask.engine.arrays import is_dask, is_pandas, refuse_strays, without_zone
from calibdask.engine.axes import check_identifiers, with_missing

# What messages call a frame whose columns are named.
FRAME = "the frame"
# Number of rows that an error message lists.
_SHOWN = 3


def aligned(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """All arrays, with series and data frames of pandas in the order of the index of the first one.

    Raises
    ------
    ValueError
        If two indexes hold different rows, or repeated ones in another order.

    Examples
    --------
    >>> aligned({"y_true": [0, 1], "y_prob": [0.1, 0.9]})
    {'y_true': [0, 1], 'y_prob': [0.1, 0.9]}
    """
    indexed = [name for name, array in arrays.items() if is_pandas(array)]
    result = dict(arrays)
    for name in indexed[1:]:
        first, other = arrays[indexed[0]], arrays[name]
        # Different lengths have an error of their own.
        if other.index.equals(first.index) or len(other) != len(first):
            continue
        same = first.index.is_unique and other.index.is_unique and first.index.isin(other.index).all()
        if not same:
            first_too = "" if indexed[0] == FRAME else f"{indexed[0]}.to_numpy() and "
            raise ValueError(
                f"{indexed[0]} and {name} are pandas objects with different indexes, {_index_text(first.index)} and "
                f"{_index_text(other.index)}: their rows cannot be matched. Select the rows of both by one "
                f"index; or, if their order is the same, give {first_too}{name}.to_numpy()."
            )
        warnings.warn(
            f"The rows of {name} were put in the order of the index of {indexed[0]}, as pandas does; if their order is "
            f"the same, give to_numpy() of {'both' if indexed[0] != FRAME else name}.",
            UserWarning,
            stacklevel=5,
        )
        result[name] = other.loc[first.index]
    return result


def check_divisions(series: Mapping[str, Any]) -> None:
    """Raise ValueError for series and data frames of Dask whose partitions are known to hold other rows.

    Dask would put them in the order of their index; partitions are read side by side, without a shuffle.
    """
    known = {name: part.divisions for name, part in series.items() if getattr(part, "known_divisions", False)}
    first = next(iter(known), "")
    for name, divisions in known.items():
        if divisions != known[first]:
            raise ValueError(
                f"{first} and {name} are Dask objects with different divisions, {_index_text(known[first])} and "
                f"{_index_text(divisions)}: their rows cannot be matched. Take them from one frame, or "
                "repartition both by the same divisions; or, if their order is the same, give to_dask_array() of both."
            )


def _index_text(index: Any) -> str:
    few = ", ".join(map(repr, list(index[:_SHOWN])))
    return f"[{few}, ...]" if len(index) > _SHOWN else f"[{few}]"


def is_frame(values: Any) -> bool:
    """Whether this is a data frame or a series of dask.dataframe; does not import dask."""
    return is_dask(values) and hasattr(values, "to_dask_array")


def joined_arrays(frames: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of frames and series with equal partitions; ``frames`` maps names to them.

    Converted one by one, columns of the same file can get different partitions, because Dask groups row groups by the
    columns that are read. So all are joined first, in float64, which represents every float32 and every class number
    exactly, and read once.

    Raises
    ------
    ValueError
        If frames have different numbers of partitions, or different known divisions, or columns that are not numbers.
    """
    import pandas as pd

    parts = list(frames.values())
    numbers = {name: frame.npartitions for name, frame in frames.items()}
    if len(set(numbers.values())) > 1:
        raise ValueError(f"Columns of data frames expect equal partitions, got {numbers}; take them from one frame.")
    check_divisions(frames)
    widths, types = {}, {}
    for name, frame in frames.items():
        dtypes = list(frame.dtypes) if frame.ndim == 2 else [frame.dtype]
        if any(getattr(dtype, "kind", "O") not in "fiub" for dtype in dtypes):
            refuse_strays(name, (_objects(frame.partitions[number]) for number in range(frame.npartitions)))
            raise ValueError(
                f"{name} expects columns of numbers, got {', '.join(map(str, dtypes))}; convert them by "
                "astype('float64')."
            )
        widths[name], types[name] = len(dtypes), np.result_type(*dtypes)
    meta = pd.DataFrame(np.zeros((0, sum(widths.values()))))
    table = parts[0].map_partitions(_joined, *parts[1:], meta=meta).to_dask_array()
    arrays, start = {}, 0
    for name, frame in frames.items():
        columns = table[:, start : start + widths[name]] if frame.ndim == 2 else table[:, start]
        arrays[name] = columns.astype(types[name])
        start += widths[name]
    return arrays


def _objects(part: Any) -> Any:
    """A partition of Dask as an array of objects."""
    from calibdask.engine.workers import scheduler

    return part.compute(scheduler=scheduler()).to_numpy(object)


def complete_rows(frames: Iterable[Any]) -> Any:
    """A series of Dask: whether each row has a value in all of these series and frames."""
    absent = [frame.isna().any(axis=1) if frame.ndim == 2 else frame.isna() for frame in frames]
    return ~reduce(or_, absent)


def series_codes(series: Any, keep: Any = None) -> tuple[Any, Any]:
    """A series of codes 0, 1, ..., and the sorted distinct values, found by reading this column.

    Known categories keep their order; missing values are the last one. Values that only rows have which the series
    ``keep`` does not mark are not among them.
    """
    codes, labels, absent = series_labels(series, keep)
    return codes, with_missing(labels) if absent else labels


def series_labels(series: Any, keep: Any = None) -> tuple[Any, Any, bool]:
    """A series of codes, the sorted distinct values, and whether there are missing ones, whose code is the last."""
    import dask
    import pandas as pd

    from calibdask.engine.workers import scheduler

    series = without_zone(series)
    # Without an explicit shuffle method Dask looks for a cluster, and imports distributed for it.
    kept = series if keep is None else series[keep]
    unique = kept.unique(split_out=1, shuffle_method="tasks").dropna()
    distinct, absent = dask.compute(unique, kept.isna().sum(), scheduler=scheduler())
    if isinstance(series.dtype, pd.CategoricalDtype) and series.cat.known:
        labels = np.asarray(series.dtype.categories)
    else:
        labels = np.sort(np.asarray(distinct.astype(object) if series.dtype == "string" else distinct))
    if labels.dtype.kind == "f":
        check_identifiers(labels)
    meta = pd.Series([], dtype=np.int32)
    return series.map_partitions(_codes, labels, meta=meta), labels, bool(absent)


def _joined(*parts: Any) -> Any:
    import pandas as pd

    for part in parts[1:]:
        # Different lengths have an error of their own.
        if len(part) == len(parts[0]) and not part.index.equals(parts[0].index):
            raise ValueError(
                "Series and data frames of Dask expect the same index in each partition, got different ones: their "
                "rows cannot be matched. Take them from one frame; or, if their order is the same, "
                "give to_dask_array() of all."
            )
    return pd.DataFrame(np.column_stack([np.asarray(part, np.float64) for part in parts]))


def _codes(part: Any, labels: Any) -> Any:
    import pandas as pd

    codes = pd.Index(labels).get_indexer(np.asarray(part))
    # What is not among the labels is missing.
    return pd.Series(np.where(codes < 0, len(labels), codes).astype(np.int32), index=part.index)
