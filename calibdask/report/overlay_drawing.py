"""Reliability diagrams of several models over each other, as SVG."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from calibdask.plot import svg
from calibdask.plot.style import SERIES
from calibdask.results.reliability import Array, Bins

# In units of the drawing, which the page scales.
_LEFT, _TOP, _SIDE, _RIGHT, _BOTTOM, _LINE = 52.0, 8.0, 300.0, 150.0, 38.0, 18.0
_MOST_TICKS = 6
# Bins of fewer rows say almost nothing, and are left out.
FEWEST_ROWS = 20
MOST_MODELS = len(SERIES)


def overlay_picture(models: Mapping[str, Bins], across: str, upward: str) -> Markup:
    """Frequency by mean score of each bin with an interval, a line a model, as far as there are rows.

    Models are told apart by colour and by dashes; their names stand beside.
    """
    kept = {name: _Line.of(bins) for name, bins in models.items()}
    low, high = _reach(kept.values())
    place, height = svg.scale(low, high, _LEFT, _LEFT + _SIDE), svg.scale(low, high, _TOP + _SIDE, _TOP)
    parts = list(_axes(low, high, across, upward))
    parts.append(svg.line(place(low), height(low), place(high), height(high), "diagonal"))
    for turn, (name, line) in enumerate(kept.items()):
        x = place(line.score)
        kind = f"series-{turn}"
        ends = height(np.clip(line.low, low, high)), height(np.clip(line.high, low, high))
        parts.append(svg.sticks(x, *ends, f"{kind} ends-of"))
        parts.append(svg.polyline(x, height(line.outcome), f"{kind} of-model"))
        parts.append(svg.dots(x, height(line.outcome), f"{kind} points-of"))
        y = _TOP + 10 + _LINE * turn
        beside = _LEFT + _SIDE + 12
        parts.append(svg.line(beside, y, beside + 26, y, f"{kind} of-model"))
        parts.append(svg.text(beside + 32, y + 4, svg.short(name), "start"))
    label = f"Reliability diagrams of {', '.join(models)} over each other"
    return svg.picture("picture", _LEFT + _SIDE + _RIGHT, _TOP + _SIDE + _BOTTOM, parts, label)


@dataclass(frozen=True, eq=False)
class _Line:
    """The bins of a model that hold enough rows."""

    score: Array
    outcome: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, bins: Bins) -> "_Line":
        kept = bins.count >= FEWEST_ROWS
        return cls(*(values[kept] for values in (bins.score, bins.outcome, bins.low, bins.high)))


def _reach(lines: Iterable[_Line]) -> tuple[float, float]:
    """From 0 to the last bin, on both axes."""
    ends = [end for line in lines for end in (*line.score.tolist(), *line.outcome.tolist()) if np.isfinite(end)]
    return 0.0, min(1.0, 1.05 * max(ends, default=1.0))


def _axes(low: float, high: float, across: str, upward: str) -> Iterator[str]:
    """Grid, ticks and names of the axes, which have one scale."""
    place, height = svg.scale(low, high, _LEFT, _LEFT + _SIDE), svg.scale(low, high, _TOP + _SIDE, _TOP)
    for tick in svg.nice_ticks(low, high, _MOST_TICKS):
        yield svg.line(place(tick), _TOP, place(tick), _TOP + _SIDE, "grid")
        yield svg.line(_LEFT, height(tick), _LEFT + _SIDE, height(tick), "grid")
        yield svg.text(place(tick), _TOP + _SIDE + 15, f"{tick:g}", "middle")
        yield svg.text(_LEFT - 6, height(tick) + 4, f"{tick:g}", "end")
    yield svg.text(_LEFT + _SIDE / 2, _TOP + _SIDE + 33, across, "middle", "fine")
    yield svg.upward(11, _TOP + _SIDE / 2, upward)
