"""Columns of data frames that users name become labels, scores, weights and slices; those of Dask are joined."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.inputs.alignment import FRAME, aligned, check_divisions
from calibdask.engine.inputs.arrays import is_dask
from calibdask.engine.inputs.columns import ColumnNames, choose_columns, unknown
from calibdask.engine.inputs.containers import (
    DaskColumns,
    MemoryColumns,
    StreamColumns,
    columns_of,
    has_columns,
    has_fields,
)
from calibdask.engine.inputs.missing import without_missing
from calibdask.engine.inputs.slices import check_told_apart, with_missing
from calibdask.engine.inputs.streams import RowStream

_WHERE = "The frame"


@dataclass(frozen=True)
class GivenRows:
    """Rows as `calibdask.evaluate` reads them: arrays, or a stream in place of the labels.

    Attributes
    ----------
    guess : str
        What was taken for labels and scores because of its name, in a sentence.
    skipped : function or None
        From the number of rows that are left to that of rows left out, where the user asked to leave some out.
    """

    y_true: Any
    y_prob: Any
    by: Any
    sample_weight: Any
    guess: str = ""
    skipped: Callable[[int], int] | None = None

    def attributes(self, rows: int) -> dict[str, Any]:
        """What a result of so many rows says about its input."""
        guess = {"guessed_columns": self.guess} if self.guess else {}
        return guess | ({} if self.skipped is None else {"rows_skipped": self.skipped(rows)})


def given_rows(
    y_true: Any,
    y_prob: Any,
    by: Any,
    sample_weight: Any,
    dims: tuple[str, str],
    *,
    label: Any = None,
    score: Any = None,
    skip_missing: bool = False,
) -> GivenRows:
    """What the user gave, with the columns of a frame in place of the frame, and without rows to be left out.

    Raises
    ------
    ValueError
        If columns do not exist, or several could be meant.
    """
    named = label is not None or score is not None
    if not (named or (y_prob is None and (has_columns(y_true) or has_fields(y_true)))):
        rows = GivenRows(y_true, y_prob, by, sample_weight)
    elif y_prob is not None:
        raise ValueError(
            "label and score name columns of a frame, which replaces y_true and y_prob: evaluate(frame, label=..., "
            "score=...). With arrays leave label and score out."
        )
    else:
        by, sample_weight = _of_frame(y_true, by, sample_weight)
        rows = _of_columns(columns_of(y_true), label, score, by, sample_weight, dims, skip_missing)
    if rows.guess:
        _say(rows.guess)
    if not skip_missing or rows.skipped is not None:
        return rows
    if rows.y_prob is None:
        raise ValueError("skip_missing expects arrays, a frame or a file; drop the rows from blocks before.")
    kept = without_missing(
        rows.y_true, rows.y_prob, rows.by, rows.sample_weight, dims[0], matrix=rows.y_true is not y_true
    )
    return GivenRows(kept.y_true, kept.y_prob, kept.by, kept.sample_weight, rows.guess, kept.skipped)


def given_models(
    y_true: Any, models: Mapping[str, Any], by: Any, sample_weight: Any, label: Any, dims: tuple[str, str]
) -> tuple[Any, dict[str, Any], Any, Any]:
    """Labels, scores of models, slices and weights, with the columns of a frame in place of their names.

    Raises
    ------
    ValueError
        If columns do not exist, or the frame is read in batches.
    """
    if not (has_columns(y_true) or label is not None):
        return y_true, dict(models), by, sample_weight
    columns = columns_of(y_true)
    if isinstance(columns, StreamColumns):
        raise ValueError("compare expects a frame in memory or of Dask; collect this one, or scan its file by Dask.")
    by, sample_weight = _of_frame(y_true, by, sample_weight)
    rows = {name: _of_columns(columns, label, score, by, sample_weight, dims, False) for name, score in models.items()}
    first = next(iter(rows.values()))
    if first.guess:
        _say(first.guess)
    return first.y_true, {name: given.y_prob for name, given in rows.items()}, first.by, first.sample_weight


def _of_frame(frame: Any, by: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Slices and weights, those that are series of pandas in the order of the index of the frame."""
    names = {name: f"by {name!r}" for name in by} if isinstance(by, Mapping) else {}
    rows = aligned({FRAME: frame, "sample_weight": sample_weight} | {names[name]: by[name] for name in names})
    return {name: rows[argument] for name, argument in names.items()} if names else by, rows["sample_weight"]


def _say(guess: str) -> None:
    import warnings

    warnings.warn(guess, UserWarning, stacklevel=4)


