"""Types of texts: a column of a CSV file holds numbers only where its texts can be had back from them."""

from collections.abc import Collection
from typing import Any

import numpy as np

# What stands for a missing value among numbers; among texts these are texts.
MISSING_WORDS = (
    *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
)
# What a text may be: a whole number; a fraction as Python writes it, or a whole number with a decimal point; any other
# spelling of a number; a spelling of true and false; a date, a time in seconds or finer, a time of UTC,
# or with another offset; a text.
_WHOLE, _FRACTION, _POINTED, _NUMBER = "whole", "fraction", "pointed", "number"
_DATE, _SECOND, _FINE, _ZONED, _OFFSET, _TEXT = "date", "second", "fine", "zoned", "offset", "text"
_TIMES = frozenset({_DATE, _SECOND, _FINE, _ZONED, _OFFSET})
# The zone of times with offsets other than that of UTC: instants whose clocks no zone describes. Of RFC 3339, so that
# it is the zone of no column that somebody else wrote.
OFFSETS = "-00:00"
# An offset after the minutes or seconds, without which the text is the time on the clock there.
_OFFSET_PATTERN, _WITHOUT_OFFSET = r"(:\d\d(\.\d+)?) ?(Z|[+-]\d\d(:?\d\d)?)$", r"\1"
# Among the others: some are missing.
MISSING = "missing"
_SPELLINGS = (("True", "False"), ("true", "false"), ("TRUE", "FALSE"))
# Numbers without leading zeros or signs that do not matter: 0.50 is one, 007 and +1 are texts.
_WHOLE_PATTERN = r"^(0|-?[1-9][0-9]{0,18})$"
_NUMBER_PATTERN = r"^[-+]?(0|[1-9][0-9]*)(\.[0-9]+([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)$|^\+[0-9]+$"

Kinds = frozenset[str]


def kinds_of(column: Any) -> Kinds:
    """Kinds of texts in an Arrow column, and whether values are missing; kinds of two columns unite.

    Examples
    --------
    >>> import pyarrow
    >>> sorted(kinds_of(pyarrow.array(["1", "", "2.5"]))), sorted(kinds_of(pyarrow.array(["01"])))
    (['fraction', 'missing', 'whole'], ['text'])
    """
    import pyarrow
    from pyarrow import compute

    given = compute.unique(column)
    words = pyarrow.array(["", None, *MISSING_WORDS])
    distinct = given.filter(compute.invert(compute.is_in(given, words)))
    kinds = {MISSING} if len(distinct) < len(given) else set()
    if not len(distinct):
        return frozenset(kinds)
    for spelling in _SPELLINGS:
        same = compute.is_in(distinct, pyarrow.array(spelling))
        kinds |= {spelling[0]} if compute.any(same).as_py() else set()
        distinct = distinct.filter(compute.invert(same))
    return frozenset(kinds | _number_kinds(distinct))


def type_of(kinds: Kinds, *, exact: bool = True) -> Any:
    """The type of Arrow of a column with texts of these kinds; null without any.

    Parameters
    ----------
    kinds : set of str
    exact : bool, default True
        Whether every text can be had back from its number, as slices need it; features may be ``0.50`` too.

    Examples
    --------
    >>> type_of(frozenset({"whole", "fraction"})), type_of(frozenset({"whole", "pointed"}))
    (DataType(double), DataType(string))
    """
    import pyarrow

    kinds -= {MISSING}
    if not kinds:
        return pyarrow.null()
    if kinds == {_WHOLE}:
        return pyarrow.int64()
    numbers = [{_WHOLE, _FRACTION}, {_FRACTION, _POINTED}]
    if any(kinds <= group for group in (numbers if exact else [{_WHOLE, _FRACTION, _POINTED, _NUMBER}])):
        return pyarrow.float64()
    if len(kinds) == 1 and next(iter(kinds)) in {true for true, _ in _SPELLINGS}:
        return pyarrow.bool_()
    times = ((_DATE,), pyarrow.date32()), ((_DATE, _SECOND), pyarrow.timestamp("s"))
    finer = ((_DATE, _SECOND, _FINE), pyarrow.timestamp("ns")), ((_ZONED,), pyarrow.timestamp("ns", "UTC"))
    offsets = ((_ZONED, _OFFSET), pyarrow.timestamp("ns", OFFSETS))
    return next((kind for group, kind in (*times, *finer, offsets) if kinds <= {*group}), pyarrow.string())


