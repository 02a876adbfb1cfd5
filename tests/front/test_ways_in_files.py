"""Ways in: every container of columns and every file gives the numbers of the NumPy arrays, to the last bit."""

import bz2
import decimal
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import deltalake
import duckdb
import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest
import xarray as xr

import calibdask as cd
from calibdask.storage import csv_files
from tests.cli.sample_rows import Run

ROWS = 300
RNG = np.random.default_rng(3)
SCORES = RNG.random(ROWS).round(6)
LABELS = (RNG.random(ROWS) < SCORES).astype(np.int64)
COUNTRY = np.array(["de", "fr", "it"])[RNG.integers(0, 3, ROWS)]
DAY = np.sort(RNG.integers(1, 4, ROWS))
MATRIX = RNG.dirichlet(np.ones(3), ROWS)
CLASSES = RNG.integers(0, 3, ROWS)
METRICS = {"ece": cd.ECE(), "mass": cd.ECE(binning="equal-mass", bins=7), "brier": cd.BrierScore()}
TABLE = pa.table(
    {"y": LABELS, "p": SCORES, "country": COUNTRY, "day": DAY, "c": CLASSES} | {f"q{k}": MATRIX[:, k] for k in range(3)}
)
FRAME = TABLE.to_pandas()
TEXTS = np.array([f'said "{word}",\nthen left' if row % 7 == 0 else word for row, word in enumerate(COUNTRY)])


def plain(result: xr.Dataset) -> xr.Dataset:
    # Texts of NumPy and of pandas are the same names.
    names = {"country": result["country"].astype(object)} if "country" in result.coords else {}
    return result.assign_coords(names).drop_attrs()


@pytest.fixture(scope="module")
def expected() -> xr.Dataset:
    return plain(cd.evaluate(LABELS, SCORES, METRICS, by={"country": COUNTRY}))


CONTAINERS: dict[str, Callable[[], Any]] = {
    "pandas": lambda: FRAME,
    "pandas of Arrow": lambda: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "pandas nullable": lambda: FRAME.convert_dtypes(),
    "polars": lambda: pl.from_arrow(TABLE),
    "polars lazy": lambda: pl.from_arrow(TABLE).lazy(),  # type: ignore[union-attr]
    "arrow table": lambda: TABLE,
    "arrow batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "arrow dataset": lambda: pyarrow.dataset.dataset(TABLE),
    "function of readers": lambda: lambda: TABLE.to_reader(max_chunksize=50),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "duckdb query": lambda: duckdb.from_arrow(TABLE).filter("p >= 0"),
    "dask frame": lambda: dd.from_pandas(FRAME, npartitions=4),
    "dask frame of Arrow": lambda: dd.from_pandas(FRAME.convert_dtypes(dtype_backend="pyarrow"), npartitions=4),
    "mapping": lambda: {name: FRAME[name].to_numpy() for name in FRAME},
    "xarray": lambda: xr.Dataset({name: ("sample", FRAME[name].to_numpy()) for name in FRAME}),
    "any stream of Arrow": lambda: Stream(TABLE),
}


class Stream:
    """Nothing but the protocol."""

    def __init__(self, table: Any) -> None:
        self.table, self.schema = table, None

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_containers(container: Callable[[], Any], expected: xr.Dataset) -> None:
    result = cd.evaluate(container(), metrics=METRICS, label="y", score="p", by=["country"])
    xr.testing.assert_identical(plain(result), expected)


@pytest.mark.parametrize("name", ["polars lazy", "function of readers", "dask frame"])
def test_weights_and_slices_by_other_names(name: str) -> None:
    options: Any = {"label": "y", "score": "p", "by": {"land": "country"}, "sample_weight": "day"}
    found = cd.evaluate(CONTAINERS[name](), metrics=METRICS, **options)
    arrays = cd.evaluate(LABELS, SCORES, METRICS, by={"land": COUNTRY}, sample_weight=DAY)
    # Sums of weights depend on the order of rows.
    xr.testing.assert_allclose(found.assign_coords(land=arrays.land), arrays, rtol=1e-12)


