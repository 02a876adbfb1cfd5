"""Small stores of all kinds, what can befall their files, and what is read from them."""

import random
import shutil
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


def flip(path: Path, draw: random.Random) -> None:
    """Turn one bit of a store over, any of all with the same chance."""
    all_files = files(path)
    file = draw.choices(all_files, [file.stat().st_size for file in all_files])[0]
    content = bytearray(file.read_bytes())
    at = draw.randrange(len(content))
    content[at] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def lose(path: Path, draw: random.Random) -> None:
    """Remove a file; now and then half of all files, as an interrupted copy does."""
    all_files = files(path)
    for file in draw.sample(all_files, len(all_files) // 2 or 1) if draw.random() < 0.2 else [draw.choice(all_files)]:
        file.unlink()


def lose_folder(path: Path, draw: random.Random) -> None:
    """Remove a folder of a store with all that is in it."""
    shutil.rmtree(draw.choice([folder for folder in sorted(path.rglob("*")) if folder.is_dir()]))


def truncate(path: Path, draw: random.Random) -> None:
    """Cut a file short."""
    file = draw.choice([file for file in files(path) if file.stat().st_size])
    with file.open("r+b") as opened:
        opened.truncate(draw.randrange(file.stat().st_size))


def restore(path: Path, whole: Path) -> None:
    """Make a store what it was."""
    for file in files(whole):
        broken = path / file.relative_to(whole)
        if not broken.exists() or broken.read_bytes() != file.read_bytes():
            broken.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, broken)


def same(one: Any, other: Any) -> bool:
    """Whether plain data are the same, NaN and all; the order of variables is that of a folder's listing."""
    return repr(_ordered(one)) == repr(_ordered(other))


def _ordered(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _ordered(data[name]) for name in sorted(data, key=str)}
    return [_ordered(one) for one in data] if isinstance(data, list | tuple) else data
