"""Outputs of one command: those that collide are refused, and all are written or none."""

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main

RNG = np.random.default_rng(0)
SCORES = RNG.random(400)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    labels = (RNG.random(400) < SCORES).astype(int)
    pd.DataFrame({"label": labels, "score": SCORES, "c": ["a", "b"] * 200}).to_parquet("d.parquet")
    assert main(["summarize", "d.parquet", "--append", "s.zarr", "--period", "day=2026-11-01"]) == 0
    return tmp_path


CHECK = ["check", "d.parquet", "--limit", "ece=0.5", "--n-boot", "2"]
COLLIDING = [
    [*CHECK, "--receipt", "o.json", "--out", "o.json"],
    [*CHECK, "--receipt", "l.json", "--out", "o.md", "--out", "l.json"],
    ["evaluate", "d.parquet", "--metric", "ece", "--out", "o.zarr", "--report", "o.zarr/o.html"],
    ["watch", "s.zarr", "--state", "o.json", "--out", "o.zarr", "--metrics-file", "o.zarr/o.prom"],
    ["audit", "d.parquet", "--features", "c", "--out", "o.zarr", "--report", "o.zarr/o.html"],
]


def outputs(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"d.parquet", "s.zarr"}


@pytest.mark.parametrize("words", COLLIDING, ids=lambda words: " ".join(words[:1] + words[-4:]))
def test_outputs_that_collide_are_refused(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "would replace each other; choose two names" in capsys.readouterr().err
    assert not outputs(folder)


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """A disk on which no larger file has room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# The last one of the outputs of each does not fit.
TOO_LARGE = [
    ([*CHECK, "--out", "o.md", "--receipt", "o.json"], "o.json", 700),
    (["evaluate", "d.parquet", "--metric", "ece", "--report", "o.html", "--out", "o.json"], "o.html", 5000),
    (["watch", "s.zarr", "--metrics-file", "o.prom", "--out", "o.csv", "--state", "o.json"], "o.prom", 1000),
    (["summarize", "d.parquet", "--out", "o.nc"], "o.nc", 20_000),
    (["evaluate", "d.parquet", "--metric", "reliability-diagram", "--out", "o.nc"], "o.nc", 900),
    (["calibrate", "d.parquet", "--method", "isotonic", "--out", "o.json"], "o.json", 500),
    (["summarize", "d.parquet", "--append", "o.zarr", "--period", "day=2026-11-01"], "o.zarr", 100),
]


@pytest.mark.parametrize(
    ("words", "name", "size"), TOO_LARGE, ids=lambda value: value[0] if isinstance(value, list) else ""
)
def test_all_outputs_are_written_or_none(
    words: list[str], name: str, size: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    with files_up_to(size):
        assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"calibdask: [Errno 27] File too large: '{name}'"
    assert not outputs(folder)


APPEND = ["summarize", "d.parquet", "--append", "s.zarr", "--period", "day=2026-11-02"]
# Every kind of output; the room for a file, so that each of its files is one that does not fit.
WRITERS = {
    "summary.zarr": ["summarize", "d.parquet", "--by", "c", "--out", "o.zarr"],
    "report and receipt": ["report", "d.parquet", "--limit", "ece=0.5", "--n-boot", "2", "--out", "o.html"],
    "period": APPEND,
    "cube": ["run", "calibdask.study.example:Means", "--store", "o.zarr", "--cluster", "threads:1"],
    "rows.zarr": ["apply", "s.json", "d.parquet", "--out", "o.zarr"],
    "rows.csv": ["apply", "s.json", "d.parquet", "--out", "o.csv"],
}
# First without a limit: kernels that are compiled are files as well.
ROOM = [resource.RLIM_INFINITY, 100, 1000, 10_000]


@pytest.mark.parametrize("kind", WRITERS)
def test_nothing_that_is_half_written_is_read(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*WRITERS[kind], *(["--receipt", "o.json"] if "receipt" in kind else [])]
    if kind.startswith("rows"):
        assert main(["calibrate", "d.parquet", "--method", "platt", "--out", "s.json"]) == 0
    statuses = []
    # A receipt has 1 kB and a page 69, which takes long: neither fits, or the receipt alone, or both.
    for room in (*ROOM[:2], 40_000) if "receipt" in kind else ROOM:
        whole = shutil.copytree("s.zarr", f"{room}.zarr")
        before = cd.open_summary("s.zarr").load()
        capsys.readouterr()
        with files_up_to(room):
            status = main(words)
        statuses.append(status)
        written = outputs(folder) - {"s.json", f"{room}.zarr"}
        if status:
            # As the manual says: a study is continued, everything else is written anew.
            assert status == (1 if kind == "cube" else 2), (room, status)
            assert "File too large" in capsys.readouterr().err, room
            xr.testing.assert_identical(cd.open_summary("s.zarr").load(), before)
            unfinished = {name for name in written if name.endswith(".unfinished")}
            assert written == ({"o.zarr"} & written if kind == "cube" else unfinished), (room, written)
            if kind == "cube" and written:
                # Cells that are not there are said to be missing, and are computed when it is continued.
                assert main(words) == 0
                assert not np.isnan(cd.open_cube("o.zarr").average.values).any()
        else:
            assert written or kind == "period", room
        for name in written:
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.rmtree("s.zarr")
        whole.rename("s.zarr") if isinstance(whole, Path) else os.rename(whole, "s.zarr")
    assert statuses[0] == 0
    assert statuses[1] != 0
    assert statuses[1:] == sorted(statuses[1:], reverse=True)


@pytest.mark.parametrize("kind", ["summary.zarr", "rows.zarr", "period"])
def test_a_disk_without_room(kind: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As where files may not be larger, but files of any size fail."""
    assert main(["calibrate", "d.parquet", "--method", "platt", "--out", "s.json"]) == 0
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        capsys.readouterr()
        words = ["disk/s.zarr" if word == "s.zarr" else word for word in WRITERS[kind]]
        assert main([f"disk/{word}" if word.startswith("o.") else word for word in words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "No space left on device" in line
        # A store without periods takes one when there is room, and rows are gone on with.
        left = {path.name for path in disk.iterdir() if not path.name.endswith(".unfinished")}
        assert left <= ({"s.zarr"} if kind == "period" else set())
        subprocess.run(["mount", "-o", "remount,size=40m", str(disk)], check=True)
        assert main([f"disk/{word}" if word.startswith("o.") else word for word in words]) == 0
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("name", ["o.json", "o.zarr", "o.parquet"])
def test_links_are_followed(name: str, folder: Path) -> None:
    """Others that read the file behind the link would go on with old numbers."""
    (folder / "there").mkdir()
    evaluate = ["evaluate", "d.parquet", "--metric", "ece", "--out", name]
    assert main([*evaluate[:-1], f"there/{name}"]) == 0
    os.symlink(f"there/{name}", name)
    before = (folder / "there" / name).stat().st_ino
    assert main(evaluate) == 2
    assert main([*evaluate, "--overwrite"]) == 0
    assert (folder / name).is_symlink()
    assert (folder / "there" / name).stat().st_ino != before
    if name == "o.parquet":
        assert main(["calibrate", "d.parquet", "--method", "platt", "--out", "m.json"]) == 0
        (folder / "there" / "a.csv").write_text("old")
        os.symlink("there/a.csv", "a.csv")
        assert main(["apply", "m.json", "d.parquet", "--out", "a.csv", "--overwrite"]) == 0
        assert (folder / "a.csv").is_symlink()
        assert (folder / "there" / "a.csv").read_text().startswith("label,score")


def test_a_link_to_another_kind_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "data.bin").write_text("mine")
    os.symlink("data.bin", "o.json")
    assert main(["evaluate", "d.parquet", "--out", "o.json", "--overwrite"]) == 2
    assert "whose name should end in .json" in capsys.readouterr().err
    assert (folder / "data.bin").read_text() == "mine"


@pytest.mark.parametrize("words", [["apply", "m.json", "d.parquet"], ["evaluate", "d.parquet", "--metric", "ece"]])
def test_names_that_are_not_utf8(words: list[str], folder: Path) -> None:
    assert main(["calibrate", "d.parquet", "--method", "platt", "--out", "m.json"]) == 0
    name = os.fsdecode(b"o\xff\n.parquet")
    assert main([*words, "--out", name]) == 0
    assert (folder / name).exists()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_pipes_and_devices_are_no_outputs(
    make: Callable[[Path], None], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(folder / "o.json")
    assert main([*CHECK, "--out", "o.json", "--overwrite"]) == 2
    assert "already exists and has another type" in capsys.readouterr().err
    assert not (folder / "o.json").is_file()
