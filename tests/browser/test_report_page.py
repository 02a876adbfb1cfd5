"""A report in a real browser, from disk, without a network."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.report import Measured, measure, write_cube_report, write_report
from calibdask.results.format import PLAIN
from calibdask.results.ranking import certain_ends, worst_order
from calibdask.results.values import Results
from calibdask.study.example import Means

pytestmark = pytest.mark.browser

RNG = np.random.default_rng(4)
TRUTH = RNG.random(3000)
LABELS = (RNG.random(3000) < TRUTH).astype(int)
SCORES = TRUTH**1.4
COUNTRY = np.array(["de", "fr", "it", "es", "<img src=x>"])[RNG.integers(0, 5, 3000)]
# What is wider than the window, but for what scrolls by itself.
WIDER = """() => [...document.querySelectorAll('main *')].filter(each =>
    each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.table, pre')).length"""

Visits = Callable[..., Any]


@pytest.fixture(scope="module")
def measured() -> Measured:
    return measure(LABELS, SCORES, by={"country": COUNTRY})


@pytest.fixture
def page(tmp_path: Path, measured: Measured) -> str:
    gate = cd.check(LABELS, SCORES, {"ece": 0.05}, by={"country": COUNTRY}, n_boot=20)
    models = {f"model {i}": replace(measured, gate=gate) for i in range(10)}
    write_report(tmp_path / "report.html", models, title="Ten models")
    assert (tmp_path / "report.html").stat().st_size < 5e6
    return (tmp_path / "report.html").as_uri()


def test_numbers_are_those_of_evaluate(visit: Visits, page: str) -> None:
    shown = visit(offline=True).page
    shown.goto(page)
    assert shown.title() == "Ten models"
    table = shown.get_by_role("table", name="Metrics of model 3")
    expected = cd.evaluate(LABELS, SCORES, ci=0.95)
    for name in ("ece", "smooth_ece", "brier_score", "log_loss"):
        row = table.get_by_role("row", name=name).first
        assert float(row.locator("data").get_attribute("value")) == float(expected[name])
        low, high = (float(expected[f"{name}_{end}"]) for end in ("low", "high"))
        assert PLAIN.span(low, high) in row.inner_text()
    slices = shown.get_by_role("table", name="model 3 by country, the worst first")
    by = cd.evaluate(LABELS, SCORES, cd.ECE(), by={"country": COUNTRY}, ci=0.95)
    (part,) = (one for one in Results(by) if one.variable == "ece")
    # Bounds are those of all slices of ten models together.
    least, _ = certain_ends(part, 0.95, 5 * 10)
    worst = by.country.values[worst_order(by.ece.values, least, by.ece_low.values)].tolist()
    assert [header.inner_text() for header in slices.get_by_role("rowheader").all()] == worst


def test_it_opens_fast_and_runs_nothing(visit: Visits, page: str) -> None:
    shown = visit(offline=True).page
    shown.goto(page)
    timing = shown.evaluate("performance.getEntriesByType('navigation')[0].toJSON()")
    assert timing["loadEventEnd"] < 3000
    assert shown.evaluate("performance.getEntriesByType('resource').length") == 0
    assert shown.locator("script, iframe, img").count() == 0


def test_the_command_is_copied(visit: Visits, tmp_path: Path, measured: Measured) -> None:
    command = "calibdask report 'it''s a.csv' --title '<b>' --out " + "long/" * 40 + "page.html"
    write_report(tmp_path / "report.html", measured, command=command)
    shown = visit(offline=True).page
    shown.goto((tmp_path / "report.html").as_uri())
    shown.get_by_role("button", name="Copy").click()
    shown.get_by_role("button", name="Copied").wait_for()
    assert shown.evaluate("getSelection().toString()") == command


def test_pictures_are_seen_and_said(visit: Visits, page: str) -> None:
    shown = visit(offline=True).page
    shown.goto(page)
    picture = shown.get_by_role("img", name="model 0: reliability curve")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert min(box["width"], box["height"]) > 200
    assert picture.locator(".ends").evaluate("each => getComputedStyle(each).fillOpacity") == "0.27"


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_no_width_cuts_anything_off(visit: Visits, page: str, width: int) -> None:
    shown = visit(width=width, offline=True).page
    shown.goto(page)
    assert shown.evaluate(WIDER) == 0
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if width != 800:
        # Rows are blocks in narrow windows; in wide ones there is room, for slices by ten models too.
        assert shown.evaluate("[...document.querySelectorAll('.table')].every(e => e.scrollWidth <= e.clientWidth + 1)")


def test_links_lead_to_sections(visit: Visits, page: str) -> None:
    shown = visit(offline=True).page
    shown.goto(page)
    shown.get_by_role("link", name="Warnings").click()
    assert abs(shown.locator("#warnings").bounding_box()["y"]) < 5


def test_it_prints(visit: Visits, page: str, tmp_path: Path) -> None:
    shown = visit(offline=True).page
    shown.goto(page)
    shown.emulate_media(media="print")
    assert not shown.locator("nav").is_visible()
    # The width of A4 between its margins.
    shown.set_viewport_size({"width": 688, "height": 1000})
    assert shown.evaluate("[...document.querySelectorAll('.table')].every(e => e.scrollWidth <= e.clientWidth + 1)")
    # No picture is cut off by its cell.
    cut = """() => [...document.querySelectorAll('td svg')].filter(svg =>
        svg.getBoundingClientRect().right > svg.closest('td').getBoundingClientRect().right + 1).length"""
    assert shown.evaluate(cut) == 0
    assert shown.pdf(path=tmp_path / "report.pdf", format="A4").startswith(b"%PDF")


def test_a_cube(visit: Visits, tmp_path: Path) -> None:
    cd.run(Means(rows=(4, 5)), str(tmp_path / "cube.zarr"))
    write_cube_report(tmp_path / "cube.html", str(tmp_path / "cube.zarr"))
    shown = visit(offline=True).page
    shown.goto((tmp_path / "cube.html").as_uri())
    row = shown.get_by_role("table", name="average by rows").get_by_role("row", name="5").first
    expected = cd.open_cube(str(tmp_path / "cube.zarr")).average.sel(rows=5).median()
    assert float(row.locator("data").get_attribute("value")) == pytest.approx(float(expected))
