"""Documents as GitHub-flavoured Markdown, whose texts of data mean nothing there."""

import re
from collections.abc import Iterator

from calibdask.markup import in_markdown
from calibdask.results.document import (
    Banner,
    Cell,
    Code,
    Document,
    Element,
    Facts,
    Heading,
    Listing,
    Sentence,
    Table,
    Terms,
)
from calibdask.safe_text import visible_lines

_FENCES = re.compile("`+")
_MARKS = {"met": "✅", "broken": "❌", "undecided": "❔"}


def markdown(document: Document) -> str:
    """The title, and all sections below it; pictures are left out."""
    title = [f"### {in_markdown(document.title)}"] if document.title else []
    parts = [*title, *filter(None, map("\n".join, _sections(document)))]
    return "\n\n".join(parts) + "\n"


def _sections(document: Document) -> Iterator[list[str]]:
    several = len(document.sections) > 1
    for section in document.sections:
        if several and section.title and section.elements:
            yield [f"#### {in_markdown(section.title)}"]
        for element in section.elements:
            yield list(_lines(element))


def _lines(element: Element) -> Iterator[str]:
    match element:
        case Sentence(words, lead=True):
            yield f"**{in_markdown(words)}**"
        case Sentence(words):
            yield in_markdown(words)
        case Heading(words):
            yield f"##### {in_markdown(words)}"
        case Listing(items):
            yield from (f"- {in_markdown(item)}" for item in items)
        case Facts(items) | Terms(items):
            yield from (f"- **{in_markdown(name)}**: {in_markdown(' '.join(words).strip())}" for name, *words in items)
        case Code(words):
            # A longer fence than any in the words, which cannot end it.
            fence = "`" * max(3, 1 + max(map(len, _FENCES.findall(words)), default=0))
            yield from (f"{fence}sh", *visible_lines(words).split("\n"), fence)
        case Banner(name, word, _, line, sentences):
            yield f"**{in_markdown(': '.join(filter(None, (name, word, line))))}**"
            yield from (f"- {in_markdown(sentence)}" for sentence in sentences)
        case Table():
            yield from _table_lines(element)


def _table_lines(table: Table) -> Iterator[str]:
    rows = [row for row in table.rows if any(cell.text for cell in row)]
    if table.caption:
        yield f"**{in_markdown(table.caption)}**"
        yield ""
    yield _line(in_markdown(heading) for heading, _ in table.columns)
    yield _line("--:" if numeric else "---" for _, numeric in table.columns)
    for row in rows:
        yield _line(map(_cell, row))
    if table.note:
        yield ""
        yield in_markdown(table.note)


def _cell(cell: Cell) -> str:
    mark = _MARKS.get(cell.mark)
    return in_markdown(cell.text) if mark is None else f"{mark} {cell.mark}"


def _line(cells: "Iterator[str] | map[str]") -> str:
    return f"| {' | '.join(cells)} |"
