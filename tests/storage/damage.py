"""Small stores of all kinds, what can befall their files, and what is read from them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

import calibdask as cd
from calibdask.storage.open_store import StoredRows, open_store
from calibdask.storage.writers import write_dataset
from calibdask.study.example import Means

ROWS = 240
LABELS = np.arange(ROWS) % 3 == 0
SCORES = (np.arange(ROWS) * 37 % ROWS + 0.5) / ROWS
DAYS = np.array(["fri", "mon", "sat"])[np.arange(ROWS) % 3]
WEIGHTS = 0.5 + np.arange(ROWS) % 5


def summary(**options: Any) -> xr.Dataset:
    """A summary in chunks of one slice each, so that it has files enough to lose."""
    made = cd.summarize(LABELS, SCORES, by={"day": DAYS}, settings=["binary"], step=0.01, **options)
    return made.chunk({"day": 1})


def result() -> xr.Dataset:
    return cd.evaluate(LABELS, SCORES, {"ece": cd.ECE(), "brier": cd.BrierScore()}, by={"day": DAYS}).chunk({"day": 1})


def write_rows(path: Path) -> None:
    group = zarr.open_group(path, mode="w", zarr_format=3)
    for name, values in (("labels", LABELS.astype(np.int8)), ("scores", SCORES)):
        array = group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=(40,))
        # As calibdask reads them: chunks of nothing but zeros are stored.
        array.with_config({"write_empty_chunks": True})[...] = values


def write_cube(path: Path) -> None:
    cd.run(Means(replicates=3, rows=(10, 20, 40)), path, "threads:1")


STORES: Mapping[str, Callable[[Path], object]] = {
    "summary.zarr": lambda path: write_dataset(summary(), path),
    "weighted.zarr": lambda path: write_dataset(summary(sample_weight=WEIGHTS), path),
    "summary.nc": lambda path: write_dataset(summary(), path),
    "result.zarr": lambda path: write_dataset(result(), path),
    "result.nc": lambda path: write_dataset(result(), path),
    "cube.zarr": write_cube,
    # Rows of others have no checksums, but for those of the archive: of these the files that are lost or cut short.
    "rows.zarr": write_rows,
    "rows.npz": lambda path: np.savez_compressed(path, labels=LABELS, scores=SCORES),
}


def read(path: Path) -> Any:
    """All that a store holds, as plain data."""
    store = open_store(str(path))
    if isinstance(store, StoredRows):
        table = store.read()
        return [np.asarray(array).tolist() for array in (table.labels, table.scores)]
    with store.dataset as dataset:
        loaded = dataset.load().to_dict()
    # Checksums under a damaged name change nothing.
    loaded["attrs"] = {name: value for name, value in loaded["attrs"].items() if not isinstance(value, dict)}
    return loaded


def files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def same(one: Any, other: Any) -> bool:
    """Whether plain data are the same, NaN and all; the order of variables is that of a folder's listing."""
    return repr(_ordered(one)) == repr(_ordered(other))


def _ordered(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _ordered(data[name]) for name in sorted(data, key=str)}
    return [_ordered(one) for one in data] if isinstance(data, list | tuple) else data
