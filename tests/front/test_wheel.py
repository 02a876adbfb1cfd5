"""The wheel: the same bytes again, whole, and enough by itself outside the repository."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest

import calibdask
from calibdask.cli import cli

ROOT = Path(calibdask.__file__).parents[1]
# That of the system may be another build than the first one on the path.
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14", "/usr/bin/python3")
# Whether this Python is recent enough, and can make environments.
USABLE = "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"
# What needs a cluster, a server, minutes of compilation or the extra `plot`; each has tests of its own.
ELSEWHERE = {"certs", "completion", "demo", "explore", "run", "status", "warm"}


def built(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=PYTHONS)
def installed(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment of its own, with what a plain installation brings, for each Python on the path."""
    own = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = sys.executable if request.param == own else shutil.which(request.param)
    # A shim may be there without what it stands for.
    if python is None or subprocess.run([python, "-c", USABLE], capture_output=True, check=False).returncode:
        pytest.skip(f"{request.param} is not here, or too old")
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, str(wheel), "-c", str(ROOT / "deploy" / "constraints.txt")], check=True)
    return folder / "bin" / "calibdask"


@pytest.mark.deploy
def test_the_same_bytes_again(wheel: Path, tmp_path: Path) -> None:
    assert built(tmp_path).read_bytes() == wheel.read_bytes()


@pytest.mark.deploy
def test_all_files_of_the_package(wheel: Path) -> None:
    there = {path for path in (ROOT / "calibdask").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {path.relative_to(ROOT).as_posix() for path in there}


def rows(path: Path, seed: int) -> str:
    rng = np.random.default_rng(seed)
    score = rng.random(2000)
    day = np.where(np.arange(2000) < 1000, "2026-01-01", "2026-01-02")
    label = (rng.random(2000) < score).astype(int)
    pd.DataFrame(
        {"label": label, "score": score, "day": day, "phone": rng.random(2000) < 0.5, "site": np.arange(2000) % 7}
    ).to_parquet(path)
    return path.name


# Minutes: packages are installed, and kernels compiled for all commands.
@pytest.mark.heavy
def test_every_command_runs(installed: Path, tmp_path: Path) -> None:
    """With the packages of a plain installation only, far from the repository."""
    one, two = rows(tmp_path / "one.parquet", 1), rows(tmp_path / "two.parquet", 2)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*words: str, status: int = 0) -> str:
        done = subprocess.run(
            [str(installed), *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    lines = {
        "evaluate": [one, "--by", "phone"],
        "summarize": [one, "--by", "day", "--out", "one.zarr"],
        "merge": ["one.zarr", "two.zarr", "--out", "both.zarr"],
        "compare": [f"old={one}", f"new={one}"],
        "compare-maps": [one],
        "calibrate": [one, "--out", "map.json"],
        "apply": ["map.json", two, "--out", "calibrated.parquet"],
        "audit": [one, "--features", "phone"],
        "threshold": [one, "--risk", "0.4"],
        "shrink": [one, "--by", "site"],
        "check": [one, "--limit", "ece=0.5", "--receipt", "receipt.json"],
        "verify": ["receipt.json", one],
        "report": [one, "--limit", "ece=0.5", "--out", "report.html"],
        "watch": ["one.zarr"],
        "attribute": ["one.zarr", "--before", "2026-01-01", "--after", "2026-01-02"],
    }
    assert set(lines) | ELSEWHERE == set(cli.commands)
    for name, words in lines.items():
        if name == "merge":
            run("summarize", two, "--by", "day", "--out", "two.zarr")
        run(name, *words)
    assert json.loads((tmp_path / "receipt.json").read_text())
    for name in sorted(ELSEWHERE):
        assert isinstance(cli.commands[name], click.Command)
        run(name, "--help")
    assert 'pip install "calibdask[netcdf]"' in run("summarize", one, "--out", "one.nc", status=2)
    assert 'pip install "calibdask[cluster]"' in run("certs", "certificates", status=2)
    assert 'pip install "calibdask[plot]"' in run("explore", "one.zarr", status=2)
    assert 'pip install "calibdask[plot]"' in run("evaluate", one, "--plot", "one.html", status=2)
