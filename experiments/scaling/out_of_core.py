"""Measure startup and the out-of-core panel: relative to reading, memory, chunks, scaling, and a projection."""

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import calibdask as cd
from experiments.scaling import chunks, kernels, memory, startup
from experiments.scaling.backends import opened
from experiments.scaling.costs import listed, measured_costs
from experiments.scaling.machine import surroundings
from experiments.scaling.panel import by_zarr, evaluated, read_only
from experiments.scaling.profile import by_statistic
from experiments.scaling.projection import checked, projected
from experiments.scaling.store import cores, make_store
from experiments.scaling.tables import Table, markdown, write
from experiments.scaling.timing import ratio, timed

BACKENDS = ("threads:1", "threads:2", "local:1", "local:2")
# Rows of the projections with their workers, and the rows of their chunks.
FAR = ((1e10, 100), (1e11, 1000))
FAR_CHUNKS = (25_000, 250_000, 1_000_000, 2_500_000, 10_000_000, 25_000_000)


@dataclass(frozen=True)
class Job:
    """The measurements to take, and their effort.

    Parameters
    ----------
    store : Path
    rounds : int
    shrink : int
        Rows and chunks that a part makes itself are so many times fewer.
    most : int, optional
        Rows of the store that the panel is timed on; all, where it is None.
    """

    store: Path
    rounds: int = 5
    shrink: int = 1
    most: int | None = None

    def rows(self, most: int | None = None) -> tuple[Any, Any]:
        """Labels and scores of the store, or the first of them."""
        table = cd.read_rows(str(self.store))
        return table.labels[:most], table.scores[:most]

    def few(self, number: int) -> int:
        """A number of rows, shrunk."""
        return max(1000, number // self.shrink)


def panel(job: Job) -> Iterator[tuple[str, Table]]:
    """The panel against merely reading and decompressing, by calibdask and by zarr-python alone."""
    labels, scores = job.rows(job.most)
    whats = {
        "zarr": partial(read_only, *by_zarr(job.store, labels, scores)),
        "read": partial(read_only, labels, scores),
        "panel": partial(evaluated, labels, scores),
    }
    with opened(BACKENDS) as backends:
        calls = {(backend.name, what): partial(backend.run, call)
                 for backend in backends for what, call in whats.items()}  # fmt: skip
        times = timed(calls, job.rounds)
    lines = []
    for name in BACKENDS:
        zarr, read, ours = times[name, "zarr"], times[name, "read"], times[name, "panel"]
        row = {"backend": name, "zarr_s": zarr.median("wall"), "read_s": read.median("wall")}
        row |= {"panel_s": ours.median("wall")}
        for what, reading in (("to_zarr", zarr), ("to_read", read)):
            against = ratio(ours.wall, reading.wall)
            row |= {what: against.median, f"{what}_low": against.low, f"{what}_high": against.high}
        row |= {
            "rows_a_second": labels.size / ours.median("wall"),
            "gb_a_second": (labels.nbytes + scores.nbytes) / ours.median("wall") / 1e9,
        }
        lines.append(row)
    yield (
        "panel",
        Table(
            f"{labels.size} rows x {scores.shape[1]} classes in {scores.numblocks[0]} chunks of "
            f"{scores.chunksize[0]} rows: seconds to read and decompress them by Dask from zarr-python (zarr) and as "
            "calibdask does (read), to compute the panel in one pass, and its ratios to both.",
            lines,
            {"to_zarr": 1.25},
        ),
    )


def memories(job: Job) -> Iterator[tuple[str, Table]]:
    """Peaks of workers against chunk size and rows."""
    classes = job.rows()[1].shape[1]
    yield "memory_chunks", memory.by_chunk_size(job.few(10_000_000), classes)
    yield "memory_rows", memory.by_rows(job.store)


def chunk_costs(job: Job) -> Iterator[tuple[str, Table]]:
    """Cost of a chunk, and what Dask adds to kernels."""
    numbers = sorted({max(10, number // job.shrink) for number in (100, 1000, 10_000, 100_000)})
    with opened(["local:1", "local:2"]) as backends:
        yield "chunks", chunks.by_number(numbers, backends, job.rounds)
    yield "kernels", kernels.against_kernels(job.few(10_000_000), (1, 4, 12, 40), job.rounds)


def profile(job: Job) -> Iterator[tuple[str, Table]]:
    """What dominates."""
    yield "profile", by_statistic(job.few(10_000_000), job.rounds)


def scaling(job: Job) -> Iterator[tuple[str, Table]]:
    """Two workers against one, at equal rows in all and at equal rows for each."""
    rows = min(job.rows()[0].size, job.few(20_000_000))
    whole, half = job.rows(rows), job.rows(rows // 2)
    with opened(BACKENDS) as backends:
        calls = {backend.name: partial(backend.run, partial(evaluated, *whole)) for backend in backends}
        halves = {f"{backend.name} half": partial(backend.run, partial(evaluated, *half)) for backend in backends}
        times = timed(calls | {name: call for name, call in halves.items() if ":1 " in name}, job.rounds)
    lines = []
    for kind in ("threads", "local"):
        one, two, part = times[f"{kind}:1"].wall, times[f"{kind}:2"].wall, times[f"{kind}:1 half"].wall
        for name, a, b, ideal in (("strong", one, two, 2), ("weak", part, two, 1)):
            gained = ratio(a, b)
            row = {"workers": kind, "scaling": name, "one_s": sorted(a)[len(a) // 2], "two_s": sorted(b)[len(b) // 2]}
            lines.append(row | {"ratio": gained.median, "ideal": ideal, "efficiency": gained.median / ideal})
    yield (
        "scaling",
        Table(f"Seconds on one worker and on two; strong: {rows} rows on both, weak: {rows // 2} rows on one.", lines),
    )


def projection(job: Job) -> Iterator[tuple[str, Table]]:
    """Costs, validation of the model, and its prediction."""
    labels, scores = job.rows(job.few(10_000_000))
    row_bytes = 4 + scores.shape[1] * scores.dtype.itemsize
    measured = []
    with opened(["local:1", "local:2"]) as (one, two), tempfile.TemporaryDirectory() as folder:
        costs = measured_costs(labels, scores, one, two, chunks=max(32, 2000 // job.shrink))
        for chunk_rows, rows in ((2500, job.few(1_000_000)), (25_000, job.few(5_000_000)), (250_000, labels.size)):
            path = Path(folder) / f"{chunk_rows}.zarr"
            make_store(path, rows, scores.shape[1], chunk_rows=chunk_rows, dtype=str(scores.dtype))
            table = cd.read_rows(str(path), chunk_rows=chunk_rows)
            calls = {backend.workers: partial(backend.run, partial(evaluated, table.labels, table.scores))
                     for backend in (one, two)}  # fmt: skip
            times = timed(calls, job.rounds)
            measured += [(rows, chunk_rows, workers, times[workers].median("wall")) for workers in times]
    yield "costs", listed(costs)
    yield "model", checked(costs, measured, cores())
    for rows, workers in FAR:
        yield f"projection_{workers}", projected(costs, rows, workers, FAR_CHUNKS, row_bytes)


def starts(job: Job) -> Iterator[tuple[str, Table]]:
    """Fresh processes: importing, and the panel with and without compiled kernels on disk."""
    yield "startup", startup.measured(job.rounds)


PARTS: Mapping[str, Any] = {
    "startup": starts,
    "panel": panel,
    "memory": memories,
    "chunks": chunk_costs,
    "profile": profile,
    "scaling": scaling,
    "projection": projection,
}


def main() -> None:
    """Measure the chosen parts, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.out_of_core", description=__doc__)
    parser.add_argument("store", type=Path, help="made by experiments.scaling.store")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all, where none is named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shrink", type=int, default=1, metavar="FACTOR", help="less of what is made, to try it out")
    parser.add_argument("--rows", type=int, metavar="ROWS", help="of the store, for the panel; all, where not given")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    job = Job(chosen.store, chosen.rounds, chosen.shrink, chosen.rows)
    tables = {}
    for part in chosen.parts or PARTS:
        for name, table in PARTS[part](job):
            tables[name] = table
            # A part takes minutes: what is there is shown.
            print(markdown({name: table}, {}), flush=True)
    if chosen.out:
        write(tables, surroundings("wall", chosen.rounds) | {"store": chosen.store.name}, chosen.out, "out_of_core")


if __name__ == "__main__":
    main()
