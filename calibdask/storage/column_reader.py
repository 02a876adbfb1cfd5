"""How files of a format of columns are read: one description for each format, of three functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from calibdask.storage.location import Location


class Header(NamedTuple):
    """Metadata from the beginning or the end of a file.

    Attributes
    ----------
    schema : pyarrow.Schema
        All columns; null where the type is not known.
    layout : any
        What loading a part takes besides; it travels with the tasks, and holds nothing that is open.
    details : any
        What finding the parts takes besides.
    """

    schema: Any
    layout: Any = None
    details: Any = None


class FilePart(NamedTuple):
    """The smallest number of rows that can be read alone.

    Attributes
    ----------
    place : any
        Where it is in the file: numbers that the format understands; None for all of the file.
    rows : int or None
        None if they were not counted.
    share : float or None
        How much of a block it fills, where rows were not counted; None if that is not known either.
    """

    place: Any
    rows: int | None = None
    share: float | None = None


def _no_hint(names: Sequence[str]) -> str:
    return ""


def _unknown(header: Header, name: str) -> bool | None:
    return None


@dataclass(frozen=True)
class ColumnReader:
    """A format of columns.

    Attributes
    ----------
    title : str
        What messages call it.
    schema : function
        From a file to its `Header`.
    parts : function
        From a file and its header to its parts, in their order.
    load : function
        From a file, the layout in its header, places of parts and the columns to a table of Arrow. Columns are names
        with types: None where the file says it.
    place : str
        A part in words, as a format of its place.
    suffixes : tuple of str
        Of the names of files; the first one stands for the format.
    has_types : bool
        Whether files say the types of columns; otherwise texts are loaded for columns of unknown type.
    has_times : bool
        Whether files hold times as such; otherwise as texts, whose offsets Arrow would lose.
    has_missing : function
        From a header and a column to whether it has missing values; None if that is not known.
    hint : function
        From the names in a file to what may be wrong with it where these are not the expected ones.
    """

    title: str
    schema: Callable[[Location], Header]
    parts: Callable[[Location, Header], Sequence[FilePart]]
    load: Callable[[Location, Any, Sequence[Any], Mapping[str, Any]], Any]
    place: str
    suffixes: tuple[str, ...]
    has_types: bool = True
    has_times: bool = True
    hint: Callable[[Sequence[str]], str] = _no_hint
    has_missing: Callable[[Header, str], bool | None] = _unknown

    def loaded_type(self, kind: Any) -> Any:
        """The type to load a column of this type with: texts for times that are such in the file."""
        import pyarrow
        from pyarrow import types

        is_time = types.is_timestamp(kind) or types.is_date(kind)
        return pyarrow.string() if is_time and not self.has_times else kind
