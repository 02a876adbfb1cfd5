"""A small reliability diagram in characters, for terminals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from textwrap import wrap
from typing import Any

import numpy as np

from calibdask.estimators.binned.diagram import ReliabilityDiagram
from calibdask.estimators.binned.ece import ECE
from calibdask.estimators.interval import NoInterval
from calibdask.plot.style import SCORE
from calibdask.results.reliability import Bins
from calibdask.results.text_layout import Line, Role
from calibdask.statistics.layout import Layout

_WIDTH, _HEIGHT = 41, 13
_NARROWEST = 21
_BARS = 2
# Every so many lines and columns there is a tick, at quarters.
_QUARTER = (_HEIGHT - 1) // 4
_MARGIN = len("0.00 |")
# Gaps below the first are drawn as none, bins with a smaller share of the rows than the second in signs of their own.
_NO_GAP, _FEW = 0.01, 0.01


@dataclass(frozen=True)
class Signs:
    """The characters of a diagram: points with many and with few rows, lines, and bars of rising height."""

    above: str
    below: str
    on: str
    few: str
    diagonal: str
    stick: str
    upright: str
    tick: str
    floor: str
    bars: str

    def point(self, gap: float, few: bool) -> tuple[str, Role]:
        """The sign and the role of a bin."""
        place = 2 if abs(gap) < _NO_GAP else int(gap < 0)
        roles: tuple[Role, ...] = "under", "over", ""
        return (self.few if few else self.above + self.below + self.on)[place], roles[place]


SIGNS = Signs("▲", "▼", "●", "△▽○", "·", "│", "│", "┤", "─", " ▁▂▃▄▅▆▇█")
# For terminals whose encoding has ASCII only.
PLAIN = Signs("^", "v", "o", "'.,", ".", "|", "|", "+", "-", " .:|#")


@dataclass(frozen=True, kw_only=True)
class TextDiagram(ReliabilityDiagram):
    """A reliability diagram without intervals, for which characters have no room."""

    def interval(self, layout: Layout) -> NoInterval:
        """None, as tests have none."""
        return NoInterval()


def heading_of(diagram: ReliabilityDiagram, *, vector: bool) -> tuple[str, str]:
    """Title of the diagram, and name of its scores.

    Examples
    --------
    >>> heading_of(TextDiagram(bins=5), vector=True)
    ('Frequency of y = 1 by score, in 5 bins', 'score')
    """
    setting = diagram.setting or ("binary" if vector else "confidence")
    words = {
        "binary": ("Frequency of y = 1 by score", SCORE),
        "confidence": ("Accuracy by confidence", "confidence"),
        "top-k": (f"Frequency of the label among the {diagram.k} largest scores", "their sum"),
    }
    subject, axis = words.get(str(setting), (f"Frequency of class {setting} by its score", SCORE))
    bins = f"{len(diagram.bins) - 1} given" if isinstance(diagram.bins, tuple) else diagram.bins
    number = "sqrt(n)" if bins == "sqrt" else bins
    return f"{subject}, in {number} bins{' of equal mass' * (diagram.binning == 'equal-mass')}", axis


def suited(chosen: Mapping[str, Any], setting: Any, k: Any) -> TextDiagram:
    """The diagram that fits these metrics and needs no further pass over the data.

    Its bins are those of the first binned calibration error, or else the default ones.
    """
    for estimator in chosen.values():
        if isinstance(estimator, ECE) and estimator.setting != "classwise":
            return TextDiagram(**{field.name: getattr(estimator, field.name) for field in fields(TextDiagram)})
    return TextDiagram(setting=setting, k=k)


def picture_lines(bins: Bins, title: str, axis: str, width: int, signs: Signs = SIGNS) -> Iterator[Line]:
    """Frequency of the outcome against the mean score by bin, above a histogram of the scores.

    Parameters
    ----------
    bins : Bins
        Of one diagram.
    title, axis : str
        Title, and name of the scores.
    width : int
        Width of the terminal in columns; the diagram takes at most 47.
    signs : Signs
        The characters to use.

    Examples
    --------
    >>> import calibdask as cd
    >>> bins = Bins.of(cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"d": cd.ReliabilityDiagram(bins=2)}), "d")
    >>> lines = ["".join(text for text, _ in line) for line in picture_lines(bins, "two bins", "score", 80, PLAIN)]
    >>> lines[1].rstrip(), lines[7].rstrip()
    ('1.00 +                            ^          ..', '0.50 +            ^      ...')
    """
    columns = max(_NARROWEST, min(_WIDTH, width - _MARGIN))
    few = bins.count < _FEW * bins.rows
    yield from (((line, "head"),) for line in wrap(title, max(width, _NARROWEST)))
    for number, cells in enumerate(_field(bins, few, columns, signs)):
        tick = number % _QUARTER == 0
        margin = f"{1 - number / (_HEIGHT - 1):.2f} {signs.tick}" if tick else f"     {signs.upright}"
        yield ((margin, "aside"), *cells)
    yield ((" " * _MARGIN + signs.floor * columns, "aside"),)
    for text in _bars(bins, columns, signs):
        yield ((" " * _MARGIN, ""), (text, "aside"))
    yield ((" " * _MARGIN + _ticks(columns), "aside"),)
    below = f"{axis}, and how many rows have it"
    yield ((" " * _MARGIN + (below if len(below) <= columns else axis).center(columns), "aside"),)
    yield from _legend(bins.gap, few, width, signs)


def _field(bins: Bins, few: np.ndarray, columns: int, signs: Signs) -> list[list[tuple[str, Role]]]:
    """Lines of cells from the top: the diagonal, sticks over it, and points over these, those of many rows last."""
    cells: list[list[tuple[str, Role]]] = [[(" ", "")] * columns for _ in range(_HEIGHT)]
    for column in range(columns):
        cells[_line(column / (columns - 1))][column] = (signs.diagonal, "aside")
    order = np.argsort(bins.count, kind="stable")
    points = [(round(bins.score[i] * (columns - 1)), _line(bins.outcome[i]), _line(bins.score[i]), i) for i in order]
    for column, line, diagonal, _ in points:
        for between in range(min(line, diagonal) + 1, max(line, diagonal)):
            cells[between][column] = (signs.stick, "aside")
    for column, line, _, i in points:
        cells[line][column] = signs.point(bins.gap[i], few[i])
    return cells


def _line(value: float) -> int:
    """The line of a value from 0 to 1, counted from the top."""
    return round((1 - value) * (_HEIGHT - 1))


def _bars(bins: Bins, columns: int, signs: Signs) -> list[str]:
    """Lines of bars whose heights are the rows by width of the bin; the fewest rows still show."""
    lower, upper, count = bins.lower, bins.upper, bins.count
    # A bin narrower than a column fills it, as a point does.
    first, last = (np.rint(edge * columns).clip(0, columns).astype(int) for edge in (lower, upper))
    heights = np.zeros(columns)
    for i in range(count.size):
        start = min(first[i], columns - 1)
        heights[start : max(last[i], start + 1)] += count[i] / max(upper[i] - lower[i], 1 / columns)
    steps = len(signs.bars) - 1
    whole = _BARS * steps
    levels = np.ceil(heights / max(heights.max(initial=0.0), 1e-300) * whole).astype(int)
    return [
        "".join(signs.bars[min(max(level - floor * steps, 0), steps)] for level in levels)
        for floor in reversed(range(_BARS))
    ]


def _ticks(columns: int) -> str:
    """Labels of quarters, as close as possible to their positions."""
    text = [" "] * columns
    for label, share in (("0", 0.0), ("0.25", 0.25), ("0.5", 0.5), ("0.75", 0.75), ("1", 1.0)):
        start = min(max(round(share * (columns - 1)) - (len(label) - 1) // 2, 0), columns - len(label))
        text[start : start + len(label)] = label
    return "".join(text)


def _legend(gap: np.ndarray, few: np.ndarray, width: int, signs: Signs) -> Iterator[Line]:
    """What the signs in the diagram mean."""
    small = np.abs(gap) < _NO_GAP
    kinds = (
        ((gap > 0) & ~small, 0.5, "more frequent than scored"),
        ((gap < 0) & ~small, -0.5, "less frequent than scored"),
        (small, 0.0, f"gap below {_NO_GAP:g}"),
    )
    pieces: list[tuple[str, Role]] = []
    for there, example, words in kinds:
        if not there.any():
            continue
        if pieces and sum(len(text) for text, _ in pieces) + 2 + len(words) > width:
            yield tuple(pieces)
            pieces = []
        pieces += [signs.point(example, False), (f" {words}   ", "aside")]
    yield tuple(pieces)
    if few.any():
        shown = "".join(sign for sign, (there, _, _) in zip(signs.few, kinds, strict=True) if (there & few).any())
        yield ((f"{shown} the same, of less than {_FEW:.0%} of the rows", "aside"),)
