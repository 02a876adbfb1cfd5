"""Scores of other classes than the labels are told, and hardly ever others."""

import warnings
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from scipy import special

import calibdask as cd
from calibdask.errors import SuspectScoresWarning
from calibdask.explore.summaries.page_metrics import RowChoice, cautions, quick
from calibdask.report import measure
from calibdask.report.cautions import cautions as report_cautions
from calibdask.report.model_result import ModelResult
from calibdask.storage.summary import Summary

pytestmark = pytest.mark.usefixtures("without_recalibration")

MODELS = 300
PANEL = {"ece": cd.ECE(), "mass": cd.ECE(binning="equal-mass"), "brier": cd.BrierScore(), "log": cd.LogLoss()}
COLUMNS = "In another order the columns"


def labels_of(probabilities: np.ndarray, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).random(probabilities.shape[:-1])
    return (probabilities.cumsum(-1) < drawn[..., None]).sum(-1).clip(max=probabilities.shape[-1] - 1)


def alarms(labels: Any, scores: Any) -> int:
    """Warnings of many models at once; three are named of more."""
    dims = ("model", "sample", "class")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SuspectScoresWarning)
        cd.evaluate(xr.DataArray(labels, dims=dims[:2]), xr.DataArray(scores, dims=dims[: scores.ndim]), PANEL)
    return len(caught)


def chances(rows: int, seed: int) -> np.ndarray:
    """Probabilities of many models: rare and frequent outcomes, sharp and vague ones."""
    rng = np.random.default_rng(seed)
    return rng.beta(*rng.uniform(0.2, 5, (2, MODELS, 1)), (MODELS, rows))


@pytest.mark.parametrize("rows", [100, 3000])
def test_false_alarms(rows: int) -> None:
    rng = np.random.default_rng(rows)
    truth = chances(rows, rows)
    labels = (rng.random(truth.shape) < truth).astype(int)
    assert alarms(labels, truth) == 0
    # Too sharp or too vague, too high or too low; and without any relation to the outcome.
    slope, shift = rng.uniform(0.1, 5, (MODELS, 1)), rng.uniform(-4, 4, (MODELS, 1))
    assert alarms(labels, special.expit(slope * special.logit(truth.clip(1e-9, 1 - 1e-9)) + shift)) == 0
    assert alarms(labels, rng.permuted(truth, axis=1)) == 0


