"""Two drivers on one cube: no cell is done without its values, however slow the store."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.study.cube import Cube
from tests.study.tagged_study import Tagged


def check(cube: xr.Dataset, tag: int) -> None:
    """Every cell that is done has the values of the study of the cube, and of no other."""
    done = cube.status.values == 1
    assert cube.value.values[done].tolist() == [tag + number / 8 for number in np.arange(6)[done]]
    assert cube.index.values[done].tolist() == [10 * tag + number for number in np.arange(6)[done]]


def started(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def after_one() -> Callable[[], bool]:
    """Stop once tasks have been started."""
    looks = count()
    return lambda: next(looks) > 0


@pytest.mark.parametrize("held", ["value", "index", "status"])
def test_a_driver_whose_writes_are_late_leaves_the_new_cube_alone(
    held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one hangs in a write of its first cells; all of the second one happens meanwhile."""
    store, waits, goes = tmp_path / "cube.zarr", threading.Event(), threading.Event()
    put = Cube._put

    def late(cube: Cube, variable: str, run: range, values: Any) -> None:
        if variable == held and not waits.is_set():
            waits.set()
            assert goes.wait(60)
        put(cube, variable, run, values)

    monkeypatch.setattr(Cube, "_put", late)
    thread, errors = started(lambda: cd.run(Tagged(), store, "threads:1"))
    assert waits.wait(60)
    assert cd.run(Tagged(tag=2), store, "threads:1", overwrite=True).done == 6
    goes.set()
    thread.join(60)
    assert "was created again or removed by another run" in str(errors[0])
    cube = cd.open_cube(str(store)).load()
    assert (cube.status == 1).all()
    check(cube, 2)


@pytest.mark.parametrize("seed", range(3))
def test_random_order_on_a_slow_store(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write takes its time; whenever anybody looks, no cell is done without its values."""
    store, draw = tmp_path / "cube.zarr", random.Random(seed)
    put = Cube._put

    def slow(cube: Cube, variable: str, run: range, values: Any) -> None:
        time.sleep(draw.random() * 0.02)
        put(cube, variable, run, values)

    monkeypatch.setattr(Cube, "_put", slow)
    cd.run(Tagged(), store, "threads:1", stop=after_one())
    first, _ = started(lambda: cd.run(Tagged(), store, "threads:2"))
    time.sleep(draw.random() * 0.1)
    second, problems = started(lambda: cd.run(Tagged(tag=2), store, "threads:2", overwrite=True))
    while first.is_alive() or second.is_alive():
        # It may be laid out anew while it is read.
        with suppress(ValueError):
            cube = cd.open_cube(str(store)).load()
            check(cube, int(cube.value.max()) if (cube.status == 1).any() else 1)
    assert not problems
    check(cd.open_cube(str(store)).load(), 2)
    assert cd.run(Tagged(tag=2), store, "threads:1").done == 6


def test_two_of_the_same_study_write_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, put = tmp_path / "cube.zarr", Cube._put

    def slow(cube: Cube, variable: str, run: range, values: Any) -> None:
        time.sleep(0.005)
        put(cube, variable, run, values)

    cd.run(Tagged(), store, "threads:1", stop=after_one())
    monkeypatch.setattr(Cube, "_put", slow)
    drivers = [started(lambda: cd.run(Tagged(), store, "threads:1")) for _ in range(2)]
    for thread, _ in drivers:
        thread.join(60)
    assert [errors for _, errors in drivers] == [[], []]
    cube = cd.open_cube(str(store)).load()
    assert (cube.status == 1).all()
    check(cube, 1)
