"""Damage to stores on an object store: members that change places, are lost, doubled, foreign or old."""

import sys
import tempfile
import warnings
from pathlib import Path

import fsspec
import pytest

from calibdask.calibrators import applying
from tests.clusters.object_stores import SERVERS, missing
from tests.storage.integrity import cases, silent_differences

# A state and netCDF are single files, which are read here as they are from a folder. A longer run:
# python -m tests.clusters.test_integrity 2000 [KIND ...]
KINDS = ("summary.zarr", "result.zarr", "periods.zarr", "cube.zarr", "applied.zarr", "applied.parquet", "map.json")
TIMES = 20


def silent_on(server: str, name: str, folder: Path, times: int, seed: int) -> list[str]:
    """Damage a store of a kind on a server so often; what was done where other numbers were read without an error."""
    with SERVERS[server](folder) as served, pytest.MonkeyPatch.context() as patch:
        # Several chunks of few rows; and listings as they are, for damage is done beside the readers.
        patch.setattr(applying, "TARGET_BYTES", 1000)
        for variable, value in served.environment().items():
            patch.setenv(variable, value)
        patch.setitem(fsspec.config.conf, "s3", {"use_listings_cache": False})
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        return silent_differences(cases(name, folder, served.put), times, seed)


@pytest.mark.s3
@pytest.mark.filterwarnings("ignore:Object at")  # of a folder that has lost what says that it is an array
@pytest.mark.parametrize("name", KINDS)
def test_no_damage_is_silent(name: str, tmp_path: Path) -> None:
    if reason := missing("moto"):
        pytest.skip(reason)
    assert not silent_on("moto", name, tmp_path, TIMES, seed=0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for kind in sys.argv[2:] or KINDS:
        with tempfile.TemporaryDirectory() as scratch:
            silent = silent_on("moto", kind, Path(scratch), int(sys.argv[1]), seed=2)
        sys.stdout.write("\n  ".join([f"{kind} on moto: {sys.argv[1]} cases, {len(silent)} silent", *silent]) + "\n")
        sys.stdout.flush()