@pytest.mark.parametrize("rows", [100, 3000])
def test_false_alarms_of_columns(rows: int) -> None:
    rng = np.random.default_rng(rows)
    truth = rng.dirichlet(np.full(3, 0.4), (MODELS // 3, rows))
    labels = labels_of(truth)
    assert alarms(labels, truth) == 0
    sharp = truth**4 / (truth**4).sum(-1, keepdims=True)
    assert alarms(labels, sharp) == 0
    assert alarms(rng.permuted(labels, axis=1), sharp) == 0


def test_scores_of_the_other_class() -> None:
    truth = np.random.default_rng(0).beta(0.3, 0.9, 2000)
    labels = labels_of(np.stack([1 - truth, truth], -1))
    with pytest.warns(SuspectScoresWarning, match=r"accuracy 0\.8\d+ instead of 0\.1\d+, Brier score"):
        cd.evaluate(labels, 1 - truth, cd.ECE(bins=20))
    with pytest.warns(SuspectScoresWarning, match="One minus"):
        model = ModelResult("swapped", measure(labels, 1 - truth, {"ece": cd.ECE()}, n_boot=20))
    assert sum("One minus the scores" in caution for caution in report_cautions(model)) == 1
    # Without metrics that ask for bins there is nothing to tell it by.
    cd.evaluate(labels, 1 - truth, cd.BrierScore())
    summary = cd.summarize(labels, 1 - truth, settings=["binary"])
    with pytest.warns(SuspectScoresWarning, match="One minus"):
        assert "One minus the scores" in " ".join(cautions(quick(Summary.of(summary), RowChoice(None))))


def test_rare_outcomes() -> None:
    truth = np.random.default_rng(0).beta(0.2, 9, 4000)
    labels = labels_of(np.stack([1 - truth, truth], -1))
    with pytest.warns(SuspectScoresWarning, match="One minus"):
        cd.evaluate(labels, 1 - truth, cd.ECE())


def test_shifted_labels() -> None:
    shift = 1
    truth = np.random.default_rng(0).dirichlet(np.full(3, 0.2), 600)
    labels = labels_of(truth)
    half = np.arange(600) % 2
    with pytest.warns(SuspectScoresWarning, match=rf"{COLUMNS}.*class 0 by column {3 - shift}, 1 by column"):
        result = cd.evaluate((labels + shift) % 3, truth, PANEL, by=half, ci=0.9, n_boot=5)
    # Counting predictions would cost as much as this metric, whose bins say how many are right.
    with pytest.warns(SuspectScoresWarning, match="fewer than of guesses among 3 classes"):
        alone = cd.evaluate((labels + shift) % 3, truth, cd.ECE(), by=half)
    assert alone.attrs["passes"] == 1
    xr.testing.assert_identical(result.ece, alone.ece)
    with pytest.warns(SuspectScoresWarning, match=COLUMNS):
        model = ModelResult("shifted", measure((labels + shift) % 3, truth, PANEL, n_boot=5))
    assert report_cautions(model)[0].startswith(COLUMNS)
    with pytest.warns(SuspectScoresWarning, match=COLUMNS):
        assert cd.evaluate((labels + shift) % 3, truth).attrs["passes"] == 1


@pytest.mark.parametrize(("kind", "ci"), [("vector", None), ("matrix", 0.9), ("weighted", 0.9), ("dask", None)])
def test_decisions_in_the_place_of_probabilities(kind: str, ci: float | None) -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 300)
    hard: Any = np.where(rng.random(300) < 0.7, labels, 1 - labels).astype(float)
    options: dict[str, Any] = {"ci": ci, "n_boot": 9} if ci else {}
    if kind == "matrix":
        hard = np.stack([1 - hard, hard], axis=1)
    elif kind == "weighted":
        options["sample_weight"] = rng.random(300)
    elif kind == "dask":
        labels, hard = da.from_array(labels, chunks=70), da.from_array(hard, chunks=70)
    with pytest.warns(SuspectScoresWarning, match=r"All scores are 0 or 1, as of predict\(\)"):
        result = cd.evaluate(labels, hard, **options)
    assert result.attrs["score_cautions"].startswith("All scores are 0 or 1")
    assert "score_cautions" not in cd.evaluate(labels, 0.999 * hard + 0.0005, **options).attrs


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_decimals_of_few_bits_on_edges_of_bins(dtype: str) -> None:
    rng = np.random.default_rng(1)
    decimals = rng.integers(0, 21, 2000) / 20
    labels = (rng.random(2000) < decimals).astype(int)
    scores = decimals.astype(dtype)
    metric = {"ece": cd.ECE(bins=20)}
    if dtype == "float64":
        assert "score_cautions" not in cd.evaluate(labels, scores, metric).attrs
        return
    with pytest.warns(SuspectScoresWarning) as caught:
        result = cd.evaluate(labels, scores, metric)
    (said,) = (str(warning.message) for warning in caught)
    assert result.attrs["score_cautions"] == said
    assert result.attrs["passes"] == 1
    # Rows of bins that hold nothing but one rounded edge.
    inner = np.arange(1, 20) / 20
    rounded = inner.astype(dtype).astype(float)
    bins = np.searchsorted(inner, scores.astype(float), side="left")
    alone = [number for number in range(20) if len({*scores[bins == number].tolist()}) == 1]
    beside = np.isin(scores.astype(float), rounded[rounded != inner]) & np.isin(bins, alone)
    assert said.startswith(f"At least {beside.sum():,} of 2,000 scores are an edge of a bin rounded to {dtype}")
    with pytest.warns(SuspectScoresWarning):
        lazy = cd.evaluate(da.from_array(labels, chunks=300), da.from_array(scores, chunks=300), metric)
    assert lazy.attrs["score_cautions"] == said
    repaired = scores.astype(float).round(2)
    assert "score_cautions" not in cd.evaluate(labels, repaired, metric).attrs
