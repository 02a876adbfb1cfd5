"""Pages about skewed scores, few rows and answers of classifiers: what is drawn, and what it is called."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.render.drawing import overlay_notes, overlay_picture
from calibdask.report import measure
from calibdask.report.banners import banner
from calibdask.report.cautions import cautions
from calibdask.report.matrix import limit_matrix
from calibdask.report.model_result import ModelResult
from calibdask.report.tables import few_table, model_table
from calibdask.results.reliability import BinnedReliability
from tests.report.page_reader import page_of
from tests.report.sample_rows import CLASSES, COUNTRY, LABELS, MATRIX, SOME, TRUTH

RNG = np.random.default_rng(5)
LOGITS = RNG.normal(-5.0, 1.5, 20_000)
RARE = 1 / (1 + np.exp(-LOGITS))
DEFAULTS = (RNG.random(RARE.size) < RARE).astype(int)


def drawn(scores: Any) -> BinnedReliability:
    ((_, bins, _),) = ModelResult("m", measure(DEFAULTS, scores, {"ece": cd.ECE()}, n_boot=10)).drawn
    return bins


def test_skewed_models_over_each_other_fill_the_picture() -> None:
    """On the logit scale where one of them asks for it: next to the corner nothing could be told apart."""
    narrow = 1 / (1 + np.exp(-(0.4 * (LOGITS + 5) - 2.2)))
    models = {"narrow": drawn(narrow), "wide": drawn(RARE)}
    assert [bins.drawn is not None and bins.drawn.axis.logit for bins in models.values()] == [False, True]
    picture = overlay_picture(models, "score", "frequency of the outcome")
    assert "score, logit scale" in picture
    assert "nan" not in picture
    assert "inf" not in picture
    first, *_, last = sorted(_across(picture, 1))
    # Of 300 units from one end of the axis to the other.
    assert last - first > 250
    assert len(_across(picture, 0)) > 5
    assert not any("Logit scale" in words or "Axis to" in words for words in overlay_notes(models))


def test_scores_of_0_stay_on_the_linear_scale() -> None:
    saturated = np.where(RARE < 0.001, 0.0, RARE)
    picture = overlay_picture({"a": drawn(RARE), "b": drawn(saturated)}, "score", "frequency of the outcome")
    assert "logit" not in picture


def _across(picture: str, turn: int) -> list[float]:
    path = picture.split(f'class="series-{turn} points-of" d="')[1].split('"', maxsplit=1)[0]
    return [float(step.split(" ")[0]) for step in path.split("M")[1:]]


def test_one_crowded_bin_is_told() -> None:
    model = ModelResult("m", measure(DEFAULTS, RARE, {"ece": cd.ECE()}, n_boot=10))
    (said,) = [words for words in cautions(model) if "bins of equal width" in words]
    share = 100 * float((RARE <= 1 / 15).mean())
    assert said.startswith(f"{share:.3g} % of the rows are in one of the 15 bins of equal width")
    spread = ModelResult("m", measure(LABELS, TRUTH, {"ece": cd.ECE()}, n_boot=10))
    mass = ModelResult("m", measure(DEFAULTS, RARE, {"ece": cd.ECE(binning="equal-mass")}, n_boot=10))
    assert not any("bins of equal width" in words for model in (spread, mass) for words in cautions(model))


def test_where_there_is_no_curve_nothing_is_drawn(tmp_path: Path) -> None:
    html, reader = page_of(tmp_path, measure(LABELS[:35], TRUTH[:35], n_boot=10))
    assert "No curve: nowhere are 20 rows near." in reader.text
    assert "reliability curve" not in "".join(str(given["aria-label"]) for given in reader.having("svg", role="img"))
    assert "The line is" not in html
    (line,) = [
        words for words in reader.words if words.startswith("No significant bias of the mean score with only 35 rows")
    ]
    gap = float(LABELS[:35].mean() - TRUTH[:35].mean())
    low, high = (float(words.split()[0]) for words in line.split("(scores between ")[1].split(" and "))
    assert -low < 100 * gap < high
    assert not any("different values" in words for words in reader.words)


def test_answers_have_confidence_and_accuracy(tmp_path: Path) -> None:
    measured = measure(CLASSES, MATRIX, by={"country": COUNTRY}, n_boot=10)
    html, reader = page_of(tmp_path, measured)
    names = [row[0].text for row in few_table(ModelResult("m", measured)).rows]
    assert names[:2] == ["Calibration error (ECE)", "Accuracy minus mean confidence"]
    assert "Classwise calibration error (ECE)" in names
    assert len(set(names)) == len(names)
    assert ">frequency of the outcome</text>" not in html
    assert {"confidence", "accuracy", "mean confidence", "accuracy minus mean confidence"} <= set(reader.words)


def test_models_side_by_side_keep_their_scores() -> None:
    models = [ModelResult(name, measure(LABELS, TRUTH**p, n_boot=10)) for name, p in (("a", 1.0), ("b", 1.2))]
    columns = [name for name, _ in model_table(models).columns]
    assert columns[-2:] == ["Brier score", "Log loss"]


@pytest.fixture(scope="module")
def open_in_a_slice() -> ModelResult:
    """All rows within both limits; of the few rows of one slice nobody knows."""
    group = np.where(np.arange(LABELS.size) < 60, "small", "large")
    measured = measure(LABELS, TRUTH, SOME, by={"group": group}, n_boot=10)
    limits = {"ece": 0.1, "calibration-slope.slope": (0.8, 1.25)}
    return ModelResult("m", replace(measured, gate=cd.check(LABELS, TRUTH, limits, by={"group": group}, n_boot=50)))


def test_a_banner_begins_with_what_is_met(open_in_a_slice: ModelResult) -> None:
    line = banner(open_in_a_slice, several=False).line
    assert line.startswith("All rows within the limits; not decided: ")
    assert "Calibration slope of group=small" in line
    assert "calibration-slope" not in line
    assert line.count("all rows") == 1


def test_limits_of_a_place_stand_together(open_in_a_slice: ModelResult) -> None:
    gate = open_in_a_slice.measured.gate
    assert gate is not None
    places = [row[0].text for row in limit_matrix([(open_in_a_slice, gate)]).rows]
    assert places == ["all rows"] * 2 + ["group=small"] * 2 + ["group=large"] * 2
