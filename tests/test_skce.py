"""Kernel calibration errors against loops over pairs, values by hand and published ones; lenses; chunks; refusals."""

import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import calibdask as cd
from tests import kernel_reference as reference
from tests import reference as binned_reference
from tests import strategies

Rows = tuple[NDArray[np.int64], NDArray[Any]]

PROFILES = ("exponential", "gaussian")
DISTANCES = ("tv", "euclidean")
KERNELS = tuple(itertools.product(PROFILES, DISTANCES))
EXACT = ("unbiased", "biased", "linear", "block")


# Inputs


def drawn(kind: str, n: int, classes: int = 3, dtype: Any = np.float64, seed: int = 1) -> Rows:
    """Rows that are smooth, on a coarse grid (equal rows), or saturated (exact 0 and 1); or a vector of P(y = 1)."""
    rng = np.random.default_rng(seed)
    if kind == "vector":
        scores = rng.random(n)
        scores[rng.random(n) < 0.3] = 0.0
        scores[rng.random(n) < 0.2] = 1.0
        return rng.integers(0, 2, n), scores.astype(dtype)
    if kind == "ties":
        scores = rng.multinomial(5, np.full(classes, 1 / classes), n) / 5
    else:
        scores = rng.dirichlet(np.full(classes, 0.8), n)
    if kind == "saturated":
        certain = rng.random(n) < 0.5
        scores[certain] = np.eye(classes)[rng.integers(0, classes, int(certain.sum()))]
    return rng.integers(0, classes, n), scores.astype(dtype)


CASES = [
    ("smooth", 2, 3, np.float64),
    ("smooth", 3, 2, np.float64),
    ("smooth", 40, 5, np.float64),
    ("smooth", 31, 4, np.float32),
    ("ties", 25, 3, np.float64),
    ("ties", 24, 4, np.float32),
    ("saturated", 33, 3, np.float64),
    ("saturated", 32, 5, np.float32),
    ("vector", 2, 2, np.float64),
    ("vector", 29, 2, np.float64),
    ("vector", 40, 2, np.float32),
]
cases = pytest.mark.parametrize(("kind", "n", "classes", "dtype"), CASES)


def near(value: Any, dtype: Any = np.float64) -> Any:
    single = np.dtype(dtype) == np.float32
    return pytest.approx(value, rel=1e-6 if single else 1e-11, abs=1e-6 if single else 1e-12)


def of(labels: Any, scores: Any, metric: Any, **options: Any) -> Any:
    """The variable of one metric."""
    return cd.evaluate(labels, scores, {"x": metric}, **options).x


def skce(labels: Any, scores: Any, sample_weight: Any = None, **choices: Any) -> float:
    return float(of(labels, scores, cd.SKCE(**choices), sample_weight=sample_weight))


def psd(classes: int, seed: int = 3) -> NDArray[np.float64]:
    root = np.random.default_rng(seed).normal(size=(classes, classes))
    return root @ root.T / classes


# Against the loops


@cases
@pytest.mark.parametrize(("profile", "distance"), KERNELS)
def test_estimators_equal_the_loops(kind: str, n: int, classes: int, dtype: Any, profile: Any, distance: Any) -> None:
    labels, scores = drawn(kind, n, classes, dtype)
    for bandwidth in (0.1, 1.0):
        kernel = reference.Kernel(profile, distance, bandwidth)
        choices = {"kernel": profile, "distance": distance, "bandwidth": bandwidth}
        for estimator in EXACT:
            block = min(n, 5) if estimator == "block" else None
            expected = reference.skce(labels, scores, kernel, estimator, block)
            found = skce(labels, scores, estimator=estimator, block=block, **choices)
            assert found == near(expected, dtype), (estimator, bandwidth)


@pytest.mark.parametrize("n", range(2, 41, 2))
def test_any_number_of_rows(n: int) -> None:
    labels, scores = drawn("smooth", n, 2 + n % 4, seed=n)
    kernel = reference.Kernel(bandwidth=0.3)
    for estimator in ("unbiased", "biased", "linear"):
        expected = reference.skce(labels, scores, kernel, estimator)
        assert skce(labels, scores, estimator=estimator, bandwidth=0.3) == near(expected), estimator


