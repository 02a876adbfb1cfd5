"""The largest scores of each row in place of all: the numbers of full rows to the last bit, or a sentence."""

from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd

ROWS, CLASSES, KEPT = 400, 60, 4
RNG = np.random.default_rng(0)
FULL = RNG.dirichlet(np.full(CLASSES, 0.05), ROWS)
LABELS = (FULL.cumsum(1) < RNG.random((ROWS, 1))).sum(1).clip(0, CLASSES - 1)
COUNTRY, WEIGHTS = RNG.choice(["at", "be"], ROWS), RNG.random(ROWS)
ORDER = np.argsort(-FULL, axis=1, kind="stable")[:, :KEPT]
TOP = cd.TopScores(ORDER, np.take_along_axis(FULL, ORDER, 1), FULL[np.arange(ROWS), LABELS], CLASSES)
METRICS = {
    "ece": cd.ECE(),
    "mass": cd.ECE(binning="equal-mass"),
    "top": cd.ECE(setting="top-k", k=3),
    "density": cd.DensityECE(),
    "smooth": cd.SmoothECE(),
    "gap": cd.MeanGap(),
    "corp": cd.CORP(setting="confidence"),
    "kernel": cd.SKCE(setting="confidence"),
    "log_loss": cd.LogLoss(),
    "test": cd.SpiegelhalterTest(),
    "curve": cd.ReliabilityCurve(),
}


def test_labels_occur_outside_the_largest_scores() -> None:
    assert 0.05 < (LABELS[:, None] != ORDER).all(1).mean() < 0.5


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"by": {"country": COUNTRY}},
        {"sample_weight": WEIGHTS},
        {"ci": 0.9, "n_boot": 10, "by": {"country": COUNTRY}},
    ],
    ids=["plain", "slices", "weights", "intervals"],
)
def test_numbers_are_those_of_full_rows(keywords: dict[str, Any]) -> None:
    metrics = {name: metric for name, metric in METRICS.items() if name != "kernel" or "ci" not in keywords}
    found = cd.evaluate(LABELS, TOP, metrics, **keywords)
    xr.testing.assert_identical(found, cd.evaluate(LABELS, FULL, metrics, **keywords))


@pytest.mark.parametrize("chunks", [(57, KEPT), (400, 2)])
def test_numbers_do_not_depend_on_chunks(chunks: tuple[int, int]) -> None:
    lazy = replace(TOP, classes=da.from_array(TOP.classes, chunks), scores=da.from_array(TOP.scores, chunks))
    found = cd.evaluate(LABELS, lazy, METRICS, by={"country": COUNTRY})
    xr.testing.assert_identical(found, cd.evaluate(LABELS, TOP, METRICS, by={"country": COUNTRY}))


def test_classes_have_any_names_and_series_their_index() -> None:
    names = np.array([f"class {number}" for number in range(CLASSES)])
    labels = pd.Series(names[LABELS], index=np.arange(ROWS)[::-1])
    country = pd.Series(COUNTRY, index=labels.index)
    found = cd.evaluate(labels, replace(TOP, classes=names[ORDER]), METRICS, by={"country": country})
    xr.testing.assert_identical(found, cd.evaluate(LABELS, TOP, METRICS, by={"country": COUNTRY}))


def test_the_panel_is_what_the_largest_scores_determine() -> None:
    six, every = cd.evaluate(LABELS, TOP), cd.evaluate(LABELS, TOP, "all")
    assert not {"brier_score", "ece_classwise"} & {*six, *every}
    expected = cd.evaluate(LABELS, FULL, "all")
    assert {"ece", "smooth_ece", "mean_gap", "log_loss", "density_ece", "rmsce", "mce"} <= {*every.data_vars}
    for name in every.data_vars:
        np.testing.assert_array_equal(every[name], expected[name])
    assert "log_loss" not in cd.evaluate(LABELS, replace(TOP, label_scores=None))


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("brier_score", "needs the scores of all classes"),
        (cd.ECE(setting="classwise"), "needs the scores of all classes"),
        (cd.ECE(setting=3), "needs the scores of all classes"),
        (cd.SKCE(), "needs the scores of all classes"),
        (cd.ECE(setting="top-k", k=5), "needs 5 scores of each row, which has 4"),
    ],
    ids=str,
)
def test_metrics_that_need_all_scores_are_refused(metric: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.evaluate(LABELS, TOP, metric)


def changed(array: Any, row: int, values: Any) -> Any:
    array = array.copy()
    array[row] = values
    return array


AMONG = int((LABELS[:, None] == ORDER).any(1).argmax())
OUTSIDE = int((LABELS[:, None] != ORDER).all(1).argmax())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": TOP.scores[:, ::-1]}, "scores expects those of each row to fall; 400 rows of a block do not"),
        ({"classes": changed(ORDER, 7, 3)}, "each class at most once in a row; 1 rows .* the first of them its row 7"),
        ({"label_scores": changed(TOP.label_scores, AMONG, 0.123)}, "the score that scores has of the label too"),
        ({"label_scores": changed(TOP.label_scores, OUTSIDE, 0.9)}, "no more than the smallest of the largest scores"),
        ({"scores": TOP.scores * 2, "label_scores": None}, "whose sum is at most 1"),
        ({"scores": TOP.scores[:, :2]}, r"expect the same shape \(n, m\), got \(400, 4\) and \(400, 2\)"),
        ({"label_scores": TOP.label_scores[:9]}, r"label_scores expects the shape \(400,\), got \(9,\)"),
        ({"n_classes": 4}, "more than the 4 scores in a row, got 4"),
        ({"n_classes": 9.5}, "n_classes expects a whole number, got 9.5"),
    ],
)
def test_bad_rows_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.evaluate(LABELS, replace(TOP, **changes), cd.ECE())


@pytest.mark.parametrize(
    ("labels", "keywords", "message"),
    [
        (LABELS[:9], {}, r"one label for each of 400 rows, got the shape \(9,\)"),
        (LABELS, {"labels": list(range(CLASSES))}, "do not apply to TopScores"),
        (LABELS, {"logits": True}, "do not apply to TopScores"),
        (LABELS, {"ignore_label": 3}, "ignore_label does not apply to TopScores"),
    ],
)
def test_what_does_not_apply_is_refused(labels: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.evaluate(labels, TOP, cd.ECE(), **keywords)


@pytest.mark.parametrize("function", [cd.summarize, cd.LCECalibrator().fit, cd.Accumulator(cd.ECE()).update])
def test_what_needs_all_scores_refuses_them(function: Any) -> None:
    with pytest.raises(ValueError, match=r"Only calibdask\.evaluate and the shorthands accept TopScores"):
        function(LABELS, TOP)
