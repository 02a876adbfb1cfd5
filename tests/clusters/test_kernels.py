"""BLAS kernels: recorded in cubes, and equal on all workers of a run."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import calibdask as cd
from calibdask.cluster.versions import blas_kernels
from calibdask.study.running import lay_out
from tests.clusters.dask_processes import Processes, eventually, free_port, processes
from tests.clusters.fault_study import Moments

NAME = "tests.clusters.fault_study:Moments"
# Which processors of today all have, whatever OpenBLAS would choose.
FIRST, SECOND = "Nehalem", "Haswell"
x86 = pytest.mark.skipif(
    platform.machine() != "x86_64" or "openblas" not in blas_kernels(), reason="kernels of OpenBLAS for x86-64"
)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Processes]:
    with processes(tmp_path / "processes") as running:
        yield running


def recorded(store: Path) -> list[dict[str, str]]:
    known: list[dict[str, str]] = json.loads(str(cd.open_cube(str(store)).attrs["versions"]))
    return known


def named(monkeypatch: pytest.MonkeyPatch, kernels: str) -> None:
    """Let this process say that it has these kernels."""
    monkeypatch.setattr("calibdask.study.cell_executor.blas_kernels", lambda: kernels)


@x86
def test_kernels_are_those_that_compute() -> None:
    code = "from calibdask.cluster.versions import blas_kernels; print(blas_kernels())"
    environment = os.environ | {"OPENBLAS_CORETYPE": FIRST}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert {part.split()[-1] for part in said.stdout.strip().split(", ")} == {FIRST}


def test_cubes_record_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, store = Moments(samples=(3, 4), seconds=0.0), tmp_path / "cube.zarr"
    cd.run(study, store)
    assert [one["blas"] for one in recorded(store)] == [blas_kernels()]
    named(monkeypatch, "another")
    with pytest.warns(UserWarning, match=f"cells that other versions have computed .blas: '{blas_kernels()[:8]}"):
        cd.run(study, store)
    cd.run(study, store)
    assert [one["blas"] for one in recorded(store)] == [blas_kernels(), "another"]


def test_those_who_lay_out_a_cube_compute_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, store = Moments(samples=(3, 4), seconds=0.0), tmp_path / "cube.zarr"
    lay_out(study, store)
    assert "blas" not in recorded(store)[0]
    named(monkeypatch, "another")
    cd.run(study, store, shard=(0, 2))
    assert [one["blas"] for one in recorded(store)] == ["another"]
    lay_out(study, store)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match="blas: 'another' there"):
        cd.run(study, store, shard=(1, 2))
    assert [one["blas"] for one in recorded(store)] == ["another", blas_kernels()]


def started_run(started: Processes, port: int, store: Path, **settings: Any) -> subprocess.Popen[bytes]:
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return started.run(NAME, "--store", str(store), "--cluster", f"tcp://127.0.0.1:{port}", *words)


@x86
@pytest.mark.faults
def test_workers_with_different_kernels_are_refused(started: Processes, tmp_path: Path) -> None:
    port, store = free_port(), tmp_path / "cube.zarr"
    started.scheduler(port)
    for name in (FIRST, SECOND):
        started.worker(port, "--no-nanny", "--name", name, OPENBLAS_CORETYPE=name)
    eventually(lambda: started.said("scheduler").count("Register worker") == 2)
    assert started_run(started, port, store).wait() == 2
    (message,) = started.said("run").splitlines()
    assert FIRST in message
    assert SECOND in message
    assert "OPENBLAS_CORETYPE=Haswell" in message
    assert not store.exists()


@x86
@pytest.mark.faults
def test_a_worker_with_other_kernels_that_joins_later_is_refused(started: Processes, tmp_path: Path) -> None:
    """And the kernels of the driver, which trains nothing, do not matter."""
    port, store, log = free_port(), tmp_path / "cube.zarr", tmp_path / "log"
    started.scheduler(port)
    started.worker(port, "--no-nanny", OPENBLAS_CORETYPE=FIRST)
    run = started_run(started, port, store, log=log)
    eventually(lambda: log.exists() and len(log.read_text().splitlines()) > 4)
    assert FIRST in recorded(store)[0]["blas"]
    started.worker(port, "--no-nanny", OPENBLAS_CORETYPE=SECOND)
    assert run.wait() == 2
    assert f"{platform.node()} has other BLAS kernels" in started.said("run")
