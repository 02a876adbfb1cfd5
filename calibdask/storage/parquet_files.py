"""Readers for Parquet files, folders of them, and Delta tables: only the columns asked for, in groups of rows."""

from functools import partial
from typing import Any

import numpy as np

from calibdask.errors import Unavailable
from calibdask.storage.array_files import TARGET_BYTES, block_rows
from calibdask.storage.arrow_columns import dtype_of, to_numpy
from calibdask.storage.arrow_parts import ArrowParts
from calibdask.storage.file_sets import FileSet
from calibdask.storage.lazy_columns import (
    Columns,
    check_types,
    collected,
    lazy_columns,
    lists_in,
    names_in,
    score_names_in,
)
from calibdask.storage.location import ColumnChoice, Location, read_error
from calibdask.storage.retry import with_retries
from calibdask.storage.sizes import check_rows, check_size


def read_parquet(files: FileSet, choice: ColumnChoice) -> dict[str, Any]:
    """Columns of Parquet files (names like ``day=1`` of folders are columns too), lazily."""
    if files.single and files.location.local:
        _check_names(files, choice)
    return _read_dataset(files.location, _dataset(files), choice)


def parquet_parts(files: FileSet, choice: ColumnChoice) -> ArrowParts:
    """All columns of Parquet files, a row group at a time."""
    return _dataset_parts(files.location, _dataset(files), choice)


def delta_parts(location: Location, choice: ColumnChoice) -> ArrowParts:
    """All columns of a Delta table, a row group at a time."""
    return _dataset_parts(location, _delta_dataset(location), choice)


def _dataset_parts(location: Location, dataset: Any, choice: ColumnChoice) -> ArrowParts:
    with location.reading("Parquet"):
        groups = [group for file in dataset.get_fragments() for group in file.split_by_row_group()]
        rows = sum(row_group.num_rows for group in groups for row_group in group.row_groups)
    check_rows(location.url, rows)
    schema = dataset.schema
    names = score_names_in(location, choice, schema.names)
    check_types(location, choice, names, schema)
    load = partial(_table, location.url, schema, tuple(schema.names))
    return ArrowParts(schema, names, [[group] for group in groups], load)


def _dataset(files: FileSet) -> Any:
    # It imports pandas.
    import pyarrow.dataset

    location = files.location
    with location.reading("Parquet"):
        if not files.paths:
            raise ValueError("the folder holds no files.")
        paths = location.path if files.single else list(files.paths)
        # What signs an address may look like the name of a folder, ``day=1/``.
        partitioning = "hive" if location.named == location.path else None
        return pyarrow.dataset.dataset(
            paths, format="parquet", filesystem=location.fs, partitioning=partitioning, exclude_invalid_files=False
        )


def _check_names(files: FileSet, choice: ColumnChoice) -> None:
    """Refuse names that are not in a file, by its footer alone."""
    import pyarrow.parquet

    with files.location.reading("Parquet"):
        there = pyarrow.parquet.read_schema(files.location.path).names
    names_in(files.location, choice, [*there, *(name for name in files.partitions if name not in there)])


def read_delta(location: Location, choice: ColumnChoice) -> dict[str, Any]:
    """Columns of a Delta table as of its last version, lazily.

    Raises
    ------
    ValueError
        If the package deltalake is not installed.
    """
    return _read_dataset(location, _delta_dataset(location), choice)


def _delta_dataset(location: Location) -> Any:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise ValueError(
            f"{location.url} is a Delta table, which expects the package deltalake; install it: "
            'pip install "calibdask[delta]"'
        ) from error
    with location.reading("a Delta table"):
        return DeltaTable(location.path if location.local else location.address).to_pyarrow_dataset()


def _read_dataset(location: Location, dataset: Any, choice: ColumnChoice) -> dict[str, Any]:
    with location.reading("Parquet"):
        groups = [group for file in dataset.get_fragments() for group in file.split_by_row_group()]
        rows = [sum(group.num_rows for group in part.row_groups) for part in groups]
    check_rows(location.url, sum(rows))
    names = names_in(location, choice, dataset.schema.names)
    wanted = list(dict.fromkeys((*names.columns, *choice.further)))
    types = {name: dtype_of(dataset.schema.field(name).type) for name in wanted}
    check_types(location, choice, names, dataset.schema)
    lists = lists_in(dataset.schema, names, choice.further, location)
    row_bytes = sum(types[name].itemsize * max(1, lists.get(name, 1)) for name in wanted)
    parts, sizes = _together(groups, rows, row_bytes, choice.chunk_rows)
    check_size(location.url, names.labels[0], [sum(sizes)], [max(sizes, default=1)], row_bytes)
    load = partial(_load_row_groups, location.url, dataset.schema, tuple(wanted))
    if not parts:
        empty = {name: np.empty(0, types[name]) for name in wanted}
        return {**choice.collect(empty[names.labels[0]], np.empty(0), empty.__getitem__), "names": names}
    if len(parts) == 1 and sizes[0] * row_bytes <= TARGET_BYTES and choice.chunk_rows is None:
        # One small block: importing Dask would take longer than all the rest.
        return collected(choice, names, load(parts[0]))
    return lazy_columns(choice, names, types, parts, sizes, load, lists)


def _together(
    groups: list[Any], rows: list[int], row_bytes: int, chunk_rows: int | None
) -> tuple[list[list[Any]], list[int]]:
    """Neighbouring row groups of a block, and its rows."""
    total = sum(rows)
    typical = max(1, total // max(1, len(groups)))
    target = block_rows(total, typical, row_bytes, chunk_rows)
    parts: list[list[Any]] = []
    sizes: list[int] = []
    for group, count in zip(groups, rows, strict=True):
        if count == 0:
            continue
        if parts and sizes[-1] + count <= target:
            parts[-1].append(group)
            sizes[-1] += count
        else:
            parts.append([group])
            sizes.append(count)
    return parts, sizes


def _load_row_groups(url: str, schema: Any, names: tuple[str, ...], groups: list[Any]) -> Columns:
    table = _table(url, schema, names, groups)
    try:
        return {name: to_numpy(table.column(name)) for name in names}
    except Exception as error:
        raise read_error(url, error, f"Parquet, {groups[0].path}") from error


def _table(url: str, schema: Any, names: tuple[str, ...], groups: list[Any]) -> Any:
    import pyarrow
    from pyarrow.dataset import ParquetFragmentScanOptions

    # Checksums of pages are held against them where the writer has left some.
    options = ParquetFragmentScanOptions(page_checksum_verification=True)
    try:
        tables = [
            with_retries(partial(group.to_table, schema=schema, columns=list(names), fragment_scan_options=options))
            for group in groups
        ]
        return pyarrow.concat_tables(tables)
    except Unavailable:
        raise
    except Exception as error:
        raise read_error(url, error, f"Parquet, {groups[0].path}") from error