def test_fields_without_names_given() -> None:
    columns = {"label": LABELS, "score": SCORES, "country": COUNTRY}
    expected = cd.ece(LABELS, SCORES)
    assert cd.ece(columns) == expected
    assert cd.ece({name: column.tolist() for name, column in columns.items()}) == expected
    assert cd.ece(np.rec.fromarrays([*columns.values()], names=[*columns])) == expected
    assert cd.ece(xr.Dataset({name: ("sample", column) for name, column in columns.items()})) == expected
    assert cd.ece({"label": CLASSES, "score": MATRIX}) == cd.ece(CLASSES, MATRIX)


def typed(**columns: Any) -> pa.Table:
    table = TABLE
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


TYPES = {
    "decimals": typed(p=pa.array([decimal.Decimal(f"{score:.6f}") for score in SCORES], pa.decimal128(9, 6))),
    "booleans": typed(y=pa.array(LABELS.astype(bool))),
    "dictionaries": typed(country=pa.array(COUNTRY).dictionary_encode()),
    "small integers": typed(y=pa.array(LABELS.astype(np.uint8))),
    "views": typed(country=pa.array(COUNTRY.tolist(), pa.string_view())),
}


@pytest.mark.parametrize("table", TYPES.values(), ids=TYPES)
def test_types(table: pa.Table, tmp_path: Path, expected: xr.Dataset) -> None:
    pa.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    for given in (table, lambda: table.to_reader(90), pl.from_arrow(table).lazy()):  # type: ignore[union-attr]
        result = cd.evaluate(given, metrics=METRICS, label="y", score="p", by=["country"])
        xr.testing.assert_identical(plain(result), expected)
    check_file(tmp_path / "rows.parquet", expected)


def check_file(url: Any, expected: xr.Dataset, **options: Any) -> None:
    table = cd.read_rows(str(url), **{"label": "y", "score": "p", "by": ["country"]} | options)
    result = cd.evaluate(table.labels, table.scores, METRICS, by=table.by)
    xr.testing.assert_identical(plain(result), expected)


def parts(folder: Path, write: Callable[[pa.Table, Path], object], suffix: str) -> Path:
    folder.mkdir()
    for number in range(3):
        write(TABLE.slice(number * 100, 100), folder / f"part{number}{suffix}")
    return folder


def partitioned(folder: Path, write: Callable[[pa.Table, Path], object], suffix: str) -> Path:
    for day in (1, 2, 3):
        (folder / f"day={day}").mkdir(parents=True)
        rows = TABLE.filter(pa.compute.equal(TABLE["day"], day)).drop_columns(["day"])
        write(rows, folder / f"day={day}" / f"rows{suffix}")
    return folder


def to_csv(table: pa.Table, path: Path) -> None:
    pa.csv.write_csv(table, path)


def to_parquet(table: pa.Table, path: Path) -> None:
    pa.parquet.write_table(table, path, row_group_size=40)


def to_feather(table: pa.Table, path: Path) -> None:
    pa.feather.write_feather(table, path, chunksize=40)


def to_ipc_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=70)


def compressed(compress: Callable[[bytes], bytes]) -> Callable[[pa.Table, Path], object]:
    return lambda table, path: path.write_bytes(compress(table.to_pandas().to_csv(index=False).encode()))


def separated(sign: str) -> Callable[[pa.Table, Path], object]:
    return lambda table, path: table.to_pandas().to_csv(path, index=False, sep=sign)


def zstandard(table: pa.Table, path: Path) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(table.to_pandas().to_csv(index=False).encode())


FILES: list[tuple[str, Callable[[pa.Table, Path], object]]] = [
    (".parquet", to_parquet),
    (".pq", to_parquet),
    (".csv", to_csv),
    (".tsv", separated("\t")),
    (";.csv", separated(";")),
    (".csv.gz", compressed(gzip.compress)),
    (".csv.bz2", compressed(bz2.compress)),
    (".csv.xz", compressed(lzma.compress)),
    (".csv.zst", zstandard),
    (".feather", to_feather),
    (".arrow", to_ipc_stream),
]


