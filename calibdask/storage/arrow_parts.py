"""Stored rows with all their columns, part by part, as tables of Arrow."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from calibdask.safe_text import message, visible
from calibdask.storage.arrow_columns import dtype_of, list_width
from calibdask.storage.columns import ColumnNames

# What a text counts for in the size of a row.
_TEXT_BYTES = 32


@dataclass(frozen=True)
class Place:
    """Where reading goes on: the part, and the row in it."""

    part: int = 0
    row: int = 0


@dataclass(frozen=True)
class ArrowParts:
    """Rows in their order, in parts that are read one at a time.

    Attributes
    ----------
    schema : pyarrow.Schema
    names : ColumnNames
        Those of the scores, and of labels if there are some.
    parts : sequence
    load : function
        From a part to its table: of this schema, or of texts where values are stored as texts.
    of_arrays : bool
        Whether the columns are whole arrays where they are stored; those of several values in each row are lists.
    """

    schema: Any
    names: ColumnNames
    parts: Sequence[Any]
    load: Callable[[Any], Any]
    of_arrays: bool = False

    @property
    def row_bytes(self) -> int:
        """About the size of a row in memory."""
        return sum(map(_bytes_of, self.schema.types))

    def typed(self, table: Any) -> Any:
        """A table with the types of the schema.

        Raises
        ------
        ValueError
            If a text is none of the numbers that are expected.
        """
        import pyarrow

        from calibdask.storage.column_types import converted

        if table.schema.types == self.schema.types:
            return table
        columns = {}
        for name, kind in zip(self.schema.names, self.schema.types, strict=True):
            try:
                columns[name] = converted(table.column(name), kind)
            except pyarrow.ArrowInvalid as error:
                raise ValueError(f"column {visible(name)!r} expects {kind}: {message(error)}") from error
        return pyarrow.table(columns)

    def tables(self, rows: int, start: Place = Place()) -> Iterator[tuple[Any, Place]]:
        """Tables of so many rows, the last one of fewer, from a place on; each with the place where the next begins.

        Which rows are together does not depend on the place, if that is one of those.
        """
        import pyarrow

        held: list[Any] = []
        count = 0
        for number in range(start.part, len(self.parts)):
            table = self.load(self.parts[number])
            row = start.row if number == start.part else 0
            while row < table.num_rows:
                piece = table.slice(row, rows - count)
                held.append(piece)
                row, count = row + piece.num_rows, count + piece.num_rows
                if count == rows:
                    yield pyarrow.concat_tables(held), Place(number, row)
                    held, count = [], 0
        if held:
            yield pyarrow.concat_tables(held), Place(len(self.parts))


def _bytes_of(arrow_type: Any) -> int:
    dtype = dtype_of(arrow_type)
    return max(1, list_width(arrow_type) or 1) * (_TEXT_BYTES if dtype.kind == "O" else dtype.itemsize)
