"""Watching at size: ten thousand slices of one day, and a store of a thousand days in the explorer.

    python -m experiments.scaling.watching slices              # a million rows
    python -m experiments.scaling.watching explorer            # 1000 days x 300 slices x 10 classes, 3 million rows

The explorer needs Chromium and the extra ``browser-tests``. Appending takes a second a day: of the days of its store
some are summarized and appended, and the others are copies of their files; ``--store`` keeps it.
"""

import argparse
import dataclasses
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import calibdask as cd
from calibdask.storage.atomic_replace import owned_name
from calibdask.storage.period_log import PeriodChange, commit
from calibdask.storage.period_store import PeriodStore
from experiments.scaling.machine import surroundings
from experiments.scaling.tables import Table, markdown, write

PARTS = ("slices", "explorer")
SLICES, ROWS_A_SLICE = 10_000, 100
DAYS, COUNTRIES, CLASSES, ROWS_A_DAY, DRAWN = 1000, 300, 10, 3000, 6
_SLICES_GOAL, _OPENING_GOAL = 15.0, 3.0
_FIRST_DAY = np.datetime64("2024-01-01")


def of_slices(slices: int) -> Table:
    """`calibdask watch` of one day of very many slices."""
    with tempfile.TemporaryDirectory() as folder:
        store, state = Path(folder) / "days.zarr", Path(folder) / "watch.json"
        rng = np.random.default_rng(0)
        customer = np.repeat(np.arange(slices), ROWS_A_SLICE)
        scores = rng.beta(1, 3, customer.size)
        labels = rng.random(customer.size) < scores
        summary = cd.summarize(labels, scores, by={"customer": customer}, settings=["binary"])
        cd.append(summary, store, {"day": str(_FIRST_DAY)})
        options = ["watch", str(store), "--by", "customer", "--state", str(state), "--json"]
        seconds, cpu, megabytes = _command(options)
        row = {"slices": slices, "rows": customer.size, "seconds": seconds, "cpu_s": cpu, "peak_mb": megabytes}
        row["state_mb"] = state.stat().st_size / 1e6
    about = (
        "calibdask watch --by customer --state, a process of its own, on one core: seconds, elapsed and of processors "
        "(cpu), imports among them; peak memory; and the size of the state."
    )
    return Table(about, [row], {"cpu_s": _SLICES_GOAL})


def _command(arguments: Sequence[str]) -> tuple[float, float, float]:
    """Elapsed and processor seconds of a command on one core, and its peak memory in megabytes."""
    core = max(os.sched_getaffinity(0))
    # The largest resident set of rusage is that of whoever started the process, where that one was larger.
    code = (
        f"import os, sys; os.sched_setaffinity(0, {{{core}}}); from calibdask.cli import main; main(sys.argv[1:]); "
        "from experiments.scaling.watching import peak; sys.stderr.write(str(peak('self')))"
    )
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, float(done.stderr.split()[-1])


def make_days(path: Path, days: int, countries: int, classes: int, rows_a_day: int) -> None:
    """A store that has grown day by day."""
    rng = np.random.default_rng(0)
    for day in range(days):
        labels = rng.integers(0, classes, rows_a_day)
        logits = rng.normal(size=(rows_a_day, classes))
        logits[np.arange(rows_a_day), labels] += 2
        scores = np.exp(1.3 * logits)
        scores /= scores.sum(1, keepdims=True)
        country = np.arange(rows_a_day) % countries
        cd.append(cd.summarize(labels, scores, by={"country": country}), path, {"day": str(_FIRST_DAY + day)})


def copy_days(path: Path, days: int) -> None:
    """Let a store have so many days: further ones are copies of those that are there, in turn."""
    store = PeriodStore.at(str(path))
    there = store.log().sorted
    added = []
    for number in range(len(there), days):
        like, stem = there[number % len(there)], f"periods/{owned_name()}"
        shutil.copytree(path / like.folder, path / f"{stem}.zarr")
        shutil.copy(path / like.totals, path / f"{stem}.zip")
        label = str(_FIRST_DAY + number)
        added.append(dataclasses.replace(like, label=label, folder=f"{stem}.zarr", totals=f"{stem}.zip"))
    if added:
        commit(store.location, lambda _: PeriodChange("day", "append", tuple(added)))


def of_explorer(days: int, countries: int, classes: int, rows_a_day: int, store: Path | None) -> Table:
    """Opening a store of many days."""
    with tempfile.TemporaryDirectory() as folder:
        path = store or Path(folder) / "days.zarr"
        if not path.exists():
            make_days(path, min(days, DRAWN), countries, classes, rows_a_day)
            copy_days(path, days)
        size = {"days": days, "slices": countries, "classes": classes, "rows": days * rows_a_day}
        row = size | dict(_opened(path))
    about = (
        "From calibdask explore to figures in Chromium: processor seconds of the server for its start, with imports; "
        "from there to the first figure, to the line by day, and to the map of slices, each with the elapsed time; "
        f"and its peak memory. {DRAWN} days are drawn, the others are copies of them."
    )
    return Table(about, [row], {"first_figure_cpu_s": _OPENING_GOAL})


def _opened(path: Path) -> Iterator[tuple[str, float]]:
    from playwright.sync_api import sync_playwright

    code = "import sys; from calibdask.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "explore", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, sync_playwright() as driver:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        try:
            if address is None:
                raise RuntimeError("The explorer has not started.")
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 1600})
            started, begun = _cpu(process.pid), time.perf_counter()
            yield "start_cpu_s", started
            page.goto(address.group())
            shown = {
                "first_figure": page.locator("canvas").first,
                "line": page.get_by_text("By day", exact=True).first,
                "map": page.get_by_text("Observed rate minus mean prediction in points by").first,
            }
            for name, figure in shown.items():
                figure.wait_for(timeout=900_000)
                yield f"{name}_s", time.perf_counter() - begun
                yield f"{name}_cpu_s", _cpu(process.pid) - started
            yield "peak_mb", peak(process.pid)
            browser.close()
        finally:
            process.terminate()


def _cpu(pid: int) -> float:
    """Processor seconds of a process so far."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def peak(pid: int | str) -> float:
    """The peak memory of a process, in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all, where none is named")
    for name, usual in (("slices", SLICES), ("days", DAYS), ("countries", COUNTRIES), ("rows-a-day", ROWS_A_DAY)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--store", type=Path, help="of the explorer's days; written where there is none")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    given = parser.parse_args(arguments)
    measured: dict[str, Table] = {}
    for part in given.parts or PARTS:
        measured[part] = (
            of_slices(given.slices)
            if part == "slices"
            else of_explorer(given.days, given.countries, CLASSES, given.rows_a_day, given.store)
        )
        print(markdown({part: measured[part]}, {}), flush=True)
    if given.out:
        write(measured, surroundings("wall", 1), given.out, "watching")


if __name__ == "__main__":
    main()
