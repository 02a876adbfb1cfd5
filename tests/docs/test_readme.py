"""Examples of the README and of the pages run, and print and draw what pages show."""

import re
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from tests.docs.test_docs import DOCS, ROOT

sys.path.append(str(DOCS))

from page_outputs import BLOCK, PICTURES, pages, pictures, run, without_time  # type: ignore[import-not-found]

PAGES = {page.relative_to(ROOT).with_suffix("").as_posix(): page for page in pages()}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert without_time(run(page, tmp_path)) == without_time(text), "run python deploy/docs/page_outputs.py"
    for name in pictures(text):
        drawn, kept = (matplotlib.image.imread(folder / name) for folder in (tmp_path, PICTURES))
        assert drawn.shape == kept.shape
        # Versions of Python differ in the last digits of numbers, and pixels with them.
        assert np.abs(drawn - kept).mean() < 0.01, f"run python deploy/docs/page_outputs.py {page.name}"


def test_kept_pictures_are_shown() -> None:
    shown = set().union(*(pictures(page.read_text(encoding="utf-8")) for page in PAGES.values()))
    assert {path.name for path in PICTURES.iterdir()} == shown
    assert max(path.stat().st_size for path in PICTURES.iterdir()) < 150_000


def test_pages_of_questions_and_guides_show_what_they_print() -> None:
    for folder in ("questions", "guides"):
        for page in sorted((DOCS / folder).glob("*.md")):
            if page.stem == "index":
                continue
            text = page.read_text(encoding="utf-8")
            assert all(match["output"] for match in BLOCK.finditer(text)), page
            assert page in PAGES.values()
            assert max(text.find("\n## Caveats\n"), text.find("the weaknesses of each\n")) > 0, page


def test_no_line_is_lost() -> None:
    """A line of prose that begins with a per cent sign would be a comment, and missing on the page."""
    lost = {
        f"{page.relative_to(ROOT)}: {line}"
        for page in (*DOCS.rglob("*.md"), *ROOT.glob("experiments/**/*.md"), *ROOT.glob("*.md"))
        for line in re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL).splitlines()
        if line.lstrip().startswith("%")
    }
    assert not lost


def test_pages_with_examples() -> None:
    assert len(PAGES) > 30
    readme = PAGES["README"].read_text(encoding="utf-8")
    assert sum(match["output"] is not None for match in BLOCK.finditer(readme)) == 3
