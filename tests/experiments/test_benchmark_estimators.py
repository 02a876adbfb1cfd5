"""The benchmark's vectorized estimators against those of the library, which loops over rows check in tests/estimators.

The two share no code: the benchmark sorts keys of single precision, the library merges exact sums.
"""

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import calibdask as cd
from experiments.ece_benchmark import binned
from experiments.ece_benchmark.columns import column_keys, lowest_score
from experiments.ece_benchmark.estimators import ESTIMATORS, estimates
from tests.combinations import pairwise

Array = NDArray[Any]

SETTINGS = ("confidence", "classwise")
BINNED = [name for name, estimator in ESTIMATORS.items() if isinstance(estimator, cd.ECE)]
SMOOTHED = [name for name in ESTIMATORS if name not in BINNED]


# Inputs: float32 scores


def marks(classes: int) -> list[float]:
    """Edges and centres of bins, on [0, 1] and on [1 / K, 1]."""
    result = {Fraction(i, 8) for i in range(9)}
    for low in (Fraction(0), Fraction(1, classes)):
        for bins in (2, 5, 7, 10, 15, 30):
            result |= {low + (1 - low) * Fraction(i, 2 * bins) for i in range(2 * bins + 1)}
    return sorted(float(value) for value in result)


def marked_rows(rng: np.random.Generator, shape: tuple[int, ...], classes: int) -> Array:
    """One score a mark, the others share the rest."""
    first = rng.choice(marks(classes), shape)[..., None]
    rest = rng.dirichlet(np.full(classes - 1, 0.3), shape) * (1 - first)
    return rng.permuted(np.concatenate([first, rest], axis=-1), axis=-1)


def vertices(rng: np.random.Generator, shape: tuple[int, ...], classes: int) -> Array:
    """Scores of exactly 0, 1 and 1 / K."""
    middle = rng.random((*shape, 1)) < 0.3
    return np.where(middle, 1 / classes, np.eye(classes)[rng.integers(0, classes, shape)])


Maker = Callable[[np.random.Generator, tuple[int, ...], int], Array]
KINDS: dict[str, Maker] = {
    "smooth": lambda rng, shape, k: rng.dirichlet(np.full(k, 0.7), shape),
    "hundredths": lambda rng, shape, k: rng.multinomial(100, rng.dirichlet(np.ones(k), shape)) / 100,
    "tenths": lambda rng, shape, k: rng.multinomial(10, rng.dirichlet(np.ones(k), shape)) / 10,
    "equal": lambda rng, shape, k: np.full((*shape, k), 1 / k),
    "vertices": vertices,
    "marks": marked_rows,
}


def drawn(kind: str, shape: tuple[int, int], classes: int, seed: int = 0) -> tuple[Array, Array]:
    """Scores (replicates, n, K) and labels, half of them of the highest score; odd seeds: the last class is absent."""
    rng = np.random.default_rng((seed, *shape, classes))
    scores = KINDS[kind](rng, shape, classes).astype(np.float32)
    present = classes - 1 if seed % 2 else classes
    labels = np.where(rng.random(shape) < 0.5, scores.argmax(-1), rng.integers(0, classes, shape))
    return scores, np.minimum(labels, present - 1)


def found_by_name(scores: Array, labels: Array, setting: str) -> dict[str, Array]:
    result = estimates(scores, labels, setting)
    assert result.shape == (len(ESTIMATORS), len(scores))
    assert result.dtype == np.float64
    return dict(zip(ESTIMATORS, result, strict=True))


def binned_by_name(scores: Array, labels: Array, setting: str) -> dict[str, Array]:
    """Without smoothed estimators, which take most of the time and are no part of what these are."""
    low = lowest_score(setting, scores.shape[-1])
    columns = [binned.binned_estimates(np.sort(keys), low) for keys in column_keys(scores, labels, setting)]
    return dict(zip(binned.ROWS, np.mean(columns, axis=0), strict=True))


def check(names: list[str], scores: Array, labels: Array, setting: str) -> None:
    actual = (binned_by_name if names is BINNED else found_by_name)(scores, labels, setting)
    expected = cd.evaluate(
        labels, scores, {name: dataclasses.replace(ESTIMATORS[name], setting=setting) for name in names}
    )
    for name in names:
        found, values = actual[name], expected[name].values
        # The benchmark's grid of smoothed estimators is the coarser one.
        limit = 2e-4 + 2e-3 * values if name in SMOOTHED else 1e-12
        if name.startswith("rms"):
            # The root of a square that is 0 but for rounding is as large as 1e-8.
            found, values = found**2, values**2
        assert (np.abs(found - values) <= limit).all(), (name, scores.shape, actual[name], expected[name].values)


BINNED_CASES = pairwise([7, 67, 500], KINDS, [2, 3, 7], SETTINGS)
SMOOTHED_CASES = pairwise([7, 80], KINDS, [2, 5], SETTINGS)


@pytest.mark.parametrize(("n", "kind", "classes", "setting"), BINNED_CASES)
def test_binned_estimators_equal_the_library(n: int, kind: str, classes: int, setting: str) -> None:
    check(BINNED, *drawn(kind, (2 if n < 100 else 1, n), classes, seed=n), setting)


@pytest.mark.parametrize(("n", "kind", "classes", "setting"), SMOOTHED_CASES)
@pytest.mark.filterwarnings("ignore:.*(bandwidth|not informative):UserWarning")
def test_smoothed_estimators_equal_the_library(n: int, kind: str, classes: int, setting: str) -> None:
    check(SMOOTHED, *drawn(kind, (2, n), classes, seed=n), setting)


@st.composite
def few_rows(draw: st.DrawFn) -> tuple[Array, Array]:
    """Rows of which many are equal."""
    classes, n = draw(st.sampled_from([2, 3, 5])), draw(st.integers(1, 40))
    score = st.sampled_from(marks(classes)) | st.floats(0, 1, width=32)
    pool = draw(st.lists(score, min_size=1, max_size=n))
    first = np.array(draw(st.lists(st.sampled_from(pool), min_size=n, max_size=n)))
    place = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    scores = np.repeat(((1 - first) / (classes - 1))[:, None], classes, axis=1)
    scores[range(n), place] = first
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    return scores.astype(np.float32)[None], np.array(labels)[None]


@settings(max_examples=60, deadline=None)
@given(few_rows(), st.sampled_from(SETTINGS))
@example((np.float32([[[0, 1]] * 5]), np.array([[0, 1, 1, 1, 1]])), "confidence")
def test_binned_estimators_of_few_rows(rows: tuple[Array, Array], setting: str) -> None:
    check(BINNED, *rows, setting)


@pytest.mark.parametrize(
    ("kind", "n", "setting"), [(kind, (7, 500)[i % 2], SETTINGS[i // 3]) for i, kind in enumerate(KINDS)]
)
def test_replicates_do_not_see_each_other(n: int, kind: str, setting: str) -> None:
    scores, labels = drawn(kind, (5, n), 3)
    together = found_by_name(scores, labels, setting)
    for i in range(5):
        alone = found_by_name(scores[i : i + 1], labels[i : i + 1], setting)
        for name in ESTIMATORS:
            assert_array_equal(together[name][i], alone[name][0], err_msg=name)
