"""How often tests of calibration reject. Data sets are fixed; rates say how likely a correct test would fail here."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd
from tests.estimators.calibration_test_data import Floats, numbers
from tests.estimators.kernel_data import drawn


def data_sets(calibrated: bool, sets: int = 100, n: int = 250, classes: int = 10) -> tuple[Any, Floats]:
    """Predictions Dirichlet(0.1, ..., 0.1), labels drawn from them or uniformly; (sets, n) and (sets, n, classes)."""
    rng = np.random.default_rng(2019)
    scores = rng.dirichlet(np.full(classes, 0.1), (sets, n))
    if not calibrated:
        return rng.integers(0, classes, (sets, n)), scores
    below = rng.random((sets, n, 1)) > np.cumsum(scores, axis=2)[..., :-1]
    return below.sum(axis=2), scores


def rejections(pvalues: Any, level: float = 0.05) -> int:
    assert np.all((pvalues >= 0) & (pvalues <= 1))
    return int((np.asarray(pvalues) <= level).sum())


def test_asymptotic_tests_reject_calibrated_models_at_their_level() -> None:
    labels, scores = data_sets(calibrated=True)
    tests = {"quadratic": cd.SKCETest(), "linear": cd.SKCETest(estimator="linear"), "cme": cd.CMETest(draws=199)}
    result = cd.evaluate(labels, scores, tests)
    # At a rate of 0.05, more than 12 of 100 have a probability of 0.0015, and none one of 0.006.
    assert 1 <= rejections(result.quadratic_pvalue) <= 12
    assert 1 <= rejections(result.linear_pvalue) <= 12
    # At 0.04, as it is with few rows, none of 100 has a probability of 0.017.
    assert rejections(result.cme_pvalue) <= 12


def test_cme_test_of_binary_models_keeps_its_level() -> None:
    """Random locations of one dimension lie near each other; rare outcomes: `test_drawn_outcomes`."""
    rng = np.random.default_rng(11)
    scores = rng.random((200, 1000))
    labels = (rng.random(scores.shape) < scores).astype(int)
    # At 0.05, more than 21 of 200 have a probability of 0.0005.
    assert rejections(cd.evaluate(labels, scores, {"cme": cd.CMETest(draws=39)}, task="binary").cme_pvalue) <= 21


def test_cme_test_with_the_covariance_of_calibrated_rows() -> None:
    labels, scores = drawn("smooth", 40)
    q, c = np.random.default_rng(3).dirichlet(np.ones(3), 3), np.array([0, 1, 1])
    root = np.random.default_rng(4).normal(size=(3, 3))
    matrix = root @ root.T
    z, covariance = np.zeros(3), np.zeros((3, 3))
    for y, p in zip(labels, scores, strict=True):
        k = np.exp(-np.abs(p - q).sum(axis=1) / 2 / 0.5)
        along = k[:, None] * matrix[c]
        z += along @ (np.eye(3)[y] - p)
        covariance += along @ (np.diag(p) - np.outer(p, p)) @ along.T
    test = cd.CMETest(locations=(q, c), covariance="calibrated", matrix=matrix, bandwidth=0.5)
    result = numbers(labels, scores, test)
    assert result["statistic"] == pytest.approx(float(z @ np.linalg.solve(covariance, z)), rel=1e-8)


def test_bounds_never_reject_calibrated_models() -> None:
    labels, scores = data_sets(calibrated=True)
    kinds: list[Any] = ["unbiased", "biased", "linear"]
    tests: dict[str, Any] = {kind: cd.SKCETest(method="distribution-free", estimator=kind) for kind in kinds}
    result = cd.evaluate(labels, scores, tests)
    for kind in kinds:
        assert rejections(result[f"{kind}_pvalue"]) == 0


def test_quadratic_test_finds_uniform_labels() -> None:
    labels, scores = data_sets(calibrated=False)
    result = cd.evaluate(labels, scores, {"quadratic": cd.SKCETest()})
    assert rejections(result.quadratic_pvalue) == 100


def test_consistency_test_rejects_calibrated_models_at_its_level() -> None:
    labels, scores = data_sets(calibrated=True, n=100, classes=4)
    result = cd.evaluate(labels, scores, {"x": cd.ConsistencyTest(resamples=39)})
    # Exactly 2 of 40 p-values are at most 0.05: more than 12 have a probability of 0.0015, none one of 0.006.
    assert 1 <= rejections(result.x_pvalue) <= 12


def test_spiegelhalter_test_rejects_calibrated_models_at_its_level() -> None:
    rng = np.random.default_rng(1986)
    scores = rng.random((400, 200))
    labels = (rng.random((400, 200)) < scores).astype(np.int64)
    result = cd.evaluate(labels, scores, {"x": cd.SpiegelhalterTest()}, task="binary")
    # A binomial count of rate 0.05: below 7 with a probability of 2e-4, above 35 with 6e-4.
    assert 7 <= rejections(result.x_pvalue) <= 35