@pytest.mark.parametrize(("suffix", "write"), FILES, ids=[suffix for suffix, _ in FILES])
def test_files_folders_and_patterns(
    suffix: str, write: Callable[[pa.Table, Path], object], tmp_path: Path, expected: xr.Dataset
) -> None:
    write(TABLE, tmp_path / f"rows{suffix}")
    check_file(tmp_path / f"rows{suffix}", expected)
    folder = parts(tmp_path / "parts", write, suffix)
    check_file(folder, expected)
    check_file(folder / f"part*{suffix}", expected)
    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/ways", recursive=True)
    try:
        check_file(f"memory://ways/part?{suffix}", expected)
        check_file("memory://ways", expected)
    finally:
        memory.rm("/ways", recursive=True)


@pytest.mark.parametrize(("suffix", "write"), [(".parquet", to_parquet), (".csv", to_csv), (".feather", to_feather)])
def test_partitions_are_columns(suffix: str, write: Any, tmp_path: Path) -> None:
    folder = partitioned(tmp_path / "rows", write, suffix)
    expected = cd.evaluate(LABELS, SCORES, METRICS, by={"day": DAY})
    for url in (folder, f"{folder}/day=*/*{suffix}"):
        table = cd.read_rows(str(url), label="y", score="p", by=["day"])
        result = cd.evaluate(table.labels, table.scores, METRICS, by=table.by)
        xr.testing.assert_equal(result, expected)


def test_delta(tmp_path: Path, expected: xr.Dataset) -> None:
    deltalake.write_deltalake(tmp_path / "rows", TABLE.slice(0, 200))
    deltalake.write_deltalake(tmp_path / "rows", TABLE.slice(200), mode="append")
    table = cd.read_rows(str(tmp_path / "rows"), label="y", score="p")
    assert cd.ece(table.labels, table.scores) == cd.ece(LABELS, SCORES)
    # Files of earlier versions are still there, and not read.
    deltalake.write_deltalake(tmp_path / "rows", TABLE, mode="overwrite")
    check_file(tmp_path / "rows", expected)


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("block", [None, 2000])
def test_line_breaks_inside_quotation_marks(
    block: int | None, separator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: xr.Dataset
) -> None:
    if block:
        monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", block)
        monkeypatch.setattr(csv_files, "_CSV_SAMPLE_BYTES", 500)
    frame = FRAME.assign(text=TEXTS)[["text", "y", "p", "country"]]
    frame.to_csv(tmp_path / "rows.csv", index=False, sep=separator)
    check_file(tmp_path / "rows.csv", expected)
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "rows.csv"), "/quoted/rows.csv")
    try:
        check_file("memory://quoted/rows.csv", expected)
        table = cd.read_rows("memory://quoted/rows.csv", label="y", score="p", by=["text"])
        texts = table.by["text"].compute() if block else table.by["text"]
        assert texts.tolist() == TEXTS.tolist()
    finally:
        memory.rm("/quoted", recursive=True)


MISSING = FRAME.astype({"y": float, "p": float}).assign(country=COUNTRY)
MISSING.loc[[5, 17], "y"] = np.nan
MISSING.loc[[17, 200], "p"] = np.nan
LEFT = MISSING.dropna()


@pytest.fixture(scope="module")
def left_over() -> xr.Dataset:
    return plain(cd.evaluate(LEFT.y.to_numpy(), LEFT.p.to_numpy(), METRICS, by={"country": LEFT.country.to_numpy()}))


@pytest.mark.parametrize("chunks", [300, 77])
def test_slices_in_other_chunks_than_missing_rows(chunks: int, left_over: xr.Dataset) -> None:
    labels, scores = (da.from_array(MISSING[name].to_numpy(), chunks=50) for name in ("y", "p"))
    by = {"country": da.from_array(COUNTRY.astype(object), chunks=chunks)}
    result = cd.evaluate(labels, scores, METRICS, by=by, skip_missing=True)
    xr.testing.assert_identical(plain(result), left_over)


COMMON = [("target", "prob"), ("Label", "P")]


