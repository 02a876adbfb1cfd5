"""Columns of blocks, read from sections of files: as tables, arrays in memory or arrays of Dask."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from calibdask.errors import Damaged, Unavailable
from calibdask.safe_text import visible
from calibdask.storage.arrow_columns import to_numpy
from calibdask.storage.column_reader import ColumnReader
from calibdask.storage.column_types import converted, is_text, values_as, values_of
from calibdask.storage.columns import ColumnNames
from calibdask.storage.file_version import Version, check_version
from calibdask.storage.location import Location, read_error
from calibdask.storage.retry import with_retries
from calibdask.storage.row_table import ColumnChoice, RowTable

Columns = dict[str, Any]


@dataclass(frozen=True)
class PartRange:
    """Neighbouring parts of one file, which are read together; it can be sent to any worker, and opens nothing there.

    Attributes
    ----------
    file : Location
    version : Version
        Of the file when its parts were found.
    places : tuple
        Of the parts.
    layout : any
        As in the header.
    constants : mapping from name to value
        Columns in the names of its folders.
    absent : tuple of str
        Columns that other files have.
    """

    file: Location
    version: Version
    places: tuple[Any, ...]
    layout: Any = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    absent: tuple[str, ...] = ()


def load_section(reader: ColumnReader, types: Mapping[str, Any], section: PartRange) -> Any:
    """Columns of a section as a table of Arrow, of the types that are given; where they are None, as the file has them.

    Raises
    ------
    ValueError
        If the file cannot be read, is not any more what it was when its parts were found, or holds values that cannot
        be converted.
    """
    import pyarrow

    outside = {*section.constants, *section.absent}
    inside = {
        name: None if kind is None else reader.loaded_type(kind) for name, kind in types.items() if name not in outside
    }

    try:
        table = with_retries(partial(reader.load, section.file, section.layout, section.places, inside))
        rows = table.num_rows
        columns = {
            name: table.column(name)
            if name in inside
            else pyarrow.chunked_array([_constant(section.constants.get(name), rows, as_text=not reader.has_types)])
            for name in types
        }
        columns = {
            name: column if types[name] is None else converted(column, types[name]) for name, column in columns.items()
        }
        check_version(section.file, section.version)
        return pyarrow.table(columns)
    except (Damaged, Unavailable):
        raise
    except Exception as error:
        # Of a file that is another now, errors say nothing.
        check_version(section.file, section.version)
        place = f", {reader.place.format(section.places[0])}" if section.places[0] is not None else ""
        raise read_error(section.file, error, f"{reader.title}{place}") from error


def block_arrays(
    reader: ColumnReader, types: Mapping[str, Any], dtypes: Mapping[str, np.dtype[Any]], block: Sequence[PartRange]
) -> dict[str, np.ndarray]:
    """The columns of a block as arrays of these types."""
    import pyarrow

    table = pyarrow.concat_tables([load_section(reader, types, section) for section in block])
    return {name: values_as(table.column(name), dtype) for name, dtype in dtypes.items()}


def table_arrays(table: Any, exact: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of a table as arrays; slice columns keep their exact values (`values_of`)."""
    return {name: values_of(table.column(name), exact=name in exact) for name in table.column_names}


def _constant(value: Any, rows: int, *, as_text: bool) -> Any:
    """A column of one value."""
    import pyarrow

    if value is None:
        return pyarrow.nulls(rows, pyarrow.string() if as_text else None)
    return pyarrow.repeat(str(value) if as_text else value, rows)


def stacked(columns: Mapping[str, Any], names: tuple[str, ...]) -> np.ndarray:
    """One column, (n,) or (n, K) of lists; (n, K) of several."""
    return columns[names[0]] if len(names) == 1 else np.stack([columns[name] for name in names], axis=1)


def lazy_columns(
    choice: ColumnChoice,
    names: ColumnNames,
    types: Mapping[str, Any],
    parts: Sequence[Any],
    sizes: Sequence[float],
    load: Callable[[Any], Columns],
    lists: Mapping[str, int] | None = None,
) -> RowTable:
    """Rows of Dask arrays; ``load(part)`` reads the columns of a block, of ``sizes`` rows (NaN: not known).

    ``lists`` are the columns of lists and how many values each holds, -1 if that takes a look at the first block.
    """
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

    def matrix(columns: tuple[str, ...]) -> Any:
        width = len(columns) if len(columns) > 1 else (lists or {}).get(columns[0])
        if width is None:
            return column(columns[0])
        width = int(load(parts[0])[columns[0]].shape[1]) if width < 0 else width
        dtype = np.result_type(*(types[name] for name in columns))
        meta = np.empty((0, 0), dtype)
        return blocks.map_blocks(
            _matrix_block, columns, width, dtype=dtype, new_axis=1, chunks=(*chunks, (width,)), meta=meta
        )

    return choice.collect(names, matrix, column)


def _packed(load: Callable[[Any], Columns], part: Any) -> np.ndarray:
    from calibdask.engine.sources.reduction import packed

    return packed(load(part), 1)


def _column(packed: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(packed.item()[name])


def _matrix_block(packed: np.ndarray, names: tuple[str, ...], width: int) -> np.ndarray:
    block = stacked(packed.item(), names)
    if block.shape[1] != width:
        raise ValueError(
            f"Column {names[0]!r} expects {width} values in every list, as in its first row, got lists of "
            f"{block.shape[1]}."
        )
    return block


def refuse_texts_in(
    reader: ColumnReader,
    url: str,
    types: Mapping[str, Any],
    numeric: Iterable[str | None],
    sections_of: Callable[[Sequence[str]], Sequence[PartRange]],
) -> None:
    """Raise ValueError with the row and value of a text in columns of numbers."""
    import pyarrow

    # It imports xarray, for which a misspelt column does not wait.
    from calibdask.engine.arrays import refuse_strays

    for name in dict.fromkeys(filter(None, numeric)):
        kind = types[name]
        if is_text(kind) or pyarrow.types.is_union(kind):
            tables = (load_section(reader, {name: pyarrow.string()}, section) for section in sections_of([name]))
            column = (to_numpy(table.column(name)).astype(object) for table in tables)
            mend = f"; correct these, and convert all: table.set_column(i, {name!r}, table[{name!r}].cast('float64'))."
            mend = mend if is_text(kind) else "; some of its values are texts: correct these."
            refuse_strays(f"{url}: column {visible(name)!r}", column, mend)
