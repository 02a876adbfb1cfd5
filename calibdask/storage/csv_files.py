"""Readers for CSV files: small ones into memory, large ones block by block."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from zipfile import ZipFile

import numpy as np
from fsspec.compression import compr

from calibdask.errors import Unavailable
from calibdask.safe_text import listed
from calibdask.storage.arrow_columns import dtype_of, to_numpy
from calibdask.storage.arrow_parts import ArrowParts
from calibdask.storage.csv_rows import header_of, row_blocks, rows_end
from calibdask.storage.file_sets import FileSet, constant
from calibdask.storage.lazy_columns import Columns, collected, lazy_columns, names_in, score_names_in
from calibdask.storage.location import ColumnChoice, Location, read_error

# CSV files of this size in all are read at once, larger ones in blocks of this size.
_CSV_BLOCK_BYTES = 64 << 20
# The types of a large file's columns are taken from about so much at its beginning.
_CSV_SAMPLE_BYTES = 1 << 20
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}
# Beginnings of files that are read side by side.
_THREADS = 16


@dataclass(frozen=True)
class _Head:
    """What the beginning of a file says.

    Attributes
    ----------
    file : Location
    names : tuple of str
        All columns.
    start : int
        Where the first row begins.
    size : int or None
        Bytes of the file; None if it is compressed, or the size is not known.
    text : bytes
        Whole rows from the beginning on.
    partitions : mapping from name to value
        Columns that are in the names of folders.
    separator : str
        What is between fields.
    """

    file: Location
    names: tuple[str, ...]
    start: int
    size: int | None
    text: bytes
    partitions: dict[str, Any]
    separator: str = ","

    @property
    def is_small(self) -> bool:
        """Whether a block holds it."""
        return self.size is None or self.size <= _CSV_BLOCK_BYTES


# A file, the part of it that is read (all rows: None), and the types of the columns.
_Part = tuple[_Head, tuple[int, int] | None]


def read_csv(files: FileSet, choice: ColumnChoice) -> dict[str, Any]:
    """Columns of CSV files with headers: small or compressed ones in memory, others block by block, lazily."""
    import pyarrow

    if not files.paths:
        raise ValueError(f"{files.location.url} holds no files.")
    heads = _heads(files)
    first = heads[0]
    try:
        names = names_in(files.location, choice, [*first.names, *first.partitions])
    except ValueError as error:
        if not any(re.fullmatch(r"-?\d*\.\d+(e-?\d+)?", name, re.IGNORECASE) for name in first.names):
            raise
        raise ValueError(
            f"{first.file.url} begins with values, {', '.join(first.names[:3])}, where names of columns are expected; "
            "add a first line such as label,score."
        ) from error
    wanted = list(dict.fromkeys((*names.columns, *choice.further)))
    for head in heads:
        _check_header(head, wanted)
    numbers = dict.fromkeys((*names.scores, *(() if choice.weight is None else (choice.weight,))), pyarrow.float64())
    if _fit_in_memory(files, heads):
        tables = _tables(heads, wanted, numbers)
        parts = [{name: _csv_numpy(table.column(name)) for name in wanted} for table in tables]
        return collected(choice, names, {name: np.concatenate([part[name] for part in parts]) for name in wanted})
    types, blocks = _typed_blocks(files, heads, wanted, numbers)
    load = partial(_load, tuple(wanted), types)
    dtypes = {name: dtype_of(given) for name, given in types.items()}
    return lazy_columns(choice, names, dtypes, blocks, [np.nan] * len(blocks), load)


def csv_parts(files: FileSet, choice: ColumnChoice) -> ArrowParts:
    """All columns of CSV files: small ones in memory, others block by block."""
    import pyarrow

    if not files.paths:
        raise ValueError(f"{files.location.url} holds no files.")
    heads = _heads(files)
    wanted = [*heads[0].names, *heads[0].partitions]
    names = score_names_in(files.location, choice, wanted)
    numbers = dict.fromkeys(names.scores, pyarrow.float64())
    for head in heads:
        _check_header(head, wanted)
    if _fit_in_memory(files, heads):
        tables = _tables(heads, wanted, numbers)
        return ArrowParts(tables[0].select(wanted).schema, names, tables, lambda table: table.select(wanted))
    types, blocks = _typed_blocks(files, heads, wanted, numbers)
    schema = pyarrow.schema(list(types.items()))
    return ArrowParts(
        schema, names, blocks, lambda part: _table(part[0], part[1], wanted, types).select(wanted).cast(schema)
    )


def _fit_in_memory(files: FileSet, heads: Sequence[_Head]) -> bool:
    return sum(head.size or 0 for head in heads) <= _CSV_BLOCK_BYTES and (files.single or _few(heads))


def _tables(heads: Sequence[_Head], wanted: Sequence[str], numbers: Mapping[str, Any]) -> list[Any]:
    """All rows of each file, of types that all have."""
    tables = [_table(head, None, wanted, numbers) for head in heads]
    if len({tuple(table.select(wanted).schema.types) for table in tables}) == 1:
        return tables
    types = {name: _common_type([table.schema.field(name).type for table in tables]) for name in wanted}
    return [_table(head, None, wanted, types) for head in heads]


def _typed_blocks(
    files: FileSet, heads: Sequence[_Head], wanted: Sequence[str], numbers: Mapping[str, Any]
) -> tuple[dict[str, Any], list[_Part]]:
    """Types of columns by the first rows of each file, and blocks of whole rows."""
    with files.location.reading("CSV"):
        samples = [_sample(head, wanted, numbers) for head in heads]
        types = {name: _common_type([sample.schema.field(name).type for sample in samples]) for name in wanted}
        # Tasks travel without what is known already.
        return types, [(replace(head, text=b""), block) for head in heads for block in _blocks(head)]


def _few(heads: Sequence[_Head]) -> bool:
    """Whether the size of all is known: each compressed file is a block, if there are several."""
    return all(head.size is not None for head in heads)


def _heads(files: FileSet) -> list[_Head]:
    def head(number: int) -> _Head:
        path = files.paths[number]
        partitions = {name: values[number] for name, values in files.partitions.items()}
        return _head(files.member(path), partitions)

    if len(files.paths) == 1:
        return [head(0)]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(head, range(len(files.paths))))


def _head(file: Location, partitions: dict[str, Any]) -> _Head:
    compression = _compression(file)
    with file.reading("CSV"), _opened(file) as stream:
        try:
            separator = "\t" if ".tsv" in file.named.lower().rpartition("/")[2] else None
            header = header_of(stream.read, _CSV_SAMPLE_BYTES, separator)
        except UnicodeDecodeError as error:
            raise _not_utf8() from error
        size = None if compression is not None else file.fs.size(file.path)
    names = header.names
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{file.url} has several columns called {', '.join(map(repr, twice))}; rename them.")
    kept = {name: value for name, value in partitions.items() if name not in names}
    return _Head(file, tuple(names), header.end, size, header.text, kept, header.separator)


def _check_header(head: _Head, wanted: Sequence[str]) -> None:
    absent = [name for name in wanted if name not in (*head.names, *head.partitions)]
    if absent:
        raise ValueError(
            f"{head.file.url} has no column {absent[0]!r}, which the first file has; it has {listed(head.names)}."
        )


def _compression(file: Location) -> str | None:
    return _COMPRESSIONS.get("." + file.named.rpartition(".")[2].lower())


def _opened(file: Location) -> Any:
    compression = _compression(file)
    if compression is None:
        return file.open()
    if compression == "zstd":
        import pyarrow

        return pyarrow.CompressedInputStream(pyarrow.PythonFile(file.open(), "r"), "zstd")
    stream = file.open()
    if compression == "zip" and len(files := _packed_files(stream)) > 1:
        raise ValueError(f"the archive holds several files, {listed(files[:3])}; unpack it, and name the folder.")
    return compr[compression](stream, mode="rb")


def _packed_files(stream: Any) -> list[str]:
    """The files in an archive, without the marks that macOS adds."""
    with ZipFile(stream) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    stream.seek(0)
    return names


def _blocks(head: _Head) -> list[tuple[int, int] | None]:
    """Offsets and lengths of whole rows; None for all of them."""
    if head.is_small or head.size is None:
        return [None]
    with head.file.open() as stream:
        return list(row_blocks(stream, head.start, head.size, _CSV_BLOCK_BYTES, head.separator))


def _sample(head: _Head, wanted: Sequence[str], types: Mapping[str, Any]) -> Any:
    """The first rows as a table."""
    text = head.text[head.start :]
    ended = head.size is not None and len(head.text) >= head.size
    return _with_partitions(head, text if ended else text[: rows_end(text, head.separator)], wanted, types, alone=True)


def _table(head: _Head, block: tuple[int, int] | None, wanted: Sequence[str], types: Mapping[str, Any]) -> Any:
    """The rows of a file, or of a block of it, as a table."""
    place = "CSV" if block is None else f"CSV, block from byte {block[0]}"
    try:
        with _opened(head.file) as stream:
            if block is None:
                if head.size is not None and len(head.text) >= head.size:
                    text = head.text[head.start :]
                else:
                    text = stream.read()[head.start :]
            else:
                stream.seek(block[0])
                text = stream.read(block[1])
        return _with_partitions(head, text, wanted, types, alone=block is None)
    except Unavailable:
        raise
    except Exception as error:
        raise read_error(head.file, error, place) from error


def _with_partitions(head: _Head, text: bytes, wanted: Sequence[str], types: Mapping[str, Any], *, alone: bool) -> Any:
    import pyarrow

    inside = [name for name in wanted if name in head.names]
    known = {name: types[name] for name in inside if name in types}
    table = _parsed(text, head, inside, known, alone=alone)
    for name in wanted:
        if name in head.partitions:
            table = table.append_column(name, pyarrow.array(constant(head.partitions[name], table.num_rows)))
    return table


def _load(wanted: tuple[str, ...], types: Mapping[str, Any], part: _Part) -> Columns:
    """Columns of a block, with types that all blocks have."""
    table = _table(part[0], part[1], wanted, types)
    return {name: _csv_numpy(table.column(name)) for name in wanted}


def _common_type(given: Sequence[Any]) -> Any:
    """The type of a column in all files; what the first rows leave open, later ones may say."""
    import pyarrow
    from pyarrow import types

    distinct = list(dict.fromkeys(kind for kind in given if not types.is_null(kind)))
    if len(distinct) == 1:
        return distinct[0]
    if distinct and all(types.is_integer(kind) or types.is_floating(kind) for kind in distinct):
        return pyarrow.int64() if all(map(types.is_integer, distinct)) else pyarrow.float64()
    return pyarrow.string()


def _parsed(text: bytes, head: _Head, names: Sequence[str], types: Mapping[str, Any], *, alone: bool = True) -> Any:
    """An Arrow table of the columns. Arrow refuses rows with too many or too few fields, where others guess."""
    import pyarrow
    from pyarrow import csv as arrow

    if not text.strip():
        return pyarrow.table({name: pyarrow.array([], types.get(name, pyarrow.float64())) for name in names})

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Any:
        return arrow.read_csv(
            pyarrow.BufferReader(text),
            # Blocks are on threads of their own.
            read_options=arrow.ReadOptions(column_names=list(head.names), use_threads=alone),
            parse_options=arrow.ParseOptions(delimiter=head.separator, newlines_in_values=b'"' in text),
            convert_options=arrow.ConvertOptions(include_columns=list(columns), column_types=types),
        )

    try:
        table = read(names, types)
    except pyarrow.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            raise _not_utf8() from error
        match = re.search(r"column #(\d+): CSV (conversion error to .*: invalid value '(.*)')", str(error), re.DOTALL)
        if match is None:
            raise
        name = head.names[int(match[1])]
        # In a block the number of the row is not known.
        row = f", row {read([name], {name: pyarrow.string()}).column(name).index(match[3]).as_py()}" if alone else ""
        comma = "; write decimal commas as points" if re.fullmatch(r"-?\d+,\d+", match[3]) else ""
        raise ValueError(f"column {name!r} expects numbers{row}: {match[2]}{comma}") from error
    if any(pyarrow.types.is_binary(field.type) for field in table.schema):
        raise _not_utf8()
    return table


def _not_utf8() -> ValueError:
    return ValueError("its text is not UTF-8, the encoding expected; convert it, for example by iconv.")


def _csv_numpy(column: Any) -> np.ndarray:
    """A column as NumPy array; an empty text is a missing one, as in Parquet."""
    import pyarrow
    from pyarrow import compute

    if pyarrow.types.is_string(column.type):
        column = compute.if_else(compute.equal(column, ""), pyarrow.scalar(None, column.type), column)
    return to_numpy(column)
