"""Stores of periods under kills and under several writers: every period is whole, none is there twice, none is lost."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from fsspec.implementations.local import LocalFileSystem

import calibdask as cd
from calibdask.errors import Damaged
from calibdask.storage import exclusive_create, leases
from calibdask.storage.location import Location
from calibdask.storage.period_log import FOLDER, PARTS
from calibdask.storage.period_store import PeriodStore
from tests.storage import kills
from tests.storage.earlier_versions import downgraded_periods
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
        number += 1 if number < 4 else 13
    assert sorted(set(seen), key=seen.index) == [(), (label(1),), (label(1), label(40)), (label(40), "2026-01")]
    assert check(store) == {label(1), label(40)}


OLD = 1_700_000_000


def of_another_machine(store: Path) -> None:
    """Rename what the only lease of a store belongs to: its writer is now a process that cannot be looked up."""
    (lease,) = (store / PARTS).glob("*.lease")
    for path in (store / PARTS).glob(f"{lease.stem}*"):
        path.rename(path.with_name(path.name.replace(lease.stem, "1-deadbeef-2-abc")))


def names(store: Path, pattern: str) -> set[str]:
    return {path.name for path in (store / PARTS).glob(pattern)}


def test_what_nobody_needs_goes_after_a_day(tmp_path: Path) -> None:
    store = tmp_path / "store.zarr"
    for number in range(3):
        cd.append(DAYS[number], store, {"day": label(number)})
    partial = store / FOLDER / ".1-2-3-4.partial"
    partial.touch()
    with killed_at(60), suppress(Killed):
        cd.append(DAYS[0], store, {"day": label(4)})
    of_another_machine(store)
    killed = names(store, "1-deadbeef*")
    assert {Path(name).suffix for name in killed} == {".lease", ".zarr"}
    before = names(store, "*") - killed
    cd.append(DAYS[0], store, {"day": label(0)}, replace="again")
    assert killed | before < names(store, "*")
    assert partial.exists()
    # A day later by the clock of the store; that of this machine is not asked.
    (record,) = (store / FOLDER).glob("*3.jsonl")
    for path in (store / PARTS / "1-deadbeef-2-abc.lease", record, partial):
        os.utime(path, (OLD, OLD))
    cd.append(DAYS[0], store, {"day": label(3)})
    assert not names(store, "1-deadbeef*.zarr") | names(store, "*.lease")
    assert not partial.exists()
    assert len(names(store, "*.zarr")) == len(names(store, "*.zip")) == 4
    assert check(store) == {label(number) for number in range(4)}


def test_files_that_another_user_owns_keep_their_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it they would look like those of a record that was lost, and nobody could read the store."""
    store = tmp_path / "store.zarr"
    cd.append(DAYS[0], store, {"day": label(0)})
    with killed_at(60), suppress(Killed):
        cd.append(DAYS[0], store, {"day": label(4)})
    of_another_machine(store)
    os.utime(store / PARTS / "1-deadbeef-2-abc.lease", (OLD, OLD))
    remove, write = LocalFileSystem.rm, LocalFileSystem.pipe_file

    def rm(self: LocalFileSystem, path: str, **options: object) -> None:
        if path.endswith(".zarr"):
            raise PermissionError(path)
        remove(self, path, **options)

    monkeypatch.setattr(LocalFileSystem, "rm", rm)
    for number in (1, 2):
        cd.append(DAYS[number], store, {"day": label(number)})
        assert {Path(name).suffix for name in names(store, "1-deadbeef*")} == {".lease", ".taken", ".zarr"}
    assert check(store) == {label(number) for number in range(3)}

    # A third user cannot write what the second one has written.
    def pipe_file(self: LocalFileSystem, path: str, content: bytes, **options: object) -> None:
        if path.endswith("1-deadbeef-2-abc.taken"):
            raise PermissionError(path)
        write(self, path, content, **options)

    monkeypatch.setattr(LocalFileSystem, "pipe_file", pipe_file)
    cd.append(DAYS[0], store, {"day": label(3)})
    monkeypatch.undo()
    cd.append(DAYS[2], store, {"day": label(5)})
    assert not names(store, "1-deadbeef*.zarr") | names(store, "*.lease")


