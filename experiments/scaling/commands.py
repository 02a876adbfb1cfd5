"""Processor seconds of the command line on a small file: with and without compiled kernels on disk."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from experiments.scaling.store import drawn
from experiments.scaling.tables import Table

ROWS, SLICES = 20_000, 5


class Command(NamedTuple):
    """Arguments of ``calibdask`` after the file, and the most processor seconds that it should take.

    ``cold``: nothing is compiled yet. ``status`` is how it ends.
    """

    arguments: tuple[str, ...]
    goal: float
    cold: bool = False
    status: int = 0


_ONE, _SLICED = ("--metric", "ece"), ("--by", "country", "--ci", "0.95")
COMMANDS: Mapping[str, Command] = {
    "wrong column": Command(("--label", "nothing"), 0.7, status=2),
    "wrong option": Command(("--metric", "nothing"), 0.7, status=2),
    "one metric": Command(_ONE, 1.5),
    "panel": Command((), 2.5),
    "panel of 5 slices with intervals": Command(_SLICED, 4.0),
    "one metric, nothing compiled": Command(_ONE, 8.0, cold=True),
    "panel, nothing compiled": Command((), 15.0, cold=True),
}
# Name of a file -> classes (1: a vector of P(y = 1)), type of scores, type of labels.
FILES: Mapping[str, tuple[int, str, str]] = {
    "binary, float64": (1, "float64", "int64"),
    "binary, float32": (1, "float32", "int64"),
    "binary, float32, labels of int8": (1, "float32", "int8"),
    "10 classes, float32": (10, "float32", "int64"),
}


def measured(rounds: int, names: Sequence[str] = (), files: Sequence[str] = ()) -> Table:
    """Medians over ``rounds`` processes of each command and file, run one after the other.

    Warm commands share one cache of kernels, which a run that is not counted has filled.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for file in files or FILES:
            path = Path(folder, "rows.parquet")
            _write(path, *FILES[file])
            for name in names or COMMANDS:
                seconds = _runs(COMMANDS[name], path, Path(folder, "cache"), rounds)
                rows.append(
                    {
                        "command": name,
                        "file": file,
                        "runs": rounds,
                        "seconds": statistics.median(seconds),
                        "goal": COMMANDS[name].goal,
                    }
                )
    about = (
        f"Processor seconds, user and system, of `calibdask evaluate` as a process of its own, on {ROWS:,} rows of "
        "Parquet (medians), and the most that they should be."
    )
    goals = {"seconds": {name: command.goal for name, command in COMMANDS.items()}}
    return Table(about, sorted(rows, key=lambda row: list(COMMANDS).index(row["command"])), goals)


def _write(path: Path, classes: int, scores: str, labels: str) -> None:
    observed, values = drawn(0, ROWS, max(classes, 2), scores)
    columns: dict[str, Any] = {"label": observed.astype(labels)}
    if classes == 1:
        columns["score"] = values[:, 1]
    else:
        columns |= {f"score_{c}": values[:, c] for c in range(classes)}
    columns["country"] = np.array(["at", "be", "ch", "de", "es"])[np.arange(ROWS) % SLICES]
    parquet.write_table(pa.table(columns), path)


def _runs(command: Command, path: Path, cache: Path, rounds: int) -> list[float]:
    if command.cold:
        seconds = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as empty:
                seconds.append(_seconds(command, path, Path(empty)))
        return seconds
    _seconds(command, path, cache)
    return [_seconds(command, path, cache) for _ in range(rounds)]


def _seconds(command: Command, path: Path, cache: Path) -> float:
    """Of one process and those that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "calibdask", "evaluate", str(path), *command.arguments],
        # As for most users, whose interpreter keeps what it compiles too.
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != command.status:
        raise RuntimeError(f"{' '.join(command.arguments)} ended with {done.returncode}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
