"""Texts of others in every field that reaches a page: in a browser they are words, on all kinds of pages."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from inspect import signature
from pathlib import Path
from time import monotonic
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from urllib.parse import urlencode

import numpy as np
import pytest

import calibdask as cd
from calibdask import plot
from calibdask.analyses.catalogue import analysis_of
from calibdask.markup import Html
from calibdask.report import Measured, measure, write_audit_report, write_cube_report, write_report
from calibdask.report.writing import write_analysis_report
from calibdask.results.document import Checks, Document, Element, Section, Sentence
from tests.hostile import marked_text
from tests.hostile.marked_text import DAYS, LABELS, MARK, SCORES, featured, hostile, pairs

pytestmark = pytest.mark.browser

# With a metric of a user's own, whose name is markup too; the command line has no option for these.
EXPLORE = """
import sys
import calibdask as cd
from calibdask.explore.application import explore
from tests.hostile.marked_text import hostile
metrics = {hostile("metric"): cd.ECE(bins=7)} if sys.argv[2] == "summary" else None
explore(sys.argv[1], metrics=metrics, show=False, tell=lambda url: print(url, flush=True))
"""
# The explorer with answers in which all fields are markup, and one that fails with it.
ANSWERS = """
import sys
from dataclasses import replace
from calibdask.explore.application import explore
from calibdask.explore.summaries import decisions_answer, recalibration_answer
from calibdask.explore.summaries.answer_page import Answer
from tests.browser.test_hostile_text import all_elements
from tests.hostile.marked_text import hostile
def fail(*_):
    raise ValueError(hostile("failure"))
