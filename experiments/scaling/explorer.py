"""Response time of the explorer in a real browser: to the first figure, until all is computed, from click to numbers.

    python -m experiments.scaling.explorer                       # a summary of 10 classes, 300 slices
    python -m experiments.scaling.explorer --classes 2 --days 200
    python -m experiments.scaling.explorer --classes 2 --days 10000 --step 0.01    # 100,000 slices

Beside the seconds on the clock, which depend on what else the machine does, it tells those of processors, and the
memory of the server. The first page of a server reads the summary; the second does not.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import calibdask as cd
from experiments.scaling.tables import Table, markdown

_COUNTRIES, _MOST_SLICES, _GOAL = 10, 20_000, 300.0
_FIRST_GOAL, _SETTLED_GOAL = 4.0, 6.0
_PAGES = 2
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


@dataclass(frozen=True)
class Opening:
    """From the address until a moment: seconds on the clock, and of processors; the memory of the server in MB."""

    clock: float
    server: float
    browser: float
    megabytes: float

    def row(self, page: int, until: str) -> dict[str, Any]:
        """A line of the table."""
        seconds = {"s": self.clock, "s of processors: server": self.server, "browser": self.browser}
        return {"until": until, "page": page, **seconds, "MB of the server": round(self.megabytes)}


def summarized(path: Path, rows: int, classes: int, days: int, step: float = 0.0003) -> None:
    """Store a summary of slightly overconfident scores by country and day."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes))
    logits[np.arange(rows), labels] += 2
    scores = np.exp(1.3 * logits)
    scores /= scores.sum(1, keepdims=True)
    country, day = rng.integers(0, _COUNTRIES, rows), rng.integers(0, days, rows)
    # Histograms of very many slices are more than is taken at a time.
    parts = np.array_split(np.arange(days), -(-days * _COUNTRIES // _MOST_SLICES))
    chosen = [np.isin(day, part) for part in parts]
    summaries = [
        cd.summarize(labels[one], scores[one], by={"country": country[one], "day": day[one]}, step=step)
        for one in chosen
    ]
    cd.merge(*summaries).to_zarr(path, consolidated=False, zarr_format=3)


@contextmanager
def _explored(path: Path) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a page on a summary, and its server."""
    code = "import sys; from calibdask.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "explore", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        match = re.search(r"http://\S+", process.stdout.readline())
        try:
            if match is None:
                raise RuntimeError("The explorer has not started.")
            yield match.group(), psutil.Process(process.pid)
        finally:
            process.terminate()


def answers(url: str, server: psutil.Process, clicks: int) -> tuple[list[tuple[Opening, Opening]], list[float]]:
    """How two pages open: to the first figure, and until nothing is computed; milliseconds of clicks on slices."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        openings = []
        for _ in range(_PAGES):
            # Each in a browser of its own, without what the one before has kept.
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 1600})
            openings.append(_opening(page, url, server))
            if len(openings) < _PAGES:
                browser.close()
        lines = page.locator(".tabulator-row")
        lines.nth(_COUNTRIES - 1).wait_for(timeout=120_000)
        numbers = page.get_by_text(re.compile(r"[\d,]+ rows")).first
        times = [_answer(page, lines.nth(click % _COUNTRIES), numbers) for click in range(clicks)]
        browser.close()
    return openings, times


def _opening(page: Any, url: str, server: psutil.Process) -> tuple[Opening, Opening]:
    start, served, browsed = time.perf_counter(), _processors([server]), _processors(_browsers())

    def until_now() -> Opening:
        clock = time.perf_counter() - start
        seconds = _processors([server]) - served, _processors(_browsers()) - browsed
        return Opening(clock, *seconds, server.memory_info().rss / 1e6)

    page.goto(url, timeout=120_000)
    page.locator("canvas").first.wait_for(timeout=120_000)
    drawn = until_now()
    page.get_by_text("computing: ").first.wait_for(timeout=120_000)
    page.get_by_text("computing: ").wait_for(state="detached", timeout=120_000)
    return drawn, until_now()


def _browsers() -> list[psutil.Process]:
    """The processes of the browser that this one has started."""
    return [child for child in psutil.Process().children(recursive=True) if "chrom" in child.name().lower()]


def _processors(processes: list[psutil.Process]) -> float:
    """Seconds of processors, of the user and the system."""
    return float(sum(times.user + times.system for times in (process.cpu_times() for process in processes)))


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
    parser.add_argument("--step", type=float, default=0.0003)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "summary.zarr"
        summarized(path, given.rows, given.classes, given.days, given.step)
        load = os.getloadavg()[0]
        with _explored(path) as (url, server):
            openings, times = answers(url, server, given.clicks)
    row = {"clicks": len(times), "median": statistics.median(times), "largest": max(times)}
    about = (
        f"Milliseconds from a click on a slice to its numbers on the screen; {given.classes} classes, "
        f"{_COUNTRIES * given.days:,} slices."
    )
    opening = Table(
        f"Seconds from the address to the first figure, and until all is computed, of two pages of a server; the load "
        f"of the machine was {load:.1f} before, on {os.cpu_count()} cores.",
        [
            one.row(number, until)
            for number, both in enumerate(openings, 1)
            for until, one in zip(("first figure", "settled"), both, strict=True)
        ],
        {"s": {"first figure": _FIRST_GOAL, "settled": _SETTLED_GOAL}},
    )
    clicks = Table(about, [row], {"median": _GOAL, "largest": _GOAL})
    print(markdown({"explorer, opening": opening, "explorer, clicks": clicks}, {}))


if __name__ == "__main__":
    main()
