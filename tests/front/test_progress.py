"""What a terminal shows of long work: passes, blocks, pairs of blocks, on threads, on a cluster and in memory."""

import io
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from rich.console import Console

import calibdask as cd
from calibdask import progress
from calibdask.engine.progress_events import Stage, advance, start_stage, watching
from calibdask.engine.sources import memory as pieces
from calibdask.engine.sources import pair_schedule as visits

RNG = np.random.default_rng(6)
ROWS = 20_000
SCORES = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < SCORES).astype(np.int64)
EQUAL_MASS = cd.ECE(binning="equal-mass")


class Told:
    """A watcher: what it is told, by part of the work."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.numbers: list[list[tuple[int, int]]] = []

    def start_stage(self, stage: Stage) -> None:
        self.stages.append(stage)
        self.numbers.append([])

    def __call__(self, done: int, total: int, failed: int = 0) -> None:
        self.numbers[-1].append((done, total))


def told_of(work: Callable[[], Any]) -> Told:
    record = Told()
    with watching(record, record.start_stage):
        work()
    return record


def chunked(rows: int = 1000) -> tuple[Any, Any]:
    return da.from_array(LABELS, chunks=rows), da.from_array(SCORES, chunks=rows)


def shown(work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, width: int = 100, *, terminal: bool = True) -> str:
    """What is written while it is done, without colours and movements."""
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    written = io.StringIO()
    with progress.shown_progress("evaluating", Console(file=written, force_terminal=terminal, width=width)):
        work()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.getvalue()).replace("\r", "\n")


def slow(block: Any) -> Any:
    time.sleep(0.03)
    return block


def blocks() -> Iterator[tuple[Any, Any]]:
    for start in range(0, ROWS, 1000):
        time.sleep(0.01)
        yield LABELS[start : start + 1000], SCORES[start : start + 1000]


def test_passes_over_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores = chunked()
    text = shown(lambda: cd.evaluate(labels, scores.map_blocks(slow), EQUAL_MASS), monkeypatch)
    assert re.search(r"evaluating: pass 1 .* \d+ of 20 blocks", text)
    assert re.search(r"evaluating: pass 2 .* 20 of 20 blocks", text), (
        "the last state of the last pass stays till the end"
    )
    assert "tasks" not in text
    assert not [line for line in text.splitlines() if len(line.rstrip()) > 100]


def test_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores = chunked()
    text = shown(lambda: cd.evaluate(labels, scores.map_blocks(slow), EQUAL_MASS), monkeypatch, 60)
    assert re.search(r"evaluating: pass 2 .* \d+ of 20 blocks \d:\d\d:\d\d", text), (
        "nothing is cut, nor on a second line"
    )


def test_nothing_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores = chunked()
    assert shown(lambda: cd.evaluate(labels, scores, EQUAL_MASS), monkeypatch, terminal=False) == ""


def test_clocks_go_on_and_counts_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the work lasts, not the pass; a bar that was full counts again."""

    def work() -> None:
        for number in (1, 2):
            start_stage(Stage(f"pass {number}", total=2))
            time.sleep(1.2)
            advance(1, 2)
            time.sleep(0.2)
            advance(2, 2)

    lines = [line for line in shown(work, monkeypatch).splitlines() if "pass 2" in line]
    assert any("1 of 2 blocks" in line for line in lines)
    assert all(re.search(r"0:00:0[1-9]$", line.rstrip()) for line in lines)
    assert "0:00:02" in lines[-1]


def test_rows_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_FEWEST_ROWS", 1000)
    monkeypatch.setattr(pieces, "_PIECE_SCORES", 1000)
    record = told_of(lambda: cd.evaluate(LABELS, SCORES, EQUAL_MASS))
    assert [(stage.name, stage.unit, stage.total) for stage in record.stages] == [
        ("pass 1", "blocks", 20),
        ("pass 2", "blocks", 20),
    ]
    for numbers in record.numbers:
        assert numbers == [(done, 20) for done in range(2, 21)]


