"""Oracles against exact fractions, scikit-learn and cases worked by hand."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tests.oracles.reference import (
    Array,
    Closed,
    Distance,
    Mapping,
    Setting,
    bin_index,
    brier_decomposition,
    columns,
    ece,
    ece_of,
    equal_mass_edges,
    mapping_weights,
    median_variance_cells,
    multiclass_ece_median_variance,
    multiclass_ece_uniform,
    uniform_edges,
)
from tests.oracles.tutorial import BINS, EXACT, EXACT_SCORES, LABELS, SCORES

tied_scores = st.lists(st.sampled_from([i / 16 for i in range(17)]), min_size=1, max_size=40)


def binary_data(seed: int, rows: int = 300) -> tuple[np.ndarray, Array]:
    """Random binary labels and scores."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(0.7, 0.9, rows)
    return (rng.random(rows) < scores**1.3).astype(np.int64), scores


def matrix_data(seed: int, rows: int = 200, classes: int = 4) -> tuple[np.ndarray, Array]:
    """Random labels and scores of several classes."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, rows), rng.dirichlet(np.full(classes, 0.6), rows)


# The tutorial's table


@pytest.mark.parametrize(("measure", "setting", "closed"), [key for key in EXACT if key[0] != "brier"])
def test_tutorial_values(measure: str, setting: Setting, closed: Closed) -> None:
    edges = uniform_edges(BINS)
    value = ece_of(LABELS, SCORES, setting, edges, closed=closed, norm="max" if measure == "mce" else "l1")
    assert value == pytest.approx(float(EXACT[measure, setting, closed]), rel=0, abs=1e-12)


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("c", [0, 1, 2])
def test_the_fractions_follow_from_the_table_in_rational_arithmetic(c: int, closed: str) -> None:
    sums = [Fraction(0)] * BINS
    for row, label in zip(EXACT_SCORES, LABELS, strict=True):
        place = math.ceil(BINS * row[c]) - 1 if closed == "right" else math.floor(BINS * row[c])
        sums[min(max(place, 0), BINS - 1)] += int(label == c) - row[c]
    assert sum(abs(value) for value in sums) / 30 == EXACT["ece", c, closed]


def test_tutorial_classwise_is_the_mean_of_classes() -> None:
    for closed in ("right", "left"):
        assert sum(EXACT["ece", c, closed] for c in range(3)) / 3 == EXACT["ece", "classwise", closed]


def test_tutorial_table_is_as_on_the_slides() -> None:
    assert SCORES.shape == (30, 3)
    assert LABELS.tolist() == [0] * 10 + [1] * 10 + [2] * 10
    assert all(sum(row) == 1 for row in EXACT_SCORES)
    assert SCORES[6].tolist() == [1 / 3] * 3
    assert SCORES[28].tolist() == [0.0, 0.3, 0.7]
    s, o = columns(LABELS, SCORES, "confidence")[0]
    assert s[:10].tolist() == [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 1 / 3, 1 / 3, 0.4, 0.5]
    assert o.tolist() == [1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1]


def test_classwise_mce_is_the_largest_of_the_classes() -> None:
    assert ece_of(LABELS, SCORES, "classwise", uniform_edges(BINS), norm="max") == pytest.approx(17 / 35, abs=1e-12)


# Settings


def test_columns_by_hand() -> None:
    scores, labels = [[0.25, 0.5, 0.25], [0.375, 0.375, 0.25], [0.0, 0.25, 0.75]], [2, 1, 2]
    expected: dict[Setting, list[tuple[list[float], list[float]]]] = {
        "binary": [([0.5, 0.375, 0.25], [0, 1, 0])],
        2: [([0.25, 0.25, 0.75], [1, 0, 1])],
        "confidence": [([0.5, 0.375, 0.75], [0, 0, 1])],
        "classwise": [
            ([0.25, 0.375, 0.0], [0, 0, 0]),
            ([0.5, 0.375, 0.25], [0, 1, 0]),
            ([0.25, 0.25, 0.75], [1, 0, 1]),
        ],
    }
    for setting, pairs in expected.items():
        assert [(s.tolist(), o.tolist()) for s, o in columns(labels, scores, setting)] == pairs
    (s, o), *rest = columns(labels, scores, "top-k", k=2)
    assert rest == []
    assert s.tolist() == [0.75, 0.75, 1.0]
    assert o.tolist() == [0, 1, 1]
    (s, o), *rest = columns(labels, scores, "top-k", k=3)
    assert rest == []
    assert s.tolist() == [1.0, 1.0, 1.0]
    assert o.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="needs k"):
        columns(labels, scores, "top-k")


def test_a_vector_is_its_two_columns() -> None:
    labels, scores = binary_data(1)
    matrix = np.column_stack([1 - scores, scores])
    settings: list[Setting] = ["binary", 0, 1, "classwise", "confidence"]
    for setting in settings:
        for (s, o), (t, q) in zip(columns(labels, scores, setting), columns(labels, matrix, setting), strict=True):
            assert_array_equal(s, t)
            assert_array_equal(o, q)
    half = columns([0, 1], [0.5, 0.5], "confidence")[0]
    assert half[0].tolist() == [0.5, 0.5]
    assert half[1].tolist() == [1, 0]


# Edges


def test_uniform_edges_are_the_division() -> None:
    assert uniform_edges(10).tolist() == [i / 10 for i in range(11)]
    assert uniform_edges(100).tolist() == [i / 100 for i in range(101)]
    assert uniform_edges(2, 1 / 3, 1.0).tolist() == [1 / 3, 1 / 3 + 0.5 * (1 - 1 / 3), 1.0]
    assert uniform_edges(1).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("scores", "bins", "expected"),
    [
        ([0.125, 0.25, 0.5, 0.75], 2, [0, 0.375, 1]),
        ([0.75, 0.125, 0.5, 0.25], 2, [0, 0.375, 1]),
        ([0.125, 0.25, 0.5, 0.75], 1, [0, 1]),
        ([0.125, 0.25, 0.5, 0.75], 4, [0, 0.1875, 0.375, 0.625, 1]),
        # floor(5/3) = 1 and floor(10/3) = 3
        ([0.0625, 0.125, 0.25, 0.5, 0.75], 3, [0, 0.09375, 0.375, 1]),
        # ranks 2 and 4: the first within the run of 0.5, the second at its end
        ([0.25, 0.5, 0.5, 0.5, 0.75, 1.0], 3, [0, 0.5, 0.625, 1]),
        # ranks 2, 4, 6: two of them within the run, one edge dropped
        ([0.25, 0.5, 0.5, 0.5, 0.5, 0.75, 0.75, 1.0], 4, [0, 0.5, 0.75, 1]),
        ([0.5, 0.5, 0.5, 0.5], 4, [0, 0.5, 1]),
        # the edge equals an outer one
        ([0.5, 1.0, 1.0, 1.0], 2, [0, 1]),
        ([0.0, 0.0, 0.0, 0.5], 2, [0, 1]),
        # more bins than rows: ranks 0, 0, 1, 1
        ([0.25, 0.75], 5, [0, 0.5, 1]),
        ([0.25], 3, [0, 1]),
    ],
)
def test_equal_mass_edges_by_hand(scores: list[float], bins: int, expected: list[float]) -> None:
    assert equal_mass_edges(scores, bins).tolist() == expected
    for weight in (1.0, 0.1, 2.5):
        assert equal_mass_edges(scores, bins, weights=[weight] * len(scores)).tolist() == expected
    repeated = equal_mass_edges(np.repeat(scores, 3), bins)
    assert_array_equal(equal_mass_edges(scores, bins, weights=[3.0] * len(scores)), repeated)


@pytest.mark.parametrize(
    ("scores", "bins", "expected"),
    [
        # c = floor(5/3) = 1: ranks 1 and 2, the other three rows in the last bin
        ([0.0625, 0.125, 0.25, 0.5, 0.75], 3, [0, 0.09375, 0.1875, 1]),
        ([0.5, 0.5, 0.5, 0.5], 4, [0, 0.5, 0.5, 0.5, 1]),
        ([0.5, 1.0, 1.0, 1.0], 2, [0, 1, 1]),
        # c = 2: ranks 2, 4, 6 of 9
        ([0.0, 0.0, 0.0, 0.25, 0.5, 0.5, 0.5, 0.75, 1.0], 4, [0, 0, 0.375, 0.5, 1]),
        ([0.25, 0.75], 5, [0, 1]),
    ],
)
def test_equal_mass_edges_of_the_authors_by_hand(scores: list[float], bins: int, expected: list[float]) -> None:
    assert equal_mass_edges(scores, bins, remainder="last").tolist() == expected
    with pytest.raises(ValueError, match="no weights"):
        equal_mass_edges(scores, bins, weights=[1.0] * len(scores), remainder="last")


@pytest.mark.parametrize(
    ("scores", "weights", "bins", "expected"),
    [
        # t = 2 falls within the second row, which ends at 3
        ([0.125, 0.25, 0.5], [1, 2, 1], 2, [0, 0.25, 1]),
        # t = 2, where the first row ends
        ([0.125, 0.25, 0.5], [2, 1, 1], 2, [0, 0.1875, 1]),
        ([0.125, 0.25, 0.5, 0.75], [1, 1, 1, 1], 2, [0, 0.375, 1]),
        # the run of 0.25 has the mass 4; t = 4 is its end
        ([0.25, 0.25, 0.5, 0.75], [1, 3, 2, 2], 2, [0, 0.375, 1]),
        # t = 2, 4, 6: within the run of 0.25, at its end, at the end of 0.5
        ([0.25, 0.25, 0.5, 0.75], [1, 3, 2, 2], 4, [0, 0.25, 0.375, 0.625, 1]),
        # the run of 0.5 reaches from 1 to 7: t = 2, 4, 6 are within
        ([0.25, 0.5, 0.5, 0.5, 0.75], [1, 1, 4, 1, 1], 4, [0, 0.5, 1]),
        # the first row is heavier than t = 4
        ([0.125, 0.25, 0.5, 0.75], [5, 1, 1, 1], 2, [0, 0.125, 1]),
        # weights of zero count neither as rows nor as values
        ([0.125, 0.25, 0.25, 0.25, 0.5, 0.75], [1, 1, 0, 0, 1, 1], 2, [0, 0.375, 1]),
        ([0.125, 0.25, 0.375, 0.5, 0.75], [1, 1, 0, 1, 1], 2, [0, 0.375, 1]),
        ([0.25, 0.25, 0.75], [4, 0, 2], 2, [0, 0.25, 1]),
    ],
)
def test_whole_weights_are_repeated_rows_by_hand(
    scores: list[float], weights: list[int], bins: int, expected: list[float]
) -> None:
    assert equal_mass_edges(scores, bins, weights=weights).tolist() == expected
    assert equal_mass_edges(np.repeat(scores, weights), bins).tolist() == expected
    order = np.random.default_rng(0).permutation(len(scores))
    assert equal_mass_edges(np.array(scores)[order], bins, np.array(weights)[order]).tolist() == expected


def test_fractional_weights_are_counted_in_mean_weights_by_hand() -> None:
    # Three rows of the mean weight 2/3: t = floor(3 / 2) of them is within the second row, which ends at 1.5.
    assert equal_mass_edges([0.125, 0.25, 0.5], 2, weights=[0.5, 1.0, 0.5]).tolist() == [0, 0.25, 1]
    # Of 0.4/3: within the first row.
    assert equal_mass_edges([0.125, 0.25, 0.5], 2, weights=[0.2, 0.1, 0.1]).tolist() == [0, 0.125, 1]


@given(tied_scores, st.integers(1, 45), st.sampled_from([1.0, 0.1, 1 / 3, 7.3, 1e-6]))
def test_equal_weights_give_the_unweighted_edges(scores: list[float], bins: int, weight: float) -> None:
    edges = equal_mass_edges(scores, bins)
    assert_array_equal(equal_mass_edges(scores, bins, weights=[weight] * len(scores)), edges)
    assert edges[0] == 0
    assert edges[-1] == 1
    assert np.all(np.diff(edges) > 0)


# Bins and mappings


@pytest.mark.parametrize(
    ("score", "bins", "right", "left"),
    [
        (0.0, 5, 0, 0),
        (0.2, 5, 0, 1),
        (np.nextafter(0.2, 1), 5, 1, 1),
        (np.nextafter(0.2, 0), 5, 0, 0),
        (1.0, 5, 4, 4),
        (0.3, 10, 2, 3),
        (0.07, 100, 6, 7),
        (0.29, 100, 28, 29),
        (0.5, 1, 0, 0),
        (-1e-7, 5, 0, 0),
        (1 + 1e-7, 5, 4, 4),
    ],
)
def test_bin_index_by_hand(score: float, bins: int, right: int, left: int) -> None:
    edges = uniform_edges(bins)
    assert (bin_index(score, edges), bin_index(score, edges, "left")) == (right, left)


def test_bin_index_with_repeated_edges() -> None:
    edges = [0.0, 0.5, 0.5, 0.5, 1.0]
    assert [bin_index(s, edges) for s in (0.25, 0.5, 0.75)] == [0, 0, 3]
    assert [bin_index(s, edges, "left") for s in (0.25, 0.5, 0.75)] == [0, 3, 3]


@given(st.floats(0, 1), st.integers(1, 60))
def test_bin_index_is_a_binary_search(score: float, bins: int) -> None:
    edges = uniform_edges(bins)
    assert bin_index(score, edges) == np.searchsorted(edges[1:-1], score, side="left")
    assert bin_index(score, edges, "left") == np.searchsorted(edges[1:-1], score, side="right")


def test_convex_and_inverted_weights_by_hand() -> None:
    # centres 0.25 and 0.75, then one bin, then unequal bins with centres 0.125, 0.375, 0.75
    scores, edges = [0.0, 0.25, 0.375, 0.5, 0.75, 1.0], [0.0, 0.5, 1.0]
    convex = [[1, 0], [1, 0], [0.75, 0.25], [0.5, 0.5], [0, 1], [0, 1]]
    inverted = [[1, 0], [1, 0], [0.25, 0.75], [0.5, 0.5], [1, 0], [0, 1]]
    assert mapping_weights(scores, edges, "convex").tolist() == convex
    assert mapping_weights(scores, edges, "inverted").tolist() == inverted
    for mapping in ("hard", "convex", "inverted"):
        assert mapping_weights(scores, [0.0, 1.0], mapping).tolist() == [[1.0]] * 6
    uneven = [0.0, 0.25, 0.5, 1.0]
    assert mapping_weights([0.375, 0.46875], uneven, "convex").tolist() == [[0, 1, 0], [0, 0.75, 0.25]]
    assert mapping_weights([0.375, 0.46875], uneven, "inverted").tolist() == [[1, 0, 0], [0, 0.25, 0.75]]
    assert mapping_weights([0.25, 0.5], edges, "hard").tolist() == [[1, 0], [1, 0]]
    assert mapping_weights([0.25, 0.5], edges, "hard", "left").tolist() == [[1, 0], [0, 1]]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(1, 30))
def test_mapping_weights_sum_to_one_and_convex_keeps_the_score(scores: list[float], bins: int) -> None:
    edges = uniform_edges(bins)
    centres = (edges[:-1] + edges[1:]) / 2
    for mapping in ("hard", "convex", "inverted"):
        shares = mapping_weights(scores, edges, mapping)
        assert_allclose(shares.sum(axis=1), 1, rtol=0, atol=1e-12)
        assert shares.min() >= 0
    kept = mapping_weights(scores, edges, "convex") @ centres
    assert_allclose(kept, np.clip(scores, centres[0], centres[-1]), rtol=0, atol=1e-12)


# ECE


def test_ece_by_hand() -> None:
    # bins of mean score 0.25 (three rows, frequency 2/3) and 0.75 (one row, 0): gaps 5/12 and -3/4
    s, o, edges = [0.25, 0.25, 0.25, 0.75], [1, 1, 0, 0], [0.0, 0.5, 1.0]
    assert ece(s, o, edges) == pytest.approx((3 * 5 / 12 + 3 / 4) / 4, abs=1e-15)
    assert ece(s, o, edges, norm="max") == pytest.approx(3 / 4, abs=1e-15)
    assert ece(s, o, edges, norm="l2") == pytest.approx(math.sqrt((3 * 25 / 144 + 9 / 16) / 4), abs=1e-15)
    # 25/144 - (2/9)/2 = 9/144 in the first bin, nothing from the second: sqrt(3/4 * 9/144)
    assert ece(s, o, edges, norm="l2", debias=True) == pytest.approx(math.sqrt(3) / 8, abs=1e-15)
    # scores at the two centres: convex is hard, inverted sends the last row to the first bin
    assert ece(s, o, edges, mapping="convex") == ece(s, o, edges)
    assert ece(s, o, edges, mapping="inverted") == pytest.approx((2 - 1.5) / 4, abs=1e-15)
    # 0.375 with outcome 1 goes to the bins as 3/4 and 1/4; with 0.25 (0) and 0.75 (1): |15/32 - 1/4| + (5/32 + 1/4)
    assert ece([0.25, 0.375, 0.75], [0, 1, 1], edges, "convex") == pytest.approx((7 / 32 + 13 / 32) / 3, abs=1e-15)


def test_debiased_by_hand() -> None:
    edges = [0.0, 0.5, 1.0]
    # 0.0625 - 0.25 and 0.0625 - 0: below zero in total
    assert ece([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1], edges, norm="l2", debias=True) == 0
    assert ece([0.25, 0.25, 0.75, 0.75], [0, 0, 1, 1], edges, norm="l2", debias=True) == 0.25
    # Kish: weights 3 and 1 make 16/10 rows, below 2, which contribute 0; weights 0.1 and 0.1 make exactly 2
    assert ece([0.25, 0.25], [0, 0], edges, norm="l2", debias=True, weights=[3, 1]) == 0
    assert ece([0.25, 0.25], [0, 0], edges, norm="l2", debias=True, weights=[0.1, 0.1]) == 0.25
    # weights 1 (outcome 0) and 3, 3: mean 6/7, without the first 1, without another one 3/4; gap 17/28:
    # 289/784 - (2/3) (1/49 + 2 (3/28)**2) = 271/784
    value = ece([0.25] * 3, [0, 1, 1], edges, norm="l2", debias=True, weights=[1, 3, 3])
    assert value == pytest.approx(math.sqrt(289 / 784 - 2 / 3 * (1 / 49 + 2 * (3 / 28) ** 2)), abs=1e-15)
    with pytest.raises(ValueError, match="l2"):
        ece([0.25], [0], edges, debias=True)


@pytest.mark.parametrize("mapping", ["hard", "convex", "inverted"])
@pytest.mark.parametrize(("norm", "debias"), [("l1", False), ("max", False), ("l2", False), ("l2", True)])
def test_weights_of_ones_zeros_and_repeats(mapping: Mapping, norm: str, debias: bool) -> None:
    labels, scores = binary_data(4, 120)
    edges, rng = uniform_edges(7), np.random.default_rng(5)
    options: dict[str, Any] = {"mapping": mapping, "norm": norm, "debias": debias}
    value = ece(scores, labels, edges, **options)
    assert ece(scores, labels, edges, weights=np.ones(120), **options) == value
    assert ece(scores, labels, edges, weights=np.full(120, 0.5), **options) == pytest.approx(value, abs=1e-12)
    weights = rng.integers(0, 4, 120)
    kept = weights > 0
    weighted = ece(scores, labels, edges, weights=weights, **options)
    without = ece(scores[kept], labels[kept], edges, weights=weights[kept], **options)
    assert weighted == pytest.approx(without, abs=1e-12)
    if not debias:
        repeated = ece(scores.repeat(weights), labels.repeat(weights), edges, **options)
        assert weighted == pytest.approx(repeated, abs=1e-12)


def test_edges_may_depend_on_the_column() -> None:
    labels, scores = matrix_data(6)
    errors = [ece(s, o, equal_mass_edges(s, 9)) for s, o in columns(labels, scores, "classwise")]
    value = ece_of(labels, scores, "classwise", lambda s: equal_mass_edges(s, 9))
    assert value == pytest.approx(sum(errors) / 4, abs=1e-15)


# Decompositions


def test_brier_decomposition_by_hand() -> None:
    # bins {0, 0.5 | 0, 1} and {0.75, 1 | 1, 1}: means 1/4, 7/8 and 1/2, 1; overall frequency 3/4
    part = brier_decomposition([0.0, 0.5, 0.75, 1.0], [0, 1, 1, 1], [0.0, 0.5, 1.0])
    assert part == {
        "score": (1 / 4 + 1 / 16) / 4,
        "reliability": (2 / 16 + 2 / 64) / 4,
        "resolution": (2 / 16 + 2 / 16) / 4,
        "uncertainty": 3 / 16,
        "within_variance": (2 / 16 + 2 / 64) / 4,
        "within_covariance": 2 * (2 * 1 / 2 * 1 / 4) / 4,
    }


# Multiclass ECE


def test_uniform_cells_by_hand() -> None:
    # cells of halves: rows 0 and 1 in (0, 1, 0), row 2 in (0, 0, 0) with its 0.5 in the lower half, row 3 in (1, 0, 0)
    scores = [[0.25, 0.75, 0.0], [0.0, 0.75, 0.25], [0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]
    labels = [1, 0, 2, 0]
    # gaps of the first cell: (1/8 - 1/2, 3/4 - 1/2, 1/8 - 0); of the others (1/2, 1/4, -3/4) and 0
    assert multiclass_ece_uniform(labels, scores, 2) == (2 * 3 / 8 + 3 / 4) / 4
    squares = (9 + 4 + 1) / 64, (4 + 1 + 9) / 16
    assert multiclass_ece_uniform(labels, scores, 2, "squared-euclidean") == (2 * squares[0] + squares[1]) / 4
    roots = math.sqrt(squares[0]), math.sqrt(squares[1])
    assert multiclass_ece_uniform(labels, scores, 2, "euclidean") == pytest.approx(
        (2 * roots[0] + roots[1]) / 4, abs=1e-15
    )


def test_uniform_cells_of_two_classes_are_binary_bins() -> None:
    labels, scores = binary_data(13)
    for bins in (1, 2, 7, 10):
        assert multiclass_ece_uniform(labels, scores, bins) == pytest.approx(
            ece(scores, labels, uniform_edges(bins)), abs=1e-12
        )


@pytest.mark.parametrize(
    ("distance", "expected"),
    [("tv", 0.3125), ("euclidean", 0.3125 * math.sqrt(2)), ("squared-euclidean", 2 * 0.3125**2)],
)
def test_median_variance_of_a_vector_by_hand(distance: Distance, expected: float) -> None:
    # class 0 is split at 0.75 (element 2 of 1/8, 1/4, 3/4, 7/8); then a side would have one row
    scores = [0.125, 0.25, 0.75, 0.875]
    assert sorted(map(sorted, median_variance_cells(scores, 2))) == [[0, 1], [2, 3]]
    assert multiclass_ece_median_variance([0, 1, 0, 1], scores, 2, distance) == pytest.approx(expected, abs=1e-15)


def test_median_variance_takes_the_lowest_class_of_equal_variances() -> None:
    # class 0 (1, 3/4, 1/2, 1/4, 0) at 1/2: rows 3, 4 | 0, 1, 2; class 1 would give rows 0, 1 | 2, 3, 4
    scores = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    for given_scores in (scores, np.column_stack([1 - scores, scores])):
        assert sorted(map(sorted, median_variance_cells(given_scores, 2))) == [[0, 1, 2], [3, 4]]
        value = multiclass_ece_median_variance([0, 0, 1, 1, 0], given_scores, 2)
        assert value == pytest.approx((2 * 3 / 8 + 3 * 1 / 12) / 5, abs=1e-15)


def test_the_two_classes_of_a_vector_vary_equally_whatever_the_rounding() -> None:
    # 1 - p is rounded, so that the variance of the float64 column of class 0 is a hair below that of class 1
    assert sorted(map(sorted, median_variance_cells([0.05, 0.2, 0.3, 0.8, 0.9], 2))) == [[0, 1, 2], [3, 4]]


def test_median_variance_of_three_classes_by_hand() -> None:
    # class 2 varies most (0, 0, 0, 1/2, 3/4, 1; median 1/2) and splits 3 | 3; of rows 0-2 class 0 (0, 1/2, 1; as wide
    # as class 1) splits 1 | 2; of rows 3-5 class 2 (1/2, 3/4, 1) splits 1 | 2
    scores = [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.25, 0.25, 0.5], [0.0, 0.25, 0.75], [0.0, 0.0, 1.0]]
    assert sorted(map(sorted, median_variance_cells(scores, 3))) == [[0, 1, 2], [3, 4, 5]]
    assert sorted(map(sorted, median_variance_cells(scores, 4))) == [[0, 1, 2, 3, 4, 5]]
    assert sorted(map(sorted, median_variance_cells(scores, 2))) == [[0, 1, 2], [3, 4, 5]]
    assert sorted(map(sorted, median_variance_cells(scores, 1))) == [[0], [1], [2], [3], [4], [5]]


def test_median_variance_stops_when_the_median_is_the_lowest_value() -> None:
    # class 0 has the widest scores, but nothing lies below its median 0; class 1 is not tried instead
    scores = [[0.0, 0.5, 0.5], [0.0, 0.625, 0.375], [0.0, 0.375, 0.625], [1.0, 0.0, 0.0]]
    assert median_variance_cells(scores, 1) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("min_size", [5, 20])
def test_median_variance_cells_partition_the_rows(min_size: int) -> None:
    _, scores = matrix_data(14)
    cells = median_variance_cells(scores, min_size)
    assert sorted(row for cell in cells for row in cell) == list(range(200))
    assert min(map(len, cells)) >= min_size
    assert max(map(len, cells)) < 2 * min_size
