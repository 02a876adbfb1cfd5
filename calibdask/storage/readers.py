"""Stored rows, of whatever format: labels, scores, weights and slices as arrays, each by its name."""

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from calibdask.storage.location import Location, MissingChunks, read_error
from calibdask.storage.row_table import ColumnChoice, RowTable

if TYPE_CHECKING:
    import xarray as xr

    from calibdask.storage.arrow_parts import ArrowParts


# Columns that are checked, the first ones with such names.
MOST_COLUMNS = 3
_ENTITIES = (
    *("patient", "subject", "person", "customer", "client", "account", "user", "member", "visitor", "household"),
    *("borrower", "obligor", "applicant", "employee", "student", "session", "visit", "admission", "encounter"),
    *("race", "election", "match", "document", "question", "conversation", "thread", "speaker", "author"),
)
_NAME = re.compile(
    rf"(?:.*[_\s.-])?(?:id|uid|uuid|guid|mrn|key)|.*[a-z]I[dD]|(?:{'|'.join(_ENTITIES)})s?(?:[_\s.-]?(?:no|number|nr))?"
)


def looks_like_identifier(name: Any) -> bool:
    """Whether a column has the name of an identifier.

    Examples
    --------
    >>> [looks_like_identifier(name) for name in ("patient_id", "customerId", "race", "key", "valid", "age")]
    [True, True, True, True, False, False]
    """
    text = str(name).strip()
    return _NAME.fullmatch(text) is not None or _NAME.fullmatch(text.lower()) is not None


def identifier_names(names: Iterable[Any], used: Sequence[Any]) -> list[Any]:
    """The first columns that look like identifiers, besides those in use."""
    return [name for name in names if name not in used and looks_like_identifier(name)][:MOST_COLUMNS]


