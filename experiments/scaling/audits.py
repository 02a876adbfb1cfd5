"""Audits of many columns: seconds by rows, features and depth, from memory and from Parquet, and peak memory."""

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any, Literal

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
from pyarrow import parquet

import calibdask as cd
from experiments.scaling.machine import surroundings
from experiments.scaling.memory import peak_bytes
from experiments.scaling.tables import Table, markdown

PAGE = Path(__file__).with_name("results") / "audits.md"
FEATURES, VALUES = 20, 5
# Rows that one generator draws, of a chunk and of a row group.
UNIT = 1 << 18
Source = Literal["memory", "Parquet"]


@dataclass(frozen=True)
class Case:
    """What is audited: rows, the first so many features, and the depth; from where, on how many threads."""

    source: Source
    rows: int
    features: int
    depth: int
    threads: int


def units(rows: int) -> Iterator[dict[str, Any]]:
    """Columns of calibrated scores, block by block; a row is the same for any number of rows.

    Features share a cause, and have equally many rows of each value.
    """
    for number, start in enumerate(range(0, rows, UNIT)):
        rng = np.random.default_rng((24, number))
        common, score = rng.integers(0, VALUES, UNIT, np.int8), rng.random(UNIT, np.float32) ** 2
        columns: dict[str, Any] = {"label": rng.random(UNIT, np.float32) < score, "score": score}
        for feature in range(FEATURES):
            shared = rng.random(UNIT, np.float32) < 0.3
            columns[f"x{feature}"] = np.where(shared, common, rng.integers(0, VALUES, UNIT, np.int8))
        yield {name: column[: rows - start] for name, column in columns.items()}


def write_parquet(path: Path, rows: int) -> None:
    """The rows as a file, a row group a block."""
    writer = None
    for columns in units(rows):
        table = pa.table(columns)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=UNIT)
    if writer:
        writer.close()


def measured(case: Case, path: str) -> dict[str, Any]:
    """One audit in this process, after a small one that loads the kernels, beside reading its columns."""
    with dask.config.set(scheduler="threads", num_workers=case.threads):
        names = [f"x{feature}" for feature in range(case.features)]
        small = next(units(20_000))
        cd.audit(small["label"], small["score"], {name: small[name] for name in names}, depth=min(case.depth, 2))
        audit, read = _of_file(path, names, case) if case.source == "Parquet" else _of_memory(names, case)
        read()
        reading, _ = _seconds(read)
        before = peak_bytes()
        (wall, processor), result = _seconds(audit)
    return {
        "from": case.source,
        "rows": case.rows,
        "features": case.features,
        "depth": case.depth,
        "segments": int(result.attrs["segments"]),
        "passes": int(result.attrs["passes"]),
        "seconds": wall,
        "processor_seconds": processor,
        "reading_seconds": reading[0],
        "to_reading": processor / reading[1],
        "ns_a_row": 1e9 * processor / case.rows,
        "memory_mb": (peak_bytes() - before) / 1e6,
    }


def _seconds(call: Callable[[], Any]) -> tuple[tuple[float, float], Any]:
    begun, used = time.perf_counter(), time.process_time()
    answer = call()
    return (time.perf_counter() - begun, time.process_time() - used), answer


def _of_file(path: str, names: list[str], case: Case) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The audit of a file, and reading its columns."""
    columns = ["label", "score", *names]
    groups = [(file, group) for file in sorted(glob(path)) for group in range(parquet.ParquetFile(file).num_row_groups)]

    def rows(place: tuple[str, int]) -> int:
        file, group = place
        return int(parquet.ParquetFile(file).read_row_group(group, columns, use_threads=False).num_rows)

    def read() -> int:
        with ThreadPoolExecutor(case.threads) as pool:
            return sum(pool.map(rows, groups))

    return lambda: cd.audit(path, features=names, depth=case.depth), read


def rows_of(path: str) -> int:
    """How many rows the files hold."""
    return sum(parquet.ParquetFile(file).metadata.num_rows for file in glob(path))


def _of_memory(names: list[str], case: Case) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The audit of arrays, and adding up their columns."""
    arrays: dict[str, Any] = {}
    for block, columns in enumerate(units(case.rows)):
        for name in ["label", "score", *names]:
            whole = arrays.setdefault(name, np.empty(case.rows, columns[name].dtype))
            whole[block * UNIT : block * UNIT + columns[name].size] = columns[name]
    lazy = {name: da.from_array(array, chunks=UNIT, name=False) for name, array in arrays.items()}
    features = {name: lazy[name] for name in names}

    def audit() -> Any:
        return cd.audit(lazy["label"], lazy["score"], features, depth=case.depth)

    return audit, lambda: [float(total) for total in dask.compute(*(array.sum() for array in lazy.values()))]


