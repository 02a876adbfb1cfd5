"""Documents as text: for terminals, by lines whose pieces have a role, and as one string."""

from collections.abc import Iterator, Sequence

from calibdask.render.text_layout import GAP, Column, Line, aligned, asides, column_widths, joined, table_lines, wrapped
from calibdask.results.document import (
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

_RULE = "─"


def document_text(document: Document, width: int = 100) -> str:
    """The document as plain text."""
    return "\n".join(joined(line) for line in document_lines(document, width))


def document_lines(document: Document, width: int, rule: str = _RULE) -> Iterator[Line]:
    """The lines of all sections; a blank line stands around tables and between sections.

    Parameters
    ----------
    document : Document
    width : int
        Columns of the terminal. Sentences are wrapped to it; wider tables of numbers continue below, each part with
        the first column.
    rule : str
        What the line below the headings of a table is made of.
    """
    parts = [list(_element_lines(element, width, rule)) for element in _shown(document)]
    kinds = [isinstance(element, Table | Heading) for element in _shown(document)]
    after_table = False
    for place, (lines, apart) in enumerate(zip(parts, kinds, strict=True)):
        if place and lines and (apart or after_table):
            yield ()
        yield from lines
        after_table = apart and bool(lines)


def _shown(document: Document) -> list[Element]:
    """The elements of all sections but appendices; each section but the first begins with its title."""
    elements: list[Element] = []
    for section in document.sections:
        if section.appendix:
            continue
        if elements and section.elements and section.title:
            elements.append(Heading(section.title))
        elements += section.elements
    following = [*elements[1:], None]
    return [here for here, after in zip(elements, following, strict=True) if not _repeats(here, after)]


def _repeats(element: Element, following: Element | None) -> bool:
    """Whether it is a heading within a section above a table with a caption, which says as much."""
    is_inner = isinstance(element, Heading) and bool(element.anchor)
    return is_inner and isinstance(following, Table) and bool(following.caption)


def _element_lines(element: Element, width: int, rule: str) -> Iterator[Line]:
    """The lines of one element; pictures have none."""
    match element:
        case Sentence(words, quiet=True):
            yield from asides(str(words), width)
        case Sentence(words, lead=True):
            yield from (((line, "head"),) for line in wrapped(str(words), width))
        case Sentence(words):
            yield from (((line, ""),) for line in wrapped(str(words), width))
        case Heading(words):
            yield ((words, "head"),)
        case Listing(items):
            for item in items:
                first, *others = wrapped(item, width - 2)
                yield ((f"- {first}", ""),)
                yield from (((f"  {line}", ""),) for line in others)
        case Facts(items) | Terms(items):
            for name, *parts in items:
                yield from (((line, ""),) for line in wrapped(f"{name}: {' '.join(parts).strip()}", width))
        case Code(words):
            yield from (((f"  {line}", ""),) for line in words.splitlines())
        case Table():
            yield from _table_lines(element, width, rule)


def _table_lines(table: Table, width: int, rule: str) -> Iterator[Line]:
    # Cells that only have a picture are empty here.
    rows = [row for row in table.rows if any(cell.text for cell in row)]
    places = [place for place in range(len(table.columns)) if any(row[place].text for row in rows)]
    columns = [_column(table.columns[place][0], [row[place] for row in rows]) for place in places]
    if table.caption:
        yield ((table.caption, "head"),)
    numbers_alone = all(cell.numeric for row in rows for cell in row[1:])
    for number, fitting in enumerate(_fitting(columns, width) if numbers_alone else [columns]):
        if number:
            yield ()
        yield from table_lines(fitting, rule)
    if table.note:
        yield from asides(table.note, width)


def _fitting(columns: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """The columns of one table after the other, each with the first column, and no wider than the lines."""
    first, *others = columns
    shown: list[Column] = []
    for column in others:
        if shown and column_widths([first, *shown, column]) - len(GAP) > width:
            yield [first, *shown]
            shown = []
        shown.append(column)
    yield [first, *shown]


def _column(heading: str, cells: Sequence[Cell]) -> Column:
    texts = [[cell.text] for cell in cells]
    is_numeric = any(cell.numeric for cell in cells)
    headings = _heading_lines(heading, max((len(text) for (text,) in texts), default=0))
    return aligned(headings, texts) if is_numeric else Column(headings, texts)


def _heading_lines(heading: str, cell_width: int) -> list[str]:
    """The words of a heading in lines no wider than the cells or the longest word."""
    longest = max(map(len, heading.split()), default=0)
    return wrapped(heading, max(longest, cell_width)) if longest else [heading]