@pytest.mark.parametrize("block", [2, 3, 7, 20, 39, 40, 41])
def test_blocks_of_consecutive_rows(block: int) -> None:
    labels, scores = drawn("smooth", 41)
    found = of(labels, scores, cd.SKCE(estimator="block", block=block, bandwidth=0.5))
    expected = reference.blockwise(labels, scores, reference.Kernel(bandwidth=0.5), block)
    assert float(found) == near(expected)
    assert int(found.attrs["blocks"]) == 41 // block
    assert int(found.attrs["rows_left_over"]) == 41 % block


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
        found = skce(labels, scores, estimator=estimator, bandwidth=0.5, matrix=np.ones((4, 4)))
        assert found == pytest.approx(0, abs=1e-15)


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
                found = skce(labels, scores, estimator=estimator, block=block, kernel=given_as)
                assert found == near(expected, dtype), estimator


def test_kernel_equals_its_options() -> None:
    labels, scores = drawn("smooth", 30)
    matrix = psd(3)
    kernel = cd.Kernel(profile="gaussian", distance="euclidean", bandwidth=0.4, matrix=matrix)
    options = {"kernel": "gaussian", "distance": "euclidean", "bandwidth": 0.4, "matrix": matrix}
    for estimator in ("unbiased", "biased", "linear"):
        given_as_options = skce(labels, scores, estimator=estimator, **options)
        assert skce(labels, scores, estimator=estimator, kernel=kernel) == given_as_options
        assert skce(labels, scores, estimator=estimator, kernel=[kernel]) == given_as_options
    halves = [kernel, kernel]
    assert skce(labels, scores, kernel=halves) == near(2 * skce(labels, scores, **options))


@pytest.mark.parametrize(
    ("kind", "n", "classes", "dtype"),
    [
        ("smooth", 2, 3, np.float64),
        ("smooth", 3, 3, np.float64),
        ("smooth", 39, 5, np.float64),
        ("smooth", 40, 5, np.float32),
        ("ties", 30, 4, np.float64),
        ("vector", 31, 2, np.float64),
    ],
)
@pytest.mark.parametrize(("profile", "distance"), KERNELS)
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
            found = of(labels, scores, cd.SKCE(estimator=estimator, **choices))
            assert float(found) == near(reference.skce(labels, scores, kernel, estimator), dtype), (word, estimator)
            assert np.asarray(found.attrs["bandwidth"]).ravel() == near([bandwidth], dtype)


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


def test_vector_equals_two_columns() -> None:
    labels, scores = drawn("vector", 40)
    matrix = np.column_stack([1 - scores, scores])
    for estimator in EXACT:
        choices: dict[str, Any] = {"estimator": estimator, "block": 5 if estimator == "block" else None}
        for bandwidth in ("median", 0.3):
            found = skce(labels, scores, bandwidth=bandwidth, **choices)
            assert found == near(skce(labels, matrix, bandwidth=bandwidth, **choices))


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
    found = skce(labels, scores, bandwidth=1.0, matrix=matrix, estimator="biased")
    assert found == near((13 + 10 * math.exp(-1)) / 4)


def test_two_binary_rows_by_hand() -> None:
    # P(y = 1) = 0.25 with label 1 and 0.75 with label 0: residuals (-0.75, 0.75) and (0.75, -0.75), distance 0.5.
    scores, labels = np.array([0.25, 0.75]), np.array([1, 0])
    assert skce(labels, scores, bandwidth=1.0) == near(-2 * 0.75**2 * math.exp(-0.5))
    assert skce(labels, scores, bandwidth=1.0, kernel="gaussian") == near(-2 * 0.75**2 * math.exp(-0.125))


def test_weights_by_hand() -> None:
    # Weights 1 and 3: unbiased is h_12 whatever they are; biased (1 * 2 + 9 * 2 + 2 * 3 * -2 exp(-1)) / 16.
    scores, labels, weights = np.eye(2), np.array([1, 0]), np.array([1.0, 3.0])
    assert skce(labels, scores, weights, bandwidth=1.0) == near(-2 * math.exp(-1))
    found = skce(labels, scores, weights, estimator="biased", bandwidth=1.0)
    assert found == near((20 - 12 * math.exp(-1)) / 16)


