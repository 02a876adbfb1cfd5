"""A column for each class: one-hot and multilabel labels, logits, lists, names, from every container and file."""

import re
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
import xarray as xr
import zarr

import calibdask as cd
from calibdask.storage import csv_files
from tests.combinations import rotated

ROWS, K = 240, 3
RNG = np.random.default_rng(11)
SCORES = RNG.dirichlet(np.ones(K), ROWS).round(9)
LOGITS = RNG.normal(size=(ROWS, K)).round(9)
CLASSES = RNG.integers(0, K, ROWS)
ONE_HOT = np.eye(K, dtype=np.int64)[CLASSES]
TAGS = (RNG.random((ROWS, K)) < SCORES).astype(np.int64)
COUNTRY = np.array(["de", "fr"])[RNG.integers(0, 2, ROWS)]
NAMES = np.array(["tit", "owl", "auk"])
# In the file the columns of labels and of scores have different orders.
ORDER = [1, 2, 0]
METRICS = {"ece": cd.ECE(), "mass": cd.ECE(binning="equal-mass", bins=5), "brier": cd.BrierScore()}
TABLE = pa.table(
    {f"tag_{NAMES[k]}": TAGS[:, k] for k in ORDER}
    | {f"is_{NAMES[k]}": ONE_HOT[:, k].astype(bool) for k in reversed(range(K))}
    | {f"p_{NAMES[k]}": SCORES[:, k] for k in range(K)}
    | {f"z_{NAMES[k]}": LOGITS[:, k] for k in range(K)}
    | {"name": NAMES[CLASSES], "class": CLASSES, "country": COUNTRY}
)
LISTS = pa.table(
    {
        "score": pa.FixedSizeListArray.from_arrays(SCORES.ravel(), K),
        "logit": pa.array(LOGITS.tolist()),
        "hot": pa.array(ONE_HOT.tolist()),
        "class": CLASSES,
        "country": COUNTRY,
    }
)

# What is said about the columns, and the arrays that it stands for.
READINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one-hot": (
        {"label": "is_*", "score": "p_*", "task": "multiclass"},
        {"y_true": CLASSES, "y_prob": xr.DataArray(SCORES, {"class": NAMES.astype(object)}, ("sample", "class"))},
    ),
    "one-hot, listed": (
        {"label": [f"is_{name}" for name in NAMES], "score": [f"z_{name}" for name in NAMES], "task": "multiclass"}
        | {"logits": True},
        {
            "y_true": CLASSES,
            "y_prob": xr.DataArray(LOGITS, {"class": [f"z_{name}" for name in NAMES]}, ("sample", "class")),
        }
        | {"logits": True},
    ),
    "multilabel": (
        {"label": "tag_*", "score": "p_*", "task": "multilabel"},
        {"y_true": TAGS, "y_prob": SCORES, "task": "multilabel", "labels": NAMES},
    ),
    "multilabel logits": (
        {"label": "tag_*", "score": "z_*", "task": "multilabel", "logits": True},
        {"y_true": TAGS, "y_prob": LOGITS, "task": "multilabel", "logits": True, "labels": NAMES},
    ),
    "names": ({"label": "name", "score": "p_*"}, {"y_true": NAMES[CLASSES], "y_prob": SCORES, "labels": NAMES}),
    "names, one left out": (
        {"label": "name", "score": "z_*", "logits": True, "ignore_label": "owl"},
        {"y_true": CLASSES, "y_prob": xr.DataArray(LOGITS, {"class": NAMES.astype(object)}, ("sample", "class"))}
        | {"logits": True, "ignore_label": 1},
    ),
    "a class": (
        {"label": "name", "score": "p_owl", "pos_label": "owl"},
        {"y_true": CLASSES == 1, "y_prob": SCORES[:, 1]},
    ),
    "a logit": (
        {"label": "name", "score": "z_owl", "pos_label": "owl", "logits": True, "ignore_label": "auk"},
        {"y_true": np.where(CLASSES == 2, 9, CLASSES == 1), "y_prob": LOGITS[:, 1], "logits": True, "ignore_label": 9},
    ),
}


def plain(result: xr.Dataset) -> xr.Dataset:
    # Texts of NumPy and of pandas are the same names.
    names = {name: result[name].astype(object) for name in ("country", "class") if name in result.coords}
    return result.assign_coords(names).drop_attrs()


