"""The options that say how arrays are read: tasks, logits, names of classes, rows to ignore."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibdask as cd
from tests.cli.sample_rows import LABELS, SCORES, Run

pytestmark = pytest.mark.usefixtures("without_recalibration")

ONE_HOT = np.eye(3, dtype=np.int8)[LABELS]
LOGITS = np.log(SCORES)
NAMES = np.array(["tit", "owl", "auk"])


def value_of(run: Run, path: Path, *options: str) -> Any:
    status, out, err = run("evaluate", path, "--metric", "ece", "--json", *options)
    assert status == 0, err
    return json.loads(out)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "one_hot.npz", labels=ONE_HOT, scores=SCORES)
    np.savez(tmp_path / "logits.npz", labels=LABELS, scores=LOGITS)
    np.savez(tmp_path / "void.npz", labels=np.where(np.arange(LABELS.size) < 40, 255, LABELS), scores=SCORES)
    outcomes, scores = np.array(["ham", "spam"])[(LABELS > 0).astype(int)], 1 - SCORES[:, 0]
    pd.DataFrame({"label": outcomes, "score": scores}).to_csv(tmp_path / "mail.csv", index=False)
    np.savez(tmp_path / "names.npz", labels=NAMES[LABELS], scores=SCORES)
    return tmp_path


def test_same_shapes_are_asked_back(run: Run, folder: Path) -> None:
    status, out, err = run("evaluate", folder / "one_hot.npz")
    assert (status, out) == (2, "")
    assert "which is ambiguous; set --task" in err
    assert "--task" in err


def test_tasks(run: Run, folder: Path) -> None:
    expected = cd.ece(LABELS, SCORES)
    assert value_of(run, folder / "one_hot.npz", "--task", "multiclass")["metrics"]["ece"]["value"] == expected
    several = value_of(run, folder / "one_hot.npz", "--task", "multilabel", "--labels", "tit,owl,auk")["slices"]
    found = {stratum["by"]["class"]: stratum["metrics"]["ece"]["value"] for stratum in several}
    assert found == {name: cd.ece(ONE_HOT[:, number], SCORES[:, number]) for number, name in enumerate(NAMES)}


def test_ignored_rows_are_said(run: Run, folder: Path) -> None:
    status, out, err = run("evaluate", folder / "void.npz", "--metric", "ece", "--json", "--ignore-label", "255")
    assert status == 0
    assert err == "calibdask: left out 40 of 400 rows, whose label is 255\n"
    result = json.loads(out)
    assert (result["rows"], result["rows_ignored"]) == (360, 40)
    assert result["metrics"]["ece"]["value"] == cd.ece(LABELS[40:], SCORES[40:])
    status, _, err = run("summarize", folder / "void.npz", "--ignore-label", "255", "--out", folder / "summary.zarr")
    assert (status, err) == (0, "calibdask: left out 40 of 400 rows, whose label is 255\n")
    status, _, err = run("evaluate", folder / "summary.zarr", "--ignore-label", "255")
    assert status == 2
    assert "--ignore-label has no effect" in err


def test_every_class_of_independent_labels_is_reported(run: Run, folder: Path) -> None:
    page = folder / "page.html"
    status, _, err = run(
        "report", folder / "one_hot.npz", "--task", "multilabel", "--labels", "tit,owl,auk", "--out", page
    )
    assert status == 0, err
    text = page.read_text(encoding="utf-8")
    assert all(f"one_hot {name}" in text for name in NAMES)
