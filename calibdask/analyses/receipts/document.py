"""The document that a receipt is: canonical JSON, with a hash over all that was measured."""

import hashlib
import json
import math
import platform
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import xarray as xr

from calibdask import __version__
from calibdask.analyses.gating.judging import Judgement
from calibdask.analyses.receipts.fingerprint import Fingerprint
from calibdask.engine.row_notes import NEGATIVE_LABELS
from calibdask.results.build import excluded_rows
from calibdask.results.decisions import WORDS
from calibdask.results.format import slice_text

KIND: str = "calibdask receipt"
# Receipts of the first format have no checksum.
FORMAT: int = 2
FORMATS: tuple[int, ...] = (1, FORMAT)
# The hash covers what a second party finds again, which is all but where and when the receipt was made, and notes on
# the rows that were read; the checksum covers everything but itself.
_CHECKSUM = "checksum"
_OUTSIDE = ("hash", "made", "excluded", NEGATIVE_LABELS, _CHECKSUM)

Document = dict[str, Any]


def document(
    result: xr.Dataset, rows: Fingerprint, request: Mapping[str, Any], judgements: Iterable[Judgement]
) -> Document:
    """A receipt as plain values: measurements and decisions.

    ``request`` says what was asked for, so that a second party can ask again.
    """
    measured: Document = {
        "kind": KIND,
        "format": FORMAT,
        "calibdask": __version__,
        "data": {"rows": rows.rows, "fingerprint": rows.whole, "parts": dict(rows.parts)},
        "request": json.loads(json.dumps(request)),
        "numbers": dict(_numbers(result)),
        "decisions": [
            {
                "limit": one.limit,
                "where": dict(one.where),
                "number": _plain(one.value),
                "decision": WORDS[one.outcome],
            }
            for one in judgements
        ],
    }
    made = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "python": platform.python_version()}
    made |= {"numpy": np.__version__, "platform": platform.platform()}
    excluded = excluded_rows(result.attrs)
    noted: Document = {"excluded": excluded} if excluded else {}
    noted |= {name: str(result.attrs[name]) for name in (NEGATIVE_LABELS,) if name in result.attrs}
    signed = measured | noted | {"hash": hash_of(measured), "made": made}
    return signed | {_CHECKSUM: checksum_of(signed)}


def hash_of(receipt: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of what a second party finds again: not notes on rows, or ``made``."""
    return _sha256({name: value for name, value in receipt.items() if name not in _OUTSIDE})


def checksum_of(receipt: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of all entries but the checksum itself."""
    return _sha256({name: value for name, value in receipt.items() if name != _CHECKSUM})


def canonical(value: Any) -> str:
    """The one JSON text of a value: 0, 0.0, -0.0 and false have different ones.

    Examples
    --------
    >>> canonical({"b": [0, -0.0], "a": None})
    '{"a":null,"b":[0,-0.0]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _sha256(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def _numbers(result: xr.Dataset) -> Iterator[tuple[str, Any]]:
    """Values of all variables by name; of slices by their labels. Shortest texts of float64, which are exact."""
    for name, variable in sorted(result.data_vars.items(), key=lambda item: str(item[0])):
        if variable.dims:
            yield str(name), {_place(variable, at): _plain(value) for at, value in np.ndenumerate(variable.values)}
        else:
            yield str(name), _plain(variable.values[()])


def _place(variable: xr.DataArray, at: tuple[int, ...]) -> str:
    """The position along all dimensions in words."""
    words = []
    for dim, position in zip(variable.dims, at, strict=True):
        label = slice_text(variable.coords[dim].values[position]) if dim in variable.coords else str(position)
        words.append(f"{dim}={label}")
    return ", ".join(words)


def _plain(value: Any) -> Any:
    """A number, true or false, a text, or null where there is no number."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool | int | str):
        return plain
    if isinstance(plain, float):
        return plain if math.isfinite(plain) else None if math.isnan(plain) else repr(plain)
    return str(plain)


class _Missing:
    """Stands for an entry that a document lacks."""

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


def differences(first: Any, second: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Differences of two documents, with both values, or MISSING; numbers are compared by their JSON texts.

    Examples
    --------
    >>> list(differences({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}, "d": None}))
    [('b.c', 2, 3), ('d', missing, None)]
    >>> list(differences([0, 0.0], [0.0, -0.0]))
    [('[0]', 0, 0.0), ('[1]', 0.0, -0.0)]
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in dict.fromkeys((*first, *second)):
            place = f"{path}.{name}" if path else str(name)
            yield from differences(first.get(name, MISSING), second.get(name, MISSING), place)
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif first is MISSING or second is MISSING or canonical(first) != canonical(second):
        yield path, first, second
