"""Exit statuses: 1 says what was found and nothing else; output that nobody reads, or that cannot be written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.cli import main
from calibdask.errors import Unavailable
from calibdask.storage import open_store

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
ROWS = 300
SCORES = RNG.random(ROWS)
FRAME = pd.DataFrame(
    {"label": (RNG.random(ROWS) < SCORES).astype(int), "score": SCORES, "café–": ["né", "日本", "a"] * 100}
)
TROUBLE = [
    MemoryError("no memory"),
    Unavailable("no answer"),
    RecursionError("deep"),
    EOFError("no input"),
    TypeError(),
]


@pytest.fixture
def data(tmp_path: Path) -> str:
    FRAME.to_parquet(tmp_path / "d.parquet")
    return str(tmp_path / "d.parquet")


# Commands whose status 1 is a finding.
FINDERS = [["check", "--limit", "ece=0.2"], ["audit", "--features", "all"], ["verify"], ["watch"]]


@pytest.mark.parametrize(
    ("words", "error"), [*((words, TROUBLE[0]) for words in FINDERS), *((FINDERS[0], error) for error in TROUBLE[1:])]
)
def test_trouble_is_no_finding(
    words: list[str],
    error: Exception,
    data: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, *options = words
    receipt = tmp_path / "r.json"
    assert main(["check", data, "--limit", "ece=0.5", "--receipt", str(receipt), "--n-boot", "2"]) == 0
    capsys.readouterr()

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(open_store, "open_store", fail)
    inputs = [str(receipt), data] if command == "verify" else [data]
    assert main([command, *inputs, *options]) == 2
    assert capsys.readouterr().err.startswith("calibdask: ")


@pytest.mark.parametrize("page", ["deploy/README.md", "deploy/docs/shell.rst"])
def test_pages_name_the_commands_whose_status_1_is_a_finding(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").replace("``", "`").split())
    listed = [
        re.findall("`([a-z-]+)`", match) for match in re.findall("((?:`[a-z-]+`, )+`[a-z-]+` and `[a-z-]+`)", text)
    ]
    assert {words[0] for words in FINDERS} in [{*names} for names in listed]


def printed(arguments: list[str], stdout: int) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "calibdask", *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False, timeout=300)


def test_output_that_nobody_reads_is_neither_met_nor_broken(data: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = printed(["check", data, "--limit", "ece=0.5"], writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_output_that_cannot_be_written(data: str) -> None:
    with open("/dev/full", "wb") as full:
        done = printed(["check", data, "--limit", "ece=0.5"], full.fileno())
    assert done.returncode == 2
    assert done.stderr == b"calibdask: The standard output, or a connection, failed: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize(
    ("words", "stderr"),
    [
        ("check --bad", "2>/dev/full"),
        ("watch nothing.zarr --debug", "2>&-"),
    ],
)
def test_errors_that_cannot_be_printed_keep_their_status(words: str, stderr: str) -> None:
    """1 would say that a limit is broken, or an alarm."""
    command = f"{sys.executable} -m calibdask {words} {stderr}"
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=False, timeout=300).returncode == 2


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        ("evaluate DATA --metric ece --out e.json", "<&- >&- 2>&-"),
        ("--help", ">&-"),
    ],
)
def test_a_closed_output_fails_like_a_full_one(words: str, closed: str, data: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -m calibdask {words.replace('DATA', data)} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, timeout=300, cwd=tmp_path)
    failed = b"calibdask: The standard output, or a connection, failed: Bad file descriptor\n"
    assert (done.returncode, done.stderr) == (2, b"" if "2>" in closed else failed)


def test_characters_that_a_terminal_lacks_have_substitutes(data: str) -> None:
    arguments = ["check", data, "--limit", "ece=0.5", "--by", "café–"]
    arguments += ["--n-boot", "2"]
    code = f"from calibdask.cli import main; assert main({arguments}) == main({[*arguments, '--json']}) == 0"
    environment = os.environ | {"PYTHONIOENCODING": "cp437"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"")
    table, brace, document = done.stdout.decode("cp437").partition("\n{")
    assert "café-=\\u65e5\\u672c" in table
    where = [limit["where"] for limit in json.loads(brace + document)["limits"]]
    assert where == [{}, {"café–": "a"}, {"café–": "né"}, {"café–": "日本"}]
    assert float(cd.ece(FRAME["label"], FRAME["score"])) < 0.5