def _of_columns(
    columns: MemoryColumns | DaskColumns | StreamColumns,
    label: Any,
    score: Any,
    by: Any,
    sample_weight: Any,
    dims: tuple[str, str],
    skip_missing: bool,
) -> GivenRows:
    """Rows of the columns that are named, or guessed."""
    slicing = _slicing(by, columns.names)
    weight = sample_weight if isinstance(sample_weight, str) else None
    for name in (*(column for column in slicing.values() if _is_name(column)), *([] if weight is None else [weight])):
        if name not in columns.names:
            raise unknown(_WHERE, "column", name, columns.names)
    used = [column for column in (*slicing.values(), weight) if _is_name(column)]
    names = choose_columns(columns.names, label, score, _WHERE, used=used)
    if isinstance(columns, StreamColumns):
        return _streamed(columns, names, slicing, weight, sample_weight, skip_missing)
    if isinstance(columns, DaskColumns):
        labels, scores = _frame_columns(columns, names.labels), _frame_columns(columns, names.scores, names.classes)
        slices = {name: columns.frame[column] if _is_name(column) else column for name, column in slicing.items()}
    else:
        labels, scores = _matrix(columns, names.labels, dims), _matrix(columns, names.scores, dims, names.classes)
        slices = {name: columns.slicing(column) if _is_name(column) else column for name, column in slicing.items()}
    weights = sample_weight if weight is None else columns.values(weight)
    return GivenRows(labels, scores, slices or None, weights, names.guess)


def _slicing(by: Any, names: list[Any]) -> dict[Any, Any]:
    """Slicing variables by name: their columns, or arrays."""
    if by is None:
        return {}
    if isinstance(by, Mapping):
        return dict(by)
    if isinstance(by, str) or not isinstance(by, list | tuple):
        by = [by]
    if not all(_is_name(name) for name in by):
        raise ValueError("by expects names of columns of the frame, or a mapping from names to columns or arrays.")
    return {name: name for name in by}


def _is_name(column: Any) -> bool:
    return isinstance(column, str | int)


def _frame_columns(columns: DaskColumns, names: Sequence[Any], classes: Any = None) -> Any:
    """A series of Dask, or a frame of several columns, which are called by their classes."""
    if len(names) == 1:
        return columns.values(names[0])
    frame = columns.values(list(names))
    return frame if classes in (None, tuple(names)) else frame.rename(columns=dict(zip(names, classes, strict=True)))


def _matrix(columns: MemoryColumns, names: Sequence[Any], dims: tuple[str, str], classes: Any = None) -> Any:
    """One column, (n,), or (n, K) where its cells are lists; of one for each class, (n, K)."""
    first, *others = (columns.values(name) for name in names)
    if not others:
        return first
    if isinstance(first, xr.DataArray):
        matrix = xr.concat([first, *others], dims[1]).transpose(..., *dims)
        return matrix if classes is None else matrix.assign_coords({dims[1]: list(classes)})
    matrix = np.stack([first, *others], axis=1)
    return matrix if classes is None else xr.DataArray(matrix, {dims[1]: list(classes)}, dims)


def _streamed(
    columns: StreamColumns, names: ColumnNames, slicing: dict[Any, Any], weight: Any, given: Any, skip_missing: bool
) -> GivenRows:
    if (given is not None and weight is None) or not all(map(_is_name, slicing.values())):
        raise ValueError("by and sample_weight of a lazy frame, a relation or a reader expect names of its columns.")
    stream = RowStream(columns.batches, names, weight, slicing, skip_missing)
    return GivenRows(stream, None, None, None, names.guess, (lambda rows: stream.skipped) if skip_missing else None)


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
    codes, labels, absent = series_labels(series)
    return codes, with_missing(labels) if absent else labels


def series_labels(series: Any) -> tuple[Any, Any, bool]:
    """A series of codes, the sorted distinct values, and whether there are missing ones, whose code is the last."""
    import dask
    import pandas as pd

    from calibdask.engine.scheduler import scheduler

    # Dask looks for a cluster to shuffle on, which imports distributed, unless it is told how.
    unique = series.unique(split_out=1, shuffle_method="tasks").dropna()
    distinct, absent = dask.compute(unique, series.isna().sum(), scheduler=scheduler())
    if isinstance(series.dtype, pd.CategoricalDtype) and series.cat.known:
        labels = np.asarray(series.dtype.categories)
    else:
        labels = np.sort(np.asarray(distinct.astype(object) if series.dtype == "string" else distinct))
    if labels.dtype.kind == "f":
        check_told_apart(labels)
    meta = pd.Series([], dtype=np.int32)
    return series.map_partitions(_codes, labels, meta=meta), labels, bool(absent)


def _joined(*parts: Any) -> Any:
    import pandas as pd

    for part in parts[1:]:
        # Different lengths have an error of their own.
        if len(part) == len(parts[0]) and not part.index.equals(parts[0].index):
            raise ValueError(
                "Series and data frames of Dask expect the same index in each partition, got different ones: their "
                "rows cannot be told to belong together. Take them from one frame; or, if their order is the same, "
                "give to_dask_array() of all."
            )
    return pd.DataFrame(np.column_stack([np.asarray(part, np.float64) for part in parts]))


def _codes(part: Any, labels: Any) -> Any:
    import pandas as pd

    codes = pd.Index(labels).get_indexer(np.asarray(part))
    # What is not among the labels is missing.
    return pd.Series(np.where(codes < 0, len(labels), codes).astype(np.int32), index=part.index)
