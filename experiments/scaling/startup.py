"""Startup cost of a new process: imports, and its first evaluation; run, that of commands."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.scaling import commands
from experiments.scaling.machine import surroundings
from experiments.scaling.panel import PANEL
from experiments.scaling.tables import Table, markdown

# Packages that `import calibdask` leaves alone until they are needed.
_HEAVY = ("dask", "distributed", "xarray", "hvplot", "numba", "pandas", "scipy", "sklearn", "zarr")

_IMPORT = """
import sys, time
start = time.perf_counter()
import calibdask
seconds = time.perf_counter() - start
compiled = 0
"""
# Events tell what is compiled, not what is read from disk.
_PANEL = """
import sys, time
start = time.perf_counter()
from numba.core import event
from experiments.scaling.panel import PANEL, evaluated
from experiments.scaling.store import drawn
with event.install_recorder("numba:compile") as recorder:
    evaluated(*drawn(0, 1000, 10), {name: metric for name, metric in PANEL.items() if name in METRICS})
seconds = time.perf_counter() - start
compiled = sum(record.is_start for _, record in recorder.buffer)
"""
_TELL = """
import json
print(json.dumps({"seconds": seconds, "compiled": compiled, "loaded": [name for name in HEAVY if name in sys.modules]}))
"""


def measured(rounds: int, metrics: Sequence[str] = tuple(PANEL)) -> Table:
    """Fresh processes, one after the other; that without compiled kernels on disk only once."""
    with tempfile.TemporaryDirectory() as folder:
        empty = os.environ | {"NUMBA_CACHE_DIR": folder}
        _report(_IMPORT, empty)
        rows = [
            _row("import calibdask", [_report(_IMPORT, empty) for _ in range(rounds)]),
            _row("the panel, nothing compiled", [first_call(empty, metrics)]),
            _row("the panel, in a second process", [first_call(empty, metrics) for _ in range(rounds)]),
        ]
    about = (
        "Seconds of a process from its first import (medians), functions that it compiled, and which of "
        f"{', '.join(_HEAVY)} it loaded."
    )
    return Table(about, rows, {"seconds": {"import calibdask": 0.5}, "compiled": {rows[2]["process"]: 0.0}})


def first_call(environment: Mapping[str, str], metrics: Sequence[str] = tuple(PANEL)) -> dict[str, Any]:
    """Of a process that evaluates these metrics of the panel."""
    return _report(f"METRICS = {tuple(metrics)!r}{_PANEL}", environment)


def _report(code: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The measurements that a process reports."""
    code += f"HEAVY = {_HEAVY!r}" + _TELL
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _row(name: str, reports: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "process": name,
        "runs": len(reports),
        "seconds": statistics.median(report["seconds"] for report in reports),
        "compiled": max(report["compiled"] for report in reports),
        "loads": ", ".join(reports[0]["loaded"]) or "none",
    }


def main() -> None:
    """Print the processor seconds of commands as a table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.startup", description=commands.__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--command", action="append", choices=commands.COMMANDS, help="all, where none is named")
    parser.add_argument("--file", action="append", choices=commands.FILES, help="all, where none is named")
    chosen = parser.parse_args()
    table = commands.measured(chosen.rounds, chosen.command or (), chosen.file or ())
    print(markdown({"startup": table}, surroundings("cores", chosen.rounds)))


if __name__ == "__main__":
    main()
