"""The fixed cost of a chunk."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.threaded import get as get_threaded

import calibdask as cd
from experiments.scaling.backends import Backend
from experiments.scaling.panel import PANEL, evaluated
from experiments.scaling.store import drawn
from experiments.scaling.tables import Table

CLASSES = 10
# In processes each takes milliseconds.
_MOST_TASKS = 10_000
METRICS: Mapping[str, Any] = {"ece": {"ece": cd.ECE()}, "panel": PANEL}


@dataclass
class _Watching:
    """A scheduler of one thread that notes when it is handed a graph, and of how many tasks."""

    tasks: int = 0
    begun: float = 0.0

    def __call__(self, graph: Any, keys: Any, **options: Any) -> Any:
        """Run the graph, after it was built and optimized."""
        known = graph.__dask_graph__() if hasattr(graph, "__dask_graph__") else graph
        self.tasks = len(known)
        self.begun = time.process_time()
        return get_threaded(known, keys, num_workers=1)


@dataclass(frozen=True)
class Overhead:
    """Of one chunk: tasks, and microseconds of processor time of the graph and of running it."""

    tasks: float
    graph: float
    run: float


@dataclass(frozen=True)
class Repeated:
    """An array of any length, as a store is read: the same thousand rows over and over."""

    shape: tuple[int, ...]
    name: str

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """As in the pattern."""
        return _pattern(self.name).dtype

    def __getitem__(self, key: tuple[slice, ...]) -> Any:
        """Some rows."""
        pattern = _pattern(self.name)
        return pattern[np.arange(key[0].start, key[0].stop) % len(pattern)]


@cache
def _pattern(name: str) -> Any:
    return dict(zip(("labels", "scores"), drawn(0, 1000, CLASSES), strict=True))[name]


def repeated(chunks: int, rows: int) -> tuple[Any, Any]:
    """Labels and scores in so many equal chunks, that no memory holds."""
    size = -(-rows // chunks)
    labels, scores = Repeated((size * chunks,), "labels"), Repeated((size * chunks, CLASSES), "scores")
    options: dict[str, Any] = {"name": False, "inline_array": True, "fancy": False}
    return (
        da.from_array(labels, chunks=size, meta=np.empty(0, np.int32), **options),
        da.from_array(scores, chunks=(size, CLASSES), meta=np.empty((0, 0), np.float32), **options),
    )


def overhead(chunks: int, rows: int, metrics: Any) -> Overhead:
    """One evaluation on one thread, in parts."""
    labels, scores = repeated(chunks, rows)
    watching = _Watching()
    start = time.process_time()
    with dask.config.set(scheduler=watching):
        evaluated(labels, scores, metrics)
    scale = 1e6 / chunks
    return Overhead(
        watching.tasks / chunks, (watching.begun - start) * scale, (time.process_time() - watching.begun) * scale
    )


def by_number(numbers: Sequence[int], backends: Sequence[Backend], rounds: int, rows: int = 100_000) -> Table:
    """Equal rows in ever more chunks: on one thread, and in processes."""
    lines = []
    for name, metrics in METRICS.items():
        overhead(10, 1000, metrics)
        for backend in backends:
            backend.run(partial(evaluated, *repeated(10, 1000), metrics))
        for chunks in numbers:
            runs = [overhead(chunks, rows, metrics) for _ in range(max(1, min(rounds, _MOST_TASKS // chunks)))]
            row: dict[str, Any] = {"metrics": name, "chunks": chunks}
            row |= {what: statistics.median(getattr(run, what) for run in runs) for what in ("tasks", "graph", "run")}
            for backend in backends:
                row |= _in_processes(backend, chunks, rows, metrics)
            lines.append(row)
    about = (
        f"Microseconds a chunk, about {rows} rows in all. On one thread, processor time: build and optimise the graph "
        "(graph), run it (run). In processes: what goes by, and the processor time of client and scheduler in that."
    )
    return Table(about, lines, {"graph": 100.0})


def _in_processes(backend: Backend, chunks: int, rows: int, metrics: Any) -> dict[str, float]:
    """Microseconds a chunk that go by, and of client and scheduler: they live in this process, workers elsewhere."""
    if chunks > _MOST_TASKS:
        return {backend.name: float("nan"), f"{backend.name} client": float("nan")}
    wall, cpu = time.perf_counter(), time.process_time()
    backend.run(partial(evaluated, *repeated(chunks, rows), metrics))
    scale = 1e6 / chunks
    return {
        backend.name: (time.perf_counter() - wall) * scale,
        f"{backend.name} client": (time.process_time() - cpu) * scale,
    }
