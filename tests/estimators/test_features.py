"""Random features stand for the kernel: within their own standard errors, and in a test that keeps its level."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import calibdask as cd
from tests.estimators.kernel_data import KERNELS, drawn, of
from tests.oracles import kernel_reference as reference

CHOICES: list[dict[str, Any]] = [
    {},
    {"distance": "euclidean"},
    {"kernel": "gaussian", "distance": "euclidean"},
    {"kernel": (cd.Kernel(bandwidth=0.2), cd.Kernel(distance="euclidean", bandwidth=1.0))},
    {"matrix": [[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]], "bandwidth": 0.3},
]


def calibrated_labels(rng: np.random.Generator, scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Labels of a calibrated model."""
    return np.asarray((scores.cumsum(-1) < rng.random((*scores.shape[:-1], 1))).sum(-1).clip(0, scores.shape[-1] - 1))


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("choice", range(len(CHOICES)))
def test_features_approximate_all_pairs(choice: int, calibrated: bool) -> None:
    """10 inputs, biased and unbiased: 20 differences, each beyond 3 standard errors by chance in 0.3 %."""
    rng = np.random.default_rng(choice)
    scores = rng.dirichlet([0.5, 1, 2], 400)
    labels = calibrated_labels(rng, scores) if calibrated else rng.integers(0, 3, 400)
    for exact, approximate in (("unbiased", "features"), ("biased", "features-biased")):
        options = CHOICES[choice]
        metrics = {"exact": cd.SKCE(estimator=exact, **options), "near": cd.SKCE(estimator=approximate, **options)}  # type: ignore[arg-type]
        result = cd.evaluate(labels, scores, metrics)
        error = result.near.attrs["approximation_error"]
        assert 0 < error < 0.2 * float(cd.evaluate(labels, scores, cd.SKCE(estimator="biased", **options)).skce)
        assert abs(float(result.near - result.exact)) < 3 * error


def test_more_features_are_nearer() -> None:
    rng = np.random.default_rng(1)
    scores = rng.dirichlet([1, 1, 1], 300)
    labels = rng.integers(0, 3, 300)
    exact = cd.skce(labels, scores, bandwidth=0.3)
    off = []
    for features in (64, 6400):
        values = [
            cd.skce(labels, scores, bandwidth=0.3, estimator="features", features=features, seed=s) for s in range(20)
        ]
        off.append(np.sqrt(np.mean((np.array(values) - exact) ** 2)))
    # The ratio of two roots of mean squares of 20 values: 10, and between 6 and 16 in 99 % of cases.
    assert 6 < off[0] / off[1] < 16


def test_level_and_power() -> None:
    """Of 100 sets of M1 at most 12 are rejected at 5 %, but for a chance of 0.15 %; all of M3, of random labels."""
    rng = np.random.default_rng(2)
    scores = rng.dirichlet(np.full(10, 0.1), (100, 250))
    test = cd.SKCETest(estimator="features", features=128, draws=39)
    rejected = cd.evaluate(calibrated_labels(rng, scores), scores, test).skce_test_pvalue <= 0.05
    assert int(rejected.sum()) <= 12
    power = cd.evaluate(rng.integers(0, 10, (20, 250)), scores[:20], test).skce_test_pvalue <= 0.05
    assert bool(power.all())


def test_level_with_more_rows_than_are_sampled() -> None:
    """Of 60 sets of 4000 calibrated rows, twice as many as are sampled, at most 9 at 5 %, but for a chance of 0.1 %."""
    rng = np.random.default_rng(3)
    rejected = 0
    for _ in range(60):
        scores = rng.dirichlet([0.5, 0.5, 0.5], 4000)
        test = cd.SKCETest(estimator="features", features=64, draws=39, bandwidth=0.3)
        rejected += float(cd.evaluate(calibrated_labels(rng, scores), scores, test).skce_test_pvalue) <= 0.05
    assert rejected <= 9


@pytest.mark.parametrize(("profile", "distance"), [p for p in KERNELS if p != ("gaussian", "tv")])
@pytest.mark.parametrize("kind", ["smooth", "saturated", "vector"])
def test_features_are_within_their_error(profile: Any, distance: Any, kind: str) -> None:
    labels, scores = drawn(kind, 40)
    kernel = reference.Kernel(profile, distance, 0.5)
    choices = {"kernel": profile, "distance": distance, "bandwidth": 0.5}
    weights = np.random.default_rng(8).random(40)
    for estimator, oracle in (("features", reference.unbiased), ("features-biased", reference.biased)):
        for w in (None, weights):
            metric = cd.SKCE(estimator=estimator, features=4096, **choices)  # type: ignore[arg-type]
            result = of(labels, scores, metric, sample_weight=w)
            error = float(result.attrs["approximation_error"])
            assert 0 < error < 0.05
            # Of 24 normal errors one is beyond 5 with a probability of 1.4e-5.
            assert abs(float(result) - oracle(labels, scores, kernel, w)) < 5 * error, (estimator, w is None)
            if estimator == "features-biased":
                assert float(result) >= 0


def test_features_by_seed_and_number() -> None:
    labels, scores = drawn("smooth", 40)
    first = of(labels, scores, cd.SKCE(estimator="features", bandwidth=0.5))
    assert float(of(labels, scores, cd.SKCE(estimator="features", bandwidth=0.5, features=512, seed=0))) == float(first)
    assert float(of(labels, scores, cd.SKCE(estimator="features", bandwidth=0.5, seed=1))) != float(first)
    more = of(labels, scores, cd.SKCE(estimator="features", bandwidth=0.5, features=2**15))
    # A factor of 8 but for chance.
    assert 4 < first.attrs["approximation_error"] / more.attrs["approximation_error"] < 16