def numbers(result: xr.Dataset) -> dict[str, Any]:
    return {name: result.attrs.get(name) for name in ("rows", "rows_ignored")}


@pytest.fixture(scope="module")
def expected() -> dict[str, xr.Dataset]:
    by = {"country": COUNTRY}
    return {name: cd.evaluate(metrics=METRICS, by=by, **arrays) for name, (_, arrays) in READINGS.items()}


CONTAINERS: dict[str, Callable[[], Any]] = {
    "pandas": TABLE.to_pandas,
    "pandas of Arrow": lambda: TABLE.to_pandas().convert_dtypes(dtype_backend="pyarrow"),
    "polars lazy": lambda: pl.from_arrow(TABLE).lazy(),  # type: ignore[union-attr]
    "arrow table": lambda: TABLE,
    "function of readers": lambda: lambda: TABLE.to_reader(max_chunksize=50),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "dask frame": lambda: dd.from_pandas(TABLE.to_pandas(), npartitions=3),
    "mapping": lambda: {name: TABLE[name].to_numpy() for name in TABLE.column_names},
    "xarray": lambda: xr.Dataset({n: ("sample", TABLE[n].to_numpy()) for n in TABLE.column_names if n != "class"}),
}


@pytest.mark.filterwarnings("ignore:Several labels:UserWarning")
@pytest.mark.parametrize(("container", "reading"), rotated(CONTAINERS, READINGS, 1))
def test_containers(container: str, reading: str, expected: dict[str, xr.Dataset]) -> None:
    result = cd.evaluate(CONTAINERS[container](), metrics=METRICS, by=["country"], **READINGS[reading][0])
    xr.testing.assert_identical(plain(result), plain(expected[reading]))
    assert numbers(result) == numbers(expected[reading])


WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    ".csv": lambda table, path: pa.csv.write_csv(table, path),
    ".parquet": lambda table, path: pa.parquet.write_table(table, path, row_group_size=50),
    ".feather": lambda table, path: pa.feather.write_feather(table, path, chunksize=50),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    for suffix, write in WRITERS.items():
        write(TABLE, folder / f"rows{suffix}")
    return folder


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", 5000)
    monkeypatch.setattr(csv_files, "_CSV_SAMPLE_BYTES", 1000)


@pytest.mark.filterwarnings("ignore:Several labels:UserWarning")
@pytest.mark.parametrize(("reading", "suffix"), [*zip(READINGS, cycle(WRITERS), strict=False)])
@pytest.mark.usefixtures("small_blocks")
def test_files(suffix: str, reading: str, folder: Path, expected: dict[str, xr.Dataset]) -> None:
    given = dict(READINGS[reading][0])
    columns = {name: given.pop(name) for name in ("label", "score")}
    table = cd.read_rows(str(folder / f"rows{suffix}"), by=["country"], chunk_rows=60, **columns)
    assert hasattr(table.labels, "dask")
    result = cd.evaluate(table.labels, table.scores, METRICS, by=table.by, **given)
    xr.testing.assert_identical(plain(result), plain(expected[reading]))
    assert numbers(result) == numbers(expected[reading])


ARGUMENTS = [
    ("one-hot, listed", ["--label=is_tit", "--label=is_owl", "--label=is_auk", "--score=z_tit,z_owl,z_auk", "--logits",
     "--task=multiclass"]),
    ("multilabel", ["--label", "tag_*", "--score", "p_*", "--task", "multilabel"]),
    ("names", ["--label", "name", "--score", "p_tit,p_owl,p_auk", "--labels", "tit,owl,auk"]),
    ("a logit", ["--label=name", "--score=z_owl", "--pos-label=owl", "--logits", "--ignore-label=auk"]),
]  # fmt: skip


@pytest.mark.parametrize(("reading", "arguments"), ARGUMENTS, ids=[" ".join(words) for _, words in ARGUMENTS])
def test_shell(
    reading: str, arguments: list[str], folder: Path, tmp_path: Path, expected: dict[str, xr.Dataset], run: Any
) -> None:
    out = tmp_path / "result.nc"
    words = ["evaluate", str(folder / "rows.csv"), *arguments, "--by", "country", "--metric", "ece", "--out", str(out)]
    code, _, error = run(*words)
    assert code == 0, error
    with xr.open_dataset(out) as stored:
        assert stored["ece"].values.tolist() == expected[reading]["ece"].values.tolist()


