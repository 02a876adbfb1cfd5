"""JSON Lines: an object in each line, in blocks of whole lines; of compressed files at once."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from calibdask.safe_text import check_unicode, visible
from calibdask.storage.column_reader import ColumnReader, FilePart, Header
from calibdask.storage.column_types import common_type
from calibdask.storage.compressed_files import compression_of, opened
from calibdask.storage.csv_rows import row_blocks
from calibdask.storage.location import Location
from calibdask.storage.text_types import Kinds, kinds_of, time_type_of

_BLOCK_BYTES = 64 << 20
# One object must fit into a block of Arrow's own.
_LINES_BYTES = 16 << 20
# Arrow's parser calls itself for each level, and the process would end where the stack does.
_MOST_DEPTH = 64
# How each sign changes the depth, and the signs that have nothing to do with it.
_QUOTE, _LINE_END = b'"\n'
_STEPS = np.zeros(256, np.int8)
_STEPS[[*b"[{"]], _STEPS[[*b"]}"]] = 1, -1
_OTHERS = bytes({*range(256)} - {*b'[]{}"\n'})

_Place = tuple[int, int] | None


class _Block(NamedTuple):
    """Types of keys in a block, the kinds of those texts that look like times, rows, and keys that some rows lack."""

    types: dict[str, Any]
    times: dict[str, Kinds]
    rows: int
    missing: set[str]


def _schema(file: Location) -> Header:
    """The keys of all lines: any of them may come first in the last one."""
    import pyarrow

    places = _places(file)
    blocks: list[_Block] = []
    for place in places:
        blocks.append(_inferred(_text(file, place), sum(block.rows for block in blocks)))
    parts = [FilePart(place, block.rows) for place, block in zip(places, blocks, strict=True)]
    names = list(dict.fromkeys(name for block in blocks for name in block.types))
    missing = {name for name in names if any(name not in block.types or name in block.missing for block in blocks)}
    return Header(pyarrow.schema([(name, _common(name, blocks)) for name in names]), details=(parts, missing))


def _parts(file: Location, header: Header) -> Sequence[FilePart]:
    parts: Sequence[FilePart] = header.details[0]
    return parts


def _has_missing(header: Header, name: str) -> bool:
    return name in header.details[1]


def _load(file: Location, layout: None, places: Sequence[_Place], columns: Mapping[str, Any]) -> Any:
    import pyarrow

    schema = _schema(file).schema if None in columns.values() else None
    types = {name: schema.field(name).type if kind is None and schema else kind for name, kind in columns.items()}
    types = {name: JSON_LINES.loaded_type(kind) for name, kind in types.items()}
    return pyarrow.concat_tables([_typed(_text(file, place), types) for place in places]).select([*columns])


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


def _typed(text: bytes, types: Mapping[str, Any]) -> Any:
    """The objects as a table with these types; numbers read as text keep their spelling."""
    import pyarrow

    try:
        return _read(text, types)
    except pyarrow.ArrowInvalid as error:
        texts = [name for name, kind in types.items() if pyarrow.types.is_string(kind)]
        if not texts or "changed from" not in str(error):
            raise
    # Every literal but a text is kept as it is written.
    reading = partial(json.loads, parse_int=str, parse_float=str, parse_constant=str)
    rows = [reading(line) for line in text.splitlines() if line.strip()]
    table = _read(text, {name: kind for name, kind in types.items() if name not in texts})
    for name in texts:
        values = [
            value if isinstance(value, str | None) else json.dumps(value) for value in (r.get(name) for r in rows)
        ]
        table = table.append_column(name, pyarrow.chunked_array([values], pyarrow.string()))
    return table


def _inferred(text: bytes, first_row: int) -> _Block:
    """The types of all keys in a text, and what else a block is known by; ``first_row`` counts the rows before it."""
    import pyarrow
    from pyarrow import types

    if text.lstrip()[:1] == b"[":
        raise ValueError(
            "it is a single JSON array, but one object per line is expected; convert it, for example by jq -c '.[]'."
        )
    _check_depth(text)
    try:
        table = _read(text)
    except pyarrow.ArrowInvalid as error:
        if "surrogate" in str(error):
            _check_unicode(text, first_row)
        if "changed from" not in str(error):
            raise
    else:
        if times := [name for name in table.column_names if types.is_timestamp(table.field(name).type)]:
            texts = _read(text, dict.fromkeys(times, pyarrow.string()))
            for name in times:
                table = table.set_column(table.column_names.index(name), name, texts.column(name))
        return _block({name: table.column(name) for name in table.column_names}, table.num_rows)
    # Values of one key have several types, which must not make the others unreadable.
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = {name: [row.get(name) for row in rows] for name in names}
    block = _block({name: column for name in names if (column := _column(values[name])) is not None}, len(rows))
    kinds = {name: block.types.get(name, _mixed()) for name in names}
    return block._replace(types=kinds, missing={name for name in names if None in values[name]})


def _check_unicode(text: bytes, first_row: int) -> None:
    r"""Raise ValueError for the first text with half of a character, naming the key and the row.

    Examples
    --------
    >>> _check_unicode(b'{"city": "Bern"}\n{"city": ["Basel", "\\ud800"]}', 10)
    Traceback (most recent call last):
    ValueError: column 'city' expects texts of whole characters, got '\ud800' in row 11 with a lone surrogate, which
    cannot be written as UTF-8; read the texts again in the encoding in which they were written.
    """
    lines = (line for line in text.splitlines() if line.strip())
    for number, line in enumerate(lines, first_row):
        if b"\\u" not in line:
            continue
        for name, value in json.loads(line).items():
            in_row = partial(_in_row, number)
            check_unicode("Each name of a column", [name], in_row)
            check_unicode(f"column {visible(name)!r}", _texts(value), in_row)


def _in_row(number: int, position: int) -> str:
    return f" in row {number:,}"


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        for part in parts:
            yield from _texts(part)


def _check_depth(text: bytes) -> None:
    """Raise ValueError for objects that are nested too deeply; texts never go on in the next line.

    Examples
    --------
    >>> _check_depth(b'{"text": "' + b"[" * 100 + b'"}')
    >>> _check_depth(b'{"x": ' + b"[" * 100 + b"]" * 100 + b"}")
    Traceback (most recent call last):
    ValueError: it is nested more than 64 levels deep
    """
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Of texts without such signs two quotation marks are left, one behind the other.
    marks = np.frombuffer(text.translate(None, _OTHERS).replace(b'""', b""), np.uint8)
    before = np.cumsum(marks == _QUOTE)
    line_ends = np.flatnonzero(marks == _LINE_END)
    earlier = np.concatenate([[0], before[line_ends]])
    in_line = before - np.repeat(earlier, np.diff(np.concatenate([[0], line_ends, [marks.size]])))
    depth = np.cumsum(np.where(in_line % 2 == 0, _STEPS[marks], 0), dtype=np.int64)
    # Whatever was closed that had not been opened: a parser may begin at any line.
    if (depth - np.minimum.accumulate(np.minimum(depth, 0))).max(initial=0) > _MOST_DEPTH:
        raise ValueError(f"it is nested more than {_MOST_DEPTH} levels deep")


def _block(columns: Mapping[str, Any], rows: int) -> _Block:
    from pyarrow import types

    kinds = {name: column.type for name, column in columns.items()}
    missing = {name for name, column in columns.items() if column.null_count}
    texts = [name for name, kind in kinds.items() if types.is_string(kind) and _begins_as_time(columns[name])]
    return _Block(kinds, {name: kinds_of(columns[name]) for name in texts}, rows, missing)


def _begins_as_time(texts: Any) -> bool:
    """Whether the first text may be a time: kinds of others are not worth finding."""
    first = texts.drop_null().slice(0, 1).to_pylist()
    return bool(first) and re.match(r"\d{4}-\d\d-\d\d", first[0]) is not None


def _column(values: list[Any]) -> Any:
    """An array of the values; None if they have several types."""
    import pyarrow

    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return None


def _common(name: str, blocks: Sequence[_Block]) -> Any:
    """The type of a key in all blocks; texts that look like times are so only where all do."""
    import pyarrow
    from pyarrow import types

    own = [block for block in blocks if name in block.types]
    given = [block.types[name] for block in own]
    are_texts = [types.is_string(kind) for kind in given]
    if any(are_texts) and all(text or types.is_null(kind) for text, kind in zip(are_texts, given, strict=True)):
        texts = [block for block, is_text in zip(own, are_texts, strict=True) if is_text]
        if not all(name in block.times for block in texts):
            return pyarrow.string()
        return time_type_of(frozenset[str]().union(*(block.times[name] for block in texts)))
    common = common_type(given)
    return _mixed() if common is None else common


def _mixed() -> Any:
    """The type of values of several types, which is that of no column that can be read."""
    import pyarrow

    return pyarrow.dense_union([pyarrow.field("number", pyarrow.float64()), pyarrow.field("text", pyarrow.string())])


JSON_LINES = ColumnReader(
    "JSON Lines",
    _schema,
    _parts,
    _load,
    "block from byte {0[0]}",
    (".jsonl", ".ndjson"),
    has_times=False,
    has_missing=_has_missing,
)
