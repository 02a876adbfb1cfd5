"""Calibrators of matrices of scores: the temperature against reading the store, vector and structured scaling."""

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import Any

import dask
import dask.array as da
import numpy as np

import calibdask as cd
from experiments.scaling.backends import opened
from experiments.scaling.data import Rows
from experiments.scaling.memory import peak_bytes
from experiments.scaling.panel import read_only
from experiments.scaling.store import drawn
from experiments.scaling.tables import Table
from experiments.scaling.timing import ratio, timed

_BACKENDS = ("threads:1", "threads:2")
_BLOCK_ROWS, _BASES = 10_000, 4
# Name of the calibrator -> rows and classes of generated blocks.
FITS = {
    "VectorScaling": (10_000_000, 1000),
    "StructuredScaling": (25_000, 1000),
    "StructuredScaling(form='matrix')": (1_000_000, 10),
}


def of_temperature(labels: Any, scores: Any, rounds: int) -> Table:
    """Fitting a temperature in one pass against loading every chunk."""
    lines = []
    with opened(_BACKENDS) as backends:
        calls = {(backend.name, what): partial(backend.run, partial(call, labels, scores))
                 for backend in backends for what, call in (("read", read_only), ("fit", _temperature))}  # fmt: skip
        times = timed(calls, rounds)
    for name in _BACKENDS:
        read, fit = times[name, "read"], times[name, "fit"]
        against = ratio(fit.wall, read.wall)
        row = {"backend": name, "read_s": read.median("wall"), "fit_s": fit.median("wall"), "ratio": against.median}
        lines.append(row | {"low": against.low, "high": against.high})
    about = (
        f"{labels.size} rows x {scores.shape[1]} classes in {scores.numblocks[0]} chunks: seconds to read and "
        "decompress them, and to fit TemperatureScaling in one pass."
    )
    return Table(about, lines, {"ratio": 3.0})


def of_generated(shrink: int) -> Table:
    """Fits to generated blocks, each in a process of its own, on two threads."""
    lines: list[dict[str, Any]] = []
    for name, (rows, classes) in FITS.items():
        few = max(1000, rows // shrink)
        lines.append({"calibrator": name, "rows": few, "classes": classes} | fresh_fit(name, few, classes))
    about = (
        "Fits to blocks of 10000 rows that are made anew in each pass, on two threads: passes and seconds, the share "
        "of them for making the blocks, and the peak memory of the process after a fit to two blocks and in the end."
    )
    return Table(about, lines)


def fresh_fit(name: str, rows: int, classes: int) -> dict[str, float]:
    """What a fit takes, in a process started for it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(fit_to_generated, name, rows, classes).result()


@cache
def _base(number: int, classes: int) -> Rows:
    """Rows that blocks are made of."""
    return drawn(number * _BLOCK_ROWS, (number + 1) * _BLOCK_ROWS, classes)


def _block(start: int, stop: int, classes: int) -> Rows:
    """A block, from one of few that were drawn: with its classes in another order, since drawing takes longer."""
    turn, number = divmod(start // _BLOCK_ROWS, _BASES)
    labels, scores = _base(number, classes)
    some = slice(0, stop - start)
    return (labels[some] + turn) % classes, np.roll(scores[some], turn, axis=1)


def generated(rows: int, classes: int) -> tuple[da.Array, da.Array]:
    """Labels and scores as lazy arrays; nothing is stored."""
    labels, scores = [], []
    for start in range(0, rows, _BLOCK_ROWS):
        stop = min(rows, start + _BLOCK_ROWS)
        block = dask.delayed(_block)(start, stop, classes)
        labels.append(da.from_delayed(block[0], (stop - start,), np.int32))
        scores.append(da.from_delayed(block[1], (stop - start, classes), np.float32))
    return da.concatenate(labels), da.concatenate(scores)


def _temperature(labels: Any, scores: Any) -> Any:
    return cd.TemperatureScaling().fit(labels, scores)


def fit_to_generated(name: str, rows: int, classes: int) -> dict[str, float]:
    """Passes, seconds and memory, in this process."""
    calibrator = {
        "VectorScaling": cd.VectorScaling(),
        "StructuredScaling": cd.StructuredScaling(),
        "StructuredScaling(form='matrix')": cd.StructuredScaling(form="matrix"),
    }[name]
    with dask.config.set(scheduler="threads", num_workers=2):
        # Compiles, and takes the memory that any fit takes: one of two blocks at the same time.
        calibrator.fit(*generated(min(rows, 2 * _BLOCK_ROWS), classes))
        before = peak_bytes()
        begin = time.perf_counter()
        read_only(*generated(rows, classes))
        making = time.perf_counter() - begin
        begin = time.perf_counter()
        calibrator.fit(*generated(rows, classes))
        seconds = time.perf_counter() - begin
    passes = float(calibrator.passes_)
    return {
        "passes": passes,
        "seconds": seconds,
        "making_s": making * passes,
        "before_mb": before / 1e6,
        "peak_mb": peak_bytes() / 1e6,
    }


def parts(labels: Any, scores: Any, rounds: int, shrink: int) -> Iterator[tuple[str, Table]]:
    """All measurements."""
    yield "temperature", of_temperature(labels, scores, rounds)
    yield "generated", of_generated(shrink)
