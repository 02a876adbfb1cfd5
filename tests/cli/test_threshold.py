"""``calibdask threshold``: sentences, JSON and exit status, from rows and summaries."""

import json
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


def test_json_of_rows_and_of_a_summary(run: Run, rows: Path) -> None:
    assert run("summarize", rows, "--by", "country", "--out", rows.with_name("s.zarr"))[0] == 0
    documents = []
    for path in (rows, rows.with_name("s.zarr")):
        status, out, err = run("threshold", path, "--risk", "0.05", "--by", "country", "--json")
        assert (status, err) == (3, "")
        documents.append(json.loads(out))
    first, second = documents
    assert first["thresholds"] == second["thresholds"]
    expected = cd.threshold(LABELS, SCORES, 0.05, by={"country": COUNTRY})
    for place, record in enumerate(first["thresholds"]):
        here = expected.isel(country=place)
        assert record["by"] == {"country": str(here.country.values)}
        assert record["rows"] == int(here.rows)
        assert record["coverage"] == float(here.coverage)
        assert list(record["planned_coverage"]) == ["2", "5", "10", "inf"]
    assert first["thresholds"][2]["threshold"] is None
    assert {name: first[name] for name in ("format", "risk", "confidence", "least_rows", "rows")} == {
        "format": 1,
        "risk": 0.05,
        "confidence": 0.95,
        "least_rows": 59,
        "rows": 4000,
    }


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
