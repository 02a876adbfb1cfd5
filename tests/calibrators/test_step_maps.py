"""Maps of one score without parameters: what isotonic maps, binning and Venn-Abers prediction have in common."""

import json
import warnings
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone

import calibdask as cd
from tests import strategies

Array = NDArray[Any]

# Those for which repeated rows, chunks, files and the like are one and the same.
MAPS = [
    cd.IsotonicCalibration(),
    cd.IsotonicCalibration(centred=True),
    cd.IsotonicCalibration(bounded=True),
    cd.HistogramBinning(bins=10),
    cd.HistogramBinning(bins=5, binning="equal-mass"),
    cd.HistogramBinning(bins=4, bounded=True),
    cd.VennAbers(),
]
# Small data often have frequencies of 0 and 1, and empty bins; that this is said is tested by itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*probabilities of exactly 0 or 1 rest on:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*bins have no rows:UserWarning"),
]


def binary(n: int = 2000, seed: int = 0) -> tuple[Array, Array]:
    """Labels of P(y = 1 | s) = s**2, and scores, some of them equal."""
    rng = np.random.default_rng(seed)
    scores = np.where(rng.random(n) < 0.3, rng.integers(0, 11, n) / 10, rng.random(n))
    return (rng.random(n) < scores**2).astype(int), scores


def several(n: int = 600, classes: int = 3, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(classes), n)
    return (scores.cumsum(1) < rng.random((n, 1))).sum(1), scores


def equal_fits(a: cd.Calibrator, b: cd.Calibrator) -> None:
    """Bit for bit."""
    assert a._sliced.numbers.keys() == b._sliced.numbers.keys()
    for name, values in a._sliced.numbers.items():
        np.testing.assert_array_equal(values, b._sliced.numbers[name])


def named(calibrator: Any) -> str:
    return repr(calibrator).replace("\n", "")


maps = pytest.mark.parametrize("calibrator", MAPS, ids=named)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_dask_equals_numpy(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data(max_batch=1))
    labels, weights = data.labels[0], None if data.weights is None else data.weights[0]
    if len(np.unique(labels if weights is None else labels[weights > 0])) < 2:
        return
    scores = data.scores[0, :, 0] if data.layout.vector else data.scores[0]
    calibrator = clone(drawn.draw(st.sampled_from(MAPS)))
    chunks = (drawn.draw(strategies.chunks(data.rows)), *([] if scores.ndim == 1 else [-1]))
    with warnings.catch_warnings(), dask.config.set(scheduler="sync"):
        warnings.simplefilter("ignore", UserWarning)
        expected = clone(calibrator).fit(labels, scores, weights)
        lazy_weights = None if weights is None else da.from_array(weights, chunks=(chunks[0],))
        lazy = da.from_array(scores, chunks=chunks)
        actual = calibrator.fit(da.from_array(labels, chunks=(chunks[0],)), lazy, lazy_weights)
        if weights is None:
            equal_fits(actual, expected)
        else:
            # At scores of the data: weighted sums depend on their order.
            known = scores[weights > 0]
            np.testing.assert_allclose(actual.predict_proba(known), expected.predict_proba(known), atol=1e-9)
        np.testing.assert_array_equal(expected.predict_proba(lazy).compute(), expected.predict_proba(scores))


@maps
@pytest.mark.parametrize("make", [binary, several])
def test_whole_weights_are_repeated_rows(make: Any, calibrator: Any) -> None:
    labels, scores = make(400)
    weights = np.random.default_rng(1).integers(0, 4, 400)
    kept = weights > 0
    repeated = clone(calibrator).fit(labels.repeat(weights), scores.repeat(weights, axis=0))
    # Rows of weight 0 are as good as absent.
    labels[~kept], scores[~kept] = 9, np.nan
    weighted = clone(calibrator).fit(labels, scores, weights)
    everywhere = scores[kept] if scores.ndim > 1 else np.linspace(0, 1, 1001)
    np.testing.assert_allclose(weighted.predict_proba(everywhere), repeated.predict_proba(everywhere), atol=1e-12)


