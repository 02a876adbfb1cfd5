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


def test_processes_equal_numpy(client: Client) -> None:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet([0.4, 1, 2], 30_000)
    labels = rng.integers(0, 3, 30_000)
    by = rng.integers(0, 400, 30_000)
    lazy = (da.from_array(labels, chunks=7000), da.from_array(scores, chunks=(4000, 2)))
    same_results(cd.evaluate(*lazy, ESTIMATORS), cd.evaluate(labels, scores, ESTIMATORS), False)
    # Edges of 400 slices make a request that travels as a key of the graph.
    sliced = cd.ece_a(setting="classwise", bins=10)
    same_results(
        cd.evaluate(*lazy, sliced, by=da.from_array(by, chunks=9000)), cd.evaluate(labels, scores, sliced, by=by), False
    )


def test_errors_reach_the_client(client: Client) -> None:
    scores = np.full(1000, 0.5)
    scores[777] = 2.0
    with pytest.raises(ValueError, match=r"1 of 1000 rows differs; the first is row 777 with score 2\.0"):
        cd.evaluate(da.zeros(1000, chunks=100, dtype=int), da.from_array(scores, chunks=90))


def test_pairs_and_draws_equal_numpy(client: Client) -> None:
    rng = np.random.default_rng(1)
    scores, labels, by = rng.dirichlet([0.4, 1, 2], 3000), rng.integers(0, 3, 3000), rng.integers(0, 3, 3000)
    lazy = (da.from_array(labels, chunks=700), da.from_array(scores, chunks=(400, 2)))
    metrics = {
        "unbiased": cd.SKCE(),
        "block": cd.SKCE(estimator="block", block=7),
        "features": cd.SKCE(estimator="features", features=16),
        "bootstrap": cd.SKCETest(draws=50),
        "consistency": cd.ConsistencyTest(resamples=20),
        "canonical": cd.KernelCanonicalECE(bandwidth=0.05),
        "locations": cd.CMETest(),
    }
    options = [{}, {"by": by}]
    for given in options:
        chunked = {name: da.from_array(values, chunks=900) for name, values in given.items()}
        same_results(cd.evaluate(*lazy, metrics, **chunked), cd.evaluate(labels, scores, metrics, **given), False)