def time_type_of(kinds: Kinds) -> Any:
    """The type of Arrow of a column of texts of these kinds if all are times or dates, else of texts.

    Examples
    --------
    >>> time_type_of(frozenset({"date", "second"})), time_type_of(frozenset({"whole"}))
    (TimestampType(timestamp[s]), DataType(string))
    """
    import pyarrow

    return type_of(kinds) if kinds - {MISSING} <= _TIMES else pyarrow.string()


def clock_type(kind: Any) -> Any:
    """The type of times on the clock where they were taken, for `OFFSETS`; any other type as it is."""
    import pyarrow

    return pyarrow.timestamp(kind.unit) if has_offsets(kind) else kind


def has_offsets(kind: Any) -> bool:
    """Whether a type of Arrow is that of times with offsets from UTC."""
    return getattr(kind, "tz", None) == OFFSETS


def without_offsets(texts: Any) -> Any:
    """A column of texts, where those that are times with an offset are the times on the clock there.

    Examples
    --------
    >>> import pyarrow
    >>> without_offsets(pyarrow.array(["2024-05-01T23:30-05:00", "2024-05-01"])).to_pylist()
    ['2024-05-01T23:30', '2024-05-01']
    """
    from pyarrow import compute

    return compute.replace_substring_regex(texts, _OFFSET_PATTERN, _WITHOUT_OFFSET)


def typed(column: Any, kind: Any) -> Any:
    """Texts as values of a type that `type_of` gave; words for missing numbers are missing, and so are empty texts.

    Times with an offset are those on the clock there where the type has no zone.
    """
    import pyarrow
    from pyarrow import compute, types

    if types.is_null(kind):
        return pyarrow.chunked_array([pyarrow.nulls(len(column))])
    words: Collection[str] = [""] if types.is_string(kind) else ["", *MISSING_WORDS]
    absent = compute.is_in(column, pyarrow.array(words))
    present = compute.if_else(absent, pyarrow.scalar(None, column.type), column)
    if types.is_timestamp(kind) and kind.tz is None:
        present = without_offsets(present)
    return present.cast(kind)


def _number_kinds(distinct: Any) -> set[str]:
    """Kinds of numbers, dates and texts."""
    import pyarrow
    from pyarrow import compute

    kinds: set[str] = set()
    whole = compute.match_substring_regex(distinct, _WHOLE_PATTERN)
    if compute.any(whole).as_py():
        # 19 digits may be too large for 64 bits.
        fits = _casts(distinct.filter(whole), pyarrow.int64())
        kinds.add(_WHOLE if fits else _TEXT)
    distinct = distinct.filter(compute.invert(whole))
    numbers = compute.match_substring_regex(distinct, _NUMBER_PATTERN)
    if compute.any(numbers).as_py():
        kinds |= _fraction_kinds(distinct.filter(numbers))
    others = distinct.filter(compute.invert(numbers))
    return kinds | _time_kinds(others) if len(others) else kinds


def _fraction_kinds(texts: Any) -> set[str]:
    import pyarrow
    from pyarrow import compute

    # -0.0 is equal to 0.0, so its sign, which is lost here, cannot be had back.
    values = compute.add(texts.cast(pyarrow.float64()), 0.0)
    same = compute.equal(values.cast(pyarrow.string()), texts)
    kinds = {_FRACTION} if compute.any(same).as_py() else set()
    # Arrow writes 1e-05 and 2.0 otherwise.
    rest = compute.invert(same)
    for text, value in zip(texts.filter(rest).to_pylist(), values.filter(rest).to_pylist(), strict=True):
        if text != repr(value) or not np.isfinite(value):
            kinds.add(_NUMBER)
        else:
            kinds.add(_POINTED if text.endswith(".0") else _FRACTION)
        if len(kinds) == 3:
            break
    return kinds


def _time_kinds(texts: Any) -> set[str]:
    import pyarrow
    from pyarrow import compute

    candidates = {
        _DATE: pyarrow.date32(),
        _SECOND: pyarrow.timestamp("s"),
        _FINE: pyarrow.timestamp("ns"),
        _ZONED: pyarrow.timestamp("ns", "UTC"),
    }
    kind = next((kind for kind, given in candidates.items() if _casts(texts, given)), _TEXT)
    if kind == _ZONED and not compute.all(compute.match_substring_regex(texts, r"(Z|[+-]00(:?00)?)$")).as_py():
        kind = _OFFSET
    return {kind}


def _casts(texts: Any, kind: Any) -> bool:
    import pyarrow

    try:
        texts.cast(kind)
    except pyarrow.ArrowInvalid:
        return False
    return True
