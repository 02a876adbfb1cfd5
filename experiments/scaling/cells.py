"""Many small cells: overhead of a cell, and memory of the scheduler process."""

import argparse
import contextlib
import io
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import calibdask as cd
from calibdask.cli import main as calibdask
from calibdask.storage.atomic_replace import write_text
from experiments.scaling.backends import opened
from experiments.scaling.machine import surroundings
from experiments.scaling.memory import peak_bytes
from experiments.scaling.tables import Table, markdown

_BACKENDS = ("threads:2", "local:2")
_SIZES = (1000, 10_000, 100_000)
# Beyond it tasks of a single cell only take longer: their cost does not depend on their number any more.
_MOST_SINGLES = 10_000


@dataclass(frozen=True, kw_only=True)
class Singles(cd.Study):
    """Cells of some microseconds, each a task of its own."""

    number: int = 1000

    outputs: ClassVar = {"draw": ()}

    def cells(self) -> dict[str, Any]:
        """One axis."""
        return {"cell": range(self.number)}

    def cell(self, at: Mapping[str, Any], seeds: Any) -> dict[str, Any]:
        """A random number."""
        return {"draw": seeds.generator().random()}


@dataclass(frozen=True, kw_only=True)
class Hundreds(Singles):
    """The same, a hundred a task."""

    batch: ClassVar[int] = 100


@dataclass(frozen=True, kw_only=True)
class Thousands(Singles):
    """The same, a thousand a task."""

    batch: ClassVar[int] = 1000


STUDIES: Mapping[int, type[Singles]] = {study.batch: study for study in (Singles, Hundreds, Thousands)}


def by_cells(most: int, batch: int, backends: Sequence[str] = _BACKENDS) -> Iterator[tuple[str, Table]]:
    """Tables of growing studies in batches, and of such as have a task for each cell."""
    for cells_per_task in dict.fromkeys((batch, 1)):
        largest = most if cells_per_task > 1 else min(most, _MOST_SINGLES)
        sizes = [*(size for size in _SIZES if size < largest), largest]
        rows = []
        for backend in backends:
            runs = [fresh(backend, size, cells_per_task) for size in sizes]
            rows += [row | {"to_smallest": row["peak_mb"] / runs[0]["peak_mb"]} for row in runs]
        about = (
            f"Studies in tasks of {cells_per_task} cells: microseconds of a cell, wall and CPU of the process with "
            "driver and scheduler (with threads: and workers); its memory before, its peak, and that in ratio to the "
            "peak of the smallest study; seconds of `calibdask status` and of opening and loading the cube; its files."
        )
        yield f"cells_{cells_per_task}", Table(about, rows, {"to_smallest": 1.15})


def fresh(backend: str, cells: int, batch: int) -> dict[str, Any]:
    """The results of `measured` in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measured, backend, cells, batch).result()


def measured(backend: str, cells: int, batch: int) -> dict[str, Any]:
    """Run a study of cheap cells, and look at its cube.

    Parameters
    ----------
    backend : str
        ``threads:N`` or ``local:N``.
    cells : int
    batch : int
        Cells of a task, one of those of `STUDIES`.
    """
    study = STUDIES[batch]
    with tempfile.TemporaryDirectory() as folder, opened([backend]) as (here,):
        store = Path(folder) / "cells.zarr"
        # Imports, and what the first cells of a process cost, are no matter of their number.
        here.on_workers(_warmed)
        cd.run(study(number=10), Path(folder) / "first.zarr", here.client or backend)
        before, cpu = peak_bytes(), time.process_time()
        wall = _seconds(lambda: cd.run(study(number=cells), store, here.client or backend))
        cpu, peak = time.process_time() - cpu, peak_bytes()
        row = {"backend": backend, "cells": cells, "tasks": -(-cells // batch)}
        row |= {"wall_us": wall / cells * 1e6, "cpu_us": cpu / cells * 1e6}
        row |= {"before_mb": before / 1e6, "peak_mb": peak / 1e6}
        return row | _looked_at(store, cells)


def _warmed() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cd.run(Singles(number=2), Path(folder) / "warm.zarr", "threads:1")


def _looked_at(store: Path, cells: int) -> dict[str, Any]:
    """Seconds to read the progress of a cube, and to open and load it; and its number of files."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = _seconds(lambda: calibdask(["status", str(store)]))
    if f" {cells} of {cells} cells done" not in output.getvalue():
        raise RuntimeError(f"Expected {cells} cells that are done, got: {output.getvalue()}")
    return {
        "status_s": status,
        "open_s": _seconds(lambda: cd.open_cube(str(store))),
        "load_s": _seconds(lambda: cd.open_cube(str(store)).load()),
        "files": sum(path.is_file() for path in store.rglob("*")),
    }


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure growing studies, and print tables."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.cells", description=__doc__)
    parser.add_argument("--cells", type=int, default=_SIZES[-1], help="of the largest study")
    parser.add_argument("--batch", type=int, choices=list(STUDIES), default=1000, help="cells of a task")
    parser.add_argument("--on", nargs="+", default=_BACKENDS, metavar="BACKEND", help="threads:N or local:N")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write cells.md there")
    chosen = parser.parse_args(arguments)
    tables = {}
    for name, table in by_cells(chosen.cells, chosen.batch, chosen.on):
        tables[name] = table
        print(markdown({name: table}, {}), flush=True)
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        write_text(chosen.out / "cells.md", markdown(tables, surroundings("wall", 1)))


if __name__ == "__main__":
    # Under the name that other processes know it by.
    import_module("experiments.scaling.cells").main()
