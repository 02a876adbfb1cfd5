"""Summaries of many small slices hold their occupied cells alone: same numbers to the last bit, in memory and files."""

import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.statistics.bins import sparse_grid
from calibdask.storage.sparse_cells import SparseCells, sparse_cells
from calibdask.storage.writers import write_dataset

SLICES = 100
METRICS = {
    "ece": cd.ECE(),
    "squares": cd.ECE(bins=10, norm="l2", debias=True),
    "decomposition": cd.BrierDecomposition(),
    "cutoff": cd.CutoffError(),
    "brier": cd.BrierScore(),
}


@pytest.fixture(autouse=True)
def sparse_whatever_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_grid, "SMALL_BYTES", 0)
    monkeypatch.setattr(sparse_grid, "_MANY_SLICES", 50)


def rows(classes: int = 2) -> tuple[Any, Any, Any, Any]:
    """Labels, scores, slices and weights, some of them 0."""
    rng = np.random.default_rng(5)
    n = SLICES * 20
    scores = rng.random(n) if classes == 2 else rng.dirichlet(np.ones(classes), n).astype(np.float32)
    weights = rng.random(n) * (rng.random(n) < 0.9)
    return rng.integers(0, classes, n), scores, rng.integers(0, SLICES, n), weights


def both_forms(monkeypatch: pytest.MonkeyPatch, classes: int, *, weighted: bool) -> tuple[xr.Dataset, xr.Dataset]:
    """A summary with occupied cells alone, and the same with all cells."""
    labels, scores, campaign, weights = rows(classes)
    options: dict[str, Any] = {"by": {"campaign": campaign}, "settings": ["binary" if classes == 2 else "classwise"]}
    if weighted:
        options["sample_weight"] = weights
    sparse = cd.summarize(labels, scores, **options)
    with monkeypatch.context() as patch:
        patch.setattr(sparse_grid, "SMALL_BYTES", 1 << 60)
        whole = cd.summarize(labels, scores, **options)
    return sparse, whole


def histogram_variables(summary: xr.Dataset) -> list[str]:
    return [str(name) for name in summary.data_vars if str(name).endswith(("_count", "_offset", "_square", "_rows"))]


def same_numbers(a: xr.DataArray, b: xr.DataArray) -> None:
    """All cells, also of variables that hold the occupied ones alone."""
    np.testing.assert_array_equal(np.asarray(a.variable.data), np.asarray(b.variable.data))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_same_numbers_to_the_last_bit(monkeypatch: pytest.MonkeyPatch, classes: int, weighted: bool) -> None:
    sparse, whole = both_forms(monkeypatch, classes, weighted=weighted)
    own = [name for name in histogram_variables(sparse) if sparse[name].ndim > 1]
    assert own == [name for name in histogram_variables(whole) if whole[name].ndim > 1]
    for name in own:
        assert isinstance(sparse[name].variable.data, SparseCells)
        assert isinstance(whole[name].variable.data, np.ndarray)
        same_numbers(sparse[name], whole[name])
        assert sparse[name].dtype == whole[name].dtype
    if classes == 2:
        xr.testing.assert_identical(cd.evaluate(sparse, metrics=METRICS), cd.evaluate(whole, metrics=METRICS))
        xr.testing.assert_identical(cd.shrink_slices(sparse), cd.shrink_slices(whole))
    else:
        metrics = {"ece": cd.ECE(setting="classwise"), "one": cd.CutoffError(setting=1)}
        xr.testing.assert_identical(cd.evaluate(sparse, metrics=metrics), cd.evaluate(whole, metrics=metrics))


