"""Results as lines of text that fit a width: no number is ever cut, words make room for numbers."""

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from textwrap import wrap
from typing import Any, Literal

import xarray as xr

from calibdask.results.format import rests_on, shown_number, slice_text
from calibdask.results.values import (
    PartResult,
    Results,
    Value,
)

__all__ = ["MOST_SLICES", "Line", "Role", "foot_lines", "joined", "label_of", "result_lines", "width_of"]

# More slices than these are for files.
MOST_SLICES = 200
_LONGEST_LABEL = 40
_SHORTEST_LABEL = 12
_NARROWEST_MEANING = 24
_NUMBER = len("0.000000")
_GAP = "  "
_INDENT = "  "
# A blank at which no line breaks.
_TIE = "\N{NO-BREAK SPACE}"

# What a piece of a line is: consoles give each a style. Points are over or under what they should be.
Role = Literal["", "head", "aside", "over", "under"]
Line = tuple[tuple[str, Role], ...]


@dataclass(frozen=True)
class _Column:
    """Cells of one or more lines each, beneath a heading of as many as it needs; ``role`` is that of the cells."""

    heading: Sequence[str]
    cells: Sequence[Sequence[str]]
    right: bool = False
    role: Role = ""

    @property
    def width(self) -> int:
        return max(width_of(text) for lines in (self.heading, *self.cells) for text in lines)

    def fitted(self, text: str, width: int) -> str:
        """The text with blanks up to a width."""
        blanks = " " * (width - width_of(text))
        return blanks + text if self.right else text + blanks


def result_lines(dataset: xr.Dataset, width: int, *, rule: str = "─", rest: str = "") -> Iterator[Line]:
    """A line for each number, or with slices a line for each slice and a column for each number.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `calibdask.evaluate`.
    width : int
        Columns of text. Where numbers alone need more they get it.
    rule : str, default "─"
        What the line under a heading is made of.
    rest : str, optional
        Where the slices are told that are too many for a table.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2)})
    >>> [joined(line) for line in result_lines(result, 60)][2]
    'ece     0.250000  mean gap of score and frequency, in 2 bins'
    """
    results = Results(dataset)
    if not results.numbers:
        yield (("no single numbers", "aside"),)
        return
    if not results.shared_dims:
        yield from _of_numbers(results.values(), width, rule)
        return
    for number, columns in enumerate(_tables(results, width)):
        if number:
            yield ()
        yield from _table(columns, rule)
    hidden = math.prod(dataset.sizes[dim] for dim in results.shared_dims) - MOST_SLICES
    if hidden > 0:
        yield from _asides(f"... and {hidden:,} more slices{rest}", width)


def foot_lines(attributes: Mapping[Any, Any], width: int, *further: str) -> Iterator[Line]:
    """What the numbers rest on, if the result tells it, and further words."""
    facts = rests_on(attributes) if {"rows", "passes"} <= attributes.keys() else []
    yield from _asides(", ".join((*facts, *further)), width)


def joined(line: Line) -> str:
    """The line as plain text."""
    return "".join(text for text, _ in line).rstrip()