# Published values (CalibrationErrors.jl and its Python interface)


def test_published_values() -> None:
    rng = np.random.default_rng(1234)
    scores, labels = rng.random(100), rng.choice([True, False], 100)
    found = skce(labels, scores, kernel="exponential", distance="tv", bandwidth=1.0)
    assert found == pytest.approx(0.03320398246523166, rel=1e-10)
    rng = np.random.default_rng(1234)
    matrix, labels = rng.dirichlet((3, 2, 5), 100), rng.integers(1, 4, 100) - 1
    found = skce(labels, matrix, kernel="exponential", distance="euclidean", bandwidth=1.0)
    assert found == pytest.approx(0.02015240706950358, rel=1e-10)


def test_oracle_gives_the_published_values() -> None:
    rng = np.random.default_rng(1234)
    scores, labels = rng.random(100), rng.choice([True, False], 100)
    found = reference.unbiased(labels, scores, reference.Kernel("exponential", "tv", 1.0))
    assert found == pytest.approx(0.03320398246523166, rel=1e-10)


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


@pytest.mark.parametrize("choices", [{"estimator": "linear"}, {"estimator": "block", "block": 4}], ids=str)
def test_blocks_refuse_weights(choices: dict[str, Any]) -> None:
    labels, scores = drawn("smooth", 20)
    with pytest.raises(ValueError, match="weight"):
        skce(labels, scores, np.ones(20), bandwidth=0.5, **choices)


# Settings and lenses


LENSES: list[tuple[Any, Callable[[Any, Any], Rows]]] = [
    ("confidence", lambda y, p: reference.largest(y, p, 1)),
    ("binary", lambda y, p: reference.one_class(y, p, 1)),
    (0, lambda y, p: reference.one_class(y, p, 0)),
    (3, lambda y, p: reference.one_class(y, p, 3)),
    (cd.Lens.largest(1), lambda y, p: reference.largest(y, p, 1)),
    (cd.Lens.largest(2), lambda y, p: reference.largest(y, p, 2)),
    (cd.Lens.largest(3), lambda y, p: reference.largest(y, p, 3)),
    (cd.Lens.largest(4), lambda y, p: reference.largest(y, p, 4)),
    (cd.Lens.groups([[0, 1], [2, 3]]), lambda y, p: reference.groups(y, p, [[0, 1], [2, 3]])),
    (cd.Lens.groups([[3], [0, 2], [1]]), lambda y, p: reference.groups(y, p, [[3], [0, 2], [1]])),
    (cd.Lens.groups([[2], [0], [1], [3]]), lambda y, p: reference.groups(y, p, [[2], [0], [1], [3]])),
]
lenses = pytest.mark.parametrize(("setting", "lens"), LENSES)


@lenses
@pytest.mark.parametrize(("kind", "dtype"), [("smooth", np.float64), ("ties", np.float64), ("saturated", np.float32)])
def test_lenses_equal_evaluating_what_they_show(setting: Any, lens: Any, kind: str, dtype: Any) -> None:
    labels, scores = drawn(kind, 30, 4, dtype)
    shown_labels, shown = lens(labels, scores)
    classes = shown.shape[1]
    for estimator in EXACT:
        block = 4 if estimator == "block" else None
        choices: dict[str, Any] = {"estimator": estimator, "block": block, "setting": setting}
        expected = reference.skce(shown_labels, shown, reference.Kernel("exponential", "tv", 0.4), estimator, block)
        assert skce(labels, scores, bandwidth=0.4, **choices) == near(expected, dtype), estimator
        # A matrix stands for outcomes, not for classes.
        matrix = psd(classes)
        expected = reference.skce(
            shown_labels, shown, reference.Kernel("gaussian", "euclidean", 0.4, matrix), estimator, block
        )
        other = {"kernel": "gaussian", "distance": "euclidean", "bandwidth": 0.4, "matrix": matrix}
        assert skce(labels, scores, **choices, **other) == near(expected, dtype), estimator


