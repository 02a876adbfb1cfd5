"""Absurd sizes, and files that are none: what is made, and what is said of it."""

import json
import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import zarr

import calibdask as cd

ROWS = 60
LABELS, SCORES = np.arange(ROWS) % 2, np.linspace(0.02, 0.98, ROWS)
ECE = ["--metric", "ece"]
MANY = 10**9

# The arguments of a command, made in a folder, and what it must say.
Case = tuple[Callable[[Path], list[str]], str]


def declared(path: Path, rows: int, chunk: int) -> str:
    """A store of Zarr with metadata and no values."""
    group = zarr.open_group(path, mode="w")
    group.create_array("labels", shape=(rows,), chunks=(chunk,), dtype="i1")
    group.create_array("scores", shape=(rows,), chunks=(chunk,), dtype="f8")
    return str(path)


def declared_netcdf(path: Path, rows: int, chunk: int | None) -> str:
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"row": rows}
        for name, kind in (("labels", "i1"), ("scores", "f8")):
            file.create_variable(name, ("row",), kind, chunks=None if chunk is None else (chunk,))
    return str(path)


def declared_npz(path: Path, rows: int) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, kind in (("labels", "|i1"), ("scores", "<f8")):
            with archive.open(f"{name}.npy", "w") as member:
                header = {"descr": kind, "fortran_order": False, "shape": (rows,)}
                np.lib.format.write_array_header_2_0(member, header)  # type: ignore[arg-type]
    return str(path)


def columns(path: Path, **more: Any) -> str:
    table = pa.table({"label": LABELS, "score": SCORES, **more})
    if path.suffix == ".arrow":
        pyarrow.feather.write_feather(table, path)
    else:
        pyarrow.parquet.write_table(table, path)
    return str(path)


def arrays(path: Path, **more: Any) -> str:
    given = {"labels": LABELS, "scores": SCORES, **more}
    if path.suffix == ".npz":
        np.savez(path, **given)
        return str(path)
    group = zarr.open_group(path, mode="w")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, values in given.items():
            group.create_array(name, data=values)
    return str(path)


def identifiers(path: Path, number: int) -> str:
    ids = np.arange(2 * number) % number
    pd.DataFrame({"label": ids % 2, "score": (ids % 97) / 97, "id": ids}).to_parquet(path)
    return str(path)


def pipe(path: Path) -> str:
    os.mkfifo(path)
    return str(path)


def pipe_among_files(folder: Path) -> str:
    (folder / "parts").mkdir()
    pd.DataFrame({"label": LABELS, "score": SCORES}).to_csv(folder / "parts" / "a.csv", index=False)
    pipe(folder / "parts" / "b.csv")
    return str(folder / "parts")


DEEP = "[" * 10**5 + "]" * 10**5


def nested(path: Path, attributes: str) -> str:
    path.mkdir()
    (path / "zarr.json").write_text(f'{{"zarr_format": 3, "node_type": "group", "attributes": {attributes}}}')
    return str(path)


def linked(path: Path, kind: str) -> str:
    """A netCDF file whose scores are in another file, or under another name in this one."""
    elsewhere = path.with_name("elsewhere.h5")
    with h5py.File(elsewhere, "w") as file:
        file["scores"] = SCORES
    SCORES.tofile(path.with_name("raw.bin"))
    with h5py.File(path, "w") as file:
        file["labels"] = LABELS
        file["labels"].make_scale("row")
        file["own"] = SCORES
        match kind:
            case "link":
                file["scores"] = h5py.ExternalLink(str(elsewhere), "/scores")
            case "virtual":
                layout = h5py.VirtualLayout((ROWS,), "f8")
                layout[:] = h5py.VirtualSource(str(elsewhere), "scores", (ROWS,))
                file.create_virtual_dataset("scores", layout)
            case "raw":
                place = (str(path.with_name("raw.bin")), 0, SCORES.nbytes)
                file.create_dataset("scores", (ROWS,), "f8", external=[place])
            case "group":
                file["more"] = h5py.ExternalLink(str(elsewhere), "/")
                file["scores"] = SCORES
            case "soft":
                file["scores"] = h5py.SoftLink("/own")
        for name in ("own", *(("scores",) if kind in ("virtual", "raw", "group") else ())):
            file[name].dims[0].attach_scale(file["labels"])
    return str(path)


