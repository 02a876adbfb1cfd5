"""Columns of whatever container: data frames, tables, relations, data sets, readers, mappings of arrays."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.data.streams import Batches
from calibdask.engine.arrays import is_dask, matrix_of_mappings, rows_of_lists
from calibdask.storage.arrow_columns import class_names, list_width, to_numpy

# Rows of a batch where the container lets us choose.
_BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class MemoryColumns:
    """Columns in memory.

    Attributes
    ----------
    names : sequence
    values : function
        From a name to an array of numbers or texts, without types of the container's own.
    slicing : function
        From a name to the column as the container has it: categories keep their order.
    """

    names: Sequence[Any]
    values: Callable[[Any], Any]
    slicing: Callable[[Any], Any]

    def matrix(self, names: Sequence[Any], classes: Any, dims: tuple[str, str]) -> Any:
        """One column, (n,), or (n, K) where its cells are lists; of one for each class, (n, K)."""
        first, *others = map(self.values, names)
        if not others:
            return first
        if isinstance(first, xr.DataArray):
            matrix = xr.concat([first, *others], dims[1]).transpose(..., *dims)
            return matrix if classes is None else matrix.assign_coords({dims[1]: list(classes)})
        stacked = np.stack([first, *others], axis=1)
        return stacked if classes is None else xr.DataArray(stacked, {dims[1]: list(classes)}, dims)


class DaskColumns:
    """Columns of a Dask data frame."""

    def __init__(self, frame: Any) -> None:
        self.frame, self.names = frame, list(frame.columns)

    def matrix(self, names: Sequence[Any], classes: Any, dims: tuple[str, str]) -> Any:
        """A series, or a frame of several columns, which are called by their classes."""
        if len(names) == 1:
            return self.values(names[0])
        frame = self.values(list(names))
        return (
            frame if classes in (None, tuple(names)) else frame.rename(columns=dict(zip(names, classes, strict=True)))
        )

    def slicing(self, name: Any) -> Any:
        """A series as it is."""
        return self.frame[name]

    def values(self, names: Any) -> Any:
        """A series, or a frame of several columns, of types of NumPy."""
        return self.numbers(self.frame[names])

    @staticmethod
    def numbers(part: Any) -> Any:
        """A series or a frame with columns of types of NumPy."""
        dtypes = list(part.dtypes) if part.ndim == 2 else [part.dtype]
        if all(isinstance(dtype, np.dtype) for dtype in dtypes):
            return part
        # Types of pandas and Arrow: missing numbers become NaN, in all partitions alike.
        return part.map_partitions(_numbers, meta=_numbers(part._meta))


class StreamColumns:
    """Columns that come batch by batch."""

    def __init__(self, batches: Batches) -> None:
        self.batches, self.names = batches, list(batches.schema.names)


def has_columns(container: Any) -> bool:
    """Whether this is a container of named columns, besides datasets of xarray and mappings; imports nothing."""
    if isinstance(container, np.ndarray | xr.Dataset | xr.DataArray | list | tuple | str):
        return False
    # One column of a Dask frame has columns, too.
    if getattr(container, "ndim", 2) == 1:
        return False
    # Of the type: lazy frames of Polars warn where their columns are asked for.
    if hasattr(type(container), "columns") or hasattr(container, "collect_schema"):
        return True
    return hasattr(container, "schema") and (
        hasattr(container, "to_batches") or hasattr(container, "__arrow_c_stream__")
    )


def has_fields(container: Any) -> bool:
    """Whether this is a mapping, a dataset of xarray, or a structured array of NumPy."""
    return isinstance(container, Mapping) or (isinstance(container, np.ndarray) and container.dtype.names is not None)


def columns_of(container: Any) -> MemoryColumns | DaskColumns | StreamColumns:
    """The columns of a container.

    Raises
    ------
    ValueError
        If this is none.
    """
    if isinstance(container, xr.Dataset):
        names = [str(name) for name in container.variables]
        return MemoryColumns(names, container.__getitem__, container.__getitem__)
    if isinstance(container, Mapping):
        return MemoryColumns(list(container), container.__getitem__, container.__getitem__)
    if isinstance(container, np.ndarray) and container.dtype.names is not None:
        return MemoryColumns(list(container.dtype.names), container.__getitem__, container.__getitem__)
    if is_dask(container) and hasattr(container, "columns"):
        return DaskColumns(container)
    if _is_pandas(container):
        return MemoryColumns(list(container.columns), lambda name: _series(container, name), container.__getitem__)
    arrow = _arrow_columns(container)
    return arrow if arrow is not None else _narwhals_columns(container)


def _is_pandas(container: Any) -> bool:
    return type(container).__module__.partition(".")[0] == "pandas" and hasattr(container, "columns")


def _series(frame: Any, name: Any) -> Any:
    series = frame[name]
    if series.ndim > 1:
        raise ValueError(f"The frame has several columns called {name!r}; rename them.")
    if isinstance(series.dtype, np.dtype):
        return matrix_of_mappings(rows_of_lists(series.to_numpy(), f"Column {name!r}"))
    arrow_type = getattr(series.dtype, "pyarrow_dtype", None)
    if arrow_type is not None and list_width(arrow_type) is not None:
        import pyarrow

        return _values(pyarrow.Array.from_pandas(series))
    return _numbers(series).to_numpy()


def _values(column: Any) -> Any:
    """A column of Arrow as array; of structs of numbers with the names of their classes."""
    classes = class_names(column.type)
    values = to_numpy(column)
    return xr.DataArray(values, {"class": list(classes)}, ("sample", "class")) if classes else values


def _numbers(part: Any) -> Any:
    """A part of a data frame of pandas with columns of NumPy's types."""
    import pandas as pd
    import pyarrow

    if part.ndim == 2:
        return pd.DataFrame({name: _numbers(part[name]) for name in part.columns}, index=part.index)
    if isinstance(part.dtype, np.dtype):
        return part
    if part.dtype.kind in "iub" or isinstance(part.dtype, pd.CategoricalDtype):
        # Whether values are missing must not change the type from part to part.
        values = part.astype(object) if isinstance(part.dtype, pd.CategoricalDtype) else part.astype("Float64")
        return pd.Series(
            values.to_numpy(dtype=object if values.dtype == object else float, na_value=np.nan), part.index
        )
    return pd.Series(to_numpy(pyarrow.Array.from_pandas(part)), part.index)


