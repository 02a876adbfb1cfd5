"""JSON Lines: an object in each line, in blocks of whole lines; of compressed files at once."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from calibdask.storage.column_reader import ColumnReader, Header, Part
from calibdask.storage.column_types import common_type
from calibdask.storage.compressed_files import compression_of, opened
from calibdask.storage.csv_rows import row_blocks
from calibdask.storage.location import Location

_BLOCK_BYTES = 64 << 20
# One object must fit into a block of Arrow's own.
_LINES_BYTES = 16 << 20

_Place = tuple[int, int] | None


def _schema(file: Location) -> Header:
    """The keys of all lines: any of them may come first in the last one."""
    import pyarrow

    schemas: list[Any] = []
    parts: list[Part] = []
    missing: set[str] = set()
    for place in _places(file):
        schema, rows, missing_here = _inferred(_text(file, place))
        schemas.append(schema)
        parts.append(Part(place, rows))
        missing |= missing_here
    names = list(dict.fromkeys(name for schema in schemas for name in schema.names))
    kinds = {name: [schema.field(name).type for schema in schemas if name in schema.names] for name in names}
    missing |= {name for name, given in kinds.items() if len(given) < len(schemas)}
    return Header(pyarrow.schema([(name, _common(given)) for name, given in kinds.items()]), details=(parts, missing))


def _parts(file: Location, header: Header) -> Sequence[Part]:
    parts: Sequence[Part] = header.details[0]
    return parts


def _has_missing(header: Header, name: str) -> bool:
    return name in header.details[1]


def _load(file: Location, layout: None, places: Sequence[_Place], columns: Mapping[str, Any]) -> Any:
    import pyarrow

    schema = _schema(file).schema if None in columns.values() else None
    types = {name: schema.field(name).type if kind is None and schema else kind for name, kind in columns.items()}
    return pyarrow.concat_tables([_read(_text(file, place), types) for place in places]).select([*columns])


def _places(file: Location) -> list[_Place]:
    if compression_of(file) is not None:
        return [None]
    size = file.fs.size(file.path)
    with file.open() as stream:
        return list(row_blocks(stream, 0, size, _BLOCK_BYTES, None))


def _text(file: Location, place: _Place) -> bytes:
    with opened(file) as stream:
        if place is None:
            return bytes(stream.read())
        stream.seek(place[0])
        return bytes(stream.read(place[1]))


def _read(text: bytes, types: Mapping[str, Any] | None = None) -> Any:
    """The objects as a table; without types of all keys, with the types that their values have."""
    import pyarrow
    from pyarrow import json as arrow

    if not text.strip():
        return pyarrow.table({name: pyarrow.array([], kind) for name, kind in (types or {}).items()})
    parsing = (
        arrow.ParseOptions()
        if types is None
        else arrow.ParseOptions(explicit_schema=pyarrow.schema([*types.items()]), unexpected_field_behavior="ignore")
    )
    reading = arrow.ReadOptions(block_size=max(_LINES_BYTES, len(text) // 4))
    return arrow.read_json(pyarrow.BufferReader(text), reading, parsing)


def _inferred(text: bytes) -> tuple[Any, int, set[str]]:
    """The types of all keys in a text, its rows, and the keys that some of them lack."""
    import pyarrow

    if text.lstrip()[:1] == b"[":
        raise ValueError(
            "it is one JSON array, where an object in each line is expected; convert it, for example by jq -c '.[]'."
        )
    try:
        table = _read(text)
        missing = {name for name in table.column_names if table.column(name).null_count}
        return table.schema, table.num_rows, missing
    except pyarrow.ArrowInvalid as error:
        if "changed from" not in str(error):
            raise
    # Values of one key have several types, which must not make the others unreadable.
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    missing = {name for name in names if any(row.get(name) is None for row in rows)}
    return pyarrow.schema([(name, _type_of([row.get(name) for row in rows])) for name in names]), len(rows), missing


def _type_of(values: list[Any]) -> Any:
    import pyarrow

    try:
        return pyarrow.array(values).type
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return _mixed()


def _common(kinds: Sequence[Any]) -> Any:
    """The type of a key in all blocks; texts that look like times are so only where all do."""
    import pyarrow
    from pyarrow import types

    if any(map(types.is_string, kinds)):
        kinds = [pyarrow.string() if types.is_timestamp(kind) else kind for kind in kinds]
    common = common_type(kinds)
    return _mixed() if common is None else common


def _mixed() -> Any:
    """The type of values of several types, which is that of no column that can be read."""
    import pyarrow

    return pyarrow.dense_union([pyarrow.field("number", pyarrow.float64()), pyarrow.field("text", pyarrow.string())])


JSON_LINES = ColumnReader(
    "JSON Lines", _schema, _parts, _load, "block from byte {0[0]}", (".jsonl", ".ndjson"), has_missing=_has_missing
)