@maps
@pytest.mark.parametrize("make", [binary, several])
def test_slices_have_their_own_maps_and_few_rows_that_of_all(make: Any, calibrator: Any) -> None:
    labels, scores = make(900)
    places = np.array(["north", "south", "islet"])[np.r_[np.zeros(500, int), np.ones(390, int), np.full(10, 2)]]
    with pytest.warns(UserWarning, match="1 of 3 slices have fewer than 100 rows"):
        sliced = clone(calibrator).fit(labels, scores, by=places)
    assert sliced.pooled_slices_ == ("islet",)
    pooled = clone(calibrator).fit(labels, scores)
    with pytest.warns(UserWarning, match="fewer than 100 rows"):
        lazy = clone(calibrator).fit(
            *(da.from_array(part, chunks=(170,) + (-1,) * (part.ndim - 1)) for part in (labels, scores)),
            by=da.from_array(places, chunks=170),
        )
    equal_fits(lazy, sliced)
    new = make(300, seed=5)[1]
    for place in ("north", "south"):
        here = places == place
        alone = clone(calibrator).fit(labels[here], scores[here])
        found = sliced.predict_proba(new, by=np.full(300, place))
        np.testing.assert_array_equal(found, alone.predict_proba(new))
    np.testing.assert_array_equal(sliced.predict_proba(new, by=np.full(300, "islet")), pooled.predict_proba(new))
    np.testing.assert_array_equal(sliced.predict_proba(new), pooled.predict_proba(new))
    again = cd.Calibrator.from_dict(json.loads(json.dumps(sliced.to_dict())))
    equal_fits(again, sliced)
    mixed = np.random.default_rng(3).choice(["north", "south", "islet"], 300)
    np.testing.assert_array_equal(again.predict_proba(new, by=mixed), sliced.predict_proba(new, by=mixed))


@maps
@pytest.mark.parametrize("setting", ["classwise", "confidence"])
def test_matrices(setting: str, calibrator: Any) -> None:
    labels, scores = several(1500, 4)
    fitted = clone(calibrator).set_params(setting=setting).fit(labels, scores)
    found = fitted.predict_proba(scores)
    np.testing.assert_allclose(found.sum(1), 1)
    rows, top = np.arange(1500), scores.argmax(1)
    if setting == "confidence":
        alone = clone(calibrator).fit(labels == top, scores[rows, top])
        others = 1 - np.eye(4, dtype=bool)[top]
        share = scores / (1 - scores[rows, top])[:, None]
        expected = np.where(others, share * (1 - found[rows, top])[:, None], found)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_array_equal(found[rows, top], alone.predict_proba(scores[rows, top])[:, 1])
    else:
        columns = [clone(calibrator).fit(labels == c, scores[:, c]).predict_proba(scores[:, c])[:, 1] for c in range(4)]
        expected = np.stack(columns, 1)
        np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), rtol=1e-12)


@maps
def test_two_columns_are_the_vector(calibrator: Any) -> None:
    labels, scores = binary()
    rows = np.stack([1 - scores, scores], 1)
    vector, matrix = clone(calibrator).fit(labels, scores), clone(calibrator).fit(labels, rows)
    equal_fits(vector, matrix)
    np.testing.assert_array_equal(matrix.predict_proba(rows), vector.predict_proba(scores))


@maps
def test_logits_and_single_precision(calibrator: Any) -> None:
    rng = np.random.default_rng(2)
    logits = rng.normal(size=500)
    scores = expit(logits)
    labels = (rng.random(500) < scores).astype(int)
    fitted = clone(calibrator).set_params(logits=True).fit(labels, logits)
    expected = clone(calibrator).fit(labels, scores)
    np.testing.assert_allclose(fitted.predict_proba(logits), expected.predict_proba(scores), rtol=1e-9)
    single = scores.astype(np.float32)
    np.testing.assert_array_equal(
        clone(calibrator).fit(labels, single).predict_proba(single),
        clone(calibrator).fit(labels, single.astype(float)).predict_proba(single.astype(float)),
    )


@maps
@pytest.mark.parametrize("make", [binary, several])
def test_stored_as_json_to_the_bit(make: Any, calibrator: Any) -> None:
    labels, scores = make()
    fitted = clone(calibrator).fit(labels, scores)
    again = cd.Calibrator.from_dict(json.loads(json.dumps(fitted.to_dict(), allow_nan=False)))
    assert type(again) is type(fitted)
    assert again.get_params() == fitted.get_params()
    equal_fits(again, fitted)
    np.testing.assert_array_equal(again.predict_proba(scores), fitted.predict_proba(scores))


@pytest.mark.parametrize(
    ("calibrator", "most"),
    [
        (cd.IsotonicCalibration(), 2e-3),
        (cd.IsotonicCalibration(centred=True), 2e-3),
        (cd.HistogramBinning(), 0.0),
        (cd.HistogramBinning(binning="equal-mass"), 4e-3),
        (cd.VennAbers(), 2e-3),
    ],
    ids=named,
)
def test_of_a_summary(calibrator: Any, most: float) -> None:
    rng = np.random.default_rng(0)
    scores = rng.beta(0.6, 0.9, 200_000)
    labels = (rng.random(200_000) < scores**1.5).astype(int)
    rows, cells = clone(calibrator).fit(labels, scores), clone(calibrator).fit(cd.summarize(labels, scores))
    new = rng.beta(0.6, 0.9, 10_000)
    apart = np.abs(rows.predict_proba(new) - cells.predict_proba(new))[:, 1]
    assert np.sqrt((apart**2).mean()) <= most


