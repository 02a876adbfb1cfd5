"""Stores of periods under kills and under several writers: every period is whole, none is there twice, none is lost."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.errors import Damaged
from calibdask.storage import exclusive, period_store
from calibdask.storage.location import Location
from calibdask.storage.period_log import FOLDER
from calibdask.storage.period_store import PeriodStore
from tests.storage import kills
from tests.storage.kills import Killed, killed_at
from tests.storage.period_writers import START, SUMMARIES, label

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(5)


def day(rows: int) -> xr.Dataset:
    scores = RNG.random(rows)
    country = RNG.choice(["at", "de", "fr"][: 1 + rows % 3], rows)
    return cd.summarize(RNG.random(rows) < scores, scores, by={"country": country}, settings=["binary"], step=0.003)


DAYS = [day(100), day(201), day(302)]


def number_of(name: str) -> int:
    return int((np.datetime64(name) - np.datetime64(START)).astype(int))


def check(store: Path) -> set[str]:
    """The days of a store, each once and whole, merged or not."""
    if not store.exists():
        return set()
    log = PeriodStore.at(str(store)).log()
    if not log.periods:
        return set()
    days = [name for period in log.sorted for name in (period.merged or (str(period.label),))]
    assert len(days) == len(set(days))
    whole = cd.open_summary(store).load()
    sums = [name for name, variable in whole.data_vars.items() if "country" in variable.dims]
    for period in log.sorted:
        parts = [DAYS[number_of(name) % len(DAYS)] for name in period.merged or (str(period.label),)]
        expected = cd.merge(*parts) if len(parts) > 1 else parts[0]
        found = whole.sel(day=period.label, drop=True)
        there = np.flatnonzero(found["rows"].values)
        xr.testing.assert_identical(found[sums].isel(country=there).drop_attrs(), expected[sums].drop_attrs())
    return set(days)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for summary, name in zip(DAYS, SUMMARIES, strict=True):
        summary.to_netcdf(tmp_path / name, engine="h5netcdf")
    return tmp_path


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[[str, Path], list[int]]]:
    """Have other processes write to a folder; they are forked from one, whose start takes seconds."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.storage.period_writers", "3"]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def asked(line: str, folder: Path) -> list[int]:
            process.stdin.write(f"{line} {folder}\n")
            process.stdin.flush()
            return [*map(int, process.stdout.readline().split())]

        yield asked
        process.stdin.close()


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.faults)])
def test_killed_while_appending(kills: int, folder: Path, ask: Callable[[str, Path], list[int]]) -> None:
    before: set[str] = set()
    for _ in range(kills):
        assert ask("kill", folder) == [9]
        days = check(folder / "store.zarr")
        assert before <= days
        before = days
    assert len(before) >= kills // 5


@pytest.mark.parametrize("days", [4, pytest.param(60, marks=pytest.mark.faults)])
def test_several_writers_lose_nothing(days: int, folder: Path, ask: Callable[[str, Path], list[int]]) -> None:
    # One of three has added the day that all add, and the others were told.
    assert sorted(ask(f"race 3 {days}", folder)) == [0, 0, 1]
    assert check(folder / "store.zarr") == {label(number) for number in range(days)}
    assert len([*(folder / "store.zarr" / FOLDER).iterdir()]) == days


def test_deaths_at_changes_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "CHANGES", (*kills.CHANGES, "link"))
    store = tmp_path / "store.zarr"

    def labels() -> tuple[object, ...]:
        return tuple(PeriodStore.at(str(store)).log().periods) if store.exists() else ()

    def work() -> None:
        for number in (1, 40):
            with suppress(ValueError):
                cd.append(DAYS[number % 3], store, {"day": label(number)})
        cd.expire(store, 1)

    # Most of them are of the files of Zarr, one like the other.
    number, seen = 0, [labels()]
    while True:
        with killed_at(number) as begun, suppress(Killed):
            work()
        seen.append(labels())
        if len(begun) <= number:
            break
        number += 1 if number < 4 else 7
    assert sorted(set(seen), key=seen.index) == [(), (label(1),), (label(1), label(40)), (label(40), "2026-01")]
    assert check(store) == {label(1), label(40)}


def test_what_nobody_needs_goes_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store.zarr"
    for number in range(3):
        cd.append(DAYS[number], store, {"day": label(number)})
    (store / FOLDER / ".1-2-3-4.partial").touch()
    with killed_at(60), suppress(Killed):
        cd.append(DAYS[0], store, {"day": label(4)})
    cd.append(DAYS[0], store, {"day": label(0)}, replace="again")
    names = {path.name for path in (store / "periods").iterdir()}
    # The old day, and the one that was never added, whose sums over slices were not written yet.
    assert sorted(Path(name).suffix for name in names) == [".zarr"] * (3 + 2) + [".zip"] * (3 + 1)
    assert not (store / FOLDER / ".1-2-3-4.partial").exists()
    monkeypatch.setattr(period_store, "_GRACE_SECONDS", -10.0)
    cd.append(DAYS[0], store, {"day": label(3)})
    left = {path.name for path in (store / "periods").iterdir()}
    assert sorted(Path(name).suffix for name in left & names) == [".zarr"] * 3 + [".zip"] * 3
    assert check(store) == {label(number) for number in range(4)}


def test_stores_without_conditions_are_written_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusive, "_CONDITIONAL", set())
    url = f"memory://{tmp_path.name}/store.zarr"
    with pytest.warns(UserWarning, match="a store without conditional writes, where of two that write at once one may"):
        cd.append(DAYS[0], url, {"day": label(0)})
    with pytest.warns(UserWarning, match="let one process at a time write there"):
        assert not exclusive.create(Location.parse(url).child(FOLDER), "00000000.jsonl", b"other")
    assert cd.open_summary(url).day.values.tolist() == [label(0)]


def test_an_answer_that_is_lost_adds_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"memory://{tmp_path.name}/store.zarr"
    fs = Location.parse(url).fs
    write, lost = fs.pipe_file, []

    def losing(path: str, *arguments: object, **options: object) -> None:
        write(path, *arguments, **options)
        if path.endswith(".jsonl") and path not in lost:
            lost.append(path)
            raise TimeoutError

    monkeypatch.setattr(fs, "pipe_file", losing)
    for number in range(2):
        cd.append(DAYS[number], url, {"day": label(number)})
    assert len(lost) == 2
    assert PeriodStore.at(url).log().number == 2


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _turned(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("harm", [_cut, _turned, Path.unlink])
@pytest.mark.parametrize(
    "pattern", ["log/00000000.jsonl", "periods/*/*_count/c/0/0/0/0", "periods/*/*_count/zarr.json"]
)
def test_damage_is_told(pattern: str, harm: Callable[[Path], None], tmp_path: Path) -> None:
    for number in range(2):
        cd.append(DAYS[number], tmp_path / "store.zarr", {"day": label(number)})
    harm(min((tmp_path / "store.zarr").glob(pattern)))
    with pytest.raises(Damaged, match=r"\.zarr is (damaged|not whole)"):
        cd.open_summary(tmp_path / "store.zarr").load()
