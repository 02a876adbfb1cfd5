"""Venn-Abers prediction against its definition and the package venn-abers, its validity, and its intervals."""

import json
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

import calibdask as cd

Array = NDArray[Any]


def by_definition(labels: Array, scores: Array, weights: Array, new: float) -> list[float]:
    """Isotonic regression with the new row, of outcome 0 and of 1, at its score."""
    ends = []
    for outcome in (0, 1):
        distinct, at = np.unique(np.r_[scores, new], return_inverse=True)
        weight = np.bincount(at, np.r_[weights, 1.0])
        mean = np.bincount(at, np.r_[weights * labels, outcome]) / weight
        ends.append(isotonic_regression(mean, sample_weight=weight)[distinct == new].item())
    return ends


def several(n: int, classes: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(classes), n)
    return (scores.cumsum(1) < rng.random((n, 1))).sum(1), scores


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40), st.sampled_from(["distinct", "ties", "ends", "alike"]), st.booleans())
def test_both_ends_are_those_of_the_definition(seed: int, n: int, kind: str, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    scores = {
        "distinct": rng.random(n),
        "ties": rng.integers(0, 6, n) / 5,
        "ends": rng.integers(0, 2, n) * 1.0,
        "alike": np.full(n, 0.4),
    }[kind]
    labels = (rng.random(n) < rng.choice([scores, 1 - scores, 0.5 + 0 * scores])).astype(int)
    labels[:2] = 0, 1
    weights = 3 * rng.random(n) if weighted else np.ones(n)
    new = np.r_[scores, rng.random(10), 0, 1, np.nextafter(scores[:5], 0.5)]
    fitted = cd.VennAbers().fit(labels, scores, weights if weighted else None)
    low, high = (end[:, 1] for end in fitted.predict_interval(new))
    expected = np.array([by_definition(labels, scores, weights, score) for score in new])
    np.testing.assert_allclose(np.stack([low, high], 1), expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(fitted.predict_proba(new)[:, 1], high / (1 - low + high), rtol=1e-15)
    assert (low <= high).all()
    # Steps go up, and no two of them are one.
    for name in ("low", "high"):
        assert (np.diff(getattr(fitted, f"{name}_")) > 0).all()
        assert (np.diff(getattr(fitted, f"{name}_score_")) > 0).all()


# From venn-abers 1.5.4 (pip install venn-abers) with labels and scores below:
#   python -c "from venn_abers import VennAbers; import numpy as np; va = VennAbers();
#              va.fit(np.stack([1 - scores, scores], 1), labels);
#              print(va.predict_proba(np.stack([1 - new, new], 1)))"
RECORDED = {
    0.00: (0.0, 0.3333333333333333, 0.25),
    0.03: (0.0, 0.3333333333333333, 0.25),
    0.10: (0.0, 0.375, 0.27272727),
    0.27: (0.2857142857142857, 0.42857142857142855, 0.375),
    0.30: (0.2857142857142857, 0.42857142857142855, 0.375),
    0.50: (0.2857142857142857, 0.5, 0.41176471),
    0.55: (0.2857142857142857, 0.5, 0.41176471),
    0.60: (0.2857142857142857, 0.6666666666666666, 0.48275862),
    0.63: (0.5, 0.6666666666666666, 0.57142857),
    0.75: (0.5, 0.6666666666666666, 0.57142857),
    0.84: (0.5714285714285714, 1.0, 0.7),
    0.88: (0.5714285714285714, 1.0, 0.7),
    0.91: (0.75, 1.0, 0.8),
    0.95: (0.75, 1.0, 0.8),
    1.00: (0.75, 1.0, 0.8),
}


def test_equals_the_package_venn_abers() -> None:
    scores = np.array([12, 3, 27, 27, 41, 18, 55, 63, 63, 63, 70, 84, 79, 91, 91, 36]) / 100
    labels = [0, 0, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 1, 0]
    fitted = cd.VennAbers().fit(labels, scores)
    low, high = fitted.predict_interval(list(RECORDED))
    found = np.stack([low[:, 1], high[:, 1], fitted.predict_proba(list(RECORDED))[:, 1]], 1)
    np.testing.assert_allclose(found[:, :2], [ends[:2] for ends in RECORDED.values()], rtol=1e-15)
    np.testing.assert_allclose(found[:, 2], [ends[2] for ends in RECORDED.values()], atol=5e-9)


def test_the_end_that_belongs_to_the_outcome_is_perfectly_calibrated() -> None:
    # 3000 samples of 30 rows, each with one row more; scores with ties, and as bad as scores can be.
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 21, (3000, 31)) / 20
    labels = (rng.random((3000, 31)) < 0.9 - 0.8 * np.sqrt(scores)).astype(int)
    sample = np.repeat(np.arange(3000), 30)
    fitted = cd.VennAbers().fit(labels[:, :30].ravel(), scores[:, :30].ravel(), by=sample, min_rows=1)
    ends = fitted.predict_interval(scores[:, 30], by=np.arange(3000))
    own = np.where(labels[:, 30] == 1, ends.high[:, 1], ends.low[:, 1])
    for test_function in (np.ones(3000), own, own > 0.4, own > 0.5):
        difference = (labels[:, 30] - own) * test_function
        error = difference.std() / np.sqrt(3000)
        assert abs(difference.mean()) < 4 * error < 0.04


def test_probabilities_are_never_certain_and_lie_within_their_intervals() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(5000)
    labels = (rng.random(5000) < scores**3).astype(int)
    fitted = cd.VennAbers().fit(labels, scores)
    everywhere = np.linspace(0, 1, 5001)
    found, (low, high) = fitted.predict_proba(everywhere), fitted.predict_interval(everywhere)
    assert ((found > 0) & (found < 1) & (low <= found) & (found <= high)).all()
    np.testing.assert_allclose(low[:, 0], 1 - high[:, 1])
    assert (high - low).mean() < 0.05
    # Fewer numbers than scores.
    assert fitted.low_.size + fitted.high_.size < 2000


@pytest.mark.parametrize("setting", ["classwise", "confidence"])
@pytest.mark.parametrize("make", [cd.VennAbers, cd.LCECalibrator])
def test_intervals_of_matrices(make: Any, setting: Any) -> None:
    labels, scores = several(1500)
    fitted = make(setting=setting).fit(labels, scores)
    low, high = fitted.predict_interval(scores)
    found = fitted.predict_proba(scores)
    rows, top = np.arange(1500), scores.argmax(1)
    assert low.shape == high.shape == (1500, 3)
    assert (low <= high).all()
    if setting == "confidence":
        assert ((low <= found + 1e-12) & (found <= high + 1e-12)).all()
        alone = make().fit(labels == top, scores[rows, top]).predict_interval(scores[rows, top])
        np.testing.assert_array_equal(low[rows, top], alone.low[:, 1])
        np.testing.assert_array_equal(high[rows, top], alone.high[:, 1])
        # What one end leaves, the others have.
        np.testing.assert_allclose(low.sum(1) - low[rows, top], 1 - high[rows, top], atol=1e-12)
    else:
        for c in range(3):
            alone = make().fit(labels == c, scores[:, c]).predict_interval(scores[:, c])
            np.testing.assert_array_equal(low[:, c], alone.low[:, 1])
            np.testing.assert_array_equal(high[:, c], alone.high[:, 1])
    lazy = fitted.predict_interval(da.from_array(scores, chunks=(400, -1)))
    for eager, end in zip((low, high), lazy, strict=True):
        assert isinstance(end, da.Array)
        np.testing.assert_array_equal(end.compute(), eager)


def test_intervals_by_slice_of_the_stored_map() -> None:
    labels, scores = several(900)
    place = np.arange(900) % 3
    fitted = cd.VennAbers().fit(labels, scores, by=place)
    again = cd.Calibrator.from_dict(json.loads(json.dumps(fitted.to_dict())))
    assert isinstance(again, cd.VennAbers)
    ends = fitted.predict_interval(scores, by=place)
    np.testing.assert_array_equal(again.predict_interval(scores, by=place), ends)
    alone = cd.VennAbers().fit(labels[place == 1], scores[place == 1]).predict_interval(scores[place == 1])
    np.testing.assert_array_equal(ends.low[place == 1], alone.low)


def test_of_a_class_that_never_occurs_nothing_is_known() -> None:
    labels, scores = several(600)
    with pytest.warns(UserWarning, match="Classes 2 have rows of one outcome only"):
        fitted = cd.VennAbers().fit(np.minimum(labels, 1), scores)
    low, high = fitted.predict_interval(scores)
    np.testing.assert_array_equal(low[:, 2], 0)
    np.testing.assert_array_equal(high[:, 2], 1)


def test_maps_of_very_many_numbers_are_said() -> None:
    rng = np.random.default_rng(0)
    # Every score a step: outcomes that go with the score strictly.
    scores = np.repeat(np.arange(30_001) / 30_000, 2)
    weights = np.tile([1.0, 1.0], 30_001)
    weights[1::2] = np.arange(1, 30_002)
    labels = np.tile([0, 1], 30_001)
    with pytest.warns(UserWarning, match="the map consists of 120,0.. numbers; one that is fitted to a summary has"):
        fitted = cd.VennAbers().fit(labels, scores, weights)
    new = rng.random(1)
    np.testing.assert_allclose(
        [end[0, 1] for end in fitted.predict_interval(new)], by_definition(labels, scores, weights, new[0]), rtol=1e-9
    )
