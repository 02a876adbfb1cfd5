"""The page of a summary, as a user sees it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.estimators.smooth.adaptive import AdaptiveDiagram
from calibdask.storage.writers import write_dataset

pytestmark = pytest.mark.browser

# The columns that the first panel has of the bins, by selection.
DRAWN = """() => [...Bokeh.documents.flatMap((doc) => [...doc._all_models.values()])]
  .filter((model) => model.type == "ColumnDataSource" && model.data.mean_score !== undefined)
  .map((model) => [...model.data.frequency])"""


@pytest.fixture(scope="module")
def summary() -> xr.Dataset:
    rng = np.random.default_rng(4)
    scores, country = rng.random(6000), rng.choice(["AT", "BE", "CH"], 6000, p=[0.5, 0.3, 0.2])
    labels = (rng.random(6000) < np.where(country == "BE", scores**3, scores)).astype(int)
    day = np.datetime64("2026-01-01") + rng.integers(0, 4, 6000)
    return cd.summarize(labels, scores, by={"country": country, "day": day}, settings=["binary"])


@pytest.fixture
def address(summary: xr.Dataset, tmp_path: Path, explored: Callable[[Path], str]) -> str:
    write_dataset(summary, tmp_path / "sales.zarr")
    return explored(tmp_path / "sales.zarr")


def numbers(summary: xr.Dataset) -> tuple[str, str, list[float]]:
    """ECE and its interval as the page words them, and the frequencies by bin."""
    metrics = {"ece": cd.ECE(), "diagram": AdaptiveDiagram(bins=15)}
    result = cd.evaluate(summary.sum(["country", "day"]), metrics=metrics, ci=0.95)
    interval = f"{float(result.ece_low):.4f} to {float(result.ece_high):.4f}"
    return f"{float(result.ece):.4f}", interval, result.diagram_outcome.dropna("diagram_bin").values.tolist()


def ece_cell(page: Any, summary: xr.Dataset) -> Any:
    """The cell of the page that shows the ECE of a summary, once it does."""
    return page.locator('tr[data-metric="ece"]').locator(f'td:text-is("{numbers(summary)[0]}")')


def wait_for_numbers(page: Any, summary: xr.Dataset) -> None:
    _, interval, outcomes = numbers(summary)
    ece_cell(page, summary).wait_for(timeout=60_000)
    line = page.locator('tr[data-metric="ece"]')
    assert line.locator("td").nth(2).inner_text() == interval
    page.wait_for_function(f"(expected) => JSON.stringify(({DRAWN})()[0]) == JSON.stringify(expected)", arg=outcomes)


def choose(page: Any, place: int, label: str) -> None:
    """Take a label of the multi-choice at a place of the sidebar."""
    page.locator(".choices").nth(place).click()
    page.locator(".choices").nth(place).get_by_role("option", name=label, exact=True).click()
    page.keyboard.press("Escape")


def test_a_selection_changes_numbers_and_pictures_and_its_link_restores_them(
    visit: Callable[..., Any], address: str, summary: xr.Dataset
) -> None:
    first = visit()
    first.page.goto(address)
    wait_for_numbers(first.page, summary)
    choose(first.page, 0, "BE")
    wait_for_numbers(first.page, summary.sel(country=["BE"]))
    choose(first.page, 1, "2026-01-02")
    wait_for_numbers(first.page, summary.sel(country=["BE"]).isel(day=[1]))
    first.page.wait_for_function("() => location.search.includes('country') && location.search.includes('day')")
    second = visit()
    # What the page itself has for its address: a driver may hear of a new one later.
    second.page.goto(first.page.evaluate("location.href"))
    wait_for_numbers(second.page, summary.sel(country=["BE"]).isel(day=[1]))
    second.page.locator("text=country BE · day 2026-01-02").wait_for()


def test_two_selections_are_compared(visit: Callable[..., Any], address: str, summary: xr.Dataset) -> None:
    page = visit().page
    page.goto(address)
    wait_for_numbers(page, summary)
    page.locator("input[type=checkbox]").check()
    page.get_by_role("button", name="chosen", exact=True).click()
    choose(page, 2, "BE")
    pooled = [part.sum(["country", "day"]) for part in (summary, summary.sel(country=["BE"]))]
    values = [float(cd.evaluate(part, metrics=cd.ECE()).ece) for part in pooled]
    for words in (f"{values[1]:.4f}", f"{values[1] - values[0]:+.4f}"):
        page.locator(f'tr[data-metric="ece"] td:text-is("{words}")').wait_for()
    # A browser keeps the models of panels that have gone.
    drawn = page.evaluate(DRAWN)[-2:]
    assert drawn == [numbers(part)[2] for part in (summary, summary.sel(country=["BE"]))]


def test_a_part_is_compared_with_all_others(visit: Callable[..., Any], address: str, summary: xr.Dataset) -> None:
    page = visit().page
    page.goto(f"{address}?a-country=%5B%22BE%22%5D")
    part, rest = summary.sel(country=["BE"]), summary.sel(country=["AT", "CH"])
    wait_for_numbers(page, part)
    page.locator("input[type=checkbox]").check()
    page.locator("text=all rows but country BE").wait_for()
    page.locator(f'tr[data-metric="ece"] td:text-is("{numbers(rest)[0]}")').wait_for()
    assert page.evaluate(DRAWN)[-2:] == [numbers(part)[2] for part in (part, rest)]


def test_boxes_have_names(visit: Callable[..., Any], address: str, summary: xr.Dataset) -> None:
    page = visit().page
    page.goto(address)
    wait_for_numbers(page, summary)
    page.get_by_label("Bins", exact=True).select_option("30")
    page.get_by_label("Binning", exact=True).select_option("of equal mass")
    page.wait_for_function("() => location.search.includes('bins=30') && location.search.includes('binning')")
    page.get_by_label("Ordered by", exact=True).wait_for()


def test_the_worst_slice_is_first_and_a_click_selects_it(
    visit: Callable[..., Any], address: str, summary: xr.Dataset
) -> None:
    seen = visit()
    page = seen.page
    page.goto(address)
    page.locator("text=3 slices, ordered by the lower confidence bounds").wait_for(timeout=60_000)
    lines = page.locator(".tabulator-row")
    lines.nth(2).wait_for()
    worst = cd.worst_slices(cd.evaluate(summary.sum("day"), metrics={"ece": cd.ECE()}, ci=0.95), "ece")
    assert [line.split()[0] for line in lines.all_inner_texts()] == worst["country"].values.tolist()
    chosen = summary.sel(country=["BE"])
    seen.press(lines.first.locator("text=BE"), ece_cell(page, chosen))
    wait_for_numbers(page, chosen)
    # A selection that leaves the order as it is leaves the lines as they are: the next press is not lost.
    line = lines.nth(1).element_handle()
    page.locator("text=computing").wait_for(state="detached", timeout=60_000)
    assert line.evaluate("(line) => line.isConnected")


def test_downloads(visit: Callable[..., Any], address: str, summary: xr.Dataset) -> None:
    seen = visit()
    seen.page.goto(f"{address}?a-country=%5B%22CH%22%5D")
    chosen = summary.sel(country=["CH"])
    wait_for_numbers(seen.page, chosen)
    seen.page.get_by_role("button", name="day", exact=True).click()
    seen.page.locator("text=12 slices, ordered by").wait_for(timeout=60_000)
    plain = cd.evaluate(
        chosen.sum(["country", "day"]), metrics={"ece": cd.ECE(), "curve": cd.ReliabilityCurve()}, ci=0.95
    )
    metrics = seen.download(seen.page.get_by_text("CSV: metrics")).splitlines()
    ece = next(line.split(",") for line in metrics if ",ece," in line)
    assert ece[0] == "country CH"
    assert [float(cell) for cell in ece[2:5]] == [float(plain[f"ece{end}"]) for end in ("", "_low", "_high")]
    head, *lines = (line.split(",") for line in seen.download(seen.page.get_by_text("CSV: curve")).splitlines())
    values = [float(line[head.index("reliability")]) for line in lines]
    np.testing.assert_allclose(values, plain["curve_reliability"], rtol=1e-12)
    assert len(seen.download(seen.page.get_by_text("CSV: diagram")).splitlines()) == 16
    assert len(seen.download(seen.page.get_by_text("CSV: slices")).splitlines()) == 13
    for kind, begins in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        saved = seen.saved(seen.page.get_by_role("button", name=kind, exact=True))
        assert saved.read_bytes().startswith(begins)


def test_narrow_windows_show_all_of_it(visit: Callable[..., Any], address: str, summary: xr.Dataset) -> None:
    page = visit(width=400).page
    page.goto(address)
    wait_for_numbers(page, summary)
    page.locator(".tabulator-row").first.wait_for(timeout=60_000)
    assert page.evaluate("document.querySelector('#main').scrollWidth") <= 400
    wide = page.locator("canvas").evaluate_all(
        "(canvases) => canvases.map((canvas) => canvas.getBoundingClientRect().right)"
    )
    assert max(wide) <= 400
