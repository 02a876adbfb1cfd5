"""Readers for files that hold columns: Parquet and CSV. Only the columns asked for are read, each block once a pass."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from fsspec.compression import compr
from fsspec.utils import read_block

from calibdask.errors import Unavailable
from calibdask.storage.array_files import TARGET_BYTES, block_rows
from calibdask.storage.location import ColumnChoice, Location, missing, read_error
from calibdask.storage.retry import with_retries

__all__ = ["read_csv", "read_parquet", "score_columns"]

# A CSV file up to this size is read at once, a larger one in blocks of this size.
_CSV_BLOCK_BYTES = 64 << 20
# The types of a large CSV file's columns are taken from about so much at its beginning.
_CSV_SAMPLE_BYTES = 1 << 20
_LONGEST_LINE = 1 << 24
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}

_Columns = dict[str, Any]


def score_columns(there: Iterable[str], score: str, url: str) -> tuple[str, ...]:
    """The columns that hold the scores, in the order of the classes.

    Examples
    --------
    >>> score_columns(["score_0", "score_10", "score_1", "label"], "score", "rows.csv")
    Traceback (most recent call last):
    ValueError: rows.csv: score columns expect the numbers 0, 1, 2, ... without gaps, got score_0, score_1, score_10.
    """
    names = list(there)
    matches = [(re.fullmatch(rf"{re.escape(score)}_(\d+)", name), name) for name in names]
    numbered = sorted((int(match[1]), name) for match, name in matches if match)
    listed = ", ".join(name for _, name in numbered[:20]) + (", ..." if len(numbered) > 20 else "")
    if score in names:
        if numbered:
            raise ValueError(
                f"{url} has both {score!r} and {listed}; drop one of the two, or name the scores otherwise."
            )
        return (score,)
    if not numbered:
        raise ValueError(
            f"{url} has neither a column {score!r} nor columns {score}_0, {score}_1, ...; it has {', '.join(names)}."
        )
    if [number for number, _ in numbered] != list(range(len(numbered))):
        raise ValueError(f"{url}: score columns expect the numbers 0, 1, 2, ... without gaps, got {listed}.")
    if len(numbered) == 1:
        raise ValueError(f"{url} has scores of one class only, {listed}; call the column of P(y = 1) {score!r}.")
    return tuple(name for _, name in numbered)


@dataclass(frozen=True)
class _Names:
    """Columns to read."""

    label: str
    scores: tuple[str, ...]
    further: tuple[str, ...]

    @property
    def all(self) -> list[str]:
        return list(dict.fromkeys((self.label, *self.scores, *self.further)))


def _names(location: Location, choice: ColumnChoice, there: Sequence[str]) -> _Names:
    label = choice.label or "label"
    for name in (label, *choice.further):
        if name not in there:
            raise missing(location, "column", name, there)
    return _Names(label, score_columns(there, choice.score or "score", location.url), choice.further)


def _stacked(columns: _Columns, names: tuple[str, ...]) -> np.ndarray:
    """Scores (n,) of one column, (n, K) of several."""
    return columns[names[0]] if len(names) == 1 else np.stack([columns[name] for name in names], axis=1)


def _lazy(
    choice: ColumnChoice,
    names: _Names,
    types: Mapping[str, Any],
    parts: Sequence[Any],
    sizes: Sequence[float],
    load: Any,
) -> dict[str, Any]:
    """Dask arrays of columns; ``load(part)`` reads the columns of a block, once for all of them."""
    import dask.array as da
    from dask.layers import ArrayValuesDep

    values = np.empty(len(parts), object)
    values[:] = parts
    chunks = (tuple(sizes),)
    blocks = da.blockwise(
        partial(_packed, load),
        "n",
        ArrayValuesDep(chunks, values),  # type: ignore[arg-type]  # unknown sizes are nan
        "n",
        dtype=object,
        meta=np.empty(0, object),
        # Nothing to align with: there is no array but this.
        align_arrays=False,
    )

    def column(name: str) -> Any:
        return blocks.map_blocks(_column, name, dtype=types[name], meta=np.empty(0, types[name]))

    if len(names.scores) == 1:
        scores = column(names.scores[0])
    else:
        dtype = np.result_type(*(types[name] for name in names.scores))
        scores = blocks.map_blocks(
            _score_block,
            names.scores,
            dtype=dtype,
            new_axis=1,
            chunks=(*chunks, (len(names.scores),)),
            meta=np.empty((0, 0), dtype),
        )
    return choice.collect(column(names.label), scores, column)


def _packed(load: Callable[[Any], _Columns], part: Any) -> np.ndarray:
    from calibdask.engine.sources.reduction import packed

    return packed(load(part), 1)


def _column(packed: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(packed.item()[name])


def _score_block(packed: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    return _stacked(packed.item(), names)


# Parquet


def read_parquet(location: Location, choice: ColumnChoice) -> dict[str, Any]:
    """Columns of a Parquet file or of a folder of them (names like ``day=1`` of folders are columns too), lazily."""
    import pyarrow.dataset

    with location.reading("Parquet"):
        dataset = pyarrow.dataset.dataset(
            location.path, format="parquet", filesystem=location.fs, partitioning="hive", exclude_invalid_files=False
        )
        if not dataset.files:
            raise ValueError("the folder holds no files.")
        groups = [group for file in dataset.get_fragments() for group in file.split_by_row_group()]
        rows = [sum(group.num_rows for group in part.row_groups) for part in groups]
    names = _names(location, choice, dataset.schema.names)
    types = {name: _dtype(dataset.schema.field(name).type) for name in names.all}
    for name in (names.label, *names.scores, *(() if choice.weight is None else (choice.weight,))):
        if types[name].kind not in "fiub":
            raise ValueError(
                f"{location.url}: column {name!r} expects numbers, got {dataset.schema.field(name).type}"
                + ("; one column for each class is called score_0, score_1, ..." if name in names.scores else "")
                + "."
            )
    row_bytes = sum(types[name].itemsize for name in names.all)
    parts, sizes = _together(groups, rows, row_bytes, choice.chunk_rows)
    load = partial(_load_row_groups, location.url, dataset.schema, tuple(names.all))
    if not parts:
        return choice.collect(np.empty(0), np.empty(0), lambda name: np.empty(0, types[name]))
    if len(parts) == 1 and sizes[0] * row_bytes <= TARGET_BYTES and choice.chunk_rows is None:
        # One small block: importing Dask would take longer than all the rest.
        columns = load(parts[0])
        return choice.collect(columns[names.label], _stacked(columns, names.scores), columns.__getitem__)
    return _lazy(choice, names, types, parts, sizes, load)


def _dtype(given: Any) -> np.dtype[Any]:
    """The NumPy type of a column; object for what NumPy has no type for."""
    import pyarrow

    if pyarrow.types.is_dictionary(given):
        return _dtype(given.value_type)
    dtype: np.dtype[Any] = pyarrow.chunked_array([], type=given).to_numpy().dtype
    return dtype


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


def _load_row_groups(url: str, schema: Any, names: tuple[str, ...], groups: list[Any]) -> _Columns:
    import pyarrow

    try:
        tables = [with_retries(partial(group.to_table, schema=schema, columns=list(names))) for group in groups]
        table = pyarrow.concat_tables(tables)
        return {name: _numpy(table.column(name)) for name in names}
    except Unavailable:
        raise
    except Exception as error:
        raise read_error(url, error, f"Parquet, {groups[0].path}") from error


def _numpy(column: Any) -> np.ndarray:
    """A column as NumPy array; numbers that are missing become NaN."""
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_boolean(column.type) and column.null_count:
        column = column.cast(pyarrow.int8())
    return np.asarray(column.to_numpy())


# CSV


def read_csv(location: Location, choice: ColumnChoice) -> dict[str, Any]:
    """Columns of a CSV file with a header: small or compressed files in memory, others block by block, lazily.

    In blocks a line break ends a row, so texts must not contain any.
    """
    compression = _COMPRESSIONS.get("." + location.path.rpartition(".")[2].lower())
    with location.reading("CSV"), _opened(location, compression) as file:
        header = file.readline(_LONGEST_LINE)
        try:
            there = next(csv.reader([header.decode("utf-8-sig")]), [])
        except UnicodeDecodeError as error:
            raise _not_utf8() from error
        if not there:
            raise ValueError("it is empty.")
        size = location.fs.size(location.path)
        in_memory = compression is not None or size is None or size <= _CSV_BLOCK_BYTES
        # A block begins after the first line break in it: the first one with that of the header.
        start = len(header) - 1
        text = file.read() if in_memory else read_block(file, start, _CSV_SAMPLE_BYTES, delimiter=b"\n")
    twice = [name for name, count in Counter(there).items() if count > 1]
    if twice:
        raise ValueError(f"{location.url} has several columns called {', '.join(map(repr, twice))}; rename them.")
    names = _names(location, choice, there)
    numbers = dict.fromkeys((*names.scores, *(() if choice.weight is None else (choice.weight,))), "double")
    with location.reading("CSV"):
        table = _parsed(text, there, names.all, numbers)
    if in_memory:
        columns = {name: _csv_numpy(table.column(name)) for name in names.all}
        return choice.collect(columns[names.label], _stacked(columns, names.scores), columns.__getitem__)
    types = {name: str(table.schema.field(name).type) for name in names.all}
    # What the first rows leave open, later ones may say.
    types = {name: "string" if given == "null" else given for name, given in types.items()}
    parts = [(offset, _CSV_BLOCK_BYTES) for offset in range(start, size, _CSV_BLOCK_BYTES)]
    load = partial(_load_csv_block, location, tuple(there), types, tuple(names.all))
    dtypes = {name: _dtype(table.schema.field(name).type) for name in names.all}
    return _lazy(choice, names, dtypes, parts, [np.nan] * len(parts), load)


def _opened(location: Location, compression: str | None) -> Any:
    if compression is None:
        return location.open()
    if compression not in compr:
        raise ValueError(f"{compression} files expect the package zstandard; install it, or decompress the file.")
    return compr[compression](location.open(), mode="rb")


def _load_csv_block(
    location: Location,
    there: tuple[str, ...],
    types: Mapping[str, str],
    names: tuple[str, ...],
    part: tuple[int, int],
) -> _Columns:
    """Rows that begin in a block of the file."""
    offset, length = part
    try:
        with location.open() as file:
            text = read_block(file, offset, length, delimiter=b"\n")
        table = _parsed(text, there, names, types, alone=False)
        return {name: _csv_numpy(table.column(name)) for name in names}
    except Exception as error:
        raise read_error(location.url, error, f"CSV, block from byte {offset}") from error


def _parsed(
    text: bytes, there: Sequence[str], names: Sequence[str], types: Mapping[str, str], *, alone: bool = True
) -> Any:
    """An Arrow table of the columns. Arrow refuses rows with too many or too few fields, where others guess."""
    import pyarrow
    from pyarrow import csv as arrow

    known = {name: pyarrow.type_for_alias(given) for name, given in types.items()}
    if not text.strip():
        return pyarrow.table({name: pyarrow.array([], known.get(name, pyarrow.float64())) for name in names})

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Any:
        return arrow.read_csv(
            pyarrow.BufferReader(text),
            # Blocks are on threads of their own.
            read_options=arrow.ReadOptions(column_names=list(there), use_threads=alone),
            parse_options=arrow.ParseOptions(newlines_in_values=alone),
            convert_options=arrow.ConvertOptions(include_columns=list(columns), column_types=types),
        )

    try:
        table = read(names, known)
    except pyarrow.ArrowInvalid as error:
        if "invalid UTF8" in str(error):
            raise _not_utf8() from error
        match = re.search(r"column #(\d+): CSV (conversion error to .*: invalid value '(.*)')", str(error), re.DOTALL)
        if match is None:
            raise
        name = there[int(match[1])]
        # In a block the number of the row is not known.
        row = f", row {read([name], {name: pyarrow.string()}).column(name).index(match[3]).as_py()}" if alone else ""
        raise ValueError(f"column {name!r} expects numbers{row}: {match[2]}") from error
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
    return _numpy(column)
