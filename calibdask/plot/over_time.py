"""Calibration over time as SVG: running and daily gaps, evidence on a log axis, slices in small.

The same pictures serve pages of the explorer and reports: sharp at any size and on paper, without scripts. Their looks
are in ``over_time.css``, which both pages include.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.markup import Html
from calibdask.plot import svg
from calibdask.plot.style import BAND, BARS, OVER, UNDER
from calibdask.results.format import counted
from calibdask.results.over_time import Mark, OverTime, evidence_text, period_text, places, points_text

Array = npt.NDArray[np.float64]

# In units of the drawing, which the page scales.
_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT = 420.0, 48.0, 10.0, 30.0, 262.0
_STRIP, _BETWEEN, _BOTTOM = 28.0, 16.0, 20.0
_MINI_WIDTH, _MINI_HEIGHT, _MINI_TOP, _MINI_BOTTOM = 240.0, 112.0, 6.0, 20.0
# Width of a sign in the size of small words, and of those of small pictures.
_SIGN, _MINI_SIGN = 6.2, 8.0
_MOST_TICKS, _MOST_HINTS = 5, 400
# Ticks of the evidence with more digits would reach its name along the axis.
_TICK_DIGITS = 4
# Small pictures go up to this power of the threshold: beyond it more evidence makes no difference.
_MOST_POWER = 4.0
_LN10 = math.log(10)
# Between ticks of a log axis, in powers of ten: evidence has no more than 10**9 of them.
_STEPS = [factor * 10**power for power in range(9) for factor in (1, 2, 5)]


class Pending(NamedTuple):
    """Periods whose labels are not due, which are never tested, with their rows."""

    periods: npt.NDArray[Any]
    rows: npt.NDArray[Any]


@cache
def style() -> str:
    """The style sheet of these pictures."""
    text = files("calibdask.plot").joinpath("over_time.css").read_text(encoding="utf-8")
    return Template(text).substitute(over=OVER, under=UNDER, bar=BARS, band=BAND)


@dataclass(frozen=True, eq=False)
class _Timeline:
    """The periods of a picture and where they are across it; ``half`` is half the distance of the nearest two."""

    labels: npt.NDArray[Any]
    x: Array
    half: float
    left: float
    right: float

    @classmethod
    def of(cls, process: OverTime, pending: Pending | None, left: float, right: float) -> "_Timeline":
        labels = process.periods
        if pending is not None and pending.periods.size:
            labels = np.unique(np.concatenate([labels, pending.periods.astype(labels.dtype)]))
        at = places(labels)
        if labels.size == 1:
            return cls(labels, np.array([(left + right) / 2]), (right - left) / 8, left, right)
        # Half of the nearest distance is left at both ends.
        nearest = float(np.diff(at).min())
        unit = (right - left) / (at[-1] - at[0] + nearest)
        return cls(labels, left + unit * (at - at[0] + nearest / 2), unit * nearest / 2, left, right)

    def at(self, labels: npt.NDArray[Any]) -> Array:
        return self.x[np.searchsorted(self.labels, np.asarray(labels).astype(self.labels.dtype))]

    def start(self, label: Any) -> float:
        """The left end of a period, or of the picture if it is earlier."""
        number = int(np.searchsorted(self.labels, np.asarray(label).astype(self.labels.dtype)))
        return max(self.left, float(self.x[min(number, self.x.size - 1)]) - self.half)

    def ticks(self, y: float, sign: float, most: int) -> Html:
        """Labels of some periods, as many as there is room for, the first and the last among them."""
        texts = [svg.short(period_text(label)) for label in self.labels]
        wide = sign * max(map(len, texts))
        count = max(1, min(most, self.x.size, int((self.right - self.left) // (wide + 2 * sign))))
        wanted = np.linspace(self.x[0], self.x[-1], count) if count > 1 else self.x[:1]
        chosen = dict.fromkeys(int(np.abs(self.x - x).argmin()) for x in wanted.tolist())
        parts, ends = [], []
        for number in chosen:
            half = sign * len(texts[number]) / 2
            x = min(max(float(self.x[number]), half + 1), self.right + 8 - half)
            parts.append(svg.text(x, y, texts[number], "middle"))
            ends.append((x - half, x + half))
        return svg.joined(part for part, kept in zip(parts, svg.spread_out(ends, sign), strict=True) if kept)


def gap_picture(process: OverTime, marks: Sequence[Mark] = (), pending: Pending | None = None) -> Html:
    """The running gap with its confidence sequence, daily gaps with intervals faint behind, rows beneath."""
    across = _Timeline.of(process, pending, _LEFT, _WIDTH - _RIGHT)
    top, foot = _TOP, _HEIGHT - _BOTTOM - _STRIP - _BETWEEN
    low, high = _gap_range(process)
    up = svg.scale(low, high, foot, top)
    x = across.at(process.periods)
    seen = process.rows > 0
    parts = [_marked(across, process, marks, pending, top, foot)]
    for tick in svg.nice_ticks(100 * low, 100 * high, _MOST_TICKS):
        parts.append(svg.line(across.left, up(tick / 100), across.right, up(tick / 100), "grid" if tick else "axis"))
        parts.append(svg.text(across.left - 5, up(tick / 100) + 3.5, svg.signed(tick), "end"))
    parts.append(svg.upward(10, (top + foot) / 2, "outcome − score, points"))

    def within(values: Array) -> Array:
        return np.where(seen, up(np.clip(values, low, high)), np.nan)

    inside = (process.period_gap >= low) & (process.period_gap <= high)
    daily = np.where(inside, process.period_gap, np.nan)
    beyond = np.where(inside, np.nan, process.period_gap)
    # Of many days one would see nothing else.
    faint = min(1.0, 0.1 + across.half / 2)
    days = svg.sticks(x, within(process.period_low), within(process.period_high), "once", min(1.2, 0.4 + across.half))
    group = Html('<g opacity="{:.2f}">{}{}{}</g>')
    # Gaps beyond the axis are hollow, at its end.
    parts.append(
        group.format(faint, days, svg.dots(x, within(daily), "day"), svg.dots(x, within(beyond), "day beyond"))
    )
    # After periods without rows the running gap is what it was.
    bottom, over = (up(np.clip(ends, low, high)) for ends in (process.gap_low, process.gap_high))
    parts.append(svg.between(x, bottom, over, "sequence"))
    running = up(np.clip(process.gap, low, high))
    parts.append(svg.polyline(x, running, "running"))
    if np.isfinite(running).sum() == 1:
        parts += [svg.sticks(x, bottom, over, "alone"), svg.dots(x, running, "now")]
    parts += [_rows(across, process, pending), across.ticks(_HEIGHT - 5, _SIGN, 4)]
    parts += _hints(across, process, top, _HEIGHT - _BOTTOM)
    tooltip = points_text(process.running) if seen.any() else "no rows"
    return svg.picture("time", _WIDTH, _HEIGHT, parts, f"{_name(process)}: running gap by {process.period}; {tooltip}")


def evidence_picture(process: OverTime, marks: Sequence[Mark] = (), pending: Pending | None = None) -> Html:
    """The e-process on a log axis, the line of an alarm, and the time since when evidence grows."""
    across = _Timeline.of(process, pending, _LEFT, _WIDTH - _RIGHT)
    top, foot = _TOP, _HEIGHT - _BOTTOM
    power, line = process.log_e / _LN10, process.threshold / _LN10
    low = min(-0.5, float(power.min()) - 0.2)
    high = max(1.3 * line, 1.08 * float(power.max()))
    up = svg.scale(low, high, foot, top)
    parts = [_marked(across, process, marks, pending, top, foot)]
    for tick in _powers(low, high):
        parts.append(svg.line(across.left, up(tick), across.right, up(tick), "grid" if tick else "axis"))
        parts.append(svg.text(across.left - 5, up(tick) + 3.5, evidence_text(tick * _LN10, _TICK_DIGITS), "end"))
    parts.append(svg.upward(10, (top + foot) / 2, "evidence E"))
    parts.append(svg.line(across.left, up(line), across.right, up(line), "alarm"))
    x = across.at(process.periods)
    parts.append(svg.polyline(x, up(power), "evidence"))
    if x.size == 1:
        parts.append(svg.dots(x, up(power), "now"))
    words = f"alarm at 1 / {process.alpha:g} = {evidence_text(process.threshold)}"
    # Where the line of evidence is not, unless there is no room below.
    below = x.size > 1 and power[: x.size // 2].max() > line and up(line) < foot - 16
    parts.append(svg.text(across.left + 4, up(line) + (12 if below else -4), words, "start", "alarming"))
    parts.append(across.ticks(_HEIGHT - 5, _SIGN, 4))
    parts += _hints(across, process, top, foot)
    tooltip = f"{evidence_text(process.evidence)} at the last, {evidence_text(process.largest)} at most"
    return svg.picture("time", _WIDTH, _HEIGHT, parts, f"{_name(process)}: evidence by {process.period}, {tooltip}")


def small_picture(process: OverTime, powers: tuple[float, float], pending: Pending | None = None) -> Html:
    """Small chart of one e-process on a log axis that all small charts share."""
    across = _Timeline.of(process, pending, 8.0, _MINI_WIDTH - 8.0)
    top, foot = _MINI_TOP, _MINI_HEIGHT - _MINI_BOTTOM
    line = process.threshold / _LN10
    low, high = powers
    up = svg.scale(low, high, foot, top)
    parts = [_shaded(across, process, pending, top, foot)]
    parts.append(svg.line(across.left, up(0.0), across.right, up(0.0), "axis"))
    parts.append(svg.line(across.left, up(line), across.right, up(line), "alarm"))
    x, power = across.at(process.periods), up(np.clip(process.log_e / _LN10, low, high))
    parts.append(svg.polyline(x, power, "evidence"))
    if x.size == 1:
        parts.append(svg.dots(x, power, "now"))
    parts.append(across.ticks(_MINI_HEIGHT - 4, _MINI_SIGN, 2))
    tooltip = f"evidence {evidence_text(process.evidence)} by {process.period}"
    return svg.picture("time mini", _MINI_WIDTH, _MINI_HEIGHT, parts, f"{_name(process)}: {tooltip}")


def small_range(processes: Sequence[OverTime]) -> tuple[float, float]:
    """The powers of ten that small pictures of these show, between 0.01 and the fourth power of the threshold."""
    line = max((one.threshold for one in processes), default=1.0) / _LN10
    powers = np.concatenate([[-0.5, 1.5 * line], *(one.log_e / _LN10 for one in processes)])
    return max(-2.0, float(powers.min()) - 0.1), min(_MOST_POWER * line, float(powers.max()) + 0.1)


def small_caption(process: OverTime) -> str:
    """Caption of a small chart."""
    since = f", since {period_text(process.since)}" if process.is_off else ""
    return f"{process.label or 'all rows'}: evidence {evidence_text(process.evidence)}{since}"


def _name(process: OverTime) -> str:
    return process.label or "all rows"


def _gap_range(process: OverTime) -> tuple[float, float]:
    """0, the running gaps, gaps of periods since which a process is off, and most of what else is drawn.

    Early intervals would take all of the room.
    """
    seen = np.flatnonzero(process.rows > 0)
    if not seen.size:
        return -0.01, 0.01
    late = seen[seen.size // 4 :]
    daily = np.quantile(process.period_gap[seen], [0.2, 0.8])
    if process.is_off:
        # Those that have raised the alarm are shown.
        daily = np.r_[daily, process.period_gap[seen][process.periods[seen] >= process.since]]
    known = np.concatenate([[0.0], daily, process.gap[late], process.gap_low[late], process.gap_high[late]])
    low, high = float(known.min()), float(known.max())
    margin = 0.06 * (high - low) or 0.01
    return max(low - margin, -1.0), min(high + margin, 1.0)


def _powers(low: float, high: float) -> list[float]:
    """Whole powers of ten, not more than there is room for."""
    step = next(step for step in _STEPS if (high - low) / step <= _MOST_TICKS + 1)
    return [float(step * number) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _shaded(across: _Timeline, process: OverTime, pending: Pending | None, top: float, foot: float) -> Html:
    """The time since when a process is off, and the periods that are pending."""
    parts = []
    if process.is_off:
        end = min(across.right, float(across.at(process.periods)[-1]) + across.half)
        parts.append(svg.rect(across.start(process.since), top, end, foot, "since"))
    if pending is not None and pending.periods.size:
        at = across.at(pending.periods).tolist()
        parts += [svg.rect(x - across.half, top, x + across.half, foot, "pending") for x in at]
    return svg.joined(parts)


def _marked(
    across: _Timeline, process: OverTime, marks: Sequence[Mark], pending: Pending | None, top: float, foot: float
) -> Html:
    """Shaded ranges with labels, and lines at changes."""
    parts = [_shaded(across, process, pending, top, foot)]
    if process.is_off:
        x, words = across.start(process.since), f"since {period_text(process.since)}"
        parts.append(_above(across, x, top - 4, words, "beginning"))
    inside = [mark for mark in marks if across.labels[0] < np.asarray(mark.period).astype(across.labels.dtype)]
    spans = []
    for mark in inside:
        x = across.start(mark.period)
        parts.append(svg.line(x, top, x, foot, "mark"))
        spans.append(_span(across, x, svg.short(mark.words)))
    for mark, span, kept in zip(inside, spans, svg.spread_out(spans, _SIGN), strict=True):
        if kept:
            parts.append(svg.titled(svg.text(span[0], top - 17, svg.short(mark.words), "start", "new"), mark.words))
    return svg.joined(parts)


def _span(across: _Timeline, x: float, words: str) -> tuple[float, float]:
    """Where words above a line begin and end, within the picture."""
    wide = _SIGN * len(words)
    start = min(x, across.right + 8 - wide)
    return start, start + wide


def _above(across: _Timeline, x: float, y: float, words: str, name: str) -> Html:
    return svg.text(_span(across, x, words)[0], y, words, "start", name)


def _rows(across: _Timeline, process: OverTime, pending: Pending | None) -> Html:
    """Rows by period, pending ones in grey."""
    foot = _HEIGHT - _BOTTOM
    waiting = np.zeros(0) if pending is None else pending.rows.astype(np.float64)
    most = max(1.0, float(process.rows.max(initial=0)), float(waiting.max(initial=0)))
    wide = max(0.5, 1.6 * across.half)
    parts = []

    def bars(labels: npt.NDArray[Any], rows: npt.NDArray[Any], name: str) -> None:
        heights = foot - _STRIP * np.where(rows > 0, rows, np.nan) / most
        parts.append(svg.sticks(across.at(labels), np.full(heights.shape, foot), heights, name, min(wide, 60)))

    bars(process.periods, process.rows, "rows")
    if pending is not None and pending.periods.size:
        bars(pending.periods, waiting, "waiting")
        words = f"pending: {counted(int(waiting.sum()), 'row')} not due"
        parts.append(svg.text(across.right, foot - _STRIP - 4, words, "end", "quiet"))
    parts.append(svg.line(across.left, foot, across.right, foot, "axis"))
    parts.append(svg.text(across.left - 5, foot - _STRIP + 7, _count(most), "end"))
    parts.append(svg.text(across.left, foot - _STRIP - 4, "rows", "start", "quiet"))
    return svg.joined(parts)


def _count(number: float) -> str:
    """A number of rows in four signs or so."""
    for least, unit, sign in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if number >= least:
            return f"{number / unit:.3g}{sign}"
    return f"{number:,.0f}"


def _hints(across: _Timeline, process: OverTime, top: float, foot: float) -> list[Html]:
    """Tooltips of periods; with many periods, of some."""
    step = -(-process.periods.size // _MOST_HINTS)
    x, parts = across.at(process.periods), []
    for number in range(step - 1, process.periods.size, step):
        tooltip = [period_text(process.periods[number]), counted(int(process.rows[number]), "row")]
        if math.isfinite(process.gap[number]):
            tooltip.append(f"so far {100 * process.gap[number]:+.2f} points")
        if process.rows[number]:
            tooltip.append(f"alone {100 * process.period_gap[number]:+.2f} points")
        tooltip.append(f"evidence {evidence_text(float(process.log_e[number]))}")
        start, end = x[max(0, number - step + 1)] - across.half, x[number] + across.half
        parts.append(svg.titled(svg.rect(start, top, end, foot, "hint"), " · ".join(tooltip)))
    return parts
