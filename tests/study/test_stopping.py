"""Runs that are told to stop, and stores that fail."""

import errno
import signal
import time
from pathlib import Path

import pytest

import calibdask as cd
from calibdask.cli.stopping import stopped_by_term
from calibdask.errors import Unavailable
from calibdask.storage.location import Location
from calibdask.storage.retry import with_retries
from calibdask.study.cube import Cube
from tests.study.cubes import LENGTHS, computed, raise_it
from tests.study.sample_study import Walks


def test_a_run_that_is_to_stop_begins_no_more(tmp_path: Path) -> None:
    log = tmp_path / "log"
    study = Walks(lengths=LENGTHS, log=str(log), seconds=0.02)
    counts = cd.run(study, tmp_path / "w.zarr", "threads:2", stop=lambda: len(computed(log)) >= 3)
    assert 3 <= counts.computed == counts.done == len(computed(log)) < 14
    assert cd.run(study, tmp_path / "w.zarr").done == 14


def test_stores_that_fail_now_and_then_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("calibdask.storage.retry.time.sleep", pauses.append)
    errors = [OSError(errno.EIO, "hiccup"), TimeoutError("slow"), ConnectionResetError("cut")]

    def call() -> int:
        if errors:
            raise errors.pop()
        return 7

    assert with_retries(call) == 7
    assert pauses == sorted(pauses)
    assert len(pauses) == 3
    for final in (OSError(errno.ENOSPC, "full"), FileNotFoundError("gone"), PermissionError("no"), ValueError("bad")):
        pauses.clear()
        with pytest.raises(type(final)):
            with_retries(lambda final=final: raise_it(final))
        assert not pauses
    with pytest.raises(Unavailable, match=r"does not respond .OSError: .* for ever"):
        with_retries(lambda: raise_it(OSError(errno.EIO, "for ever")))
    assert 20 < sum(pauses) < 60


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.EBUSY, "Service Unavailable"), Unavailable),
        (TimeoutError("slow"), Unavailable),
        (OSError(errno.EINVAL, "Invalid range"), ValueError),
        (ValueError("damaged"), ValueError),
    ],
)
def test_reading_distinguishes_outages_from_damage(error: Exception, expected: type[Exception]) -> None:
    remote, here = Location.parse("memory://bucket/rows.parquet"), Location.parse("rows.parquet")
    with pytest.raises(expected), remote.reading():
        raise error
    # A file on a disk does not come back by waiting.
    with pytest.raises(ValueError, match="cannot be read"), here.reading():
        raise error


def test_a_store_that_cannot_be_written_halts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Walks()
    cd.run(study, tmp_path / "w.zarr", shard=None, stop=lambda: True)
    monkeypatch.setattr(Cube, "write", lambda *_: raise_it(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(Unavailable, match=r"w\.zarr cannot be written: .*No space left.*call run again"):
        cd.run(study, tmp_path / "w.zarr")
    monkeypatch.undo()
    assert cd.run(study, tmp_path / "w.zarr").done == 6


def test_a_second_term_is_another_wish_only_later(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[int] = []
    monkeypatch.setattr("calibdask.cli.stopping.SECONDS_OF_ONE_WISH", 0.2)
    kept = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    try:
        with stopped_by_term() as stop:
            assert not stop()
            for _ in range(2):
                signal.raise_signal(signal.SIGTERM)
            assert stop()
            assert not got
            time.sleep(0.25)
            with pytest.raises(SystemExit) as ended:
                signal.raise_signal(signal.SIGTERM)
            assert ended.value.code == 143
        assert not got
    finally:
        assert signal.signal(signal.SIGTERM, kept) is not kept


def test_what_is_to_be_ignored_stays_ignored() -> None:
    kept = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_term() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, kept)


def test_term_ends_what_does_not_ask_yet() -> None:
    closed: list[bool] = []

    def work() -> None:
        with stopped_by_term():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                closed.append(True)

    with pytest.raises(SystemExit) as ended:
        work()
    assert (ended.value.code, closed) == (143, [True])
