"""SVG elements of pictures, styled by the classes of a style sheet."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.markup import Html

Array = npt.NDArray[np.float64]

_LONGEST = 16


def picture(name: str, width: float, height: float, parts: Iterable[Html], label: str) -> Html:
    """SVG picture that fills the width of its container; ``label`` is for screen readers."""
    frame = Html('<svg class="{}" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>')
    return frame.format(name, width, height, label, joined(parts))


def joined(parts: Iterable[Html]) -> Html:
    """Parts as one part."""
    return Html().join(parts)


def window(x: float, y: float, width: float, height: float, parts: Iterable[Html]) -> Html:
    """Parts within a rectangle, cut off at its sides."""
    frame = Html('<svg x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}" aria-hidden="true">{}</svg>')
    return frame.format(x, y, width, height, joined(parts))


def hidden(name: str, width: float, height: float, parts: Iterable[Html]) -> Html:
    """A picture of a fixed size that is not read aloud: the numbers stand beside it."""
    box = Html('width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}"').format(width, height)
    return Html('<svg class="{}" {} aria-hidden="true">{}</svg>').format(name, box, joined(parts))


def line(x1: float, y1: float, x2: float, y2: float, name: str) -> Html:
    """A straight line."""
    return Html('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(name, x1, y1, x2, y2)


def circle(x: float, y: float, radius: float, name: str) -> Html:
    """A circle around a point."""
    return Html('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"/>').format(name, x, y, radius)


def rect(x1: float, y1: float, x2: float, y2: float, name: str) -> Html:
    """A rectangle from its left to its right and from its top to its bottom."""
    box = Html('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>')
    return box.format(name, x1, y1, max(x2 - x1, 0), max(y2 - y1, 0))


def text(x: float, y: float, words: str, anchor: str, name: str = "") -> Html:
    """Words at a point."""
    kind = Html(' class="{}"').format(name) if name else ""
    return Html('<text{} x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(kind, x, y, anchor, words)


def upward(x: float, middle: float, words: str, name: str = "fine") -> Html:
    """The name of a vertical axis."""
    turned = Html('<text class="{}" transform="translate({:.0f},{:.0f}) rotate(-90)" text-anchor="middle">{}</text>')
    return turned.format(name, x, middle, words)


def titled(part: Html, words: str) -> Html:
    """Element with a tooltip."""
    return Html("<g><title>{}</title>{}</g>").format(words, part)


def path(name: str, steps: str, style: str = "") -> Html:
    """A path; nothing where it has no steps."""
    look = Html(' style="{}"').format(style) if style else ""
    return Html('<path class="{}" d="{}"{}/>').format(name, steps, look) if steps else Html()


def polyline(x: Array, y: Array, name: str) -> Html:
    """A line with gaps where it is not defined."""
    parts, begun = [], False
    for along, up in zip(x.tolist(), y.tolist(), strict=True):
        if not np.isfinite(up):
            begun = False
            continue
        parts.append(f"{'L' if begun else 'M'}{along:.1f} {up:.1f}")
        begun = True
    return path(name, "".join(parts))


def between(x: Array, low: Array, high: Array, name: str) -> Html:
    """The area between two lines, where both are defined."""
    there = np.isfinite(low) & np.isfinite(high)
    parts = []
    for run in np.split(np.arange(x.size), np.flatnonzero(np.diff(there)) + 1):
        if run.size and there[run[0]]:
            around = [*zip(x[run], high[run], strict=True), *reversed(list(zip(x[run], low[run], strict=True)))]
            parts.append("M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in around) + "Z")
    return path(name, "".join(parts))


def sticks(x: Array, low: Array, high: Array, name: str, width: float = 0.0) -> Html:
    """Vertical lines as one part, where both of their ends are defined."""
    there = np.isfinite(low) & np.isfinite(high)
    ends = zip(x[there].tolist(), low[there].tolist(), high[there].tolist(), strict=True)
    steps = "".join(f"M{along:.1f} {start:.1f}V{end:.1f}" for along, start, end in ends)
    return path(name, steps, f"stroke-width:{width:.2f}" if width else "")


def dots(x: Array, y: Array, name: str) -> Html:
    """Points as one part, where they are defined."""
    there = np.isfinite(y)
    pairs = zip(x[there].tolist(), y[there].tolist(), strict=True)
    return path(name, "".join(f"M{along:.1f} {up:.1f}h0" for along, up in pairs))


def scale(low: float, high: float, start: float, end: float) -> Callable[[Any], Any]:
    """From values between low and high to places between start and end."""
    return lambda value: start + (end - start) * (value - low) / (high - low)


def short(words: str) -> str:
    """The beginning of words that are too long to stand beside others."""
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def signed(tick: float) -> str:
    """The label of a tick with its sign.

    Examples
    --------
    >>> signed(2.0), signed(-0.5), signed(0.0)
    ('+2', '−0.5', '0')
    """
    return f"{tick:+g}".replace("-", "−") if tick else "0"


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, at most so many and in steps of 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> nice_ticks(-3.2, 5.1, 5), nice_ticks(0.0, 1.0, 3)
    ([-2.0, 0.0, 2.0, 4.0], [0.0, 0.5, 1.0])
    """
    power = 10.0 ** np.floor(np.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20):
        step = factor * power
        first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            break
    return [float(round(number * step, 12)) + 0.0 for number in np.arange(first, last + 1)]


def spread_out(wanted: Sequence[tuple[float, float]], gap: float) -> list[bool]:
    """Mask of the intervals (start, end) to keep so that kept ones are at least ``gap`` apart.

    Examples
    --------
    >>> spread_out([(0, 10), (5, 15), (20, 30)], 4)
    [True, False, True]
    """
    kept, last = [], -np.inf
    for start, end in wanted:
        kept.append(start >= last + gap)
        last = end if kept[-1] else last
    return kept
