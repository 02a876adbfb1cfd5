"""Pages of the explorer for the keyboard, for screen readers, for narrow windows and for dark ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.storage.writers import write_dataset
from tests.explore.explored_study import Estimates

pytestmark = pytest.mark.browser

# Serious findings in the markup of Bokeh and Panel, which pages do not write, each with the part of the page it is of.
THEIRS = {
    # Tabulator calls its whole box a grid, with the buttons of its pages in it.
    "aria-required-children": "pnx-tabulator",
}


def findings(page: Any, *rules: str) -> list[str]:
    """Serious and critical findings of axe-core, one for each element, without those of others' markup.

    By these ``rules`` alone, if there are some, which is quicker.
    """
    sync = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed (extra browser-tests)"
    )
    # A transition of a drawer or a box that is under way has no contrast of its own.
    page.wait_for_timeout(300)
    options = {"runOnly": list(rules)} if rules else None
    violations = sync.Axe().run(page, options=options).response["violations"]
    return [
        f"{finding['id']}: {node['html'][:200]}"
        for finding in violations
        if finding["impact"] in ("serious", "critical")
        for node in finding["nodes"]
        if THEIRS.get(finding["id"], "\n") not in node["html"]
    ]


def settled(page: Any) -> None:
    """Wait until a page computes nothing more."""
    page.locator("canvas").first.wait_for(timeout=60_000)
    page.get_by_text("computing: ").wait_for(state="detached", timeout=60_000)


@pytest.fixture(scope="module")
def summary() -> xr.Dataset:
    rng = np.random.default_rng(4)
    scores, country = rng.random(6000), rng.choice(["AT", "BE", "CH"], 6000)
    labels = (rng.random(6000) < np.where(country == "BE", scores**3, scores)).astype(int)
    # More days than a list shows at a time.
    day = np.datetime64("2026-01-01") + rng.integers(0, 20, 6000)
    return cd.summarize(labels, scores, by={"country": country, "day": day}, settings=["binary"])


def test_the_page_of_a_summary(
    visit: Callable[..., Any], explored: Callable[[Path], str], summary: xr.Dataset, tmp_path: Path
) -> None:
    write_dataset(summary, tmp_path / "sales.zarr")
    address = explored(tmp_path / "sales.zarr")
    page = visit(width=1440).page
    page.goto(f"{address}?limit=0.05&compare=true&a-country=%5B%22BE%22%5D")
    page.get_by_text("limit 0.05 broken").wait_for(timeout=60_000)
    settled(page)
    assert findings(page) == []
    # One Tab leaves a box of many labels, and closes its list.
    days = page.locator(".choices input[aria-label=day]").first
    days.focus()
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "checkbox"
    page.locator(".choices.is-open").wait_for(state="detached", timeout=10_000)
    # A click on a cell of the map selects slice and day, on which the map keeps all of its rows.
    box = page.get_by_label("Slices: ").bounding_box()
    assert box["width"] > 300
    page.evaluate(TAP, [2, 0])
    page.get_by_text("country BE · day 2026-01-03").first.wait_for(timeout=60_000)
    # A second one takes that back: of a single day there is no change over time.
    settled(page)
    page.evaluate(TAP, [2, 0])
    page.get_by_text("country BE · day 2026-01-03").first.wait_for(state="detached", timeout=60_000)
    page.get_by_role("button", name="over time", exact=True).click()
    page.get_by_text("With intervals; the largest").wait_for(timeout=60_000)
    assert findings(page) == []


# The type of what the keyboard is in, within the roots of widgets.
FOCUSED = """() => {
  let focused = document.activeElement
  while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement
  return focused?.type
}"""
# How many canvases are dark in their corner.
DARK = """(canvases) => canvases.filter((canvas) => {
  const corner = canvas.getContext("2d")?.getImageData(2, 2, 1, 1).data ?? []
  return [22, 25, 29, 255].every((part, i) => corner[i] === part)
}).length"""
# Choose the cell of the map at a place, as a click on it does.
TAP = """([x, y]) => {
  const source = [...Bokeh.documents[0]._all_models.values()].find((model) => model.data && "ink" in model.data)
  const number = source.data.x.findIndex((_, i) => source.data.x[i] === x && source.data.y[i] === y)
  source.selected.indices = [number]
}"""


def test_narrow_and_dark_windows(
    visit: Callable[..., Any], explored: Callable[[Path], str], summary: xr.Dataset, tmp_path: Path
) -> None:
    write_dataset(summary, tmp_path / "sales.zarr")
    page = visit(width=400).page
    page.emulate_media(color_scheme="dark")
    page.goto(explored(tmp_path / "sales.zarr"))
    settled(page)
    assert page.evaluate("document.querySelector('#main').scrollWidth") <= 400
    # Filters are a drawer, which the keyboard opens and closes.
    button = page.get_by_role("button", name="Filters")
    bins = page.get_by_label("Bins", exact=True)
    assert button.get_attribute("aria-expanded") == "false"
    assert not bins.is_visible()
    button.focus()
    page.keyboard.press("Enter")
    bins.wait_for()
    assert findings(page) == []
    bins.select_option("30")
    page.wait_for_function("() => location.search.includes('bins=30')")
    page.keyboard.press("Escape")
    bins.wait_for(state="hidden")
    assert button.evaluate("(element) => element === element.ownerDocument.activeElement")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 25, 29)"
    # What figures draw on is dark too, as their corners show; each of them has further, empty canvases.
    assert page.locator("canvas").evaluate_all(DARK) >= 4


def test_the_page_of_a_cube(visit: Callable[..., Any], explored: Callable[[Path], str], tmp_path: Path) -> None:
    assert cd.run(Estimates(), tmp_path / "estimates.zarr").done == 9
    page = visit(width=1440).page
    page.goto(explored(tmp_path / "estimates.zarr"))
    settled(page)
    # What the panels have in common is told once, and their numbers are in a table beneath.
    page.get_by_role("region", name="Numbers").locator("caption").get_by_text("absolute error").wait_for()
    assert findings(page) == []
