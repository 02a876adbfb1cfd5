"""Periods on object stores: with conditional writes nobody loses any, without them one is told to write alone."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from tests.clusters.object_stores import SERVERS, ObjectStore, missing, proxied
from tests.clusters.test_object_stores import COMMAND, PATIENCE, ROOT, done

OPTIONS = ("--by", "country", "--setting", "binary", "--step", "0.003")
WARNING = "a store without conditional writes"


@pytest.fixture
def rows(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    for day in range(3):
        country = rng.choice(["de", "fr"], 100)
        scores = rng.random(100)
        np.savez(tmp_path / f"{day}.npz", labels=rng.random(100) < scores, scores=scores, country=country)
    return [str(tmp_path / f"{day}.npz") for day in range(3)]


@pytest.fixture(params=SERVERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if reason := missing(request.param):
        pytest.skip(reason)
    with SERVERS[request.param](tmp_path) as served:
        yield served


def appending(store: str, rows: str, day: int, *options: str) -> list[str]:
    return ["summarize", rows, *OPTIONS, "--append", store, "--period", f"day={day}", *options]


def expected(rows: list[str], folder: Path) -> xr.Dataset:
    for day, path in enumerate(rows):
        assert main(appending(str(folder / "local.zarr"), path, day)) == 0
    return cd.open_summary(folder / "local.zarr").load()


@pytest.mark.s3
@pytest.mark.parametrize("share", [0.0, 0.1], ids=["steady", "failing"])
def test_writers_on_an_object_store(share: float, store: ObjectStore, rows: list[str], tmp_path: Path) -> None:
    url = f"{store.url}/store.zarr"
    # Each day twice; a server without conditions is written by one at a time.
    commands = [appending(url, path, day) for path, day in zip(rows * 2, [0, 1, 2] * 2, strict=True)]
    with proxied(store, share) as proxy:
        environment = proxy.store.environment()
        first = subprocess.run(
            [*COMMAND, *commands[0]], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        )
        conditional = WARNING not in first.stderr
        processes = []
        # In turn, one that is refused tells as much as three, and each takes ten seconds where requests fail.
        for command in commands[1:] if conditional else commands[1:4]:
            process = subprocess.Popen(
                [*COMMAND, *command], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
            )
            processes.append(process)
            if not conditional:
                process.wait(PATIENCE)
        said = [process.communicate(timeout=PATIENCE)[1] for process in processes]
        statuses = [process.returncode for process in processes]
        assert sorted(statuses) == [0, 0, *([2] * (3 if conditional else 1))], said
        for status, words in zip(statuses, said, strict=True):
            assert ("already, and its rows would count twice" in words) == (status == 2)
            # Who is refused has written nothing yet.
            assert (WARNING in words) == (status == 0 and not conditional)
        done(["evaluate", url, "--by", "day", "--metric", "ece(bins=10)"], environment)
    fetched = store.fetched(url, tmp_path / "fetched.zarr")
    xr.testing.assert_identical(cd.open_summary(fetched).load(), expected(rows, tmp_path))


def test_in_memory(rows: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"memory://{tmp_path.name}/store.zarr"
    for day in (2, 0, 1):
        assert main(appending(url, rows[day], day)) == 0
    assert main(appending(url, rows[1], 1)) == 2
    assert "has the day 1 already" in capsys.readouterr().err
    xr.testing.assert_identical(cd.open_summary(url).load(), expected(rows, tmp_path))
