"""Temperature scaling: against scikit-learn and minimisation, any data, and where there is no best temperature."""

import json
from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

import calibdask as cd

Array = NDArray[Any]


def rows(classes: int, n: int, slope: float = 1.7, dtype: str = "float64", seed: int = 0) -> tuple[Array, Array]:
    """Labels, and scores whose logits are too large by a factor."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, classes))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    scores = np.exp(slope * (logits - logits.max(1, keepdims=True)))
    return labels, (scores / scores.sum(1, keepdims=True)).astype(dtype)


def minimised(labels: Array, scores: Array, weights: Array | None = None) -> float:
    """The temperature at which the derivative of the mean logarithmic score is 0."""
    z = np.log(np.maximum(scores.astype(float), np.finfo(scores.dtype).smallest_normal))
    z -= z.max(1, keepdims=True)
    observed = z[np.arange(labels.size), labels]

    def derivative(log_beta: float) -> float:
        p = np.exp(np.exp(log_beta) * z)
        return float(np.average((z * p).sum(1) / p.sum(1) - observed, weights=weights))

    return float(np.exp(-brentq(derivative, -np.log(8), np.log(8), xtol=1e-15, rtol=1e-14)))


class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted model whose features are the probabilities."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.classes_ = np.arange(classes)

    def fit(self, X: Array, y: Array) -> "Given":
        raise AssertionError("A frozen model is not fitted.")

    def predict_proba(self, X: Array) -> Array:
        return X

    def predict(self, X: Array) -> Array:
        return X.argmax(1)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_scikit_learn_finds_the_same(classes: int) -> None:
    """Its own minimisation is right to about 1e-8."""
    labels, scores = rows(classes, 4000)
    peer = CalibratedClassifierCV(FrozenEstimator(Given(classes)), method="temperature", ensemble=False)
    peer.fit(scores, labels)
    (fitted,) = peer.calibrated_classifiers_
    scaling = cd.TemperatureScaling().fit(labels, scores)
    assert 1 / scaling.temperature_ == pytest.approx(fitted.calibrators[0].beta_, rel=1e-7)
    np.testing.assert_allclose(scaling.predict_proba(scores), peer.predict_proba(scores), atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("classes", "n", "slope"), [(2, 500, 1.0), (3, 3000, 6.0), (10, 5000, 0.2), (10, 5000, 3.0), (1000, 300, 1.2)]
)
def test_the_root_is_that_of_the_rows(classes: int, n: int, slope: float, dtype: str) -> None:
    labels, scores = rows(classes, n, slope, dtype)
    weights = np.random.default_rng(1).choice([0.0, 1.0, 2.5], n)
    expected = minimised(labels, scores), minimised(labels, scores, weights)
    tolerance = 1e-12 if classes < 1000 else 1e-9
    assert cd.TemperatureScaling().fit(labels, scores).temperature_ == pytest.approx(expected[0], rel=tolerance)
    assert cd.TemperatureScaling().fit(labels, scores, weights).temperature_ == pytest.approx(
        expected[1], rel=tolerance
    )


@pytest.mark.parametrize(("classes", "tolerance"), [(2, 1e-11), (10, 1e-11), (1000, 1e-6)])
def test_rows_that_are_all_alike_are_the_hardest(classes: int, tolerance: float) -> None:
    """One class against all others alike: the derivative turns most sharply where they weigh the same."""
    scores = np.full((400, classes), 1.0)
    scores[:, 0] = 40.0
    scores /= scores.sum(1, keepdims=True)
    for right in (260, 330, 390):
        labels = np.arange(400) % (classes - 1) + 1
        labels[:right] = 0
        # The score of class 0 that is right so often: its log odds against one other class, over that of the scores.
        beta = np.log(right / (400 - right) * (classes - 1)) / np.log(40.0)
        scaling = cd.TemperatureScaling().fit(labels, scores)
        assert 1 / scaling.temperature_ == pytest.approx(beta, rel=tolerance)


def test_sure_and_mostly_right() -> None:
    """Means of the upper half of the range are tiny there, whole numbers of few units."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(30_000, 10))
    labels = rng.integers(0, 10, 30_000)
    sure = rng.random(30_000) > 0.003
    logits[np.arange(30_000), labels] += np.where(sure, 12.0, 0.0)
    logits[~sure, (labels[~sure] + 1) % 10] += 8.0
    scores = np.exp(logits - logits.max(1, keepdims=True))
    scores /= scores.sum(1, keepdims=True)
    temperature = cd.TemperatureScaling().fit(labels, scores).temperature_
    assert temperature == pytest.approx(minimised(labels, scores), rel=1e-9)


def test_a_vector_is_two_columns() -> None:
    labels, scores = rows(2, 1000)
    vector = cd.TemperatureScaling().fit(labels, scores[:, 1])
    columns = np.stack([1 - scores[:, 1], scores[:, 1]], 1)
    both = cd.TemperatureScaling().fit(labels, columns)
    assert vector.temperature_ == both.temperature_
    np.testing.assert_allclose(vector.predict_proba(scores[:, 1]), both.predict_proba(columns), rtol=1e-12)


