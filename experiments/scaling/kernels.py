"""Overhead of Dask over the kernels, and speedup by a second thread, for several chunk sizes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import dask.array as da

from calibdask.data.data import Data
from calibdask.engine.plan import run
from calibdask.engine.rows import Rows, make_block
from calibdask.engine.sources.source import apart, merged, states_of
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.validity import Validity
from experiments.scaling.backends import Backend
from experiments.scaling.panel import PANEL, evaluated
from experiments.scaling.store import drawn
from experiments.scaling.tables import Table
from experiments.scaling.timing import ratio, timed

# From here on chunks are large enough for the goals.
_LARGE_MB = 12


def requested(
    labels: Any, scores: Any, metrics: Mapping[str, Any] = PANEL
) -> tuple[tuple[Statistic[Any], ...], Layout]:
    """What metrics ask for in their pass, the check of the data included, and the layout of the data."""
    source = Data.of(labels, scores).read().source
    needed, _ = apart(tuple(run(metrics, source).states))
    return (*needed, Validity()), source.layout


def against_kernels(rows: int, megabytes: Sequence[float], rounds: int, classes: int = 10) -> Table:
    """In-memory rows in chunks of several sizes: kernels in a loop, NumPy at once, Dask on one thread and on two."""
    labels, scores = drawn(0, rows, classes)
    lines = []
    for size in megabytes:
        chunk = min(rows, max(1, int(size * 1e6 / (4 * classes))))
        lazy = da.from_array(labels, chunks=chunk), da.from_array(scores, chunks=(chunk, classes))
        one, two = Backend("threads:1", 1), Backend("threads:2", 2)
        times = timed(
            {
                "kernels": _kernels(labels, scores, chunk),
                "numpy": partial(evaluated, labels, scores),
                "one": partial(one.run, partial(evaluated, *lazy)),
                "two": partial(two.run, partial(evaluated, *lazy)),
            },
            rounds,
        )
        above = ratio(times["one"].cpu, times["kernels"].cpu)
        shared = ratio(times["two"].wall, times["one"].wall)
        lines.append(
            {
                "chunk_mb": float(size),
                "chunks": -(-rows // chunk),
                "kernels_ns": times["kernels"].median("cores") / scores.size * 1e9,
                "numpy_ns": times["numpy"].median("cores") / scores.size * 1e9,
                "dask_ns": times["one"].median("cores") / scores.size * 1e9,
                "dask_to_kernels": above.median,
                "low": above.low,
                "high": above.high,
                "two_to_one": shared.median,
            }
        )
    about = (
        f"The panel on {rows} x {classes} scores in memory: nanoseconds of processor time a score of the kernels alone "
        "in a loop over the same chunks, of NumPy arrays, of Dask on one thread; time on two threads to that on one."
    )
    large = [str(row["chunk_mb"]) for row in lines if row["chunk_mb"] >= _LARGE_MB]
    return Table(
        about, lines, {"dask_to_kernels": dict.fromkeys(large, 1.15), "two_to_one": dict.fromkeys(large, 1 / 1.7)}
    )


def _kernels(labels: Any, scores: Any, chunk: int) -> Callable[[], None]:
    """States of all chunks, one after the other, merged."""
    asked, layout = requested(labels[:1000], scores[:1000])

    def loop() -> None:
        total = None
        for start in range(0, len(labels), chunk):
            here = slice(start, start + chunk)
            block = make_block(Rows(scores[None, here], labels[None, here]), layout, start)
            states = states_of(block, asked)
            total = states if total is None else merged(asked, total, states)

    return loop
