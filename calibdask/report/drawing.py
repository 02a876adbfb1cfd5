"""Plots as SVG inside the page: sharp at any size and on paper, without scripts or files beside the page.

Those of `calibdask.plot` need a script to be shown, or Matplotlib to be written to files.
"""

from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup

from calibdask.plot.style import DENSITY, FREQUENCY, ROWS, SCORE, TICKS
from calibdask.results.format import counted, figure
from calibdask.results.reliability import Array, Bins, Curve
from calibdask.safe_text import visible

# In units of the drawing, which the page scales.
_SIDE, _LEFT, _TOP, _RIGHT = 270.0, 46.0, 8.0, 10.0
_STRIP, _BETWEEN, _BOTTOM = 56.0, 26.0, 36.0
_WIDTH, _HEIGHT = _LEFT + _SIDE + _RIGHT, _TOP + _SIDE + _BETWEEN + _STRIP + _BOTTOM
_FINE = (0.25, 0.75)
_FOREST_WIDTH, _FOREST_HEIGHT, _MARGIN = 150.0, 16.0, 5.0


def diagram_picture(bins: Bins, title: str) -> Markup:
    """Frequency against mean score by bin with its interval, rows by bin below."""
    parts = [_frame(), _diagonal()]
    most = bins.count.max(initial=1.0)
    for i in range(bins.score.size):
        x, y, size = _x(bins.score[i]), _y(bins.outcome[i]), 2.2 + 4.8 * np.sqrt(bins.count[i] / most)
        side = "over" if bins.gap[i] < 0 else "under"
        if np.isfinite(bins.low[i]):
            parts.append(line_mark(x, _y(bins.low[i]), x, _y(bins.high[i]), f"whisker {side}"))
        parts.append(f'<circle class="dot {side}" cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"/>')
        parts.append(_bar(bins.lower[i], bins.upper[i], bins.count[i] / most))
    parts.append(_strip_axis(figure(int(most)), ROWS))
    label = f"{title}: reliability diagram of {counted(bins.score.size, 'bin')}, calibration error {figure(bins.error)}"
    return _svg(parts, label)


def curve_picture(curve: Curve, title: str) -> Markup:
    """The reliability curve on either side of the diagonal with its bands, the density of the scores below."""
    parts = [_frame()]
    for name, low, high in (("band", curve.band_low, curve.band_high), ("ends", curve.low, curve.high)):
        if np.isfinite(low).any():
            parts.append(f'<path class="{name}" d="{_between(curve.score, low, high)}"/>')
    parts.append(_diagonal())
    for side, half in curve.split().items():
        parts.append(f'<path class="curve {side}" d="{_path(half.score, half.reliability)}"/>')
    most = np.nanmax(curve.density, initial=0.0) or 1.0
    foot = _TOP + _SIDE + _BETWEEN + _STRIP
    heights = foot - _STRIP * np.nan_to_num(curve.density) / most
    area = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(_xs(curve.score), heights, strict=True))
    ends = f"{_x(curve.score[0]):.1f},{foot:.1f}", f"{_x(curve.score[-1]):.1f},{foot:.1f}"
    parts.append(f'<polygon class="density" points="{ends[0]} {area} {ends[1]}"/>')
    parts.append(_strip_axis(f"{most:.1f}" if most < 10 else f"{most:.0f}", DENSITY))
    band = " with its band" if curve.has_band else ""
    return _svg(parts, f"{title}: reliability curve{band}, and the density of the scores")


def forest_range(ends: Sequence[float]) -> tuple[float, float]:
    """The range of these values and 0."""
    known = [0.0, *(end for end in ends if np.isfinite(end))]
    low, high = min(known), max(known)
    return (low, high) if high > low else (low, low + 1.0)


def forest(value: float, low: float | None, high: float | None, reach: tuple[float, float], side: str = "") -> Markup:
    """A value and its interval on a line, hidden from screen readers: the numbers stand beside it.

    ``side``, ``"over"`` or ``"under"``, colours scores that are too high, or too low.
    """
    middle = _FOREST_HEIGHT / 2
    parts = []
    if reach[0] <= 0 <= reach[1]:
        zero = _along(0.0, reach)
        parts.append(line_mark(zero, 0, zero, _FOREST_HEIGHT, "zero"))
    if low is not None and high is not None and np.isfinite([low, high]).all():
        parts.append(line_mark(_along(low, reach), middle, _along(high, reach), middle, f"whisker {side}".rstrip()))
    if np.isfinite(value):
        parts.append(
            f'<circle class="{f"dot {side}".rstrip()}" cx="{_along(value, reach):.1f}" cy="{middle:.1f}" r="3.2"/>'
        )
    return _small(parts)