@lenses
def test_median_bandwidth_of_what_lenses_show(setting: Any, lens: Any) -> None:
    labels, scores = drawn("smooth", 30, 4)
    shown_labels, shown = lens(labels, scores)
    bandwidth = reference.median_bandwidth(shown)
    found = of(labels, scores, cd.SKCE(setting=setting))
    assert np.asarray(found.attrs["bandwidth"]).ravel() == near([bandwidth])
    assert float(found) == near(reference.unbiased(shown_labels, shown, reference.Kernel(bandwidth=bandwidth)))


def test_ties_go_to_the_lower_class() -> None:
    scores = np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [0.3, 0.4, 0.3]])
    labels = np.array([1, 2, 2])
    # The largest: none of the labels is it. The two largest: the second, the second, "another".
    np.testing.assert_array_equal(reference.largest(labels, scores, 1)[0], [1, 1, 1])
    np.testing.assert_array_equal(reference.largest(labels, scores, 2)[0], [1, 1, 2])
    for k in (1, 2, 3):
        expected = reference.unbiased(*reference.largest(labels, scores, k), reference.Kernel(bandwidth=0.5))
        assert skce(labels, scores, setting=cd.Lens.largest(k), bandwidth=0.5) == near(expected)


def test_lenses_of_a_vector() -> None:
    labels, scores = drawn("vector", 30)
    whole = skce(labels, scores, bandwidth=0.5)
    assert skce(labels, scores, bandwidth=0.5, setting="binary") == near(whole)
    assert skce(labels, scores, bandwidth=0.5, setting=1) == near(whole)
    assert skce(labels, scores, bandwidth=0.5, setting=0) == near(whole)
    assert skce(labels, scores, bandwidth=0.5, setting=cd.Lens.groups([[1], [0]])) == near(whole)
    assert skce(labels, scores, bandwidth=0.5, setting=cd.Lens.largest(2)) == near(
        reference.unbiased(*reference.largest(labels, scores, 2), reference.Kernel(bandwidth=0.5))
    )
    expected = reference.unbiased(*reference.largest(labels, scores, 1), reference.Kernel(bandwidth=0.5))
    assert skce(labels, scores, bandwidth=0.5, setting="confidence") == near(expected)


@lenses
def test_multiclass_ece_through_lenses(setting: Any, lens: Any) -> None:
    labels, scores = drawn("smooth", 60, 4)
    # Multiples of 2^-44: sums are exact, so that both of two outcomes have the same variance in any arithmetic.
    scores = np.round(scores * 2**44) / 2**44
    scores[:, 3] = 1 - scores[:, :3].sum(axis=1)
    shown_labels, shown = lens(labels, scores)
    uniform = cd.MulticlassECE(partition="uniform", bins=4, setting=setting)
    assert float(of(labels, scores, uniform)) == near(binned_reference.multiclass_ece_uniform(shown_labels, shown, 4))
    median = cd.MulticlassECE(partition="median-variance", min_size=4, setting=setting)
    assert float(of(labels, scores, median)) == near(
        binned_reference.multiclass_ece_median_variance(shown_labels, shown, 4)
    )


# Random features


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
            found = of(labels, scores, metric, sample_weight=w)
            error = float(found.attrs["approximation_error"])
            assert 0 < error < 0.05
            # Of 24 normal errors one is beyond 5 with a probability of 1.4e-5.
            assert abs(float(found) - oracle(labels, scores, kernel, w)) < 5 * error, (estimator, w is None)
            if estimator == "features-biased":
                assert float(found) >= 0


def test_features_by_seed_and_number() -> None:
    labels, scores = drawn("smooth", 40)
    first = of(labels, scores, cd.SKCE(estimator="features", bandwidth=0.5))
    assert float(of(labels, scores, cd.SKCE(estimator="features", bandwidth=0.5, features=512, seed=0))) == float(first)
    assert float(of(labels, scores, cd.SKCE(estimator="features", bandwidth=0.5, seed=1))) != float(first)
    more = of(labels, scores, cd.SKCE(estimator="features", bandwidth=0.5, features=2**15))
    # A factor of 8 but for chance.
    assert 4 < first.attrs["approximation_error"] / more.attrs["approximation_error"] < 16


