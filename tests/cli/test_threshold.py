"""``calibdask threshold``: sentences, JSON and exit status, from rows and summaries."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from tests.cli.sample_rows import Run

RNG = np.random.default_rng(6)
SCORES = RNG.beta(0.3, 0.3, 4000)
LABELS = (RNG.random(4000) < SCORES).astype(int)
COUNTRY = np.repeat(["be", "fr", "lu"], [2500, 1490, 10])


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "scored.parquet"
    pd.DataFrame({"label": LABELS, "score": SCORES, "country": COUNTRY}).to_parquet(path)
    return path


def test_sentences(run: Run, rows: Path) -> None:
    status, out, err = run("threshold", rows, "--risk", "0.05")
    expected = cd.threshold(LABELS, SCORES, 0.05)
    assert (status, err) == (0, "")
    assert " ".join(out.split()).startswith(expected.sentence.item())
    border = float(expected.threshold)
    either = f"(scores above {border:.6g} or below {1 - border:.6g})"
    assert " ".join(out.split()).startswith(f"Predictions with a confidence above {border:.6g} {either}")
    assert run("threshold", rows, "--risk", "0.05", "--setting", "1")[1].startswith("Predictions with a score above 0.")
    status, out, _ = run("threshold", rows, "--risk", "0.05", "--by", "country")
    assert status == 3
    assert [line.partition(":")[0] for line in out.splitlines() if ":" in line[:12]] == [
        "country be",
        "country fr",
        "country lu",
    ]
    assert "rows without an error; there are 10." in " ".join(out.split())


BAD = [
    (["rows"], "Missing option '--risk'"),
    (["rows", "--risk", "5"], "risk expects a number between 0 and 1"),
    (["rows", "--risk", "0.05", "--confidence", "1"], "confidence expects a number between 0 and 1"),
    (["rows", "--risk", "0.05", "--weight", "score"], "No such option '--weight'"),
    (["rows", "--risk", "0.05", "--by", "town"], "town"),
    (["absent.parquet", "--risk", "0.05"], "absent.parquet"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_use(arguments: list[str], message: str, run: Run, rows: Path) -> None:
    given = [rows if word == "rows" else word for word in arguments]
    status, out, err = run("threshold", *given)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
