"""The section on recalibration: what the comparison found, or why there is none."""

from pathlib import Path

import numpy as np
import pytest

import calibdask as cd
from calibdask.report import Measured, measure
from tests.report.page_reader import page_of
from tests.report.sample_rows import FEW, LABELS, TRUTH

TITLE = "Would recalibration help?"


def test_the_comparison_is_on_the_page(tmp_path: Path, extreme: Measured, multiclass: Measured) -> None:
    scores = TRUTH**2 / (TRUTH**2 + (1 - TRUTH) ** 2)
    compared = cd.compare_calibrators(LABELS, scores)
    assert compared.attrs["best"] == "PlattScaling"
    _, reader = page_of(tmp_path, {"extreme": extreme, "many": multiclass})
    assert TITLE in reader.text
    assert compared.attrs["reason"] in reader.text
    assert {*compared.improvement.values[1:].tolist(), *compared.log_loss.values.tolist()} <= set(reader.numbers)
    assert "take this one" in reader.text
    assert "TemperatureScaling" in reader.text


def test_slices_that_are_off_may_have_maps_of_their_own(tmp_path: Path) -> None:
    slices = np.where(np.arange(TRUTH.size) % 2, "a", "b")
    judged = measure(LABELS, TRUTH**3, by={"part": slices}, slice_limits={"ece": 0.01}, source="rows 1.csv", n_boot=20)
    _, reader = page_of(tmp_path, judged)
    assert "calibdask calibrate 'rows 1.csv' --by part --out map.json, with the same options" in reader.text


@pytest.mark.filterwarnings("ignore:.*only one kind of outcome:UserWarning")
def test_why_it_is_not_known(tmp_path: Path) -> None:
    alike = measure(np.zeros(200, int), TRUTH[:200], **FEW)
    _, reader = page_of(tmp_path, {"alike": alike})
    assert "Not known for alike: " in reader.text
    assert "None can be: without one of its folds there are no rows of both outcomes" in reader.text
    summary = measure(cd.summarize(LABELS, TRUTH, settings=["binary"]), **FEW)
    _, reader = page_of(tmp_path, {"summary": summary})
    assert "a summary has none" in reader.text
