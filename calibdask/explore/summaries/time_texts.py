"""Headline of the view over time in plain words; the evidence follows on its own line."""

import math
import re
from collections.abc import Sequence

import numpy as np

from calibdask.results.format import counted, points_of
from calibdask.results.over_time import GapEnds, OverTime, evidence_text, period_text, points_text, ranked

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
# The page of the documentation that explains evidence.
READ_ON = "Is it still calibrated, and since when not?"


def alarm_text(process: OverTime, model: str, since: GapEnds | None = None) -> str:
    """The first sentence: whether there is an alarm, of what, since when, and by how much scores are off.

    Parameters
    ----------
    process : OverTime
    model : str
        Its name; empty where there is one alone.
    since : Ends, optional
        The gap of the rows since then; without it, that of all rows is told.
    """
    whom = " · ".join(filter(None, (f"model {model}" if model else "", process.label))) or "the model"
    if process.is_off:
        return f"Alarm: {whom} since {day_text(process.since)}: {_how(process, since)}."
    if not process.rows.any():
        return f"There are no rows for {whom} yet."
    seen = counted(int((process.rows > 0).sum()), "period")
    if process.alarmed is not None and process.tests == 1:
        return f"Currently no alarm for {whom}; there was one on {day_text(process.alarmed)}."
    return f"No alarm for {whom} in {seen}: scores are {points_text(process.running)} on average."


def evidence_line(process: OverTime) -> str:
    """On what evidence that is said, for those who know what evidence is."""
    threshold = process.threshold + (0.0 if process.is_off else math.log(process.tests))
    text = f"Evidence {evidence_text(process.evidence)} against a threshold of {evidence_text(threshold)}"
    if process.is_off and process.tests > 1:
        text += f", a discovery among {process.tests:,} (e-BH)"
    return f"{text}; at most {100 * process.alpha:g} % of calibrated models ever raise an alarm."


def day_text(label: object) -> str:
    """A period in words; a day as one says it.

    Examples
    --------
    >>> day_text("2026-05-14"), day_text("2026-05"), day_text(3)
    ('14 May 2026', '2026-05', '3')
    """
    text = period_text(label)
    if not _DAY.fullmatch(text):
        return text
    year, month, day = (int(part) for part in text.split("-"))
    return f"{day} {_MONTHS[month - 1]} {year}" if 1 <= month <= len(_MONTHS) else text


def alarms_first(processes: Sequence[OverTime]) -> list[OverTime]:
    """Processes with alarms by evidence, then the others by number of rows."""
    seen = ranked(processes)
    others = sorted((one for one in seen if not one.is_off), key=lambda one: -int(np.sum(one.rows)))
    return [*(one for one in seen if one.is_off), *others]


def _how(process: OverTime, since: GapEnds | None) -> str:
    ends = process.running if since is None else since
    if ends.low > 0 or ends.high < 0:
        return f"scores {points_text(ends)}"
    value, low, high = points_of(*process.error)
    return f"some scores are too low and others too high, by {value} points ({low} to {high})"
