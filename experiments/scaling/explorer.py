"""Response time of the explorer in a real browser: to the first figure, until all is computed, from click to numbers.

    python -m experiments.scaling.explorer                       # a summary of 10 classes, 300 slices
    python -m experiments.scaling.explorer --classes 2 --days 200

Needs Chromium and the extra ``browser-tests``.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import calibdask as cd
from experiments.scaling.tables import Table, markdown

_COUNTRIES, _GOAL = 10, 300.0
_FIRST_GOAL, _SETTLED_GOAL = 4000.0, 6000.0
# From a click on a line of the table of slices to the first frame in which the numbers are others.
_CLICKED = """
([line, numbers]) => new Promise((resolve) => {
  // What is around the numbers stays when they are replaced.
  const shown = numbers.getRootNode(), before = shown.textContent, start = performance.now()
  line.click()
  const look = () => shown.textContent === before ? requestAnimationFrame(look) : resolve(performance.now() - start)
  requestAnimationFrame(look)
})
"""


def summarized(path: Path, rows: int, classes: int, days: int) -> None:
    """Store a summary of slightly overconfident scores by country and day."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes))
    logits[np.arange(rows), labels] += 2
    scores = np.exp(1.3 * logits)
    scores /= scores.sum(1, keepdims=True)
    by = {"country": rng.integers(0, _COUNTRIES, rows), "day": rng.integers(0, days, rows)}
    cd.summarize(labels, scores, by=by).to_zarr(path, consolidated=False, zarr_format=3)


@contextmanager
def _explored(path: Path) -> Iterator[str]:
    """The address of a page on a summary."""
    code = "import sys; from calibdask.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "explore", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        match = re.search(r"http://\S+", process.stdout.readline())
        try:
            if match is None:
                raise RuntimeError("The explorer has not started.")
            yield match.group()
        finally:
            process.terminate()


def answers(url: str, clicks: int) -> tuple[tuple[float, float], list[float]]:
    """Milliseconds to the first figure and until nothing is computed any more; of each of some clicks on slices."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1600})
        start = time.perf_counter()
        page.goto(url)
        page.locator("canvas").first.wait_for(timeout=120_000)
        drawn = time.perf_counter()
        page.get_by_text("computing: ").first.wait_for(timeout=120_000)
        page.get_by_text("computing: ").wait_for(state="detached", timeout=120_000)
        opening = (1000 * (drawn - start), 1000 * (time.perf_counter() - start))
        lines = page.locator(".tabulator-row")
        lines.nth(_COUNTRIES - 1).wait_for(timeout=120_000)
        numbers = page.get_by_text(re.compile(r"[\d,]+ rows")).first
        times = [_answer(page, lines.nth(click % _COUNTRIES), numbers) for click in range(clicks)]
        browser.close()
    return opening, times


def _answer(page: Any, line: Any, numbers: Any) -> float:
    # What follows an answer, such as the bands of the curve, is let through before the next click.
    page.wait_for_timeout(3_000)
    cell = line.locator(".tabulator-cell:visible").first
    return float(page.evaluate(_CLICKED, [cell.element_handle(), numbers.element_handle()]))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("rows", 300_000), ("classes", 10), ("days", 30), ("clicks", 20)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "summary.zarr"
        load = os.getloadavg()[0]
        summarized(path, given.rows, given.classes, given.days)
        with _explored(path) as url:
            (drawn, settled), times = answers(url, given.clicks)
    row = {"clicks": len(times), "median": statistics.median(times), "largest": max(times)}
    about = (
        f"Milliseconds from a click on a slice to its numbers on the screen; {given.classes} classes, "
        f"{_COUNTRIES * given.days} slices."
    )
    opening = Table(
        "Milliseconds from the address to the first figure, and until all is computed; the load of the machine is "
        f"{load:.1f} before, on {os.cpu_count()} cores.",
        [{"first figure": drawn, "settled": settled}],
        {"first figure": _FIRST_GOAL, "settled": _SETTLED_GOAL},
    )
    clicks = Table(about, [row], {"median": _GOAL, "largest": _GOAL})
    print(markdown({"explorer, opening": opening, "explorer, clicks": clicks}, {}))


if __name__ == "__main__":
    main()
