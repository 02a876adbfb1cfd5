"""Plots as SVG inside the page: sharp at any size and on paper, without scripts or files beside the page.

Those of `calibdask.plot` need a script to be shown, or Matplotlib to be written to files.
"""

from collections.abc import Callable, Sequence

import numpy as np

from calibdask.markup import Html
from calibdask.plot import svg
from calibdask.plot.frame import Frame
from calibdask.plot.style import DENSITY, FREQUENCY, ROWS, SCORE
from calibdask.results.format import counted, figure
from calibdask.results.reliability import Array, BinnedReliability, SmoothReliability

# In units of the drawing, which the page scales.
_SIDE, _LEFT, _TOP, _RIGHT = 270.0, 54.0, 8.0, 10.0
_STRIP, _BETWEEN, _BOTTOM = 56.0, 26.0, 36.0
_FOOT = _TOP + _SIDE + _BETWEEN + _STRIP
_WIDTH, _HEIGHT = _LEFT + _SIDE + _RIGHT, _TOP + _SIDE + _BETWEEN + _STRIP + _BOTTOM
# Where the names of vertical axes stand; the page hides them in small plots.
_NAME_AT = 9.0
_HALF_A_LETTER = 3.5
# Of the horizontal and the vertical axis.
Names = tuple[str, str]
_NAMES: Names = (SCORE, FREQUENCY)
# The radius of points of bins of equal mass.
_EQUAL_SIZE = 4.0
_FOREST_WIDTH, _FOREST_HEIGHT, _MARGIN = 150.0, 16.0, 5.0


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
    here = _Window(frame)
    inside = [here.diagonal()]
    most = bins.count.max(initial=1.0)
    on, is_equal = frame.inside(bins), bins.drawn is not None and bins.drawn.equal_masses
    across, upward, low, high = here.x(frame.x(bins.score)), *map(here.up, (bins.outcome, bins.low, bins.high))
    dots = []
    for i in np.flatnonzero(on):
        size = _EQUAL_SIZE if is_equal else 2.2 + 4.8 * np.sqrt(bins.count[i] / most)
        side = "over" if bins.gap[i] < 0 else "under"
        if np.isfinite(bins.low[i]):
            inside.append(svg.line(across[i], low[i], across[i], high[i], f"whisker {side}"))
        dots.append(svg.circle(_LEFT + across[i], _TOP + upward[i], size, f"dot {side}"))
    # Points at an edge are drawn whole.
    parts = [_grid(frame, here, names), here.clipped(inside), *dots, _strip(bins, frame, here)]
    label = f"{title}: reliability diagram of {counted(bins.score.size, 'bin')}, calibration error {figure(bins.error)}"
    return _svg(parts, label)


def curve_picture(curve: SmoothReliability, title: str, names: Names = _NAMES) -> Html:
    """The reliability curve on either side of the diagonal with its bands, the rows or the density below."""
    frame = Frame.of([curve])
    here = _Window(frame)
    across = here.x(frame.x(curve.score))
    inside = []
    for name, low, high in (("band", curve.band_low, curve.band_high), ("ends", curve.low, curve.high)):
        if np.isfinite(low).any():
            inside.append(svg.between(across, here.up(low), here.up(high), name))
    inside.append(here.diagonal())
    for side, half in curve.split().items():
        inside.append(svg.polyline(here.x(frame.x(half.score)), here.up(half.reliability), f"curve {side}"))
    parts = [_grid(frame, here, names), here.clipped(inside), _strip(curve, frame, here)]
    band = " with its band" if curve.has_band or curve.has_interval else ""
    return _svg(parts, f"{title}: reliability curve{band}, and the scores")


