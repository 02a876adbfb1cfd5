"""Conversion of columns of Dask data frames to Dask arrays with common chunks, read together."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibdask.engine.inputs.arrays import is_dask
from calibdask.engine.inputs.slices import with_missing

__all__ = ["is_frame", "joined_arrays", "series_codes"]


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
        If frames have different numbers of partitions, or columns that are not numbers.
    """
    import pandas as pd

    parts = list(frames.values())
    numbers = {name: frame.npartitions for name, frame in frames.items()}
    if len(set(numbers.values())) > 1:
        raise ValueError(f"Columns of data frames expect equal partitions, got {numbers}; take them from one frame.")
    widths, types = {}, {}
    for name, frame in frames.items():
        dtypes = list(frame.dtypes) if frame.ndim == 2 else [frame.dtype]
        if any(getattr(dtype, "kind", "O") not in "fiub" for dtype in dtypes):
            raise ValueError(f"{name} expects columns of numbers, got {', '.join(map(str, dtypes))}.")
        widths[name], types[name] = len(dtypes), np.result_type(*dtypes)
    meta = pd.DataFrame(np.zeros((0, sum(widths.values()))))
    table = parts[0].map_partitions(_joined, *parts[1:], meta=meta).to_dask_array()
    arrays, start = {}, 0
    for name, frame in frames.items():
        columns = table[:, start : start + widths[name]] if frame.ndim == 2 else table[:, start]
        arrays[name] = columns.astype(types[name])
        start += widths[name]
    return arrays


def series_codes(series: Any) -> tuple[Any, Any]:
    """A series of codes 0, 1, ..., and the sorted distinct values, found by reading this column.

    Known categories keep their order; missing values are the last one.
    """
    import dask
    import pandas as pd

    distinct, absent = dask.compute(series.unique().dropna(), series.isna().sum())
    if isinstance(series.dtype, pd.CategoricalDtype) and series.cat.known:
        labels = np.asarray(series.dtype.categories)
    else:
        labels = np.sort(np.asarray(distinct.astype(object) if series.dtype == "string" else distinct))
    meta = pd.Series([], dtype=np.int32)
    return series.map_partitions(_codes, labels, meta=meta), with_missing(labels) if absent else labels


def _joined(*parts: Any) -> Any:
    import pandas as pd

    return pd.DataFrame(np.column_stack([np.asarray(part, np.float64) for part in parts]))


def _codes(part: Any, labels: Any) -> Any:
    import pandas as pd

    codes = pd.Index(labels).get_indexer(np.asarray(part))
    # What is not among the labels is missing.
    return pd.Series(np.where(codes < 0, len(labels), codes).astype(np.int32), index=part.index)