def fresh(case: Case, path: str) -> dict[str, Any]:
    """The measurement of a process that is started for it, whose peak of memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measured, case, path).result()


def cases(sizes: tuple[int, ...], depths: tuple[int, ...], threads: int) -> list[Case]:
    """All sizes and depths from a file, the largest size from memory; fewer features at the smallest size."""
    files = [Case("Parquet", rows, FEATURES, depth, threads) for depth in depths for rows in sizes]
    memory = [Case("memory", sizes[-1], FEATURES, depth, threads) for depth in depths]
    fewer = [Case("Parquet", sizes[0], features, depth, threads) for depth in depths[1:] for features in (5, 10)]
    return [*files, *memory, *fewer]


def growth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The larger size by the smaller one."""
    lines = []
    for depth in dict.fromkeys(row["depth"] for row in rows):
        first, last = (row for row in rows if (row["from"], row["depth"]) == ("Parquet", depth))
        times = {name: last[name] / first[name] if first[name] else float("nan") for name in _GROWING}
        lines.append({"depth": depth, **{f"{name}_times": times[name] for name in _GROWING}})
    return lines


_GROWING = ("rows", "processor_seconds", "memory_mb")


def tables_of(rows: list[dict[str, Any]], large: list[dict[str, Any]], threads: int) -> dict[str, Table]:
    """The measurements of all features, those of fewer, growth, and those of a large file."""
    full, fewer = ([row for row in rows if (row["features"] == FEATURES) == all_of] for all_of in (True, False))
    about = (
        f"Audits on {threads} threads, once each in its own process; reading: all columns once, in "
        "memory their sums. Ratio of processor seconds; memory: the peak above that before the audit."
    )
    tables = {}
    if large:
        tables["many rows"] = Table(about, large)
    if full:
        tables[f"{FEATURES} features of {VALUES} values"] = Table(about, full)
        tables["growth"] = Table("The larger size by the smaller one.", growth(full))
    if fewer:
        tables["fewer features"] = Table("The same of fewer columns.", fewer)
    return tables


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.audits", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=(1_000_000, 5_000_000), help="a smaller, a larger size")
    parser.add_argument("--depths", type=int, nargs="+", default=(1, 2, 3))
    parser.add_argument("--large", type=int, help="rows of one more file, which is not measured in memory")
    parser.add_argument("--files", help="this file in place of writing one; * stands for any part of a name")
    parser.add_argument("--large-depths", type=int, nargs="+", default=(2,))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=PAGE)
    chosen = parser.parse_args()
    if len(chosen.rows) not in (0, 2):
        parser.error("--rows expects a smaller and a larger size, or none of them")
    rows, large = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.files or str(Path(folder) / "large.parquet")
        if chosen.large and not chosen.files:
            write_parquet(Path(path), chosen.large)
        for depth in chosen.large_depths if chosen.large or chosen.files else ():
            large.append(fresh(Case("Parquet", rows_of(path), FEATURES, depth, chosen.threads), path))
            print(large[-1], flush=True)
        for size in chosen.rows:
            write_parquet(Path(folder) / f"{size}.parquet", size)
        for case in cases(tuple(sorted(chosen.rows)), tuple(chosen.depths), chosen.threads) if chosen.rows else ():
            rows.append(fresh(case, str(Path(folder) / f"{case.rows}.parquet")))
            print(rows[-1], flush=True)
    text = markdown(tables_of(rows, large, chosen.threads), surroundings("cores", 1))
    title = "# Audits of many columns\n\nWritten by `python -m experiments.scaling.audits --large 100000000`.\n\n"
    chosen.out.write_text(title + text, encoding="utf-8")


if __name__ == "__main__":
    main()