# Other errors with kernels


@pytest.mark.parametrize(("kind", "dtype"), [("smooth", np.float64), ("ties", np.float32), ("saturated", np.float64)])
@pytest.mark.parametrize("bandwidth", [0.4, 0.05])
def test_mmce_of_the_largest_score(kind: str, dtype: Any, bandwidth: float) -> None:
    labels, scores = drawn(kind, 35, 4, dtype)
    column = binned_reference.columns(labels, scores, "confidence")[0]
    expected = reference.mmce(*column, bandwidth)
    # A square root close to 0 loses half of the digits.
    assert float(of(labels, scores, cd.MMCE(bandwidth=bandwidth))) == near(expected, dtype)


def test_mmce_of_a_vector_and_its_defaults() -> None:
    labels, scores = drawn("vector", 35)
    expected = reference.mmce(scores, labels)
    assert float(of(labels, scores, cd.MMCE())) == near(expected)
    chosen = cd.MMCE(kernel="exponential", bandwidth=0.4, estimator="biased")
    assert float(of(labels, scores, chosen)) == near(expected)
    # Residuals (0.75, -0.75) at distance 0.5 by hand.
    found = of(np.array([1, 0]), np.array([0.25, 0.75]), cd.MMCE(bandwidth=0.5))
    assert float(found) == near(math.sqrt((2 - 2 * math.exp(-1)) * 0.75**2 / 4))


def test_mmce_is_half_of_a_kernel_error_of_confidence() -> None:
    # The vectors (s, 1 - s) double the product of residuals; their total variation is |s - s'|.
    labels, scores = drawn("smooth", 35, 4)
    square = skce(labels, scores, estimator="biased", setting="confidence", bandwidth=0.4) / 2
    assert float(of(labels, scores, cd.MMCE())) == near(math.sqrt(square))


@pytest.mark.parametrize("distance", ["tv", "euclidean", "squared-euclidean"])
@pytest.mark.parametrize("bandwidth", [0.02, 0.2, 1.0])
@pytest.mark.parametrize(("kind", "n", "classes", "dtype"), [case for case in CASES if case[1] > 3])
def test_kernel_canonical_ece(kind: str, n: int, classes: int, dtype: Any, bandwidth: float, distance: Any) -> None:
    labels, scores = drawn(kind, n, classes, dtype)
    expected, alone = reference.kernel_canonical_ece(labels, scores, bandwidth, distance)
    found = of(labels, scores, cd.KernelCanonicalECE(bandwidth=bandwidth, distance=distance))
    # Logarithms of scores times 1 / h are exponentiated: digits are lost there.
    single = np.dtype(dtype) == np.float32
    assert float(found) == pytest.approx(expected, rel=1e-5 if single else 1e-9)
    assert int(found.attrs["rows_without_neighbours"]) == alone


def test_weights_of_kernel_canonical_ece_are_numbers_of_rows_but_for_their_own() -> None:
    """Loops: a row does not know its own label, however much it weighs."""
    labels, scores = drawn("smooth", 40)
    labels, scores = labels % scores.shape[1], scores.astype(np.float64)
    weights = np.random.default_rng(5).integers(0, 4, 40).astype(float)
    h, total = 0.3, 0.0
    for j in range(40):
        sums = np.zeros(scores.shape[1])
        for i in range(40):
            if i != j:
                sums[labels[i]] += weights[i] * stats.dirichlet.pdf(scores[j] / scores[j].sum(), scores[i] / h + 1)
        total += weights[j] * np.abs(sums / sums.sum() - scores[j]).sum() / 2
    result = cd.evaluate(labels, scores, cd.KernelCanonicalECE(bandwidth=h), sample_weight=weights)
    assert float(result.kernel_canonical_ece) == pytest.approx(total / weights.sum(), rel=1e-9)


def test_kernel_canonical_ece_by_hand() -> None:
    # Two rows: each one's frequencies are the label of the other.
    scores, labels = np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 1])
    found = of(labels, scores, cd.KernelCanonicalECE(bandwidth=0.5, distance="tv"))
    assert float(found) == near((0.5 + 0.75) / 2)
    # Of three certain rows, the first two see each other only, the third sees nobody.
    certain, labels = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, 1, 1])
    found = of(labels, certain, cd.KernelCanonicalECE(bandwidth=0.5, distance="tv"))
    assert float(found) == near((1 + 0) / 2)
    assert int(found.attrs["rows_without_neighbours"]) == 1