def forest_axis(reach: tuple[float, float], shown: Callable[[float], str] = figure) -> Markup:
    """The ends of the range of a `forest`, as ``shown``."""
    low, high = (shown(float(end)) if end else "0" for end in reach)
    y = _FOREST_HEIGHT - 4
    return _small([text_mark(_MARGIN, y, low, "start"), text_mark(_FOREST_WIDTH - _MARGIN, y, high, "end")])


def _along(value: float, reach: tuple[float, float]) -> float:
    return _MARGIN + (_FOREST_WIDTH - 2 * _MARGIN) * (value - reach[0]) / (reach[1] - reach[0])


def _small(parts: Sequence[str]) -> Markup:
    size = f'width="{_FOREST_WIDTH:.0f}" height="{_FOREST_HEIGHT:.0f}"'
    box = f'viewBox="0 0 {_FOREST_WIDTH:.0f} {_FOREST_HEIGHT:.0f}"'
    return Markup(f'<svg class="forest" {size} {box} aria-hidden="true">{"".join(parts)}</svg>')


def _svg(parts: Sequence[str], label: str) -> Markup:
    box = f'viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}"'
    return Markup(
        f'<svg class="picture" {box} role="img" aria-label="{Markup.escape(visible(label))}">{"".join(parts)}</svg>'
    )


def _x(score: float) -> float:
    return _LEFT + _SIDE * float(score)


def _xs(scores: Array) -> Array:
    return np.asarray(_LEFT + _SIDE * scores)


def _y(share: float) -> float:
    return _TOP + _SIDE * (1.0 - float(share))


def line_mark(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    """A line of a class of the style."""
    return f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text_mark(x: float, y: float, words: str, anchor: str, name: str = "") -> str:
    """A text that begins, ends or has its middle there."""
    kind = f' class="{name}"' if name else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{Markup.escape(visible(words))}</text>'


def upward(middle: float, words: str) -> str:
    """The name of a vertical axis; the page hides it in small plots."""
    place = f'transform="translate(9,{middle:.0f}) rotate(-90)"'
    return f'<text class="fine" {place} text-anchor="middle">{Markup.escape(visible(words))}</text>'


def _diagonal() -> str:
    return line_mark(_x(0), _y(0), _x(1), _y(1), "diagonal")


def _frame() -> str:
    """Grid, ticks and names of the axes."""
    parts = []
    for tick in TICKS:
        parts.append(line_mark(_x(tick), _y(0), _x(tick), _y(1), "grid"))
        parts.append(line_mark(_x(0), _y(tick), _x(1), _y(tick), "grid"))
        name = "fine" if tick in _FINE else ""
        parts.append(text_mark(_LEFT - 6, _y(tick) + 4, f"{tick:g}", "end", name))
        parts.append(text_mark(_x(tick), _y(0) + 15, f"{tick:g}", "middle", name))
    parts.append(upward(_TOP + _SIDE / 2, FREQUENCY))
    parts.append(text_mark(_LEFT + _SIDE / 2, _HEIGHT - 4, SCORE, "middle", "fine"))
    return "".join(parts)


def _strip_axis(most: str, words: str) -> str:
    """The axes of the strip below."""
    top = _TOP + _SIDE + _BETWEEN
    foot = top + _STRIP
    ticks = "".join(text_mark(_x(tick), foot + 14, f"{tick:g}", "middle", "fine") for tick in (0.0, 0.5, 1.0))
    return (
        line_mark(_x(0), foot, _x(1), foot, "axis")
        + text_mark(_LEFT - 6, top + 8, most, "end", "fine")
        + text_mark(_LEFT - 6, foot, "0", "end", "fine")
        + upward(top + _STRIP / 2, words)
        + ticks
    )


def _bar(lower: float, upper: float, share: float) -> str:
    foot = _TOP + _SIDE + _BETWEEN + _STRIP
    height = max(_STRIP * share, 0.5)
    width = max(_x(upper) - _x(lower) - 1, 0.5)
    return f'<rect class="bar" x="{_x(lower):.1f}" y="{foot - height:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _path(x: Array, y: Array) -> str:
    """A line with gaps where it is not defined."""
    parts, begun = [], False
    for along, up in zip(x.tolist(), y.tolist(), strict=True):
        if not np.isfinite(up):
            begun = False
            continue
        parts.append(f"{'L' if begun else 'M'}{_x(along):.1f} {_y(up):.1f}")
        begun = True
    return "".join(parts)


def _between(x: Array, low: Array, high: Array) -> str:
    """The area between two lines, where both are defined."""
    there = np.isfinite(low) & np.isfinite(high)
    parts = []
    for run in np.split(np.arange(x.size), np.flatnonzero(np.diff(there)) + 1):
        if there[run[0]]:
            around = [*zip(x[run], high[run], strict=True), *reversed(list(zip(x[run], low[run], strict=True)))]
            parts.append("M" + "L".join(f"{_x(a):.1f} {_y(b):.1f}" for a, b in around) + "Z")
    return "".join(parts)
