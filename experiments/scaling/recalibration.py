"""Seconds of fits: the temperature beside reading a store, matrices of a thousand classes, maps from summaries."""

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np

import calibdask as cd
from experiments.scaling.backends import opened
from experiments.scaling.data import Rows
from experiments.scaling.machine import surroundings
from experiments.scaling.memory import peak_bytes
from experiments.scaling.panel import read_only
from experiments.scaling.store import drawn
from experiments.scaling.tables import Table, markdown, write
from experiments.scaling.timing import ratio, timed

ROOT = Path(__file__).parents[2]
PARTS = ("temperature", "generated", "structured", "summaries")
_BACKENDS = ("threads:1", "threads:2")
_BLOCK_ROWS, _BASES = 10_000, 4
# Name of the calibrator -> rows and classes of generated blocks.
FITS = {
    "VectorScaling": (10_000_000, 1000),
    "StructuredScaling": (25_000, 1000),
    "StructuredScaling(form='matrix')": (1_000_000, 10),
}
STRUCTURED_SIZE = (25_000, 1000)
SUMMARY_ROWS = (10_000, 1_000_000, 10_000_000)
OF_SUMMARIES: tuple[Any, ...] = (
    cd.PlattScaling(),
    cd.BetaCalibration(),
    cd.QuadraticScaling(),
    cd.SplineCalibration(),
    cd.IsotonicCalibration(),
    cd.HistogramBinning(),
    cd.VennAbers(),
    cd.LCECalibrator(),
)


def of_temperature(labels: Any, scores: Any, rounds: int) -> Table:
    """Fitting a temperature in one pass against loading every chunk."""
    lines = []
    with opened(_BACKENDS) as backends:
        calls = {(backend.name, what): partial(backend.run, partial(call, labels, scores))
                 for backend in backends for what, call in (("read", read_only), ("fit", _temperature))}  # fmt: skip
        times = timed(calls, rounds)
    for name in _BACKENDS:
        read, fit = times[name, "read"], times[name, "fit"]
        row: dict[str, Any] = {"backend": name}
        for clock, title in (("wall", ""), ("cores", "cpu_")):
            against = ratio(fit.on(clock), read.on(clock))
            row |= {f"read_{title}s": read.median(clock), f"fit_{title}s": fit.median(clock)}
            row |= {f"{title}ratio": against.median, f"{title}low": against.low, f"{title}high": against.high}
        lines.append(row)
    about = (
        f"{labels.size} rows x {scores.shape[1]} classes in {scores.numblocks[0]} chunks: seconds to read and "
        f"decompress them, and to fit TemperatureScaling in one pass; elapsed, and of processors (cpu). Medians of "
        f"{rounds} rounds, and of the ratios within a round with the least and the largest."
    )
    return Table(about, lines, {"ratio": 3.0, "cpu_ratio": 3.0})


