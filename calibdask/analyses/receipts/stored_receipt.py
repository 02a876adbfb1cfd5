"""Receipts as they are read: every entry that a receipt has, of its type, and no other."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from calibdask.analyses.receipts.document import FORMATS, KIND, Document, canonical
from calibdask.engine.row_notes import NEGATIVE_LABELS
from calibdask.results.decisions import WORDS
from calibdask.safe_text import listed, visible
from calibdask.storage.documents import read_json

Check = Callable[[Any], bool]


def _of(*kinds: type) -> Check:
    """Whether a value is of one of these types; true and false are no numbers."""
    return lambda value: type(value) in kinds


def _each(check: Check) -> Check:
    return lambda value: type(value) is list and all(map(check, value))


def _named(check: Check) -> Check:
    return lambda value: type(value) is dict and all(map(check, value.values()))


def _either(one: Check, other: Check) -> Check:
    return lambda value: one(value) or other(value)


_TEXT, _FLAG, _WHOLE, _MAPPING = _of(str), _of(bool), _of(int), _of(dict)
_PLAIN = _of(str, bool, int, float, NoneType)
_WHOLES = {"n_boot": _WHOLE, "seed": _WHOLE}
_RECEIPT: Mapping[str, Check] = {
    "kind": KIND.__eq__,
    "format": FORMATS.__contains__,
    "calibdask": _TEXT,
    "data": _MAPPING,
    "request": _MAPPING,
    "numbers": _named(_either(_PLAIN, _named(_PLAIN))),
    "decisions": _each(_MAPPING),
    "hash": _TEXT,
    "made": _MAPPING,
}
# Entries of receipts of the second format.
_SEALED: dict[str, Check] = {"checksum": _TEXT}
# Entries that not every receipt has: numbers of rows that were left out, and labels that count as negative.
_NOTED: Mapping[str, Check] = {"excluded": _named(_WHOLE), NEGATIVE_LABELS: _TEXT}
_DATA: Mapping[str, Check] = {"rows": _WHOLE, "fingerprint": _TEXT, "parts": _named(_TEXT)}
_REQUEST: Mapping[str, Check] = {
    **dict.fromkeys(("metrics", "limits", "slice_limits", "by"), _each(_TEXT)),
    **dict.fromkeys(("weighted", "skip_missing"), _FLAG),
    "confidence": _of(int, float),
    **_WHOLES,
    "reading": _MAPPING,
}
# Entries of the request that not every receipt has: the name of the clusters.
_FURTHER: Mapping[str, Check] = {"groups": _TEXT}
_READING: Mapping[str, Check] = {
    "task": _of(str, NoneType),
    "logits": _FLAG,
    **dict.fromkeys(("labels", "pos_label", "ignore_label"), _either(_PLAIN, _each(_PLAIN))),
}
_DECISION: Mapping[str, Check] = {
    "limit": _TEXT,
    "where": _named(_TEXT),
    "number": _PLAIN,
    "decision": [*WORDS.values()].__contains__,
}
_MADE: Mapping[str, Check] = dict.fromkeys(("at", "python", "numpy", "platform"), _TEXT)


def read_receipt(given: Document | str | Path) -> Document:
    """A receipt, of a file too.

    Raises
    ------
    ValueError
        If it is none, or of another format; if an entry is missing, of another type, there twice, or one that no
        receipt has; of a file, if it is not UTF-8 without a byte order mark, or a number or a text is not written as
        `calibdask.receipt` writes it.
    OSError
        If it cannot be read.
    """
    if not isinstance(given, dict):
        name = visible(given)
        try:
            given = read_json(given, canonical=True)
        except ValueError as error:
            raise ValueError(f"{name} is not a receipt: it is not JSON as calibdask writes it ({error}).") from error
    if not isinstance(given, dict) or given.get("kind") != KIND:
        raise ValueError(f"This is not a receipt: JSON with the entry kind, {KIND!r}, is expected.")
    if type(given.get("format")) is not int or given["format"] not in FORMATS:
        expected = " and ".join(map(str, FORMATS))
        raise ValueError(f"The receipt has the format {given.get('format')!r}; this version reads {expected}.")
    sealed = {} if given["format"] == 1 else _SEALED | {name: check for name, check in _NOTED.items() if name in given}
    _check("", given, {**_RECEIPT, **sealed})
    further = {name: check for name, check in _FURTHER.items() if name in given["request"]}
    request = {**_REQUEST, **further}
    for entry, checks in {"data": _DATA, "request": request, "made": _MADE}.items():
        _check(entry, given[entry], checks)
    _check("reading", given["request"]["reading"], _READING)
    for decision in given["decisions"]:
        _check("decisions", decision, _DECISION)
    try:
        canonical(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The receipt is damaged: it has a value that JSON cannot hold ({error}).") from error
    return given


def _check(entry: str, document: Mapping[str, Any], checks: Mapping[str, Check]) -> None:
    """Raise ValueError unless these are the entries of a part of a receipt, each of its type."""
    within = f"{entry}." if entry else ""
    for name in checks:
        if name not in document:
            raise ValueError(f"The receipt is damaged: its entry {within + name!r} is missing.")
    if further := document.keys() - checks.keys():
        names = [within + str(name) for name in sorted(further, key=str)]
        raise ValueError(f"The receipt is damaged: it has the unknown entries {listed(names)}.")
    for name, check in checks.items():
        if not check(document[name]):
            raise ValueError(f"The receipt is damaged: its entry {within + name!r} is of another type.")
