"""Output of ``calibdask watch``: a verdict, a line for each slice, and pending periods."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from calibdask.analyses.monitoring.alarms import Alarm, slice_key, slice_labels
from calibdask.analyses.monitoring.watch_run import WatchRun
from calibdask.render.text_layout import Column, Line, aligned, asides, table_lines, wrapped
from calibdask.render.text_table import MOST_SLICES, label_of
from calibdask.results.format import counted, named, points, shown_number, shown_texts, slice_text

_MOST_ALARMS = 10


def watch_lines(
    name: str, run: WatchRun, alarms: Sequence[Alarm], new: Collection[str], width: int, rule: str
) -> Iterator[Line]:
    """A verdict that is never empty, the alarms, the slices by their evidence, and the periods that are pending."""
    for sentence in _verdict(name, run, alarms, new):
        yield from (((line, "head"),) for line in wrapped(sentence, width))
    shown = sorted(alarms, key=lambda alarm: alarm.key not in new)
    for alarm in shown[:_MOST_ALARMS]:
        yield from (((line, ""),) for line in wrapped(alarm_sentence(alarm, new), width))
    if len(shown) > _MOST_ALARMS:
        yield from asides(f"... and {counted(len(shown) - _MOST_ALARMS, 'more alarm')}; --json gives them all.", width)
    if run.saved.periods.size:
        yield ()
        yield from table_lines(_columns(run, {alarm.key: alarm for alarm in alarms}), rule)
        yield from asides(_remainder(run), width)
    yield ()
    yield from asides(_foot(run), width)
    yield from asides(_pending(run), width)
    yield from asides(
        f"ignored, as they arrived late: {named([*map(slice_text, run.late)])}" if run.late.size else "", width
    )


def alarm_sentence(alarm: Alarm, new: Collection[str]) -> str:
    """Where, since when, and how far."""
    where = ", ".join(f"{dim} {slice_text(label)}" for dim, label in alarm.by.items()) or "all rows"
    news = "new alarm" if alarm.key in new else "alarm"
    return (
        f"{where}: off since {slice_text(alarm.since)}, {news} on {slice_text(alarm.period)}; by then {_size(alarm)}."
    )


def _size(alarm: Alarm) -> str:
    if alarm.gap_low > 0 or alarm.gap_high < 0:
        low, high = sorted((abs(alarm.gap_low), abs(alarm.gap_high)))
        word = "more" if alarm.gap > 0 else "less"
        span = f"{points(low)} to {points(high)}"
        return f"outcomes were {points(abs(alarm.gap))} points {word} frequent than scores say, {span}"
    if alarm.error_low > 0:
        return f"the calibration error over all rows was {points(alarm.error_low)} points or more"
    return "the error over all rows was too small to estimate"


def _verdict(name: str, run: WatchRun, alarms: Sequence[Alarm], new: Collection[str]) -> Iterator[str]:
    watched, periods = run.saved.watched, run.saved.periods
    if not periods.size:
        first = run.pending[0] if run.pending else {"due": "later"}
        count = f"{len(run.pending):,} pending, the first is due on {first['due']}"
        yield f"{name}: nothing to watch yet: no {watched.period} is due, {count}."
        return
    until = f"{counted(periods.size, 'period')} up to {slice_text(periods[-1])}"
    slices = int(np.prod(run.standing["log_e"].shape))
    within = f" within {watched.tolerance:g}" if watched.tolerance else ""
    if not alarms:
        yield f"{name}: quiet. No alarm in {until}."
        return
    count = counted(len(alarms), "alarm") + (f" in {slices:,} slices" if slices > 1 else "")
    fresh = sum(alarm.key in new for alarm in alarms)
    yield f"{name}: NOT calibrated{within}: {count}, {fresh or 'none'} new, in {until}."


def _columns(run: WatchRun, alarms: Mapping[str, Alarm]) -> list[Column]:
    standing = run.standing
    dims, shape = standing["log_e"].dims, standing["log_e"].shape
    by = [slice_labels(standing, dict(zip(dims, at, strict=True))) for at in np.ndindex(*shape)]
    log_e = standing["log_e"].values.ravel()
    order = sorted(range(len(by)), key=lambda place: (slice_key(by[place]) not in alarms, -log_e[place]))[:MOST_SLICES]

    def values(variable: str) -> list[Any]:
        flat = standing[variable].values.ravel()
        return [flat[place].item() for place in order]

    rows = values("rows")
    ends = zip(values("gap"), values("gap_low"), values("gap_high"), rows, strict=True)
    gaps = [shown_texts(*numbers, kind="difference", rows=count) for *numbers, count in ends]
    least = [shown_texts(error, rows=count) for error, count in zip(values("error_low"), rows, strict=True)]
    raised = [alarms.get(slice_key(by[place])) for place in order]
    return [
        *(Column([str(dim)], [[label_of(by[place][str(dim)])] for place in order]) for dim in dims),
        aligned(["rows"], [[shown_number(count)] for count in rows], role="aside"),
        *(aligned([head], [texts[i : i + 1] for texts in gaps]) for i, head in enumerate(("gap", "low", "high"))),
        aligned(["error", "at least"], least),
        aligned(["log E"], [[f"{number:,.2f}"] for number in values("log_e")]),
        aligned(["p"], [shown_texts(number, kind="pvalue") for number in values("pvalue")]),
        Column(["since"], [["-" if alarm is None else slice_text(alarm.since)] for alarm in raised]),
        Column(["alarm"], [["-" if alarm is None else slice_text(alarm.period)] for alarm in raised]),
    ]


def _remainder(run: WatchRun) -> str:
    more = int(np.prod(run.standing["log_e"].shape)) - MOST_SLICES
    return f"... and {more:,} more slices; --out or --metrics-file give them all." if more > 0 else ""


def _foot(run: WatchRun) -> str:
    watched = run.saved.watched
    level = f"alarms at E of {1 / watched.alpha:g} (log E {-math.log(watched.alpha):.2f})"
    if run.standing["log_e"].size > 1:
        level += ", of several slices by e-BH"
    ends = f"intervals and lower bounds are valid at all times with probability {100 * (1 - watched.alpha):g} %"
    return f"setting {watched.setting}, tolerance {watched.tolerance:g}; {level}; {ends}"


def _pending(run: WatchRun) -> str:
    """Periods that are not due, each with its rows."""
    period = run.saved.watched.period
    texts = [f"{slice_text(one[period])} ({counted(one['rows'], 'row')}, due {one['due']})" for one in run.pending]
    return f"pending, not watched: {named(texts)}" if texts else ""
