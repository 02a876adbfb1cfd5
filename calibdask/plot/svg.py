"""Parts of pictures as SVG; their looks are those of the classes that a style sheet gives them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from calibdask.safe_text import visible

Array = npt.NDArray[np.float64]

_LONGEST = 16


def picture(name: str, width: float, height: float, parts: Iterable[str], label: str) -> Markup:
    """A picture of these parts, as wide as where it is put; ``label`` is what is read aloud."""
    box = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    words = Markup.escape(visible(label))
    return Markup(f'<svg class="{name}" {box} role="img" aria-label="{words}">{"".join(parts)}</svg>')


def line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    """A straight line."""
    return f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def rect(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    """A rectangle from its left to its right and from its top to its bottom."""
    size = f'width="{max(x2 - x1, 0):.1f}" height="{max(y2 - y1, 0):.1f}"'
    return f'<rect class="{name}" x="{x1:.1f}" y="{y1:.1f}" {size}/>'


def text(x: float, y: float, words: str, anchor: str, name: str = "") -> str:
    """Words, escaped."""
    kind = f' class="{name}"' if name else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{Markup.escape(visible(words))}</text>'


def upward(x: float, middle: float, words: str, name: str = "fine") -> str:
    """The name of a vertical axis."""
    place = f'transform="translate({x:.0f},{middle:.0f}) rotate(-90)"'
    return f'<text class="{name}" {place} text-anchor="middle">{Markup.escape(visible(words))}</text>'


def titled(part: str, words: str) -> str:
    """A part that tells more where the pointer rests on it."""
    return f"<g><title>{Markup.escape(visible(words))}</title>{part}</g>"


def polyline(x: Array, y: Array, name: str) -> str:
    """A line with gaps where it is not defined."""
    parts, begun = [], False
    for along, up in zip(x.tolist(), y.tolist(), strict=True):
        if not np.isfinite(up):
            begun = False
            continue
        parts.append(f"{'L' if begun else 'M'}{along:.1f} {up:.1f}")
        begun = True
    return f'<path class="{name}" d="{"".join(parts)}"/>' if parts else ""


def between(x: Array, low: Array, high: Array, name: str) -> str:
    """The area between two lines, where both are defined."""
    there = np.isfinite(low) & np.isfinite(high)
    parts = []
    for run in np.split(np.arange(x.size), np.flatnonzero(np.diff(there)) + 1):
        if run.size and there[run[0]]:
            around = [*zip(x[run], high[run], strict=True), *reversed(list(zip(x[run], low[run], strict=True)))]
            parts.append("M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in around) + "Z")
    return f'<path class="{name}" d="{"".join(parts)}"/>' if parts else ""


def sticks(x: Array, low: Array, high: Array, name: str, width: float = 0.0) -> str:
    """Vertical lines as one part, where both of their ends are defined."""
    there = np.isfinite(low) & np.isfinite(high)
    ends = zip(x[there].tolist(), low[there].tolist(), high[there].tolist(), strict=True)
    path = "".join(f"M{along:.1f} {start:.1f}V{end:.1f}" for along, start, end in ends)
    wide = f' style="stroke-width:{width:.2f}"' if width else ""
    return f'<path class="{name}" d="{path}"{wide}/>' if path else ""


def dots(x: Array, y: Array, name: str) -> str:
    """Points as one part, where they are defined."""
    there = np.isfinite(y)
    pairs = zip(x[there].tolist(), y[there].tolist(), strict=True)
    path = "".join(f"M{along:.1f} {up:.1f}h0" for along, up in pairs)
    return f'<path class="{name}" d="{path}"/>' if path else ""


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
    """Which of these (start, end), in their order, do not come closer than a gap to those that are kept before.

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
