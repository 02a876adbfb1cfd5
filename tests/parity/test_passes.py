"""How often the data are read, that construction computes nothing, and that descriptions and states can be stored."""

import pickle
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from zarr.storage import MemoryStore

import calibdask as cd
from calibdask.data.data import Data
from calibdask.engine.plan import run
from calibdask.engine.sources.source import Source, merged
from calibdask.estimators.kernel.base import KernelEstimator
from calibdask.statistics.counts import RowCount
from calibdask.statistics.layout import Layout
from calibdask.statistics.validity import Validity
from tests import strategies
from tests.catalogue import ANY_ROWS, ESTIMATORS, ordered_statistics, pair_statistics, statistics, target_reductions
from tests.equality import same_states

ONE_PASS = {
    "ece": cd.ECE(),
    "ece10": cd.ECE(bins=10),
    "classwise": cd.ECE(setting="classwise"),
    "left": cd.ECE(closed="left"),
    "convex": cd.ece_c(),
    "inverted": cd.ECE(mapping="inverted"),
    "l2": cd.ECE(norm="l2", debias=True),
    "mce": cd.MCE(),
    "sqrt": cd.ECE(bins="sqrt"),
    "brier": cd.BrierScore(),
    "log": cd.LogLoss(),
    "parts": cd.BrierDecomposition(),
}


OF_PAIRS = (KernelEstimator, cd.MMCE, cd.KernelCanonicalECE, cd.ConsistencyTest)


class Counting:
    """An array that counts how often its rows are read."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values, self.reads = values, 0
        self.shape, self.dtype, self.ndim = values.shape, values.dtype, values.ndim

    def __getitem__(self, key: Any) -> NDArray[Any]:
        self.reads += 1
        return self.values[key]


@pytest.fixture
def counted() -> tuple[Any, Counting]:
    rng = np.random.default_rng(0)
    scores = Counting(rng.dirichlet([1, 1, 1, 1], 60_000).astype(np.float32))
    return da.from_array(rng.integers(0, 4, 60_000), chunks=6000), scores


def test_twelve_estimators_read_the_data_once(counted: tuple[Any, Counting]) -> None:
    labels, scores = counted
    assert len(ONE_PASS) == 12
    lazy = da.from_array(scores, chunks=(6000, -1), asarray=False, meta=np.empty((0, 0), np.float32))
    result = cd.evaluate(labels, lazy, ONE_PASS)
    assert scores.reads == 10
    assert result.passes == 1


def test_adaptive_estimators_read_the_data_at_most_three_times(counted: tuple[Any, Counting]) -> None:
    labels, scores = counted
    lazy = da.from_array(scores, chunks=(6000, -1), asarray=False, meta=np.empty((0, 0), np.float32))
    adaptive = [cd.ece_a(bins=b, setting=s) for b in (10, 15, "sqrt") for s in ("confidence", "classwise")]
    result = cd.evaluate(labels, lazy, [*adaptive, cd.ece_ac(), *ONE_PASS.values()])
    assert scores.reads == 30
    assert result.passes == 3


@pytest.mark.parametrize("chunks", [100, 2000])
def test_the_graph_has_one_task_a_chunk_and_a_tree(chunks: int) -> None:
    scores = da.ones((2 * chunks, 3), chunks=(2, 3), dtype=np.float32) / 3
    labels = da.zeros(2 * chunks, chunks=2, dtype=np.int32)
    given = Data.of(labels, scores).read()
    (graph,) = dask.optimize(given.source._reduced((Validity(), RowCount())))  # type: ignore[attr-defined]
    assert len(dict(graph.__dask_graph__())) <= 1.1 * chunks


def test_construction_computes_nothing() -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("computed")

    with dask.config.set(scheduler=refuse):
        scores = da.random.random((1000, 3), chunks=(100, 1))
        labels = da.zeros(1000, chunks=77, dtype=int)
        cd.ECE(binning="equal-mass"), cd.SKCE(), cd.DensityECE(), cd.ConsistencyTest()
        Data.of(labels, scores).read()


@pytest.fixture(scope="module")
def block() -> Any:
    rng = np.random.default_rng(1)
    layout = Layout(batch=2, groups=3, classes=4, vector=False, dtype="float64")
    group = rng.integers(0, 3, 500).astype(np.int32)
    scores, labels = rng.dirichlet(np.ones(4), (2, 500)), rng.integers(0, 4, (1, 500))
    return strategies.Data(scores, labels, None, group, layout, strategies.features(rng, 500))


def test_statistics_and_states_pickle(block: strategies.Data) -> None:
    rows = block.rows_of_slices()
    listed = [*statistics(block.layout), *ordered_statistics(block.layout, rows), *pair_statistics(block.layout, rows)]
    for statistic in [*listed, *target_reductions(block.layout)]:
        again = pickle.loads(pickle.dumps(statistic))
        assert again == statistic
        assert hash(again) == hash(statistic)
        state = statistic.from_block(block.block())
        same_states(pickle.loads(pickle.dumps(state)), state, weighted=False)


class Stored(Source):
    """A source whose states go through Zarr."""

    rows = None

    def __init__(self, block: strategies.Data) -> None:
        self.layout, self._block = block.layout, block

    def answer(self, asked: tuple[Any, ...]) -> tuple[Any, ...]:
        halves = [self._block.block(0, 200), self._block.block(200, 500)]
        states = [tuple(self._through_zarr(statistic.from_block(half)) for statistic in asked) for half in halves]
        return merged(asked, *states)

    def _through_zarr(self, state: Any) -> Any:
        group = zarr.open_group(MemoryStore())
        for name, values in state._asdict().items():
            group.create_array(name, data=np.asarray(values))
        return type(state)(**{name: np.asarray(array[...]) for name, array in group.arrays()})


def test_states_written_to_zarr_finish_to_the_same_values(block: strategies.Data) -> None:
    metrics = {name: ESTIMATORS[name] for name in ANY_ROWS if not isinstance(ESTIMATORS[name], OF_PAIRS)}
    stored = run(metrics, Stored(block))
    rows = cd.evaluate(block.labels[0], block.scores, metrics, by={"slice": block.group})
    for name, estimate in stored.estimates.items():
        for part, values in estimate.items():
            np.testing.assert_array_equal(values.values, rows[f"{name}_{part}" if part else name].values)
