"""Readers for files of Arrow: the IPC format of files, or Feather, batch by batch; that of streams into memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from calibdask.engine.inputs.arrow import dtype_of, to_numpy
from calibdask.errors import Unavailable
from calibdask.storage.array_files import block_rows
from calibdask.storage.arrow_parts import ArrowParts
from calibdask.storage.file_sets import FileSet, constant
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

_FILE_MAGIC = b"ARROW1"


@dataclass(frozen=True)
class _Batches:
    """Consecutive batches of a file, and what the names of its folders say."""

    file: Location
    start: int
    stop: int
    partitions: dict[str, Any]


def read_arrow(files: FileSet, choice: ColumnChoice) -> dict[str, Any]:
    """Columns of files of Arrow, lazily; those in the format of streams are read into memory."""
    if not files.paths:
        raise ValueError(f"{files.location.url} holds no files.")
    members = [files.member(path) for path in files.paths]
    with members[0].reading("Arrow"), members[0].open() as stream:
        schema, _ = _schema(stream)
    partitions = {name: values for name, values in files.partitions.items() if name not in schema.names}
    names = names_in(files.location, choice, [*schema.names, *partitions])
    wanted = list(dict.fromkeys((*names.columns, *choice.further)))
    types = {
        name: constant(partitions[name][0], 0).dtype if name in partitions else dtype_of(schema.field(name).type)
        for name in wanted
    }
    check_types(files.location, choice, names, schema)
    lists = lists_in(schema, names, choice.further, files.location)
    inside = next(name for name in names.columns if name in schema.names)
    parts: list[_Batches] = []
    rows: list[int] = []
    for number, file in enumerate(members):
        held = {name: values[number] for name, values in partitions.items()}
        with file.reading("Arrow"):
            sizes = _batch_rows(file, inside)
        parts += [_Batches(file, index, index + 1, held) for index in range(len(sizes))]
        rows += sizes
    row_bytes = sum(types[name].itemsize * max(1, lists.get(name, 1)) for name in wanted)
    parts, rows = _together(parts, rows, row_bytes, choice.chunk_rows)
    load = partial(_load, tuple(wanted))
    if len(parts) < 2:
        columns = load(parts[0]) if parts else {name: np.empty(0, types[name]) for name in wanted}
        return collected(choice, names, columns)
    return lazy_columns(choice, names, types, parts, rows, load, lists)


def arrow_parts(files: FileSet, choice: ColumnChoice) -> ArrowParts:
    """All columns of files of Arrow, a batch at a time; of a stream all batches together."""
    import pyarrow

    if not files.paths:
        raise ValueError(f"{files.location.url} holds no files.")
    members = [files.member(path) for path in files.paths]
    with members[0].reading("Arrow"), members[0].open() as stream:
        schema, _ = _schema(stream)
    partitions = {name: values for name, values in files.partitions.items() if name not in schema.names}
    wanted = tuple(schema.names)
    for name, values in partitions.items():
        schema = schema.append(pyarrow.field(name, pyarrow.array(values).type))
    names = score_names_in(files.location, choice, schema.names)
    check_types(files.location, choice, names, schema)
    parts: list[_Batches] = []
    for number, file in enumerate(members):
        held = {name: values[number] for name, values in partitions.items()}
        with file.reading("Arrow"), file.open() as stream:
            parts += [_Batches(file, index, index + 1, held) for index in range(_batch_count(stream))]
    return ArrowParts(schema, names, parts, partial(_table_of, schema, wanted))


def _batch_count(stream: Any) -> int:
    """How many batches can be read one by one."""
    import pyarrow.ipc

    _, indexed = _schema(stream)
    stream.seek(0)
    return int(pyarrow.ipc.open_file(stream).num_record_batches) if indexed else 1


def _table_of(schema: Any, wanted: tuple[str, ...], part: _Batches) -> Any:
    import pyarrow

    try:
        table = _table(wanted, part)
        for name, value in part.partitions.items():
            table = table.append_column(name, pyarrow.array([value] * table.num_rows, schema.field(name).type))
        return table.cast(schema)
    except Unavailable:
        raise
    except Exception as error:
        raise read_error(part.file, error, "Arrow") from error


def _schema(stream: Any) -> tuple[Any, bool]:
    """The schema, and whether batches can be read one by one."""
    import pyarrow.ipc

    indexed = stream.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    stream.seek(0)
    reader = pyarrow.ipc.open_file(stream) if indexed else pyarrow.ipc.open_stream(stream)
    return reader.schema, indexed


def _batch_rows(file: Location, name: str) -> list[int]:
    """Rows of each batch; all of a stream count as one."""
    import pyarrow.ipc

    with file.open() as stream:
        schema, indexed = _schema(stream)
        stream.seek(0)
        # One column, that other ones need not be decompressed.
        options = pyarrow.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name)])
        if not indexed:
            return [sum(batch.num_rows for batch in pyarrow.ipc.open_stream(stream, options=options))]
        reader = pyarrow.ipc.open_file(stream, options=options)
        return [reader.get_batch(number).num_rows for number in range(reader.num_record_batches)]


def _together(
    parts: list[_Batches], rows: list[int], row_bytes: int, chunk_rows: int | None
) -> tuple[list[_Batches], list[int]]:
    """Neighbouring batches of a file as one block."""
    total = sum(rows)
    target = block_rows(total, max(1, total // max(1, len(rows))), row_bytes, chunk_rows)
    joined: list[_Batches] = []
    sizes: list[int] = []
    for part, count in zip(parts, rows, strict=True):
        if count == 0:
            continue
        if joined and joined[-1].file == part.file and sizes[-1] + count <= target:
            joined[-1] = _Batches(part.file, joined[-1].start, part.stop, part.partitions)
            sizes[-1] += count
        else:
            joined.append(part)
            sizes.append(count)
    return joined, sizes


def _table(inside: Sequence[str], part: _Batches) -> Any:
    """Columns of the batches."""
    import pyarrow.ipc

    with part.file.open() as stream:
        schema, indexed = _schema(stream)
        stream.seek(0)
        options = pyarrow.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in inside])
        if indexed:
            reader = pyarrow.ipc.open_file(stream, options=options)
            batches = [reader.get_batch(number) for number in range(part.start, part.stop)]
            table = pyarrow.Table.from_batches(batches)
        else:
            table = pyarrow.ipc.open_stream(stream, options=options).read_all()
        # Lengths and offsets are those of the file: beyond its buffers is the memory of this process.
        table.validate(full=True)
        return table.select(list(inside))


def _load(wanted: tuple[str, ...], part: _Batches) -> Columns:
    try:
        inside = [name for name in wanted if name not in part.partitions]
        table = _table(inside, part)
        columns = {name: to_numpy(table.column(name)) for name in inside}
        return columns | {
            name: constant(part.partitions[name], table.num_rows) for name in wanted if name not in columns
        }
    except Unavailable:
        raise
    except Exception as error:
        raise read_error(part.file, error, "Arrow") from error
