"""Decisions and recalibration as a user of the explorer sees them, by keyboard, on wide, narrow and dark windows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calibdask as cd
from calibdask.storage.writers import write_dataset
from tests.browser.test_accessibility import findings
from tests.explore.test_answer_pages import rows_with_a_slice_that_is_off

pytestmark = pytest.mark.browser

# What a part of a widget looks like, wherever its root is.
LOOKS = """(selector) => {
  const roots = [document]
  for (const root of roots)
    for (const each of root.querySelectorAll('*')) {
      if (each.matches(selector)) {
        const {backgroundColor, backgroundImage, color, borderTopColor} = getComputedStyle(each)
        return {backgroundColor, backgroundImage, color, arrow: getComputedStyle(each, '::before').borderBottomColor}
      }
      if (each.shadowRoot) roots.push(each.shadowRoot)
    }
}"""


def brightness(color: str) -> float:
    """The mean of red, green and blue of a computed colour, 0 to 255."""
    return sum(float(part) for part in color[color.index("(") + 1 : -1].split(",")[:3]) / 3


def test_the_views(visit: Callable[..., Any], explored: Callable[[Path], str], tmp_path: Path) -> None:
    labels, scores, country = rows_with_a_slice_that_is_off()
    write_dataset(cd.summarize(labels, scores, by={"country": country}), tmp_path / "s.zarr")
    visited = visit(width=1440, height=1000)
    page = visited.page
    page.goto(f"{explored(tmp_path / 's.zarr')}?view=decisions&risk=15.0")
    page.get_by_text("can be accepted without review,").wait_for(timeout=60_000)
    page.locator("svg.picture").nth(1).wait_for()
    assert findings(page) == []
    # The boxes are reached by the keyboard, one after the other, and answer to it.
    page.get_by_label("Risk allowed, %", exact=True).focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("14")
    page.keyboard.press("Tab")
    page.get_by_text("a risk of at most 14 %").wait_for(timeout=30_000)
    assert page.evaluate("location.search").count("risk=14") == 1
    page.get_by_role("button", name="recalibration").focus()
    page.keyboard.press("Enter")
    page.get_by_text("No: leave the scores as they are.").wait_for(timeout=60_000)
    assert "PlattScaling" in visited.download(page.get_by_text("CSV: recalibration"))
    assert findings(page) == []
    # In a dark window too; which button is pressed, and where a list opens, can be seen there.
    page.emulate_media(color_scheme="dark")
    assert findings(page, "color-contrast") == []
    pressed, other = (
        page.evaluate(LOOKS, f".bk-btn-group .bk-btn{which}") for which in (".bk-active", ":not(.bk-active)")
    )
    assert brightness(pressed["backgroundColor"]) > brightness(other["backgroundColor"]) + 25
    assert "%23c8ced4" in page.evaluate(LOOKS, "select.bk-input")["backgroundImage"]
    assert brightness(page.evaluate(LOOKS, ".bk-spin-btn-up")["arrow"]) > 180
    # The slice that is off is one key away.
    page.get_by_role("button", name="Select country be").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Yes, recalibration would remove").wait_for(timeout=60_000)
    assert "a-country" in page.evaluate("location.search")
    page.get_by_role("button", name="decisions").click()
    page.get_by_text("Acting on scores above 20 %").wait_for(timeout=60_000)
    assert findings(page, "color-contrast") == []
    page.set_viewport_size({"width": 400, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Names in the legends of figures are pale.
    page.get_by_role("button", name="all rows").click()
    page.get_by_text("confidence interval").first.wait_for(timeout=60_000)
    assert brightness(page.evaluate(LOOKS, ".bk-label")["color"]) > 180
