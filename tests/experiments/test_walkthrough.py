"""The walkthroughs run, and their statements are true."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="figures of the walkthrough expect matplotlib, of the extra dev")

from experiments.walkthrough.__main__ import cells, run

KEPT = Path(__file__).parents[2] / "experiments" / "walkthrough" / "results"
PICTURES = ("models.png", "curve.png", "calibrated.png")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("walkthrough")


@pytest.fixture(scope="module")
def walked(folder: Path) -> dict[str, Any]:
    return run(folder)


def test_calibrating_takes_most_of_the_error(walked: dict[str, Any]) -> None:
    before, after = walked["before"], walked["after"]
    assert before.ece_low > 0.2
    assert after.ece < before.ece / 5
    assert after.ece_low == 0
    assert after.brier_score_high < before.brier_score_low
    assert after.log_loss_low < before.log_loss < after.log_loss


def test_the_calibration_error_alone_chooses_the_wrong_model(walked: dict[str, Any]) -> None:
    compared = walked["compared"]
    assert compared.smooth_ece_difference_high < 0 < compared.brier_score_difference_low
    parts = walked["parts"]
    assert parts.smooth_ece["naive Bayes"] < parts.smooth_ece["random forest"]
    assert parts.corp_discrimination["naive Bayes"] < parts.corp_discrimination["random forest"]


def test_only_the_calibrated_forest_passes_for_calibrated(walked: dict[str, Any]) -> None:
    forest, bayes, calibrated = walked["tested"].skce_test_pvalue.values
    assert max(forest, bayes) < 0.01
    assert calibrated > 0.05


def test_slices_in_order_and_summed(walked: dict[str, Any]) -> None:
    worst = walked["worst"]
    assert sorted(worst.ink) == ["medium", "thick", "thin"]
    assert worst.smooth_ece_low.is_monotonic_decreasing
    assert float(walked["whole"].ece) == pytest.approx(float(walked["before"].ece), rel=1e-12)


def test_few_rows_have_large_errors(walked: dict[str, Any]) -> None:
    few = walked["few"]
    assert list(few.index) == [50, 150, 450]
    assert few.ece.is_monotonic_decreasing
    assert few.ece[50] > 2 * few.ece[450]
    assert few.smooth_ece[50] < few.ece[50]


def test_page_and_pictures(walked: dict[str, Any], folder: Path) -> None:
    page = (folder / "walkthrough.md").read_text()
    for picture in PICTURES:
        assert f"({picture})" in page
        assert (folder / picture).stat().st_size > 10_000
    # What it printed stands beneath the code.
    assert "95.5% of 599 digits right" in page
    assert sorted(path.name for path in folder.iterdir()) == sorted([*PICTURES, "walkthrough.md"])


def test_cells_are_those_of_the_script() -> None:
    kinds, texts = zip(*cells(), strict=True)
    headings = [line for line in "\n".join(texts).splitlines() if re.match("##? ", line)]
    assert headings[0] == "# Walkthrough on real data"
    assert len(headings) == 13
    # Prose may name the mark of cells.
    assert texts[0].endswith("`python -m experiments.walkthrough`.")
    assert set(kinds) == {"markdown", "python"}
    for kind, text in cells():
        if kind == "python":
            compile(text, "cell", "exec")


def test_kept_output_has_the_form_of_today(walked: dict[str, Any], folder: Path) -> None:
    # Numbers may depend on the version of scikit-learn.
    kept, printed = (re.sub(r"\d", "0", (path / "walkthrough.md").read_text()) for path in (KEPT, folder))
    assert kept == printed, "run python -m experiments.walkthrough --out experiments/walkthrough/results"


def test_kept_page_is_that_of_the_script() -> None:
    without_output = re.sub(r"```text\n.*?```\n\n", "", (KEPT / "walkthrough.md").read_text(), flags=re.DOTALL)
    expected = [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells()]
    assert without_output == "\n\n".join(expected) + "\n"
    for picture in PICTURES:
        assert (KEPT / picture).stat().st_size < 150_000
