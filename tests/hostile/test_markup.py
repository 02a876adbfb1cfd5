"""Names are words in pages: they add no element, attribute, address or script to them."""

import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.cli import main
from calibdask.estimators.metrics import Metrics
from calibdask.markup import in_markdown
from calibdask.render.markdown import markdown
from calibdask.render.table import ResultTable
from calibdask.results.document import Code, Document, Section

MARKUP = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    '" onfocus="alert(1)" autofocus="',
    "</title><base href=//elsewhere.example>",
    "</style><style>*{background:url(//elsewhere.example)}",
    "<!-- <b>",
    "-->",
    "]]><b>",
    "<a href=javascript:alert(1)>x</a>",
    "<iframe src=//elsewhere.example>",
    "<meta http-equiv=refresh content=0;url=//elsewhere.example>",
    "&lt;b&gt; &amp; &#60;",
    "{{ 7 * 7 }} {% raw %} ${7*7} #{7}",
    "</code></pre><b>",
    "</table></div><form action=//elsewhere.example>",
    "</svg><script>alert(1)</script>",
    "<math><mi xlink:href=data:x>",
    "\x00<b>",
    "<\u202eb>",
    "<b\x0conclick=alert(1)>",
    "javascript:alert(1)",
    "`<b>`",
    "[x](javascript:alert(1))",
    "<b",
    "<?xml version='1.0'?>",
    "<!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/passwd'>]>",
]
ROWS = 10 * len(MARKUP)
LABELS, SCORES = np.arange(ROWS) % 2, np.linspace(0.02, 0.98, ROWS)
AT = np.arange(ROWS) % len(MARKUP)


class Skeleton(HTMLParser):
    """The elements of a page with the names of their attributes, and the texts besides."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}",))

    def handle_comment(self, data: str) -> None:
        self.elements.append(("comment", data))

    def handle_decl(self, decl: str) -> None:
        self.elements.append(("declaration", decl))

    def handle_pi(self, data: str) -> None:
        self.elements.append(("instruction", data))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def report(folder: Path, names: list[str], page: str = "page.html") -> str:
    """A page with these names for slices, and the first of them for the column, the model and the title."""
    frame = pd.DataFrame({"label": LABELS, "score": SCORES, names[0]: np.array(names, object)[AT % len(names)]})
    frame.to_parquet(folder / "rows.parquet")
    model = f"{re.sub('[/=]', '', names[0])}={folder / 'rows.parquet'}"
    options = ["--by", names[0], "--title", names[0], "--out", str(folder / page), "--limit", "0.1"]
    assert main(["report", model, *options, "--n-boot", "5"]) == 0
    return (folder / page).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Skeleton]:
    """A page with so many names that are no markup."""
    folder = tmp_path_factory.mktemp("harmless")
    return cache(lambda count: Skeleton(report(folder, [f"n{number:02}" for number in range(count)], f"{count}.html")))


# Slices are in the order of their names where nothing else orders them: each list begins with another one.
@pytest.mark.parametrize("names", [MARKUP, MARKUP[3:6]], ids=["all", "from 3"])
def test_a_report_has_the_elements_that_it_has_with_harmless_names(
    names: list[str], harmless: Callable[[int], Skeleton], tmp_path: Path
) -> None:
    page = Skeleton(report(tmp_path, names))
    assert sorted(page.elements) == sorted(harmless(len(names)).elements)
    said = "".join(page.texts)
    for text in names:
        if text.isprintable():
            assert text in said


def test_tables_and_descriptions_have_the_elements_of_harmless_ones() -> None:
    def shown(names: list[str]) -> list[Skeleton]:
        metrics: Metrics = {names[0]: cd.ECE()}
        result = cd.evaluate(LABELS, SCORES, metrics, by={names[1]: np.array(names, object)[AT]})
        whole = cd.evaluate(LABELS, SCORES, metrics)
        return [Skeleton(ResultTable(one)._repr_html_()) for one in (result, whole)]

    for page, plain in zip(shown(MARKUP), shown([f"n{i:02}" for i in range(len(MARKUP))]), strict=True):
        assert page.elements == plain.elements


@pytest.mark.parametrize("text", ["@team", "#1", "a $x$ $$y$$", "owner/repo#2", "me@elsewhere.example", "x@@"])
def test_what_github_looks_for_in_texts_stands_alone(text: str) -> None:
    # It takes what is left of escapes for people, issues, addresses and formulas, but not across elements.
    written = in_markdown(text)
    assert all(sign in "@#$" for sign in re.findall("<span>(.+?)</span>", written))
    assert not re.search("[@#$]", re.sub("<span>.</span>", "", written))
    assert re.sub("</?span>", "", written) == text


def test_code_ends_at_its_own_fence() -> None:
    words = "calibdask report 'a\n```\n# b\n````\n\x1b[31m.csv'"
    fence, *lines, last = markdown(Document("", "", [Section("", "", [Code(words)])])).strip().split("\n")
    assert (fence, last) == ("`````sh", "`````")
    assert lines == ["calibdask report 'a", "```", "# b", "````", r"\x1b[31m.csv'"]