answer = replace(Answer.of(*all_elements()), offered=(hostile("offered"), {}))
decisions_answer.decisions, recalibration_answer.recalibration = lambda *_: answer, fail
explore(sys.argv[1], show=False, tell=lambda url: print(url, flush=True))
"""
# What ran, the elements that texts have added, and all words, in all roots of widgets.
SEEN = f"""() => {{
  const roots = [document], elements = [], words = []
  for (const root of roots) {{
    for (const each of root.querySelectorAll('[{MARK}], img[src=x]')) elements.push(each.outerHTML)
    for (const each of root.querySelectorAll('*')) {{
      if (each.shadowRoot) roots.push(each.shadowRoot)
      for (const name of each.getAttributeNames()) if (/^on/.test(name)) elements.push(each.outerHTML)
    }}
    for (const each of (root.body || root).children)
      if (!/^(STYLE|SCRIPT|LINK)$/.test(each.tagName)) words.push(each.textContent)
  }}
  return {{ran: window.__ran || [], elements, words: words.join('\\n')}}
}}"""
FIELD = re.compile(rf"<b {MARK}=([\w-]+)><img src=x onerror=ran\('\1'\)>{{{{7\*7}}}}<%=7\*7%>\$\$1\$\$")


class Hunt:
    """A page on which what texts have done is noted, over all that is done there."""

    def __init__(self, visited: Any) -> None:
        self.visited, self.page = visited, visited.page
        # Pages of many names take their time where much else runs.
        self.page.set_default_timeout(120_000)
        self.page.add_init_script("window.__ran = []; window.ran = (field) => window.__ran.push(field)")
        self.fields: set[str] = set()

    def look(self) -> None:
        """Nothing has run, no element is of a text; the fields that are seen as words are noted."""
        seen = self.page.evaluate(SEEN)
        assert seen["ran"] == []
        assert seen["elements"] == []
        self.fields |= set(FIELD.findall(seen["words"]))

    def expect(self, wanted: set[str]) -> None:
        """Look until all of these fields are seen: parts of a page appear one after the other."""
        limit = monotonic() + 120
        while not wanted <= self.fields and monotonic() < limit:
            self.look()
            self.page.wait_for_timeout(100)
        assert wanted <= self.fields

    def hover(self) -> None:
        """Rest on figures and headings, which show more then."""
        for place in self.page.locator(".bk-Figure, .tabulator-col").element_handles()[:12]:
            box = place.bounding_box()
            if box and box["y"] < 1900:
                for across, down in ((0.3, 0.4), (0.5, 0.5), (0.8, 0.3)):
                    self.page.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * down)
                    self.page.wait_for_timeout(30)
        self.look()


@pytest.fixture
def hunt(visit: Callable[..., Any]) -> Hunt:
    return Hunt(visit(width=1440, height=2000))


@pytest.fixture
def served(address_of: Callable[[list[str], str], str], tmp_path: Path) -> Callable[[str], str]:
    """Starts the explorer on a store of a kind, whose file is named by markup too; the address of its page."""

    def start(kind: str) -> str:
        path = getattr(marked_text, kind)(tmp_path / f"{hostile('file')}.zarr")
        return address_of([sys.executable, "-c", EXPLORE, str(path), kind], r"^http.*\S")

    return start


def test_the_page_of_a_summary(hunt: Hunt, served: Callable[[str], str]) -> None:
    page = hunt.page
    page.goto(f"{served('summary')}?setting={hostile('link')}")
    page.get_by_role("gridcell", name=hostile("slice-off")).first.wait_for(timeout=120_000)
    # The words of a message about the link are there for a while.
    page.locator(".notyf__message").first.wait_for(timeout=120_000)
    hunt.look()
    hunt.hover()
    hunt.visited.press(
        page.get_by_role("gridcell", name=hostile("slice-off")).first,
        page.locator(".choices__list--multiple div").first,
    )
    page.get_by_role("checkbox").first.click()
    page.get_by_text("Selection B").wait_for(timeout=120_000)
    page.locator(".choices").first.click()
    hunt.look()
    hunt.hover()
    for view, sign in (
        ("over time", "With intervals; the largest"),
        ("decisions", "Risk and coverage: "),
        ("recal", "Solid: "),
    ):
        page.get_by_role("button", name=view).first.click()
        page.get_by_text(sign).first.wait_for(timeout=120_000)
        hunt.look()
    wanted = {"file", "column", "day", "slice", "slice-off", "model", "model-two", "model-dim", "metric", "link"}
    hunt.expect(wanted)
    assert page.title() == f"calibdask · {hostile('file')}.zarr"


def test_the_page_of_classes(hunt: Hunt, served: Callable[[str], str]) -> None:
    page = hunt.page
    page.goto(served("classes"))
    page.get_by_role("gridcell", name=hostile("slice-off")).first.wait_for(timeout=120_000)
    hunt.look()
    hunt.hover()
    for setting in ("each class by itself", f"class {hostile('class-b')}"):
        option = page.locator("option", has_text=setting)
        if option.count():
            page.get_by_label("Setting", exact=True).select_option(label=option.first.text_content())
            page.wait_for_timeout(4000)
            hunt.look()
            hunt.hover()
    hunt.expect({"class-a", "class-b", "class-c", "slice"})


def test_the_page_of_groups(hunt: Hunt, served: Callable[[str], str]) -> None:
    page = hunt.page
    page.goto(f"{served('groups')}?view=groups+by+features")
    page.locator(".tabulator-cell", has_text=hostile("feature-value-off")).first.wait_for(timeout=120_000)
    hunt.look()
    hunt.hover()
    hunt.expect({"feature", "feature-value-off"})


def test_titles_of_the_page_of_a_cube(hunt: Hunt, served: Callable[[str], str]) -> None:
    query = urlencode({f"role.{hostile('axis')}": "a panel each"})
    hunt.page.goto(f"{served('cube')}?{query}")
    hunt.page.locator(".bk-Figure").nth(1).wait_for(timeout=120_000)
    hunt.look()
    hunt.hover()


def test_the_page_of_a_cube(hunt: Hunt, served: Callable[[str], str]) -> None:
    page = hunt.page
    page.goto(served("cube"))
    page.locator(".bk-Figure").first.wait_for(timeout=120_000)
    # The first row: the study, and how many of its cells are done.
    page.locator(".cells", has_text=hostile("study")).wait_for(timeout=120_000)
    hunt.look()
    hunt.expect({"study", "axis-label-two"})
    hunt.hover()
    page.get_by_label("Failed cells", exact=True).select_option(index=1)
    page.locator("pre", has_text="RuntimeError").first.wait_for(timeout=120_000)
    hunt.look()
    # A point, what is behind it, and a dimension of many labels at one of them.
    many = page.get_by_label(f"{hostile('many')} (60)", exact=True)
    many.select_option(label="one label")
    page.get_by_text(f"{hostile('many')}: label").first.wait_for(timeout=120_000)
    hunt.look()
    hunt.hover()
    wanted = {"file", "output", "axis", "axis-label", "axis-label-two", "inner", "inner-label", "many", "many-label"}
    hunt.expect({*wanted, "error"})


def filled(kind: Any, name: str) -> Any:
    """A value of a type in which every text is markup that has the name of its field."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{one.name: filled(hints[one.name], f"{kind.__name__}-{one.name}") for one in fields(kind)})
    if origin is Union or origin is UnionType:
        # A text rather than HTML, and something rather than nothing.
        return filled(str if str in parts else next(part for part in parts if part is not NoneType), name)
    if origin is tuple:
        return tuple(filled(part, f"{name}-{number}") for number, part in enumerate(parts) if part is not ...)
    if origin is Sequence:
        # The heading of a row has no number; what is beside it has its picture and mark.
        return [filled(parts[0], name)]
    if kind is Element:
        return Sentence(hostile(name))
    assert kind in (str, bool, float, Html), f"{name}: tell this test how to fill in {kind}"
    return {str: hostile(name), bool: False, float: 0.5, Html: Html("<i></i>")}[kind]


