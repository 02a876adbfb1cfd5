"""Parts of files: they can be sent to where the files are not, and files that change meanwhile are noticed."""

import pickle
from pathlib import Path

import cloudpickle
import dask.array as da
import numpy as np
import pytest
import xarray as xr

from calibdask.storage import csv_files
from calibdask.storage.open_store import read_rows
from tests.storage.written_rows import frame, write_all

deltalake = pytest.importorskip("deltalake")

FORMATS = ["rows.parquet", "parts.parquet", "rows.csv", "rows.feather", "delta", "rows.zarr", "rows.nc", "rows3.nc"]


def write_each(folder: Path) -> Path:
    write_all(folder)
    frame().to_feather(folder / "rows.feather", chunksize=100)
    deltalake.write_deltalake(str(folder / "delta"), frame(), partition_by=["country"])
    return folder


@pytest.fixture
def blocks_of_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_CSV_BLOCK_BYTES", 5000)


@pytest.mark.usefixtures("blocks_of_csv")
@pytest.mark.parametrize("name", FORMATS)
def test_tasks_open_nothing_when_they_are_pickled(name: str, tmp_path: Path) -> None:
    """A scheduler sees neither the files nor what it takes to read them."""
    write_each(tmp_path)
    table = read_rows(str(tmp_path / name), by=["country", "day"], weight="w", chunk_rows=100)
    arrays = [
        array.data if isinstance(array, xr.DataArray) else array
        for array in (table.labels, table.scores, table.weights, *table.by.values())
    ]
    assert all(isinstance(array, da.Array) for array in arrays)
    before = [array.compute() for array in arrays]
    (tmp_path / name).rename(tmp_path / "away")
    try:
        sent = [cloudpickle.dumps((array.dask, array)) for array in arrays]
        received = [pickle.loads(content)[1] for content in sent]
    finally:
        (tmp_path / "away").rename(tmp_path / name)
    for array, expected in zip(received, before, strict=True):
        np.testing.assert_array_equal(array.compute(), expected)
