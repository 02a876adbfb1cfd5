"""Plots as SVG inside the page: sharp at any size and on paper, without scripts or files beside the page.

Those of `calibdask.plot` need a script to be shown, or Matplotlib to be written to files.
"""

from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup

from calibdask.plot import svg
from calibdask.plot.style import DENSITY, FREQUENCY, ROWS, SCORE, TICKS
from calibdask.results.format import counted, figure
from calibdask.results.reliability import Array, Bins, Curve

# In units of the drawing, which the page scales.
_SIDE, _LEFT, _TOP, _RIGHT = 270.0, 46.0, 8.0, 10.0
_STRIP, _BETWEEN, _BOTTOM = 56.0, 26.0, 36.0
_WIDTH, _HEIGHT = _LEFT + _SIDE + _RIGHT, _TOP + _SIDE + _BETWEEN + _STRIP + _BOTTOM
# Where the names of vertical axes stand; the page hides them in small plots.
_NAME_AT = 9.0
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
            parts.append(svg.line(x, _y(bins.low[i]), x, _y(bins.high[i]), f"whisker {side}"))
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
            parts.append(svg.between(_xs(curve.score), _ys(low), _ys(high), name))
    parts.append(_diagonal())
    for side, half in curve.split().items():
        parts.append(svg.polyline(_xs(half.score), _ys(half.reliability), f"curve {side}"))
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
        parts.append(svg.line(zero, 0, zero, _FOREST_HEIGHT, "zero"))
    if low is not None and high is not None and np.isfinite([low, high]).all():
        parts.append(svg.line(_along(low, reach), middle, _along(high, reach), middle, f"whisker {side}".rstrip()))
    if np.isfinite(value):
        parts.append(
            f'<circle class="{f"dot {side}".rstrip()}" cx="{_along(value, reach):.1f}" cy="{middle:.1f}" r="3.2"/>'
        )
    return _small(parts)


def forest_axis(reach: tuple[float, float], shown: Callable[[float], str] = figure) -> Markup:
    """The ends of the range of a `forest`, as ``shown``."""
    low, high = (shown(float(end)) if end else "0" for end in reach)
    y = _FOREST_HEIGHT - 4
    return _small([svg.text(_MARGIN, y, low, "start"), svg.text(_FOREST_WIDTH - _MARGIN, y, high, "end")])


def _along(value: float, reach: tuple[float, float]) -> float:
    return _MARGIN + (_FOREST_WIDTH - 2 * _MARGIN) * (value - reach[0]) / (reach[1] - reach[0])


def _small(parts: Sequence[str]) -> Markup:
    size = f'width="{_FOREST_WIDTH:.0f}" height="{_FOREST_HEIGHT:.0f}"'
    box = f'viewBox="0 0 {_FOREST_WIDTH:.0f} {_FOREST_HEIGHT:.0f}"'
    return Markup(f'<svg class="forest" {size} {box} aria-hidden="true">{"".join(parts)}</svg>')


def _svg(parts: Sequence[str], label: str) -> Markup:
    return svg.picture("picture", _WIDTH, _HEIGHT, parts, label)


def _x(score: float) -> float:
    return _LEFT + _SIDE * float(score)


def _xs(scores: Array) -> Array:
    return np.asarray(_LEFT + _SIDE * scores)


def _y(share: float) -> float:
    return _TOP + _SIDE * (1.0 - float(share))


def _ys(shares: Array) -> Array:
    return np.asarray(_TOP + _SIDE * (1.0 - shares))


def _diagonal() -> str:
    return svg.line(_x(0), _y(0), _x(1), _y(1), "diagonal")


def _frame() -> str:
    """Grid, ticks and names of the axes."""
    parts = []
    for tick in TICKS:
        parts.append(svg.line(_x(tick), _y(0), _x(tick), _y(1), "grid"))
        parts.append(svg.line(_x(0), _y(tick), _x(1), _y(tick), "grid"))
        name = "fine" if tick in _FINE else ""
        parts.append(svg.text(_LEFT - 6, _y(tick) + 4, f"{tick:g}", "end", name))
        parts.append(svg.text(_x(tick), _y(0) + 15, f"{tick:g}", "middle", name))
    parts.append(svg.upward(_NAME_AT, _TOP + _SIDE / 2, FREQUENCY))
    parts.append(svg.text(_LEFT + _SIDE / 2, _HEIGHT - 4, SCORE, "middle", "fine"))
    return "".join(parts)


def _strip_axis(most: str, words: str) -> str:
    """The axes of the strip below."""
    top = _TOP + _SIDE + _BETWEEN
    foot = top + _STRIP
    ticks = "".join(svg.text(_x(tick), foot + 14, f"{tick:g}", "middle", "fine") for tick in (0.0, 0.5, 1.0))
    return (
        svg.line(_x(0), foot, _x(1), foot, "axis")
        + svg.text(_LEFT - 6, top + 8, most, "end", "fine")
        + svg.text(_LEFT - 6, foot, "0", "end", "fine")
        + svg.upward(_NAME_AT, top + _STRIP / 2, words)
        + ticks
    )


def _bar(lower: float, upper: float, share: float) -> str:
    foot = _TOP + _SIDE + _BETWEEN + _STRIP
    height = max(_STRIP * share, 0.5)
    width = max(_x(upper) - _x(lower) - 1, 0.5)
    return f'<rect class="bar" x="{_x(lower):.1f}" y="{foot - height:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
