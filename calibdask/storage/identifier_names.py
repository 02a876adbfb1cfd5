"""Names of columns that look like identifiers, such as patients: rows that share a value are often dependent."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from calibdask.storage.location import ColumnChoice
from calibdask.storage.readers import StoredRows

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


def stored_identifiers(rows: StoredRows, label: Any, score: Any, used: Sequence[Any]) -> list[Any]:
    """The first columns of stored rows that look like identifiers, besides labels, scores and those in use.

    None where the file cannot be read: reading the rows says why.
    """
    from pyarrow import types

    try:
        parts = rows.parts(ColumnChoice(label, score, (), None, None))
        columns, known = parts.names.columns, dict(zip(parts.schema.names, parts.schema.types, strict=True))
    except (OSError, RuntimeError, ImportError, ValueError):
        return []
    tests = (types.is_integer, types.is_string, types.is_large_string, types.is_dictionary)
    names = [name for name, kind in known.items() if any(test(kind) for test in tests)]
    return identifier_names(names, [*columns, *used])
