"""Reliability diagrams of several models over each other, as SVG."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibdask.estimators.smooth.score_axis import ScoreAxis
from calibdask.markup import Html
from calibdask.plot import svg
from calibdask.plot.frame import Frame
from calibdask.plot.style import SERIES
from calibdask.results.format import counted
from calibdask.results.reliability import BinnedReliability

# In units of the drawing, which the page scales.
_LEFT, _TOP, _SIDE, _RIGHT, _BOTTOM, _LINE = 52.0, 8.0, 300.0, 150.0, 38.0, 18.0
# Bins of fewer rows say almost nothing, and are left out.
FEWEST_ROWS = 20
MOST_MODELS = len(SERIES)


def overlay_picture(models: Mapping[str, BinnedReliability], across: str, upward: str) -> Html:
    """Frequency by mean score of each bin with an interval, a line a model, on the axis that their scores ask for.

    Models are told apart by colour and by dashes; their names stand beside.
    """
    frame = common_frame(list(models.values()))
    place = svg.scale(*frame.across, _LEFT, _LEFT + _SIDE)
    height = svg.scale(*frame.upward, _TOP + _SIDE, _TOP)
    parts = list(_axes(frame, across, upward))
    (left, right), (low, high) = frame.diagonal
    parts.append(svg.line(place(left), height(low), place(right), height(high), "diagonal"))
    for turn, (name, bins) in enumerate(models.items()):
        kept = np.flatnonzero(np.isfinite(frame.x(bins.score)) & (bins.count >= FEWEST_ROWS))
        x = place(frame.x(bins.score[kept]))
        outcome, low, high = [height(frame.y(of[kept])) for of in (bins.outcome, bins.low, bins.high)]
        kind = f"series-{turn}"
        parts.append(svg.sticks(x, low, high, f"{kind} ends-of"))
        parts.append(svg.polyline(x, outcome, f"{kind} of-model"))
        parts.append(svg.dots(x, outcome, f"{kind} points-of"))
        y = _TOP + 10 + _LINE * turn
        beside = _LEFT + _SIDE + 12
        parts.append(svg.line(beside, y, beside + 26, y, f"{kind} of-model"))
        parts.append(svg.text(beside + 32, y + 4, svg.short(name), "start"))
    label = f"Reliability diagrams of {', '.join(models)} over each other"
    return svg.picture("picture", _LEFT + _SIDE + _RIGHT, _TOP + _SIDE + _BOTTOM, parts, label)


def overlay_notes(models: Mapping[str, BinnedReliability]) -> Iterator[str]:
    """Sentences on the bins, and on those that do not stand where they are."""
    shown = list(models.values())
    frame = common_frame(shown)
    if all(bins.drawn is not None and bins.drawn.equal_masses for bins in shown):
        yield "Bins of equal mass."
    beyond = sum(int(((bins.count >= FEWEST_ROWS) & np.isnan(frame.x(bins.score))).sum()) for bins in shown)
    if beyond:
        yield f"{counted(beyond, 'bin')} beyond the axis not drawn."
    if frame.axis.logit:
        outcomes = np.concatenate([bins.outcome[bins.count >= FEWEST_ROWS] for bins in shown])
        if edge := int(((outcomes <= 0) | (outcomes >= 1)).sum()):
            yield f"{counted(edge, 'point')} at the edge: frequency 0 or 1."


def common_frame(shown: Sequence[BinnedReliability]) -> Frame:
    """The frame of all diagrams; on the logit scale where one of them asks for it and all can be there."""
    axes = [bins.drawn.axis for bins in shown if bins.drawn is not None]
    scores = np.concatenate([bins.score[bins.count >= FEWEST_ROWS] for bins in shown])
    if not (any(axis.logit for axis in axes) and len(axes) == len(shown) and scores.size):
        return Frame.of(shown)
    axis = ScoreAxis(True, float(scores.min()), float(scores.max()))
    if not 0 < axis.left < axis.right < 1:
        return Frame.of(shown)
    return Frame.of([replace(bins, drawn=bins.drawn and bins.drawn._replace(axis=axis)) for bins in shown])


def _axes(frame: Frame, across: str, upward: str) -> Iterator[Html]:
    """Grid, ticks and names of the axes, which have one scale."""
    place = svg.scale(*frame.across, _LEFT, _LEFT + _SIDE)
    height = svg.scale(*frame.upward, _TOP + _SIDE, _TOP)
    for tick, label in frame.x_ticks:
        yield svg.line(place(tick), _TOP, place(tick), _TOP + _SIDE, "grid")
        yield svg.text(place(tick), _TOP + _SIDE + 15, label, "middle")
    for tick, label in frame.y_ticks:
        yield svg.line(_LEFT, height(tick), _LEFT + _SIDE, height(tick), "grid")
        yield svg.text(_LEFT - 6, height(tick) + 4, label, "end")
    scale = f"{across}, logit scale" if frame.axis.logit else across
    yield svg.text(_LEFT + _SIDE / 2, _TOP + _SIDE + 33, scale, "middle", "fine")
    yield svg.upward(11, _TOP + _SIDE / 2, upward)
