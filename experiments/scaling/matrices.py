"""A panel of twelve metrics of 10^8 rows of ten classes, alone and by slice with intervals, from Zarr and Parquet."""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import zarr
from pyarrow import parquet

import calibdask as cd
from experiments.scaling.engines import BINS, SLICES, THREADS, UNIT, fresh
from experiments.scaling.machine import surroundings
from experiments.scaling.panel import PANEL, read_only
from experiments.scaling.store import drawn, make_store
from experiments.scaling.tables import Table, markdown

PAGE = Path(__file__).with_name("results") / "matrices.md"
_CHUNK_ROWS = 250_000


def write_zarr(path: Path, rows: int, classes: int) -> None:
    """Labels, scores of float32 compressed by lz4, and a slice of each row."""
    make_store(path, rows, classes, chunk_rows=_CHUNK_ROWS)
    size = min(_CHUNK_ROWS, rows)
    countries = zarr.open_group(path).create_array("country", shape=(rows,), chunks=(size,), dtype="int8")
    for start in range(0, rows, size):
        countries[start : start + size] = _countries(start, rows)[:size]


def write_parquet(path: Path, rows: int, classes: int) -> None:
    """The same rows, a column for each class, uncompressed."""
    names = [f"p_{number}" for number in range(classes)]
    kinds = [pa.int32(), *[pa.float32()] * classes, pa.int8()]
    schema = pa.schema(list(zip(["label", *names, "country"], kinds, strict=True)))
    with parquet.ParquetWriter(path, schema, compression="none") as writer:
        for start in range(0, rows, UNIT):
            stop = min(start + UNIT, rows)
            labels, scores = drawn(start, stop, classes)
            numbers = [
                _countries(first, rows) for first in range(start // _CHUNK_ROWS * _CHUNK_ROWS, stop, _CHUNK_ROWS)
            ]
            countries = np.concatenate(numbers)[start % _CHUNK_ROWS :][: stop - start]
            writer.write_table(pa.table([labels, *scores.T.copy(), countries], schema))


def _countries(start: int, rows: int) -> np.ndarray:
    """The slices of a chunk of rows."""
    drawn_slices = np.random.default_rng((27, start)).integers(0, SLICES, _CHUNK_ROWS, np.int8)
    return drawn_slices[: rows - start]


def read_zarr(path: str) -> float:
    """Every chunk, decompressed."""
    table = cd.read_rows(path)
    return float(read_only(table.labels, table.scores))


def read_parquet(path: str) -> float:
    """Every column but that of slices, a row group at a time."""
    file = parquet.ParquetFile(path)
    names = [name for name in file.schema_arrow.names if name != "country"]
    return float(sum(batch.num_rows for batch in file.iter_batches(UNIT, columns=names)))


def panel(path: str) -> float:
    """The panel in one pass."""
    return float(cd.evaluate(path, metrics=PANEL).ece)


def panel_slices(path: str) -> float:
    """The panel of each slice, with intervals of 200 replicates."""
    return float(cd.evaluate(path, metrics=PANEL, by="country", ci=0.95).ece.mean())


def duckdb_ece(path: str, classes: int) -> float:
    """Sums by bin of the largest score; of the twelve metrics this is one."""
    import duckdb

    names = [f"p_{number}" for number in range(classes)]
    top = f"greatest({', '.join(names)})"
    right = " or ".join(f"(label = {number} and {name} = {top})" for number, name in enumerate(names))
    query = f"""select sum(abs(gap)) / sum(rows) from (
        select sum({top}::double) - sum(({right})::int) as gap, count(*) as rows from read_parquet(?)
        group by least(floor({top} * {BINS}), {BINS - 1}))"""
    with duckdb.connect(config={"threads": THREADS}) as connection:
        return float(connection.execute(query, [path]).fetchall()[0][0])


def contestants(classes: int) -> Iterator[tuple[str, str, Callable[[str], float]]]:
    """Format, name and call."""
    for format_name, read in (("Zarr, lz4", read_zarr), ("Parquet", read_parquet)):
        yield format_name, "merely reading", read
        yield format_name, "calibdask, twelve metrics", panel
        yield format_name, "calibdask, twelve metrics by slice with intervals", panel_slices
    yield "Parquet", "DuckDB, one metric", partial(duckdb_ece, classes=classes)


def race(folder: Path, rows: int, classes: int) -> Table:
    """All of them once, each in a process of its own."""
    paths = {"Zarr, lz4": folder / f"{rows}x{classes}.zarr", "Parquet": folder / f"{rows}x{classes}.parquet"}
    for path, write in zip(paths.values(), (write_zarr, write_parquet), strict=True):
        if not path.exists():
            write(path, rows, classes)
    load = os.getloadavg()[0]
    lines = []
    for format_name, name, call in contestants(classes):
        measured = fresh(call, str(paths[format_name]), twice=False)
        del measured["second_call"]
        measured["ece"] *= "reading" not in name or np.nan
        lines.append({"format": format_name, "what": name, **measured, "ns_a_row": 1e9 * measured["first_call"] / rows})
    sizes = ", ".join(f"{name} {_gigabytes(path):.1f} GB" for name, path in paths.items())
    about = (
        f"{rows:,} rows of {classes} scores of float32, a label and one of {SLICES} slices ({sizes}), {THREADS} "
        "threads, each in a process of its own: elapsed and processor seconds with imports and kernels from disk, peak "
        f"memory. Of slices, the mean of their errors. Load of the machine before: {load:.1f}."
    )
    return Table(about, lines)


def _gigabytes(path: Path) -> float:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e9


def main() -> None:
    """Write the rows, or take those that are there, and measure."""
    parser = argparse.ArgumentParser(prog="python -m experiments.scaling.matrices", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="where files are kept; a temporary one otherwise")
    parser.add_argument("--out", type=Path, default=PAGE)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        table = race(chosen.folder or Path(temporary), chosen.rows, chosen.classes)
    text = markdown({f"{chosen.rows:,} rows x {chosen.classes} classes": table}, surroundings("wall", 1))
    title = "# Many rows of several classes\n\nWritten by `python -m experiments.scaling.matrices`.\n\n"
    chosen.out.write_text(title + text, encoding="utf-8")


if __name__ == "__main__":
    main()
