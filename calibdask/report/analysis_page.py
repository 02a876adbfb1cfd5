"""Page of an analysis: its document, the facts, and instructions to reproduce it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from calibdask.results.document import Code, Document, Element, Heading, Listing, Section, Sentence
from calibdask.results.format import counted


@dataclass(frozen=True)
class Origin:
    """Where a report comes from: its title, the command, the date and the versions that made it."""

    title: str
    command: str
    date: str
    versions: Mapping[str, str]
    facts: Mapping[str, str] = field(default_factory=dict)


def analysis_page(document: Document, rows: Any, source: str, origin: Origin) -> Document:
    """Page of an analysis document, with the number of rows and the name of the data.

    The conclusion, which is the lead of the document, becomes the headline of the page.
    """
    conclusions = [element for element in document.elements() if isinstance(element, Sentence) and element.lead]
    sections = [_titled(section, conclusions) for section in document.sections]
    reproduce = Section("reproduce", "How to reproduce", list(_reproduce(origin)))
    counts = [counted(int(rows), "row")] if rows is not None else []
    return replace(
        document,
        title=origin.title,
        lead=", ".join(filter(None, [source, *counts, origin.date])),
        headline=" ".join(str(conclusion.words) for conclusion in conclusions),
        sections=[*(section for section in sections if section.elements), reproduce],
        foot=f"Made by calibdask {origin.versions.get('calibdask', '')}, {origin.date}.",
    )


def _titled(section: Section, conclusions: list[Sentence]) -> Section:
    """The section without what stands in the headline, and with a title."""
    elements = [element for element in section.elements if element not in conclusions]
    return replace(section, title=section.title or "Overview", elements=elements)


def section_elements(document: Document, prefix: str) -> Iterator[Element]:
    """All sections of a document as elements of one section of a longer page; ``prefix`` makes anchors unique."""
    for section in document.sections:
        if section.title:
            yield Heading(section.title, anchor=f"{prefix}-{section.anchor}")
        yield from section.elements


def _reproduce(origin: Origin) -> Iterator[Element]:
    if origin.command:
        yield Code(origin.command, copied=True)
    yield Listing([f"{name} {version}" for name, version in origin.versions.items()])
