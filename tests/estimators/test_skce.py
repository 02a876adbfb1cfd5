"""Kernel calibration errors against loops over pairs, values by hand and published ones; weights; refusals."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from tests.estimators.kernel_data import CASES, EXACT, KERNELS, cases, drawn, near, of, psd, skce
from tests.oracles import kernel_reference as reference

# Each case with one kernel in turn, and a case with each kernel.
CASES_AND_KERNELS = [
    *((*case, *kernel) for case, kernel in zip(CASES, itertools.cycle(KERNELS), strict=False)),
    *((*CASES[2], *kernel) for kernel in KERNELS if kernel != KERNELS[2]),
]

# Against the loops


@pytest.mark.parametrize(("kind", "n", "classes", "dtype", "profile", "distance"), CASES_AND_KERNELS)
def test_estimators_equal_the_loops(kind: str, n: int, classes: int, dtype: Any, profile: Any, distance: Any) -> None:
    labels, scores = drawn(kind, n, classes, dtype)
    for bandwidth in (0.1, 1.0):
        kernel = reference.Kernel(profile, distance, bandwidth)
        choices = {"kernel": profile, "distance": distance, "bandwidth": bandwidth}
        for estimator in EXACT:
            block = min(n, 5) if estimator == "block" else None
            expected = reference.skce(labels, scores, kernel, estimator, block)
            actual = skce(labels, scores, estimator=estimator, block=block, **choices)
            assert actual == near(expected, dtype), (estimator, bandwidth)


def test_any_number_of_rows() -> None:
    kernel = reference.Kernel(bandwidth=0.3)
    for n in range(2, 41, 3):
        labels, scores = drawn("smooth", n, 2 + n % 4, seed=n)
        for estimator in ("unbiased", "biased", "linear"):
            expected = reference.skce(labels, scores, kernel, estimator)
            assert skce(labels, scores, estimator=estimator, bandwidth=0.3) == near(expected), (n, estimator)


@pytest.mark.parametrize("block", [2, 3, 7, 20, 39, 40, 41])
def test_blocks_of_consecutive_rows(block: int) -> None:
    labels, scores = drawn("smooth", 41)
    actual = of(labels, scores, cd.SKCE(estimator="block", block=block, bandwidth=0.5))
    expected = reference.blockwise(labels, scores, reference.Kernel(bandwidth=0.5), block)
    assert float(actual) == near(expected)
    assert int(actual.attrs["blocks"]) == 41 // block
    assert int(actual.attrs["rows_left_over"]) == 41 % block


def test_linear_is_blocks_of_two_and_one_block_is_unbiased() -> None:
    labels, scores = drawn("smooth", 41)
    linear = of(labels, scores, cd.SKCE(estimator="linear", bandwidth=0.5))
    assert (int(linear.attrs["blocks"]), int(linear.attrs["rows_left_over"])) == (20, 1)
    assert float(linear) == near(skce(labels, scores, estimator="block", block=2, bandwidth=0.5))
    whole = skce(labels, scores, estimator="block", block=41, bandwidth=0.5)
    assert whole == near(skce(labels, scores, bandwidth=0.5))


@cases
def test_matrices_in_place_of_the_identity(kind: str, n: int, classes: int, dtype: Any) -> None:
    labels, scores = drawn(kind, n, classes, dtype)
    for matrix in (psd(classes), np.diag(np.arange(classes, dtype=float)), np.eye(classes)):
        kernel = reference.Kernel("gaussian", "euclidean", 0.4, matrix)
        choices = {"kernel": "gaussian", "distance": "euclidean", "bandwidth": 0.4, "matrix": matrix}
        for estimator in ("unbiased", "biased", "linear"):
            expected = reference.skce(labels, scores, kernel, estimator)
            assert skce(labels, scores, estimator=estimator, **choices) == near(expected, dtype), estimator


def test_matrix_of_ones_sees_nothing() -> None:
    # The residuals e_y - p sum to 0, so a matrix of ones, which is singular and positive semi-definite, kills them.
    labels, scores = drawn("smooth", 30, 4)
    for estimator in ("unbiased", "biased", "linear"):
        result = skce(labels, scores, estimator=estimator, bandwidth=0.5, matrix=np.ones((4, 4)))
        assert result == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_of_kernels(dtype: Any) -> None:
    labels, scores = drawn("saturated", 26, 4, dtype)
    sums: list[tuple[tuple[Any, Any, float, Any], ...]] = [
        (("exponential", "tv", 0.3, None), ("gaussian", "euclidean", 0.7, None)),
        (
            ("gaussian", "tv", 0.1, psd(4)),
            ("exponential", "euclidean", 1.0, None),
            ("exponential", "tv", 0.2, psd(4, 4)),
        ),
    ]
    for summands in sums:
        kernels = [cd.Kernel(profile=p, distance=d, bandwidth=b, matrix=m) for p, d, b, m in summands]
        oracle = [reference.Kernel(*summand) for summand in summands]
        for estimator in EXACT:
            block = 4 if estimator == "block" else None
            expected = reference.skce(labels, scores, oracle, estimator, block)
            for given_as in (kernels, tuple(kernels)):
                actual = skce(labels, scores, estimator=estimator, block=block, kernel=given_as)
                assert actual == near(expected, dtype), estimator


@pytest.mark.parametrize(
    ("kind", "n", "classes", "dtype", "profile", "distance"),
    [
        ("smooth", 2, 3, np.float64, *KERNELS[0]),
        ("smooth", 3, 3, np.float64, *KERNELS[3]),
        ("smooth", 39, 5, np.float64, *KERNELS[1]),
        ("smooth", 40, 5, np.float32, *KERNELS[2]),
        ("ties", 30, 4, np.float64, *KERNELS[1]),
        ("vector", 31, 2, np.float64, *KERNELS[0]),
    ],
)
def test_median_bandwidths(kind: str, n: int, classes: int, dtype: Any, profile: Any, distance: Any) -> None:
    labels, scores = drawn(kind, n, classes, dtype)
    medians: list[tuple[str, Callable[..., float]]] = [
        ("median", reference.median_bandwidth),
        ("median-full", reference.full_median_bandwidth),
    ]
    for word, median in medians:
        bandwidth = median(scores, distance)
        if word == "median-full" and n == 2:
            # Two of four distances are those of rows to themselves.
            assert bandwidth == pytest.approx(reference.median_bandwidth(scores, distance) / 2)
        assert bandwidth > 0
        kernel = reference.Kernel(profile, distance, bandwidth)
        choices = {"kernel": profile, "distance": distance, "bandwidth": word}
        for estimator in ("unbiased", "biased", "linear"):
            result = of(labels, scores, cd.SKCE(estimator=estimator, **choices))
            assert float(result) == near(reference.skce(labels, scores, kernel, estimator), dtype), (word, estimator)
            assert np.asarray(result.attrs["bandwidth"]).ravel() == near([bandwidth], dtype)


def test_defaults() -> None:
    labels, scores = drawn("smooth", 40)
    kernel = reference.Kernel("exponential", "tv", reference.median_bandwidth(scores))
    expected = reference.unbiased(labels, scores, kernel)
    assert skce(labels, scores) == near(expected)
    assert cd.skce(labels, scores) == near(expected)
    assert isinstance(cd.skce(labels, scores), float)
    assert cd.skce(labels, scores, estimator="biased", bandwidth=0.2) == skce(
        labels, scores, estimator="biased", bandwidth=0.2
    )


def test_order_of_rows_matters_to_blocks_only_and_that_of_classes_to_none() -> None:
    labels, scores = drawn("smooth", 40, 4)
    rows, classes = np.random.default_rng(5).permutation(40), np.array([2, 0, 3, 1])
    for estimator in ("unbiased", "biased"):
        value = skce(labels, scores, estimator=estimator)
        assert skce(labels[rows], scores[rows], estimator=estimator) == near(value)
    assert skce(labels[rows], scores[rows], estimator="linear") != near(skce(labels, scores, estimator="linear"))
    for estimator in ("unbiased", "biased", "linear"):
        renamed = skce(np.argsort(classes)[labels], scores[:, classes], estimator=estimator)
        assert renamed == near(skce(labels, scores, estimator=estimator))


# By hand


def test_two_rows_by_hand() -> None:
    certain = np.eye(2)
    # p_1 = e_0 and p_2 = e_1 are at total variation 1. Both wrong: residuals (-1, 1) and (1, -1), product -2.
    wrong = np.array([1, 0])
    for estimator in ("unbiased", "linear"):
        assert skce(wrong, certain, estimator=estimator, bandwidth=1.0) == near(-2 * math.exp(-1))
    # The mean of 2, 2 and twice -2 exp(-1).
    assert skce(wrong, certain, estimator="biased", bandwidth=1.0) == near(1 - math.exp(-1))
    # Right rows have residual 0.
    for labels in ([0, 1], [0, 0], [1, 1]):
        assert skce(np.array(labels), certain, bandwidth=1.0) == 0
    assert skce(np.array([0, 0]), certain, estimator="biased", bandwidth=1.0) == near(2 / 4)
    # The Euclidean distance of e_0 and e_1 is sqrt(2).
    assert skce(wrong, certain, bandwidth=1.0, distance="euclidean") == near(-2 * math.exp(-math.sqrt(2)))
    assert skce(wrong, certain, bandwidth=1.0, kernel="gaussian") == near(-2 * math.exp(-0.5))
    gaussian = {"kernel": "gaussian", "distance": "euclidean", "bandwidth": 1.0}
    assert skce(wrong, certain, **gaussian) == near(-2 * math.exp(-1))
    # With the only distance as bandwidth exp(-1), with half of it exp(-2).
    assert skce(wrong, certain, distance="euclidean") == near(-2 * math.exp(-1))
    assert skce(wrong, certain, bandwidth="median-full") == near(-2 * math.exp(-2))


def test_two_equal_rows_by_hand() -> None:
    # Distance 0, so k = 1 at any bandwidth; both wrong in the same way: product 2.
    scores = np.array([[1.0, 0.0], [1.0, 0.0]])
    for estimator in ("unbiased", "biased", "linear"):
        assert skce(np.array([1, 1]), scores, estimator=estimator, bandwidth=0.01) == near(2.0)
    # One right, one wrong: 0 off the diagonal; on it 0 and 2.
    assert skce(np.array([0, 1]), scores, bandwidth=1.0) == 0
    assert skce(np.array([0, 1]), scores, estimator="biased", bandwidth=1.0) == near(0.5)


def test_two_rows_of_three_classes_by_hand() -> None:
    # Residuals (-1, 0, 1) and (0, -1, 1): product 1, total variation 1.
    scores, labels = np.eye(3)[:2], np.array([2, 2])
    assert skce(labels, scores, bandwidth=1.0) == near(math.exp(-1))
    # With diag(1, 2, 5) the products are 5 between the rows, 6 and 7 of the rows with themselves.
    matrix = np.diag([1.0, 2.0, 5.0])
    assert skce(labels, scores, bandwidth=1.0, matrix=matrix) == near(5 * math.exp(-1))
    result = skce(labels, scores, bandwidth=1.0, matrix=matrix, estimator="biased")
    assert result == near((13 + 10 * math.exp(-1)) / 4)


def test_two_binary_rows_by_hand() -> None:
    # P(y = 1) = 0.25 with label 1 and 0.75 with label 0: residuals (-0.75, 0.75) and (0.75, -0.75), distance 0.5.
    scores, labels = np.array([0.25, 0.75]), np.array([1, 0])
    assert skce(labels, scores, bandwidth=1.0) == near(-2 * 0.75**2 * math.exp(-0.5))
    assert skce(labels, scores, bandwidth=1.0, kernel="gaussian") == near(-2 * 0.75**2 * math.exp(-0.125))


def test_weights_by_hand() -> None:
    # Weights 1 and 3: unbiased is h_12 whatever they are; biased (1 * 2 + 9 * 2 + 2 * 3 * -2 exp(-1)) / 16.
    scores, labels, weights = np.eye(2), np.array([1, 0]), np.array([1.0, 3.0])
    assert skce(labels, scores, weights, bandwidth=1.0) == near(-2 * math.exp(-1))
    result = skce(labels, scores, weights, estimator="biased", bandwidth=1.0)
    assert result == near((20 - 12 * math.exp(-1)) / 16)


# Published values (CalibrationErrors.jl and its Python interface)


def test_published_values() -> None:
    rng = np.random.default_rng(1234)
    scores, labels = rng.random(100), rng.choice([True, False], 100)
    result = skce(labels, scores, kernel="exponential", distance="tv", bandwidth=1.0)
    assert result == pytest.approx(0.03320398246523166, rel=1e-10)
    oracle = reference.unbiased(labels, scores, reference.Kernel("exponential", "tv", 1.0))
    assert oracle == pytest.approx(0.03320398246523166, rel=1e-10)
    rng = np.random.default_rng(1234)
    matrix, labels = rng.dirichlet((3, 2, 5), 100), rng.integers(1, 4, 100) - 1
    result = skce(labels, matrix, kernel="exponential", distance="euclidean", bandwidth=1.0)
    assert result == pytest.approx(0.02015240706950358, rel=1e-10)


# Weights


@cases
def test_weights_equal_the_loops(kind: str, n: int, classes: int, dtype: Any) -> None:
    labels, scores = drawn(kind, n, classes, dtype)
    weights = np.random.default_rng(6).random(n) + 0.1
    weights[2:][::4] = 0.0
    for profile, distance in KERNELS:
        kernel = reference.Kernel(profile, distance, 0.4)  # type: ignore[arg-type]
        choices = {"kernel": profile, "distance": distance, "bandwidth": 0.4}
        for estimator, oracle in (("unbiased", reference.unbiased), ("biased", reference.biased)):
            expected = oracle(labels, scores, kernel, weights)
            assert skce(labels, scores, weights, estimator=estimator, **choices) == near(expected, dtype), estimator


def test_laws_of_weights() -> None:
    labels, scores = drawn("smooth", 40)
    rng = np.random.default_rng(7)
    weights, counts, kept = rng.random(40), rng.integers(0, 4, 40), rng.random(40) < 0.6
    for estimator in ("unbiased", "biased"):
        one = skce(labels, scores, weights, estimator=estimator, bandwidth=0.3)
        assert skce(labels, scores, 37.5 * weights, estimator=estimator, bandwidth=0.3) == near(one)
        for bandwidth in (0.3, "median"):
            choices: dict[str, Any] = {"estimator": estimator, "bandwidth": bandwidth}
            equal = skce(labels, scores, np.full(40, 2.5), **choices)
            assert equal == near(skce(labels, scores, **choices))
            zeros = skce(labels, scores, kept.astype(float), **choices)
            assert zeros == near(skce(labels[kept], scores[kept], **choices))
    repeated = skce(np.repeat(labels, counts), np.repeat(scores, counts, axis=0), estimator="biased", bandwidth=0.3)
    assert skce(labels, scores, counts.astype(float), estimator="biased", bandwidth=0.3) == near(repeated)


# Refusals


@pytest.mark.parametrize(
    "choices",
    [
        {"estimator": "quadratic"},
        {"kernel": "laplace"},
        {"distance": "manhattan"},
        {"bandwidth": "mean"},
        {"bandwidth": -1.0},
        {"bandwidth": 0.0},
        {"bandwidth": float("nan")},
        {"setting": "marginal"},
        {"setting": 4},
        {"setting": -1},
        {"estimator": "block"},
        {"estimator": "block", "block": 1},
        {"estimator": "block", "block": 0},
        {"estimator": "features", "features": 0},
        {"kernel": []},
        {"max_pairs": -1},
    ],
    ids=str,
)
def test_bad_choices(choices: dict[str, Any]) -> None:
    labels, scores = drawn("smooth", 20, 4)
    with pytest.raises(ValueError, match=r".+"):
        skce(labels, scores, **choices)


@pytest.mark.parametrize(
    "matrix",
    [
        np.diag([1.0, 1.0, 1.0, -0.1]),
        np.ones((4, 4)) - np.eye(4),
        np.triu(np.ones((4, 4))),
        np.eye(3),
        np.ones((4, 3)),
        np.ones(4),
        np.full((4, 4), np.nan),
    ],
    ids=["negative eigenvalue", "zero diagonal", "not symmetric", "too small", "not square", "vector", "nan"],
)
def test_bad_matrices(matrix: Any) -> None:
    labels, scores = drawn("smooth", 20, 4)
    with pytest.raises(ValueError, match="matrix"):
        skce(labels, scores, matrix=matrix, bandwidth=0.5)
    with pytest.raises(ValueError, match="matrix"):
        skce(labels, scores, kernel=cd.Kernel(bandwidth=0.5, matrix=matrix))


def test_matrix_has_the_size_of_the_outcomes() -> None:
    labels, scores = drawn("smooth", 20, 4)
    with pytest.raises(ValueError, match="matrix"):
        skce(labels, scores, setting="confidence", matrix=np.eye(4), bandwidth=0.5)


@pytest.mark.parametrize("choices", [{"profile": "laplace"}, {"distance": "cosine"}, {"bandwidth": "mean"}], ids=str)
def test_bad_kernels(choices: dict[str, Any]) -> None:
    labels, scores = drawn("smooth", 20)
    with pytest.raises(ValueError, match=r".+"):
        skce(labels, scores, kernel=cd.Kernel(**choices))


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_too_many_pairs(estimator: Any) -> None:
    labels, scores = drawn("smooth", 40)
    with pytest.raises(ValueError, match=r"(780|820).*\b123\b|\b123\b.*(780|820)"):
        skce(labels, scores, estimator=estimator, bandwidth=0.5, max_pairs=123)
    assert skce(labels, scores, estimator=estimator, bandwidth=0.5, max_pairs=820) == skce(
        labels, scores, estimator=estimator, bandwidth=0.5
    )


def test_linear_and_features_need_few_pairs() -> None:
    labels, scores = drawn("smooth", 40)
    for estimator in ("linear", "features"):
        assert math.isfinite(skce(labels, scores, estimator=estimator, bandwidth=0.5, max_pairs=100))