@dataclass(frozen=True)
class StoredRows:
    """A file or store without a calibdask marker, which by name and format holds scored rows.

    Attributes
    ----------
    location : Location
    reader : function
        Reads the arrays or columns that are chosen.
    holds : {"array", "column"}
        What the format calls them.
    parts : function
        All columns, or arrays with an entry for each row, in parts as they are read one by one.
    labelled : function or None
        Opens the whole as a dataset, for a format that may have named axes.
    """

    kind: ClassVar[str] = "a file or store of plain arrays or columns"
    mend: ClassVar[str] = "summarize them first: calibdask summarize DATA --out summary.zarr"

    location: Location
    reader: Callable[[ColumnChoice], RowTable]
    parts: "Callable[[ColumnChoice], ArrowParts]"
    holds: Literal["array", "column"] = "array"
    labelled: "Callable[[], xr.Dataset] | None" = None

    @property
    def url(self) -> str:
        """The URL of the file or store."""
        return self.location.url

    def read(
        self,
        *,
        label: str | Sequence[str] | None = None,
        score: str | Sequence[str] | None = None,
        by: Sequence[str] = (),
        weight: str | None = None,
        chunk_rows: int | None = None,
        skip_missing: bool = False,
        missing_chunks: MissingChunks = "error",
        features: Sequence[str] = (),
        instants: Sequence[str] = (),
        groups: str | None = None,
        text: Sequence[str] = (),
        checks_clusters: bool = False,
    ) -> RowTable:
        """The rows, as `calibdask.read_rows` gives them, with ``features`` among ``by``.

        With ``checks_clusters``, and without ``groups``, they come with the first columns that look like identifiers.
        Texts of ``instants`` that are times with offsets from UTC are times of UTC, not of the clock there.

        Raises
        ------
        ValueError
            As `calibdask.read_rows`.
        """
        if chunk_rows is not None and chunk_rows < 1:
            raise ValueError(f"chunk_rows expects a positive number of rows, got {chunk_rows}.")
        if missing_chunks not in get_args(MissingChunks):
            raise ValueError(f"missing_chunks expects 'error' or 'fill', got {missing_chunks!r}.")
        if text and self.holds == "array":
            raise ValueError(f"text expects columns of a file (--text); the arrays of {self.url} have types.")
        of_clusters = () if groups is None else (groups,)
        used = (*by, *features, *instants, weight)
        identifiers = self._identifiers(label, score, used) if checks_clusters and groups is None else []
        choice = ColumnChoice(
            label,
            score,
            tuple(dict.fromkeys((*by, *of_clusters))),
            weight,
            chunk_rows,
            missing_chunks,
            tuple(dict.fromkeys((*features, *identifiers))),
            tuple(instants),
            tuple(text),
        )
        try:
            table = self.reader(choice)
        except (OSError, RuntimeError, ImportError) as error:
            raise read_error(self.location, error) from error
        if table.scores.shape[0] == 0:
            raise ValueError(f"{self.url} holds no rows.")
        if table.names.guess:
            warnings.warn(table.names.guess, UserWarning, stacklevel=3)
        for name, values in {table.names.scores[0]: table.scores, weight: table.weights}.items():
            if values is not None:
                _check_numbers(self.url, f"{self.holds} {name!r}", values)
        scores, classes = table.scores, table.names.classes
        if classes is not None:
            import pandas as pd
            import xarray as xr

            # Of an array xarray would ask whether it is one of Dask, and import that.
            plain = xr.Variable(("sample", "class"), scores, fastpath=True)
            names = xr.IndexVariable(("class",), pd.Index(list(classes), dtype=object), fastpath=True)
            scores = xr.DataArray(plain, {"class": names})
        return replace(
            table,
            scores=scores,
            by={name: values for name, values in table.by.items() if name in (*by, *features)},
            skip_missing=skip_missing,
            groups=None if groups is None else table.by[groups],
            groups_name=groups or "",
            identifiers={name: table.by[name] for name in identifiers},
        )

    def _identifiers(self, label: Any, score: Any, used: Sequence[Any]) -> list[str]:
        """The first columns that look like identifiers, besides labels, scores and columns in use.

        None where the file cannot be read: reading the rows says why.
        """
        from pyarrow import types

        try:
            parts = self.parts(ColumnChoice(label, score, (), None, None))
            columns, known = parts.names.columns, dict(zip(parts.schema.names, parts.schema.types, strict=True))
        except (OSError, RuntimeError, ImportError, ValueError):
            return []
        tests = (types.is_integer, types.is_string, types.is_large_string, types.is_dictionary)
        names = [name for name, kind in known.items() if any(test(kind) for test in tests)]
        return identifier_names(names, [*columns, *used])

    def zone_of(self, column: str) -> str | None:
        """The time zone of a column of timestamps; None without one."""
        schema = self.parts(ColumnChoice(None, None, (), None, None, instants=(column,))).schema
        return getattr(schema.field(column).type, "tz", None) if column in schema.names else None


def further_columns(
    rows: StoredRows, label: str | Sequence[str] | None, score: str | Sequence[str] | None, used: Sequence[str]
) -> list[str]:
    """The names of all columns, or arrays with one value for each row, besides labels, scores and those in use.

    Raises
    ------
    ValueError
        If there are none.
    """
    from calibdask.storage.arrow_columns import list_width

    parts = rows.parts(ColumnChoice(label, score, (), None, None))
    names = [
        str(name)
        for name, kind in zip(parts.schema.names, parts.schema.types, strict=True)
        if name not in (*parts.names.columns, *used) and list_width(kind) is None
    ]
    if not names:
        raise ValueError(f"{rows.url} holds no {rows.holds}s besides labels and scores, to use as features.")
    return names


def _check_numbers(url: str, what: str, array: Any) -> None:
    """Refuse texts and dates; the row is named where the array is in memory."""
    if array.dtype.kind not in "OUSTMm":
        return
    row = next((i for i, value in enumerate(array) if not _is_number(value)), 0) if _in_memory(array) else None
    where = "" if row is None else f" in row {row}, {str(array[row])!r}"
    raise ValueError(f"{url}: {what} expects numbers, got {'dates' if array.dtype.kind in 'Mm' else 'text'}{where}.")


def _in_memory(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
