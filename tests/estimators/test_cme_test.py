"""Tests by conditional mean embeddings against loops and by hand."""

from typing import Any

import numpy as np
import pytest

import calibdask as cd
from tests.combinations import pairwise
from tests.estimators.calibration_test_data import FIXED, TV, numbers
from tests.estimators.kernel_data import drawn, near
from tests.oracles import kernel_reference as reference

CASES: list[tuple[str, int, int, Any]] = [
    ("smooth", 40, 3, np.float64),
    ("smooth", 39, 5, np.float32),
    ("ties", 40, 3, np.float64),
    ("vector", 40, 2, np.float64),
]


@pytest.mark.parametrize(
    ("case", "profile", "distance"), pairwise(CASES, ["exponential", "gaussian"], ["tv", "euclidean"])
)
def test_cme_test(case: tuple[str, int, int, Any], profile: Any, distance: Any) -> None:
    kind, n, classes, dtype = case
    labels, scores = drawn(kind, n, classes, dtype)
    rng = np.random.default_rng(3)
    locations = rng.dirichlet(np.ones(classes), 4), np.arange(4) % classes
    kernel = reference.Kernel(profile, distance, 0.5)
    statistic, _ = reference.cme(labels, scores, locations, kernel)
    test = cd.CMETest(locations=locations, kernel=profile, distance=distance, bandwidth=0.5)
    result = numbers(labels, scores, test)
    assert set(result) == {"statistic", "pvalue"}
    # A linear system stands between the sums and the statistic.
    single = dtype == np.float32
    assert result["statistic"] == pytest.approx(statistic, rel=1e-3 if single else 1e-7)


def test_cme_test_of_one_location_by_hand() -> None:
    # One location at a certain e_0, where k = exp(-1/2) for all rows: z = k (1/2, 1/2, 1/2, -1/2).
    scores, labels = np.full((4, 2), 0.5), np.array([0, 0, 0, 1])
    locations = np.array([[1.0, 0.0]]), np.array([0])
    # Mean 1/4 and variance 1/4, both times powers of k, which cancel: 4 * (1/16) / (1/4).
    result = numbers(labels, scores, cd.CMETest(locations=locations, bandwidth=1.0))
    assert result["statistic"] == near(1.0)
    # Of 16 sets of labels, 8 have a mean of +-1/4, and those of equal labels no variance. 1000 draws: 0.016 each.
    assert result["pvalue"] == pytest.approx(0.5, abs=0.08)


def test_cme_test_of_many_rows_is_chi_square() -> None:
    labels, scores = drawn("smooth", 3000)
    locations = np.random.default_rng(3).dirichlet(np.ones(3), 3), np.array([0, 1, 2])
    statistic, pvalue = reference.cme(labels, scores, locations, reference.Kernel(bandwidth=0.5))
    result = numbers(labels, scores, cd.CMETest(locations=locations, **FIXED))
    assert list(result.values()) == pytest.approx([statistic, pvalue], rel=1e-7)


def test_cme_test_of_sums_and_median_bandwidth() -> None:
    labels, scores = drawn("smooth", 40)
    locations = np.random.default_rng(3).dirichlet(np.ones(3), 3), np.array([0, 1, 2])
    kernels = cd.Kernel(bandwidth=0.5), cd.Kernel(profile="gaussian", distance="euclidean", bandwidth=0.3)
    oracle = [TV, reference.Kernel("gaussian", "euclidean", 0.3)]
    result = numbers(labels, scores, cd.CMETest(locations=locations, kernel=kernels))
    assert result["statistic"] == pytest.approx(reference.cme(labels, scores, locations, oracle)[0], rel=1e-7)
    median = reference.Kernel(bandwidth=reference.median_bandwidth(scores))
    result = numbers(labels, scores, cd.CMETest(locations=locations))
    assert result["statistic"] == pytest.approx(reference.cme(labels, scores, locations, median)[0], rel=1e-7)


def test_cme_test_of_random_locations() -> None:
    labels, scores = drawn("smooth", 100)
    # The default is ten locations.
    assert numbers(labels, scores, cd.CMETest()) == numbers(labels, scores, cd.CMETest(locations=10))
    for m in (1, 4):
        tests = [cd.CMETest(locations=m, seed=seed, **FIXED) for seed in range(3)]
        result = [numbers(labels, scores, test) for test in tests]
        assert result == [numbers(labels, scores, test) for test in tests]
        assert len({number["statistic"] for number in result}) == 3
        for number in result:
            assert number["statistic"] >= 0
            assert 0 < number["pvalue"] <= 1


@pytest.mark.parametrize("covariance", ["observed", "calibrated"])
def test_the_same_outcomes_have_the_same_statistic(covariance: Any) -> None:
    scores = np.random.default_rng(5).beta(1, 199, 50)
    test = cd.CMETest(covariance=covariance, bandwidth=0.2, draws=400)
    pvalue = numbers(np.zeros(50, int), scores, test)["pvalue"]
    # Outcomes are drawn without any event as often as that is likely; five standard errors.
    chance = float(np.prod(1 - scores))
    assert pvalue >= chance - 5 * np.sqrt(chance * (1 - chance) / 400)
