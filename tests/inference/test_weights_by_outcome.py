"""Calibrated models whose weights depend on the outcome have errors as large as are drawn for them."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.statistics.bins.grid import Grid, GridHistogram, scores_of_cells
from calibdask.statistics.block import Block
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.replicates.histograms import resampled
from calibdask.statistics.settings import Setting
from calibdask.statistics.views.drawn_labels import DrawnLabels

ROWS = 400


def undersampled(sets: int, classes: int = 2, rows: int = ROWS) -> tuple[Any, Any, Any]:
    """Labels, scores and weights of calibrated data sets, of whose rows of class 1 a quarter is sampled."""
    rng = np.random.default_rng(8)
    scores = rng.dirichlet(np.ones(classes), (sets, 8 * rows)) if classes > 2 else rng.beta(1, 9, (sets, 8 * rows))
    uniform = rng.random((sets, 8 * rows))
    labels = (uniform[..., None] > np.cumsum(scores, -1)).sum(-1) if classes > 2 else (uniform < scores).astype(int)
    kept = (labels != 1) | (rng.random(labels.shape) < 0.25)
    first = np.argsort(~kept, axis=1, kind="stable")[:, :rows]
    labels = np.take_along_axis(labels, first, 1)
    scores = np.take_along_axis(scores, first.reshape(*first.shape, *(1,) * (scores.ndim - 2)), 1)
    return labels, scores, np.where(labels == 1, 4.0, 1.0)


@pytest.mark.parametrize("test", [cd.ConsistencyTest(resamples=99), cd.CalibrationBelt(points=2)])
def test_tests_reject_few_calibrated_models(test: Any) -> None:
    labels, scores, weights = undersampled(60)
    result = cd.evaluate(labels, scores, {"x": test}, sample_weight=weights, task="binary")
    # At 0.05, more than 8 of 60 have a probability of 0.003.
    assert (result.x_pvalue <= 0.05).sum() <= 8
    assert "weights" not in result.x_pvalue.attrs["assumes"]


def test_the_noise_floor_is_that_of_the_weighted_rows() -> None:
    labels, scores, weights = undersampled(60)
    options: dict[str, Any] = {"sample_weight": weights, "task": "binary"}
    metrics = {"x": cd.NoiseFloor(resamples=99), "ece": cd.ECE()}
    result = cd.evaluate(labels, scores, metrics, **options)
    assert (result.ece > result.x_high).sum() <= 8
    assert float(result.ece.mean()) == pytest.approx(float(result.x_mean.mean()), rel=0.15)


@pytest.mark.parametrize("metric", [cd.ECE(), cd.SmoothECE(step=0.003), cd.MulticlassECE(bins=5)])
def test_intervals_of_calibrated_models_start_at_0(metric: Any) -> None:
    labels, scores, weights = undersampled(40)
    result = cd.evaluate(labels, scores, {"x": metric}, sample_weight=weights, task="binary", ci=0.9, n_boot=50)
    # One of 20 has a larger error than all but one of 20 replicates: more than 7 of 40 have a probability of 0.001.
    assert (result.x_low > 0).sum() <= 7


@pytest.mark.parametrize("test", [cd.ConsistencyTest(resamples=9), cd.NoiseFloor(resamples=9)])
def test_the_weight_of_an_outcome_that_did_not_occur_is_unknown(test: Any) -> None:
    scores = np.linspace(0.05, 0.4, 60)
    labels = np.zeros(60, int)
    options: dict[str, Any] = {"metrics": {"x": test}, "task": "binary"}
    weighted = cd.evaluate(labels, scores, sample_weight=np.ones(60), **options)
    of = [weighted[name] for name in ("x_pvalue", "x_mean", "x_high") if name in weighted]
    assert all(np.isnan(part) and "weight of the other outcome is unknown" in part.attrs["undefined"] for part in of)
    plain = cd.evaluate(labels, scores, **options)
    assert all(np.isfinite(plain[str(part.name)]) for part in of)


@pytest.mark.parametrize("classes", [2, 3])
def test_drawn_labels_have_the_weighted_frequency_of_the_scores(classes: int) -> None:
    (labels,), (scores,), (weights,) = undersampled(1, classes, rows=2000)
    replicates = 400
    matrix = scores[None] if classes > 2 else scores[None, :, None]
    layout = Layout(classes=classes, vector=classes == 2, weighted=True, rows=2000)
    layout = layout if classes > 2 else Layout(weighted=True, rows=2000)
    own = np.array([[[4.0 if k == 1 else 1.0 for k in range(classes)]]])
    view = DrawnLabels(replicates, 3, weights=FrozenArray(own))
    block = view.block(Block(layout, np.ascontiguousarray(matrix), labels[None], weights[None]))
    drawn, weight = np.asarray(block.labels), np.asarray(block.weights)
    # Each row has the weight of its class.
    np.testing.assert_allclose(weight, np.where(drawn == 1, 4.0, 1.0))
    probability = scores[:, 1] if classes > 2 else scores
    excess = (weight * ((drawn == 1) - probability)).mean(1)
    assert abs(excess.mean()) < 4 * excess.std() / np.sqrt(replicates)


def test_calibrated_replicates_of_histograms_have_the_weighted_frequency_of_the_scores() -> None:
    labels, scores, weights = undersampled(1, rows=2000)
    setting, grid = Setting("class", 1), Grid(300)
    layout = Layout(weighted=True, rows=2000)
    block = Block(layout, scores[..., None], labels, weights)
    state = GridHistogram(setting, grid).from_block(block)
    drawn = resampled(state, grid, 5, range(400), calibrated=True)
    mass = np.asarray(drawn.mass)[:, 0, 0]
    share = np.divide(drawn.distance[:, 0, 0], mass, out=np.zeros_like(mass), where=mass > 0)
    position = scores_of_cells(grid, share.max(-1))
    excess = (mass[..., 1] - mass.sum(-1) * position).sum(-1)
    assert abs(excess.mean()) < 4 * excess.std() / np.sqrt(400)
    # An event weighs four times as much as another row.
    rows = np.asarray(drawn.rows)[:, 0, 0]
    assert mass[..., 1].sum() / rows[..., 1].sum() == pytest.approx(4.0)
    assert mass[..., 0].sum() / rows[..., 0].sum() == pytest.approx(1.0)
