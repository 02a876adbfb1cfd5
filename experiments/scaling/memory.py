"""Peak memory of a new process that evaluates the panel."""

import multiprocessing
import resource
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import calibdask as cd
from experiments.scaling.backends import opened
from experiments.scaling.panel import evaluated
from experiments.scaling.store import drawn, make_store
from experiments.scaling.tables import Table

_BACKENDS = ("threads:2", "local:2")


def by_chunk_size(rows: int, classes: int, megabytes: tuple[float, ...] = (1, 4, 16, 64)) -> Table:
    """Equal rows in stores of several chunk sizes."""
    lines = []
    for size in megabytes:
        chunk_rows = max(1, int(size * 1e6 / (4 * classes)))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.zarr"
            make_store(path, rows, classes, chunk_rows=chunk_rows)
            for backend in _BACKENDS:
                base, peak = fresh_peak(path, backend, rows, chunk_rows)
                row = {"backend": backend, "rows": rows, "chunk_mb": float(size), "before_mb": base, "peak_mb": peak}
                lines.append(row | {"chunks_above": (peak - base) / size})
    about = (
        "Peak memory of a worker against the size of a chunk (scores in memory); before: imports and compiled kernels. "
        "The difference is also given in chunks."
    )
    return Table(about, lines)


def by_rows(path: Path) -> Table:
    """Growing prefixes of one store."""
    whole = cd.read_rows(str(path)).scores.shape[0]
    prefixes = sorted({max(1, whole // part) for part in (100, 16, 10, 1)})
    lines = []
    for backend in _BACKENDS:
        peaks = {rows: fresh_peak(path, backend, rows, None) for rows in prefixes}
        reference = peaks[max(1, whole // 16)][1]
        lines += [
            {
                "backend": backend,
                "rows": rows,
                "before_mb": base,
                "peak_mb": peak,
                "to_a_16th": peak / reference,
            }
            for rows, (base, peak) in peaks.items()
        ]
    about = "Peak memory of a worker against rows, and its ratio to that at a 16th of all rows."
    return Table(about, lines, {"to_a_16th": 1.15})


def fresh_peak(path: Path, backend: str, rows: int, chunk_rows: int | None) -> tuple[float, float]:
    """Megabytes before and at the peak, of the largest worker, in processes started for it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measured, str(path), backend, rows, chunk_rows).result()


def _measured(path: str, backend: str, rows: int, chunk_rows: int | None) -> tuple[float, float]:
    table = cd.read_rows(path, chunk_rows=chunk_rows)
    labels, scores = drawn(0, 100, table.classes, table.scores.dtype)
    with opened([backend]) as (here,):
        here.on_workers(partial(evaluated, labels, scores))
        before = max(here.on_workers(peak_bytes))
        here.run(partial(evaluated, table.labels[:rows], table.scores[:rows]))
        return before / 1e6, max(here.on_workers(peak_bytes)) / 1e6


def peak_bytes() -> int:
    """Peak resident memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not that of getrusage: it is handed on from the process that started this one.
        lines = status.read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
    unit = 1 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