@pytest.mark.parametrize(("label", "score"), COMMON)
def test_common_names(label: str, score: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({label: LABELS, score: SCORES, "age": DAY})
    frame.to_parquet(tmp_path / "rows.parquet")
    said = rf"labels from '{label}' and scores from '{score}'"
    with pytest.warns(UserWarning, match=said):
        result = cd.evaluate(frame, metrics=cd.ECE())
    assert label in result.attrs["guessed_columns"]
    assert result.ece.item() == cd.ece(LABELS, SCORES)
    with pytest.warns(UserWarning, match=said):
        table = cd.read_rows(str(tmp_path / "rows.parquet"))
    assert cd.ece(table.labels, table.scores) == cd.ece(LABELS, SCORES)


@pytest.mark.parametrize("role", ["label", "score"])
def test_a_column_may_be_a_slice_too(role: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"label": LABELS, "score": SCORES.round(1)})
    frame.to_parquet(tmp_path / "rows.parquet")
    np.savez(tmp_path / "rows.npz", labels=frame["label"], scores=frame["score"])
    expected = cd.evaluate(frame["label"], frame["score"], cd.ECE(), by={role: frame[role]}).ece.values
    for given, by in ((frame, role), (tmp_path / "rows.parquet", role), (tmp_path / "rows.npz", f"{role}s")):
        np.testing.assert_array_equal(cd.evaluate(given, metrics=cd.ECE(), by=by).ece.values, expected)
    # Another column that has the usual name goes before.
    with pytest.warns(UserWarning, match=f"{role}s from '{'target' if role == 'label' else 'prob'}'"):
        cd.evaluate(frame.assign(target=LABELS, prob=SCORES), metrics=cd.ECE(), by=["label", "score"])


# A code that is a number in the first rows, and a text in the last ones; and how its values are written.
CODES = [*range(3), 4, 1.25, "b", None] * 20
WRITTEN = ["missing" if code is None else str(code) for code in CODES]


def write_codes(kind: str, folder: Path) -> str:
    """The rows of a column of several types, and what they are called."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"label": rng.integers(0, 2, len(CODES)), "score": rng.random(len(CODES))})
    rows = [{**row, "code": code} for row, code in zip(frame.to_dict("records"), CODES, strict=True)]
    if kind == ".jsonl":
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    elif kind == ".csv":
        frame.assign(code=pd.Series(CODES, dtype=object)).to_csv(folder / "rows.csv", index=False)
    else:
        numbers = [isinstance(row["code"], int) for row in rows]
        for name, kept in {"0": numbers, "1": [not is_number for is_number in numbers]}.items():
            part = frame.assign(code=WRITTEN)[kept]
            part = part.assign(code=part.code.astype(int) if name == "0" else part.code.replace("missing", None))
            (folder / "rows").mkdir(exist_ok=True)
            writer = part.to_feather if kind == ".feather" else part.to_parquet
            writer(folder / f"rows/{name}{kind}")
        return str(folder / "rows")
    return str(folder / f"rows{kind}")


@pytest.mark.parametrize("kind", [".csv", ".jsonl", ".parquet", ".feather"])
def test_columns_that_are_kept_as_text(kind: str, run: Run, tmp_path: Path) -> None:
    path = write_codes(kind, tmp_path)
    rows = cd.evaluate(cd.read_rows(path, by=["code"], text=["code"]), metrics="ece").rows
    expected = {text: WRITTEN.count(text) for text in sorted(set(WRITTEN))}
    assert dict(zip(rows.code.values.tolist(), rows.values.tolist(), strict=True)) == expected
    status, out, err = run("evaluate", path, "--by", "code", "--text", "code", "--metric", "ece", "--json")
    assert status == 0, err
    assert {one["by"]["code"]: one["rows"] for one in json.loads(out)["slices"]} == expected
    if kind != ".csv":
        for command in ("evaluate", "summarize"):
            status, _, err = run(command, path, "--by", "code", "--out", tmp_path / "out.zarr")
            assert (status, "keep the column as text: --text code" in err) == (2, True), err
        with pytest.raises(ValueError, match=r"--text code, in Python read_rows\(url, text=\['code'\]\)"):
            cd.read_rows(path, by=["code"])


def test_columns_to_keep_as_text_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no column 'zip'"):
        cd.read_rows(write_codes(".csv", tmp_path), text=["zip"])
    np.savez(tmp_path / "rows.npz", labels=[0, 1], scores=[0.1, 0.9])
    with pytest.raises(ValueError, match="text expects columns of a file"):
        cd.read_rows(tmp_path / "rows.npz", text=["zip"])
