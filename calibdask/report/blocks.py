"""What pages are made of: sections of blocks, as plain data; the template decides how they look."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from calibdask.markup import Html


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, the number behind it, smaller text below, a picture, or a decision's ``mark``."""

    text: str = ""
    value: float | None = None
    detail: str = ""
    picture: Html = field(default_factory=Html)
    numeric: bool = False
    mark: str = ""


def number(value: float, shown: str, detail: str = "") -> Cell:
    """A cell with a number."""
    return Cell(shown, value=value, detail=detail, numeric=True)


def text(words: object, detail: str = "") -> Cell:
    """A cell with words."""
    return Cell(str(words), detail=detail)


class Element:
    """A part of a section, drawn by the macro that is called like its class."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__.lower()


@dataclass(frozen=True)
class Paragraph(Element):
    """A paragraph; a ``quiet`` one is set smaller."""

    words: str
    quiet: bool = False


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
    """What is decided of a model: its word, icon and line, sentences, and a picture with a caption.

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


@dataclass(frozen=True)
class Figure:
    """A figure and its caption."""

    picture: Html
    caption: str


@dataclass(frozen=True)
class Figures(Element):
    """Pictures side by side, as far as they fit; ``small`` ones are many, a ``wide`` one has room of its own."""

    items: Sequence[Figure]
    small: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the page that links lead to; in print it may start a page."""

    anchor: str
    title: str
    blocks: Sequence[Element]
    starts_page: bool = False


@dataclass(frozen=True)
class Page:
    """A page: its title, what it says in a sentence, a line below that, and its sections."""

    title: str
    lead: str
    sections: Sequence[Section]
    foot: str
    headline: str = ""