def test_clocks_of_writers_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease that is renewed is not swept, though the name of its writer seems to be years old."""
    store = tmp_path / "store.zarr"
    cd.append(DAYS[0], store, {"day": label(0)})
    with killed_at(60), suppress(Killed):
        cd.append(DAYS[0], store, {"day": label(4)})
    of_another_machine(store)
    monkeypatch.setattr(time, "time", lambda: 4e9)
    cd.append(DAYS[1], store, {"day": label(1)})
    assert names(store, "1-deadbeef*.zarr")


def test_leases_are_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_RENEWAL_SECONDS", 0.01)
    with leases.Lease(Location.parse(str(tmp_path))) as lease:
        path = tmp_path / f"{lease.writer}.lease"
        os.utime(path, (OLD, OLD))
        while path.stat().st_mtime == OLD:
            time.sleep(0.01)
        assert lease.is_held
    assert not path.exists()


@pytest.mark.parametrize("moment", ["before its record", "after its record"])
def test_a_writer_that_was_taken_for_dead_writes_again(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store.zarr"
    cd.append(DAYS[0], store, {"day": label(0)})
    held, looks = leases.Lease.is_held.fget, []
    assert held is not None

    def is_held(lease: leases.Lease) -> bool:
        looks.append(lease)
        if len(looks) == (1 if moment == "before its record" else 2):
            # What a sweep does that has not seen the record.
            (store / PARTS / f"{lease.writer}.taken").touch()
            shutil.rmtree(store / PARTS / f"{lease.writer}.0.zarr")
        return bool(held(lease))

    monkeypatch.setattr(leases.Lease, "is_held", property(is_held))
    cd.append(DAYS[1], store, {"day": label(1)})
    assert len({lease.writer for lease in looks}) == 2
    assert check(store) == {label(0), label(1)}


@pytest.mark.parametrize("lost", ["the record", "the record and its numbers"])
def test_a_last_record_that_is_lost_is_noticed_and_can_be_given_up(lost: str, tmp_path: Path) -> None:
    store = tmp_path / "store.zarr"
    for number in range(3):
        cd.append(DAYS[number], store, {"day": label(number)})
    (store / FOLDER / "00000002.jsonl").unlink()
    if lost == "the record and its numbers":
        log = (store / FOLDER / "00000001.jsonl").read_text() + (store / FOLDER / "00000000.jsonl").read_text()
        for path in (store / PARTS).glob("*.zarr"):
            if path.name not in log:
                shutil.rmtree(path)
                path.with_suffix(".zip").unlink()
    for attempt in (lambda: cd.open_summary(store), lambda: cd.append(DAYS[0], store, {"day": label(7)})):
        with pytest.raises(Damaged, match=r"the last records of log/ are missing, 00000002\.jsonl among them"):
            attempt()
    cd.append(DAYS[2], store, {"day": label(2)}, replace="its record was lost")
    assert check(store) == {label(number) for number in range(3)}
    cd.append(DAYS[0], store, {"day": label(3)})
    assert len(check(store)) == 4


def test_a_damaged_period_is_replaced_or_dropped(tmp_path: Path) -> None:
    for number, mend in ((0, "replace"), (2, "drop")):
        store = tmp_path / f"{mend}.zarr"
        for day in range(3):
            cd.append(DAYS[day], store, {"day": label(day)})
        period = PeriodStore.at(str(store)).log().periods[label(number)]
        shutil.rmtree(store / period.folder)
        (store / period.totals).unlink()
        others = [label(day) for day in range(3) if day != number]
        opened = cd.open_summary(store)
        assert len(opened.sel(day=others).load().day) == 2
        with pytest.raises(Damaged, match=rf"The other periods can still be read: .* {label(number)} again"):
            opened.load()
        cd.append(DAYS[0], store, {"day": label(3)})
        if mend == "replace":
            cd.append(DAYS[number], store, {"day": label(number)}, replace="files were lost")
        else:
            cd.drop_periods(store, [label(number)], "files were lost")
        assert check(store) == {*others, label(3), *([label(number)] if mend == "replace" else [])}


def test_stores_without_conditions_are_written_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusive_create, "_CONDITIONAL", set())
    url = f"memory://{tmp_path.name}/store.zarr"
    with pytest.warns(UserWarning, match="a store without conditional writes, where concurrent writers may"):
        cd.append(DAYS[0], url, {"day": label(0)})
    with pytest.warns(UserWarning, match="let only one process at a time write there"):
        assert not exclusive_create.create(Location.parse(url).child(FOLDER), "00000000.jsonl", b"other")
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


@pytest.mark.parametrize(
    ("pattern", "harm"),
    [
        ("log/00000000.jsonl", _cut),
        ("periods/*/*_count/c/0/0/0/0", _turned),
        ("periods/*/*_count/c/0/0/0/0", Path.unlink),
        ("periods/*/*_count/zarr.json", _turned),
    ],
)
def test_damage_is_told(pattern: str, harm: Callable[[Path], None], tmp_path: Path) -> None:
    for number in range(2):
        cd.append(DAYS[number], tmp_path / "store.zarr", {"day": label(number)})
    harm(min((tmp_path / "store.zarr").glob(pattern)))
    with pytest.raises(Damaged, match=r"\.zarr is (damaged|incomplete)"):
        cd.open_summary(tmp_path / "store.zarr").load()


def test_stores_of_earlier_versions_are_read_and_go_on(tmp_path: Path) -> None:
    store = tmp_path / "store.zarr"
    for number in range(3):
        cd.append(DAYS[number], store, {"day": label(number)})
    downgraded_periods(store)
    assert check(store) == {label(number) for number in range(3)}
    cd.append(DAYS[0], store, {"day": label(3)})
    cd.append(DAYS[1], store, {"day": label(1)}, replace="again")
    assert check(store) == {label(number) for number in range(4)}
    # From the first new record on the store has a head.
    (store / FOLDER / "00000004.jsonl").unlink()
    with pytest.raises(Damaged, match="the last records of log/ are missing"):
        cd.open_summary(store)
