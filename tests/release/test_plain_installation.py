"""A plain installation measures; what it lacks is named in one sentence with the command that installs it."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import calibdask as cd
from calibdask import extras

PROJECT = tomllib.loads((Path(cd.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Packages that extras bring, and no other dependency.
ABSENT = (
    *("bokeh", "holoviews", "hvplot", "panel", "matplotlib"),
    *("cryptography", "dask_jobqueue", "deltalake", "h5netcdf", "h5py", "netCDF4", "s3fs", "duckdb", "polars"),
)
CHILD = """
import importlib.machinery, json, sys

absent, calls = json.loads(sys.argv[1])

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in absent else super().find_spec(name, path, target)

sys.meta_path[:] = [Finder if each is importlib.machinery.PathFinder else each for each in sys.meta_path]
from calibdask.cli import main

statuses = [main(words) for words in calls]
assert not {*absent} & {*sys.modules}, {*absent} & {*sys.modules}
print(json.dumps(statuses))
"""


def test_without_what_extras_bring(tmp_path: Path) -> None:
    score = np.random.default_rng(0).random(400).round(3)
    label = np.arange(400) % 3 == 0
    table = "\n".join(["label,score", *(f"{int(y)},{p}" for y, p in zip(label, score, strict=True))])
    (tmp_path / "rows.csv").write_text(table + "\n")
    (tmp_path / "rows.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    calls = {
        ("evaluate", "rows.csv", "--ci", "0.9", "--n-boot", "10", "--metric", "ece"): None,
        ("summarize", "rows.csv", "--out", "summary.zarr"): None,
        ("check", "summary.zarr", "--limit", "ece=0.9"): None,
        ("summarize", "rows.csv", "--out", "summary.nc"): "netcdf",
        ("evaluate", "rows.nc"): "netcdf",
        ("evaluate", "rows.csv", "--out", "result.nc"): "netcdf",
        ("evaluate", "rows.csv", "--cluster", "local:1"): "cluster",
        ("certs", "certificates"): "cluster",
        ("explore", "summary.zarr"): "plot",
        ("evaluate", "rows.csv", "--plot", "page.html"): "plot",
    }
    command = [sys.executable, "-c", CHILD, json.dumps([ABSENT, [*calls]])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [2 if extra else 0 for extra in calls.values()]
    said = [line for line in done.stderr.splitlines() if line.startswith("calibdask: ")]
    missing = [extra for extra in calls.values() if extra]
    assert len(said) == len(missing), done.stderr
    for line, extra in zip(said, missing, strict=True):
        assert line.count(". ") == 0, "one sentence"
        assert f'not installed here: pip install "calibdask[{extra}]".' in line


def test_extras_bring_what_is_named() -> None:
    for extra, need in extras._NEEDS.items():
        brought = {line.partition(">")[0] for line in PROJECT["optional-dependencies"][extra]}
        assert {*need.packages} <= brought, extra
        assert not {*need.packages} & {line.partition(">")[0] for line in PROJECT["dependencies"]}


@pytest.mark.parametrize("name", ["dask", "distributed", "xarray", "numpy", "scipy", "scikit-learn", "zarr"])
def test_plain_dependencies(name: str) -> None:
    assert any(line.startswith((f"{name}>", f"{name}[")) for line in PROJECT["dependencies"])
