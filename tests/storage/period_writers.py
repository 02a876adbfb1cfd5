"""Processes that add periods to a store at once, or are killed while they do; started by `tests.storage.test_periods`.

One process imports what is needed, and forks those that write: a kill costs no start. It answers each line that it is
given by one.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import dask.array  # noqa: F401
import h5netcdf  # noqa: F401
import xarray as xr
import zarr.codecs  # noqa: F401

import calibdask as cd
from calibdask.analyses.appending import append, expire

START = date(2026, 1, 1)
SUMMARIES = ("one.nc", "two.nc", "three.nc")


def label(number: int) -> str:
    return str(START + timedelta(days=number))


def loaded(folder: Path) -> list[xr.Dataset]:
    """Summaries of different sizes, which take turns."""
    return [cd.open_summary(folder / name).load() for name in SUMMARIES]


def add(store: Path, days: list[xr.Dataset], number: int) -> bool:
    """Whether a day was added, and not there already."""
    try:
        append(days[number % len(days)], store, {"day": label(number)})
    except ValueError as error:
        if "already" not in str(error):
            raise
        return False
    return True


def go_on(folder: Path, ready: int) -> None:
    """Add days that are not there, and merge old ones, until this process is killed."""
    store, days = folder / "store.zarr", loaded(folder)
    # What is imported by the first is imported by then.
    add(folder / "other.zarr", days, os.getpid())
    begun = time.monotonic()
    add(folder / "other.zarr", days, os.getpid() + 1)
    os.write(ready, str(time.monotonic() - begun).encode())
    number = 0
    while True:
        if add(store, days, number) and number % 4 == 3:
            expire(store, "10d")
        number += 1


def race(folder: Path, writer: int, writers: int, days: int) -> int:
    """Add days of one's own, and one that all add; how often the latter has succeeded."""
    store, given = folder / "store.zarr", loaded(folder)
    own = [add(store, given, day) for day in range(1, days) if day % writers == writer]
    assert all(own)
    return int(add(store, given, 0))


def forked(work: Callable[[], int | None]) -> int:
    """Start a process that writes."""
    child = os.fork()
    if child:
        return child
    status = 99
    try:
        status = work() or 0
    finally:
        os._exit(status)


def killed(folder: Path, rng: random.Random) -> int:
    told, ready = os.pipe()
    child = forked(lambda: go_on(folder, ready))
    time.sleep(rng.uniform(0.5, 3.5) * float(os.read(told, 100)))
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def raced(folder: Path, writers: int, days: int) -> list[int]:
    children = [forked(partial(race, folder, writer, writers, days)) for writer in range(writers)]
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


if __name__ == "__main__":
    moments = random.Random(int(sys.argv[1]))
    for line in sys.stdin:
        mode, *words = line.split()
        place = Path(words.pop())
        answer = [killed(place, moments)] if mode == "kill" else raced(place, *map(int, words))
        sys.stdout.write(f"{' '.join(map(str, answer))}\n")
        sys.stdout.flush()
