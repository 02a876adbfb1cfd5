"""Intervals drawn against the limits that they have to keep."""

import math
from collections.abc import Sequence

from calibdask.analyses.gating.gate import judged_texts
from calibdask.analyses.gating.judging import Judgement
from calibdask.markup import Html
from calibdask.plot import svg
from calibdask.results.format import figure

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


def small_bar(judgement: Judgement, reach: tuple[float, float]) -> Html:
    """For a cell of a table: hidden from screen readers, as the numbers stand beside it."""
    parts = _parts(judgement, reach, (_WIDTH, _MARGIN), (0.0, _HEIGHT))
    return svg.hidden("limit-bar", _WIDTH, _HEIGHT, parts)


def large_bar(judgement: Judgement, caption: str) -> Html:
    """Bar with a scale for a banner; ``caption`` describes it for screen readers."""
    reach = range_of([judgement])
    place = (_LARGE_WIDTH, _LARGE_MARGIN)
    parts = _parts(judgement, reach, place, (_BAND_TOP, _BAND))
    parts.append(svg.line(_LARGE_MARGIN, _AXIS, _LARGE_WIDTH - _LARGE_MARGIN, _AXIS, "axis"))
    value, low, high = judged_texts(judgement)
    if math.isfinite(judgement.value):
        x = _along(judgement.value, reach, *place)
        parts.append(svg.text(x, _NUMBER, value, "middle"))
    taken: list[float] = []
    marks = [(f"limit {end:g}".replace("-", "−"), "limit", end) for end in _limits(judgement)]
    ends = ((low, judgement.low), (high, judgement.high), (figure(reach[0]), reach[0]))
    marks += [("0" if end == 0 else shown, "", end) for shown, end in ends if math.isfinite(end)]
    for words, name, end in marks:
        x = _along(end, reach, *place)
        if all(abs(x - other) > _APART * _LARGE_WIDTH for other in taken):
            taken.append(x)
            parts.append(svg.line(x, _AXIS, x, _AXIS + 4, "axis"))
            parts.append(svg.text(x, _AXIS + 17, words, "middle", name))
    return svg.picture("limit-bar large", _LARGE_WIDTH, _LARGE_HEIGHT, parts, caption)


def _parts(
    judgement: Judgement, reach: tuple[float, float], place: tuple[float, float], across: tuple[float, float]
) -> list[Html]:
    """Elements of a bar: shaded range within the limit, limits, interval and number."""
    top, height = across
    middle = top + height / 2
    kept = (min(max(end, reach[0]), reach[1]) for end in (judgement.least, judgement.most))
    first, last = (_along(end, reach, *place) for end in kept)
    parts = [svg.rect(first, top, last, top + height, "kept")]
    for end in _limits(judgement):
        x = _along(end, reach, *place)
        parts.append(svg.line(x, top, x, top + height, "limit"))
    if math.isfinite(judgement.low + judgement.high):
        low, high = (_along(end, reach, *place) for end in (judgement.low, judgement.high))
        parts.append(svg.line(low, middle, high, middle, "interval"))
    if math.isfinite(judgement.value):
        x = _along(judgement.value, reach, *place)
        parts.append(svg.circle(x, middle, height / 5, "dot"))
    return parts


def _along(end: float, reach: tuple[float, float], width: float, margin: float) -> float:
    return margin + (width - 2 * margin) * (end - reach[0]) / (reach[1] - reach[0])