def _arrow_columns(container: Any) -> MemoryColumns | StreamColumns | None:
    """Columns of a container of pyarrow, or of a function that returns one."""
    import pyarrow
    from pyarrow import dataset as arrow_dataset

    if isinstance(container, pyarrow.RecordBatch):
        container = pyarrow.Table.from_batches([container])
    if isinstance(container, pyarrow.Table):
        return _table_columns(container)
    if isinstance(container, arrow_dataset.Dataset):
        return StreamColumns(
            Batches(container.schema, lambda names: container.to_batches(columns=list(names), batch_size=_BATCH_ROWS))
        )
    if isinstance(container, pyarrow.RecordBatchReader):
        return StreamColumns(Batches(container.schema, lambda names: _selected(container, names), once=True))
    if callable(container) and not hasattr(container, "columns"):
        return StreamColumns(Batches(_reader(container()).schema, lambda names: _selected(_reader(container()), names)))
    return None


def _table_columns(table: Any) -> MemoryColumns:
    def column(name: Any) -> np.ndarray:
        if table.column_names.count(name) > 1:
            raise ValueError(f"The table has several columns called {name!r}; rename them.")
        return _values(table.column(name))

    return MemoryColumns(table.column_names, column, column)


def _reader(container: Any) -> Any:
    """A reader of record batches of anything with a stream of Arrow."""
    import pyarrow

    if isinstance(container, pyarrow.RecordBatchReader):
        return container
    if hasattr(container, "__arrow_c_stream__"):
        return pyarrow.RecordBatchReader.from_stream(container)
    raise ValueError(
        "label and score name columns of a data frame, a table, a relation, a data set, or a function that returns a "
        f"reader of record batches; got {type(container).__name__}."
    )


def _selected(reader: Any, names: Sequence[Any]) -> Iterator[Any]:
    for batch in reader:
        yield batch.select(list(names))


def _narwhals_columns(container: Any) -> MemoryColumns | DaskColumns | StreamColumns:
    """Columns of a frame that narwhals knows, or of anything with a stream of Arrow."""
    import narwhals as nw

    frame = nw.from_native(container, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        # One column at a time: what is not needed is not converted.
        def column(name: Any) -> np.ndarray:
            return _values(frame.select(name).to_arrow().column(0))

        return MemoryColumns(frame.columns, column, column)
    if isinstance(frame, nw.LazyFrame):
        return _lazy_columns(frame)
    schema = _reader(container).schema
    return StreamColumns(Batches(schema, lambda names: _selected(_reader(container), names)))


def _lazy_columns(frame: Any) -> MemoryColumns | DaskColumns | StreamColumns:
    """Columns of a lazy frame; only those that are needed are computed, batch by batch where it can."""
    native = frame.to_native()
    if is_dask(native):
        return DaskColumns(native)
    if frame.implementation.is_polars() and hasattr(native, "collect_batches"):
        schema = native.limit(0).collect().to_arrow().schema
        return StreamColumns(Batches(schema, lambda names: _polars_batches(native.select(list(names)))))
    if frame.implementation.is_duckdb():
        schema = _relation_reader(native.limit(0)).schema
        return StreamColumns(Batches(schema, lambda names: iter(_relation_reader(frame.select(*names).to_native()))))
    return _table_columns(frame.collect("pyarrow").to_native())


def _polars_batches(frame: Any) -> Iterator[Any]:
    for part in frame.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True):
        yield from part.to_arrow().to_batches()


def _relation_reader(relation: Any) -> Any:
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return read(_BATCH_ROWS)