def test_blocks_are_counted_in_the_first_pass() -> None:
    record = told_of(lambda: cd.evaluate(blocks, metrics=EQUAL_MASS))
    assert [(stage.name, stage.total) for stage in record.stages] == [("pass 1", 0), ("pass 2", 20)]
    assert record.numbers[0][-1] == (20, 0)
    assert record.numbers[1][-1] == (20, 20)


@pytest.mark.parametrize("chunks", [True, False], ids=["dask", "memory"])
def test_pairs_of_blocks(chunks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "ROWS", 2000)
    given = chunked(2000) if chunks else (LABELS, SCORES)
    estimator = cd.SKCE(bandwidth=0.3)
    record = told_of(lambda: cd.evaluate(*given, estimator))
    (pairs,) = [stage for stage in record.stages if stage.unit == "pairs of blocks"]
    assert (pairs.name, pairs.total) == ("pass 2", 55)
    if chunks:
        text = shown(lambda: cd.evaluate(*given, estimator), monkeypatch)
        assert re.search(r"evaluating: pass 2 .* 55 of 55 pairs of blocks", text)
    else:
        assert record.numbers[-1][-1] == (55, 55)


def test_counts_are_those_of_dask() -> None:
    """As many tasks have the announced names as there are blocks, and pairs of them, or bars would not fill."""
    from dask.utils import key_split

    rows = 3000
    labels, scores = (da.from_array(array[:rows], chunks=1000) for array in (LABELS, SCORES))
    ran: list[str] = []
    entered: list[tuple[Stage, int]] = []
    with (
        dask.callbacks.Callback(posttask=lambda key, *_: ran.append(str(key_split(key)))),
        watching(lambda *_: None, lambda stage: entered.append((stage, len(ran)))),
    ):
        metrics = [EQUAL_MASS, cd.SKCE(), cd.KernelCanonicalECE(bandwidth=0.1)]
        slices = da.from_array(np.arange(rows) % 2, chunks=1000)
        cd.evaluate(labels, scores, metrics)
        cd.evaluate(labels, scores, cd.SKCE(estimator="linear"), by={"half": slices})
    bounds = [at for _, at in entered[1:]] + [len(ran)]
    for (stage, begin), end in zip(entered, bounds, strict=True):
        assert sum(name in stage.tasks for name in ran[begin:end]) == stage.total, stage
    assert {stage.unit for stage, _ in entered} == {"blocks", "pairs of blocks"}
    assert {"slices", "counting rows", "pass 1", "pass 2"} <= {stage.name for stage, _ in entered}


def test_other_work_of_dask_counts_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(lambda: da.ones(200, chunks=10).map_blocks(slow).sum().compute(scheduler="threads"), monkeypatch)
    assert re.search(r"\d+ of \d+ tasks", text)


def test_a_cluster_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client, LocalCluster

    monkeypatch.setattr(progress, "_POLL_SECONDS", 0.02)
    labels, scores = chunked()
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        text = shown(lambda: cd.evaluate(labels, scores.map_blocks(slow), EQUAL_MASS), monkeypatch)
        calm = shown(lambda: cd.evaluate(LABELS, SCORES, cd.ECE()), monkeypatch)
    for number in (1, 2):
        counts = [int(result) for result in re.findall(rf"evaluating: pass {number} .* (\d+) of 20 blocks", text)]
        assert max(counts) >= 10
        assert counts == sorted(counts), "tasks that the scheduler forgets are done all the same"
    assert "20 of 20 blocks" not in calm


def test_a_cluster_that_does_not_answer_is_not_asked_again() -> None:
    class Gone:
        scheduler = type("", (), {"get_task_prefix_states": None})
        asked = 0

        def sync(self, *_: Any, **__: Any) -> Any:
            self.asked += 1
            raise OSError("gone")

    class Bar:
        stage = Stage("pass 1", total=3, tasks=("calibdask-block",))

    from threading import Event

    client, bar = Gone(), Bar()
    progress._poll(client, bar, Event())  # type: ignore[arg-type]
    assert client.asked == 1


def test_nobody_watches_after_the_work() -> None:
    record = told_of(lambda: start_stage(Stage("pass 1")))
    start_stage(Stage("pass 2"))
    advance(1, 2)
    assert [stage.name for stage in record.stages] == ["pass 1"]
    assert record.numbers == [[]]