def test_scores_in_another_order_than_their_names(folder: Path) -> None:
    # Sorted by name the labels would be taken for other columns.
    table = cd.read_rows(str(folder / "rows.csv"), label="class", score=["p_owl", "p_auk", "p_tit"])
    names = cd.evaluate(NAMES[CLASSES], SCORES[:, ORDER], METRICS, labels=NAMES[ORDER])
    positions = cd.evaluate(np.argsort(ORDER)[CLASSES], table.scores, METRICS)
    xr.testing.assert_equal(names, positions)
    frame = TABLE.to_pandas().rename(columns={f"p_{name}": name for name in NAMES})
    frame.to_csv(folder / "named.csv", index=False)
    table = cd.read_rows(str(folder / "named.csv"), label="name", score=NAMES[ORDER].tolist())
    xr.testing.assert_equal(cd.evaluate(table.labels, table.scores, METRICS), names.assign_coords())


LIST_CONTAINERS: dict[str, Callable[[], Any]] = {
    "pandas": LISTS.to_pandas,
    "pandas of Arrow": lambda: LISTS.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.from_arrow(LISTS),
    "polars lazy": lambda: pl.from_arrow(LISTS).lazy(),  # type: ignore[union-attr]
    "arrow table": lambda: LISTS,
    "function of readers": lambda: lambda: LISTS.to_reader(max_chunksize=50),
    "duckdb": lambda: duckdb.from_arrow(LISTS),
    "mapping": lambda: {"class": CLASSES, "hot": ONE_HOT, "score": SCORES, "logit": LOGITS, "country": COUNTRY},
}


@pytest.mark.parametrize("container", LIST_CONTAINERS)
def test_lists_in_containers(container: str) -> None:
    given = LIST_CONTAINERS[container]()
    by, one_hot = {"country": COUNTRY}, {"label": "hot", "task": "multiclass"}
    result = cd.evaluate(given, metrics=METRICS, score="score", by=["country"], **one_hot)
    xr.testing.assert_identical(plain(result), plain(cd.evaluate(CLASSES, SCORES, METRICS, by=by)))
    result = cd.evaluate(given, metrics=METRICS, label="class", score="logit", logits=True)
    xr.testing.assert_identical(plain(result), plain(cd.evaluate(CLASSES, LOGITS, METRICS, logits=True)))


@pytest.mark.parametrize(("suffix", "chunk_rows"), [(".parquet", 50), (".feather", None)])
def test_lists_in_files(suffix: str, chunk_rows: int | None, tmp_path: Path) -> None:
    WRITERS[suffix](LISTS, tmp_path / f"rows{suffix}")
    rows = {"url": str(tmp_path / f"rows{suffix}"), "chunk_rows": chunk_rows}
    table = cd.read_rows(label="hot", score="score", **rows)
    result = cd.evaluate(table.labels, table.scores, METRICS, task="multiclass")
    xr.testing.assert_identical(plain(result), plain(cd.evaluate(CLASSES, SCORES, METRICS)))
    table = cd.read_rows(label="class", score="logit", **rows)
    result = cd.evaluate(table.labels, table.scores, METRICS, logits=True)
    xr.testing.assert_identical(plain(result), plain(cd.evaluate(CLASSES, LOGITS, METRICS, logits=True)))


def test_arrays_in_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", labels=ONE_HOT, scores=SCORES)
    group = zarr.open_group(tmp_path / "rows.zarr", mode="w")
    for name, array in {"labels": ONE_HOT, "scores": SCORES}.items():
        group.create_array(name, data=array, chunks=(40, 2))
    dims = ("row", "kind")
    xr.Dataset({"labels": (dims, ONE_HOT), "scores": (dims, SCORES)}).to_netcdf(tmp_path / "rows.nc")
    for suffix in (".npz", ".zarr", ".nc"):
        table = cd.read_rows(str(tmp_path / f"rows{suffix}"))
        for task in ("multiclass", "multilabel"):
            labels = CLASSES if task == "multiclass" else ONE_HOT
            result = cd.evaluate(table.labels, table.scores, METRICS, task=task)
            arrays = cd.evaluate(labels, SCORES, METRICS, task=task)
            xr.testing.assert_identical(plain(result), plain(arrays))


