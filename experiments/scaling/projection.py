"""Projected time of a panel on more workers than available: a cost model with few measurable parameters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.scaling.tables import Table

# Of the tree in which states are merged.
FAN_IN = 16


@dataclass(frozen=True)
class Costs:
    """Measured costs.

    Parameters
    ----------
    row_seconds : float
        A worker reads a row and computes the panel of it.
    task_seconds : float
        A worker begins and ends a task, whatever it does.
    scheduler_seconds : float
        The scheduler hands out a task and hears of its end; one after the other.
    graph_seconds : float
        The client builds, optimises and sends what belongs to a chunk, before work begins.
    merge_seconds : float
        A worker merges two states.
    state_bytes : float
        Of the state of a chunk, as it is sent.
    bytes_a_second : float
        Between two workers.
    latency : float
        Seconds from the end of a task to the begin of one that waits for it.
    """

    row_seconds: float
    task_seconds: float
    scheduler_seconds: float
    graph_seconds: float
    merge_seconds: float
    state_bytes: float
    bytes_a_second: float
    latency: float


@dataclass(frozen=True)
class Forecast:
    """Seconds, in all and by term, and the term that binds."""

    graph: float
    workers: float
    scheduler: float
    tree: float

    @property
    def total(self) -> float:
        """The graph, then workers and scheduler side by side, then the last merges."""
        return self.graph + max(self.workers, self.scheduler) + self.tree

    @property
    def binds(self) -> str:
        """The largest term."""
        terms = {"graph": self.graph, "workers": self.workers, "scheduler": self.scheduler, "tree": self.tree}
        return max(terms, key=terms.__getitem__)


def forecast(costs: Costs, rows: float, chunk_rows: float, workers: int, cores: float = math.inf) -> Forecast:
    """Seconds for so many rows in such chunks on so many workers of one thread.

    Workers share chunks and merges evenly but for the last wave, in which some have nothing to do. A merge of 16 states
    fetches all of them from elsewhere. Where workers, client and scheduler share few ``cores``, the work of all is
    divided by them. Not in it: starting workers, and stores that deliver less than all workers ask for.

    Examples
    --------
    >>> costs = Costs(1e-7, 1e-3, 1e-3, 1e-4, 1e-4, 1e5, 1e9, 1e-3)
    >>> forecast(costs, rows=1e8, chunk_rows=1e4, workers=10).binds
    'scheduler'
    """
    chunks = math.ceil(rows / chunk_rows)
    depth, merges = _tree(chunks)
    merge = FAN_IN * (costs.state_bytes / costs.bytes_a_second + costs.merge_seconds)
    waves = math.ceil(chunks / workers)
    work = waves * (chunk_rows * costs.row_seconds + costs.task_seconds)
    work += merges / workers * (merge + costs.task_seconds)
    scheduling = (chunks + merges) * costs.scheduler_seconds
    shared = (work * workers + scheduling) / cores
    return Forecast(chunks * costs.graph_seconds, max(work, shared), scheduling, depth * (merge + costs.latency))


def _tree(chunks: int) -> tuple[int, int]:
    """Levels and tasks of a tree of fan-in 16 over so many chunks."""
    depth = merges = 0
    while chunks > 1:
        chunks = math.ceil(chunks / FAN_IN)
        merges += chunks
        depth += 1
    return depth, merges


def projected(costs: Costs, rows: float, workers: int, chunk_rows: Sequence[int], row_bytes: int) -> Table:
    """A line for each chunk size."""
    lines = []
    for size in chunk_rows:
        expected = forecast(costs, rows, size, workers)
        lines.append(
            {
                "chunk_mb": size * row_bytes / 1e6,
                "chunks": math.ceil(rows / size),
                "seconds": expected.total,
                "graph": expected.graph,
                "workers": expected.workers,
                "scheduler": expected.scheduler,
                "tree": expected.tree,
                "binds": expected.binds,
                "gb_a_second": rows * row_bytes / expected.total / 1e9,
            }
        )
    about = (
        f"Forecast for {rows:.0e} rows on {workers} workers of one thread: seconds in all and by term, the term that "
        "binds, and what the store has to deliver, decompressed."
    )
    return Table(about, lines)


def checked(costs: Costs, measured: Sequence[tuple[int, int, int, float]], cores: int) -> Table:
    """Predictions for the measured runs: rows, rows in each chunk, workers and seconds of each run."""
    lines = []
    for rows, chunk_rows, workers, seconds in measured:
        expected = forecast(costs, rows, chunk_rows, workers, cores)
        lines.append(
            {
                "rows": rows,
                "chunk_rows": chunk_rows,
                "workers": workers,
                "measured": seconds,
                "predicted": expected.total,
                "to_measured": expected.total / seconds,
                "binds": expected.binds,
            }
        )
    return Table(f"Seconds as the model has them and as measured, on {cores} cores that all processes share.", lines)
