"""The walkthroughs run, and their statements are true."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures of the walkthroughs expect matplotlib, of the extra dev")

from experiments.walkthrough.__main__ import SCRIPTS, cells, run

KEPT = Path(__file__).parents[2] / "experiments" / "walkthrough" / "results"
PICTURES = {"portfolio": ("portfolio-bins.png",), "walkthrough": ("models.png", "curve.png", "calibrated.png")}

Walked = Callable[[str], tuple[dict[str, Any], Path]]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    done: dict[str, tuple[dict[str, Any], Path]] = {}

    def once(script: str) -> tuple[dict[str, Any], Path]:
        if script not in done:
            folder = tmp_path_factory.mktemp(script)
            done[script] = run(script, folder), folder
        return done[script]

    return once


@pytest.fixture(scope="module")
def digits(walked: Walked) -> dict[str, Any]:
    return walked("walkthrough")[0]


@pytest.fixture(scope="module")
def portfolio(walked: Walked) -> dict[str, Any]:
    return walked("portfolio")[0]


def test_calibrating_takes_most_of_the_error(digits: dict[str, Any]) -> None:
    before, after = digits["before"], digits["after"]
    assert before.ece_low > 0.2
    assert after.ece < before.ece / 5
    assert after.ece_low == 0
    assert after.brier_score_high < before.brier_score_low
    assert before.log_loss < after.log_loss
    # Some calibrated scores are exactly 0 or 1, and the loss of a wrong one is unbounded.
    assert np.isnan(after.log_loss_low)


def test_the_calibration_error_alone_chooses_the_wrong_model(digits: dict[str, Any]) -> None:
    compared = digits["compared"]
    assert compared.smooth_ece_difference_high < 0 < compared.brier_score_difference_low
    parts = digits["parts"]
    assert parts.smooth_ece["naive Bayes"] < parts.smooth_ece["random forest"]
    assert parts.corp_discrimination["naive Bayes"] < parts.corp_discrimination["random forest"]


def test_only_the_calibrated_forest_passes_for_calibrated(digits: dict[str, Any]) -> None:
    forest, bayes, calibrated = digits["tested"].skce_test_pvalue.values
    assert max(forest, bayes) < 0.01
    assert calibrated > 0.05


def test_the_candidate_is_better_though_not_better_calibrated(portfolio: dict[str, Any]) -> None:
    compared = portfolio["compared"]
    assert compared.log_loss_difference_high < 0
    assert compared.smooth_ece_difference_low < 0 < compared.smooth_ece_difference_high


def test_what_was_planted_is_found(portfolio: dict[str, Any]) -> None:
    audit, last = portfolio["audit"], portfolio["last"]
    assert audit.segment.values[audit.described.values].tolist() == ["channel = broker, age <= 31"]
    assert last.region.values[last.found.values].tolist() == ["south"]
    assert str(last.since.sel(region="south").values)[:7] == "2025-01"


def test_the_change_is_within_the_south(portfolio: dict[str, Any]) -> None:
    change = portfolio["change"]
    assert change.region.values[change.within.values.argmax()] == "south"
    assert abs(change.mix).max() < 0.05 * change.within.max()


def test_the_map_moves_what_was_planted(portfolio: dict[str, Any]) -> None:
    assert set(portfolio["mended"].segments_) == {"channel = broker, age <= 31", "region = south"}
    label, scores = portfolio["fresh"].default, portfolio["scores"]
    losses = {name: portfolio["cd"].log_loss(label, mapped) for name, mapped in scores.items()}
    assert sorted(losses, key=lambda name: losses[name]) == ["where off", "by region", "one map", "as it is"]


def test_only_the_mended_candidate_ships(portfolio: dict[str, Any]) -> None:
    assert portfolio["outcomes"] == {"as it is": "broken", "where off": "met"}


@pytest.mark.parametrize("script", SCRIPTS)
def test_page_and_pictures(script: str, walked: Walked) -> None:
    folder = walked(script)[1]
    page = (folder / f"{script}.md").read_text()
    for picture in PICTURES[script]:
        assert f"({picture})" in page
        assert (folder / picture).stat().st_size > 10_000
    assert sorted(path.name for path in folder.iterdir()) == sorted([*PICTURES[script], f"{script}.md"])


@pytest.mark.parametrize("script", SCRIPTS)
def test_cells_are_those_of_the_script(script: str) -> None:
    kinds, texts = zip(*cells(script), strict=True)
    assert texts[0].startswith("# Walkthrough of ")
    # Prose may name the mark of cells.
    assert "`# %%`" in " ".join(texts[0].split())
    assert set(kinds) == {"markdown", "python"}
    for kind, text in cells(script):
        if kind == "python":
            compile(text, "cell", "exec")


@pytest.mark.parametrize("script", SCRIPTS)
def test_kept_output_has_the_form_of_today(script: str, walked: Walked) -> None:
    # Numbers may depend on the version of scikit-learn.
    kept, printed = (re.sub(r"\d", "0", (path / f"{script}.md").read_text()) for path in (KEPT, walked(script)[1]))
    assert kept == printed, "run python -m experiments.walkthrough --out experiments/walkthrough/results"


@pytest.mark.parametrize("script", SCRIPTS)
def test_kept_page_is_that_of_the_script(script: str) -> None:
    without_output = re.sub(r"```text\n.*?```\n\n", "", (KEPT / f"{script}.md").read_text(), flags=re.DOTALL)
    expected = [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells(script)]
    assert without_output == "\n\n".join(expected) + "\n"
    for picture in PICTURES[script]:
        assert (KEPT / picture).stat().st_size < 150_000


@pytest.mark.parametrize("script", SCRIPTS)
def test_numbers_of_the_prose_are_printed_or_chosen(script: str) -> None:
    """Each number in the sections is in an output, or in the code."""
    page = (KEPT / f"{script}.md").read_text()
    shown = "".join(re.findall(r"```(?:text|python)\n(.*?)```", page, re.DOTALL))
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", page, flags=re.DOTALL).partition("\n## ")[2]
    for number in re.findall(r"\d+(?:\.\d+)?", prose):
        percent = f"0.{int(number):02d}" if number.isdigit() and f"{number} %" in prose else number
        assert number in shown or percent in shown or percent.rstrip("0") in shown, number
