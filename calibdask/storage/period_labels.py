"""Labels of periods: texts, whole numbers, and dates, which are stored as texts such as 2026-11-22.

Each date has one spelling: a year, a month, a day, an hour (2026-11-22T13) or a second (2026-11-22T13:00:00). The first
characters of a date are the day, the month and the year that it is in: a coarser period sorts before what follows it.
A date without a text, such as one of NumPy, is its day at midnight; beside other times of day it is that moment. Weeks
are 2026-W47, and quarters 2026-Q4.
"""

import re
from collections.abc import Iterable
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.engine.axes import MISSING
from calibdask.safe_text import check_labels, listed
from calibdask.storage.period_log import Label

# How many signs of a date say in which it is.
COARSER = {"day": 10, "month": 7, "year": 4}
_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2}(T[0-9]{2}(:[0-9]{2}:[0-9]{2}(\.[0-9]+)?)?)?)?)?")
# Texts that can only be meant as dates: two or three numbers with a separator, the longest of four digits, with or
# without a time; or such a text in other digits.
_MEANT_AS_DATE = re.compile(
    r"\s*(\d{4}{0}\d\d?({0}\d\d?)?|\d\d?{0}\d\d?{0}\d{4})([T\s]\s*\d.*)?\s*".replace("{0}", r"\s*[-/._ ]\s*"), re.DOTALL
)
# How many signs of a date name periods that others lie within.
_SIZES = (*sorted(COARSER.values()), len("2026-11-22T13"))
# Weeks of ISO 8601 and quarters, and texts that can only be meant as such.
_PART_OF_YEAR = re.compile(r"([0-9]{4})-(?:W([0-9]{2})|Q([1-4]))")
_MEANT_AS_PART = re.compile(r"\s*\d{4}\s*[-/._ ]?\s*[QW]\s*\d\d?\s*", re.IGNORECASE)
_DAY = 10
_MIDNIGHT = "T00:00:00"
_NO_YEAR = "0000-"


def as_label(name: str, value: Any) -> Label:
    """One period as it is stored.

    Raises
    ------
    ValueError
        If it is missing, no text, whole number or date, an impossible date or a date in another spelling.

    Examples
    --------
    >>> as_label("day", np.datetime64("2026-11-22T00:00:00")), as_label("day", np.int64(3))
    ('2026-11-22', 3)
    """
    if isinstance(value, date | np.datetime64):
        # Midnight stands for its day: nothing says whether it is one of many times of day.
        moment = np.asarray(value, "M8[s]")[()]
        text = str(moment).removesuffix(_MIDNIGHT)
        if is_date(text):
            return text
    elif isinstance(value, str) and value not in ("", MISSING) and "\0" not in value:
        check_labels(f"Each {name}", [value])
        _check_spelling(name, str(value))
        return str(value)
    elif isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise ValueError(f"Each {name} expects a text such as '2026-11-22', a date or a whole number, got {value!r}.")


def labels_of(name: str, values: Any, stored: Iterable[Label] = ()) -> list[Label]:
    """Periods as they are stored, each once, beside those that are stored already.

    Raises
    ------
    ValueError
        If one is twice, or some are texts and others numbers.

    Examples
    --------
    >>> labels_of("hour", np.array(["2026-11-22T00", "2026-11-22T13"], "M8[s]"))
    ['2026-11-22T00:00:00', '2026-11-22T13:00:00']
    """
    values = list(values)
    labels = [as_label(name, value) for value in values]
    if any(is_date(label) and "T" in str(label) for label in (*labels, *stored)):
        # Else the first hour of a day would be the day, with all other hours within it.
        labels = [
            f"{label}{_MIDNIGHT}" if isinstance(value, date | np.datetime64) and len(str(label)) == _DAY else label
            for value, label in zip(values, labels, strict=True)
        ]
    if twice := sorted({str(label) for label in labels if labels.count(label) > 1}):
        raise ValueError(f"The summary has {name} {listed(twice)} more than once; unite its parts by calibdask.merge.")
    check_kind(name, labels)
    return labels


def is_date(label: Label) -> bool:
    """Whether a label is a date in the one spelling that dates have.

    Examples
    --------
    >>> [is_date(label) for label in ("2026-11-22", "2026-02-30", "2026-11-22T13", "2026-11-22T13:00", "0000-01-01")]
    [True, False, True, False, False]
    """
    if not isinstance(label, str) or not _DATE.fullmatch(label):
        return False
    # There was no year 0.
    if label.startswith(_NO_YEAR):
        return False
    try:
        np.datetime64(label)
    except ValueError:
        return False
    return True


def _part_of_year(label: Label) -> str:
    """The letter of a week or a quarter in the spelling that they have, or ""."""
    found = _PART_OF_YEAR.fullmatch(label) if isinstance(label, str) and not label.startswith(_NO_YEAR) else None
    if found is None or found[2] is None:
        return "Q" if found else ""
    try:
        date.fromisocalendar(int(found[1]), int(found[2]), 1)
    except ValueError:
        return ""
    return "W"


def are_periods(labels: npt.NDArray[Any]) -> bool:
    """Whether all labels of slices are dates, months, quarters or weeks; years alone may be any numbers.

    Examples
    --------
    >>> [are_periods(np.array(labels)) for labels in (["2026-11", "2026-12"], ["2026-Q4"], ["1010"], ["2026-11", "de"])]
    [True, True, False, False]
    """
    if labels.dtype.kind == "M":
        return True
    texts = [str(label) for label in labels.tolist()]
    return bool(texts) and all("-" in text and (is_date(text) or _part_of_year(text)) for text in texts)


