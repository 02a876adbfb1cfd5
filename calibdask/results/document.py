"""Documents: what an analysis says, as plain data. Renderers turn them into text, HTML, Markdown and JUnit.

A document is a list of sections, a section a list of elements: sentences, tables, figures and the furniture of pages.
Elements have names, so that tests and programs find them. Cells keep the numbers behind their texts, so that all
renderers show the same numbers.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count, islice
from typing import Any, ClassVar

from calibdask.markup import Html


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, the number behind it, smaller text below, a picture, or a decision's ``mark``.

    ``parts`` are the numbers behind a text that has several, such as an interval, with their names.
    """

    text: str = ""
    value: float | None = None
    detail: str = ""
    picture: Html = field(default_factory=Html)
    numeric: bool = False
    mark: str = ""
    parts: tuple[tuple[str, float], ...] = ()


def number(value: float, shown: str, detail: str = "") -> Cell:
    """A cell with a number."""
    return Cell(shown, value=value, detail=detail, numeric=True)


def numeric(value: float, shown: str) -> Cell:
    """A cell with a number that may not exist: only a finite one is kept behind the text."""
    return Cell(shown, value=float(value) if math.isfinite(value) else None, numeric=True)


def interval(low: float | None, high: float | None, shown: str, picture: Html | None = None) -> Cell:
    """A cell with an interval: only finite ends are kept behind the text."""
    ends = (("low", low), ("high", high))
    parts = tuple((name, float(end)) for name, end in ends if end is not None and math.isfinite(end))
    return Cell(shown, picture=Html() if picture is None else picture, numeric=True, parts=parts)


def text(words: object, detail: str = "") -> Cell:
    """A cell with words."""
    return Cell(str(words), detail=detail)


class Element:
    """A part of a section, drawn by the macro that is called like its class."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__.lower()


@dataclass(frozen=True)
class Sentence(Element):
    """A sentence or a few. The ``lead`` is the conclusion; ``quiet`` ones are notes, set smaller."""

    words: str | Html
    quiet: bool = False
    lead: bool = False
    name: str = ""


@dataclass(frozen=True)
class Heading(Element):
    """A heading within a section; ``Links`` lead to its anchor."""

    words: str
    anchor: str = ""


@dataclass(frozen=True)
class Links(Element):
    """Links to headings: anchors and words."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Listing(Element):
    """Bullet points."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code(Element):
    """A command, or the output of a program; what can be ``copied`` has a button."""

    words: str
    copied: bool = False


@dataclass(frozen=True)
class Terms(Element):
    """Terms with their definitions and sources."""

    items: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Finding:
    """The verdict on a model: its name, the kind of verdict, a line and sentences."""

    name: str
    outcome: str
    line: str
    sentences: Sequence[str]


@dataclass(frozen=True)
class Findings(Element):
    """Verdicts, one for each model."""

    items: Sequence[Finding]


@dataclass(frozen=True)
class Banner(Element):
    """Decision on a model: word, icon and line, sentences, and a picture with a caption.

    The link is the anchor and the title of a section with more. The word ``neutral`` is not shown: nothing is decided.
    """

    name: str
    word: str
    icon: str
    line: str
    sentences: Sequence[str]
    picture: Html = field(default_factory=Html)
    caption: str = ""
    link: tuple[str, str] | None = None


@dataclass(frozen=True)
class Facts(Element):
    """What a report is about, as a grid of names and words."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Signature(Element):
    """A box to sign."""

    words: str = "Decision and reasons; name, date, signature"


@dataclass(frozen=True)
class Table(Element):
    """A table: the first cell of each row is its heading. ``columns`` are headings and whether numbers are below.

    A ``compact`` one has many columns of pictures.
    """

    caption: str
    columns: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    compact: bool = False
    name: str = ""

    def numbers(self) -> dict[str, float]:
        """The numbers in the cells, by the name of the table, the first cells of their row and their column.

        A row has the name of as many of its first cells as distinguish the rows; a repeated heading follows the one
        that it belongs to. Names have the characters that trackers of experiments accept.

        Examples
        --------
        >>> cells = [text("ece"), text("device=phone"), number(0.02, "0.02"), interval(0.01, 0.03, "0.01 to 0.03")]
        >>> table = Table("", [("limit", False), ("where", False), ("number", True), ("interval", True)], [cells])
        >>> table.numbers()
        {'ece/number': 0.02, 'ece/low': 0.01, 'ece/high': 0.03}
        """
        numbers: dict[str, float] = {}
        for row_name, row in zip(self._row_names(), self.rows, strict=True):
            for heading, cell in zip(self._headings(), row, strict=True):
                own = () if cell.value is None else ((heading, cell.value),)
                for name, value in (*own, *cell.parts):
                    words = (_tracked(word) for word in (self.name, row_name, name))
                    numbers[_unused("/".join(filter(None, words)), numbers)] = value
        return numbers

    def _row_names(self) -> list[str]:
        """The fewest first texts of rows that distinguish them; the first one where none do."""
        texts = [[cell.text for cell in row if cell.text and _is_label(cell)] for row in self.rows]
        for most in range(1, max(map(len, texts), default=0) + 1):
            names = [", ".join(of_row[:most]) for of_row in texts]
            if len(set(names)) == len(names):
                return names
        return [", ".join(of_row[:1]) for of_row in texts]

    def _headings(self) -> list[str]:
        """The headings; those that occur several times after the heading before them that does not."""
        headings = [heading for heading, _ in self.columns]
        group, names = "", []
        for heading in headings:
            repeated = headings.count(heading) > 1
            group = group if repeated else heading
            names.append(f"{group} {heading}" if repeated else heading)
        return names