class _Window:
    """From places of a frame to those in the square that is drawn in."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        full = frame.is_full
        # Axes from 0 to 1 fill the square; others have a little room.
        self.x = svg.scale(*((0.0, 1.0) if full else frame.across), 0.0, _SIDE)
        self.y = svg.scale(*((0.0, 1.0) if full else frame.upward), _SIDE, 0.0)

    def up(self, frequencies: Array) -> Array:
        """Where frequencies are drawn."""
        return np.asarray(self.y(self._frame.y(frequencies)))

    def diagonal(self) -> Html:
        """The line of calibration."""
        across, upward = self._frame.diagonal
        return svg.line(self.x(across[0]), self.y(upward[0]), self.x(across[1]), self.y(upward[1]), "diagonal")

    def clipped(self, parts: Sequence[Html]) -> Html:
        """Parts within the square."""
        return svg.window(_LEFT, _TOP, _SIDE, _SIDE, parts)


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


def _svg(parts: Sequence[Html], label: str) -> Html:
    return svg.picture("picture", _WIDTH, _HEIGHT, parts, label)


def _grid(frame: Frame, here: _Window, names: Names) -> Html:
    """Grid, ticks and names of the axes."""
    foot, parts = _TOP + _SIDE, []
    for number, (place, label) in enumerate(frame.x_ticks):
        x = _LEFT + here.x(place)
        parts.append(svg.line(x, _TOP, x, foot, "grid"))
        parts.append(_label(x, foot + 15, label, _fine(number, len(frame.x_ticks))))
    for number, (place, label) in enumerate(frame.y_ticks):
        y = _TOP + here.y(place)
        parts.append(svg.line(_LEFT, y, _LEFT + _SIDE, y, "grid"))
        parts.append(svg.text(_LEFT - 6, y + 4, label, "end", _fine(number, len(frame.y_ticks))))
    across, upward = names
    parts.append(svg.upward(_NAME_AT, _TOP + _SIDE / 2, upward))
    scale = f"{across}, logit scale" if frame.axis.logit else across
    parts.append(svg.text(_LEFT + _SIDE / 2, _HEIGHT - 4, scale, "middle", "fine"))
    return svg.joined(parts)


def _label(x: float, y: float, label: str, name: str) -> Html:
    """The label of a tick; a long one at the right end stands before it."""
    is_cut = _HALF_A_LETTER * len(label) > _WIDTH - x
    return svg.text(_WIDTH, y, label, "end", name) if is_cut else svg.text(x, y, label, "middle", name)


def _fine(number: int, ticks: int) -> str:
    """Labels that small plots leave out: all but the first, the last and that in the middle."""
    return "" if number in (0, ticks - 1) or (ticks % 2 and number == ticks // 2) else "fine"


def _strip(shown: BinnedReliability | SmoothReliability, frame: Frame, here: _Window) -> Html:
    """The rows along the axis: by even part of it, by bin, or their density."""
    if shown.drawn is not None:
        borders, rows = frame.bars(shown.drawn)
        return _bars(borders[:-1], borders[1:], rows, frame, here)
    if isinstance(shown, BinnedReliability):
        return _bars(shown.lower, shown.upper, shown.count, frame, here)
    most = np.nanmax(shown.density, initial=0.0) or 1.0
    heights, x = _FOOT - _STRIP * np.nan_to_num(shown.density) / most, _LEFT + here.x(shown.score)
    area = " ".join(f"{along:.1f},{up:.1f}" for along, up in zip(x, heights, strict=True))
    first, last = f"{x[0]:.1f},{_FOOT:.1f}", f"{x[-1]:.1f},{_FOOT:.1f}"
    axis = _strip_axis(frame, here, f"{most:.1f}" if most < 10 else f"{most:.0f}", DENSITY)
    return Html('<polygon class="density" points="{} {} {}"/>{}').format(first, area, last, axis)


def _bars(starts: Array, ends: Array, rows: Array, frame: Frame, here: _Window) -> Html:
    most = max(float(rows.max(initial=0.0)), 1.0)
    lefts, rights = here.x(starts), here.x(ends)
    bars = svg.joined(_bar(lefts[i], rights[i], rows[i] / most) for i in np.flatnonzero(rows))
    return bars + _strip_axis(frame, here, figure(int(most)), ROWS)


def _strip_axis(frame: Frame, here: _Window, most: str, words: str) -> Html:
    """The axes of the strip below."""
    top, ticks = _FOOT - _STRIP, frame.x_ticks
    if frame.is_full:
        ticks = ticks[::2]
    labels = svg.joined(_label(_LEFT + here.x(place), _FOOT + 14, label, "fine") for place, label in ticks)
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