@lenses
def test_kernel_canonical_ece_through_lenses(setting: Any, lens: Any) -> None:
    labels, scores = drawn("smooth", 30, 4)
    shown_labels, shown = lens(labels, scores)
    expected, _ = reference.kernel_canonical_ece(shown_labels, shown, 0.1)
    found = of(labels, scores, cd.KernelCanonicalECE(bandwidth=0.1, distance="tv", setting=setting))
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_likelihood_bandwidth_is_a_bandwidth() -> None:
    labels, scores = drawn("smooth", 40)
    found = of(labels, scores, cd.KernelCanonicalECE(bandwidth="likelihood", distance="tv"))
    bandwidth = float(np.asarray(found.attrs["bandwidth"]).ravel()[0])
    assert bandwidth > 0
    expected, _ = reference.kernel_canonical_ece(labels, scores, bandwidth)
    assert float(found) == pytest.approx(expected, rel=1e-6)


# Slices, batches, chunks


METRICS: dict[str, Any] = {
    "unbiased": cd.SKCE(),
    "biased": cd.SKCE(estimator="biased", kernel="gaussian", bandwidth="median-full"),
    "linear": cd.SKCE(estimator="linear", distance="euclidean"),
    "block": cd.SKCE(estimator="block", block=3, bandwidth=0.3),
    "matrix": cd.SKCE(bandwidth=0.3, matrix=psd(3)),
    "sum": cd.SKCE(kernel=(cd.Kernel(bandwidth=0.2), cd.Kernel(profile="gaussian", distance="euclidean"))),
    "features": cd.SKCE(estimator="features", features=64, bandwidth=0.5),
    "features_biased": cd.SKCE(estimator="features-biased", features=64, bandwidth=0.5),
    "confidence": cd.SKCE(setting="confidence"),
    "one_class": cd.SKCE(setting=2, estimator="biased"),
    "groups": cd.SKCE(setting=cd.Lens.groups([[0, 2], [1]]), estimator="linear"),
    "two": cd.SKCE(setting=cd.Lens.largest(2)),
    "mmce": cd.MMCE(),
    "canonical": cd.KernelCanonicalECE(bandwidth=0.2),
    "canonical_likelihood": cd.KernelCanonicalECE(),
    "multiclass": cd.MulticlassECE(bins=4, setting=cd.Lens.largest(2)),
}
WEIGHTED = {
    "unbiased": cd.SKCE(bandwidth=0.4),
    "biased": cd.SKCE(estimator="biased", bandwidth=0.4),
    "features": cd.SKCE(estimator="features", features=64, bandwidth=0.5),
}


def test_slices_equal_separate_evaluations() -> None:
    labels, scores = drawn("smooth", 90)
    group = np.random.default_rng(5).integers(0, 3, 90)
    sliced = cd.evaluate(labels, scores, METRICS, by={"g": group})
    for value in range(3):
        alone = cd.evaluate(labels[group == value], scores[group == value], METRICS)
        for name in METRICS:
            found = float(sliced[name].sel(g=value))
            assert found == pytest.approx(float(alone[name]), rel=1e-10, abs=1e-13), name


def test_slices_of_weighted_rows_equal_separate_evaluations() -> None:
    labels, scores = drawn("smooth", 60)
    rng = np.random.default_rng(5)
    group, weights = rng.integers(0, 2, 60), rng.random(60)
    sliced = cd.evaluate(labels, scores, WEIGHTED, by={"g": group}, sample_weight=weights)
    for value in range(2):
        rows = group == value
        alone = cd.evaluate(labels[rows], scores[rows], WEIGHTED, sample_weight=weights[rows])
        for name in WEIGHTED:
            assert float(sliced[name].sel(g=value)) == pytest.approx(float(alone[name]), rel=1e-10, abs=1e-13), name


