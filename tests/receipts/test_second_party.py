"""A second party: the same receipt from the same rows, whatever their format, chunks, order and workers."""

import copy
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calibdask as cd
from calibdask.cli import main

_ROWS = 240
_METRICS = "ece,ece(binning=equal-mass),mean-gap,corp,brier-score"
_OPTIONS: dict[str, Any] = {"metrics": _METRICS, "limits": "ece=0.1", "n_boot": 20}


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    scores = rng.random(_ROWS)
    labels = (rng.random(_ROWS) < scores).astype(int)
    return pd.DataFrame({"label": labels, "score": scores, "c": rng.choice(["a", "b"], _ROWS), "w": rng.random(_ROWS)})


def _parquet(frame: pd.DataFrame, folder: Path, chunk: int) -> Path:
    frame.to_parquet(folder / "rows.parquet", row_group_size=chunk)
    return folder / "rows.parquet"


def _csv(frame: pd.DataFrame, folder: Path, chunk: int) -> Path:
    # repr of a float64 has all the digits that it takes.
    frame.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def _zarr(frame: pd.DataFrame, folder: Path, chunk: int) -> Path:
    group = zarr.open_group(folder / "rows.zarr", mode="w")
    for name, column in (("labels", "label"), ("scores", "score"), ("c", "c")):
        values = frame[column].to_numpy()
        # Chunks of labels that are all 0 are written too: a chunk that is not there is damage.
        config = {"write_empty_chunks": True}
        group.create_array(name, data=values.astype("U1") if column == "c" else values, chunks=(chunk,), config=config)
    return folder / "rows.zarr"


_WRITERS: dict[str, Callable[[pd.DataFrame, Path, int], Path]] = {"parquet": _parquet, "csv": _csv, "zarr": _zarr}


@pytest.fixture(scope="module")
def first() -> dict[str, Any]:
    frame = _frame()
    return cd.receipt(frame.label.to_numpy(), frame.score.to_numpy(), by={"c": frame.c.to_numpy()}, **_OPTIONS)


@settings(max_examples=6, deadline=None)
@given(
    kind=st.sampled_from(sorted(_WRITERS)),
    chunk=st.integers(20, _ROWS),
    seed=st.integers(0, 2**31),
    scheduler=st.sampled_from(["synchronous", "threads"]),
)
@pytest.mark.filterwarnings("ignore:The data type")
def test_format_chunks_order_and_threads_do_not_matter(
    kind: str, chunk: int, seed: int, scheduler: str, first: dict[str, Any]
) -> None:
    with TemporaryDirectory() as folder, dask.config.set(scheduler=scheduler):
        path = _WRITERS[kind](_frame().sample(frac=1, random_state=seed), Path(folder), chunk)
        second = cd.receipt(str(path), by=["c"], **_OPTIONS)
    assert second["numbers"] == first["numbers"]
    assert second["hash"] == first["hash"]


def test_processes_do_not_matter(first: dict[str, Any]) -> None:
    frame = _frame().iloc[::-1]
    labels, scores = (da.from_array(frame[name].to_numpy(), chunks=100) for name in ("label", "score"))
    # One process for all passes: Dask would start another one for each.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, dask.config.set(scheduler="processes", pool=pool):
        assert cd.receipt(labels, scores, by={"c": frame.c.to_numpy()}, **_OPTIONS)["hash"] == first["hash"]


