"""A kill at every change of names: the old result is there or the new one, and the next run sweeps what is left."""

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli.results import write_result
from calibdask.cli.summarize import written
from calibdask.report.writing import write_report
from calibdask.storage import atomic_replace as replacing_module
from calibdask.storage.atomic_replace import atomic_replacement, restore
from calibdask.storage.open_store import open_store
from calibdask.storage.writers import checked_output
from calibdask.study import layouts
from tests.storage.kills import each_death
from tests.study.tagged_study import Tagged


def dataset(version: int) -> xr.Dataset:
    return xr.Dataset({"numbers": ("slice", np.arange(3.0) + version)}, attrs={"calibdask_version": str(version)})


def result(name: str) -> Callable[[Path, int], object]:
    """As `evaluate --out` and `compare --out` write it."""

    def write(folder: Path, version: int) -> None:
        with ExitStack() as output:
            target = checked_output(str(folder / name), (".json", ".nc", ".zarr"), overwrite=True)
            write_result(dataset(version), lambda: f"{{{version}}}", output, target)

    return write


def summary(name: str) -> Callable[[Path, int], object]:
    """As `summarize` and `merge` write it."""
    return lambda folder, version: written(
        dataset(version), checked_output(str(folder / name), (".nc", ".zarr"), overwrite=True)
    )


LABELS, SCORES = [0, 1, 1, 0, 1, 0] * 10, [0.2, 0.7, 0.6, 0.3, 0.9, 0.4] * 10
RESULT = cd.evaluate(LABELS, SCORES, cd.ECE())


def report(folder: Path, version: int) -> None:
    """As `report` and `evaluate --report` write it."""
    write_report(str(folder / "page.html"), RESULT, title=f"Version {version}", overwrite=True)


WRITERS: dict[str, Callable[[Path, int], object]] = {
    "result.json": result("result.json"),
    "result.nc": result("result.nc"),
    "result.zarr": result("result.zarr"),
    "summary.nc": summary("summary.nc"),
    "summary.zarr": summary("summary.zarr"),
    "page.html": report,
}


def version_of(path: Path) -> int:
    """Which of the two is there, whole; 0: none."""
    if not path.exists():
        return 0
    if path.suffix in (".nc", ".zarr"):
        store: Any = open_store(str(path))
        with store.dataset as opened:
            version = int(opened.attrs["calibdask_version"])
            assert opened.numbers.values.tolist() == [version, version + 1, version + 2]
            return version
    text = path.read_text()
    (version,) = {number for number in (1, 2) if f"{{{number}}}" in text or f"Version {number}" in text}
    assert text.rstrip().endswith(("}", "</html>"))
    return version


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has left something has ended, since this process has not."""
    monkeypatch.setattr(psutil, "pid_exists", lambda _: False)


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize(
    ("name", "exchange"), [(name, name in ("result.nc", "summary.zarr", "page.html")) for name in WRITERS]
)
def test_the_old_result_or_the_new_one(
    name: str, exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        # As on file systems that cannot exchange two names at once.
        monkeypatch.setattr(replacing_module, "_exchanged", lambda *_: False)
    write, target = WRITERS[name], tmp_path / name
    for before in (0, 1):
        seen = set()
        for path in tmp_path.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if before:
            write(tmp_path, 1)
        for _ in each_death(lambda: write(tmp_path, 2)):
            left = {path.name for path in tmp_path.iterdir()} - {name}
            assert all(other.startswith(f".{name}.") and other.endswith(".partial") for other in left)
            if not exchange:
                restore(target)
            found = version_of(target)
            seen.add(found)
            assert found in (before, 2)
            # The next run, which is not killed, leaves its result and nothing else.
            write(tmp_path, 1)
            assert [path.name for path in tmp_path.iterdir()] == [name]
            if not before:
                shutil.rmtree(target) if target.is_dir() else target.unlink()
        assert before in seen
        assert version_of(target) == 2


@pytest.mark.parametrize(
    ("name", "mode", "exchange"),
    [
        ("result.json", 0o600, True),
        ("page.html", 0o640, False),
        *(("summary.zarr", 0o700, yes) for yes in (True, False)),
    ],
)
def test_the_mode_stays(name: str, mode: int, exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchange:
        monkeypatch.setattr(replacing_module, "_exchanged", lambda *_: False)
    WRITERS[name](tmp_path, 1)
    (tmp_path / name).chmod(mode)
    WRITERS[name](tmp_path, 2)
    assert (version_of(tmp_path / name), (tmp_path / name).stat().st_mode & 0o777) == (2, mode)


def test_what_others_are_writing_stays(tmp_path: Path) -> None:
    with atomic_replacement(tmp_path / "result.json") as part:
        part.write_text("first")
        result("result.json")(tmp_path, 2)
        assert part.read_text() == "first"
    assert (tmp_path / "result.json").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def tag_of(cube: xr.Dataset) -> int:
    """Of which study a cube is; all cells that are done have the values of that study."""
    tag = json.loads(cube.attrs["calibdask_study"])["parameters"]["tag"]
    done = cube.status.values == 1
    assert cube.value.values[done].tolist() == [tag + 0.0][: done.sum()]
    assert cube.index.values[done].tolist() == [10 * tag][: done.sum()]
    return int(tag)


@pytest.mark.usefixtures("dead")
@pytest.mark.parametrize("overwrite", [True, False], ids=["overwritten", "new"])
def test_the_old_cube_or_the_new_one(overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_LONGEST_WRITE", -1.0)
    old, store = tmp_path / "old.zarr", tmp_path / "cube.zarr"
    cd.run(Tagged(numbers=1), old, "threads:1")

    def begin() -> None:
        shutil.rmtree(store, ignore_errors=True)
        if overwrite:
            shutil.copytree(old, store)

    def found() -> int:
        """The tag of the cube; 0: none, which is so only where there was none before."""
        if overwrite:
            return tag_of(cd.open_cube(str(store)).load())
        with suppress(ValueError):
            return tag_of(cd.open_cube(str(store)).load())
        return 0

    begin()
    seen = set()
    new = Tagged(tag=2, numbers=1)
    for _ in each_death(lambda: cd.run(new, store, "threads:1", overwrite=overwrite), stride=7):
        seen.add(tag := found())
        assert cd.run(new, store, "threads:1", overwrite=tag == 1).done == 1
        assert found() == 2
        layout = json.loads((store / "zarr.json").read_text())["attributes"]["layout"]
        assert {path.name for path in store.iterdir()} == {"zarr.json", layout}
        assert not list(store.rglob("*.partial"))
        begin()
    assert seen == ({1, 2} if overwrite else {0, 2})
