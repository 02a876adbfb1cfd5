"""Texts of others in every field that reaches a page: in a browser they are words, on all kinds of pages."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import calibdask as cd
from calibdask import plot
from calibdask.report import measure, write_audit_report, write_cube_report, write_report
from tests.hostile import marked_text
from tests.hostile.marked_text import LABELS, MARK, SCORES, featured, hostile, pairs

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
    assert wanted <= hunt.fields
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
    assert {"class-a", "class-b", "class-c", "slice"} <= hunt.fields


def test_the_page_of_groups(hunt: Hunt, served: Callable[[str], str]) -> None:
    page = hunt.page
    page.goto(f"{served('groups')}?view=groups+by+features")
    page.locator(".tabulator-cell", has_text=hostile("feature-value-off")).first.wait_for(timeout=120_000)
    hunt.look()
    hunt.hover()
    assert {"feature", "feature-value-off"} <= hunt.fields


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
    hunt.look()
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
    assert {*wanted, "error"} <= hunt.fields


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
    assert {*wanted, "heading", "lead"} <= hunt.fields
