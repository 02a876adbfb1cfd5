"""Paths that a worker of a cluster does not see are named as such, whatever the format."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from distributed import Client

import calibdask as cd
from tests.clusters.dask_processes import ROOT, RUN, free_port, processes

ROWS = 400
# Bare arrays are read by blocks only if they are larger than 16 MiB.
MANY_ROWS = 2_200_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a scheduler with a worker, in processes of their own."""
    port = free_port()
    with processes(tmp_path_factory.mktemp("processes")) as started:
        started.scheduler(port)
        started.worker(port, "--no-nanny", "--name", "remote")
        yield f"tcp://127.0.0.1:{port}"


@pytest.fixture
def client(cluster: str) -> Iterator[Client]:
    with Client(cluster, set_as_default=False) as connected:
        connected.wait_for_workers(1)
        yield connected


def write(path: Path) -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(ROWS)
    columns = {"label": (rng.random(ROWS) < scores).astype(int), "score": scores}
    frame, half = pd.DataFrame(columns), ROWS // 2
    if path.name == "csv":
        path.mkdir()
        for number, part in enumerate((frame[:half], frame[half:])):
            part.to_csv(path / f"{number}.csv.gz", index=False)
    elif path.name == "jsonl":
        path.mkdir()
        for number, part in enumerate((frame[:half], frame[half:])):
            part.to_json(path / f"{number}.jsonl.gz", orient="records", lines=True)
    elif path.suffix == ".npy":
        np.save(path, rng.random(MANY_ROWS))
        np.save(path.with_name("labels.npy"), (rng.random(MANY_ROWS) < 0.5).astype(float))
    elif path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=half)
    elif path.suffix == ".feather":
        frame.to_feather(path, chunksize=half)
    elif path.name == "delta":
        deltalake = pytest.importorskip("deltalake")
        for part in (frame[:half], frame[half:]):
            deltalake.write_deltalake(str(path), part, mode="append")
    elif path.suffix == ".nc":
        arrays = {f"{name}s": ("row", values) for name, values in columns.items()}
        xr.Dataset(arrays).to_netcdf(path, engine="h5netcdf")
    else:
        group = zarr.open_group(path, mode="w", zarr_format=3)
        for name, values in columns.items():
            group.create_array(f"{name}s", data=values, chunks=(half,))


@pytest.mark.faults
@pytest.mark.parametrize("name", ["rows.parquet", "csv", "rows.feather", "delta", "rows.zarr", "rows.nc"])
def test_a_worker_names_the_path_that_it_does_not_see(name: str, tmp_path: Path, client: Any) -> None:
    path = tmp_path / name
    write(path)
    table = cd.read_rows(str(path))
    assert hasattr(table.scores, "dask") or hasattr(table.scores.data, "dask")
    path.rename(tmp_path / "elsewhere")
    with client.as_current(), pytest.raises(ValueError, match="does not exist on the worker remote") as caught:
        cd.ece(table.labels, table.scores)
    assert str(path) in str(caught.value)
    assert "folder that all machines share" in str(caught.value)


@pytest.mark.faults
@pytest.mark.skipif(sys.platform != "linux", reason="paths that differ by process are those of Linux")
@pytest.mark.parametrize("command", ["evaluate", "summarize"])
@pytest.mark.parametrize("name", ["rows.parquet", "delta", "jsonl", "csv", "scores.npy", "rows.zarr"])
def test_a_path_that_only_the_command_sees_is_bad_use(name: str, command: str, tmp_path: Path, cluster: str) -> None:
    """The folder in which a process runs has the same path for all: to the worker, another one."""
    write(tmp_path / name)
    folder = "/proc/self/cwd"
    words = [*RUN, command, f"{folder}/{name}", "--cluster", cluster]
    words += ["--label", f"{folder}/labels.npy"] if name == "scores.npy" else []
    words += ["--out", str(tmp_path / "summary.zarr")] if command == "summarize" else []
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("calibdask: ")]
    assert "does not exist on the worker remote" in said
    assert folder in said
    assert "folder that all machines share" in said
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "summary.zarr").exists()