@pytest.mark.parametrize("setting", ["classwise", "confidence"])
@maps
def test_of_a_summary_by_slice(setting: str, calibrator: Any) -> None:
    labels, scores = several(6000)
    place = np.arange(6000) % 2
    fitted = clone(calibrator).set_params(setting=setting)
    rows = clone(fitted).fit(labels, scores, by={"place": place})
    cells = fitted.fit(cd.summarize(labels, scores, by={"place": place}), by="place")
    by = {"place": np.arange(500) % 2}
    apart = np.abs(rows.predict_proba(scores[:500], by=by) - cells.predict_proba(scores[:500], by=by))
    assert np.sqrt((apart**2).mean()) < 0.01


@maps
def test_a_file(calibrator: Any, tmp_path: Path) -> None:
    labels, scores = several(400)
    np.savez(tmp_path / "rows.npz", y_true=labels, y_prob=scores)
    equal_fits(
        clone(calibrator).fit(str(tmp_path / "rows.npz"), label="y_true", score="y_prob"),
        clone(calibrator).fit(labels, scores),
    )


@maps
@pytest.mark.parametrize("columns", [1, 3])
def test_one_class_only(columns: int, calibrator: Any) -> None:
    scores = np.random.default_rng(0).dirichlet([1, 1, 1], 50)
    with pytest.raises(ValueError, match="expects labels of at least two classes, got one class in all 50 rows"):
        clone(calibrator).fit(np.ones(50, int), scores if columns > 1 else scores[:, 0])


@maps
def test_a_class_that_never_occurs_keeps_its_scores(calibrator: Any) -> None:
    labels, scores = several()
    with pytest.warns(UserWarning, match="Classes 2 have rows of one outcome only; their scores are left"):
        fitted = clone(calibrator).fit(np.minimum(labels, 1), scores)
    assert (fitted.predict_proba(scores)[:, 2] > 0).all()
    again = cd.Calibrator.from_dict(json.loads(json.dumps(fitted.to_dict(), allow_nan=False)))
    np.testing.assert_array_equal(again.predict_proba(scores), fitted.predict_proba(scores))


@maps
@pytest.mark.parametrize("score", [0.0, 0.3, 1.0])
def test_equal_scores_give_a_constant(score: float, calibrator: Any) -> None:
    labels = np.arange(40) % 4 == 0
    fitted = clone(calibrator).fit(labels, np.full(40, score))
    added = getattr(calibrator, "bounded", False) or isinstance(calibrator, cd.VennAbers)
    expected = 11 / 42 if getattr(calibrator, "bounded", False) else (11 / 41) / (1 - 10 / 41 + 11 / 41)
    np.testing.assert_allclose(fitted.predict_proba([score])[:, 1], expected if added else 0.25, rtol=1e-12)


@maps
def test_three_rows_and_only_weights_of_zero(calibrator: Any) -> None:
    fitted = clone(calibrator).fit([0, 1, 0], [0.2, 0.5, 0.7])
    found = fitted.predict_proba(np.linspace(0, 1, 101))
    assert ((found >= 0) & (found <= 1)).all()
    with pytest.raises(ValueError, match="weight"):
        clone(calibrator).fit([0, 1, 0], [0.2, 0.5, 0.7], np.zeros(3))


@pytest.mark.parametrize(
    ("calibrator", "message"),
    [
        (cd.IsotonicCalibration(centred="yes"), "centred expects True or False, got 'yes'"),
        (cd.IsotonicCalibration(bounded=1), "bounded expects True or False, got 1"),
        (cd.IsotonicCalibration(setting="top"), "setting expects 'classwise', 'confidence' or None"),
        (cd.HistogramBinning(bins=0), "bins expects a positive whole number"),
        (cd.HistogramBinning(binning="quantile"), "binning expects"),
        (cd.HistogramBinning(bounded=None), "bounded expects True or False"),
        (cd.VennAbers(setting="confidence"), "expects a matrix of scores"),
    ],
)
def test_bad_parameters(calibrator: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        calibrator.fit(*binary(100))


def test_bins_that_a_summary_does_not_have() -> None:
    with pytest.raises(ValueError, match="use a number of bins that divides"):
        cd.HistogramBinning(bins=7).fit(cd.summarize(*binary()))
