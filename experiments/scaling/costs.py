"""Parameters of the cost model of `projection`, measured on processes of this machine."""

import pickle
import time
from functools import partial
from typing import Any

import numpy as np

from calibdask.engine.rows import Rows, make_block
from calibdask.engine.sources.source import merged, states_of
from experiments.scaling.backends import Backend
from experiments.scaling.chunks import CLASSES, repeated
from experiments.scaling.kernels import requested
from experiments.scaling.panel import evaluated
from experiments.scaling.projection import Costs
from experiments.scaling.store import drawn
from experiments.scaling.tables import Table

_TINY_ROWS = 10


def measured_costs(labels: Any, scores: Any, one: Backend, two: Backend, chunks: int = 2000) -> Costs:
    """Costs of the panel on these Dask arrays.

    Parameters
    ----------
    labels, scores : dask array
        In large chunks.
    one, two : Backend
        One process, and two.
    chunks : int
        Number of tiny chunks from which costs of tasks follow.
    """
    tiny = repeated(chunks, chunks * _TINY_ROWS)
    one.run(partial(evaluated, *repeated(20, 20 * _TINY_ROWS)))
    tasks = 17 / 16 * chunks
    before, client = _begun(one, partial(evaluated, *tiny)), time.process_time()
    task_seconds = _worker_seconds(one, partial(evaluated, *tiny)) / tasks
    scheduler = max(0.0, time.process_time() - client - before) / tasks
    rows = _worker_seconds(one, partial(evaluated, labels, scores)) - labels.numblocks[0] * task_seconds
    merge_seconds, state_bytes = _states(labels.chunksize[0])
    latency = _hop(two.client, 1)
    payload = 20_000_000
    speed = payload / max(1e-9, _hop(two.client, payload) - latency)
    return Costs(
        max(0.0, rows) / labels.shape[0],
        task_seconds,
        scheduler,
        before / chunks,
        merge_seconds,
        state_bytes,
        speed,
        latency,
    )


def _worker_seconds(backend: Backend, call: Any) -> float:
    """Processor time of workers in a call."""
    start = sum(backend.on_workers(time.process_time))
    backend.run(call)
    return sum(backend.on_workers(time.process_time)) - start


def _begun(backend: Backend, call: Any) -> float:
    """Seconds from the call to the begin of its first task."""
    from distributed import get_task_stream

    start = time.time()
    with get_task_stream(backend.client) as stream:
        backend.run(call)
    return min(span["start"] for task in stream.data for span in task["startstops"]) - start


def _states(rows: int, repeats: int = 50) -> tuple[float, int]:
    """Seconds to merge two states of the panel, and bytes of one."""
    labels, scores = drawn(0, min(rows, 100_000), CLASSES)
    asked, layout = requested(labels, scores)
    states = states_of(make_block(Rows(scores[None], labels[None]), layout, 0), asked)
    merged(asked, states, states)
    start = time.process_time()
    for _ in range(repeats):
        merged(asked, states, states)
    return (time.process_time() - start) / repeats, len(pickle.dumps(states, protocol=5))


def _hop(client: Any, size: int, hops: int = 10) -> float:
    """Seconds from the end of a task to that of the next one, which has so many bytes fetched from another process."""
    first, second = client.scheduler_info()["workers"]
    # Random bytes: nothing is gained by compression.
    held = client.submit(np.random.default_rng(0).bytes, size, workers=[first], pure=False)
    held.result()
    client.submit(len, held, workers=[first]).result()
    start = time.perf_counter()
    for hop in range(hops):
        held = client.submit(_same, held, hop, workers=[(second, first)[hop % 2]], pure=False)
    client.submit(len, held, pure=False).result()
    return (time.perf_counter() - start) / hops


def _same(payload: bytes, hop: int) -> bytes:
    return payload


def listed(costs: Costs) -> Table:
    """One line with all costs, in readable units."""
    row = {
        "row_ns": costs.row_seconds * 1e9,
        "task_us": costs.task_seconds * 1e6,
        "scheduler_us": costs.scheduler_seconds * 1e6,
        "graph_us": costs.graph_seconds * 1e6,
        "merge_us": costs.merge_seconds * 1e6,
        "state_kb": costs.state_bytes / 1e3,
        "mb_a_second": costs.bytes_a_second / 1e6,
        "latency_us": costs.latency * 1e6,
    }
    return Table("Measured costs of a row, of a task on a worker and in the scheduler, of a chunk, of a state.", [row])