TOO_MANY_ROWS = r"declares 1,000,000,000,000(,000)? rows, and at most 100,000,000,000 are read"
NO_FILE = "is a pipe, a socket or a device; copy its contents to a file first"
ELSEWHERE = "is a link to another file; copy its numbers into this one"
NOT_ORDERED = "expects numbers, texts or dates"
STRUCTS, LISTS = [{"a": 1}] * ROWS, [[1, 2]] * ROWS
MAPS = pa.array([[("k", 1)]] * ROWS, pa.map_(pa.string(), pa.int64()))
RECORDS = np.zeros(ROWS, [("a", "f8"), ("b", "i4")])


def _metric(text: str, message: str) -> Case:
    return lambda p: ["evaluate", columns(p / "a.parquet"), "--metric", text], message


CASES: dict[str, Case] = {
    **{
        f"Zarr of 10^{digits} rows in chunks of {chunk}": (
            lambda p, digits=digits, chunk=chunk: ["evaluate", declared(p / "a.zarr", 10**digits, chunk), *ECE],
            TOO_MANY_ROWS,
        )
        for digits, chunk in ((12, 10**9), (15, 1000))
    },
    "report on 10^15 rows": (
        lambda p: ["report", declared(p / "a.zarr", 10**15, 10**6), "--out", str(p / "o.html")],
        TOO_MANY_ROWS,
    ),
    "chunks that no machine holds": (
        lambda p: ["evaluate", declared(p / "a.zarr", 10**10, 10**10), *ECE],
        r"array 'labels' is stored in chunks of 10\.0 GB, and at most 4\.3 GB are held in memory",
    ),
    **{
        f"netCDF of 10^{digits} rows, chunks {chunk}": (
            lambda p, digits=digits, chunk=chunk: ["evaluate", declared_netcdf(p / "a.nc", 10**digits, chunk), *ECE],
            TOO_MANY_ROWS,
        )
        for digits, chunk in ((12, None), (15, 1 << 20))
    },
    **{
        f"archive of 10^{digits} rows": (
            lambda p, digits=digits: ["evaluate", declared_npz(p / "a.npz", 10**digits), *ECE],
            "cannot be read as a NumPy archive: (EOF|Unable to allocate)",
        )
        for digits in (10, 18)
    },
    "10^5 slices in a summary with clusters": (
        lambda p: [
            "summarize",
            identifiers(p / "a.parquet", 10**5),
            "--by",
            "id",
            "--groups",
            "id",
            "--out",
            str(p / "o.zarr"),
        ],
        r"100,000 slices with 64 buckets of clusters expect about .* GB are free: pass fewer buckets \(--buckets 16\)",
    ),
    "10^5 slices in a report": (
        lambda p: ["report", identifiers(p / "a.parquet", 10**5), "--by", "id", "--out", str(p / "o.html")],
        r"100,000 slices, 2 classes expect .* GB of memory .* at most 4\.3 GB are allowed: use fewer slices",
    ),
    "replicates": (
        lambda p: ["evaluate", columns(p / "a.parquet"), "--ci", "0.9", "--n-boot", str(MANY), *ECE],
        "n-boot expects a whole number from 2 to 1,000,000, got 1000000000",
    ),
    "bins": _metric(f"ece(bins={MANY})", "bins expects a positive whole number up to 16,777,216"),
    "resamples": _metric(f"consistency-test(resamples={MANY})", "resamples expects a whole number from 1 to 1,000,000"),
    "cells of a grid": _metric("density-ece(step=1e-12)", "step expects a number from 1e-6 to 0.01"),
    "largest scores": (
        lambda p: ["evaluate", columns(p / "a.parquet"), "--setting", "top-k", "--k", str(MANY), *ECE],
        r"expects k from 1 to the number of classes \(2\), got k=1000000000",
    ),
    **{
        f"pipe{suffix}": (lambda p, suffix=suffix: ["evaluate", pipe(p / f"a{suffix}")], NO_FILE)
        for suffix in (".csv", ".csv.gz", ".parquet", ".npz", ".nc", ".arrow", ".zarr", "")
    },
    "pipe among files": (lambda p: ["evaluate", pipe_among_files(p)], f"b.csv {NO_FILE}"),
    "pipe for a study": (lambda p: ["run", pipe(p / "study.py"), "--store", str(p / "o.zarr")], "Expected a folder"),
    "device": (lambda _: ["evaluate", "/dev/zero"], NO_FILE),
    "nested attributes": (lambda p: ["evaluate", nested(p / "a.zarr", f'{{"a": {DEEP}}}')], "maximum recursion depth"),
    **{
        f"nested fingerprint: {command}": (
            lambda p, command=command, more=more: [
                *[command, nested(p / "a.zarr", json.dumps({"calibdask_study": DEEP}))],
                *[word.format(p) for word in more],
            ],
            "cannot be read as the cube of a study: maximum recursion depth",
        )
        for command, more in {
            "status": (),
            "evaluate": (),
            "report": ("--out", "{}/o.html"),
            "explore": ("--no-browser",),
        }.items()
    },
    **{
        f"{kind} as slices in {suffix}": (
            lambda p, values=values, suffix=suffix: ["evaluate", columns(p / f"a{suffix}", s=values), "--by", "s"],
            f"column 's' {NOT_ORDERED}, got {name}<",
        )
        for suffix, kind, values, name in (
            (".parquet", "structs", STRUCTS, "struct"),
            (".arrow", "lists", LISTS, "list"),
            (".parquet", "maps", MAPS, "map"),
        )
    },
    **{
        f"structs as {name} in {suffix}": (
            lambda p, name=name, suffix=suffix: ["evaluate", columns(p / f"a{suffix}", **{name: STRUCTS})],
            f"column '{name}' expects numbers",
        )
        for suffix, name in ((".parquet", "label"), (".arrow", "score"))
    },
    **{
        f"records as slices in {suffix}": (
            lambda p, suffix=suffix: ["evaluate", arrays(p / f"a{suffix}", s=RECORDS), "--by", "s"],
            f"by 's' {NOT_ORDERED}, got records",
        )
        for suffix in (".npz", ".zarr")
    },
    "bytes without a type as slices": (
        lambda p: ["evaluate", arrays(p / "a.npz", s=np.zeros(ROWS, "V3")), "--by", "s"],
        f"by 's' {NOT_ORDERED}, got records",
    ),
    "records as labels": (lambda p: ["evaluate", arrays(p / "a.npz", labels=RECORDS)], "expects the class numbers 0"),
    "records as scores": (lambda p: ["evaluate", arrays(p / "a.npz", scores=RECORDS)], "y_prob expects real numbers"),
    **{
        f"{kind} of netCDF": (lambda p, kind=kind: ["evaluate", linked(p / "a.nc", kind)], ELSEWHERE)
        for kind in ("link", "virtual", "raw", "group")
    },
}


def _by(values: Any) -> Any:
    return cd.evaluate(LABELS, SCORES, cd.ECE(), by={"s": values})


def objects(values: list[Any]) -> np.ndarray:
    made = np.empty(len(values), object)
    made[:] = values
    return made


# In Python: slices of objects that have no order, and sizes.
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    **{
        f"{kind} as slices": (lambda values=values: _by(objects(values)), f"by 's' {NOT_ORDERED}")
        for kind, values in {
            "mappings": STRUCTS,
            "lists": LISTS,
            "pairs": [(1, 2)] * ROWS,
            "arrays": [np.arange(2)] * ROWS,
            "numbers and texts": [1, "a"] * (ROWS // 2),
        }.items()
    },
    "records as slices": (lambda: _by(RECORDS), f"by 's' {NOT_ORDERED}, got records"),
    "slices of several dimensions": (
        lambda: cd.summarize(np.arange(4000) % 2, np.full(4000, 0.5), by={"a": np.arange(4000), "b": np.arange(4000)}),
        r"by expects at most 1000000 slices, got 16000000",
    ),
}