def test_blocks_of_slices_are_consecutive_rows_within_each() -> None:
    labels, scores = drawn("smooth", 41)
    group = np.arange(41) % 2
    sliced = of(labels, scores, cd.SKCE(estimator="block", block=3, bandwidth=0.3), by={"g": group})
    for value in range(2):
        rows = group == value
        expected = reference.blockwise(labels[rows], scores[rows], reference.Kernel(bandwidth=0.3), 3)
        assert float(sliced.sel(g=value)) == near(expected)


@pytest.mark.parametrize("own_labels", [True, False])
def test_batch_axis_equals_separate_evaluations(own_labels: bool) -> None:
    batch = np.stack([drawn("smooth", 40, seed=seed)[1] for seed in range(4)]).reshape(2, 2, 40, 3)
    labels = np.random.default_rng(5).integers(0, 3, (2, 2, 40) if own_labels else 40)
    together = cd.evaluate(labels, batch, METRICS)
    for at in itertools.product(range(2), range(2)):
        alone = cd.evaluate(labels[at] if own_labels else labels, batch[at], METRICS)
        for name in METRICS:
            assert together[name].shape == (2, 2), name
            found = float(together[name].values[at])
            assert found == pytest.approx(float(alone[name]), rel=1e-10, abs=1e-13), name


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    strategies.chunks(37),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(["smooth", "saturated"]),
)
def test_dask_equals_numpy_to_the_last_bit(seed: int, chunks: tuple[int, ...], dtype: Any, kind: str) -> None:
    labels, scores = drawn(kind, 37, 3, dtype, seed)
    metrics = {name: metric for name, metric in METRICS.items() if kind == "smooth" or name in ("block", "matrix")}
    whole = cd.evaluate(labels, scores, metrics)
    lazy = da.from_array(labels, chunks=(chunks,)), da.from_array(scores, chunks=(chunks, 3))
    pieces = cd.evaluate(*lazy, metrics)
    for name in metrics:
        assert float(pieces[name]) == float(whole[name]), name


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_more_rows_than_fit_a_tile(dtype: Any) -> None:
    labels, scores = drawn("smooth", 1300, 3, dtype)
    p = scores.astype(np.float64)
    residuals = np.eye(3)[labels] - p
    # The formula of the biased and the unbiased estimate, without loops.
    terms = (residuals @ residuals.T) * np.exp(-np.abs(p[:, None] - p).sum(axis=-1) / 2 / 0.4)
    above = np.triu(terms, 1).sum()
    expected = {
        "unbiased": above / (1300 * 1299 / 2),
        "biased": terms.mean(),
        "linear": terms[np.arange(0, 1300, 2), np.arange(1, 1300, 2)].mean(),
    }
    metrics: dict[str, Any] = {name: cd.SKCE(estimator=name, bandwidth=0.4) for name in expected}  # type: ignore[arg-type]
    metrics["median"] = cd.SKCE(bandwidth="median")
    metrics["canonical"] = cd.KernelCanonicalECE(bandwidth=0.1)
    metrics["mmce"] = cd.MMCE()
    whole = cd.evaluate(labels, scores, metrics)
    for name, value in expected.items():
        assert float(whole[name]) == near(value, dtype), name
    for chunks in ((1, 511, 513, 275), (1299, 1), (100,) * 13):
        pieces = cd.evaluate(
            da.from_array(labels, chunks=(chunks,)), da.from_array(scores, chunks=(chunks, 3)), metrics
        )
        for name in metrics:
            assert float(pieces[name]) == float(whole[name]), (name, chunks)


@settings(max_examples=6, deadline=None)
@given(strategies.chunks(40), st.booleans())
def test_dask_with_slices_and_batches_equals_numpy(chunks: tuple[int, ...], sliced: bool) -> None:
    batch = np.stack([drawn("smooth", 40, seed=seed)[1] for seed in (1, 2)])
    labels, group = np.random.default_rng(5).integers(0, 3, (2, 40)), np.arange(40) % 2
    by = {"g": group} if sliced else None
    whole = cd.evaluate(labels, batch, METRICS, by=by)
    lazy = da.from_array(labels, chunks=(2, chunks)), da.from_array(batch, chunks=(1, chunks, 3))
    pieces = cd.evaluate(*lazy, METRICS, by=by)
    for name in METRICS:
        np.testing.assert_array_equal(pieces[name].values, whole[name].values, err_msg=name)