def width_of(text: str) -> int:
    """Columns that the text takes on a terminal: two for each wide character, none for an accent of its own.

    Examples
    --------
    >>> width_of("ece"), width_of("日本")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def label_of(value: Any, longest: int = _LONGEST_LABEL) -> str:
    r"""The label of a slice, shortened; what would move the cursor or colour the screen is written out.

    Examples
    --------
    >>> label_of("de"), label_of("\x1b[31mred"), label_of("abcdefgh", 6)
    ('de', '\\x1b[31mred', 'abc...')
    """
    text = slice_text(value)
    text = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
    if width_of(text) <= longest:
        return text
    while width_of(text) > longest - 3:
        text = text[:-1]
    return text + "..."


def _of_numbers(values: Sequence[Value], width: int, rule: str) -> Iterator[Line]:
    """Numbers with their intervals beside them; what they say stands beside these, or beneath in narrow places."""
    names = [value.name for value in values]
    numbers = [_Column(["value"], [[shown_number(value.value)] for value in values], right=True)]
    if any(value.has_interval for value in values):
        numbers += [
            _Column(
                [end], [[shown_number(getattr(value, end)) if value.has_interval else ""] for value in values], True
            )
            for end in ("low", "high")
        ]
    taken = _taken(numbers)
    left = width - max(map(len, names)) - taken - len(_GAP)
    meanings = [value.meaning for value in values]
    named = _Column(["metric"], [[name] for name in names])
    if not any(meanings):
        yield from _table([named, *numbers], rule)
    elif left >= _NARROWEST_MEANING:
        said = _Column(["what it says"], [_wrapped(meaning, left) for meaning in meanings], role="aside")
        yield from _table([named, *numbers, said], rule)
    else:
        room = max(_SHORTEST_LABEL, width - taken)
        named = _Column(["metric"], [_folded(name, room) for name in names])
        yield from _table([named, *numbers], rule, [_wrapped(meaning, width - len(_INDENT)) for meaning in meanings])


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, max(_SHORTEST_LABEL, width)) or [""]


def _asides(text: str, width: int) -> Iterator[Line]:
    """Words in lines, none of which begins with the unit of a number."""
    lines = wrap(re.sub(r"(?<=\d) (?=%|s\b)", _TIE, text), max(_SHORTEST_LABEL, width))
    return (((line.replace(_TIE, " "), "aside"),) for line in lines)


def _words(name: str) -> list[str]:
    """The pieces of a name, each with the underscore at its end."""
    return re.findall(r"[^_]*_|[^_]+", name)


def _folded(name: str, width: int, indent: str = _INDENT) -> list[str]:
    """A name in lines that break after underscores, which stay."""
    lines = [""]
    for word in _words(name):
        if lines[-1] and len(lines[-1] + word) > width:
            lines.append(indent)
        lines[-1] += word
    return lines


def _taken(columns: Sequence[_Column]) -> int:
    """Columns of text with the gap after, or before, each."""
    return sum(column.width + len(_GAP) for column in columns)


def _tables(results: Results, width: int) -> Iterator[list[_Column]]:
    """Columns of one table after the other, so that each fits; the ends of an interval stay with their number."""
    labels = _label_columns(results, width)
    columns = labels
    for part in results.numbers:
        of_part = _number_columns(part, results.shared_dims)
        if len(columns) > len(labels) and _taken([*columns, *of_part]) - len(_GAP) > width:
            yield columns
            columns = labels
        columns = [*columns, *of_part]
    yield columns


def _label_columns(results: Results, width: int) -> list[_Column]:
    """The labels of slices, shorter ones in narrow places."""
    dims = results.shared_dims
    longest = max(_SHORTEST_LABEL, min(_LONGEST_LABEL, width // (2 * len(dims))))
    rows = [list(labels.values()) for _, labels in islice(results.strata(), MOST_SLICES)]
    return [
        _Column([label_of(dim, longest)], [[label_of(row[place], longest)] for row in rows])
        for place, dim in enumerate(dims)
    ]


def _number_columns(part: PartResult, dims: Sequence[str]) -> list[_Column]:
    """A column for the number, and those of the ends of its interval, which need no longer words."""
    ends = ("low", "high") if part.has_interval else ()
    columns = []
    for name, variable in ((part.variable, part.values), *((end, part.bounds[end]) for end in ends)):
        missing = {dim: 1 for dim in dims if dim not in variable.dims}
        values = variable.expand_dims(missing).transpose(*dims).values.ravel()[:MOST_SLICES].tolist()
        width = max([_NUMBER, *map(len, _words(name))])
        columns.append(_Column(_folded(name, width, ""), [[shown_number(value)] for value in values], right=True))
    return columns


def _table(columns: Sequence[_Column], rule: str, notes: Sequence[Sequence[str]] | None = None) -> Iterator[Line]:
    """Headings at the bottom of their line, cells at the top of theirs, notes beneath the row they belong to."""
    widths = [column.width for column in columns]
    deepest = max(len(column.heading) for column in columns)
    headings = [[*[""] * (deepest - len(column.heading)), *column.heading] for column in columns]
    for texts in zip(*headings, strict=True):
        yield _line(columns, widths, texts, "head")
    yield ((rule * (sum(widths) + len(_GAP) * (len(columns) - 1)), "aside"),)
    for number, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        for texts in zip_longest(*row, fillvalue=""):
            yield _line(columns, widths, texts)
        for note in notes[number] if notes is not None else ():
            if note:
                yield ((_INDENT + note, "aside"),)


def _line(columns: Sequence[_Column], widths: Sequence[int], texts: Sequence[str], role: Role = "") -> Line:
    pieces: list[tuple[str, Role]] = []
    for column, width, text in zip(columns, widths, texts, strict=True):
        if pieces:
            pieces.append((_GAP, ""))
        pieces.append((column.fitted(text, width), role or column.role))
    return tuple(pieces)
