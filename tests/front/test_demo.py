"""The demonstration, quick with two classifiers, and whole in the heavy run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from sklearn.metrics import brier_score_loss, log_loss

import calibdask as cd
from calibdask import demo
from calibdask.cli import main
from calibdask.storage.open_store import read_rows


def two(classifiers: dict[str, Any]) -> dict[str, Any]:
    return {name: classifiers[name] for name in ("naive-bayes", "logistic-regression")}


# The panel of saturated scores, as those of naive Bayes are, says so.
@pytest.mark.filterwarnings("ignore:The bandwidth 'silverman' is below:UserWarning")
def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    few = two(demo._classifiers())
    monkeypatch.setattr(demo, "_classifiers", lambda: few)
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 100
    folder = Path("calibdask-demo")
    assert sorted(path.name for path in folder.iterdir()) == ["breast-cancer.html", "digits.html", "predictions.zarr"]
    page = (folder / "digits.html").read_text()
    assert "Handwritten digits" in page
    assert "naive-bayes" in page
    store = zarr.open_group(folder / "predictions.zarr", mode="r")
    assert store.metadata.zarr_format == 3
    assert {name: array.nchunks for name, array in store["digits/naive-bayes"].arrays()} == {"labels": 18, "scores": 18}
    # The command that is recommended, and the figures in the table, are those of the store.
    command = next(line for line in out.splitlines() if line.startswith("Try it yourself")).split("calibdask ", 1)[1]
    assert main(command.split()) == 0
    recommended = capsys.readouterr().out
    table = read_rows(str(folder / "predictions.zarr/digits/naive-bayes"))
    error = cd.ece(table.labels, table.scores)
    assert f"{error:.3f}" in recommended
    assert f"{error:.3f}" in out
    labels, scores = (
        np.asarray(store["breast-cancer/naive-bayes/labels"]),
        np.asarray(store["breast-cancer/naive-bayes/scores"]),
    )
    assert f"{brier_score_loss(labels, scores):.3f}" in out
    assert f"{log_loss(labels, scores, labels=[0, 1]):.3f}" in out
    # How many rows a model got right is said of that model.
    assert out.count("1,529") == 1
    # Once more in the same folder, as its steps are told.
    steps: list[str] = []
    done = demo.run(folder, steps.append)
    assert (steps[0], steps[-1]) == ("digits: naive-bayes", "evaluating breast-cancer")
    assert done.results["digits"]["model"].values.tolist() == ["naive-bayes", "logistic-regression"]
    assert done.chunks == {"digits": 36, "breast-cancer": 12}


def test_foreign_folder_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "predictions.zarr").mkdir()
    (tmp_path / "predictions.zarr" / "mine.txt").write_text("mine")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "already exists and has another type" in capsys.readouterr().err
    assert (tmp_path / "predictions.zarr" / "mine.txt").read_text() == "mine"


@pytest.mark.heavy
def test_whole_demo(tmp_path: Path) -> None:
    assert main(["demo", "--out", str(tmp_path)]) == 0
