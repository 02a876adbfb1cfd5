"""A small reliability diagram in characters, for terminals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np

from calibdask.estimators.binned.ece import ECE
from calibdask.estimators.interval import NoInterval
from calibdask.estimators.smooth.adaptive import AdaptiveDiagram
from calibdask.plot.frame import Frame, notes, score_label
from calibdask.plot.style import SCORE
from calibdask.render.text_layout import Line, Role
from calibdask.results.format import counted
from calibdask.results.reliability import BinnedReliability
from calibdask.statistics.layout import Layout

_WIDTH, _HEIGHT = 41, 13
_NARROWEST, _WIDE = 21, 40
_HALF = 0.5
_BARS = 2
# Every so many lines and columns there is a tick, at quarters.
_QUARTER = (_HEIGHT - 1) // 4
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
class TextDiagram(AdaptiveDiagram):
    """A reliability diagram without intervals, for which characters have no room."""

    def interval(self, layout: Layout) -> NoInterval:
        """None, as tests have none."""
        return NoInterval()


def heading_of(diagram: AdaptiveDiagram, filled: int, *, vector: bool) -> tuple[str, str]:
    """Title of the diagram, of so many bins that hold rows unless their number was chosen, and name of its scores.

    Examples
    --------
    >>> heading_of(TextDiagram(), 5, vector=True)
    ('Frequency of y = 1 by score, in 5 bins', 'score')
    """
    setting = diagram.setting or ("binary" if vector else "confidence")
    words = {
        "binary": ("Frequency of y = 1 by score", SCORE),
        "confidence": ("Accuracy by confidence", "confidence"),
        "top-k": (f"Frequency of the label among the {diagram.k} largest scores", "their sum"),
    }
    subject, axis = words.get(str(setting), (f"Frequency of class {setting} by its score", SCORE))
    number = diagram.bins if isinstance(diagram.bins, int) else filled
    return f"{subject}, in {counted(number, 'bin')}", axis


def suited(chosen: Mapping[str, Any], setting: Any, k: Any) -> TextDiagram:
    """The diagram that fits these metrics and needs no further pass over the data.

    It has the setting of the first binned calibration error, its number of bins unless that is the default, and bins
    of equal mass if the error has them.
    """
    for estimator in chosen.values():
        if isinstance(estimator, ECE) and estimator.setting != "classwise":
            given: dict[str, Any] = {"setting": estimator.setting, "k": estimator.k}
            if isinstance(estimator.bins, int) and estimator.bins != ECE().bins:
                given["bins"] = estimator.bins
            if estimator.binning == "equal-mass":
                given["binning"] = "equal-mass"
            return TextDiagram(**given)
    return TextDiagram(setting=setting, k=k)


def picture_lines(bins: BinnedReliability, title: str, axis: str, width: int, signs: Signs = SIGNS) -> Iterator[Line]:
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
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"d": cd.ReliabilityDiagram(bins=2)})
    >>> bins = BinnedReliability.of(result, "d")
    >>> lines = ["".join(text for text, _ in line) for line in picture_lines(bins, "two bins", "score", 80, PLAIN)]
    >>> lines[1].rstrip(), lines[7].rstrip()
    ('1.00 +                            ^          ..', '0.50 +            ^      ...')
    """
    frame = Frame.of([bins])
    grid = _Grid(frame, max(_NARROWEST, min(_WIDTH, width - len("0.00 |"))))
    margin = grid.margin
    few = bins.count < _FEW * bins.rows
    yield from (((line, "head"),) for line in wrap(title, max(width, _NARROWEST)))
    for number, cells in enumerate(_field(bins, few, grid, signs)):
        tick = number % _QUARTER == 0
        label = grid.label_up(number) if tick else ""
        yield ((f"{label:>{margin}} {signs.tick if tick else signs.upright}", "aside"), *cells)
    blank = " " * (margin + 2)
    yield ((blank + signs.floor * grid.columns, "aside"),)
    for text in _bars(bins, grid, signs):
        yield ((blank, ""), (text, "aside"))
    yield ((blank + _ticks(grid), "aside"),)
    scaled = f"{axis}, logit scale" if frame.axis.logit else axis
    below = f"{scaled}, and how many rows have it"
    yield ((blank + (below if len(below) <= grid.columns else scaled).center(grid.columns), "aside"),)
    yield from _legend(bins.gap[frame.inside(bins)], few[frame.inside(bins)], width, signs)
    caption = notes(bins) if signs is not PLAIN else [sentence.replace("−", "-") for sentence in notes(bins)]
    yield from (((line, "aside"),) for sentence in caption for line in wrap(sentence, max(width, _NARROWEST)))


