"""Several models: columns of one file, or files joined on a key; every command measures them on the same rows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
import xarray as xr

import calibdask as cd
from tests.cli.sample_rows import Run
from tests.combinations import pairwise

pytestmark = pytest.mark.usefixtures("without_recalibration")

ROWS = 300
RNG = np.random.default_rng(11)
NEW = RNG.random(ROWS).round(6)
OLD = np.sqrt(NEW).round(6)
FRAME = pd.DataFrame(
    {
        "id": [f"{number:04d}" for number in range(ROWS)],
        "label": (RNG.random(ROWS) < NEW).astype(float),
        "old": OLD,
        "new": NEW,
        "country": np.array(["de", "fr"])[RNG.integers(0, 2, ROWS)],
        "w": RNG.integers(1, 5, ROWS).astype(float),
    }
)
FRAME.loc[[3, 40], "old"] = np.nan
FRAME.loc[[40, 41, 250], "new"] = np.nan
FRAME.loc[[7], "label"] = np.nan
FRAME.loc[[100], "w"] = np.nan
COLUMNS = ("--score", "old=old", "--score", "new=new")
WRITERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".parquet": lambda frame, path: frame.to_parquet(path, row_group_size=70),
    ".jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True, double_precision=15),
}


def python(frame: pd.DataFrame, **options: Any) -> Any:
    return cd.evaluate(
        frame, metrics="brier", label="label", score={"old": "old", "new": "new"}, skip_missing=True, **options
    )


def numbers(result: dict[str, Any]) -> dict[tuple[Any, ...], tuple[int, float]]:
    return {
        tuple(one["by"].values()): (one["rows"], one["metrics"]["brier_score"]["value"]) for one in result["slices"]
    }


def places(form: str, suffix: str, folder: Path, frame: pd.DataFrame = FRAME) -> list[Any]:
    """The words that name the models: columns of one file, or two files in different orders."""
    if form == "columns":
        WRITERS[suffix](frame, folder / f"rows{suffix}")
        return [folder / f"rows{suffix}", *COLUMNS]
    for number, name in enumerate(("old", "new")):
        own = frame.drop(columns={"old": "new", "new": "old"}[name]).rename(columns={name: "score"})
        WRITERS[suffix](own.sample(frac=1, random_state=number), folder / f"{name}{suffix}")
    return [folder / f"old{suffix}", folder / f"new{suffix}", "--key", "id"]


@pytest.mark.parametrize(
    ("form", "suffix", "weighted", "by"), pairwise(["columns", "files"], WRITERS, [False, True], [(), ("country",)])
)
def test_evaluate(form: str, suffix: str, weighted: bool, by: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    words = places(form, suffix, tmp_path)
    words += ["--skip-missing", *(word for name in by for word in ("--by", name)), *["--weight", "w"] * weighted]
    status, out, err = run("evaluate", *words, "--metric", "brier", "--json")
    assert status == 0, err
    expected = python(FRAME, by=list(by) or None, sample_weight="w" if weighted else None)
    kept = ROWS - 5 - weighted
    assert f"left out {5 + weighted} of {ROWS} rows with missing values (label 1, score " in err
    assert (json.loads(out)["rows"], expected.attrs["rows"]) == (kept, kept)
    found = numbers(json.loads(out))
    assert len(found) == expected.brier_score.size
    for (model, *labels), (_, value) in found.items():
        one = expected.brier_score.sel({"model": model, **dict(zip(by, labels, strict=True))})
        assert value == pytest.approx(one.item(), rel=1e-12)


def test_other_commands_keep_the_same_rows(run: Run, tmp_path: Path) -> None:
    words = [*places("files", ".parquet", tmp_path), "--skip-missing"]
    kept = FRAME.dropna(subset=["label", "old", "new"])
    status, out, err = run("compare", *words, "--metric", "brier", "--n-boot", 20, "--json")
    assert status == 0, err
    assert json.loads(out)["rows"] == len(kept)
    status, out, err = run("summarize", *words, "--out", tmp_path / "summary.zarr")
    assert status == 0, err
    assert f"2 models, {len(kept)} rows" in out
    status, _, err = run("report", *words, "--n-boot", 20, "--out", tmp_path / "page.html")
    assert status == 0, err
    assert err.count(f"left out {ROWS - len(kept)} of {ROWS} rows") == 2
    own, baseline = [words[0], *words[2:]], ["--baseline", words[1]]
    columns = places("columns", ".parquet", tmp_path)
    for given in ([*own, *baseline], [*columns, "--skip-missing", "--baseline", "old"]):
        status, _, err = run("check", *given, "--not-worse", "brier=0.5", "--n-boot", 20)
        assert status == 0, err


def test_scores_that_are_whole_numbers(run: Run, tmp_path: Path) -> None:
    """Hard predictions of one model, and missing scores of the other."""
    frame = FRAME.dropna().assign(new=lambda rows: (rows.new > 0.5).astype(int))
    frame.loc[frame.index[:9], "old"] = np.nan
    words = places("columns", ".parquet", tmp_path, frame)
    status, out, err = run("evaluate", *words, "--skip-missing", "--metric", "brier", "--json")
    assert status == 0, err
    kept = frame.dropna()
    assert numbers(json.loads(out)) == {
        (name,): (len(kept), pytest.approx(float(np.mean((kept.label - kept[name]) ** 2)))) for name in ("old", "new")
    }


def test_a_key_of_one_file(run: Run, tmp_path: Path) -> None:
    FRAME.dropna().to_parquet(tmp_path / "rows.parquet")
    gate, out = ("--limit", "brier=0.9", "--score", "new"), ("--out", tmp_path / "out.zarr", "--score", "new")
    for command, words in {"compare": COLUMNS, "check": gate, "summarize": out}.items():
        status, _, err = run(command, tmp_path / "rows.parquet", *words, "--key", "id")
        assert (status, "--key has no effect " in err) == (2, True), err


def test_a_key_of_a_summary(run: Run, tmp_path: Path) -> None:
    words = places("files", ".parquet", tmp_path, FRAME.dropna())
    assert run("summarize", *words, "--out", tmp_path / "both.zarr")[0] == 0
    status, _, err = run("evaluate", tmp_path / "both.zarr", words[0], "--key", "id")
    assert status == 2
    assert "is already a stored summary" in err


CONTAINERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "mapping": lambda frame: {name: frame[name].to_numpy() for name in frame},
    "lists of dicts": lambda frame: frame.to_dict("records"),
    "polars": pl.from_pandas,
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame: pa.Table.from_pandas(frame),
    "arrow dataset": lambda frame: pyarrow.dataset.dataset(pa.Table.from_pandas(frame)),
    "readers": lambda frame: lambda: pa.Table.from_pandas(frame).to_reader(70),
    "duckdb": lambda frame: duckdb.from_arrow(pa.Table.from_pandas(frame)),
    "dask frame": lambda frame: dd.from_pandas(frame, npartitions=3),
    "xarray": lambda frame: xr.Dataset({name: ("sample", frame[name].to_numpy()) for name in frame}),
}
WITHOUT = FRAME.assign(id=FRAME["id"].astype(object), country=FRAME["country"].astype(object))
METRICS = {"brier": cd.BrierScore(), "ece": cd.ECE(), "mass": cd.ECE(binning="equal-mass", bins=5)}


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers(container: str) -> None:
    frame = WITHOUT
    options: Any = {"label": "label", "score": {"old": "old", "new": "new"}, "skip_missing": True}
    result = cd.evaluate(CONTAINERS[container](frame), metrics=METRICS, by=["country"], **options)
    kept = frame.dropna(subset=["label", "old", "new"])
    models = {name: kept[name].to_numpy() for name in ("old", "new")}
    expected = cd.evaluate(kept["label"].to_numpy(), models, METRICS, by={"country": kept["country"].to_numpy()})
    xr.testing.assert_equal(result, expected.assign_coords(country=result.country))
    assert result.attrs.get("rows_skipped", 0) == len(frame) - len(kept)
    of_one = cd.evaluate(CONTAINERS[container](frame), metrics=METRICS, label="label", score="old", skip_missing=True)
    assert of_one.attrs["rows_skipped"] == frame[["label", "old"]].isna().any(axis=1).sum()


def blocks(frame: pd.DataFrame, size: int = 70) -> list[Any]:
    parts = [frame.iloc[start : start + size] for start in range(0, len(frame), size)]
    return [(part["label"].to_numpy(), {name: part[name].to_numpy() for name in ("old", "new")}) for part in parts]


@pytest.mark.parametrize(("form", "skip_missing"), [("list", True), ("function", False)])
def test_blocks(form: str, skip_missing: bool) -> None:
    frame = WITHOUT if skip_missing else WITHOUT.dropna().reset_index(drop=True)
    given: Any = blocks(frame) if form == "list" else lambda: iter(blocks(frame))
    result = cd.evaluate(given, metrics=METRICS, skip_missing=skip_missing)
    kept = frame.dropna(subset=["label", "old", "new"])
    models = {name: kept[name].to_numpy() for name in ("old", "new")}
    xr.testing.assert_equal(result, cd.evaluate(kept["label"].to_numpy(), models, METRICS))
    assert result.attrs["rows"] == len(kept)


def test_blocks_of_other_models() -> None:
    first, second, *_ = blocks(WITHOUT.dropna())
    for other in ((second[0], {"old": second[1]["old"]}), (second[0], second[1]["old"])):
        with pytest.raises(ValueError, match=r"Blocks expect the same models, got old, new and (old|none)"):
            cd.evaluate([first, other], metrics="brier")


@pytest.mark.parametrize("container", ["polars lazy", "pandas"])
def test_classes_of_models_in_streams(container: str) -> None:
    scores = {name: RNG.dirichlet(np.ones(3), ROWS) for name in ("a", "b")}
    labels = RNG.integers(0, 3, ROWS)
    columns = {f"{name}_{k}": matrix[:, k] for name, matrix in scores.items() for k in range(3)}
    hot = np.eye(3, dtype=int)[labels]
    frame = pd.DataFrame({"label": labels, **columns, **{f"y{k}": hot[:, k] for k in range(3)}})
    given = CONTAINERS[container](frame)
    named = {name: [f"{name}_{k}" for k in range(3)] for name in scores}
    result = cd.evaluate(given, metrics=METRICS, label="label", score=named)
    xr.testing.assert_equal(result.drop_vars("class", errors="ignore"), cd.evaluate(labels, scores, METRICS))
    many: Any = {"label": ["y0", "y1", "y2"], "score": named, "task": "multilabel"}
    result = cd.evaluate(given, metrics=METRICS, **many).drop_vars("class")
    xr.testing.assert_equal(result, cd.evaluate(hot, scores, METRICS, task="multilabel").drop_vars("class"))


@pytest.mark.parametrize("container", ["readers", "dask frame"])
def test_comparisons_of_streams(container: str) -> None:
    given = CONTAINERS[container](WITHOUT)
    options: Any = {"metrics": cd.BrierScore(), "n_boot": 20, "skip_missing": True}
    kept = WITHOUT.dropna(subset=["label", "old", "new"])
    models = {name: kept[name].to_numpy() for name in ("old", "new")}
    expected = cd.compare(kept["label"].to_numpy(), models, metrics=cd.BrierScore(), n_boot=20)
    result = cd.compare(given, {"old": "old", "new": "new"}, label="label", **options)
    xr.testing.assert_allclose(result, expected)


def test_classes_of_models_in_files(run: Run, tmp_path: Path) -> None:
    suffix = ".csv"
    scores = {name: RNG.dirichlet(np.ones(3), ROWS) for name in ("a", "b")}
    labels = RNG.integers(0, 3, ROWS)
    columns = {f"{name}_{k}": matrix[:, k] for name, matrix in scores.items() for k in range(3)}
    WRITERS[suffix](pd.DataFrame({"label": labels, **columns}), tmp_path / f"rows{suffix}")
    for named in ({name: [f"{name}_{k}" for k in range(3)] for name in scores}, {name: f"{name}_*" for name in scores}):
        result = cd.evaluate(tmp_path / f"rows{suffix}", metrics=METRICS, score=named)
        expected = cd.evaluate(labels, scores, METRICS).drop_vars("class", errors="ignore")
        xr.testing.assert_equal(result.drop_vars("class", errors="ignore"), expected)
    words = [f"--score={name}={name}_*" for name in scores]
    for command, more in (("compare", ["--n-boot", 9]), ("evaluate", []), ("summarize", ["--out", tmp_path / "s.nc"])):
        status, _, err = run(command, tmp_path / f"rows{suffix}", *words, *more)
        assert status == 0, err
