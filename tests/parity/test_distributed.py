"""The same numbers from worker processes, bit for bit, and errors that reach the client."""

from collections.abc import Iterator

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import calibdask as cd
from tests.catalogue import ESTIMATORS
from tests.equality import same_results


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_slices_in_processes_equal_numpy(client: Client) -> None:
    """Just more rows than the 4096 whose scores an equal-mass binning keeps one by one."""
    rng = np.random.default_rng(0)
    scores, labels, by = rng.dirichlet([0.4, 1, 2], 4200), rng.integers(0, 3, 4200), rng.integers(0, 3, 4200)
    lazy = (da.from_array(labels, chunks=1400), da.from_array(scores, chunks=(1600, 2)))
    # A third: the states and requests of all are pickled in test_passes.py.
    metrics = dict(list(ESTIMATORS.items())[::3])
    sliced = cd.evaluate(*lazy, metrics, by={"by": da.from_array(by, chunks=2000)})
    same_results(sliced, cd.evaluate(labels, scores, metrics, by={"by": by}), False)


def test_edges_of_many_slices_are_a_request_that_travels_as_a_key(client: Client) -> None:
    rng = np.random.default_rng(1)
    scores, labels, by = rng.dirichlet([0.4, 1, 2], 9000), rng.integers(0, 3, 9000), rng.integers(0, 300, 9000)
    metric = cd.ece_a(setting="classwise", bins=10)
    lazy = (da.from_array(labels, chunks=5000), da.from_array(scores, chunks=(4000, 2)))
    sliced = cd.evaluate(*lazy, metric, by=da.from_array(by, chunks=6000))
    same_results(sliced, cd.evaluate(labels, scores, metric, by=by), False)


def test_errors_reach_the_client(client: Client) -> None:
    scores = np.full(1000, 0.5)
    scores[777] = 2.0
    with pytest.raises(ValueError, match=r"1 of 1000 rows differs; the first is row 777 with score 2\.0"):
        cd.evaluate(da.zeros(1000, chunks=100, dtype=int), da.from_array(scores, chunks=90))