class _Grid:
    """Cells of characters: where scores and frequencies are, and the labels of the axes."""

    def __init__(self, frame: Frame, columns: int) -> None:
        self.frame = frame
        self.margin = 4
        axis = frame.axis
        self._across = axis.places(np.array([axis.left, axis.right])).tolist()
        self._upward = axis.places(np.array([frame.low, frame.high])).tolist()
        self.margin = max(len(self.label_up(line)) for line in range(0, _HEIGHT, _QUARTER))
        self.columns = max(_NARROWEST, columns - self.margin + len("0.00"))

    def share(self, scores: np.ndarray) -> np.ndarray:
        """Where scores are along the axis, from 0 to 1; NaN beyond it."""
        return self.along(self.frame.x(scores))

    def along(self, places: np.ndarray) -> np.ndarray:
        """Where places are along the axis."""
        return (places - self._across[0]) / (self._across[1] - self._across[0])

    def line(self, frequency: float) -> int:
        """The line of a frequency, counted from the top."""
        low, high = self._upward
        place = float(self.frame.y(np.array(frequency)))
        return round((1 - min(max((place - low) / (high - low), 0.0), 1.0)) * (_HEIGHT - 1))

    def score_at(self, share: float) -> float:
        """The score at this share of the axis."""
        place = self._across[0] + share * (self._across[1] - self._across[0])
        return float(self.frame.axis.scores(np.array(place)))

    def label_up(self, line: int) -> str:
        """The label of the vertical axis at a line."""
        share = 1 - line / (_HEIGHT - 1)
        if self.frame.is_full:
            return f"{share:.2f}"
        place = self._upward[0] + share * (self._upward[1] - self._upward[0])
        return _plain(float(self.frame.axis.scores(np.array(place))))

    def labels_across(self) -> list[tuple[str, float]]:
        """Labels of the horizontal axis at shares of it."""
        quarters = (0.0, 0.25, 0.5, 0.75, 1.0)
        if self.frame.is_full:
            return [(f"{share:g}", share) for share in quarters]
        return [(_plain(self.score_at(share)), share) for share in quarters[:: 1 if self.columns >= _WIDE else 2]]


def _plain(score: float) -> str:
    """A score in two digits, in ASCII."""
    rounded = float(f"{score:.2g}") if score < _HALF else 1 - float(f"{1 - score:.2g}")
    return score_label(rounded).replace("−", "-")


def _field(bins: BinnedReliability, few: np.ndarray, grid: _Grid, signs: Signs) -> list[list[tuple[str, Role]]]:
    """Lines of cells from the top: diagonal, sticks above it, and points on top, those with many rows last."""
    columns = grid.columns
    cells: list[list[tuple[str, Role]]] = [[(" ", "")] * columns for _ in range(_HEIGHT)]
    for column in range(columns):
        score = grid.score_at(column / (columns - 1))
        if grid.frame.low <= score <= grid.frame.high:
            cells[grid.line(score)][column] = (signs.diagonal, "aside")
    shares = grid.share(bins.score)
    order = [i for i in np.argsort(bins.count, kind="stable") if np.isfinite(shares[i])]
    points = [
        (round(shares[i] * (columns - 1)), grid.line(bins.outcome[i]), grid.line(bins.score[i]), i) for i in order
    ]
    for column, line, diagonal, _ in points:
        for between in range(min(line, diagonal) + 1, max(line, diagonal)):
            cells[between][column] = (signs.stick, "aside")
    for column, line, _, i in points:
        cells[line][column] = signs.point(bins.gap[i], few[i])
    return cells


def _bars(bins: BinnedReliability, grid: _Grid, signs: Signs) -> list[str]:
    """Lines of bars whose heights are the rows by width of the bin; the fewest rows still show."""
    columns = grid.columns
    if bins.drawn is None or (grid.frame.is_full and not bins.drawn.equal_masses):
        heights = _heights(bins, columns)
    else:
        borders, rows = grid.frame.bars(bins.drawn)
        before = np.r_[0.0, np.cumsum(rows)]
        heights = np.diff(np.interp(np.arange(columns + 1) / columns, grid.along(borders), before))
    steps = len(signs.bars) - 1
    whole = _BARS * steps
    levels = np.ceil(heights / max(heights.max(initial=0.0), 1e-300) * whole).astype(int)
    return [
        "".join(signs.bars[min(max(level - floor * steps, 0), steps)] for level in levels)
        for floor in reversed(range(_BARS))
    ]


def _heights(bins: BinnedReliability, columns: int) -> np.ndarray:
    """Rows by width of the bin in each column."""
    # A bin narrower than a column fills it, as a point does.
    first, last = (np.rint(edge * columns).clip(0, columns).astype(int) for edge in (bins.lower, bins.upper))
    heights = np.zeros(columns)
    for i in range(bins.count.size):
        start = min(first[i], columns - 1)
        heights[start : max(last[i], start + 1)] += bins.count[i] / max(bins.upper[i] - bins.lower[i], 1 / columns)
    return heights


def _ticks(grid: _Grid) -> str:
    """Labels of quarters, as close as possible to their positions."""
    columns = grid.columns
    text = [" "] * columns
    for label, share in grid.labels_across():
        start = min(max(round(share * (columns - 1)) - (len(label) - 1) // 2, 0), columns - len(label))
        text[start : start + len(label)] = label
    return "".join(text)


def _legend(gap: np.ndarray, few: np.ndarray, width: int, signs: Signs) -> Iterator[Line]:
    """Legend of the signs in the diagram."""
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
