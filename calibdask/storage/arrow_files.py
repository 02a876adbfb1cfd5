"""Arrow: the IPC format of files, or Feather, in record batches; that of streams at once."""

from collections.abc import Mapping, Sequence
from typing import Any

from calibdask.storage.column_reader import ColumnReader, FilePart, Header
from calibdask.storage.location import Location

_FILE_MAGIC = b"ARROW1"


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
            return [FilePart(None, sum(batch.num_rows for batch in reader))]
        return [FilePart(number, reader.get_batch(number).num_rows) for number in range(reader.num_record_batches)]


def _load(file: Location, layout: None, places: Sequence[int | None], columns: Mapping[str, Any]) -> Any:
    import pyarrow

    with file.open() as stream:
        schema = _reader(stream)[0].schema
        reader, is_indexed = _reader(stream, [schema.get_field_index(name) for name in columns])
        table = (
            pyarrow.Table.from_batches([reader.get_batch(number) for number in places])
            if is_indexed
            else reader.read_all()
        )
        # Lengths and offsets are those of the file: beyond its buffers is the memory of this process.
        table.validate(full=True)
        return table.select([*columns])


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
