"""BLAS kernels: recorded in cubes, and equal on all workers of a run."""

import json
import os
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import calibdask as cd
from calibdask.cluster.versions import blas_kernels
from calibdask.storage.cube_layout import write_versions
from calibdask.study.cube import Cube
from calibdask.study.running import lay_out
from tests.clusters.dask_processes import RUN, Processes, eventually, free_port, processes
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
    lay_out(study, store)
    # Those who lay out a cube compute nothing.
    assert recorded(store) == []
    cd.run(study, store, shard=(0, 2))
    assert [one["blas"] for one in recorded(store)] == [blas_kernels()]
    named(monkeypatch, "another")
    with pytest.warns(UserWarning, match=f"cells that other versions have computed .blas: '{blas_kernels()[:8]}"):
        cd.run(study, store)
    # Nothing is left to compute.
    named(monkeypatch, "a third one")
    cd.run(study, store)
    assert [one["blas"] for one in recorded(store)] == [blas_kernels(), "another"]


def test_a_run_that_computes_no_cell_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, store = Moments(samples=(3, 4), seconds=0.0), tmp_path / "cube.zarr"
    named(monkeypatch, "another")
    assert cd.run(study, store, stop=lambda: True).computed == 0
    assert recorded(store) == []
    monkeypatch.undo()
    cd.run(study, store)
    assert [one["blas"] for one in recorded(store)] == [blas_kernels()]


def test_records_of_earlier_versions_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were lists in an attribute."""
    study, store = Moments(samples=(3, 4), seconds=0.0), tmp_path / "cube.zarr"
    lay_out(study, store)
    named(monkeypatch, "another")
    cd.run(study, store, shard=(0, 2))
    monkeypatch.undo()
    (other,), (record,) = recorded(store), store.glob("*/versions-*")
    shutil.rmtree(record)
    own = other | {"blas": blas_kernels()}
    earlier = [other | {"numpy": "1.0"}, own | {"numpy": "1.1"}]
    Cube(str(store))._set_attributes(record.parent.name, {"versions": json.dumps(earlier)})
    with pytest.warns(UserWarning, match="blas: 'another' there, .*numpy: '1.1' there"):
        cd.run(study, store)
    assert recorded(store) == [*earlier, own]


def test_records_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    study, store = Moments(samples=(3, 4), seconds=0.0), tmp_path / "cube.zarr"
    lay_out(study, store)
    kernels = [f"kernels {number // 2}" for number in range(16)]
    start = threading.Barrier(len(kernels), timeout=60)

    def record(kernel: str) -> None:
        joined = Cube(str(store)).join(kernel)
        start.wait()
        # Without the memory of this process, as in processes of their own.
        write_versions.__wrapped__(joined.address, str(joined.layout), joined.record)

    with ThreadPoolExecutor(len(kernels)) as executor:
        assert [*executor.map(record, kernels)] == [None] * len(kernels)
    assert sorted(one["blas"] for one in recorded(store)) == sorted({*kernels})


@x86
@pytest.mark.faults
def test_shards_that_begin_together_are_both_recorded(started: Processes, tmp_path: Path) -> None:
    """Neither knows of the other before the gate opens; who ends last says that both have computed."""
    store, log, gate = tmp_path / "cube.zarr", tmp_path / "log", tmp_path / "gate"
    lay_out(Moments(seconds=0.0, log=str(log), gate=str(gate)), store)
    words = ["--store", str(store), "--set", "seconds=0.0", "--set", f"log={log}", "--set", f"gate={gate}"]
    runs = []
    for index, kernels in enumerate((FIRST, SECOND)):
        command = [*RUN, "run", NAME, *words, "--cluster", "threads:2", "--shard", f"{index}/2"]
        runs.append(started.start(command, f"shard {index}", OPENBLAS_CORETYPE=kernels))
    eventually(lambda: log.exists() and len({line.split()[-1] for line in log.read_text().splitlines()}) == 2, 120)
    assert recorded(store) == []
    gate.touch()
    assert [run.wait() for run in runs] == [0, 0]
    assert {one["blas"].split()[-1] for one in recorded(store)} == {FIRST, SECOND}
    said = started.said("shard 0") + started.said("shard 1")
    assert "holds cells that other versions have computed at the same time (blas: " in said
    assert (cd.open_cube(str(store)).status == 1).all()


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
