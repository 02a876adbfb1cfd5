"""What befalls stored data, by name: the store, what is done to it, and what the error must say."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zarr

from calibdask.storage.cube_layout import sealed
from tests.storage.damage import files

Harm = Callable[[Path], object]


def first(path: Path, pattern: str) -> Path:
    return next(iter(sorted(path.rglob(pattern))))


def lost(pattern: str) -> Harm:
    return lambda path: first(path, pattern).unlink()


def lost_folder(pattern: str) -> Harm:
    return lambda path: shutil.rmtree(first(path, pattern))


def cut(pattern: str, size: int) -> Harm:
    return lambda path: first(path, pattern).write_bytes(first(path, pattern).read_bytes()[:size])


def flipped(pattern: str, at: int) -> Harm:
    def harm(path: Path) -> None:
        file = path if path.is_file() else first(path, pattern)
        content = bytearray(file.read_bytes())
        content[at] ^= 1
        file.write_bytes(content)

    return harm


def half_copied(path: Path) -> None:
    for file in files(path)[::2]:
        file.unlink()


def without_record_in_older_attributes(path: Path) -> None:
    """As if the file of the attributes had been restored from before the first cell."""
    record = first(path, "versions-*")
    attributes = record.parent / "zarr.json"
    content = json.loads(attributes.read_text())
    attributes.write_text(json.dumps(content | {"attributes": sealed({})}))
    shutil.rmtree(record)


def edited(name: str, value: Any) -> Harm:
    """An attribute changed by hand."""

    def harm(path: Path) -> None:
        group = json.loads((path / "zarr.json").read_text())
        group["attributes"][name] = value
        (path / "zarr.json").write_text(json.dumps(group))

    return harm


LOST = r"is incomplete: the chunk {} is missing; copy the (store|cube) again, or "
CHANGED = r"is damaged: the {} is not what was written; copy the store again, or compute it again"
METADATA = r"is incomplete: .*{}/zarr\.json is missing; copy"
RECORD = r"is damaged: a record of the versions that computed cells is missing; copy"

DAMAGE: dict[str, tuple[str, Harm, str]] = {
    "a chunk of counts is lost": ("summary.zarr", lost("class_1_count/c/1/0/0"), LOST.format("class_1_count/c/1/0/0")),
    "half of a summary was copied": ("summary.zarr", half_copied, r"is incomplete|cannot be read"),
    "a bit of a chunk": (
        "summary.zarr",
        flipped("class_1_offset/c/0/0/0", 9),
        CHANGED.format("chunk class_1_offset.*"),
    ),
    "a bit of a checksum": ("summary.zarr", flipped("rows/c/0", -1), CHANGED.format("chunk rows/c/0")),
    "a chunk is cut short": ("summary.zarr", cut("brier_sum/c/0/0", 7), CHANGED.format("chunk brier_sum/c/0/0")),
    "a chunk is empty": ("weighted.zarr", cut("weight_sum/c/2", 0), CHANGED.format("chunk weight_sum/c/2")),
    "a bit of metadata": ("summary.zarr", flipped("rows/zarr.json", 20), CHANGED.format(r"rows/zarr\.json")),
    "metadata are lost": ("summary.zarr", lost("clipped_rows/zarr.json"), METADATA.format("clipped_rows")),
    "a variable is lost": ("weighted.zarr", lost_folder("class_1_square"), METADATA.format("class_1_square")),
    "the labels of slices": ("summary.zarr", lost("day/c/0"), LOST.format("day/c/0")),
    "an attribute": ("summary.zarr", edited("calibdask_version", "9"), "is damaged: its attributes are not what was"),
    "a bit of netCDF": (
        "summary.nc",
        flipped("", 3000),
        "is damaged: it is not what was written; copy the file",
    ),
    "netCDF is cut short": ("result.nc", lambda path: path.write_bytes(path.read_bytes()[:-100]), "truncated file"),
    "netCDF is empty": ("result.nc", lambda path: path.write_bytes(b""), "cannot be read as netCDF"),
    "a number of a result": ("result.zarr", lost("ece/c/0"), LOST.format("ece/c/0")),
    "a bit of a result": ("result.zarr", flipped("brier/c/1", 12), CHANGED.format("chunk brier/c/1")),
    "a definition in a result": ("result.zarr", flipped("ece/zarr.json", -60), CHANGED.format(r"ece/zarr\.json")),
    "values of a cell": (
        "cube.zarr",
        lost("average/c/1/0"),
        LOST.format(".*/average/c/1/0"),
    ),
    "the status of a cell": (
        "cube.zarr",
        lost("status/c/2"),
        LOST.format(".*/status/c/2"),
    ),
    "a bit of a cell": ("cube.zarr", flipped("average/c/0/0", 5), CHANGED.format("chunk .*/average/c/0/0")),
    "a record of versions": ("cube.zarr", lost_folder("versions-*"), RECORD),
    "a record of versions, with attributes of before": ("cube.zarr", without_record_in_older_attributes, RECORD),
    "an axis of a cube": ("cube.zarr", lost("replicate/c/0"), LOST.format(".*/replicate/c/0")),
    "a variable of a cube": ("cube.zarr", lost_folder("average"), METADATA.format("average")),
    "the fingerprint of a cube": (
        "cube.zarr",
        edited("calibdask_study", "{}"),
        "its attributes are not what",
    ),
    "labels of others": (
        "rows.zarr",
        lost("labels/c/3"),
        r"rows\.zarr is incomplete: the chunk labels/c/3 is missing; copy the store again, or give "
        r"missing_chunks='fill' \(--missing-chunks fill\) where chunks that were not written stand for the fill value",
    ),
    "scores of others are cut short": (
        "rows.zarr",
        cut("scores/c/0", 20),
        r"cannot be read as array 'scores', rows",
    ),
    "a bit of an archive": ("rows.npz", flipped("", 400), "cannot be read as a NumPy archive"),
}


def with_status(value: int) -> Harm:
    def harm(path: Path) -> None:
        status: Any = zarr.open_array(first(path, "status"), mode="r+")
        status[...] = value

    return harm
