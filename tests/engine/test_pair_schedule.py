"""Sources visit every pair of rows once, whatever the blocks and however few of them fit in memory."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.typing import NDArray

import calibdask as cd
from calibdask.data.data import Data
from calibdask.engine.progress_events import watching
from calibdask.engine.sources import pair_schedule as visits
from calibdask.engine.sources.source import Source
from calibdask.statistics.block import Block
from calibdask.statistics.pairs.pair_statistic import PairStatistic
from calibdask.statistics.pairs.target_reduction import TargetReduction

N = 53


class Visited(NamedTuple):
    """How often a row (first axis) met a later one, or a target met a source."""

    times: NDArray[np.int64]


@dataclass(frozen=True)
class Meetings(PairStatistic):
    """Counts the meetings of rows by their global numbers."""

    @property
    def ordered(self) -> bool:
        return True

    def from_block(self, block: Block) -> Visited:
        times = np.zeros((N, N), np.int64)
        times[np.ix_(block.row_numbers, block.row_numbers)] += 1
        return Visited(np.triu(times))

    def from_pair(self, earlier: Block, later: Block) -> Visited:
        times = np.zeros((N, N), np.int64)
        times[np.ix_(earlier.row_numbers, later.row_numbers)] += 1
        return Visited(times)

    def merge(self, a: Visited, b: Visited) -> Visited:
        return Visited(a.times + b.times)


@dataclass(frozen=True)
class Folds(TargetReduction):
    """Counts how often a target row saw each row, in order."""

    @property
    def ordered(self) -> bool:
        return True

    @property
    def rounds(self) -> int:
        return 2

    def begin(self, target: Block) -> list[int]:
        return []

    def fold(self, held: list[int], turn: int, target: Block, source: Block) -> list[int]:
        return held + [turn * N + int(row) for row in source.row_numbers]

    def finish(self, held: list[int], target: Block) -> Visited:
        assert held == list(range(2 * N)), "all rows in order, once a round"
        times = np.zeros((N, N), np.int64)
        times[target.row_numbers] = 1
        return Visited(times)

    def merge(self, a: Visited, b: Visited) -> Visited:
        return Visited(a.times + b.times)


def source(kind: str, by: Any = None) -> Source:
    rng = np.random.default_rng(0)
    scores, labels = rng.dirichlet([1, 1, 1], N), rng.integers(0, 3, N)
    given: tuple[Any, Any] = (labels, scores)
    if kind == "blocks":
        given = ([(labels[a : a + 9], scores[a : a + 9]) for a in range(0, N, 9)], None)
    if kind == "dask":
        given = (da.from_array(labels, chunks=11), da.from_array(scores, chunks=(7, 2)))
    if kind == "unknown":
        padded = np.r_[scores, scores[:7]], np.r_[labels, labels[:7]]
        keep = da.from_array(np.arange(N + 7) < N, chunks=13)
        given = (da.from_array(padded[1], chunks=13)[keep], da.from_array(padded[0], chunks=(13, 3))[keep])
    return Data.of(*given, by=by).read().source


@pytest.fixture(params=[10**6, 3 * 9 * 3 * 8, 1], ids=["one strip", "some strips", "a block a strip"])
def held_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(visits, "HELD_BYTES", request.param)
    monkeypatch.setattr(visits, "ROWS", 5)
    return int(request.param)


@pytest.mark.parametrize("kind", ["arrays", "blocks", "dask", "unknown"])
@pytest.mark.usefixtures("held_bytes")
def test_every_pair_once(kind: str) -> None:
    (state,) = source(kind).answer((Meetings(),))
    np.testing.assert_array_equal(state.times, np.triu(np.ones((N, N), np.int64)))


@pytest.mark.parametrize("kind", ["arrays", "blocks", "dask", "unknown"])
@pytest.mark.usefixtures("held_bytes")
def test_every_target_sees_all_rows_in_order(kind: str) -> None:
    (state,) = source(kind).answer((Folds(),))
    np.testing.assert_array_equal(state.times, np.ones((N, N), np.int64))


@dataclass(frozen=True)
class Ranks(Meetings):
    """Where rows are: their slice and their rank in it, by global number."""

    def from_block(self, block: Block) -> Visited:
        times = np.zeros((N, N), np.int64)
        times[block.row_numbers, block.ranks] = 1 + block.group
        return Visited(times)

    def from_pair(self, earlier: Block, later: Block) -> Visited:
        return Visited(np.zeros((N, N), np.int64))


@pytest.mark.parametrize("kind", ["arrays", "dask"])
@pytest.mark.usefixtures("held_bytes")
def test_blocks_know_the_ranks_of_their_rows(kind: str) -> None:
    group = np.random.default_rng(1).integers(0, 3, N)
    (state,) = source(kind, {"slice": group}).answer((Ranks(),))
    for g in range(3):
        rows = np.flatnonzero(group == g)
        np.testing.assert_array_equal(state.times[rows, np.arange(rows.size)], g + 1)
    assert (state.times > 0).sum() == N


def test_bad_data_are_found_before_pairs_are_visited() -> None:
    scores = np.full((40, 2), 0.5)
    scores[33] = [0.5, 0.9]
    visited = []

    class Spy(Meetings):
        def from_block(self, block: Block) -> Visited:
            visited.append(block)
            return super().from_block(block)

    with pytest.raises(ValueError, match="row 33"):
        Data.of(np.zeros(40, int), scores).read().source.answer((Spy(),))
    assert not visited


def test_blocks_that_come_once_are_refused_for_pairs() -> None:
    once = iter([(np.array([0, 1]), np.array([0.5, 0.5]))])
    with pytest.raises(ValueError, match="several passes"):
        cd.evaluate(once, metrics=cd.SKCE())


def test_constructing_the_graph_of_pairs_is_quick() -> None:
    """About n_blocks**2 / 2 tasks, no more, and blocks read once for a strip."""
    read = []

    def noted(block: NDArray[Any]) -> NDArray[Any]:
        read.append(1)
        return block

    rng = np.random.default_rng(0)
    scores = da.from_array(rng.dirichlet([1, 1, 1], 6000), chunks=(1000, 3)).map_blocks(noted, meta=np.zeros((0, 0)))
    labels = da.from_array(rng.integers(0, 3, 6000), chunks=1000)
    with dask.config.set(scheduler="sync"):
        result = cd.evaluate(labels, scores, cd.SKCE(bandwidth=0.3))
    assert len(read) == 12, "once for the check, once for the pairs"
    assert result.attrs["passes"] == 2


def test_watchers_are_told_how_many_pairs_of_blocks_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "ROWS", 2)
    reports: list[tuple[int, int]] = []
    with watching(lambda done, total, _: reports.append((done, total))):
        source("arrays").answer((Meetings(),))
    # 27 blocks, and 378 pairs of them with themselves and each other.
    assert {total for _, total in reports} == {378}
    assert [done for done, _ in reports] == list(range(reports[0][0], reports[0][0] + len(reports)))
    assert len(reports) > 300
    source("arrays").answer((Meetings(),))
    assert len(reports) < 379, "nobody watches any more"
