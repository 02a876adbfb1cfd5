"""The calibration error of a Parquet file: calibdask beside what an engineer would otherwise write for it."""

import argparse
import math
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from experiments.scaling.machine import surroundings
from experiments.scaling.memory import peak_bytes
from experiments.scaling.tables import Table, markdown

PAGE = Path(__file__).with_name("results") / "engines.md"
BINS, SLICES, THREADS = 15, 12, 2
# Rows of a row group.
UNIT = 1 << 20


def write_rows(path: Path, rows: int, dtype: str) -> None:
    """Labels of int8, calibrated scores and a column of slices; a row is the same for any number of rows."""
    writer = None
    for number, start in enumerate(range(0, rows, UNIT)):
        rng, size = np.random.default_rng((27, number)), min(UNIT, rows - start)
        scores, chances = rng.random(UNIT, np.float32).astype(dtype), rng.random(UNIT, np.float32)
        columns = {"label": (chances < scores).astype(np.int8), "score": scores}
        columns["country"] = rng.integers(0, SLICES, UNIT, np.int8)
        table = pa.table({name: column[:size] for name, column in columns.items()})
        writer = writer or parquet.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    if writer:
        writer.close()


def calibdask_ece(path: str) -> float:
    """One metric."""
    import calibdask as cd

    return float(cd.evaluate(path, metrics="ece").ece)


def calibdask_default(path: str) -> float:
    """The six numbers of every evaluation: with a test, scores and errors without bins."""
    import calibdask as cd

    return float(cd.evaluate(path).ece)


def calibdask_panel(path: str) -> float:
    """The full panel."""
    import calibdask as cd

    return float(cd.evaluate(path, metrics="all").ece)


def calibdask_slices(path: str) -> float:
    """Two errors by slice with intervals of 200 replicates."""
    import calibdask as cd

    return float(cd.evaluate(path, metrics=["ece", "smooth_ece"], by="country", ci=0.95).ece.mean())


def duckdb_ece(path: str) -> float:
    """One aggregate by bin; sums of float64, whose last digits depend on the threads."""
    import duckdb

    query = f"""select sum(abs(gap)) / sum(rows) from (
        select sum(score::double) - sum(label) as gap, count(*) as rows from read_parquet(?)
        group by least(floor(score * {BINS}), {BINS - 1}))"""
    with duckdb.connect(config={"threads": THREADS}) as connection:
        return float(connection.execute(query, [path]).fetchall()[0][0])


def duckdb_slices(path: str) -> float:
    """The same by slice, without intervals."""
    import duckdb

    query = f"""select avg(ece) from (select sum(abs(gap)) / sum(rows) as ece from (
        select country, sum(score::double) - sum(label) as gap, count(*) as rows from read_parquet(?)
        group by country, least(floor(score * {BINS}), {BINS - 1})) group by country)"""
    with duckdb.connect(config={"threads": THREADS}) as connection:
        return float(connection.execute(query, [path]).fetchall()[0][0])


def polars_ece(path: str) -> float:
    """The same aggregate, streaming."""
    import polars as pl

    number = (pl.col("score") * BINS).floor().clip(0, BINS - 1).cast(pl.Int8)
    gap = (pl.col("score").cast(pl.Float64).sum() - pl.col("label").cast(pl.Int64).sum()).abs()
    bins = pl.scan_parquet(path).group_by(number.alias("bin")).agg(gap.alias("gap"), pl.len().alias("rows"))
    totals = bins.select(pl.col("gap").sum() / pl.col("rows").sum()).collect(engine="streaming")
    return float(totals.item())


def numpy_ece(path: str) -> float:
    """Whole columns in memory, and `numpy.bincount`."""
    table = parquet.read_table(path, columns=["label", "score"])
    labels, scores = table["label"].to_numpy(), table["score"].to_numpy()
    number = np.minimum((scores * BINS).astype(np.intp), BINS - 1)
    gaps = np.bincount(number, scores, BINS) - np.bincount(number, labels, BINS)
    return float(np.abs(gaps).sum() / len(scores))


CONTESTANTS: dict[str, Callable[[str], float]] = {
    "calibdask, one metric": calibdask_ece,
    "calibdask, six numbers": calibdask_default,
    "calibdask, the full panel": calibdask_panel,
    "calibdask, 2 errors by slice with intervals": calibdask_slices,
    "DuckDB, one metric": duckdb_ece,
    "DuckDB, one metric by slice": duckdb_slices,
    "polars, one metric": polars_ece,
    "NumPy in memory, one metric": numpy_ece,
}
# What is measured in tens of seconds or needs all rows in memory.
LARGE = 10**8


def fresh(call: Callable[[str], float], path: str, *, twice: bool = True) -> dict[str, Any]:
    """The measurement of a process of its own: its first call with all imports, then a second one."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measured, call, path, twice).result()


def _measured(call: Callable[[str], float], path: str, twice: bool) -> dict[str, Any]:
    import dask

    begun, used = time.perf_counter(), time.process_time()
    with dask.config.set(scheduler="threads", num_workers=THREADS):
        value = call(path)
        first, processor = time.perf_counter() - begun, time.process_time() - used
        begun = time.perf_counter()
        if twice:
            call(path)
    return {
        "ece": value,
        "first_call": first,
        "processor": processor,
        "second_call": time.perf_counter() - begun if twice else math.nan,
        "peak_mb": peak_bytes() / 1e6,
    }


def race(path: str, rows: int, rounds: int) -> Table:
    """All contestants in turn, round by round; medians."""
    names = [name for name in CONTESTANTS if rows <= LARGE or "in memory" not in name]
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            seen[name].append(fresh(CONTESTANTS[name], path))
    lines = []
    for name, measurements in seen.items():
        medians = {key: statistics.median(one[key] for one in measurements) for key in measurements[0]}
        lines.append({"contestant": name, **medians, "ns_a_row": 1e9 * medians["second_call"] / rows})
    size = Path(path).stat().st_size / 1e9
    about = (
        f"{rows:,} rows of a label, a score and a slice, {size:.2f} GB uncompressed, {THREADS} threads, each "
        "contestant in fresh processes: elapsed and processor seconds of the first call with imports and kernels from "
        "disk, elapsed seconds of a second call, peak memory. Of slices, the mean of their errors."
    )
    return Table(about, lines)


def main() -> None:
    """Write files of both types of scores, or take the one given, and race over them."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.engines", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000_000])
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where files are kept; a temporary one otherwise")
    parser.add_argument("--out", type=Path, default=PAGE)
    chosen = parser.parse_args()
    tables = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        for rows in chosen.rows:
            path = folder / f"{rows}-{chosen.dtype}.parquet"
            if not path.exists():
                write_rows(path, rows, chosen.dtype)
            tables[f"{rows:,} rows, {chosen.dtype}"] = race(str(path), rows, chosen.rounds)
            text = markdown(tables, surroundings("wall", chosen.rounds))
            counts = " ".join(map(str, chosen.rows))
            command = f"`python -m experiments.scaling.engines --dtype {chosen.dtype} --rows {counts}`"
            chosen.out.write_text(f"# Beside query engines\n\nWritten by {command}.\n\n{text}", encoding="utf-8")
            print(text)


if __name__ == "__main__":
    main()
