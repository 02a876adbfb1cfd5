"""What listens where: the table of deploy/README.md, held against the sockets of real processes."""

import re
import subprocess
from pathlib import Path

import numpy as np
import psutil
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cluster.certificates import make_certificates
from calibdask.cluster.connecting import connected
from tests.clusters.dask_processes import RUN, eventually, free_port, processes
from tests.clusters.sockets import documented, ports, sockets


def test_every_mode_is_in_the_table() -> None:
    assert list(documented()) == ["threads", "local", "dask scheduler", "slurm", "kubernetes", "explore"]


@pytest.mark.faults
def test_threads() -> None:
    own = psutil.Process().pid
    before = ports(own)
    scores = np.linspace(0, 1, 1000)
    with connected("threads"):
        cd.evaluate(scores > 0.5, scores, cd.ECE())
        assert ports(own) - before == documented()["threads"] == set()


@pytest.mark.faults
def test_local_processes() -> None:
    with connected("local:2"):
        assert sockets(psutil.Process().pid) == documented()["local"]


@pytest.mark.faults
def test_a_scheduler_and_workers_by_hand(tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    make_certificates(tmp_path / "tls")
    with processes(tmp_path / "processes", tls=tmp_path / "tls") as running:
        port = free_port()
        started = [running.scheduler(port).pid, running.worker(port).pid]
        # Scheduler, nanny and worker, the first and the last of which answer probes.
        eventually(lambda: len(ports(*started)) == 5)
        assert {spoken for _, spoken in sockets(*started)} == {spoken for _, spoken in documented()["dask scheduler"]}
        assert {address for address, _ in ports(*started)} == {"127.0.0.1"}


@pytest.mark.faults
def test_the_explorer(tmp_path: Path) -> None:
    path = tmp_path / "results.nc"
    xr.Dataset({"error": ("size", [0.3, 0.2, 0.1])}, {"size": [10, 100, 1000]}).to_netcdf(path)
    command = [*RUN, "explore", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.search(r"http://127\.0\.0\.1:\d+/", line), line
        served = sockets(process.pid)
        process.terminate()
    assert served == documented()["explore"]
