"""Intervals drawn against the limits that they have to keep."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from calibdask.gating.judging import Judgement
from calibdask.results.format import figure
from calibdask.safe_text import visible

# In units of the drawing; the large one has a scale below.
_WIDTH, _HEIGHT, _MARGIN = 190.0, 18.0, 5.0
_LARGE_WIDTH, _LARGE_HEIGHT, _LARGE_MARGIN = 460.0, 76.0, 26.0
# The number stands above the band, the scale below.
_NUMBER, _BAND_TOP, _BAND, _AXIS = 13.0, 18.0, 24.0, 48.0
_ROOM = 0.12
# Labels of the scale that are nearer than this, as a share of the width, would run into each other.
_APART = 0.15


def range_of(judgements: Sequence[Judgement]) -> tuple[float, float]:
    """A range that holds these intervals and limits with some room; of errors it begins at 0."""
    ends = [end for one in judgements for end in (one.value, one.low, one.high, *_limits(one)) if math.isfinite(end)]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = _ROOM * (high - low or abs(high) or 1.0)
    return (0.0 if all(map(_is_error, judgements)) else low - room), high + room


def _is_error(judgement: Judgement) -> bool:
    """Whether it cannot be negative; of NaN nothing is known."""
    return judgement.least == -judgement.most and not min(judgement.value, judgement.low) < 0


def _limits(judgement: Judgement) -> list[float]:
    """The limits that are drawn; the lower one of what cannot be negative is none."""
    ends = [judgement.most] if _is_error(judgement) else [judgement.least, judgement.most]
    return [end for end in ends if math.isfinite(end)]


def small_bar(judgement: Judgement, reach: tuple[float, float]) -> Markup:
    """For a cell of a table: hidden from screen readers, as the numbers stand beside it."""
    parts = _parts(judgement, reach, (_WIDTH, _MARGIN), (0.0, _HEIGHT))
    box = f'width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}"'
    return Markup(f'<svg class="limit-bar" {box} aria-hidden="true">{"".join(parts)}</svg>')


def large_bar(judgement: Judgement, said: str) -> Markup:
    """For a banner, with a scale; ``said`` is what it shows, for screen readers."""
    reach = range_of([judgement])
    place = (_LARGE_WIDTH, _LARGE_MARGIN)
    parts = _parts(judgement, reach, place, (_BAND_TOP, _BAND))
    parts.append(
        f'<line class="axis" x1="{_LARGE_MARGIN}" y1="{_AXIS}" x2="{_LARGE_WIDTH - _LARGE_MARGIN}" y2="{_AXIS}"/>'
    )
    if math.isfinite(judgement.value):
        x = _along(judgement.value, reach, *place)
        parts.append(f'<text x="{x:.1f}" y="{_NUMBER}" text-anchor="middle">{figure(judgement.value)}</text>')
    taken: list[float] = []
    marks = [("limit", end) for end in _limits(judgement)]
    marks += [("", end) for end in (judgement.low, judgement.high, reach[0]) if math.isfinite(end)]
    for name, end in marks:
        x = _along(end, reach, *place)
        if all(abs(x - other) > _APART * _LARGE_WIDTH for other in taken):
            taken.append(x)
            words = f"limit {end:g}".replace("-", "−") if name else "0" if end == 0 else figure(end)
            parts.append(f'<line class="axis" x1="{x:.1f}" y1="{_AXIS}" x2="{x:.1f}" y2="{_AXIS + 4}"/>')
            parts.append(f'<text class="{name}" x="{x:.1f}" y="{_AXIS + 17}" text-anchor="middle">{words}</text>')
    box = f'viewBox="0 0 {_LARGE_WIDTH:.0f} {_LARGE_HEIGHT:.0f}"'
    label = Markup.escape(visible(said))
    return Markup(f'<svg class="limit-bar large" {box} role="img" aria-label="{label}">{"".join(parts)}</svg>')


def _parts(
    judgement: Judgement, reach: tuple[float, float], place: tuple[float, float], across: tuple[float, float]
) -> list[str]:
    """What is within the limit, shaded; the limits; the interval and the number."""
    top, height = across
    middle = top + height / 2
    kept = (min(max(end, reach[0]), reach[1]) for end in (judgement.least, judgement.most))
    first, last = (_along(end, reach, *place) for end in kept)
    parts = [f'<rect class="kept" x="{first:.1f}" y="{top}" width="{last - first:.1f}" height="{height}"/>']
    for end in _limits(judgement):
        x = _along(end, reach, *place)
        parts.append(f'<line class="limit" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + height}"/>')
    if math.isfinite(judgement.low + judgement.high):
        low, high = (_along(end, reach, *place) for end in (judgement.low, judgement.high))
        parts.append(f'<line class="interval" x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}"/>')
    if math.isfinite(judgement.value):
        x = _along(judgement.value, reach, *place)
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{middle}" r="{height / 5:.1f}"/>')
    return parts


def _along(end: float, reach: tuple[float, float], width: float, margin: float) -> float:
    return margin + (width - 2 * margin) * (end - reach[0]) / (reach[1] - reach[0])
