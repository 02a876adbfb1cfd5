"""The calibration error of stored rows: calibdask beside what an engineer would otherwise write for it."""

import argparse
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zarr
from pyarrow import parquet

from experiments.scaling import growth
from experiments.scaling.machine import surroundings
from experiments.scaling.memory import peak_bytes
from experiments.scaling.tables import Table, markdown

PAGE = Path(__file__).with_name("results") / "engines.md"
BINS, SLICES, THREADS = 15, 12, 2
# What readers of arrays expect, by the names of columns.
ARRAYS = {"label": "labels", "score": "scores"}
# Rows of a row group.
UNIT = 1 << 20


def write_parquet(path: Path, rows: int, dtype: str) -> None:
    """Labels of int8, calibrated scores and a column of slices; a row is the same for any number of rows."""
    schema = pa.schema([(name, pa.from_numpy_dtype(kind)) for name, kind in _types(dtype).items()])
    with parquet.ParquetWriter(path, schema, compression="none") as writer:
        for start in range(0, rows, UNIT):
            writer.write_table(pa.table(drawn(start, min(start + UNIT, rows), dtype)))


def write_zarr(path: Path, rows: int, dtype: str) -> None:
    """The same rows as arrays, uncompressed."""
    group = zarr.create_group(path)
    size = min(UNIT, rows)
    arrays = {
        name: group.create_array(ARRAYS.get(name, name), shape=(rows,), chunks=(size,), dtype=kind, compressors=())
        for name, kind in _types(dtype).items()
    }
    for start in range(0, rows, UNIT):
        stop = min(start + UNIT, rows)
        for name, values in drawn(start, stop, dtype).items():
            arrays[name][start:stop] = values


def _types(dtype: str) -> dict[str, Any]:
    return {"label": np.dtype("int8"), "score": np.dtype(dtype), "country": np.dtype("int8")}


def drawn(start: int, stop: int, dtype: str) -> dict[str, np.ndarray]:
    """The columns of at most a unit of rows, from its first row on."""
    rng = np.random.default_rng((27, start // UNIT))
    scores, chances = rng.random(UNIT, np.float32).astype(dtype), rng.random(UNIT, np.float32)
    columns = {"label": (chances < scores).astype(np.int8), "score": scores}
    columns["country"] = rng.integers(0, SLICES, UNIT, np.int8)
    return {name: column[: stop - start] for name, column in columns.items()}


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


# What is called, with which file.
CONTESTANTS: dict[str, tuple[str, Callable[[str], float]]] = {
    "calibdask, one metric": (".parquet", calibdask_ece),
    "calibdask, six numbers": (".parquet", calibdask_default),
    "calibdask, the full panel": (".parquet", calibdask_panel),
    "calibdask, the full panel, Zarr": (".zarr", calibdask_panel),
    "calibdask, 2 errors by slice with intervals": (".parquet", calibdask_slices),
    "DuckDB, one metric": (".parquet", duckdb_ece),
    "DuckDB, one metric by slice": (".parquet", duckdb_slices),
    "polars, one metric": (".parquet", polars_ece),
    "NumPy in memory, one metric": (".parquet", numpy_ece),
}
# More rows than this are called for once, and not held in memory.
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


def race(stem: Path, rows: int, rounds: int) -> Table:
    """All contestants in turn, round by round; medians."""
    names = [name for name in CONTESTANTS if rows <= LARGE or "in memory" not in name]
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    load = os.getloadavg()[0]
    for _ in range(rounds):
        for name in names:
            suffix, call = CONTESTANTS[name]
            seen[name].append(fresh(call, str(stem.with_suffix(suffix)), twice=rows <= LARGE))
    lines = []
    for name, measurements in seen.items():
        medians = {key: statistics.median(one[key] for one in measurements) for key in measurements[0]}
        lines.append({"contestant": name, **medians, "processor_ns_a_row": 1e9 * medians["processor"] / rows})
    size = stem.with_suffix(".parquet").stat().st_size / 1e9
    about = (
        f"{rows:,} rows of a label, a score and a slice, {size:.2f} GB uncompressed, {THREADS} threads, each "
        "contestant in fresh processes: elapsed and processor seconds of the first call with imports and kernels from "
        "disk, elapsed seconds of a second call, peak memory. Of slices, the mean of their errors. Load of the machine "
        f"before: {load:.1f}."
    )
    return Table(about, lines)


def main() -> None:
    """Write files of both types of scores, or take those given, and race over them."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.engines", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000_000])
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where files are kept; a temporary one otherwise")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page; with a picture beside it for several --rows")
    chosen = parser.parse_args()
    races: dict[int, Table] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for rows in chosen.rows:
            stem = (chosen.folder or Path(temporary)) / f"{rows}-{chosen.dtype}"
            for suffix, write in ((".parquet", write_parquet), (".zarr", write_zarr)):
                if not stem.with_suffix(suffix).exists():
                    write(stem.with_suffix(suffix), rows, chosen.dtype)
            races[rows] = race(stem, rows, chosen.rounds)
            tables = {f"{count:,} rows, {chosen.dtype}": table for count, table in races.items()}
            text = markdown(tables, surroundings("wall", chosen.rounds))
            counts = " ".join(map(str, chosen.rows))
            command = f"`python -m experiments.scaling.engines --dtype {chosen.dtype} --rows {counts}`"
            picture = chosen.out.with_suffix(".png")
            shown = f"![Processor seconds and memory by rows]({picture.name})\n\n" if len(chosen.rows) > 1 else ""
            chosen.out.write_text(f"# Beside query engines\n\nWritten by {command}.\n\n{shown}{text}", encoding="utf-8")
            print(text)
    if len(races) > 1:
        growth.save(races, picture)


if __name__ == "__main__":
    main()
