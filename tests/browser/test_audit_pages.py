"""Audits as a user sees them: the page, on wide windows, narrow ones and paper, and the view of the explorer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calibdask as cd
from calibdask.report import write_audit_report
from calibdask.storage.writers import write_dataset
from tests.browser.test_accessibility import findings
from tests.explore.test_groups_page import VIEW, rows

pytestmark = pytest.mark.browser

OFF = "age > 75, phone = True"


def test_the_page(visit: Callable[..., Any], tmp_path: Path) -> None:
    frame = rows()
    write_audit_report(tmp_path / "audit.html", cd.audit(frame))
    for width, medium in ((1440, "screen"), (400, "screen"), (688, "print")):
        page = visit(width=width, offline=True).page
        page.emulate_media(media=medium)
        page.goto((tmp_path / "audit.html").as_uri())
        assert (
            page.locator("header .headline").inner_text().startswith(f"1 subgroup is off, with 95 % confidence: {OFF}")
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator(".dot.over").count() > 2
        if medium == "screen":
            page.locator("nav").get_by_text("One column at a time").click()
            page.locator(".links").get_by_text("phone").click()
            assert page.evaluate("document.querySelector(location.hash).textContent") == "phone"


def test_the_explorer(visit: Callable[..., Any], explored: Callable[[Path], str], tmp_path: Path) -> None:
    frame = rows()
    write_dataset(cd.summarize(frame, features=["age", "<b>country", "phone"]), tmp_path / "s.zarr")
    address = explored(tmp_path / "s.zarr")
    visited = visit(width=1280, height=1200)
    page = visited.page
    page.goto(address)
    page.get_by_role("button", name=VIEW).click()
    page.get_by_role("heading", name=OFF).wait_for(timeout=60_000)
    # A line leads to its group: its words, its parts and its address.
    selected = {"name": "phone = True", "exact": True}
    visited.press(page.get_by_role("gridcell", **selected).first, page.get_by_role("heading", **selected))
    page.get_by_role("gridcell", name=OFF).nth(1).wait_for(timeout=30_000)
    # No number is cut off, which would be another one.
    for width in (1400, 1280):
        page.set_viewport_size({"width": width, "height": 1200})
        holders = page.locator(".tabulator-tableholder")
        assert holders.count() > 1
        assert holders.evaluate_all("holders => holders.every(one => one.scrollWidth <= one.clientWidth)")
    assert visited.download(page.get_by_text("CSV: groups")).count("\n") > 20
    assert findings(page) == []
    page.emulate_media(color_scheme="dark")
    assert findings(page, "color-contrast") == []
    # The address shows the same again, on a narrow window.
    again = visit(width=400, height=1200).page
    again.goto(page.url)
    again.get_by_role("heading", **selected).wait_for(timeout=60_000)
    assert again.evaluate("document.documentElement.scrollWidth <= innerWidth")