@settings(max_examples=10, deadline=None)
@given(column=st.sampled_from(["label", "score", "c", "w"]), row=st.integers(0, _ROWS - 1), bit=st.integers(0, 51))
def test_any_single_change_is_named(column: str, row: int, bit: int) -> None:
    frame = _frame()
    changed = frame.copy()
    if column == "label":
        changed.loc[row, "label"] = 1 - frame.label[row]
    elif column == "c":
        changed.loc[row, "c"] = "b" if frame.c[row] == "a" else "a"
    else:
        values = frame[column].to_numpy().copy()
        values.view(np.int64)[row] ^= 1 << bit
        changed[column] = values
    before, after = (
        cd.receipt(one.label, one.score, "ece", by={"c": one.c}, sample_weight=one.w, n_boot=2)
        for one in (frame, changed)
    )
    assert before["hash"] != after["hash"]
    outcome = cd.verify(before, changed.label, changed.score, by={"c": changed.c}, sample_weight=changed.w)
    name = {"label": "labels", "score": "scores", "c": "slices", "w": "weights"}[column]
    assert outcome.problems[0].startswith(f"The {name} differ from those of the receipt")


@cache
def _simple() -> dict[str, Any]:
    frame = _frame()
    return cd.receipt(frame.label, frame.score, "ece", limits="ece=0.3", n_boot=20)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 0.999))
def test_a_cut_receipt_is_one_sentence(share: float, tmp_path: Path) -> None:
    text = json.dumps(_simple())
    (tmp_path / "receipt.json").write_text(text[: int(share * len(text))])
    with pytest.raises(ValueError, match="is not a receipt: it is not JSON"):
        cd.verify(tmp_path / "receipt.json", _frame().label, _frame().score)


def test_every_entry_that_is_missing_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    receipt, path = _simple(), tmp_path / "receipt.json"
    _frame().to_csv(tmp_path / "rows.csv", index=False)
    whole = [(name,) for name in receipt if name != "made"]
    for place in (*whole, *(("request", name) for name in receipt["request"]), ("data", "rows"), ("data", "parts")):
        cut = copy.deepcopy(receipt)
        parent = cut if len(place) == 1 else cut[place[0]]
        del parent[place[-1]]
        path.write_text(json.dumps(cut))
        status = main(["verify", str(path), str(tmp_path / "rows.csv")])
        said = capsys.readouterr()
        assert status in (1, 2), place
        # Told before anything is measured, or among what differs.
        assert said.err.count("\n") == 1 if status == 2 else "was changed after it was made" in said.out, (place, said)
        assert "Traceback" not in said.err


def test_another_version_is_told(tmp_path: Path) -> None:
    problems = cd.verify({**_simple(), "calibdask": "9.9"}, _frame().label, _frame().score).problems
    assert any("made by calibdask 9.9" in problem for problem in problems)


def test_what_depends_on_the_order_of_rows_is_refused() -> None:
    frame = _frame()
    for metric in ("consistency-test", "skce-test", "cme-test", "skce(estimator=linear)", "refinement"):
        with pytest.raises(ValueError, match="cannot be part of a receipt"):
            cd.receipt(frame.label, frame.score, metric)
    with pytest.raises(ValueError, match="cannot be part of a receipt"):
        cd.receipt(frame.label, frame.score, "ece", limits={"skce(estimator=linear)": 0.1})


def test_evaluate_writes_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = _frame()
    frame.loc[3, "score"] = np.nan
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.sample(frac=1, random_state=1).to_csv(tmp_path / "copy.csv", index=False)
    receipt = str(tmp_path / "receipt.json")
    words = ["--metric", "ece,ece(bins=20)", "--bins", "10", "--by", "c", "--skip-missing", "--receipt", receipt]
    assert main(["evaluate", str(tmp_path / "rows.parquet"), *words]) == 0
    assert json.loads(Path(receipt).read_text())["request"]["metrics"] == ["ece(bins=10)", "ece(bins=20)"]
    assert main(["verify", receipt, str(tmp_path / "copy.csv")]) == 0
    assert "The receipt agrees: 239 rows" in capsys.readouterr().out
    rows = str(tmp_path / "rows.parquet")
    for refused in ([rows, f"b={rows}"], [rows, "--metric", "consistency-test"]):
        assert main(["evaluate", *refused, "--skip-missing", "--receipt", str(tmp_path / "other.json")]) == 2
        assert not (tmp_path / "other.json").exists()