def test_bits_do_not_depend_on_chunks() -> None:
    labels, scores = rows(7, 2999, dtype="float32")
    whole = cd.TemperatureScaling().fit(labels, scores).to_dict()["numbers"]
    for chunk in (1, 8, 13, 1000):
        size = chunk if chunk > 1 else 311
        lazy = da.from_array(labels, chunks=size), da.from_array(scores, chunks=(size, -1))
        assert cd.TemperatureScaling().fit(*lazy).to_dict()["numbers"] == whole


def test_weights_are_repeated_rows_and_slices_are_fits() -> None:
    labels, scores = rows(4, 1500)
    weights = np.random.default_rng(2).integers(0, 4, labels.size)
    again = np.repeat(np.arange(labels.size), weights)
    weighted = cd.TemperatureScaling().fit(labels, scores, weights.astype(float))
    repeated = cd.TemperatureScaling().fit(labels[again], scores[again])
    assert weighted.temperature_ == pytest.approx(repeated.temperature_, rel=1e-13)
    # Weights say nothing about rows: the effective number is smaller.
    assert weighted.temperature_se_ > repeated.temperature_se_
    by = np.arange(labels.size) % 3
    # A slice without one of the classes has a map of its own.
    labels[(by == 1) & (labels == 3)] = 0
    sliced = cd.TemperatureScaling().fit(labels, scores, by=by)
    for s in range(3):
        alone = cd.TemperatureScaling().fit(labels[by == s], scores[by == s])
        assert sliced.temperature_[s] == alone.temperature_
        assert sliced.temperature_se_[s] == alone.temperature_se_
        np.testing.assert_array_equal(
            sliced.predict_proba(scores[by == s], by=by[by == s]), alone.predict_proba(scores[by == s])
        )


def test_standard_errors_are_those_of_fits_to_other_rows() -> None:
    """Of 400 samples: mean and deviation of z-values within 4 standard errors of 0 and 1."""
    labels, scores = rows(3, 400 * 400, slope=2.0, seed=5)
    fits = cd.TemperatureScaling().fit(labels, scores, by=np.repeat(np.arange(400), 400))
    z = (fits.temperature_ - 2.0) / fits.temperature_se_
    assert abs(z.mean()) < 4 / 20
    assert abs(z.std() - 1) < 4 / np.sqrt(800)


def test_logits_and_json() -> None:
    labels, scores = rows(5, 800)
    logits = np.log(scores) + np.arange(800)[:, None] % 3
    expected = cd.TemperatureScaling().fit(labels, scores)
    scaling = cd.TemperatureScaling(logits=True).fit(labels, logits)
    assert scaling.temperature_ == pytest.approx(expected.temperature_, rel=1e-12)
    stored = json.loads(json.dumps(scaling.to_dict()))
    again = cd.Calibrator.from_dict(stored)
    np.testing.assert_array_equal(again.predict_proba(logits), scaling.predict_proba(logits))
    softened = np.exp(logits / scaling.temperature_)
    np.testing.assert_allclose(scaling.predict_proba(logits), softened / softened.sum(1, keepdims=True), rtol=1e-10)


def test_no_best_temperature() -> None:
    scores = rows(3, 200)[1]
    for observed, end, sign in ((scores.argmax(1), 0.125, -1), (scores.argmin(1), 8.0, 1)):
        with pytest.warns(UserWarning, match="no maximum for temperatures between 1/8 and 8"):
            scaling = cd.TemperatureScaling().fit(observed, scores)
        assert scaling.temperature_ == end
        assert scaling.bounded_ == sign
        assert np.isnan(scaling.temperature_se_)
        assert np.isfinite(scaling.predict_proba(scores)).all()


def test_equal_scores_three_rows_and_no_weight() -> None:
    uniform = np.full((4, 4), 0.25)
    with pytest.warns(UserWarning, match="scores of every row are equal"):
        scaling = cd.TemperatureScaling().fit([0, 1, 2, 3], uniform)
    assert scaling.temperature_ == 1.0
    np.testing.assert_array_equal(scaling.predict_proba(uniform), uniform)
    labels, scores = np.array([0, 1, 0]), np.array([[0.9, 0.1], [0.3, 0.7], [0.4, 0.6]])
    few = cd.TemperatureScaling().fit(labels, scores)
    assert few.temperature_ == pytest.approx(minimised(labels, scores), rel=1e-12)
    weights = np.array([1.0, 2.0, 0.5, 0.0])
    dropped = cd.TemperatureScaling().fit([0, 1, 0, 1], np.append(scores, [[np.nan, 3.0]], 0), weights)
    assert dropped.temperature_ == pytest.approx(minimised(labels, scores, weights[:3]), rel=1e-12)


def test_scores_of_zero_are_clipped_and_counted() -> None:
    labels, scores = rows(3, 500, dtype="float32")
    scores[:50], labels[:50] = [1.0, 0.0, 0.0], 0
    scaling = cd.TemperatureScaling().fit(labels, scores)
    assert scaling.clipped_rows_ == 50
    assert scaling.temperature_ == pytest.approx(minimised(labels, scores), rel=1e-12)


def test_refused() -> None:
    labels, scores = rows(3, 100)
    with pytest.raises(ValueError, match="labels of at least two classes, got one class"):
        cd.TemperatureScaling().fit(np.zeros(100, int), scores)
    with pytest.raises(ValueError, match="cannot be computed from a summary"):
        cd.TemperatureScaling().fit(cd.summarize(labels, scores))
