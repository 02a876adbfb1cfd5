"""Kernel tests of calibration against their formulas: bounds, asymptotic tests, equivalence."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import calibdask as cd
from tests.estimators.calibration_test_data import FIXED, TV, numbers, wrong_rows
from tests.estimators.kernel_data import drawn, near, psd
from tests.oracles import kernel_reference as reference

ESTIMATORS = ("unbiased", "biased", "linear", "block")


def size_of(estimator: str) -> tuple[int | None, int]:
    """The option block of an estimator, and the m of its bounds."""
    return (5, 5) if estimator == "block" else (None, 2)


# Distribution-free bounds


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n", [30, 41])
@pytest.mark.parametrize("data", ["calibrated", "wrong"])
def test_distribution_free_bounds(estimator: Any, n: int, data: str) -> None:
    labels, scores = drawn("smooth", n) if data == "calibrated" else wrong_rows(n)
    block, m = size_of(estimator)
    one, two = psd(3), psd(3, 4)
    sums = [reference.Kernel(bandwidth=0.5, matrix=one), reference.Kernel("gaussian", "euclidean", 0.3, two)]
    kernels: list[tuple[dict[str, Any], reference.Kernels]] = [
        (FIXED, TV),
        ({"bandwidth": 0.5, "matrix": one}, sums[0]),
        (
            {
                "kernel": [
                    cd.Kernel(bandwidth=0.5, matrix=one),
                    cd.Kernel(profile="gaussian", distance="euclidean", bandwidth=0.3, matrix=two),
                ]
            },
            sums,
        ),
    ]
    for choices, oracle in kernels:
        result = numbers(
            labels, scores, cd.SKCETest(method="distribution-free", estimator=estimator, block=block, **choices)
        )
        estimate, bound = reference.skce(labels, scores, oracle, estimator, block), reference.kernel_bound(oracle)
        assert result["estimate"] == near(estimate)
        assert result["statistic"] == result["estimate"]
        if estimator == "biased":
            assert result["pvalue"] == near(reference.biased_bound(n, estimate, bound))
        else:
            assert result["pvalue"] == near(reference.blockwise_bound(n, estimate, bound, m))
        limited = set() if estimator == "biased" else {"bound"}
        assert set(result) == {"estimate", "statistic", "pvalue", *limited}


def test_distribution_free_bounds_by_hand() -> None:
    # All rows equal and wrong: h = 2 for all pairs, and B = 2.
    scores = np.tile([1.0, 0.0], (9, 1))
    labels = np.ones(9, dtype=int)
    expected = {
        "biased": math.exp(-((3 - 1) ** 2) / 2),
        "unbiased": math.exp(-4 / 2),
        "linear": math.exp(-4 / 2),
        "block": math.exp(-1 / 2),
    }
    for estimator, pvalue in expected.items():
        block, _ = size_of(estimator)
        test: Any = cd.SKCETest(method="distribution-free", estimator=estimator, block=block, bandwidth=1.0)  # type: ignore[arg-type]
        actual = numbers(labels, scores, test)
        assert actual["estimate"] == near(2.0)
        assert actual["pvalue"] == near(pvalue), estimator


def test_negative_estimates_have_the_bound_one() -> None:
    # Certain, wrong, and different: every product is negative.
    scores, labels = np.tile(np.eye(2), (5, 1)), np.tile([1, 0], 5)
    for estimator in ("linear", "block"):
        block = 2 if estimator == "block" else None
        test: Any = cd.SKCETest(method="distribution-free", estimator=estimator, block=block, bandwidth=1.0)
        result = numbers(labels, scores, test)
        assert result["estimate"] == near(-2 * math.exp(-1))
        assert result["pvalue"] == 1
    # Right rows have estimates of 0.
    for estimator in ("unbiased", "biased", "linear"):
        test = cd.SKCETest(method="distribution-free", estimator=estimator, bandwidth=1.0)  # type: ignore[arg-type]
        result = numbers(1 - labels, scores, test)
        assert [result[part] for part in ("estimate", "statistic", "pvalue")] == [0, 0, 1]


# Asymptotic tests


@pytest.fixture
def asymptotic_for_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """References are quick with few rows, for which outcomes would be drawn."""
    monkeypatch.setattr("calibdask.estimators.hypothesis_tests.skce.FEW_ROWS", 0)


@pytest.mark.usefixtures("asymptotic_for_few_rows")
@pytest.mark.parametrize("estimator", ["linear", "block"])
@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize(
    ("kind", "n", "dtype"), [("smooth", 41, np.float64), ("ties", 40, np.float32), ("vector", 33, np.float64)]
)
def test_z_tests(estimator: Any, ddof: int, kind: str, n: int, dtype: Any) -> None:
    labels, scores = drawn(kind, n, 3, dtype)
    block, m = size_of(estimator)
    values = reference.block_values(labels, scores, TV, m)
    z, pvalue = reference.z_test(values, ddof)
    result = numbers(labels, scores, cd.SKCETest(estimator=estimator, block=block, ddof=ddof, **FIXED))
    assert result["estimate"] == near(math.fsum(values) / len(values), dtype)
    single = dtype == np.float32
    assert result["statistic"] == pytest.approx(z, rel=1e-5 if single else 1e-10)
    assert result["pvalue"] == pytest.approx(pvalue, rel=1e-4 if single else 1e-9)


def test_z_test_has_one_degree_of_freedom_by_default() -> None:
    labels, scores = drawn("smooth", 40)
    result = numbers(labels, scores, cd.SKCETest(estimator="linear", **FIXED))
    assert result == numbers(labels, scores, cd.SKCETest(method="asymptotic", estimator="linear", ddof=1, **FIXED))


@pytest.mark.usefixtures("asymptotic_for_few_rows")
def test_tiny_pvalues_of_z_tests_keep_their_digits() -> None:
    # 1 - Phi(z) by subtraction would be 0.
    labels = np.ones(24, dtype=int)
    scores = np.random.default_rng(1).random((24, 1)) * 0.4 * [[-1, 1]] + [[1, 0]]
    z, pvalue = reference.z_test(reference.block_values(labels, scores, TV, 2))
    assert 0 < pvalue < 1e-20
    result = numbers(labels, scores, cd.SKCETest(estimator="linear", **FIXED))
    assert result["statistic"] == pytest.approx(z, rel=1e-10)
    assert result["pvalue"] == pytest.approx(pvalue, rel=1e-6)


QUADRATIC = [("smooth", 20, 3, 1), ("smooth", 25, 4, 2), ("saturated", 21, 3, 3), ("vector", 20, 2, 4)]


@pytest.mark.usefixtures("asymptotic_for_few_rows")
@pytest.mark.parametrize(("kind", "n", "classes", "seed"), QUADRATIC)
@pytest.mark.parametrize(("profile", "distance"), [("exponential", "tv"), ("gaussian", "euclidean")])
def test_quadratic_test(kind: str, n: int, classes: int, seed: int, profile: Any, distance: Any) -> None:
    labels, scores = drawn(kind, n, classes, seed=seed)
    kernel = reference.Kernel(profile, distance, 0.5)
    test = cd.SKCETest(draws=4000, kernel=profile, distance=distance, bandwidth=0.5)
    actual = numbers(labels, scores, test)
    statistic = reference.quadratic_statistic(labels, scores, kernel)
    assert actual["estimate"] == near(reference.unbiased(labels, scores, kernel))
    assert actual["statistic"] == near(statistic)
    assert actual["pvalue"] * 4001 == pytest.approx(round(actual["pvalue"] * 4001), abs=1e-6)
    draws = reference.quadratic_draws(reference.pair_terms(labels, scores, kernel), 16000)
    expected = float(np.mean(draws >= statistic))
    # Standard deviation of the difference of two shares; beyond 5 with a probability of 6e-7 in each of 8 cases.
    error = math.sqrt(max(expected * (1 - expected), 1e-3) * (1 / 4000 + 1 / 16000))
    assert abs(actual["pvalue"] - expected) < 5 * error


def test_quadratic_test_of_median_bandwidth_and_float32() -> None:
    labels, scores = drawn("smooth", 30, 4, np.float32)
    kernel = reference.Kernel(bandwidth=reference.median_bandwidth(scores))
    result = numbers(labels, scores, cd.SKCETest())
    assert result["estimate"] == near(reference.unbiased(labels, scores, kernel), np.float32)
    assert result["statistic"] == near(reference.quadratic_statistic(labels, scores, kernel), np.float32)
    assert result == numbers(labels, scores, cd.SKCETest(method="asymptotic", estimator="unbiased", draws=1000))


def test_quadratic_test_by_seed() -> None:
    labels, scores = drawn("smooth", 30)
    shares = [numbers(labels, scores, cd.SKCETest(seed=seed, **FIXED))["pvalue"] for seed in range(5)]
    assert shares == [numbers(labels, scores, cd.SKCETest(seed=seed, **FIXED))["pvalue"] for seed in range(5)]
    assert len(set(shares)) > 1


def test_features_test() -> None:
    labels, scores = drawn("smooth", 40)
    result = numbers(labels, scores, cd.SKCETest(estimator="features", **FIXED))
    estimate = float(cd.evaluate(labels, scores, {"x": cd.SKCE(estimator="features", **FIXED)}).x)
    assert result["estimate"] == near(estimate)
    assert result["statistic"] == near(40 * estimate)
    assert 0 <= result["pvalue"] <= 1
    assert result == numbers(labels, scores, cd.SKCETest(estimator="features", **FIXED))
    wrong = wrong_rows(300)
    assert numbers(*wrong, cd.SKCETest(estimator="features", **FIXED))["pvalue"] < 0.01


# Equivalence


@pytest.mark.parametrize("estimator", ["linear", "block"])
@pytest.mark.parametrize("delta", [0.001, 0.05, 0.3])
@pytest.mark.parametrize("ddof", [0, 1])
def test_asymptotic_equivalence(estimator: Any, delta: float, ddof: int) -> None:
    labels, scores = drawn("smooth", 40)
    block, m = size_of(estimator)
    values = reference.block_values(labels, scores, TV, m)
    for level in (0.95, 0.8):
        test = cd.SKCETest(estimator=estimator, block=block, delta=delta, level=level, ddof=ddof, **FIXED)
        result = numbers(labels, scores, test)
        pvalue, bound = reference.block_equivalence(values, m, reference.kernel_bound(TV), delta, level, ddof)
        assert result["pvalue"] == pytest.approx(pvalue, rel=1e-7)
        assert result["bound"] == pytest.approx(bound, rel=1e-9)
        assert result["estimate"] == near(math.fsum(values) / len(values))


@pytest.mark.parametrize("estimator", ["unbiased", "linear", "block"])
@pytest.mark.parametrize("delta", [0.01, 0.2, 1.0, 3.0])
def test_distribution_free_equivalence(estimator: Any, delta: float) -> None:
    labels, scores = drawn("smooth", 40)
    block, m = size_of(estimator)
    matrix = psd(3)
    oracle = reference.Kernel(bandwidth=0.5, matrix=matrix)
    estimate = reference.skce(labels, scores, oracle, estimator, block)
    for level in (0.95, 0.8):
        test = cd.SKCETest(
            method="distribution-free",
            estimator=estimator,
            block=block,
            delta=delta,
            level=level,
            bandwidth=0.5,
            matrix=matrix,
        )
        result = numbers(labels, scores, test)
        b = reference.kernel_bound(oracle)
        assert result["pvalue"] == near(reference.equivalence_bound(40, estimate, b, delta, m))
        assert result["bound"] == near(reference.equivalence_limit(40, estimate, b, level, m))


CONFIDENT: list[tuple[Any, Any]] = [
    ("asymptotic", "linear"),
    ("asymptotic", "block"),
    ("distribution-free", "unbiased"),
    ("distribution-free", "linear"),
    ("distribution-free", "block"),
]


@pytest.mark.parametrize(("method", "estimator"), CONFIDENT)
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_bound_is_the_delta_that_is_just_rejected(method: Any, estimator: Any, level: float) -> None:
    labels, scores = wrong_rows(60)
    block, _ = size_of(estimator)
    choices: dict[str, Any] = {"method": method, "estimator": estimator, "block": block, "level": level, **FIXED}
    bound = numbers(labels, scores, cd.SKCETest(delta=0.1, **choices))["bound"]
    at = numbers(labels, scores, cd.SKCETest(delta=bound, **choices))
    assert at["pvalue"] == pytest.approx(1 - level, rel=1e-9)
    assert at["bound"] == pytest.approx(bound, rel=1e-12)
    deltas = [0.5 * bound, 0.9 * bound, bound, 1.1 * bound, 2 * bound]
    falling = [numbers(labels, scores, cd.SKCETest(delta=delta, **choices))["pvalue"] for delta in deltas]
    assert falling == sorted(falling, reverse=True)
    assert falling[1] > 1 - level > falling[3]
    assert at["estimate"] == numbers(labels, scores, cd.SKCETest(**choices))["estimate"]


def test_equivalence_without_rows_that_could_show_it() -> None:
    """No pair in error: the bound is that of none of N pairs at the largest value, and of one block there is none."""
    labels, scores = np.zeros(200, dtype=int), np.zeros(200)
    result = numbers(labels, scores, cd.SKCETest(estimator="linear", delta=0.05, **FIXED))
    level = 1 - stats.norm.cdf(stats.t(99).ppf(0.05))
    assert result["bound"] == pytest.approx(2 * (1 - (1 - level) ** (1 / 100)), rel=1e-9)
    assert result["pvalue"] > 0.05
    assert math.isnan(result["statistic"])
    one = numbers(labels, scores, cd.SKCETest(estimator="block", block=150, delta=0.05, **FIXED))
    assert math.isnan(one["pvalue"])
    assert math.isnan(one["bound"])
    # All rows wrong alike: the error is the largest there is.
    wrong = numbers(np.ones(200, dtype=int), scores, cd.SKCETest(estimator="linear", delta=2.0, **FIXED))
    assert (wrong["estimate"], wrong["bound"], wrong["pvalue"]) == (2.0, 2.0, 1.0)


# Refusals


@pytest.mark.parametrize(
    "make",
    [
        lambda: cd.SKCETest(method="bootstrap"),  # type: ignore[arg-type]
        lambda: cd.SKCETest(estimator="quadratic"),  # type: ignore[arg-type]
        lambda: cd.SKCETest(estimator="block"),
        lambda: cd.SKCETest(draws=0),
        lambda: cd.SKCETest(estimator="linear", delta=0.1, level=1.5),
        lambda: cd.SKCETest(estimator="linear", delta=0.1, level=0.0),
        lambda: cd.SKCETest(estimator="linear", delta=-0.1),
        lambda: cd.SKCETest(estimator="linear", delta=float("nan")),
        lambda: cd.SKCETest(estimator="unbiased", delta=0.1),
        lambda: cd.SKCETest(estimator="features", delta=0.1),
        lambda: cd.SKCETest(method="distribution-free", estimator="biased", delta=0.1),
        lambda: cd.SKCETest(kernel="laplace"),  # type: ignore[arg-type]
        lambda: cd.SKCETest(setting="marginal"),
        lambda: cd.SKCETest(matrix=-np.eye(3)),
        lambda: cd.SKCETest(max_pairs=100, **FIXED),
        lambda: cd.ConsistencyTest(predictions="drawn"),  # type: ignore[arg-type]
        lambda: cd.ConsistencyTest(resamples=0),
        lambda: cd.CMETest(locations=0),
        lambda: cd.CMETest(locations=(np.ones((2, 4)) / 4, np.array([0, 1]))),
        lambda: cd.CMETest(locations=(np.ones((2, 3)) / 3, np.array([0, 3]))),
        lambda: cd.CMETest(locations=(np.ones((2, 3)) / 3, np.array([0, 1, 2]))),
        lambda: cd.SpiegelhalterTest(setting="marginal"),
    ],
)
def test_bad_choices(make: Any) -> None:
    labels, scores = drawn("smooth", 30)

    def attempt() -> None:
        cd.evaluate(labels, scores, {"x": make()})

    with pytest.raises(ValueError, match=r".+"):
        attempt()