@pytest.mark.parametrize("kind", ["pandas", "polars lazy", "dask frame", "file"])
def test_missing_rows(kind: str, tmp_path: Path) -> None:
    frame = TABLE.to_pandas()
    frame["tag_owl"] = frame.tag_owl.astype(float)
    frame.loc[[3, 7], "tag_owl"] = np.nan
    frame.loc[[7, 100], "p_auk"] = np.nan
    columns: Any = {"label": "tag_*", "score": "p_*", "skip_missing": True}
    if kind == "file":
        frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
        table = cd.read_rows(str(tmp_path / "rows.parquet"), chunk_rows=50, **columns)
        result = cd.evaluate(table, metrics=METRICS, task="multilabel")
    else:
        given = {"pandas": frame, "polars lazy": pl.from_pandas(frame).lazy()}.get(kind)
        given = dd.from_pandas(frame, npartitions=3) if given is None else given
        result = cd.evaluate(given, metrics=METRICS, task="multilabel", **columns)
    # Every class is a problem of its own: what one lacks does not matter to the others.
    assert (result.attrs["cells_skipped"], result.attrs["missing_labels"], result.attrs["missing_scores"]) == (4, 2, 2)
    for name, column, missing in (("owl", 1, [3, 7]), ("auk", 2, [7, 100]), ("tit", 0, [])):
        kept = np.setdiff1d(np.arange(ROWS), missing)
        expected = cd.evaluate(TAGS[kept, column], SCORES[kept, column], METRICS)
        here = result.sel({"class": name})
        assert int(here["rows"]) == len(kept)
        for metric in expected.data_vars:
            np.testing.assert_allclose(here[metric], expected[metric], rtol=1e-12)


def ragged() -> Iterator[pa.RecordBatch]:
    yield from pa.table({"label": [0, 1], "score": [[0.5, 0.5], [1.0, 0.0]]}).to_batches()
    yield from pa.table({"label": [0], "score": [[0.5, 0.25, 0.25]]}).to_batches()


REFUSED: dict[str, tuple[Callable[[], Any], dict[str, Any], str]] = {
    "columns of labels without a task": (
        lambda: lambda: TABLE.to_reader(),
        {"label": "is_*", "score": "p_*"},
        "3 columns of labels are ambiguous; set task='multiclass' if their rows are one-hot; "
        "task='multilabel' if every column is an independent label. At the shell: --task.",
    ),
    "other classes of labels than of scores": (
        lambda: TABLE,
        {"label": "is_*", "score": ["p_tit", "p_owl", "p_auk"]},
        "The frame: the columns of labels stand for 'auk', 'owl', 'tit', the scores for 'p_tit', 'p_owl', 'p_auk'; "
        "give patterns with the same names, such as label='y_*' and score='p_*', or list the columns of both in one "
        "order.",
    ),
    "lists of different lengths in batches": (
        lambda: lambda: pa.RecordBatchReader.from_batches(next(ragged()).schema, ragged()),
        {"label": "label", "score": "score"},
        "A column of lists expects one value for each class in every row, got lists of 2 and of 3.",
    ),
    "lists of a reader that is read once": (
        lambda: pa.Table.from_batches(ragged()).to_reader(),
        {"label": "label", "score": "score"},
        "Column 'score' holds lists of undeclared length, and this reader can be read only once: cast it to a "
        "list of fixed size, or give a function that returns a new reader, or a table.",
    ),
    "too few columns of labels": (
        lambda: lambda: TABLE.to_reader(),
        {"label": ["is_tit", "is_owl"], "score": "p_*", "task": "multiclass"},
        "task='multiclass' expects a column of labels for each of the 3 columns of scores, in their order, got 2.",
    ),
    "multiclass with one column of scores": (
        lambda: pl.from_arrow(TABLE).lazy(),  # type: ignore[union-attr]
        {"label": "class", "score": "p_owl", "task": "multiclass"},
        "task='multiclass' expects a column of scores for each class, got 1.",
    ),
    "two ones in a row": (
        lambda: lambda: TABLE.to_reader(50),
        {"label": ["tag_tit", "tag_owl", "tag_auk"], "score": ["p_tit", "p_owl", "p_auk"], "task": "multiclass"},
        "with 0 ones",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        cd.evaluate(make(), metrics=METRICS, **options)