def _check_spelling(name: str, text: str) -> None:
    """Raise ValueError for a text that is meant as a date, and is none in the spelling that dates have."""
    if _MEANT_AS_PART.fullmatch(text) and not _part_of_year(text):
        raise ValueError(
            f"{name} expects weeks as 2026-W07 and quarters as 2026-Q1, got {text!r}; it does not exist, or is spelled "
            "in another way."
        )
    if _MEANT_AS_DATE.fullmatch(text) and not is_date(text):
        try:
            moment = str(np.datetime64(text.strip(), "s")).removesuffix(_MIDNIGHT)
        except ValueError:
            moment = ""
        hint = f"give {moment!r}" if is_date(moment) else "there is no such date, or it is spelled in another way"
        raise ValueError(
            f"{name} expects dates as 2026-11-22, 2026-11 or 2026, with a time as 2026-11-22T13 or "
            f"2026-11-22T13:00:00, got {text!r}; {hint}."
        )


def overlap(labels: Iterable[Label], others: Iterable[Label]) -> tuple[str, str] | None:
    """A year, a month, a day or an hour, and a date within it, at least one of them among the labels; None without.

    Examples
    --------
    >>> overlap(["2026-11-22"], ["2026-10", "2026-11"]), overlap(["2025"], ["2026-11"])
    (('2026-11', '2026-11-22'), None)
    >>> overlap(["2026-11-22T13:30:00"], ["2026-11-22T13"]), overlap(["2026-11-22T13"], ["2026-11-22T14"])
    (('2026-11-22T13', '2026-11-22T13:30:00'), None)
    """
    added = {str(label) for label in labels if is_date(label)}
    dates = added | {str(label) for label in others if is_date(label)}
    for one in sorted(dates):
        for size in _SIZES:
            longer = one[:size]
            if longer != one and longer in dates and not added.isdisjoint((longer, one)):
                return longer, one
    return None


def other_spelling(label: Label, others: Iterable[Label]) -> Label | None:
    """Find another spelling of a date among stored labels, which begins at that moment; None without.

    Examples
    --------
    >>> other_spelling("2026-11-22T13", ["2026-11-22", "2026-11-22T13:00:00"])
    '2026-11-22T13:00:00'
    >>> other_spelling("2026-11-22T00", ["2026-11-22", "2026-11"])
    '2026-11-22'
    """
    wanted = _moment(label)
    return None if wanted is None else next((one for one in others if _moment(one) == wanted), None)


@lru_cache(maxsize=1 << 16)
def _moment(label: Label) -> Any:
    return np.datetime64(label, "s") if isinstance(label, str) and is_date(label) and len(label) >= _DAY else None


def within(label: Label, coarser_labels: Iterable[str]) -> str | None:
    """The coarser period, a day, month or year, that a date lies in.

    Examples
    --------
    >>> within("2026-08-15", ["2026-07", "2026-08"]), within("2026-08", ["2026-08-15"])
    ('2026-08', None)
    """
    if not is_date(label):
        return None
    return next((one for one in coarser_labels if is_date(one) and str(label).startswith((f"{one}-", f"{one}T"))), None)


def check_kind(name: str, labels: Iterable[Label]) -> None:
    """Raise ValueError where labels have no order: texts and numbers, or dates, weeks, quarters and other texts."""
    examples: dict[Any, Label] = {}
    for label in labels:
        examples.setdefault((type(label), is_date(label), _part_of_year(label)), label)
    if len(examples) > 1:
        shown = " and ".join(map(repr, examples.values()))
        raise ValueError(
            f"Each {name} expects a label of the same kind, text, whole number, week, quarter or date as 2026-11-22, "
            f"got {shown}."
        )


def coarser(labels: Iterable[Label], days: int, into: str) -> dict[str, list[str]]:
    """Periods to merge into each coarser period that ended more than ``days`` before the latest began.

    Raises
    ------
    ValueError
        If periods are no dates.

    Examples
    --------
    >>> coarser(["2026-08-30", "2026-08-31", "2026-09-01", "2026-10-02"], 30, "month")
    {'2026-08': ['2026-08-30', '2026-08-31']}
    >>> coarser(["2026-08-30T01", "2026-08-30T23", "2026-08-31T00", "2026-09-01T00"], 1, "day")
    {'2026-08-30': ['2026-08-30T01', '2026-08-30T23']}
    """
    size = COARSER[into]
    dates = [str(label) for label in labels]
    for label in labels:
        if not is_date(label):
            raise ValueError(f"Periods expire that are dates such as '2026-11-22', got {label!r}.")
    latest = np.datetime64(max(dates)[: COARSER["day"]], "D")
    groups: dict[str, list[str]] = {}
    for label in sorted(dates):
        if len(label) >= size:
            groups.setdefault(label[:size], []).append(label)
    return {
        name: group
        for name, group in groups.items()
        # What begins when the coarser period has ended.
        if group != [name] and _end(name) <= latest - np.timedelta64(days, "D")
    }


def _end(name: str) -> np.datetime64:
    """The day after a day, a month or a year."""
    begin = np.datetime64(name)
    if len(name) == COARSER["day"]:
        return begin + np.timedelta64(1, "D")
    one = np.timedelta64(1, "M") if len(name) == COARSER["month"] else np.timedelta64(1, "Y")
    return (begin + one).astype("M8[D]")
