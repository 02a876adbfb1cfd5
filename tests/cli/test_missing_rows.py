"""Rows without a label at the shell, and columns found by their names: said on stderr, counted in the result."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from calibdask.cli import main

ROWS = 60
SCORES = np.linspace(0.01, 0.99, ROWS)
LABELS = (np.arange(ROWS) % 3 == 0).astype(float)


@pytest.fixture
def pattern(tmp_path: Path) -> str:
    frame = pd.DataFrame({"target": LABELS, "prob": SCORES})
    frame.loc[7, "target"] = np.nan
    for part in range(2):
        frame[part * 30 : part * 30 + 30].to_parquet(tmp_path / f"part{part}.parquet", index=False)
    return str(tmp_path / "*.parquet")


@pytest.mark.filterwarnings("always:.*by their names:UserWarning")
def test_rows_that_are_left_out(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", pattern, "--metric", "brier", "--json"]) == 2
    captured = capsys.readouterr()
    assert "read labels from 'target' and scores from 'prob', by their names" in captured.err
    assert "the first is row 7 with label nan. Drop the rows whose label is NaN" in captured.err
    assert main(["evaluate", pattern, "--metric", "brier", "--json", "--skip-missing"]) == 0
    captured = capsys.readouterr()
    assert "calibdask: left out 1 of 60 rows with missing values (label 1)\n" in captured.err
    result = json.loads(captured.out)
    assert (result["rows"], result["rows_skipped"]) == (59, 1)
    expected = cd.brier_score(np.delete(LABELS, 7), np.delete(SCORES, 7))
    assert next(iter(result["metrics"].values()))["value"] == expected


def test_a_column_called_segment_keeps_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Audits have a dimension of this name, so that results add an underscore; people read the name of the column."""
    path = str(tmp_path / "rows.csv")
    segment = np.array(["card", "loan", "sme"])[np.arange(ROWS) // 2 % 3]
    pd.DataFrame({"label": LABELS, "score": SCORES, "segment": segment}).to_csv(path, index=False)
    store = str(tmp_path / "s.nc")
    assert main(["summarize", path, "--by", "segment", "--out", store]) == 0
    for data in (path, store):
        assert main(["evaluate", data, "--by", "segment", "--metric", "brier"]) == 0
    gate = ["--limit", "mean-gap=0.9", "--slice-limit", "mean-gap=0.9", "--by", "segment"]
    assert main(["check", path, *gate]) in (0, 3)
    assert main(["shrink", path, "--by", "segment"]) == 0
    out = capsys.readouterr().out.replace(str(tmp_path), "")
    assert "segment=sme" in out
    assert "segment_" not in out


def test_weights_are_named_and_metrics_without_them_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "rows.csv")
    pd.DataFrame({"label": LABELS, "score": SCORES, "ead": 1000 + SCORES, "g": np.arange(ROWS) % 2}).to_csv(path)
    words = ["evaluate", path, "--label", "label", "--score", "score", "--weight", "ead", "--metric"]
    assert main([*words, "brier", "--metric", "grade-tests", "--by", "g"]) == 0
    out = capsys.readouterr().out
    assert "weighted by ead: all numbers but the rows use the weights" in out
    assert "grade_tests is left out: it does not support weights" in out
    assert main([*words, "brier"]) == 0
    assert "weighted events" in capsys.readouterr().out
    assert main([*words, "grade-tests"]) == 2
    assert "GradeTests counts rows and defaults and does not support sample_weight" in capsys.readouterr().err


def test_tests_of_grades_are_shown_by_grade(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.csv")
    pd.DataFrame({"label": LABELS, "score": SCORES}).to_csv(path, index=False)
    assert main(["evaluate", path, "--metric", "grade-tests(edges=[0, 0.3, 0.6, 1])"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (head,) = [number for number, line in enumerate(lines) if line.startswith("grade  binomial")]
    grades = [line.split() for line in lines[head + 2 : head + 5]]
    counts = np.histogram(SCORES, [0, 0.3, 0.6, 1])[0].tolist()
    assert [line[0] for line in grades] == ["0", "1", "2"]
    assert [int(line[6]) for line in grades] == counts


def test_ignored_rows_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, store = str(tmp_path / "void.npz"), str(tmp_path / "summary.zarr")
    np.savez(path, labels=np.where(np.arange(ROWS) < 7, 255, LABELS), scores=SCORES)
    assert main(["evaluate", path, "--metric", "ece", "--json", "--ignore-label", "255"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "calibdask: left out 7 of 60 rows, whose label is 255\n"
    result = json.loads(captured.out)
    assert (result["rows"], result["rows_ignored"]) == (53, 7)
    assert result["metrics"]["ece"]["value"] == cd.ece(LABELS[7:], SCORES[7:])
    assert main(["summarize", path, "--ignore-label", "255", "--out", store]) == 0
    assert capsys.readouterr().err == "calibdask: left out 7 of 60 rows, whose label is 255\n"
    assert main(["evaluate", store, "--ignore-label", "255"]) == 2
    assert "--ignore-label has no effect" in capsys.readouterr().err


@pytest.mark.usefixtures("without_recalibration")
def test_every_class_of_independent_labels_is_reported(tmp_path: Path) -> None:
    rng, page = np.random.default_rng(0), tmp_path / "page.html"
    scores = rng.dirichlet(np.ones(3), ROWS)
    np.savez(tmp_path / "one_hot.npz", labels=np.eye(3, dtype=np.int8)[rng.integers(0, 3, ROWS)], scores=scores)
    words = ["--task", "multilabel", "--labels", "tit,owl,auk", "--out", str(page)]
    assert main(["report", str(tmp_path / "one_hot.npz"), *words]) == 0
    text = page.read_text(encoding="utf-8")
    assert all(f"one_hot {name}" in text for name in ("tit", "owl", "auk"))
