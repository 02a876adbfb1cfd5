"""Equal-mass edges are exact order statistics of all rows, in bounded memory and few passes."""

from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import calibdask as cd
from tests import reference


def found_edges(diagram: Any) -> NDArray[np.float64]:
    lower = diagram.lower.values[np.isfinite(diagram.lower.values)]
    return np.r_[lower, np.nanmax(diagram.upper.values)]


SCORES = {
    "smooth": lambda rng, n: rng.beta(0.7, 0.9, n),
    "skewed": lambda rng, n: rng.beta(0.05, 3.0, n),
    "saturated": lambda rng, n: 1 - rng.random(n) ** 12,
    "ties": lambda rng, n: rng.integers(0, 101, n) / 100,
    "two values": lambda rng, n: rng.choice([0.2, 0.7], n),
    "all equal": lambda rng, n: np.full(n, 0.3),
    "all zero": lambda rng, n: np.zeros(n),
    "all one": lambda rng, n: np.ones(n),
    "narrow cluster": lambda rng, n: 0.5 + rng.random(n) * 1e-12,
    "clusters in clusters": lambda rng, n: 0.5 + rng.choice([0, 1e-3, 1e-7, 1e-11], n) + rng.random(n) * 1e-14,
    "tiny": lambda rng, n: rng.random(n) * 1e-30,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", SCORES)
def test_edges_equal_those_of_the_sorted_array(kind: str, dtype: Any) -> None:
    for n, bins in ((100_003, 15), (5000, 40), (4096, 7), (30, 10), (7, 15)):
        rng = np.random.default_rng(n)
        scores = SCORES[kind](rng, n).astype(dtype)
        labels = rng.integers(0, 2, n)
        diagram = cd.reliability_diagram(labels, scores, bins=bins, binning="equal-mass")
        expected = reference.equal_mass_edges(scores.astype(np.float64), bins)
        np.testing.assert_array_equal(found_edges(diagram), expected, err_msg=f"{n} rows, {bins} bins")
        lazy = cd.reliability_diagram(labels, da.from_array(scores, chunks=n // 3 + 1), bins=bins, binning="equal-mass")
        assert lazy.drop_attrs().identical(diagram.drop_attrs())
        assert lazy.passes <= 3


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_weighted_edges(drawn: st.DataObject) -> None:
    rng = np.random.default_rng(drawn.draw(st.integers(0, 2**32 - 1)))
    n = drawn.draw(st.integers(1, 80))
    scores = rng.integers(0, drawn.draw(st.sampled_from([5, 1000])), n) / 1000
    weights = rng.integers(1, 5, n) * drawn.draw(st.sampled_from([1.0, 0.1, 1e-6]))
    bins = drawn.draw(st.integers(1, 12))
    diagram = cd.reliability_diagram(np.zeros(n, int), scores, bins=bins, binning="equal-mass", sample_weight=weights)
    np.testing.assert_array_equal(found_edges(diagram), reference.equal_mass_edges(scores, bins, weights))


@pytest.mark.parametrize("weight", [1.0, 0.1, 3.0])
def test_equal_weights_change_nothing(weight: float) -> None:
    rng = np.random.default_rng(0)
    for n in (10, 60, 20_000):
        scores, labels = rng.integers(0, 500, n) / 500, rng.integers(0, 2, n)
        plain = cd.reliability_diagram(labels, scores, bins=9, binning="equal-mass")
        weighted = cd.reliability_diagram(
            labels, scores, bins=9, binning="equal-mass", sample_weight=np.full(n, weight)
        )
        np.testing.assert_array_equal(found_edges(weighted), found_edges(plain))


def test_classwise_slices_and_batches_have_edges_of_their_own() -> None:
    rng = np.random.default_rng(1)
    scores = rng.dirichlet([0.3, 1, 2], (2, 6000))
    labels = rng.integers(0, 3, 6000)
    by = rng.integers(0, 3, 6000)
    diagram = cd.reliability_diagram(labels, scores, bins=8, binning="equal-mass", setting="classwise", by=by)
    for model in range(2):
        for part in range(3):
            for c in range(3):
                one = diagram.isel({"dim_0": model, "by": part, "class": c})
                expected = reference.equal_mass_edges(scores[model, by == part, c], 8)
                np.testing.assert_array_equal(found_edges(one), expected)


def test_bins_hold_equally_many_rows_and_ties_are_not_split() -> None:
    rng = np.random.default_rng(2)
    scores = rng.random(100_000)
    count = cd.reliability_diagram(np.zeros(100_000, int), scores, bins=15, binning="equal-mass")["count"]
    assert set(count.values) <= {6666, 6667}
    tied = cd.evaluate(np.zeros(90, int), np.repeat([0.1, 0.5, 0.9], 30), cd.ece_a(bins=10))
    assert tied.ece.attrs["effective_bins"] == 4  # inner edges at the three tied scores
