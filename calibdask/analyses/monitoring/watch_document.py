"""The document of a watch: the verdict, alarms, slices by evidence, and pending periods."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from calibdask.analyses.analysis import population_sentences
from calibdask.analyses.monitoring.alarms import Alarm, WatchResult, slice_key, slice_labels
from calibdask.engine.axes import column_name
from calibdask.render.text_table import MOST_SLICES, label_of
from calibdask.results.build import CLUSTER_NOTES, sentences_of
from calibdask.results.document import Cell, Document, Element, Section, Sentence, Table, numeric, text
from calibdask.results.format import counted, named, points, points_of, shown_number, shown_texts, slice_text

_MOST_ALARMS = 10
_COLUMNS = (
    ("rows", True),
    ("gap", True),
    ("low", True),
    ("high", True),
    ("error at least", True),
    ("log E", True),
    ("p", True),
    ("since", False),
    ("alarm", False),
)


def watch_document(dataset: xr.Dataset) -> Document:
    """The document of a result of `calibdask.watch`."""
    run = WatchResult.of(dataset)
    alarms = [Alarm.from_dict(record) for record in run.alarms]
    new = [alarm.key for alarm, record in zip(alarms, run.alarms, strict=True) if record["new"]]
    elements: list[Element] = [Sentence(words, lead=True, name="verdict") for words in _verdict(run, alarms, new)]
    shown = sorted(alarms, key=lambda alarm: alarm.key not in new)
    elements += [Sentence(alarm_sentence(alarm, new), name="alarm") for alarm in shown[:_MOST_ALARMS]]
    if len(shown) > _MOST_ALARMS:
        more = counted(len(shown) - _MOST_ALARMS, "more alarm")
        elements.append(Sentence(f"... and {more}; --json gives them all.", quiet=True))
    if run.saved.periods.size:
        elements.append(_table(run, {alarm.key: alarm for alarm in alarms}))
    late = f"ignored, as they arrived late: {named([*map(slice_text, run.late)])}" if run.late else ""
    notes = filter(None, (_foot(run), *sentences_of(run.dataset, CLUSTER_NOTES), _pending(run), late))
    elements += [Sentence(note, quiet=True) for note in notes]
    elements += population_sentences(dataset)
    return Document(f"Calibration over time of {run.name}", "", [Section("watch", "", elements)], name="watch")


def alarm_sentence(alarm: Alarm, new: Collection[str]) -> str:
    """Where, since when, and how far."""
    where = ", ".join(f"{column_name(dim)} {slice_text(label)}" for dim, label in alarm.by.items()) or "all rows"
    news = "new alarm" if alarm.key in new else "alarm"
    return (
        f"{where}: off since {slice_text(alarm.since)}, {news} on {slice_text(alarm.period)}; over all periods until "
        f"then {_size(alarm)}."
    )


def _size(alarm: Alarm) -> str:
    if alarm.gap_low > 0 or alarm.gap_high < 0:
        low, high = sorted((abs(alarm.gap_low), abs(alarm.gap_high)))
        word = "more" if alarm.gap > 0 else "less"
        value, least, most = points_of(abs(alarm.gap), low, high)
        span = f"{least} to {most}"
        return f"outcomes were {value} points {word} frequent than predicted, {span}"
    if alarm.error_low > 0:
        return f"the calibration error over all rows was {points(alarm.error_low)} points or more"
    return "the error over all rows was too small to estimate"


def _verdict(run: WatchResult, alarms: Sequence[Alarm], new: Collection[str]) -> Iterator[str]:
    name, watched, periods = run.name, run.saved.watched, run.saved.periods
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


def _table(run: WatchResult, alarms: Mapping[str, Alarm]) -> Table:
    """A line for each slice, those with alarms first, then by their evidence."""
    standing = run.standing
    dims, shape = standing["log_e"].dims, standing["log_e"].shape
    slices = [slice_labels(standing, dict(zip(dims, at, strict=True))) for at in np.ndindex(*shape)]
    log_e = standing["log_e"].values.ravel()
    order = sorted(range(len(slices)), key=lambda place: (slice_key(slices[place]) not in alarms, -log_e[place]))
    rows = []
    for place in order[:MOST_SLICES]:
        labels = [text(label_of(slices[place][str(dim)])) for dim in dims]
        alarm = alarms.get(slice_key(slices[place]))
        rows.append([*labels, *_numbers(run, place), *_alarm_cells(run, place, alarm)])
    columns = [*((column_name(dim), False) for dim in dims), *_COLUMNS]
    return Table("", columns, rows, _remainder(run), name="slices")


def _numbers(run: WatchResult, place: int) -> list[Cell]:
    """Rows, gap, error and evidence of one slice at the end of the last period."""

    def value(variable: str) -> float:
        number: float = run.standing[variable].values.ravel()[place].item()
        return number

    rows, gap, low, high = map(value, ("rows", "gap", "gap_low", "gap_high"))
    error, log_e, pvalue = map(value, ("error_low", "log_e", "pvalue"))
    gaps = shown_texts(gap, low, high, kind="difference", rows=rows)
    (least,) = shown_texts(error, rows=rows)
    (shown_pvalue,) = shown_texts(pvalue, kind="pvalue")
    numbers = [(rows, shown_number(rows)), *zip((gap, low, high), gaps, strict=True)]
    numbers += [(error, least), (log_e, f"{log_e:,.2f}"), (pvalue, shown_pvalue)]
    return [numeric(number, shown) for number, shown in numbers]


def _alarm_cells(run: WatchResult, place: int, alarm: Alarm | None) -> list[Cell]:
    """Since when scores are off, and the period of the alarm; without one since when there is evidence, if any."""
    if alarm is None:
        standing = run.standing
        has_evidence = standing["log_e"].values.ravel()[place] > 0
        return [text(slice_text(standing["since"].values.ravel()[place]) if has_evidence else "-"), text("-")]
    return [text(slice_text(alarm.since)), text(slice_text(alarm.period))]


def _remainder(run: WatchResult) -> str:
    more = int(np.prod(run.standing["log_e"].shape)) - MOST_SLICES
    return f"... and {more:,} more slices; --out or --metrics-file give them all." if more > 0 else ""


def _foot(run: WatchResult) -> str:
    watched = run.saved.watched
    batch = run.dataset.attrs.get("batch", ())
    slices = math.prod(size for dim, size in run.standing["log_e"].sizes.items() if dim not in batch)
    first = slices / watched.alpha
    level = f"alarms at E of {first:g} (log E {math.log(first):.2f})"
    if slices > 1:
        level = (
            f"with {slices:,} slices the first alarm needs E of {first:g} (log E {math.log(first):.2f}), k alarms E of "
            f"{first:g} / k each (e-BH)"
        )
    ends = f"intervals and lower bounds are valid at all times with probability {100 * (1 - watched.alpha):g} %"
    return f"setting {watched.setting}, tolerance {watched.tolerance:g}; {level}; {ends}"


def _pending(run: WatchResult) -> str:
    """Periods that are not due, each with its rows."""
    period = run.saved.watched.period
    texts = [f"{slice_text(one[period])} ({counted(one['rows'], 'row')}, due {one['due']})" for one in run.pending]
    return f"pending, not watched: {named(texts)}" if texts else ""
