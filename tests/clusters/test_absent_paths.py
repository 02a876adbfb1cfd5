"""Paths that a worker of a cluster does not see are named as such, whatever the format."""

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
from tests.clusters.dask_processes import free_port, processes

ROWS = 400


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a scheduler and a worker in processes of their own."""
    port = free_port()
    with processes(tmp_path_factory.mktemp("processes")) as started:
        started.scheduler(port)
        started.worker(port, "--no-nanny", "--name", "remote")
        with Client(f"tcp://127.0.0.1:{port}", set_as_default=False) as connected:
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