@pytest.mark.parametrize("chunk", [46_000, 20_000, 1_500])
def test_cells_of_many_rows(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    # One cell has more rows than fit with its offset into one number, in one block or in several.
    labels, scores, campaign, _ = rows()
    labels, campaign = (np.r_[values, np.zeros(40_000, np.int64)] for values in (labels, campaign))
    scores = np.r_[scores, np.full(40_000, 0.3333)]
    options: dict[str, Any] = {"by": {"campaign": campaign}, "settings": ["binary"]}
    sparse = cd.summarize(*(da.from_array(values, chunks=chunk) for values in (labels, scores)), **options)
    monkeypatch.setattr(sparse_grid, "SMALL_BYTES", 1 << 60)
    whole = cd.summarize(labels, scores, **options)
    for name in ("class_1_count", "class_1_offset"):
        assert isinstance(sparse[name].variable.data, SparseCells)
        same_numbers(sparse[name], whole[name])


def test_sums_and_selections_are_those_of_all_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, whole = both_forms(monkeypatch, 2, weighted=False)
    for changed in (
        lambda summary: summary.sum("campaign"),
        lambda summary: summary.isel(campaign=slice(5, 9)),
        lambda summary: summary.sel(campaign=[7, 3]),
    ):
        xr.testing.assert_identical(cd.evaluate(changed(sparse)), cd.evaluate(changed(whole)))
    one = cd.evaluate(sparse.isel(campaign=slice(0, 3)), metrics=cd.ECE(), ci=0.9, n_boot=20)
    xr.testing.assert_identical(one, cd.evaluate(whole.isel(campaign=slice(0, 3)), metrics=cd.ECE(), ci=0.9, n_boot=20))


def test_merging_sparse_with_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, whole = both_forms(monkeypatch, 2, weighted=False)
    expected = cd.merge(whole, whole.isel(campaign=slice(0, 50)))
    for parts in ((sparse, whole), (whole, sparse), (sparse, sparse)):
        merged = cd.merge(parts[0], parts[1].isel(campaign=slice(0, 50)))
        for name in ("class_1_count", "class_1_offset", "rows", "brier_sum"):
            np.testing.assert_array_equal(
                np.asarray(merged[name].variable.data), np.asarray(expected[name].variable.data)
            )


@pytest.mark.parametrize(("suffix", "weighted"), [(".zarr", True), (".nc", False)])
def test_files_hold_occupied_cells(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suffix: str, weighted: bool
) -> None:
    summary, _ = both_forms(monkeypatch, 2, weighted=weighted)
    path = tmp_path / f"summary{suffix}"
    write_dataset(summary, path)
    size = sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    assert size < summary.nbytes
    with cd.open_summary(path) as opened:
        xr.testing.assert_identical(cd.shrink_slices(opened), cd.shrink_slices(summary))
        for name in histogram_variables(summary):
            np.testing.assert_array_equal(
                np.asarray(opened[name].variable.data), np.asarray(summary[name].variable.data)
            )
    raw = xr.open_zarr(path, consolidated=False) if suffix == ".zarr" else xr.open_dataset(path, engine="h5netcdf")
    with raw:
        np.testing.assert_array_equal(
            cd.evaluate(raw, metrics=cd.ECE()).ece, cd.evaluate(summary, metrics=cd.ECE()).ece
        )
        for lost in (raw.sum("campaign"), raw.isel(campaign=[0, 1])):
            with pytest.raises(ValueError, match=r"open the file by calibdask\.open_summary"):
                cd.evaluate(lost)


def test_shell_writes_and_shrinks_small_slices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels, scores, campaign, _ = rows()
    pd.DataFrame({"label": labels, "score": scores, "campaign": campaign}).to_parquet(tmp_path / "rows.parquet")
    out = str(tmp_path / "summary.zarr")
    assert main(["summarize", str(tmp_path / "rows.parquet"), "--by", "campaign", "--out", out]) == 0
    assert main(["shrink", out, "--by", "campaign"]) == 0
    assert "campaign" in capsys.readouterr().out


def test_watch_of_small_slices_also_in_a_store_of_periods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    labels, scores, campaign, _ = rows()
    by = {"day": np.arange(labels.size) % 2, "campaign": campaign}
    sparse = cd.summarize(labels, scores, by=by, settings=["binary"])
    assert isinstance(sparse["class_1_count"].variable.data, SparseCells)
    with monkeypatch.context() as patch:
        patch.setattr(sparse_grid, "SMALL_BYTES", 1 << 60)
        whole = cd.summarize(labels, scores, by=by, settings=["binary"])
    watched = [cd.watch(one, by="campaign") for one in (sparse, whole)]
    xr.testing.assert_identical(*watched)
    # A day of all slices, and one of a few, which is stored whole.
    cd.append(sparse.isel(day=[0]), tmp_path / "store.zarr")
    size = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert size < 0.02 * whole.isel(day=0).nbytes
    cd.append(sparse.isel(day=[1], campaign=slice(20, 60)), tmp_path / "store.zarr")
    stored = cd.open_summary(tmp_path / "store.zarr")
    assert isinstance(stored["class_1_count"].variable.data, SparseCells)
    kept = whole.where((whole.day == 0) | whole.campaign.isin(range(20, 60)), 0)
    for name in ("class_1_count", "class_1_offset"):
        np.testing.assert_array_equal(np.asarray(stored[name].variable.data), kept[name].transpose(*stored[name].dims))
    assert float(cd.watch(stored, by="campaign").gap[0, 0]) == float(watched[0].gap[0, 0])


def test_metrics_that_need_all_cells_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, _ = both_forms(monkeypatch, 2, weighted=False)
    monkeypatch.setattr(sparse_grid, "MOST_BYTES", 1 << 20)
    with pytest.raises(ValueError, match=r"All cells of the histograms of 100 slices .* take .* GB"):
        cd.evaluate(sparse, metrics=cd.DensityECE())


@pytest.mark.parametrize("threshold", [0, 1 << 26])
def test_arrays_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch, threshold: int) -> None:
    monkeypatch.setattr("calibdask.storage.sparse_cells.SMALL_BYTES", threshold)
    rng = np.random.default_rng(0)
    values = (rng.random((5, 7, 4, 2)) < 0.2) * rng.integers(1, 9, (5, 7, 4, 2))
    whole = xr.Dataset({"x": (("day", "k", "cell", "o"), values)}, {"day": list("abcde")})
    sparse = whole.assign(x=(whole.x.dims, sparse_cells(values)))
    functions: list[Callable[[xr.Dataset], Any]] = [
        lambda data: data.sum("day"),
        lambda data: data.sum(["day", "k"], skipna=False, keep_attrs=True),
        lambda data: data.sum(),
        lambda data: data.isel(day=2),
        lambda data: data.isel(day=[3, 1], k=slice(1, 3)),
        lambda data: data.isel(k=[3, 1], day=[0, 2]),
        lambda data: data.isel(k=[3, 1], day=-1),
        lambda data: data.isel(k=3, day=[2, 4], cell=1),
        lambda data: data.isel(k=3, day=2, cell=1, o=0),
        lambda data: data.isel(day=[1, 1]),
        lambda data: data.isel(day=slice(None, None, -1)),
        lambda data: data.isel(day=np.array([True, False, True, False, False])),
        lambda data: data.isel(day=[]),
        lambda data: data.sel(day=["b", "d"]),
        lambda data: data.transpose("k", "day", ...),
        lambda data: operator.add(data, data),
        lambda data: data * 2,
        lambda data: data.where(data.x > 2, 0),
        lambda data: xr.concat([data, data], "day"),
        lambda data: xr.concat([data, data], "new"),
        lambda data: data.assign(x=data.x.expand_dims({"p": ["z"]})),
        lambda data: data.reindex(day=list("abz"), fill_value=0),
        lambda data: data.copy(deep=True),
        lambda data: pickle.loads(pickle.dumps(data)),
    ]
    for function in functions:
        expected, found = function(whole), function(sparse)
        xr.testing.assert_identical(found.assign(x=(found.x.dims, np.asarray(found.x.variable.data))), expected)


def test_periods_of_a_sparse_summary_are_appended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    labels, scores = np.arange(240) % 2, np.linspace(0.01, 0.99, 240)
    by = {"day": np.arange(240) % 20, "country": np.array(["a", "b", "c"])[np.arange(240) % 3]}
    sparse = cd.summarize(labels, scores, by=by, settings=["binary"])
    assert isinstance(sparse["class_1_count"].variable.data, SparseCells)
    cd.append(sparse, tmp_path / "store.zarr", "day")
    with monkeypatch.context() as patch:
        patch.setattr(sparse_grid, "SMALL_BYTES", 1 << 60)
        whole = cd.summarize(labels, scores, by=by, settings=["binary"])
    stored = cd.open_summary(tmp_path / "store.zarr").load()
    xr.testing.assert_equal(cd.evaluate(stored, by="day"), cd.evaluate(whole, by="day"))
