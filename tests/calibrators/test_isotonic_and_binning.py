"""Isotonic calibration against scikit-learn, its centred form, and binning against diagrams."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression

import calibdask as cd
from tests.combinations import pairwise

Array = NDArray[Any]

# That probabilities of 0 and 1 rest on few rows, and bins on none, is tested by itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*probabilities of exactly 0 or 1 rest on:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*bins have no rows:UserWarning"),
]


def binary(n: int, seed: int = 0, *, ties: bool = False) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 31, n) / 30 if ties else rng.random(n)
    labels = (rng.random(n) < scores**2).astype(int)
    labels[:2] = 0, 1
    return labels, scores


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 400), st.integers(0, 1000), st.booleans(), st.booleans())
def test_isotonic_maps_are_those_of_scikit_learn_to_the_bit(n: int, seed: int, ties: bool, weighted: bool) -> None:
    labels, scores = binary(n, seed, ties=ties)
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 5, n).astype(float) if weighted else None
    expected = IsotonicRegression(out_of_bounds="clip").fit(scores, labels, weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = cd.IsotonicCalibration().fit(labels, scores, weights)
    everywhere = np.r_[scores, rng.random(300), 0, 1]
    np.testing.assert_array_equal(fitted.predict_proba(everywhere)[:, 1], expected.predict(everywhere))
    np.testing.assert_array_equal(fitted.score_, expected.X_thresholds_)
    np.testing.assert_array_equal(fitted.probability_, expected.y_thresholds_)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
def test_isotonic_maps_are_those_of_calibrated_classifiers(load: Any) -> None:
    X, y = load(return_X_y=True)
    model = RandomForestClassifier(30, random_state=0).fit(X[::2], y[::2])
    peer = CalibratedClassifierCV(FrozenEstimator(model), method="isotonic", ensemble=False).fit(X[1::2], y[1::2])
    fitted = cd.IsotonicCalibration().fit(y[1::2], model.predict_proba(X[1::2]))
    np.testing.assert_allclose(fitted.predict_proba(model.predict_proba(X)), peer.predict_proba(X), rtol=0, atol=2e-16)


def test_centred_maps_are_lines_between_the_centres_of_blocks() -> None:
    labels, scores, weights = [0, 0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4, 0.6], [1, 1, 3, 1, 2]
    fitted = cd.IsotonicCalibration(centred=True).fit(labels, scores, weights)
    # Blocks: 0 at 0.1 and 0.2, 3 of 4 at 0.3 (three rows) and 0.4, 1 at 0.6.
    np.testing.assert_allclose(fitted.score_, [0.15, 0.325, 0.6])
    np.testing.assert_allclose(fitted.probability_, [0, 0.75, 1])
    found = fitted.predict_proba([0, 0.15, 0.2375, 0.325, 0.4625, 0.6, 1])[:, 1]
    np.testing.assert_allclose(found, [0, 0, 0.375, 0.75, 0.875, 1, 1])
    plain = cd.IsotonicCalibration().fit(labels, scores, weights)
    np.testing.assert_allclose(plain.score_, [0.1, 0.2, 0.3, 0.4, 0.6])
    # Effective rows: 8 / 16 to a unit of weight.
    np.testing.assert_allclose(plain.certain_, [2 * 0.5, 2 * 0.5])
    np.testing.assert_allclose(fitted.certain_, [1 * 0.5, 2 * 0.5])


@pytest.mark.parametrize("ties", [False, True])
def test_centred_maps_increase_strictly_and_are_nearer_to_a_smooth_truth(ties: bool) -> None:
    inside = np.linspace(0.05, 0.95, 500)
    errors = []
    for seed in range(10):
        labels, scores = binary(1500, seed, ties=ties)
        centred, plain = (cd.IsotonicCalibration(centred=centred).fit(labels, scores) for centred in (True, False))
        assert (np.diff(centred.score_) > 0).all()
        assert (np.diff(centred.probability_) > 0).all()
        between = np.linspace(centred.score_[0], centred.score_[-1], 1000)
        assert (np.diff(centred.predict_proba(between)[:, 1]) > 0).all()
        found = [fitted.predict_proba(inside)[:, 1] - inside**2 for fitted in (centred, plain)]
        errors.append([np.sqrt((error**2).mean()) for error in found])
        # Of each block two knots, unless it is a single score; a centred one has one.
        assert np.unique(plain.probability_).size == centred.probability_.size
    better = np.mean(errors, 0)
    assert better[0] < 0.95 * better[1], better


@pytest.mark.parametrize("centred", [False, True])
def test_bounded_maps_are_those_of_two_more_rows_and_never_certain(centred: bool) -> None:
    labels, scores = binary(600)
    bounded = cd.IsotonicCalibration(centred=centred, bounded=True).fit(labels, scores)
    more = cd.IsotonicCalibration(centred=centred).fit(np.r_[labels, 1, 0], np.r_[scores, scores.min(), scores.max()])
    np.testing.assert_array_equal(bounded.probability_, more.probability_)
    np.testing.assert_array_equal(bounded.score_, more.score_)
    found = bounded.predict_proba(np.linspace(0, 1, 1001))
    assert ((found > 0) & (found < 1)).all()
    np.testing.assert_array_equal(bounded.certain_, 0)
    fresh_labels, fresh = binary(20_000, seed=7)
    plain = cd.IsotonicCalibration(centred=centred).fit(labels, scores)
    after = cd.log_loss(fresh_labels, bounded.predict_proba(fresh)[:, 1])
    assert after < cd.log_loss(fresh_labels, fresh)
    assert after < 0.9 * cd.log_loss(fresh_labels, plain.predict_proba(fresh)[:, 1])


def test_few_rows_of_probability_0_and_1_are_said() -> None:
    labels, scores = [0] * 100 + [1, 0] * 10 + [1] * 30, np.arange(150) / 150
    with pytest.warns(UserWarning, match="exactly 0 or 1 rest on as few as 30 rows; .* bounded=True avoids them"):
        fitted = cd.IsotonicCalibration().fit(labels, scores)
    np.testing.assert_array_equal(fitted.certain_, [100, 30])
    assert "as few as 30 rows" in fitted.cautions_[0]
    many = cd.IsotonicCalibration().fit(labels + [1] * 90, np.arange(240) / 240)
    np.testing.assert_array_equal(many.certain_, [100, 120])
    assert many.cautions_ == ()
    assert cd.IsotonicCalibration(bounded=True).fit(labels, scores).cautions_ == ()


def test_scores_that_order_rows_the_wrong_way_have_one_frequency() -> None:
    fitted = cd.IsotonicCalibration().fit([1, 1, 0, 1, 0, 0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    np.testing.assert_array_equal(fitted.predict_proba([0, 0.25, 1])[:, 1], 0.5)
    assert fitted.probability_.size == 2


@pytest.mark.parametrize(
    ("binning", "dtype", "bins", "weighted"),
    pairwise(["uniform", "equal-mass"], [np.float32, np.float64], [1, 10, 15, "sqrt"], [False, True]),
)
def test_bins_are_those_of_diagrams(binning: Any, dtype: Any, bins: Any, weighted: bool) -> None:
    labels, scores = binary(900, ties=True)
    scores = scores.astype(dtype)
    weights = np.random.default_rng(1).integers(1, 4, 900).astype(float) if weighted else None
    diagram = cd.reliability_diagram(labels, scores, sample_weight=weights, bins=bins, binning=binning)
    fitted = cd.HistogramBinning(bins=bins, binning=binning).fit(labels, scores, weights)
    filled = fitted.rows_ > 0
    np.testing.assert_array_equal(fitted.frequency_[filled], diagram.outcome.values[filled])
    np.testing.assert_array_equal(fitted.edges_[:-1], diagram.lower)
    np.testing.assert_array_equal(fitted.edges_[1:], diagram.upper)
    # Every row has the frequency of the rows of its bin, ties with an edge included.
    found = fitted.predict_proba(scores)[:, 1]
    calibrated = cd.evaluate(
        labels, found, cd.MCE(bins=np.r_[0, np.unique(found)[:-1] + 1e-9, 1.0]), sample_weight=weights
    )
    assert float(calibrated.mce) < 1e-12


@pytest.mark.parametrize("setting", ["classwise", "confidence"])
@pytest.mark.parametrize("binning", ["uniform", "equal-mass"])
def test_bins_of_matrices_are_those_of_diagrams(setting: Any, binning: Any) -> None:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(4), 800)
    labels = (scores.cumsum(1) < rng.random((800, 1))).sum(1)
    diagram = cd.reliability_diagram(labels, scores, setting=setting, binning=binning)
    fitted = cd.HistogramBinning(setting=setting, binning=binning).fit(labels, scores)
    filled = fitted.rows_ > 0
    assert filled.mean() > 0.7
    np.testing.assert_array_equal(fitted.rows_, diagram["count"])
    np.testing.assert_array_equal(fitted.frequency_[filled], diagram.outcome.values[filled])


def test_empty_bins_lie_between_their_neighbours() -> None:
    labels, scores = [0, 1, 0, 0, 1, 1, 1, 0], [0.25, 0.25, 0.25, 0.25, 0.75, 0.75, 0.75, 0.75]
    with pytest.warns(UserWarning, match="3 of 5 bins have no rows; they get the observed rates of their neighbours"):
        fitted = cd.HistogramBinning(bins=5).fit(labels, scores)
    np.testing.assert_array_equal(fitted.rows_, [0, 4, 0, 4, 0])
    np.testing.assert_allclose(fitted.frequency_, [0.25, 0.25, 0.5, 0.75, 0.75])
    bounded = cd.HistogramBinning(bins=5, bounded=True).fit(labels, scores)
    np.testing.assert_allclose(bounded.frequency_, [2 / 6, 2 / 6, 0.5, 4 / 6, 4 / 6])


def test_bins_of_few_rows_that_are_certain_are_said() -> None:
    labels, scores = [0] * 20 + [0, 1] * 50 + [1] * 200, [0.1] * 20 + [0.5] * 100 + [0.9] * 200
    with pytest.warns(UserWarning, match="exactly 0 or 1 rest on as few as 20 rows"):
        fitted = cd.HistogramBinning(bins=3).fit(labels, scores)
    np.testing.assert_array_equal(fitted.frequency_, [0, 0.5, 1])
    bounded = cd.HistogramBinning(bins=3, bounded=True).fit(labels, scores)
    np.testing.assert_array_equal(bounded.frequency_, [1 / 22, 0.5, 201 / 202])
    assert bounded.cautions_ == ()


def test_given_edges_and_slices_of_different_numbers_of_bins() -> None:
    labels, scores = binary(1000)
    edges = [0.0, 0.3, 0.7, 1.0]
    fitted = cd.HistogramBinning(bins=edges).fit(labels, scores)
    expected = [labels[(scores > a) & (scores <= b)].mean() for a, b in itertools.pairwise(edges)]
    np.testing.assert_array_equal(fitted.frequency_, expected)
    np.testing.assert_array_equal(
        fitted.predict_proba([0, 0.3, 0.31, 0.7, 1])[:, 1], np.take(expected, [0, 0, 1, 1, 2])
    )
    # Few distinct scores in the second half: fewer bins of equal mass.
    half = np.arange(1000) >= 500
    rounded = np.where(half, np.round(scores), scores)
    sliced = cd.HistogramBinning(bins=10, binning="equal-mass").fit(labels, rounded, by=half)
    assert np.isfinite(sliced.edges_).sum(-1).tolist() == [11, 3]
    frequency = sliced.predict_proba([0.0, 0.4, 0.6, 1.0], by=np.ones(4, bool))[:, 1]
    known = [labels[half & (rounded == score)].mean() for score in (0, 1)]
    np.testing.assert_array_equal(frequency, np.repeat(known, 2))
