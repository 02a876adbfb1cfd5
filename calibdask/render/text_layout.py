"""Lines of text in columns: their width on a terminal, where names break, points one above the other."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import Literal

from calibdask.safe_text import visible

# Narrower than this nothing is wrapped.
SHORTEST = 12
GAP = "  "
INDENT = "  "
_NUMBER = len("-0.00000")
# A blank at which no line breaks.
_TIE = "\N{NO-BREAK SPACE}"

# What a piece of a line is: consoles give each a style. Points are over or under what they should be.
Role = Literal["", "head", "aside", "over", "under"]
Line = tuple[tuple[str, Role], ...]


@dataclass(frozen=True)
class Column:
    """Cells of one or more lines each, beneath a heading of as many as it needs; ``role`` is that of the cells."""

    heading: Sequence[str]
    cells: Sequence[Sequence[str]]
    right: bool = False
    role: Role = ""

    def __post_init__(self) -> None:
        # What moves the cursor would move the table, so that it is written out before widths are measured.
        object.__setattr__(self, "heading", [*map(visible, self.heading)])
        object.__setattr__(self, "cells", [[*map(visible, lines)] for lines in self.cells])

    @property
    def width(self) -> int:
        """Width of the longest line."""
        return max(width_of(text) for lines in (self.heading, *self.cells) for text in lines)

    def fitted(self, text: str, width: int) -> str:
        """The text with blanks up to a width."""
        blanks = " " * (width - width_of(text))
        return blanks + text if self.right else text + blanks


def joined(line: Line) -> str:
    """The line as plain text."""
    return "".join(visible(text) for text, _ in line).rstrip()


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


def wrapped(text: str, width: int) -> list[str]:
    """Wrap a text; no line begins with the unit of a number."""
    lines = wrap(re.sub(r"(?<=\d) (?=%|s\b)", _TIE, text), max(SHORTEST, width))
    return [line.replace(_TIE, " ") for line in lines] or [""]


def asides(text: str, width: int) -> Iterator[Line]:
    """Words in lines of small print; none for an empty text."""
    return (((line, "aside"),) for line in (wrapped(text, width) if text else ()))


def _words(name: str) -> list[str]:
    """The pieces of a name, each with the underscore at its end."""
    return re.findall(r"[^_]*_|[^_]+", name)


def folded(name: str, width: int, indent: str = INDENT) -> list[str]:
    """A name in lines that break after underscores, which stay."""
    lines = [""]
    for word in _words(name):
        if lines[-1] and len(lines[-1] + word) > width:
            lines.append(indent)
        lines[-1] += word
    return lines


def column_widths(columns: Sequence[Column]) -> int:
    """Columns of text with the gap after, or before, each."""
    return sum(column.width + len(GAP) for column in columns)


def aligned(heading: Sequence[str], texts: Sequence[Sequence[str]], role: Role = "") -> Column:
    """Numbers with their points one above the other."""
    # Integers of a column of fractions, and dashes, end where the point would be.
    tails = [len(text) - text.index(".") if "." in text else 0 for lines in texts for text in lines]
    deepest = max(tails, default=0)
    padded = [
        [text + " " * (deepest - (len(text) - text.index(".") if "." in text else 0)) for text in lines]
        for lines in texts
    ]
    return Column(heading, padded, right=True, role=role)


def folded_heading(name: str) -> list[str]:
    """The words of the name of a variable in lines about as long as a number; no word is broken.

    Examples
    --------
    >>> folded_heading("calibration_slope_slope"), folded_heading("mean_gap")
    (['calibration', 'slope slope'], ['mean gap'])
    """
    words = [word for word in name.split("_") if word] or [name]
    longest = max(_NUMBER, *(len(word) for word in words))
    lines = [""]
    for word in words:
        if lines[-1] and len(f"{lines[-1]} {word}") > longest:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def plain_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of cells as lines, the first column to the left, the others to the right.

    Examples
    --------
    >>> list(plain_columns([("", "rows"), ("all", "4")]))
    ['     rows', 'all     4']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
        yield GAP.join([row[0].ljust(widths[0]), *cells[1:]]).rstrip()


def table_lines(columns: Sequence[Column], rule: str, notes: Sequence[Sequence[str]] | None = None) -> Iterator[Line]:
    """Headings at the bottom of their line, cells at the top of theirs, notes beneath the row they belong to."""
    widths = [column.width for column in columns]
    deepest = max(len(column.heading) for column in columns)
    headings = [[*[""] * (deepest - len(column.heading)), *column.heading] for column in columns]
    for texts in zip(*headings, strict=True):
        yield _line(columns, widths, texts, "head")
    yield ((rule * (sum(widths) + len(GAP) * (len(columns) - 1)), "aside"),)
    for number, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        for texts in zip_longest(*row, fillvalue=""):
            yield _line(columns, widths, texts)
        for note in notes[number] if notes is not None else ():
            if note:
                yield ((INDENT + note, "aside"),)


def _line(columns: Sequence[Column], widths: Sequence[int], texts: Sequence[str], role: Role = "") -> Line:
    pieces: list[tuple[str, Role]] = []
    for column, width, text in zip(columns, widths, texts, strict=True):
        if pieces:
            pieces.append((GAP, ""))
        pieces.append((column.fitted(text, width), role or column.role))
    return tuple(pieces)
