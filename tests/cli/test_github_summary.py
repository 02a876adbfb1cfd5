"""``--github``: results on the summary page of a job."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from calibdask.cli import github_summary


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    for name, of_model in (("old", scores), ("new", np.sqrt(scores))):
        labels = (np.random.default_rng(1).random(500) < scores).astype(int)
        pd.DataFrame({"label": labels, "score": of_model}).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def test_results_are_appended_as_markdown(run: Any, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = data / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv(github_summary.VARIABLE, str(summary))
    assert run("check", data / "new.csv", "--limit", "ece=0.01", "--n-boot", 20, "--github", "--json")[0] == 1
    assert run("evaluate", data / "old.csv", "--metric", "brier-score", "--github")[0] == 0
    assert run("evaluate", data / "old.csv", "--metric", "net-benefit", "--github")[0] == 0
    assert run("compare", data / "old.csv", data / "new.csv", "--n-boot", 20, "--github")[0] == 0
    text = summary.read_text()
    heads = [line for line in text.splitlines() if line.startswith("###")]
    assert text.startswith("before\n")
    assert heads[0] == "### Calibration of new"
    assert heads[1].startswith("### Calibration of ")
    assert heads[-1] == "### Comparison of models"
    assert "**Broken: 1 of 1 limit, with 500 rows.**" in text
    assert "| brier\\_score |" in text
    assert "These metrics are curves" in text


def test_it_is_refused_elsewhere_before_the_work(run: Any, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(github_summary.VARIABLE, raising=False)
    status, out, err = run("check", data / "absent.csv", "--limit", "ece=0.01", "--github")
    assert (status, out) == (2, "")
    assert "--github expects the environment variable GITHUB_STEP_SUMMARY" in err
    monkeypatch.setenv(github_summary.VARIABLE, str(data / "none" / "summary.md"))
    assert run("evaluate", data / "old.csv", "--github")[0] == 2


def test_long_results_are_cut_at_what_github_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv(github_summary.VARIABLE, str(summary))
    asked = github_summary.GithubSummary.asked(True)
    asked.append(lambda: "| a line of a table |\n" * 100_000)
    assert summary.stat().st_size <= 1024 * 1024
    assert summary.read_text().rstrip().endswith("The rest is too long for a job summary; --out FILE writes all.")
    # Nothing is added to a full one, of which GitHub would show nothing at all.
    before = summary.read_bytes()
    asked.append(lambda: "| a line of a table |\n" * 100)
    assert summary.stat().st_size <= 1024 * 1024
    assert summary.read_bytes().startswith(before)