# What pages use and do not show: names for programs, parts of addresses, classes of style sheets, choices of pictures.
NOT_SHOWN = {
    *("Document-name", "Document-headline", "Document-title", "Document-lead", "Document-foot", "Section-anchor"),
    *("Sentence-name", "Heading-anchor", "Links-items-0", "Finding-outcome", "Banner-icon", "Banner-link-0"),
    *("Table-name", "Cell-mark", "Cell-parts-0-0"),
}
# For JUnit alone.
NOT_ON_PAGES = {Checks}


def texts_of(value: Any) -> set[str]:
    """The fields whose texts are in a value."""
    if isinstance(value, str) and not isinstance(value, Html):
        return set(FIELD.findall(value))
    if is_dataclass(value):
        return {name for one in fields(value) for name in texts_of(getattr(value, one.name))}
    return {name for part in value for name in texts_of(part)} if isinstance(value, list | tuple) else set()


def all_elements() -> list[Element]:
    """One of each kind, in which every text is markup."""
    return [filled(kind, kind.__name__) for kind in Element.__subclasses__() if kind not in NOT_ON_PAGES]


def test_answers_of_the_explorer(hunt: Hunt, address_of: Callable[[list[str], str], str], tmp_path: Path) -> None:
    """Every text of every element that an answer may have, what it offers, and the message of one that fails."""
    path = marked_text.summary(tmp_path / f"{hostile('file')}.zarr")
    address = address_of([sys.executable, "-c", ANSWERS, str(path)], r"^http.*\S")
    hunt.page.goto(f"{address}?view=decisions")
    hunt.page.get_by_text(hostile("Heading-words")).first.wait_for(timeout=120_000)
    hunt.look()
    hunt.expect((texts_of(all_elements()) - NOT_SHOWN) | {"offered", "file"})
    hunt.page.get_by_role("button", name="recal").first.click()
    hunt.page.get_by_text(hostile("failure")).first.wait_for(timeout=120_000)
    hunt.look()
    assert "failure" in hunt.fields


def test_all_fields_of_documents(hunt: Hunt, tmp_path: Path) -> None:
    """Every text of every element that pages are made of; elements and fields that are new are among them."""
    section = replace(filled(Section, "Section"), elements=all_elements())
    document = replace(filled(Document, "Document"), sections=[section])
    write_analysis_report(
        tmp_path / "page.html", document, rows=3, source=hostile("source"), command=hostile("command")
    )
    hunt.page.goto((tmp_path / "page.html").as_uri())
    hunt.page.wait_for_timeout(300)
    hunt.look()
    hunt.expect((texts_of(document) - NOT_SHOWN) | {"source", "command"})
    # The same as a fragment, as notebooks and the explorer show it.
    hunt.page.set_content(f"<main>{document.to_html()}</main>")
    hunt.look()
    assert hunt.page.locator("main").count() == 1


def arguments_of(function: Callable[..., Any]) -> set[str]:
    """The arguments of a writer of reports that are texts, or hold some."""
    return {name for name, one in signature(function).parameters.items() if "str" in str(one.annotation)}


