"""Claims of processes, and files that one of several processes replaces."""

import errno
import os
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from calibdask.storage import atomic_replace, claims
from calibdask.storage.atomic_replace import Output, owned_name
from calibdask.storage.claims import current_text, is_over, replace_text
from calibdask.storage.location import Location

WRITERS = 8


@pytest.fixture(params=["local", "without links", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Output:
    if request.param == "memory":
        return Location.parse(f"memory://{uuid.uuid4().hex}/state.json")
    if request.param == "without links":

        def refused(*names: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refused)
    return tmp_path / "state.json"


def named(process: int, begun: float, machine: str = "") -> str:
    return f"{int(begun):x}-{machine or atomic_replace.machine_of()}-{process}-0badcafe"


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        return ended.pid


def test_claims_of_this_machine_end_with_their_process() -> None:
    now = time.time()
    assert not is_over(owned_name())
    assert is_over(named(ended_process(), now))
    # Another process has got the number since: the first one of a container always has the same.
    assert is_over(named(os.getpid(), now - 1e6))
    assert is_over("")


def test_claims_of_other_machines_count_for_an_hour() -> None:
    now = time.time()
    assert not is_over(named(ended_process(), now - 3000, "there"))
    assert is_over(named(os.getpid(), now - 4000, "there"))


def test_one_of_several_replaces_a_text(target: Output) -> None:
    before = None
    for turn in range(5):
        ready = Barrier(WRITERS)

        def write(number: int, turn: int = turn, before: str | None = before, ready: Barrier = ready) -> str:
            text = f"{turn}: {number}"
            ready.wait()
            return text if replace_text(target, before, text) else ""

        with ThreadPoolExecutor(WRITERS) as writers:
            written = [text for text in writers.map(write, range(WRITERS)) if text]
        assert written == [current_text(target)]
        before = written[0]
    assert not replace_text(target, "another text", "new")
    assert replace_text(target, before, "new")


def test_nothing_is_left_beside_a_file(tmp_path: Path) -> None:
    assert replace_text(tmp_path / "state.json", None, "one")
    assert not replace_text(tmp_path / "state.json", None, "two")
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_killed_writer_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "state.json"
    killed = [named(ended_process(), time.time()), named(ended_process(), time.time())]
    with monkeypatch.context() as patch:
        for name in killed:

            def stopped(target: Output, text: str) -> None:
                raise KeyboardInterrupt

            patch.setattr(claims, "owned_name", lambda name=name: name)
            patch.setattr(claims, "write_text", stopped)
            patch.setattr(Path, "unlink", lambda *given, **options: None)
            patch.setattr(type(Location.parse(str(target)).fs), "rm_file", lambda *given: None)
            with pytest.raises(KeyboardInterrupt):
                replace_text(target, None, "lost")
    assert len([*tmp_path.glob(".state.json.claim-*")]) == len(killed)
    assert replace_text(target, None, "one")
    assert target.read_text() == "one"
    assert not [*tmp_path.glob(".state.json.claim-*")]


def test_a_running_writer_is_not_disturbed(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    _, stem = claims._claims_of(target)
    name = f"{stem}{claims.content_hash(b'')}.0"
    (tmp_path / name).write_text(owned_name())
    assert not replace_text(target, None, "one")
    assert (tmp_path / name).exists()
    assert not target.exists()
