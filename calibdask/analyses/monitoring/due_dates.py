"""When the labels of a period are due: its end, by the date that labels it, and the time that outcomes take."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.safe_text import visible

Labels = npt.NDArray[Any]
Dates = npt.NDArray[np.datetime64]

_DUE = re.compile(r"\s*(\d{1,6})\s*([hdwm])\s*")
_HOURS = {"h": 1, "d": 24, "w": 168}
_WEEK = re.compile(r"(\d{4})-W(\d\d)")
# Other numbers are years to NumPy, but not here.
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d)?)?)?)?)?")
# How many signs of a date say in which year, and in which month it is.
_YEAR, _MONTH = 4, 7
_EXPECTED = "such as 2026-11-22, 2026-11 or 2026-W47"


def parse_due(due: Any) -> np.timedelta64:
    """The time that outcomes take, in seconds, or in calendar months.

    Raises
    ------
    ValueError
        If it is no such time.

    Examples
    --------
    >>> parse_due("30d").astype("timedelta64[D]").astype(int).item()
    30
    """
    if isinstance(due, str) and (match := _DUE.fullmatch(due)):
        if match[2] == "m":
            return np.timedelta64(int(match[1]), "M")
        due = timedelta(hours=int(match[1]) * _HOURS[match[2]])
    if isinstance(due, timedelta):
        due = np.timedelta64(due)
    if not isinstance(due, np.timedelta64) or np.isnat(due) or due < np.timedelta64(0, "s"):
        raise ValueError(
            f"due expects a time such as '30d', '12h', '2w' or '12m' (months), or a timedelta, got {due!r}."
        )
    return due.astype("timedelta64[s]")


def parse_now(now: Any) -> np.datetime64:
    """The moment, in universal time; None: now.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> parse_now("2026-11-22")
    np.datetime64('2026-11-22T00:00:00')
    """
    if now is None:
        now = datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(now) if isinstance(now, str) else now
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        if not isinstance(moment, date | np.datetime64):
            raise TypeError
        when = np.datetime64(moment).astype("datetime64[s]")
    except (ValueError, TypeError) as error:
        raise ValueError(f"now expects a date or a time such as 2026-11-22, got {visible(now)!r}.") from error
    if np.isnat(when):
        raise ValueError("now expects a date or a time such as 2026-11-22, got NaT.")
    return when


def dates_of(labels: Labels) -> Dates | None:
    """The dates that label periods, in the unit that they are given in; None if they are no dates.

    Examples
    --------
    >>> dates_of(np.array(["2026-W47"])).tolist(), dates_of(np.array(["2026-11"])).dtype, dates_of(np.array(["monday"]))
    ([datetime.date(2026, 11, 16)], dtype('<M8[M]'), None)
    """
    if labels.dtype.kind == "M":
        return labels
    texts = labels.tolist() if labels.dtype.kind == "U" else []
    try:
        if texts and all(map(_WEEK.fullmatch, texts)):
            return np.array([date.fromisoformat(text) for text in texts], "datetime64[D]")
        if texts and all(map(_DATE.fullmatch, texts)):
            return np.array(texts, "datetime64")
    except ValueError:
        # Looks like a date, as 2026-13-01.
        pass
    return None


def are_due(period: str, labels: Labels, due: Any, now: Any) -> npt.NDArray[np.bool_]:
    """Whether the outcomes of periods are known at a moment.

    Raises
    ------
    ValueError
        If labels are no dates, or the time or the moment is none.

    Examples
    --------
    >>> are_due("day", np.array(["2026-11-14", "2026-11-15"]), "7d", "2026-11-22").tolist()
    [True, False]
    """
    return np.asarray(due_times(period, labels, due) <= parse_now(now))


def due_times(period: str, labels: Labels, due: Any) -> Dates:
    """The moments when the outcomes of periods are known, in seconds.

    Months after the 31st, where a month has no such day, end with that month.

    Raises
    ------
    ValueError
        If labels are no dates, or the time is none.

    Examples
    --------
    >>> due_times("month", np.array(["2025-11", "2025-12"]), "2m").astype("datetime64[D]").astype(str).tolist()
    ['2026-02-01', '2026-03-01']
    >>> due_times("day", np.array(["2026-01-29", "2026-01-30"]), "1m").astype("datetime64[D]").astype(str).tolist()
    ['2026-02-28', '2026-02-28']
    """
    ends, delay = period_ends(period, labels), parse_due(due)
    if np.datetime_data(delay.dtype)[0] != "M":
        return np.asarray(ends + delay)
    months = ends.astype("datetime64[M]")
    later = months + delay
    days = ends.astype("datetime64[D]")
    last = (later + 1).astype("datetime64[D]") - 1
    moved = np.minimum(later.astype("datetime64[D]") + (days - months.astype("datetime64[D]")), last)
    return np.asarray(moved.astype("datetime64[s]") + (ends - days))


def period_ends(period: str, labels: Labels) -> Dates:
    """The ends of periods, in seconds.

    A period is as long as the shortest step between two of them: dates a week apart are weeks, firsts of months are
    months. A single date is a day, or what its text says. Dates that are years, months and days are told apart.

    Raises
    ------
    ValueError
        If labels are no dates.

    Examples
    --------
    >>> period_ends("day", np.array(["2026-11-22"])).tolist()
    [datetime.datetime(2026, 11, 23, 0, 0)]
    >>> period_ends("month", np.array(["2026-01-01", "2026-02-01"], "datetime64[ns]"))[1]
    np.datetime64('2026-03-01T00:00:00')
    """
    if dates_of(labels) is None:
        raise ValueError(
            f"due needs dates to label the values of {period}, {_EXPECTED}, got {visible(labels[0])!r} and others; "
            "label periods in this way, or omit due and watch only periods whose outcomes are all known."
        )
    # Months among days are those that days have been merged into.
    signs = np.minimum(np.char.str_len(labels), _MONTH + 1) if labels.dtype.kind == "U" else np.zeros(labels.size)
    ends = np.empty(labels.size, "datetime64[s]")
    for number in np.unique(signs):
        ends[signs == number] = _ends(labels[signs == number])
    return ends


def _ends(labels: Labels) -> Dates:
    """End dates of labels that are all years, all months or all days."""
    starts = dates_of(labels)
    assert starts is not None
    months, days = starts.astype("datetime64[M]"), starts.astype("datetime64[D]")
    weekly = labels.dtype.kind == "U" and _WEEK.fullmatch(str(labels[0])) is not None
    one: Any = np.timedelta64(7 if weekly else 1, "D")
    if np.datetime_data(starts.dtype)[0] in ("Y", "M"):
        one = np.timedelta64(1, np.datetime_data(starts.dtype)[0])  # type: ignore[call-overload]
    elif starts.size > 1 and (starts == months).all():
        starts = months
    else:
        starts = days if (starts == days).all() else starts.astype("datetime64[s]")
    steps = np.diff(np.unique(starts))
    return np.asarray(starts + (steps.min() if steps.size else one), "datetime64[s]")


def coarser_periods(labels: Labels) -> set[Any]:
    """Labels of months and years into which these dates may have been merged.

    Examples
    --------
    >>> sorted(coarser_periods(np.array(["2026-08-30", "2026-08-31", "monday"])))
    ['2026', '2026-08']
    """
    texts = labels.tolist() if labels.dtype.kind == "U" else []
    dates = [text for text in texts if _DATE.fullmatch(text)]
    return {text[:signs] for text in dates for signs in (_YEAR, _MONTH) if len(text) > signs}
