"""Estimators of whole vectors through lenses, against evaluating what these show."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from tests.estimators.kernel_data import EXACT, Rows, drawn, near, of, psd, skce
from tests.oracles import kernel_reference as reference
from tests.oracles import reference as binned_reference

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


KINDS: list[tuple[str, Any]] = [("smooth", np.float64), ("ties", np.float64), ("saturated", np.float32)]


@pytest.mark.parametrize(
    ("setting", "lens", "kind", "dtype"),
    [(*lens, *kind) for lens, kind in zip(LENSES, itertools.cycle(KINDS), strict=False)],
)
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
    result = of(labels, scores, cd.SKCE(setting=setting))
    assert np.asarray(result.attrs["bandwidth"]).ravel() == near([bandwidth])
    assert float(result) == near(reference.unbiased(shown_labels, shown, reference.Kernel(bandwidth=bandwidth)))


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


@lenses
def test_kernel_canonical_ece_through_lenses(setting: Any, lens: Any) -> None:
    labels, scores = drawn("smooth", 30, 4)
    shown_labels, shown = lens(labels, scores)
    expected, _ = reference.kernel_canonical_ece(shown_labels, shown, 0.1)
    actual = of(labels, scores, cd.KernelCanonicalECE(bandwidth=0.1, distance="tv", setting=setting))
    assert float(actual) == pytest.approx(expected, rel=1e-9)


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
