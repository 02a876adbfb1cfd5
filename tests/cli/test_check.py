"""``calibdask check``."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from calibdask.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check")
    rng = np.random.default_rng(0)
    scores, country = rng.random(8000), rng.choice(["at", "fr"], 8000)
    labels = (rng.random(8000) < np.where(country == "fr", scores**1.5, scores)).astype(int)
    pd.DataFrame({"label": labels, "score": scores, "country": country}).to_parquet(folder / "new.parquet")
    pd.DataFrame({"label": labels, "score": scores**2}).to_parquet(folder / "old.parquet")
    (folder / "limits.toml").write_text('by = ["country"]\n[limits]\nece = 0.2\n[slice-limits]\nece = 0.04\n')
    return folder


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> tuple[int, str, str]:
        status = main(["check", *map(str, words)])
        return status, *capsys.readouterr()

    return run


def test_exit_status_says_the_decision(folder: Path, run: Run) -> None:
    data = folder / "new.parquet"
    assert run(data, "--limit", "ece=0.2")[0] == 0
    assert run(data, "--limit", "ece=0.01")[0] == 1
    # A number alone is one of the ECE, as for a report.
    assert [run(data, "--limit", limit)[0] for limit in ("0.2", "0.01")] == [0, 1]
    assert run(data, "--limit", "mean-gap=0.1", "--limit", "ece=0.048")[0] == 3
    assert run(data, "--limits", folder / "limits.toml")[0] == 1
    # An option replaces the limit of the file.
    assert run(data, "--limits", folder / "limits.toml", "--slice-limit", "ece=0.3")[0] == 0


def test_files_of_decisions(folder: Path, tmp_path: Path, run: Run) -> None:
    outs = [tmp_path / name for name in ("gate.md", "gate.xml", "gate.json")]
    words = [word for out in outs for word in ("--out", out)]
    status, said, _ = run(folder / "new.parquet", "--limits", folder / "limits.toml", *words)
    assert status == 1
    assert "country=fr" in said.splitlines()[4]
    assert "**Broken: 1 of 3 limits" in outs[0].read_text()
    assert ElementTree.parse(outs[1]).getroot().attrib["failures"] == "1"
    assert json.loads(outs[2].read_text())["outcome"] == "broken"
    status, _, said = run(folder / "new.parquet", "--limit", "ece=0.2", "--out", outs[0])
    assert status == 2
    assert "exists" in said


def test_baseline(folder: Path, run: Run) -> None:
    words = (folder / "new.parquet", "--baseline", folder / "old.parquet", "--not-worse")
    assert run(*words, "log-loss(clip=0.001)=0.001")[0] == 0
    swapped = (folder / "old.parquet", "--baseline", folder / "new.parquet", "--not-worse")
    assert run(*swapped, "log-loss(clip=0.001)=0.001")[0] == 1
    # Without a bound nothing is decided.
    assert run(*words, "log-loss=0.001")[0] == 3
    assert run(*words[:-1])[0] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "check expects limits"),
        (("--limit", "ece"), "a metric and a number"),
        (("--limit", "ecx=1"), "no metric"),
        (("--limit", "3"), "a fraction between 0 and 1"),
        (("--limits", "missing.toml"), "cannot be read"),
        (("--slice-limit", "ece=0.1"), "no effect without --by"),
        (("--limit", "ece=0.1", "--out", "a.png"), "a.png"),
        (("--limit", "ece=0.1", "--confidence", "3"), "between 0 and 1"),
    ],
)
def test_misuse(words: tuple[str, ...], said: str, folder: Path, run: Run) -> None:
    status, out, line = run(folder / "new.parquet", *words)
    assert (status, out) == (2, "")
    assert said in line
    assert line.count("\n") == 1