def test_all_fields_of_reports(hunt: Hunt, tmp_path: Path) -> None:
    """Every argument of the writers of reports, and every text of what a report is of."""
    measured = measure(LABELS, SCORES, {"ece": cd.ECE(), hostile("metric"): cd.ECE(bins=7)}, n_boot=20)
    kinds = get_type_hints(Measured)
    texts = {name: filled(kind, f"Measured-{name}") for name, kind in kinds.items() if kind in (str, tuple[str, ...])}
    texts["recalibration"] = hostile("Measured-recalibration")
    either = {name for name, kind in kinds.items() if str in get_args(kind) and name not in texts}
    assert either == {"slices"}
    assert arguments_of(write_report) == {"path", "results", "title", "command", "facts", "compared"}
    facts = {hostile("fact-name"): hostile("fact"), "model": hostile("fact-model"), "purpose": hostile("fact-purpose")}
    gate = cd.check(LABELS, SCORES, {"ece": 0.05}, n_boot=20)
    for name, decided in (("plain", None), ("gate", gate)):
        one = replace(measured, **texts, gate=decided)
        models = {hostile("model"): one, hostile("model-two"): one}
        words = {"title": hostile("title"), "command": hostile("command"), "compared": hostile("compared")}
        write_report(tmp_path / f"{name}.html", models, facts=facts, **words)
        hunt.page.goto((tmp_path / f"{name}.html").as_uri())
        hunt.page.wait_for_timeout(300)
        hunt.look()
    wanted = {name for value in texts.values() for name in texts_of(value)}
    hunt.expect(wanted | {"title", "command", "compared", "model", "model-two", "metric"})
    hunt.expect({"fact-name", "fact", "fact-model", "fact-purpose"})
    hunt.fields.clear()
    assert arguments_of(write_audit_report) == {"path", "title", "source", "command"}
    assert arguments_of(write_cube_report) == {"path", "store", "title", "command"}
    assert arguments_of(write_analysis_report) == {"path", "source", "command"}
    own: dict[str, Any] = {"title": hostile("title"), "command": hostile("command")}
    write_audit_report(tmp_path / "audit.html", cd.audit(featured()), source=hostile("source"), **own)
    write_cube_report(tmp_path / "cube.html", str(marked_text.cube(tmp_path / f"{hostile('file')}.zarr")), **own)
    for name in ("audit", "cube"):
        hunt.fields.clear()
        hunt.page.goto((tmp_path / f"{name}.html").as_uri())
        hunt.page.wait_for_timeout(300)
        hunt.look()
        assert {"title", "command", *(["source"] if name == "audit" else [])} <= hunt.fields, name


@pytest.mark.parametrize("analysis", ["check", "audit", "compare", "threshold", "watch"])
def test_pages_of_analyses(analysis: str, hunt: Hunt, tmp_path: Path) -> None:
    """What the documents of analyses say of metrics, models, slices and columns."""
    by = {hostile("column"): pairs("slice")}
    days = cd.summarize(LABELS, SCORES, by={"day": DAYS[np.arange(len(LABELS)) * len(DAYS) // len(LABELS)]}, step=0.01)
    result = {
        "check": lambda: None,
        "audit": lambda: cd.audit(featured()),
        "compare": lambda: cd.compare(
            LABELS, {hostile("model"): SCORES, hostile("model-two"): SCORES**2}, metrics={hostile("metric"): cd.ECE()}
        ),
        "threshold": lambda: cd.threshold(LABELS, SCORES, 0.3, by=by),
        "watch": lambda: cd.watch(days),
    }[analysis]()
    if result is None:
        document = cd.check(LABELS, SCORES, {"ece": 0.05}, by=by, n_boot=20).document(hostile("title"))
    else:
        document = analysis_of(result).document(result)
    write_analysis_report(tmp_path / "page.html", document, source=hostile("file"), command=hostile("command"))
    hunt.page.goto((tmp_path / "page.html").as_uri())
    hunt.page.wait_for_timeout(300)
    hunt.look()
    wanted = {
        "check": {"column", "slice", "slice-off"},
        "audit": {"feature", "feature-value-off"},
        "compare": {"model", "model-two", "metric"},
        "threshold": {"column", "slice", "slice-off"},
        "watch": {"day"},
    }[analysis]
    hunt.expect({"file", "command", *wanted})


def test_reports(hunt: Hunt, tmp_path: Path) -> None:
    names = {hostile("column"): pairs("slice")}
    gate = cd.check(LABELS, SCORES, {"ece": 0.05}, by=names, n_boot=20)
    metrics = {"ece": cd.ECE(), hostile("metric"): cd.ECE(bins=7)}
    measured = replace(measure(LABELS, SCORES, metrics, by=names, n_boot=20, source=hostile("file")), gate=gate)
    models = {hostile("model"): measured, hostile("model-two"): measured}
    write_report(tmp_path / "rows.html", models, title=hostile("title"))
    write_audit_report(tmp_path / "audit.html", cd.audit(featured()))
    write_cube_report(tmp_path / "cube.html", str(marked_text.cube(tmp_path / f"{hostile('file')}.zarr")))
    plot.save(
        {hostile("heading"): plot.reliability_diagram(cd.reliability_diagram(LABELS, SCORES))},
        tmp_path / "plot.html",
        title=hostile("title"),
        lead=hostile("lead"),
    )
    for name in ("rows", "audit", "cube", "plot"):
        hunt.page.goto((tmp_path / f"{name}.html").as_uri())
        hunt.page.wait_for_timeout(300)
        hunt.look()
    hunt.hover()
    wanted = {"column", "slice", "model", "model-two", "title", "feature", "feature-value-off", "axis", "output"}
    hunt.expect({*wanted, "heading", "lead"})