def of_generated(shrink: int) -> Table:
    """Fits to generated blocks, each in a process of its own, on two threads."""
    lines: list[dict[str, Any]] = []
    for name, (rows, classes) in FITS.items():
        few = max(1000, rows // shrink)
        lines.append({"calibrator": name, "rows": few, "classes": classes} | fresh_fit(name, few, classes))
    about = (
        "Fits to blocks of 10000 rows that are made anew in each pass, on two threads: passes and seconds, elapsed and "
        "of processors (cpu); the share of the latter for making the blocks; and the peak memory of the process after "
        "a fit to two blocks and in the end."
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
        # Draws what blocks are made of, compiles, and takes the memory of any fit: one of two blocks at the same time.
        read_only(*generated(min(rows, _BASES * _BLOCK_ROWS), classes))
        calibrator.fit(*generated(min(rows, 2 * _BLOCK_ROWS), classes))
        before = peak_bytes()
        used = time.process_time()
        read_only(*generated(rows, classes))
        making = time.process_time() - used
        begun, used = time.perf_counter(), time.process_time()
        calibrator.fit(*generated(rows, classes))
        seconds, cpu = time.perf_counter() - begun, time.process_time() - used
    passes = float(calibrator.passes_)
    return {
        "passes": passes,
        "seconds": seconds,
        "cpu_s": cpu,
        "making_cpu_s": making * passes,
        "before_mb": before / 1e6,
        "peak_mb": peak_bytes() / 1e6,
    }


def of_structured(python: str | None, rounds: int, shrink: int) -> Table:
    """Structured vector scaling, beside probmetrics in its own interpreter if there is one."""
    rows, classes = max(1000, STRUCTURED_SIZE[0] // shrink), STRUCTURED_SIZE[1]
    interpreters = {"calibdask": sys.executable} | ({"probmetrics": python} if python else {})
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in interpreters}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        (labels, scores), (fresh_labels, fresh) = drawn(0, rows, classes), drawn(rows, 2 * rows, classes)
        np.savez(path, labels=labels.astype(np.int64), scores=scores, fresh_labels=fresh_labels, fresh_scores=fresh)
        for _ in range(rounds):
            for name, interpreter in interpreters.items():
                measured[name].append(_in_process(interpreter, name, path))
    lines: list[dict[str, Any]] = []
    for name, of_rounds in measured.items():
        median = {key: statistics.median(numbers[key] for numbers in of_rounds) for key in of_rounds[0]}
        lines.append({"package": name, "rows": rows, "classes": classes} | median)
    about = (
        f"Structured vector scaling with the defaults of either package, on one thread, each in a process of its own: "
        f"seconds of a fit, elapsed and of processors (cpu), and the log loss of as many fresh rows; medians of "
        f"{rounds} rounds."
    )
    return Table(about, lines)


def _in_process(python: str, name: str, path: Path) -> dict[str, float]:
    done = subprocess.run(
        [python, "-m", "experiments.scaling.structured_fits", name, str(path), "1"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def of_summaries(rounds: int, shrink: int) -> Table:
    """Maps of one score from summaries of ever more rows."""
    lines: list[dict[str, Any]] = []
    summaries = {}
    for rows in SUMMARY_ROWS:
        rng = np.random.default_rng(rows)
        scores = rng.beta(1, 3, max(1000, rows // shrink))
        labels = rng.random(scores.size) < scores**1.4
        summaries[rows] = cd.summarize(labels, scores, settings=["binary"])
    for calibrator in OF_SUMMARIES:
        row: dict[str, Any] = {"calibrator": type(calibrator).__name__}
        for rows, summary in summaries.items():
            with warnings.catch_warnings():
                # Few rows are said to be few.
                warnings.simplefilter("ignore", UserWarning)
                (times,) = timed({"fit": partial(calibrator.fit, summary)}, rounds).values()
            row[f"{rows:.0e}_rows_cpu_ms"] = 1e3 * times.median("cores")
        lines.append(row)
    about = (
        "Milliseconds of processors to fit a map to the summary of P(y = 1) of so many rows: medians of "
        f"{rounds} rounds."
    )
    return Table(about, lines, {f"{rows:.0e}_rows_cpu_ms": 10.0 for rows in SUMMARY_ROWS})


def tables(
    store: Path | None, parts: Sequence[str], rounds: int, shrink: int, most: int | None, python: str | None
) -> Iterator[tuple[str, Table]]:
    """The chosen measurements."""
    if "temperature" in parts:
        if store is None:
            raise SystemExit("temperature expects a store, made by experiments.scaling.store.")
        rows = cd.read_rows(str(store))
        yield "temperature", of_temperature(rows.labels[:most], rows.scores[:most], rounds)
    if "generated" in parts:
        yield "generated", of_generated(shrink)
    if "structured" in parts:
        yield "structured", of_structured(python, rounds, shrink)
    if "summaries" in parts:
        yield "summaries", of_summaries(rounds, shrink)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen parts, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.recalibration", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all, where none is named")
    parser.add_argument("--store", type=Path, help="for the temperature; made by experiments.scaling.store")
    parser.add_argument("--rows", type=int, help="of the store; all, where not given")
    parser.add_argument("--probmetrics", metavar="PYTHON", help="an interpreter that has probmetrics")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shrink", type=int, default=1, metavar="FACTOR", help="fewer rows, to try it out")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    given = parser.parse_args(arguments)
    measured = {}
    parts = given.parts or PARTS
    for name, table in tables(given.store, parts, given.rounds, given.shrink, given.rows, given.probmetrics):
        measured[name] = table
        # A part takes minutes: what is there is shown.
        print(markdown({name: table}, {}), flush=True)
    if given.out:
        write(measured, surroundings("wall", given.rounds), given.out, "recalibration")


if __name__ == "__main__":
    main()
