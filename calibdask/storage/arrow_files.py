"""Arrow: the IPC format of files, or Feather, in record batches; that of streams at once."""

from collections.abc import Mapping, Sequence
from typing import Any

from calibdask.storage.column_reader import ColumnReader, FilePart, Header
from calibdask.storage.location import Location

_FILE_MAGIC = b"ARROW1"
# How messages of a stream begin, and how it ends; streams of Arrow 0.14 and before have no such beginning.
_CONTINUATION, _LENGTH_0 = b"\xff" * 4, b"\0" * 4


def _schema(file: Location) -> Header:
    with file.open() as stream:
        return Header(_reader(stream)[0].schema)


def _parts(file: Location, header: Header) -> list[FilePart]:
    """The batches and their rows; of a stream all together."""
    from pyarrow import types

    # One column, so that others need not be decompressed; of numbers if there is one.
    numbers = [number for number, kind in enumerate(header.schema.types) if types.is_primitive(kind)]
    with file.open() as stream:
        reader, is_indexed = _reader(stream, [*numbers, 0][:1])
        if not is_indexed:
            rows = sum(batch.num_rows for batch in reader)
            _check_end(stream)
            return [FilePart(None, rows)]
        return [FilePart(number, reader.get_batch(number).num_rows) for number in range(reader.num_record_batches)]


def _load(file: Location, layout: None, places: Sequence[int | None], columns: Mapping[str, Any]) -> Any:
    import pyarrow

    with file.open() as stream:
        schema = _reader(stream)[0].schema
        reader, is_indexed = _reader(stream, [schema.get_field_index(name) for name in columns])
        if is_indexed:
            table = pyarrow.Table.from_batches([reader.get_batch(number) for number in places])
        else:
            table = reader.read_all()
            _check_end(stream)
        # Lengths and offsets are those of the file: beyond its buffers is the memory of this process.
        table.validate(full=True)
        return table.select([*columns])


def _check_end(stream: Any) -> None:
    """Raise ValueError unless a stream that was read ends in its mark, and the file there: Arrow takes any end."""
    end = stream.tell()
    stream.seek(0)
    mark = (_CONTINUATION if stream.read(len(_CONTINUATION)) == _CONTINUATION else b"") + _LENGTH_0
    stream.seek(max(0, end - len(mark)))
    if stream.read(len(mark)) != mark:
        raise ValueError(
            "the stream has no end-of-stream mark, so it was cut off between two batches, or its writer was not "
            "closed; write it again"
        )
    if stream.read(1):
        raise ValueError(
            "there is data after the end of the stream; write all batches to one stream, or to several files"
        )


def _reader(stream: Any, columns: Sequence[int] | None = None) -> tuple[Any, bool]:
    """The file from its beginning, and whether batches can be read one by one."""
    import pyarrow.ipc

    stream.seek(0)
    is_indexed = stream.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    stream.seek(0)
    options = pyarrow.ipc.IpcReadOptions(included_fields=None if columns is None else [*columns])
    opened = pyarrow.ipc.open_file if is_indexed else pyarrow.ipc.open_stream
    return opened(stream, options=options), is_indexed


ARROW = ColumnReader("Arrow", _schema, _parts, _load, "record batch {}", (".arrow", ".arrows", ".feather", ".ipc"))
