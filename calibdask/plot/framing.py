"""Frames in HoloViews: axes of a `Frame`, the histogram below, and notes on omitted data."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from calibdask.plot.frame import Frame, notes
from calibdask.plot.panels import Panel
from calibdask.plot.style import ROWS, SCORE
from calibdask.results.reliability import BinnedReliability, SmoothReliability

_LONGEST = 68


def framed(x: Any, y: Any, frame: Frame) -> tuple[Any, Any]:
    """Dimensions with the ends of the axes; ticks are read from them where they are not at quarters from 0 to 1."""
    return _axis(x, frame.across, frame.x_ticks, frame), _axis(y, frame.upward, frame.y_ticks, frame)


def rows_of(panel: Panel[Any], frame: Frame | None = None) -> Any:
    """Rows by bin, or by even part of the axis, and beneath them the notes."""
    import holoviews as hv

    shown: BinnedReliability | SmoothReliability = panel.shown
    frame = Frame.of([shown]) if frame is None else frame
    x, y = panel.across("left", SCORE), panel.upward("bottom", ROWS)
    if shown.drawn is None:
        assert isinstance(shown, BinnedReliability)
        lower, upper, count = shown.lower, shown.upper, shown.count
        starts, ends = lower, upper
    else:
        borders, count = frame.bars(shown.drawn)
        starts, ends = borders[:-1], borders[1:]
        scores = shown.drawn.axis.spread(borders.size)
        lower, upper = scores[:-1], scores[1:]
        x = x.clone(label=named_score(frame, notes(shown)))
    bars = (starts, np.zeros_like(count), ends, count, lower, upper)
    return hv.Rectangles(bars, [_axis(x, frame.across, frame.x_ticks, frame), y, "right", "top"], ["lower", "upper"])


def named_score(frame: Frame, sentences: Sequence[str], longest: int = _LONGEST) -> str:
    """The name of the axis of scores, with notes beneath it."""
    lines = [line for sentence in sentences for line in wrap(sentence, longest)]
    return "\n".join((f"{SCORE}, logit scale" if frame.axis.logit else SCORE, *lines))


def _axis(dimension: Any, ends: tuple[float, float], ticks: list[tuple[float, str]], frame: Frame) -> Any:
    if frame.is_full:
        return dimension.clone(range=ends)
    labels = dict(ticks)
    return dimension.clone(range=ends, values=list(labels), value_format=labels.get)
