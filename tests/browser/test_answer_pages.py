"""Decisions and recalibration as a user of the explorer sees them, on a wide window and a narrow one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calibdask as cd
from calibdask.storage.writers import write_dataset
from tests.explore.test_answer_pages import rows

pytestmark = pytest.mark.browser


def test_the_explorer_answers(visit: Callable[..., Any], explored: Callable[[Path], str], tmp_path: Path) -> None:
    labels, scores, country = rows()
    write_dataset(cd.summarize(labels, scores, by={"country": country}), tmp_path / "s.zarr")
    address = explored(tmp_path / "s.zarr")
    visited = visit(width=1280, height=1000)
    page = visited.page
    page.goto(f"{address}?view=decisions&risk=15.0")
    page.get_by_text("may go out unseen,").wait_for(timeout=60_000)
    assert page.locator("svg.picture").count() == 2
    page.get_by_role("button", name="recalibration").click()
    page.get_by_text("Yes, recalibration would take away").wait_for(timeout=60_000)
    assert "PlattScaling" in visited.download(page.get_by_text("CSV: recalibration"))
    again = visit(width=400, height=1000).page
    again.goto(page.url)
    again.get_by_text("--method platt --out map.json").wait_for(timeout=60_000)
    assert again.evaluate("document.documentElement.scrollWidth <= innerWidth")
