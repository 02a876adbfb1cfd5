"""Calibration over time, as a user sees it: in the explorer and in a report, on wide windows, narrow ones and paper."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import calibdask as cd
from calibdask.report import measure, write_report
from calibdask.report.over_time import Watching
from calibdask.storage.writers import write_dataset
from tests.monitoring.drifted import drifted_summary

pytestmark = pytest.mark.browser

# Words of pictures that leave them, or cover each other; those of explorers are within the roots of their panes.
COVERED = """() => {
  const roots = [document], pictures = []
  for (const root of roots)
    for (const each of root.querySelectorAll('*')) {
      if (each.shadowRoot) roots.push(each.shadowRoot)
      if (each.matches('svg.time')) pictures.push(each)
    }
  const bad = []
  for (const picture of pictures) {
    const frame = picture.getBoundingClientRect()
    const boxes = [...picture.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()])
    boxes.forEach(([words, box], number) => {
      if (box.left < frame.left - 3 || box.right > frame.right + 3) bad.push(words)
      for (const [others, other] of boxes.slice(0, number))
        if (box.left < other.right - 1 && other.left < box.right - 1
            && box.top < other.bottom - 3 && other.top < box.bottom - 3) bad.push(`${others} | ${words}`)
    })
  }
  return [pictures.length, bad]
}"""
SENTENCE = "country=b is off: scores "


@pytest.fixture(scope="module")
def summary() -> xr.Dataset:
    return drifted_summary("country", "day", "version")


def test_the_explorer_shows_it(
    visit: Callable[..., Any], explored: Callable[[Path], str], summary: xr.Dataset, tmp_path: Path
) -> None:
    write_dataset(summary, tmp_path / "days.zarr")
    address = explored(tmp_path / "days.zarr")
    for width in (1280, 400):
        visited = visit(width=width, height=1000)
        page = visited.page
        page.goto(address)
        page.get_by_role("button", name="over time").click()
        page.get_by_text("Alarm: country=b since ").wait_for(timeout=60_000)
        page.get_by_text("With intervals; the largest").wait_for(timeout=60_000)
        assert "view=over+time" in page.url
        pictures, covered = page.evaluate(COVERED)
        assert pictures == 8
        assert covered == []
        button = page.get_by_text("CSV: over-time")
        assert visited.download(button).count("country=b") == summary.sizes["day"]


def test_the_report_shows_it(visit: Callable[..., Any], summary: xr.Dataset, tmp_path: Path) -> None:
    metrics = {"ece": cd.ECE()}
    measured = measure(summary, metrics=metrics, n_boot=20, watching=Watching("day", version="version"))
    write_report(tmp_path / "report.html", {"rows": measured})
    for width, medium in ((1280, "screen"), (400, "screen"), (688, "print")):
        page = visit(width=width, offline=True).page
        page.emulate_media(media=medium)
        page.goto((tmp_path / "report.html").as_uri())
        assert page.get_by_text(SENTENCE).count() == 1
        pictures, covered = page.evaluate(COVERED)
        assert pictures == 8
        assert covered == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