def _is_label(cell: Cell) -> bool:
    return cell.value is None and not cell.numeric and not cell.parts


def _tracked(name: str) -> str:
    """A name of letters, digits, spaces and ``_ - . /``, which trackers of experiments accept.

    Examples
    --------
    >>> _tracked("log-loss(clip=0.001), x = −1,000")
    'log-loss clip 0.001 x -1000'
    """
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", name.replace("−", "-"))
    return " ".join(re.sub(r"[^\w./ -]", " ", plain).split())


def _unused(name: str, numbers: Mapping[str, float]) -> str:
    """The name, with a number where it is taken."""
    further = (f"{name} {place}" for place in count(2))
    return next(one for one in (name, *islice(further, len(numbers) + 1)) if one not in numbers)


@dataclass(frozen=True)
class CheckedLimit:
    """One decision for a build server: its name, ``met``, ``broken`` or ``undecided``, a sentence, and its meaning."""

    name: str
    outcome: str
    message: str
    meaning: str = ""


@dataclass(frozen=True)
class Checks(Element):
    """Decisions for JUnit; text and pages show the table beside them."""

    items: Sequence[CheckedLimit]


@dataclass(frozen=True)
class Figure:
    """A figure and its caption."""

    picture: Html
    caption: str


@dataclass(frozen=True)
class Figures(Element):
    """Pictures side by side where they fit; ``small`` ones are many, a ``wide`` one has its own line."""

    items: Sequence[Figure]
    small: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """A part of a document that links lead to; in print it may start a page. Text leaves an ``appendix`` out."""

    anchor: str
    title: str
    elements: Sequence[Element]
    starts_page: bool = False
    appendix: bool = False


@dataclass(frozen=True)
class Document:
    """What an analysis says: its title, a line about the data, and sections.

    Attributes
    ----------
    title, lead, headline, foot : str
        The heading, what it is about, the conclusion in a sentence, and a last line.
    sections : sequence of Section
    name : str
        The analysis that it is the document of.

    Examples
    --------
    >>> cells = [text("all rows"), number(0.03, "0.030")]
    >>> table = Table("Error", [("slice", False), ("ece", True)], [cells], name="errors")
    >>> document = Document("Calibration", "", [Section("errors", "Errors", [Sentence("Small.", lead=True), table])])
    >>> print(document.to_text())
    Small.
    <BLANKLINE>
    Error
    slice       ece
    ───────────────
    all rows  0.030
    >>> document.numbers()
    {'errors/all rows/ece': 0.03}
    """

    title: str
    lead: str
    sections: Sequence[Section]
    foot: str = ""
    headline: str = ""
    name: str = ""

    def elements(self) -> Iterator[Element]:
        """All elements, section by section."""
        for section in self.sections:
            yield from section.elements

    def to_text(self, width: int = 100) -> str:
        """Plain text, in lines of at most this width; wider tables of numbers continue below."""
        return str(_renderer("text").document_text(self, width))

    def to_markdown(self) -> str:
        """GitHub-flavoured Markdown: for pull requests, job summaries, and model trackers."""
        return str(_renderer("markdown").markdown(self))

    def to_html(self) -> Html:
        """HTML without a style: for notebooks and other pages. All texts are escaped."""
        html: Html = _renderer("html").html(self)
        return html

    def numbers(self) -> dict[str, float]:
        """All numbers of the tables, each by its table, row and column: what ``mlflow.log_metrics`` takes."""
        numbers: dict[str, float] = {}
        for element in self.elements():
            if isinstance(element, Table):
                for name, value in element.numbers().items():
                    numbers[_unused(name, numbers)] = value
        return numbers


def _renderer(name: str) -> Any:
    """The module that renders a format; renderers import documents, so that it is imported when it is needed."""
    return import_module(f"calibdask.render.{name}")
