"""Measurements out of core: their stores, their arithmetic, and that every part measures something."""

import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
import zarr

import calibdask as cd
from experiments.scaling import chunks, kernels, memory, out_of_core, store
from experiments.scaling.backends import Backend, opened
from experiments.scaling.costs import listed
from experiments.scaling.panel import PANEL, by_zarr, evaluated, read_only
from experiments.scaling.projection import Costs, checked, forecast, projected
from experiments.scaling.store import COMPRESSORS, drawn, make_store
from experiments.scaling.tables import Table, dataset, markdown, write
from experiments.scaling.timing import ratio, timed
from tests.experiments.test_scaling import unhurried

COSTS = Costs(
    row_seconds=1e-7,
    task_seconds=1e-3,
    scheduler_seconds=2e-3,
    graph_seconds=1e-4,
    merge_seconds=1e-4,
    state_bytes=1e5,
    bytes_a_second=1e8,
    latency=5e-3,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "rows.zarr"
    make_store(path, 4000, 10, chunk_rows=500)
    return path


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_stores_hold_the_same_rows_in_any_chunks(
    compressor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_UNIT", 100)
    labels, scores = drawn(0, 350, 3)
    for chunk_rows in (37, 100, 1000):
        make_store(tmp_path / f"{chunk_rows}.zarr", 350, 3, chunk_rows=chunk_rows, compressor=compressor)
        result = cd.read_rows(str(tmp_path / f"{chunk_rows}.zarr"))
        np.testing.assert_array_equal(result.labels.compute(), labels)
        np.testing.assert_array_equal(result.scores.compute(), scores)
    np.testing.assert_array_equal(drawn(130, 260, 3)[1], scores[130:260])
    assert (drawn(0, 350, 3, seed=1)[1] != scores).mean() > 0.99


def test_scores_are_probabilities_and_too_sure() -> None:
    labels, scores = drawn(0, 50_000, 10)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores.sum(1), 1, atol=1e-5)
    assert 0.02 < scores.max(1).mean() - (scores.argmax(1) == labels).mean() < 0.1
    assert set(np.unique(labels)) == set(range(10))


def test_stores_are_chunked_as_asked(path: Path) -> None:
    group = zarr.open_group(path, mode="r")
    scores, labels = (group.get(name) for name in ("scores", "labels"))
    assert isinstance(scores, zarr.Array)
    assert isinstance(labels, zarr.Array)
    assert (scores.chunks, labels.chunks, labels.dtype) == ((500, 10), (500,), np.int32)


@pytest.mark.parametrize(
    ("options", "message"), [({"rows": 0}, "positive"), ({"chunk_rows": 10**9}, "less than 2 GiB"), ({}, "exists")]
)
def test_stores_that_cannot_be_made(options: dict[str, int], message: str, path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        make_store(tmp_path / "new.zarr" if options else path, **{"rows": 10, "classes": 3, **options})


def test_twelve_metrics_in_one_pass(path: Path) -> None:
    table = cd.read_rows(str(path))
    assert len(PANEL) == 12
    assert evaluated(table.labels, table.scores).rows == 4000
    with pytest.raises(ValueError, match="one pass"):
        evaluated(table.labels, table.scores, cd.ece_ac())


def test_reading_loads_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    whole = chunks.Repeated.__getitem__

    def watched(self: chunks.Repeated, key: tuple[slice, ...]) -> Any:
        seen.append(self.name)
        return whole(self, key)

    monkeypatch.setattr(chunks.Repeated, "__getitem__", watched)
    read_only(*chunks.repeated(7, 70))
    assert sorted(seen) == ["labels"] * 7 + ["scores"] * 7


def test_ratios_are_those_within_a_round() -> None:
    result = ratio([3.0, 6.0, 12.0], [1.0, 2.0, 6.0])
    assert (result.median, result.low, result.high) == (3.0, 2.0, 3.0)


def test_every_call_has_a_turn_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.scaling.timing._SHORTEST", 0.0)
    calls: list[str] = []
    times = timed({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2)
    assert calls == ["a", "b"] * 3
    assert len(times["a"].wall) == len(times["b"].cpu) == 2


def test_forecast_of_one_chunk_is_its_rows() -> None:
    result = forecast(COSTS, rows=1e6, chunk_rows=1e6, workers=1)
    # 10^6 rows, a task on the worker; the graph of a chunk; nothing to merge.
    assert result.workers == pytest.approx(0.1 + 1e-3)
    assert (result.graph, result.scheduler, result.tree) == pytest.approx((1e-4, 2e-3, 0))
    assert result.total == pytest.approx(0.1011)
    assert result.binds == "workers"


def test_forecast_of_a_tree() -> None:
    result = forecast(COSTS, rows=1e6, chunk_rows=1e6 / 256, workers=4)
    # 16 merges and then one, each of 16 states of a millisecond on the way and 0.1 ms to merge.
    assert result.tree == pytest.approx(2 * (16 * 1.1e-3 + 5e-3))
    assert result.scheduler == pytest.approx((256 + 17) * 2e-3)
    assert result.workers == pytest.approx(64 * (1e-7 * 1e6 / 256 + 1e-3) + 17 / 4 * (16 * 1.1e-3 + 1e-3))
    assert result.binds == "scheduler"
    assert result.total == pytest.approx(result.graph + result.scheduler + result.tree)


def test_workers_wait_for_the_last_wave() -> None:
    three, four = (forecast(COSTS, rows=n * 1e6, chunk_rows=1e6, workers=2).workers for n in (3, 4))
    assert three == pytest.approx(four, rel=0.1)


def test_few_cores_are_shared() -> None:
    alone = forecast(COSTS, rows=1e8, chunk_rows=1e6, workers=2, cores=math.inf)
    shared = forecast(COSTS, rows=1e8, chunk_rows=1e6, workers=2, cores=1)
    assert shared.workers == pytest.approx(2 * alone.workers + alone.scheduler)


def test_tables_of_the_model() -> None:
    (row,) = checked(COSTS, [(1_000_000, 1_000_000, 1, 0.2022)], cores=2).rows
    assert row["to_measured"] == pytest.approx(0.5)
    small, large = projected(COSTS, 1e10, 100, [25_000, 2_500_000], row_bytes=44).rows
    assert (small["chunks"], small["binds"]) == (400_000, "scheduler")
    assert (large["chunk_mb"], large["binds"]) == (110, "workers")
    assert large["gb_a_second"] == pytest.approx(440 / large["seconds"])


def test_tables_are_written(tmp_path: Path) -> None:
    rows = [{"backend": "threads:1", "ratio": 1.25, "low": math.nan}, {"backend": "local:2", "ratio": 2.0, "low": 1.0}]
    tables = {"panel": Table("Against reading.", rows, {"ratio": 1.5, "low": {"local:2": 1.0}})}
    text = markdown(tables, {"machine": "this"})
    assert "| threads:1 | 1.25 (goal 1.5: met) |  |" in text
    assert "| local:2 | 2 (goal 1.5: missed) | 1 (goal 1: met) |" in text
    write(tables, {"machine": "this"}, tmp_path, "out_of_core")
    result = xr.load_dataset(tmp_path / "out_of_core.nc", engine="scipy")
    assert result.panel_ratio.values.tolist() == [1.25, 2.0]
    assert result.panel_backend.values.tolist() == ["threads:1", "local:2"]
    assert result.attrs["machine"] == "this"
    assert "<table" in (tmp_path / "out_of_core.html").read_text()


def test_cost_of_chunks_has_a_task_each_and_a_tree() -> None:
    result = chunks.overhead(100, 1000, {"ece": cd.ECE()})
    assert result.tasks == pytest.approx(1.07, abs=0.03)
    assert min(result.graph, result.run) > 0
    assert [row["chunks"] for row in chunks.by_number((10,), [], 1, rows=1000).rows] == [10, 10]


def test_kernels_in_a_loop_are_what_dask_runs() -> None:
    (row,) = kernels.against_kernels(3000, [0.04], rounds=1).rows
    assert row["chunks"] == 3
    assert min(row["kernels_ns"], row["numpy_ns"], row["dask_ns"], row["two_to_one"]) > 0


def test_the_peak_is_that_of_this_process() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        held, after = pool.submit(_peaks).result()
    assert held > 0.9 * 240e6
    assert after > 0.9 * 240e6


def _peaks() -> tuple[int, int]:
    """By how much the peak rises while an array of 240 MB is held, and once it is gone."""
    before = memory.peak_bytes()
    held = np.ones(30_000_000)
    peak = memory.peak_bytes() - before
    del held
    return peak, memory.peak_bytes() - before


def test_peaks_are_held_against_that_at_a_16th_of_the_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "fresh_peak", lambda path, backend, rows, chunk_rows: (50.0, 100.0 + rows / 100))
    few, sixteenth, _, whole = memory.by_rows(path).rows[:4]
    assert (few["rows"], sixteenth["rows"], whole["rows"]) == (40, 250, 4000)
    assert (sixteenth["to_a_16th"], whole["to_a_16th"]) == (1, 140 / 102.5)
    row = memory.by_chunk_size(500, 10, (0.004,)).rows[0]
    assert row["chunks_above"] == pytest.approx(55 / 0.004)


def test_threads_are_a_backend() -> None:
    with opened(["threads:2"]) as (backend,):
        assert backend.run(lambda: dask.config.get("num_workers")) == 2
        assert backend.on_workers(lambda: 3) == [3]
    with pytest.raises(ValueError, match="local:N"), opened(["elsewhere"]):
        pass


def test_every_part_of_a_store_but_the_projection(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads stand for processes."""
    unhurried(monkeypatch)
    monkeypatch.setattr(memory, "fresh_peak", lambda *_: (1.0, 2.0))
    monkeypatch.setattr(out_of_core, "opened", lambda names: _Open([Backend(name, int(name[-1])) for name in names]))
    job = out_of_core.Job(path, rounds=1, shrink=10_000)
    parts = {name: part for name, part in out_of_core.PARTS.items() if name not in ("startup", "projection")}
    tables = {name: table for part in parts.values() for name, table in part(job)}
    assert list(tables) == [
        "panel",
        "memory_chunks",
        "memory_rows",
        "chunks",
        "kernels",
        "profile",
        "scaling",
    ]
    assert [row["backend"] for row in tables["panel"].rows] == list(out_of_core.BACKENDS)
    assert all(min(row["to_zarr"], row["to_read"]) > 0 for row in tables["panel"].rows)
    assert all(row["ratio"] > 0 for row in tables["scaling"].rows)
    read = job.rows()
    for rows, others in zip(read, by_zarr(path, *read), strict=True):
        assert rows.chunks == others.chunks
        np.testing.assert_array_equal(rows, others)
    write(tables, {}, tmp_path, "out_of_core")
    assert dataset(tables, {}).sizes["scaling"] == 4


@pytest.mark.heavy
def test_the_projection_measures_its_costs(path: Path, tmp_path: Path) -> None:
    tables = dict(out_of_core.projection(out_of_core.Job(path, rounds=1, shrink=10_000)))
    assert all(value >= 0 for value in tables["costs"].rows[0].values())
    assert [row["workers"] for row in tables["model"].rows] == [1, 2] * 3
    for _, workers in out_of_core.FAR:
        assert len(tables[f"projection_{workers}"].rows) == len(out_of_core.FAR_CHUNKS)
    write(tables, {}, tmp_path, "out_of_core")


class _Open:
    """Places that are open already."""

    def __init__(self, backends: list[Backend]) -> None:
        self._places = backends

    def __enter__(self) -> list[Backend]:
        return self._places

    def __exit__(self, *_: object) -> None:
        pass


def test_costs_are_listed_in_units_that_can_be_read() -> None:
    (row,) = listed(COSTS).rows
    assert row == pytest.approx(
        {"row_ns": 100, "task_us": 1000, "scheduler_us": 2000, "graph_us": 100, "merge_us": 100, "state_kb": 100,
         "mb_a_second": 100, "latency_us": 5000}
    )  # fmt: skip
