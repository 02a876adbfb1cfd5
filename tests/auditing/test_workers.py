"""Audits on a cluster: the lattice is cut such that no worker holds all of it."""

from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import pytest
import xarray as xr
from distributed import Client, LocalCluster

import calibdask as cd
from calibdask.analyses.auditing.planning import LatticePlan
from calibdask.engine.workers import Workers, workers_in_force
from calibdask.statistics.lattice.lattice_sums import LatticeSums
from tests.auditing.test_audit import FEATURES, table
from tests.equality import same_results

FRAME = table()
MEMORY = 8_000_000


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers of little memory, whose limit nobody enforces."""
    unlimited = {f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")}
    options: dict[str, Any] = {"processes": False, "dashboard_address": "127.0.0.1:0"}
    with (
        dask.config.set(unlimited),
        LocalCluster(n_workers=2, threads_per_worker=2, memory_limit=MEMORY, **options) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of the parts of lattices that are filled."""
    filled: list[int] = []
    parts = LatticePlan.parts

    def noted(plan: Any) -> Iterator[LatticeSums]:
        for part in parts(plan):
            filled.append(part.segments.count * part.edges.bins * 32)
            yield part

    monkeypatch.setattr(LatticePlan, "parts", noted)
    return filled


def audited(depth: int) -> xr.Dataset:
    """Of chunks, which the workers compute."""
    label, score = (da.from_array(FRAME[name].to_numpy(), chunks=1000) for name in ("label", "score"))
    return cd.audit(label, score, FRAME[FEATURES], depth, score_cells=64)


def test_no_worker_holds_all_of_a_lattice(client: Client, sizes: list[int]) -> None:
    assert workers_in_force() == Workers(2, MEMORY)
    there = audited(depth=3)
    # Two states of each of two threads, and what is added up, in half of the memory.
    assert max(sizes) <= MEMORY / 2 / 7 < sum(sizes)
    assert f"{len(sizes)} fill the lattice" in there.attrs["passes_why"]
    sizes.clear()
    with dask.config.set(scheduler="threads"):
        assert workers_in_force() is None
        here = audited(depth=3)
    assert len(sizes) == 1
    same_results(there, here, weighted=False)


def test_rows_in_memory_take_the_memory_of_this_machine(client: Client, sizes: list[int]) -> None:
    cd.audit(FRAME.label, FRAME.score, FRAME[FEATURES], 3, score_cells=64)
    assert len(sizes) == 1


def test_what_workers_have_no_memory_for_is_refused(client: Client) -> None:
    with pytest.raises(ValueError, match=r"for workers of 2 threads in half of their 8 MB of memory, got .*depth=3"):
        audited(depth=4)


def test_without_a_limit_workers_have_the_memory_of_this_machine(sizes: list[int]) -> None:
    options: dict[str, Any] = {"processes": False, "dashboard_address": "127.0.0.1:0", "memory_limit": None}
    with LocalCluster(n_workers=1, **options) as cluster, Client(cluster):
        found = workers_in_force()
        assert found is not None
        assert found.memory is None
        audited(depth=2)
    assert len(sizes) == 1