@settings(max_examples=6, deadline=None)
@given(strategies.chunks(40))
def test_weighted_dask_is_close_to_numpy(chunks: tuple[int, ...]) -> None:
    labels, scores = drawn("smooth", 40)
    weights = np.random.default_rng(9).random(40)
    whole = cd.evaluate(labels, scores, WEIGHTED, sample_weight=weights)
    lazy = da.from_array(labels, chunks=(chunks,)), da.from_array(scores, chunks=(chunks, 3))
    pieces = cd.evaluate(*lazy, WEIGHTED, sample_weight=da.from_array(weights, chunks=(chunks,)))
    for name in WEIGHTED:
        assert float(pieces[name]) == pytest.approx(float(whole[name]), rel=1e-12, abs=1e-14), name


@pytest.mark.parametrize("sizes", [(40,), (1,) * 40, (7, 2, 30, 1), (39, 1)], ids=str)
def test_iterables_of_blocks(sizes: tuple[int, ...]) -> None:
    labels, scores = drawn("smooth", 40)
    whole = cd.evaluate(labels, scores, METRICS)
    borders = list(itertools.pairwise([0, *itertools.accumulate(sizes)]))
    blocks = [(labels[a:b], scores[a:b]) for a, b in borders]
    for iterable in (blocks, lambda: iter(blocks)):
        pieces = cd.evaluate(iterable, metrics=METRICS)
        for name in METRICS:
            assert float(pieces[name]) == float(whole[name]), name


def test_alone_and_together_are_the_same() -> None:
    labels, scores = drawn("smooth", 40)
    together = cd.evaluate(labels, scores, METRICS)
    for name, metric in METRICS.items():
        assert float(of(labels, scores, metric)) == float(together[name]), name


@pytest.mark.parametrize("name", METRICS)
def test_estimators_are_values(name: str) -> None:
    metric = METRICS[name]
    copy = pickle.loads(pickle.dumps(metric))
    assert copy == metric
    assert hash(copy) == hash(metric)


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


@pytest.mark.parametrize(
    "make",
    [
        lambda: cd.Lens.groups([[0, 1], [3]]),
        lambda: cd.Lens.groups([[0, 1], [2]]),
        lambda: cd.Lens.groups([[0, 1], [1, 2, 3]]),
        lambda: cd.Lens.groups([[0, 1], [2, 3, 3]]),
        lambda: cd.Lens.groups([[0, 1], [2, 3, 4]]),
        lambda: cd.Lens.groups([[0, 1], [2, 3, -1]]),
        lambda: cd.Lens.largest(0),
        lambda: cd.Lens.largest(5),
    ],
    ids=[
        "a gap",
        "the last is missing",
        "twice",
        "twice in one",
        "too many",
        "negative",
        "none",
        "more than there are",
    ],
)
def test_bad_lenses(make: Callable[[], Any]) -> None:
    labels, scores = drawn("smooth", 20, 4)

    def attempt() -> None:
        skce(labels, scores, setting=make(), bandwidth=0.5)

    with pytest.raises(ValueError, match=r".+"):
        attempt()


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


@pytest.mark.parametrize("choices", [{"bandwidth": -0.1}, {"bandwidth": float("nan")}, {"kernel": "boxcar"}], ids=str)
def test_bad_choices_of_mmce(choices: dict[str, Any]) -> None:
    labels, scores = drawn("vector", 20)
    with pytest.raises(ValueError, match=r".+"):
        of(labels, scores, cd.MMCE(**choices))


@pytest.mark.parametrize(
    "choices", [{"bandwidth": 0.0}, {"bandwidth": "median"}, {"distance": "cosine"}, {"setting": "marginal"}], ids=str
)
def test_bad_choices_of_kernel_canonical_ece(choices: dict[str, Any]) -> None:
    labels, scores = drawn("smooth", 20)
    with pytest.raises(ValueError, match=r".+"):
        of(labels, scores, cd.KernelCanonicalECE(**choices))
