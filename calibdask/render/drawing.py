"""Charts as SVG inside the page: sharp at any size and on paper, without scripts or files beside the page.

Those of `calibdask.plot` need a script to be shown, or Matplotlib to be written to files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.axes import column_name
from calibdask.estimators.smooth.score_axis import ScoreAxis
from calibdask.markup import Html
from calibdask.plot import svg
from calibdask.plot.decision_charts import BELT, KINDS, Chart, Range
from calibdask.plot.frame import Frame
from calibdask.plot.style import DENSITY, FREQUENCY, ROWS, SCORE, SERIES
from calibdask.results.document import Figure
from calibdask.results.format import counted, figure, slice_text
from calibdask.results.reliability import Array, BinnedReliability, SmoothReliability

# In units of the drawing, which the page scales.
_SIDE, _LEFT, _TOP, _RIGHT = 270.0, 54.0, 8.0, 10.0
_STRIP, _BETWEEN, _BOTTOM = 56.0, 26.0, 36.0
_FOOT = _TOP + _SIDE + _BETWEEN + _STRIP
# Where the names of vertical axes stand; the page hides them in small plots.
_NAME_AT = 9.0
_HALF_A_LETTER = 3.5
# Of the horizontal and the vertical axis.
Names = tuple[str, str]
Ticks = Sequence[tuple[float, str]]
_NAMES: Names = (SCORE, FREQUENCY)
# The radius of points of bins of equal mass.
_EQUAL_SIZE = 4.0
_FOREST_WIDTH, _FOREST_HEIGHT, _MARGIN = 150.0, 16.0, 5.0
# Diagrams over each other, with the names of the models beside them.
_LARGE_SIDE, _BESIDE, _LINE = 300.0, 150.0, 18.0
# Bins of fewer rows say almost nothing, and are left out where models are over each other.
FEWEST_ROWS = 20
MOST_MODELS, MOST_PANELS = len(SERIES), 6
_MOST_TICKS = 6
_WIDEST = "band", "ends"
_DASHES = "dashed", "dotted"


@dataclass(frozen=True)
class Plane:
    """The rectangle that a chart is drawn in: the ends of its axes, its width and height."""

    across: Range
    upward: Range
    width: float = _SIDE
    height: float = _SIDE

    @classmethod
    def of(cls, frame: Frame, side: float = _SIDE) -> "Plane":
        """The square of a frame; axes from 0 to 1 fill it, others have a little room."""
        ends = ((0.0, 1.0), (0.0, 1.0)) if frame.is_full else (frame.across, frame.upward)
        return cls(*ends, side, side)

    @property
    def right(self) -> float:
        """The right end of a picture of this plane alone."""
        return _LEFT + self.width + _RIGHT

    def x(self, values: Any) -> Any:
        """Distances from the left end."""
        return svg.scale(*self.across, 0.0, self.width)(values)

    def y(self, values: Any) -> Any:
        """Distances from the top."""
        return svg.scale(*self.upward, self.height, 0.0)(values)

    def clipped(self, parts: Sequence[Html]) -> Html:
        """Parts within the rectangle."""
        return svg.window(_LEFT, _TOP, self.width, self.height, parts)

    def circle(self, x: float, y: float, radius: float, name: str) -> Html:
        """A point; those at an edge are drawn whole."""
        return svg.circle(_LEFT + x, _TOP + y, radius, name)

    def diagonal(self, frame: Frame) -> Html:
        """The line of calibration."""
        (left, right), (low, high) = frame.diagonal
        return svg.line(self.x(left), self.y(low), self.x(right), self.y(high), "diagonal")

    def axes(self, names: Names, x_ticks: Ticks = (), y_ticks: Ticks = (), beneath: float = 0.0) -> Iterator[Html]:
        """Grid, ticks, by default of round numbers, and names of the axes; ``beneath`` is the room for more."""
        foot = _TOP + self.height
        x_ticks, y_ticks = x_ticks or _ticks(self.across), y_ticks or _ticks(self.upward)
        for number, (place, label) in enumerate(x_ticks):
            x = _LEFT + self.x(place)
            yield svg.line(x, _TOP, x, foot, "grid")
            yield self.label(x, foot + 15, label, _fine(number, len(x_ticks)))
        for number, (place, label) in enumerate(y_ticks):
            y = _TOP + self.y(place)
            yield svg.line(_LEFT, y, _LEFT + self.width, y, "grid")
            yield svg.text(_LEFT - 6, y + 4, label, "end", _fine(number, len(y_ticks)))
        yield svg.upward(_NAME_AT, _TOP + self.height / 2, names[1])
        yield svg.text(_LEFT + self.width / 2, foot + beneath + 32, names[0], "middle", "fine")

    def label(self, x: float, y: float, label: str, name: str) -> Html:
        """The label of a tick; a long one at the right end stands before it."""
        is_cut = _HALF_A_LETTER * len(label) > self.right - x
        return svg.text(self.right, y, label, "end", name) if is_cut else svg.text(x, y, label, "middle", name)

    def picture(self, parts: Sequence[Html], label: str, *, beside: float = _RIGHT, beneath: float = 0.0) -> Html:
        """The picture of this plane, with room beside and beneath it."""
        width, height = _LEFT + self.width + beside, _TOP + self.height + beneath + _BOTTOM
        return svg.picture("picture", width, height, parts, label)


def _ticks(ends: Range) -> Ticks:
    return [(tick, f"{tick:g}".replace("-", "−")) for tick in svg.nice_ticks(*ends, _MOST_TICKS)]


def _fine(number: int, ticks: int) -> str:
    """Labels that small plots leave out: all but the first, the last and that in the middle."""
    return "" if number in (0, ticks - 1) or (ticks % 2 and number == ticks // 2) else "fine"


def _frame_axes(plane: Plane, frame: Frame, names: Names, beneath: float = 0.0) -> Iterator[Html]:
    across = f"{names[0]}, logit scale" if frame.axis.logit else names[0]
    return plane.axes((across, names[1]), frame.x_ticks, frame.y_ticks, beneath)


def diagram_picture(bins: BinnedReliability, title: str, names: Names = _NAMES, frame: Frame | None = None) -> Html:
    """Reliability diagram with intervals, and rows by bin below.

    Parameters
    ----------
    bins : BinnedReliability
    title : str
        What the picture is called where it is read aloud.
    names : pair of str
        Names of the horizontal and the vertical axis.
    frame : Frame, optional
        The axes, where several diagrams share them.
    """
    frame = Frame.of([bins]) if frame is None else frame
    plane = Plane.of(frame)
    inside = [plane.diagonal(frame)]
    most = bins.count.max(initial=1.0)
    on, is_equal = frame.inside(bins), bins.drawn is not None and bins.drawn.equal_masses
    across = plane.x(frame.x(bins.score))
    upward, low, high = (plane.y(frame.y(ends)) for ends in (bins.outcome, bins.low, bins.high))
    dots = []
    for i in np.flatnonzero(on):
        size = _EQUAL_SIZE if is_equal else 2.2 + 4.8 * np.sqrt(bins.count[i] / most)
        side = "over" if bins.gap[i] < 0 else "under"
        if np.isfinite(bins.low[i]):
            inside.append(svg.line(across[i], low[i], across[i], high[i], f"whisker {side}"))
        dots.append(plane.circle(across[i], upward[i], size, f"dot {side}"))
    strip = _BETWEEN + _STRIP
    parts = [*_frame_axes(plane, frame, names, strip), plane.clipped(inside), *dots, _strip(bins, frame, plane)]
    label = f"{title}: reliability diagram of {counted(bins.score.size, 'bin')}, calibration error {figure(bins.error)}"
    return plane.picture(parts, label, beneath=strip)


def curve_picture(curve: SmoothReliability, title: str, names: Names = _NAMES) -> Html:
    """The reliability curve on either side of the diagonal with its bands, the rows or the density below."""
    frame = Frame.of([curve])
    plane = Plane.of(frame)
    across = plane.x(frame.x(curve.score))
    inside = []
    for name, low, high in (("band", curve.band_low, curve.band_high), ("ends", curve.low, curve.high)):
        if np.isfinite(low).any():
            inside.append(svg.between(across, plane.y(frame.y(low)), plane.y(frame.y(high)), name))
    inside.append(plane.diagonal(frame))
    for side, half in curve.split().items():
        x, y = plane.x(frame.x(half.score)), plane.y(frame.y(half.reliability))
        inside.append(svg.polyline(x, y, f"curve {side}"))
    strip = _BETWEEN + _STRIP
    parts = [*_frame_axes(plane, frame, names, strip), plane.clipped(inside), _strip(curve, frame, plane)]
    band = " with its band" if curve.has_band or curve.has_interval else ""
    return plane.picture(parts, f"{title}: reliability curve{band}, and the scores", beneath=strip)


def overlay_picture(models: Mapping[str, BinnedReliability], across: str, upward: str) -> Html:
    """Frequency by mean score of each bin with an interval, a line a model, on the axis that their scores ask for.

    Models are told apart by colour and by dashes; their names stand beside.
    """
    frame = common_frame(list(models.values()))
    plane = Plane(frame.across, frame.upward, _LARGE_SIDE, _LARGE_SIDE)
    inside = [plane.diagonal(frame)]
    names: list[Html] = []
    for turn, (name, bins) in enumerate(models.items()):
        kept = np.flatnonzero(np.isfinite(frame.x(bins.score)) & (bins.count >= FEWEST_ROWS))
        x = plane.x(frame.x(bins.score[kept]))
        outcome, low, high = [plane.y(frame.y(of[kept])) for of in (bins.outcome, bins.low, bins.high)]
        kind = f"series-{turn}"
        inside.append(svg.sticks(x, low, high, f"{kind} ends-of"))
        inside.append(svg.polyline(x, outcome, f"{kind} of-model"))
        inside.append(svg.dots(x, outcome, f"{kind} points-of"))
        y = _TOP + 10 + _LINE * turn
        beside = _LEFT + _LARGE_SIDE + 12
        names.append(svg.line(beside, y, beside + 26, y, f"{kind} of-model"))
        names.append(svg.text(beside + 32, y + 4, svg.short(name), "start"))
    parts = [*_frame_axes(plane, frame, (across, upward)), plane.clipped(inside), *names]
    label = f"Reliability diagrams of {', '.join(models)} over each other"
    return plane.picture(parts, label, beside=_BESIDE)


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


def chart_figures(dataset: xr.Dataset, name: str) -> Iterator[Figure]:
    """A figure of each such curve of a result; of many classes, the first six."""
    for kind in KINDS:
        for metric in kind.metrics(dataset):
            dims = kind.dims(dataset, metric)
            for position in islice(product(*(range(dataset.sizes[dim]) for dim in dims)), MOST_PANELS):
                at = dict(zip(dims, position, strict=True))
                labels = (f"{column_name(dim)} {slice_text(dataset[dim].values[i])}" for dim, i in at.items())
                title = ", ".join((f"{name}: {kind.name.lower()}", *labels))
                chart = kind.chart(dataset, metric, at)
                height = _SIDE if kind is BELT else 0.7 * _SIDE
                yield Figure(chart_picture(chart, title, height), f"{title}; {_chart_reading(chart)}")


def chart_picture(chart: Chart, title: str, height: float) -> Html:
    """Bands, lines of reference and the line, cut off at the ends of the axes."""
    plane = Plane(chart.reach_x, chart.reach_y, height=height)
    x = plane.x(chart.x)
    widths = _WIDEST[-len(chart.bands) :] if chart.bands else ()
    bands = [
        svg.between(x, plane.y(band.low), plane.y(band.high), wide)
        for band, wide in zip(chart.bands, widths, strict=True)
    ]
    references = [
        svg.polyline(x, plane.y(line.y), f"reference {dash}")
        for line, dash in zip(chart.references, _DASHES, strict=False)
    ]
    inside = [*bands, *references, svg.polyline(x, plane.y(chart.line.y), "curve main")]
    return plane.picture([*plane.axes((chart.across, chart.upward)), plane.clipped(inside)], title)


def _chart_reading(chart: Chart) -> str:
    """Explanation of the lines of a chart."""
    lines = [f"solid: {chart.line.name}"]
    lines += [f"{dash}: {line.name}" for dash, line in zip(_DASHES, chart.references, strict=False)]
    if chart.bands:
        lines.append(f"shaded: {', '.join(band.name for band in chart.bands)}")
    return "; ".join(filter(None, (chart.numbers, *lines)))


def forest_range(ends: Sequence[float]) -> tuple[float, float]:
    """The range of these values and 0."""
    known = [0.0, *(end for end in ends if np.isfinite(end))]
    low, high = min(known), max(known)
    return (low, high) if high > low else (low, low + 1.0)


def forest(value: float, low: float | None, high: float | None, reach: tuple[float, float], side: str = "") -> Html:
    """A value and its interval on a line, hidden from screen readers: the numbers stand beside it.

    ``side``, ``"over"`` or ``"under"``, colours scores that are too high, or too low.
    """
    middle = _FOREST_HEIGHT / 2
    parts = []
    if reach[0] <= 0 <= reach[1]:
        zero = _along(0.0, reach)
        parts.append(svg.line(zero, 0, zero, _FOREST_HEIGHT, "zero"))
    if low is not None and high is not None and np.isfinite([low, high]).all():
        parts.append(svg.line(_along(low, reach), middle, _along(high, reach), middle, f"whisker {side}".rstrip()))
    if np.isfinite(value):
        parts.append(svg.circle(_along(value, reach), middle, 3.2, f"dot {side}".rstrip()))
    return _small(parts)


def forest_axis(reach: tuple[float, float], shown: Callable[[float], str] = figure) -> Html:
    """The ends of the range of a `forest`, as ``shown``."""
    low, high = (shown(float(end)) if end else "0" for end in reach)
    y = _FOREST_HEIGHT - 4
    return _small([svg.text(_MARGIN, y, low, "start"), svg.text(_FOREST_WIDTH - _MARGIN, y, high, "end")])


def _along(value: float, reach: tuple[float, float]) -> float:
    return _MARGIN + (_FOREST_WIDTH - 2 * _MARGIN) * (value - reach[0]) / (reach[1] - reach[0])


def _small(parts: Sequence[Html]) -> Html:
    return svg.hidden("forest", _FOREST_WIDTH, _FOREST_HEIGHT, parts)


def _strip(shown: BinnedReliability | SmoothReliability, frame: Frame, plane: Plane) -> Html:
    """The rows along the axis: by even part of it, by bin, or their density."""
    if shown.drawn is not None:
        borders, rows = frame.bars(shown.drawn)
        return _bars(borders[:-1], borders[1:], rows, frame, plane)
    if isinstance(shown, BinnedReliability):
        return _bars(shown.lower, shown.upper, shown.count, frame, plane)
    most = np.nanmax(shown.density, initial=0.0) or 1.0
    heights, x = _FOOT - _STRIP * np.nan_to_num(shown.density) / most, _LEFT + plane.x(shown.score)
    area = " ".join(f"{along:.1f},{up:.1f}" for along, up in zip(x, heights, strict=True))
    first, last = f"{x[0]:.1f},{_FOOT:.1f}", f"{x[-1]:.1f},{_FOOT:.1f}"
    axis = _strip_axis(frame, plane, f"{most:.1f}" if most < 10 else f"{most:.0f}", DENSITY)
    return Html('<polygon class="density" points="{} {} {}"/>{}').format(first, area, last, axis)


def _bars(starts: Array, ends: Array, rows: Array, frame: Frame, plane: Plane) -> Html:
    most = max(float(rows.max(initial=0.0)), 1.0)
    lefts, rights = plane.x(starts), plane.x(ends)
    bars = svg.joined(_bar(lefts[i], rights[i], rows[i] / most) for i in np.flatnonzero(rows))
    return bars + _strip_axis(frame, plane, figure(int(most)), ROWS)


def _strip_axis(frame: Frame, plane: Plane, most: str, words: str) -> Html:
    """The axes of the strip below."""
    top, ticks = _FOOT - _STRIP, frame.x_ticks
    if frame.is_full:
        ticks = ticks[::2]
    labels = svg.joined(plane.label(_LEFT + plane.x(place), _FOOT + 14, label, "fine") for place, label in ticks)
    return (
        svg.line(_LEFT, _FOOT, _LEFT + _SIDE, _FOOT, "axis")
        + svg.text(_LEFT - 6, top + 8, most, "end", "fine")
        + svg.text(_LEFT - 6, _FOOT, "0", "end", "fine")
        + svg.upward(_NAME_AT, top + _STRIP / 2, words)
        + labels
    )


def _bar(left: float, right: float, share: float) -> Html:
    height, width = max(_STRIP * share, 0.5), right - left
    # Narrow bars stand close together.
    width = max(width - min(1.0, 0.2 * width), 0.5)
    return svg.rect(_LEFT + left, _FOOT - height, _LEFT + left + width, _FOOT, "bar")
