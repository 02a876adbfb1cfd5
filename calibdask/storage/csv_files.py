"""CSV: rows of texts, in blocks of whole rows; of compressed files at once."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from calibdask.storage.column_reader import ColumnReader, FilePart, Header
from calibdask.storage.compressed_files import compression_of, opened
from calibdask.storage.csv_rows import check_closed, header_of, row_blocks
from calibdask.storage.location import Location

# Files of this size in all are read at once, larger ones in blocks of this size.
_CSV_BLOCK_BYTES = 64 << 20
# A header is looked for in pieces of this size.
_CSV_SAMPLE_BYTES = 1 << 20
_DECIMAL = r"-?\d*\.\d+(e-?\d+)?"


class _Layout(NamedTuple):
    """All columns, the separator, and the position of the first row."""

    names: tuple[str, ...]
    separator: str
    start: int


# Where whole rows begin, and how many bytes they take; None: all rows.
_Place = tuple[int, int] | None


def _schema(file: Location) -> Header:
    import pyarrow

    with opened(file) as stream:
        try:
            separator = "\t" if ".tsv" in file.named.lower().rpartition("/")[2] else None
            header = header_of(stream.read, _CSV_SAMPLE_BYTES, separator)
        except UnicodeDecodeError as error:
            raise _not_utf8() from error
    layout = _Layout(tuple(header.names), header.separator, header.end)
    return Header(pyarrow.schema([(name, pyarrow.null()) for name in header.names]), layout)


def _parts(file: Location, header: Header) -> list[FilePart]:
    if compression_of(file) is not None:
        return [FilePart(None)]
    size, layout = file.fs.size(file.path), header.layout
    if size <= _CSV_BLOCK_BYTES:
        return [FilePart(None, share=size / _CSV_BLOCK_BYTES)]
    with file.open() as stream:
        blocks = row_blocks(stream, layout.start, size, _CSV_BLOCK_BYTES, layout.separator)
        return [FilePart(block, share=1.0) for block in blocks]


def _load(file: Location, layout: _Layout, places: Sequence[_Place], columns: Mapping[str, Any]) -> Any:
    import pyarrow

    return pyarrow.concat_tables([_table(file, layout, place, columns) for place in places])


def _table(file: Location, layout: _Layout, place: _Place, columns: Mapping[str, Any]) -> Any:
    """The rows of a block; columns of types that are not given are texts."""
    with opened(file) as stream:
        if place is None:
            text = stream.read()[layout.start :]
            check_closed(text, layout.separator, layout.start)
        else:
            stream.seek(place[0])
            text = stream.read(place[1])
    return _parsed(file, layout, place, text, columns)


def _parsed(file: Location, layout: _Layout, place: _Place, text: bytes, columns: Mapping[str, Any]) -> Any:
    """An Arrow table of the columns. Arrow refuses rows with too many or too few fields, where others guess."""
    import pyarrow
    from pyarrow import compute
    from pyarrow import csv as arrow

    types = {name: pyarrow.string() if kind is None else kind for name, kind in columns.items()}
    if not text.strip():
        return pyarrow.table({name: pyarrow.array([], kind) for name, kind in types.items()})
    # Columns of the same name, which nobody asked for, would make the file unreadable.
    names = [name if name in columns else f"column {number}" for number, name in enumerate(layout.names)]

    def read(types: Mapping[str, Any]) -> Any:
        # A table without columns has no rows.
        included = [*types] or names[:1]
        return arrow.read_csv(
            pyarrow.BufferReader(text),
            # Blocks are on threads of their own.
            read_options=arrow.ReadOptions(column_names=names, use_threads=place is None),
            parse_options=arrow.ParseOptions(delimiter=layout.separator, newlines_in_values=b'"' in text),
            convert_options=arrow.ConvertOptions(include_columns=included, column_types=types),
        )

    try:
        table = read(types)
    except pyarrow.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            raise _not_utf8() from error
        match = re.search(
            r"column #(\d+): (?:Row #\d+: )?CSV (conversion error to .*: invalid value '(.*)')", str(error), re.DOTALL
        )
        if match is None:
            raise
        name = names[int(match[1])]
        row = read({name: pyarrow.string()}).column(name).index(match[3]).as_py()
        raise _no_number(file, layout, place, name, row, match[2], match[3]) from error
    # An empty text is a missing one, as in Parquet.
    settled = {
        name: compute.if_else(compute.equal(table.column(name), ""), pyarrow.scalar(None, kind), table.column(name))
        if pyarrow.types.is_string(kind)
        else table.column(name)
        for name, kind in types.items()
    }
    return pyarrow.table(settled) if settled else table.select([])


def _no_number(
    file: Location, layout: _Layout, place: _Place, name: str, row: int, reason: str, value: str
) -> ValueError:
    """The error about a text among numbers, with its row and how to go on."""
    where = f"row {row}"
    if place is not None:
        with file.open() as stream:
            stream.seek(layout.start)
            left, breaks = place[0] - layout.start, 0
            while left > 0 and (text := stream.read(min(left, 1 << 24))):
                left, breaks = left - len(text), breaks + text.count(b"\n")
        # Texts that hold line breaks would make it another row; lines are what editors show.
        where = f"about line {breaks + row + 2:,}"
    other = "; correct it, or name another column by --label, --score or --weight (label=, score=, weight=)"
    return ValueError(f"column {name!r} expects numbers, {where}: {reason}{_rewriting(value)}{other}")


def _rewriting(value: str) -> str:
    """How a number that is written otherwise is to be written."""
    if re.fullmatch(r"-?[1-9]\d{0,2}(,\d{3})+(\.\d+)?", value):
        return "; write numbers without separators of thousands, and decimal commas as points"
    if re.fullmatch(r"-?\d*,\d+", value):
        return "; write decimal commas as points"
    return "; write percentages as fractions of 1, without the sign" if value.endswith("%") else ""


def _not_utf8() -> ValueError:
    return ValueError("its text is not UTF-8, the encoding expected; convert it, for example by iconv.")


def _without_names(names: Sequence[str]) -> str:
    """Description of the fault of a file whose first line has no column names."""
    if names and names[0].startswith(("#", "%")):
        return "begins with a comment, where names of columns are expected; delete the lines before the names."
    if not any(re.fullmatch(_DECIMAL, name, re.IGNORECASE) for name in names):
        return ""
    return (
        f"begins with values, {', '.join(names[:3])}, where names of columns are expected; add a first line such as "
        "label,score."
    )


CSV = ColumnReader(
    "CSV",
    _schema,
    _parts,
    _load,
    "block from byte {0[0]}",
    (".csv", ".tsv"),
    has_types=False,
    has_times=False,
    hint=_without_names,
)
