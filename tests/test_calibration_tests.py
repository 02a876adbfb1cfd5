"""Tests of calibration against their formulas; laws of p-values; chunks; how often they reject."""

import itertools
import math
import pickle
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import chdtrc

import calibdask as cd
from tests import kernel_reference as reference
from tests import reference as binned_reference
from tests import strategies
from tests.test_skce import drawn, near, psd

Floats = NDArray[np.float64]

TV = reference.Kernel(bandwidth=0.5)
FIXED: dict[str, Any] = {"bandwidth": 0.5}
ESTIMATORS = ("unbiased", "biased", "linear", "block")


def parts_of(labels: Any, scores: Any, test: Any, **options: Any) -> dict[str, Any]:
    """The parts of one test, by name."""
    found = cd.evaluate(labels, scores, {"x": test}, **options)
    return {str(name).removeprefix("x_"): found[name] for name in found.data_vars}


def numbers(labels: Any, scores: Any, test: Any, **options: Any) -> dict[str, float]:
    return {name: float(part) for name, part in parts_of(labels, scores, test, **options).items()}


def size_of(estimator: str) -> tuple[int | None, int]:
    """The option block of an estimator, and the m of its bounds."""
    return (5, 5) if estimator == "block" else (None, 2)


def wrong_rows(n: int, classes: int = 3, seed: int = 1) -> tuple[NDArray[np.int64], Floats]:
    """Overconfident rows: the labels do not depend on the scores."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, n), rng.dirichlet(np.full(classes, 0.3), n)


def calibrated_rows(n: int, classes: int = 3, seed: int = 1) -> tuple[NDArray[np.int64], Floats]:
    """Rows whose labels are drawn from their scores; of two classes a vector."""
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(classes), n)
    labels = (rng.random(n)[:, None] > np.cumsum(scores, axis=1)[:, :-1]).sum(axis=1)
    return labels, scores[:, 1] if classes == 2 else scores


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
        found = numbers(
            labels, scores, cd.SKCETest(method="distribution-free", estimator=estimator, block=block, **choices)
        )
        estimate, bound = reference.skce(labels, scores, oracle, estimator, block), reference.kernel_bound(oracle)
        assert found["estimate"] == near(estimate)
        assert found["statistic"] == found["estimate"]
        if estimator == "biased":
            assert found["pvalue"] == near(reference.biased_bound(n, estimate, bound))
        else:
            assert found["pvalue"] == near(reference.blockwise_bound(n, estimate, bound, m))
        limited = set() if estimator == "biased" else {"bound"}
        assert set(found) == {"estimate", "statistic", "pvalue", *limited}


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
        found = numbers(labels, scores, test)
        assert found["estimate"] == near(2.0)
        assert found["pvalue"] == near(pvalue), estimator


def test_negative_estimates_have_the_bound_one() -> None:
    # Certain, wrong, and different: every product is negative.
    scores, labels = np.tile(np.eye(2), (5, 1)), np.tile([1, 0], 5)
    for estimator in ("linear", "block"):
        block = 2 if estimator == "block" else None
        test: Any = cd.SKCETest(method="distribution-free", estimator=estimator, block=block, bandwidth=1.0)
        found = numbers(labels, scores, test)
        assert found["estimate"] == near(-2 * math.exp(-1))
        assert found["pvalue"] == 1
    # Right rows have estimates of 0.
    for estimator in ("unbiased", "biased", "linear"):
        test = cd.SKCETest(method="distribution-free", estimator=estimator, bandwidth=1.0)  # type: ignore[arg-type]
        found = numbers(1 - labels, scores, test)
        assert [found[part] for part in ("estimate", "statistic", "pvalue")] == [0, 0, 1]


# Asymptotic tests


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
    found = numbers(labels, scores, cd.SKCETest(estimator=estimator, block=block, ddof=ddof, **FIXED))
    assert found["estimate"] == near(math.fsum(values) / len(values), dtype)
    single = dtype == np.float32
    assert found["statistic"] == pytest.approx(z, rel=1e-5 if single else 1e-10)
    assert found["pvalue"] == pytest.approx(pvalue, rel=1e-4 if single else 1e-9)


def test_z_test_has_one_degree_of_freedom_by_default() -> None:
    labels, scores = drawn("smooth", 40)
    found = numbers(labels, scores, cd.SKCETest(estimator="linear", **FIXED))
    assert found == numbers(labels, scores, cd.SKCETest(method="asymptotic", estimator="linear", ddof=1, **FIXED))


def test_tiny_pvalues_of_z_tests_keep_their_digits() -> None:
    # 1 - Phi(z) by subtraction would be 0.
    labels = np.ones(24, dtype=int)
    scores = np.random.default_rng(1).random((24, 1)) * 0.4 * [[-1, 1]] + [[1, 0]]
    z, pvalue = reference.z_test(reference.block_values(labels, scores, TV, 2))
    assert 0 < pvalue < 1e-20
    found = numbers(labels, scores, cd.SKCETest(estimator="linear", **FIXED))
    assert found["statistic"] == pytest.approx(z, rel=1e-10)
    assert found["pvalue"] == pytest.approx(pvalue, rel=1e-6)


QUADRATIC = [("smooth", 20, 3, 1), ("smooth", 25, 4, 2), ("saturated", 21, 3, 3), ("vector", 20, 2, 4)]


@pytest.mark.parametrize(("kind", "n", "classes", "seed"), QUADRATIC)
@pytest.mark.parametrize(("profile", "distance"), [("exponential", "tv"), ("gaussian", "euclidean")])
def test_quadratic_test(kind: str, n: int, classes: int, seed: int, profile: Any, distance: Any) -> None:
    labels, scores = drawn(kind, n, classes, seed=seed)
    kernel = reference.Kernel(profile, distance, 0.5)
    test = cd.SKCETest(draws=4000, kernel=profile, distance=distance, bandwidth=0.5)
    found = numbers(labels, scores, test)
    statistic = reference.quadratic_statistic(labels, scores, kernel)
    assert found["estimate"] == near(reference.unbiased(labels, scores, kernel))
    assert found["statistic"] == near(statistic)
    assert found["pvalue"] * 4001 == pytest.approx(round(found["pvalue"] * 4001), abs=1e-6)
    draws = reference.quadratic_draws(reference.pair_terms(labels, scores, kernel), 16000)
    expected = float(np.mean(draws >= statistic))
    # Standard deviation of the difference of two shares; beyond 5 with a probability of 6e-7 in each of 8 cases.
    error = math.sqrt(max(expected * (1 - expected), 1e-3) * (1 / 4000 + 1 / 16000))
    assert abs(found["pvalue"] - expected) < 5 * error


def test_quadratic_test_of_median_bandwidth_and_float32() -> None:
    labels, scores = drawn("smooth", 30, 4, np.float32)
    kernel = reference.Kernel(bandwidth=reference.median_bandwidth(scores))
    found = numbers(labels, scores, cd.SKCETest())
    assert found["estimate"] == near(reference.unbiased(labels, scores, kernel), np.float32)
    assert found["statistic"] == near(reference.quadratic_statistic(labels, scores, kernel), np.float32)
    assert found == numbers(labels, scores, cd.SKCETest(method="asymptotic", estimator="unbiased", draws=1000))


def test_quadratic_test_by_seed() -> None:
    labels, scores = drawn("smooth", 30)
    shares = [numbers(labels, scores, cd.SKCETest(seed=seed, **FIXED))["pvalue"] for seed in range(5)]
    assert shares == [numbers(labels, scores, cd.SKCETest(seed=seed, **FIXED))["pvalue"] for seed in range(5)]
    assert len(set(shares)) > 1


def test_features_test() -> None:
    labels, scores = drawn("smooth", 40)
    found = numbers(labels, scores, cd.SKCETest(estimator="features", **FIXED))
    estimate = float(cd.evaluate(labels, scores, {"x": cd.SKCE(estimator="features", **FIXED)}).x)
    assert found["estimate"] == near(estimate)
    assert found["statistic"] == near(40 * estimate)
    assert 0 <= found["pvalue"] <= 1
    assert found == numbers(labels, scores, cd.SKCETest(estimator="features", **FIXED))
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
        found = numbers(labels, scores, test)
        pvalue, bound = reference.z_equivalence(values, delta, level, ddof)
        assert found["pvalue"] == pytest.approx(pvalue, rel=1e-9)
        assert found["bound"] == near(bound)
        assert found["estimate"] == near(math.fsum(values) / len(values))


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
        found = numbers(labels, scores, test)
        b = reference.kernel_bound(oracle)
        assert found["pvalue"] == near(reference.equivalence_bound(40, estimate, b, delta, m))
        assert found["bound"] == near(reference.equivalence_limit(40, estimate, b, level, m))


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


# Consistency resampling


@pytest.mark.parametrize("predictions", ["fixed", "resampled"])
@pytest.mark.parametrize(
    "statistic",
    [cd.ECE(), cd.ECE(setting="classwise", bins=4), cd.SKCE(bandwidth=0.5), cd.MulticlassECE(bins=3), cd.BrierScore()],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("kind", ["smooth", "saturated", "vector"])
def test_consistency_test(predictions: Any, statistic: Any, kind: str) -> None:
    labels, scores = drawn(kind, 30)
    if kind == "vector" and "classwise" in repr(statistic):
        scores = np.column_stack([1 - scores, scores])
    found = numbers(labels, scores, cd.ConsistencyTest(statistic=statistic, resamples=39, predictions=predictions))
    assert set(found) == {"statistic", "pvalue"}
    assert found["statistic"] == float(cd.evaluate(labels, scores, {"x": statistic}).x)
    hits = found["pvalue"] * 40
    assert hits == pytest.approx(round(hits), abs=1e-9)
    assert 1 <= round(hits) <= 40
    again = cd.ConsistencyTest(statistic=statistic, resamples=39, predictions=predictions, seed=0)
    assert numbers(labels, scores, again) == found


@pytest.mark.parametrize("predictions", ["fixed", "resampled"])
@pytest.mark.parametrize("name", ["ece", "skce", "binary ece"])
def test_consistency_test_equals_resampling_by_loops(predictions: Any, name: str) -> None:
    labels, scores = calibrated_rows(16, 2 if name == "binary ece" else 3, seed=4)
    edges = binned_reference.uniform_edges(5)

    def by_loops(y: Any, p: Any) -> float:
        if name == "skce":
            return reference.biased(y, p, TV)
        return binned_reference.ece_of(y, p, "binary" if name == "binary ece" else "confidence", edges)

    statistics: dict[str, Any] = {
        "ece": cd.ECE(bins=5, setting="confidence"),
        "skce": cd.SKCE(estimator="biased", bandwidth=0.5),
        "binary ece": cd.ECE(bins=5, setting="binary"),
    }
    found = numbers(
        labels, scores, cd.ConsistencyTest(statistic=statistics[name], resamples=2000, predictions=predictions)
    )
    least = by_loops(labels, scores)
    assert found["statistic"] == near(least)
    # Below by a hair: of equal values the loops may round one down.
    share = reference.resampled_share(by_loops, scores, least * (1 - 1e-12), 600, rows=predictions == "resampled")
    # Beyond 5 standard deviations with a probability of 6e-7 in each of 6 cases.
    error = math.sqrt(max(share * (1 - share), 1e-3) * (1 / 2000 + 1 / 600))
    assert abs(found["pvalue"] - share) < 5 * error + 1 / 2001


def test_smallest_and_largest_pvalue_of_resampling() -> None:
    # Labels that contradict certain scores never happen by chance; right ones always: the statistics are equal.
    certain = np.eye(3)[np.arange(30) % 3]
    for resamples in (1, 19, 100):
        wrong = numbers((np.arange(30) + 1) % 3, certain, cd.ConsistencyTest(resamples=resamples))
        assert wrong["pvalue"] == pytest.approx(1 / (1 + resamples))
        right = numbers(np.arange(30) % 3, certain, cd.ConsistencyTest(resamples=resamples))
        assert right == {"statistic": 0, "pvalue": 1}


def test_resampling_by_seed() -> None:
    labels, scores = calibrated_rows(30)
    for predictions in ("fixed", "resampled"):
        tests: list[Any] = [cd.ConsistencyTest(resamples=200, predictions=predictions, seed=seed) for seed in range(5)]
        shares = [numbers(labels, scores, test)["pvalue"] for test in tests]
        assert shares == [numbers(labels, scores, test)["pvalue"] for test in tests]
        assert len(set(shares)) > 1


# Conditional mean embeddings


@pytest.mark.parametrize(
    ("kind", "n", "classes", "dtype"),
    [
        ("smooth", 40, 3, np.float64),
        ("smooth", 39, 5, np.float32),
        ("ties", 40, 3, np.float64),
        ("vector", 40, 2, np.float64),
    ],
)
@pytest.mark.parametrize("profile", ["exponential", "gaussian"])
@pytest.mark.parametrize("distance", ["tv", "euclidean"])
def test_cme_test(kind: str, n: int, classes: int, dtype: Any, profile: Any, distance: Any) -> None:
    labels, scores = drawn(kind, n, classes, dtype)
    rng = np.random.default_rng(3)
    locations = rng.dirichlet(np.ones(classes), 4), np.arange(4) % classes
    kernel = reference.Kernel(profile, distance, 0.5)
    statistic, pvalue = reference.cme(labels, scores, locations, kernel)
    test = cd.CMETest(locations=locations, kernel=profile, distance=distance, bandwidth=0.5)
    found = numbers(labels, scores, test)
    assert set(found) == {"statistic", "pvalue"}
    # A linear system stands between the sums and the statistic.
    single = dtype == np.float32
    assert found["statistic"] == pytest.approx(statistic, rel=1e-3 if single else 1e-7)
    assert found["pvalue"] == pytest.approx(pvalue, rel=1e-3 if single else 1e-7)


def test_cme_test_of_one_location_by_hand() -> None:
    # One location at a certain e_0, where k = exp(-1/2) for all rows: z = k (1/2, 1/2, 1/2, -1/2).
    scores, labels = np.full((4, 2), 0.5), np.array([0, 0, 0, 1])
    locations = np.array([[1.0, 0.0]]), np.array([0])
    # Mean 1/4 and variance 1/4, both times powers of k, which cancel: 4 * (1/16) / (1/4).
    found = numbers(labels, scores, cd.CMETest(locations=locations, bandwidth=1.0))
    assert found["statistic"] == near(1.0)
    assert found["pvalue"] == near(math.erfc(math.sqrt(0.5)))


def test_cme_test_of_sums_and_median_bandwidth() -> None:
    labels, scores = drawn("smooth", 40)
    locations = np.random.default_rng(3).dirichlet(np.ones(3), 3), np.array([0, 1, 2])
    kernels = cd.Kernel(bandwidth=0.5), cd.Kernel(profile="gaussian", distance="euclidean", bandwidth=0.3)
    oracle = [TV, reference.Kernel("gaussian", "euclidean", 0.3)]
    found = numbers(labels, scores, cd.CMETest(locations=locations, kernel=kernels))
    assert list(found.values()) == pytest.approx(reference.cme(labels, scores, locations, oracle), rel=1e-7)
    median = reference.Kernel(bandwidth=reference.median_bandwidth(scores))
    found = numbers(labels, scores, cd.CMETest(locations=locations))
    assert list(found.values()) == pytest.approx(reference.cme(labels, scores, locations, median), rel=1e-7)


def test_cme_test_of_random_locations() -> None:
    labels, scores = drawn("smooth", 100)
    # The default is ten locations.
    assert numbers(labels, scores, cd.CMETest()) == numbers(labels, scores, cd.CMETest(locations=10))
    for m in (1, 4):
        tests = [cd.CMETest(locations=m, seed=seed, **FIXED) for seed in range(3)]
        found = [numbers(labels, scores, test) for test in tests]
        assert found == [numbers(labels, scores, test) for test in tests]
        assert len({each["statistic"] for each in found}) == 3
        for each in found:
            assert each["statistic"] >= 0
            assert each["pvalue"] == pytest.approx(float(chdtrc(m, each["statistic"])), rel=1e-9)


# Spiegelhalter's test


@pytest.mark.parametrize(
    ("kind", "dtype"), [("smooth", np.float64), ("saturated", np.float64), ("ties", np.float32), ("smooth", np.float32)]
)
def test_spiegelhalter_test(kind: str, dtype: Any) -> None:
    labels, scores = drawn(kind, 40, 4, dtype)
    for setting in ("confidence", 0, 3):
        expected = reference.spiegelhalter(*binned_reference.columns(labels, scores, setting)[0])
        found = numbers(labels, scores, cd.SpiegelhalterTest(setting=setting))
        assert found["statistic"] == near(expected[0], dtype)
        assert found["pvalue"] == near(expected[1], dtype)
    classwise = parts_of(labels, scores, cd.SpiegelhalterTest(setting="classwise"))
    columns = binned_reference.columns(labels, scores, "classwise")
    for number, part in enumerate(("statistic", "pvalue")):
        assert classwise[part].dims == ("class",)
        expected_values = [reference.spiegelhalter(*column)[number] for column in columns]
        assert classwise[part].values == near(expected_values, dtype)


def test_spiegelhalter_test_of_a_vector_and_by_hand() -> None:
    labels, scores = drawn("vector", 40)
    expected = reference.spiegelhalter(scores, labels)
    for setting in (None, "binary"):
        found = numbers(labels, scores, cd.SpiegelhalterTest(setting=setting))
        assert [found["statistic"], found["pvalue"]] == near(list(expected))
    # Score 1/4 with label 1: (3/4)(1/2) / sqrt((1/4)(3/16)) = sqrt(3).
    found = numbers(np.array([1]), np.array([0.25]), cd.SpiegelhalterTest())
    assert found["statistic"] == near(math.sqrt(3))
    assert found["pvalue"] == near(math.erfc(math.sqrt(1.5)))


# Slices, batches, chunks


LOCATIONS = (np.array([[0.6, 0.2, 0.2], [0.1, 0.2, 0.7]]), np.array([0, 2]))

# Whose numbers are all formulas of the rows.
CERTAIN: dict[str, Any] = {
    "free": cd.SKCETest(method="distribution-free"),
    "free_biased": cd.SKCETest(method="distribution-free", estimator="biased", **FIXED),
    "free_block": cd.SKCETest(method="distribution-free", estimator="block", block=3, delta=0.5, **FIXED),
    "linear": cd.SKCETest(estimator="linear"),
    "block": cd.SKCETest(estimator="block", block=4, delta=0.1, setting="confidence", **FIXED),
    "cme": cd.CMETest(locations=LOCATIONS),
    "spiegelhalter": cd.SpiegelhalterTest(setting="confidence"),
    "classes": cd.SpiegelhalterTest(setting="classwise"),
}
# Whose p-values, or locations, are drawn.
RANDOM: dict[str, Any] = {
    "quadratic": cd.SKCETest(draws=100),
    "quadratic_lens": cd.SKCETest(draws=100, setting=cd.Lens.groups([[0, 1], [2]]), **FIXED),
    "features": cd.SKCETest(estimator="features", features=32, draws=100, **FIXED),
    "fixed": cd.ConsistencyTest(resamples=40),
    "resampled": cd.ConsistencyTest(resamples=40, predictions="resampled"),
    "of_skce": cd.ConsistencyTest(statistic=cd.SKCE(estimator="linear", bandwidth=0.5), resamples=40),
    "random_cme": cd.CMETest(locations=3),
}
TESTS = {**CERTAIN, **RANDOM}


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), strategies.chunks(40), st.sampled_from([np.float32, np.float64]))
def test_dask_equals_numpy_to_the_last_bit(seed: int, chunks: tuple[int, ...], dtype: Any) -> None:
    labels, scores = drawn("smooth", 40, 3, dtype, seed)
    whole = cd.evaluate(labels, scores, TESTS)
    pieces = cd.evaluate(da.from_array(labels, chunks=(chunks,)), da.from_array(scores, chunks=(chunks, 3)), TESTS)
    assert set(pieces.data_vars) == set(whole.data_vars)
    for name in whole.data_vars:
        np.testing.assert_array_equal(pieces[name].values, whole[name].values, err_msg=str(name))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dask_equals_numpy_with_more_rows_than_fit_a_tile(dtype: Any) -> None:
    labels, scores = drawn("smooth", 1300, 3, dtype)
    tests = {"quadratic": cd.SKCETest(draws=20), "cme": cd.CMETest(), "free": cd.SKCETest(method="distribution-free")}
    whole = cd.evaluate(labels, scores, tests)
    for chunks in ((1, 511, 513, 275), (1299, 1), (100,) * 13):
        lazy = da.from_array(labels, chunks=(chunks,)), da.from_array(scores, chunks=(chunks, 3))
        pieces = cd.evaluate(*lazy, tests)
        for name in whole.data_vars:
            assert float(pieces[name]) == float(whole[name]), (name, chunks)


@pytest.mark.parametrize("sliced", [False, True])
def test_dask_with_slices_and_batches_equals_numpy(sliced: bool) -> None:
    batch = np.stack([drawn("smooth", 60, seed=seed)[1] for seed in (1, 2)])
    labels = np.random.default_rng(5).integers(0, 3, (2, 60))
    by = {"g": np.arange(60) % 2} if sliced else None
    whole = cd.evaluate(labels, batch, TESTS, by=by)
    for chunks in ((60,), (13, 1, 46), (30, 30)):
        lazy = da.from_array(labels, chunks=(2, chunks)), da.from_array(batch, chunks=(1, chunks, 3))
        pieces = cd.evaluate(*lazy, TESTS, by=by)
        for name in whole.data_vars:
            np.testing.assert_array_equal(pieces[name].values, whole[name].values, err_msg=str(name))


@pytest.mark.parametrize("sizes", [(40,), (1,) * 40, (7, 2, 30, 1)], ids=str)
def test_iterables_of_blocks(sizes: tuple[int, ...]) -> None:
    labels, scores = drawn("smooth", 40)
    whole = cd.evaluate(labels, scores, TESTS)
    borders = itertools.pairwise([0, *itertools.accumulate(sizes)])
    pieces = cd.evaluate([(labels[a:b], scores[a:b]) for a, b in borders], metrics=TESTS)
    for name in whole.data_vars:
        np.testing.assert_array_equal(pieces[name].values, whole[name].values, err_msg=str(name))


def drawn_by_chance(name: str) -> bool:
    """Parts that depend on which random numbers a row gets."""
    return name.startswith("random_cme") or (name.endswith("_pvalue") and name.removesuffix("_pvalue") in RANDOM)


def test_slices_equal_separate_evaluations() -> None:
    labels, scores = drawn("smooth", 90)
    group = np.random.default_rng(5).integers(0, 3, 90)
    sliced = cd.evaluate(labels, scores, TESTS, by={"g": group})
    for value in range(3):
        alone = cd.evaluate(labels[group == value], scores[group == value], TESTS)
        for name in map(str, alone.data_vars):
            found = sliced[name].sel(g=value).values
            if drawn_by_chance(name):
                assert np.all((found >= 0) & (found <= 1) | (name == "random_cme_statistic")), name
            else:
                np.testing.assert_allclose(found, alone[name].values, rtol=1e-9, atol=1e-13, err_msg=name)


def test_batch_axis_equals_separate_evaluations() -> None:
    batch = np.stack([drawn("smooth", 40, seed=seed)[1] for seed in (1, 2, 3)])
    labels = np.random.default_rng(5).integers(0, 3, (3, 40))
    together = cd.evaluate(labels, batch, TESTS)
    for i in range(3):
        alone = cd.evaluate(labels[i], batch[i], TESTS)
        for name in map(str, alone.data_vars):
            if not drawn_by_chance(name):
                found = together[name].values[i]
                np.testing.assert_allclose(found, alone[name].values, rtol=1e-9, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("name", TESTS)
def test_tests_are_values(name: str) -> None:
    test = TESTS[name]
    copy = pickle.loads(pickle.dumps(test))
    assert copy == test
    assert hash(copy) == hash(test)


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


@pytest.mark.parametrize("estimator", ["linear", "block"])
@pytest.mark.parametrize("method", ["asymptotic", "distribution-free"])
def test_blocks_refuse_weights(method: Any, estimator: Any) -> None:
    labels, scores = drawn("smooth", 30)
    test = cd.SKCETest(method=method, estimator=estimator, block=size_of(estimator)[0], **FIXED)
    with pytest.raises(ValueError, match="weight"):
        cd.evaluate(labels, scores, {"x": test}, sample_weight=np.ones(30))


# How often they reject. Data sets are fixed; the rates say how likely a correct test would fail on such data.


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
    tests = {"quadratic": cd.SKCETest(), "linear": cd.SKCETest(estimator="linear"), "cme": cd.CMETest()}
    found = cd.evaluate(labels, scores, tests)
    # At a rate of 0.05, more than 12 of 100 have a probability of 0.0015, and none one of 0.006.
    assert 1 <= rejections(found.quadratic_pvalue) <= 12
    assert 1 <= rejections(found.linear_pvalue) <= 12
    # At 0.04, as it is with few rows, none of 100 has a probability of 0.017.
    assert rejections(found.cme_pvalue) <= 12


@pytest.mark.parametrize("kind", ["uniform", "rare"])
def test_cme_test_of_binary_models_keeps_its_level(kind: str) -> None:
    """Random locations of one dimension lie near each other, and rare outcomes show in few rows."""
    rng = np.random.default_rng(11)
    scores = rng.random((200, 1000)) if kind == "uniform" else rng.beta(0.5, 50, (200, 3000))
    labels = (rng.random(scores.shape) < scores).astype(int)
    # At 0.05, more than 21 of 200 have a probability of 0.0005.
    assert rejections(cd.evaluate(labels, scores, {"cme": cd.CMETest()}).cme_pvalue) <= 21


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
    found = numbers(labels, scores, test)
    assert found["statistic"] == pytest.approx(float(z @ np.linalg.solve(covariance, z)), rel=1e-8)


def test_bounds_never_reject_calibrated_models() -> None:
    labels, scores = data_sets(calibrated=True)
    kinds: list[Any] = ["unbiased", "biased", "linear"]
    tests: dict[str, Any] = {kind: cd.SKCETest(method="distribution-free", estimator=kind) for kind in kinds}
    found = cd.evaluate(labels, scores, tests)
    for kind in kinds:
        assert rejections(found[f"{kind}_pvalue"]) == 0


def test_quadratic_test_finds_uniform_labels() -> None:
    labels, scores = data_sets(calibrated=False)
    found = cd.evaluate(labels, scores, {"quadratic": cd.SKCETest()})
    assert rejections(found.quadratic_pvalue) == 100


def test_consistency_test_rejects_calibrated_models_at_its_level() -> None:
    labels, scores = data_sets(calibrated=True, n=100, classes=4)
    found = cd.evaluate(labels, scores, {"x": cd.ConsistencyTest(resamples=39)})
    # Exactly 2 of 40 p-values are at most 0.05: more than 12 have a probability of 0.0015, none one of 0.006.
    assert 1 <= rejections(found.x_pvalue) <= 12


def test_spiegelhalter_test_rejects_calibrated_models_at_its_level() -> None:
    rng = np.random.default_rng(1986)
    scores = rng.random((400, 200))
    labels = (rng.random((400, 200)) < scores).astype(np.int64)
    found = cd.evaluate(labels, scores, {"x": cd.SpiegelhalterTest()})
    # A binomial count of rate 0.05: below 7 with a probability of 2e-4, above 35 with 6e-4.
    assert 7 <= rejections(found.x_pvalue) <= 35
