"""What periods are called: texts, whole numbers, and dates, which are texts such as 2026-11-22 too.

The first signs of a date are the month and the year that it is in: a coarser period sorts before what follows it.
"""

import re
from collections.abc import Iterable
from datetime import date
from typing import Any

import numpy as np

from calibdask.engine.axes import MISSING
from calibdask.safe_text import listed
from calibdask.storage.period_log import Label

# How many signs of a date say in which it is.
COARSER = {"day": 10, "month": 7, "year": 4}
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2}(T.*)?)?)?")


def as_label(name: str, value: Any) -> Label:
    """One period as it is stored.

    Raises
    ------
    ValueError
        If it is missing, or no text, whole number or date.

    Examples
    --------
    >>> as_label("day", np.datetime64("2026-11-22T00:00:00")), as_label("day", np.int64(3))
    ('2026-11-22', 3)
    """
    if isinstance(value, date | np.datetime64):
        # Midnight stands for its day.
        moment = np.asarray(value, "M8[s]")[()]
        if not np.isnat(moment):
            return str(moment).removesuffix("T00:00:00")
    elif isinstance(value, str) and value not in ("", MISSING):
        return str(value)
    elif isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise ValueError(f"Each {name} expects a text such as '2026-11-22', a date or a whole number, got {value!r}.")


def labels_of(name: str, values: Any) -> list[Label]:
    """Periods as they are stored, each once.

    Raises
    ------
    ValueError
        If one is twice, or some are texts and others numbers.
    """
    labels = [as_label(name, value) for value in values]
    if twice := sorted({str(label) for label in labels if labels.count(label) > 1}):
        raise ValueError(f"The summary has {name} {listed(twice)} more than once; unite its parts by calibdask.merge.")
    check_kind(name, labels)
    return labels


def check_kind(name: str, labels: Iterable[Label]) -> None:
    """Raise ValueError where some are texts and others numbers, which have no order."""
    examples = {type(label): label for label in labels}
    if len(examples) > 1:
        shown = " and ".join(map(repr, examples.values()))
        raise ValueError(f"Each {name} expects a label of the same kind, text or whole number, got {shown}.")


def coarser(labels: Iterable[Label], days: int, into: str) -> dict[str, list[str]]:
    """Which periods are to be merged, by the coarser ones that ended more than so many days before the latest began.

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
        if not isinstance(label, str) or not _DATE.fullmatch(label):
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
