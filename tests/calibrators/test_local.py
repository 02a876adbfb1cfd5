"""The calibrator: scikit-learn's manner, NumPy and Dask alike, what it calibrates and how sure it says it is."""

import pickle
import warnings
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import isotonic_regression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import calibdask as cd
from tests import strategies
from tests.calibrators.anything import taking_anything
from tests.combinations import pairwise

# Where data are degenerate the estimators say so; that they do is tested by itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*columns of scores have:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Classes .* have rows of one outcome only:UserWarning"),
    pytest.mark.filterwarnings("ignore:The beta kernel gives no weight:UserWarning"),
]

Array = NDArray[Any]

# Known calibration functions P(y = 1 | s), and beta distributions of scores.
FUNCTIONS = {
    "square": np.square,
    "steep": lambda s: 1 / (1 + np.exp(-12 * (s - 0.5))),
}
DENSITIES = {"uniform": (1.0, 1.0), "skewed": (2.0, 5.0), "u-shaped": (0.4, 0.4)}
ZONES = {
    "low end": lambda s: s < 0.05,
    "middle": lambda s: (s >= 0.05) & (s <= 0.95),
    "high end": lambda s: s > 0.95,
    "steep part": lambda s: np.abs(s - 0.5) < 0.15,
}


def binary(n: int = 2000, seed: int = 0) -> tuple[Array, Array]:
    """Labels of P(y = 1 | s) = s**2, and scores."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    return (rng.random(n) < scores**2).astype(int), scores


def several(n: int = 600, classes: int = 3, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(classes), n)
    return (scores.cumsum(1) < rng.random((n, 1))).sum(1), scores


# With a bandwidth of its own: Silverman's rule takes weights for less information than as many rows.
@parametrize_with_checks([taking_anything(cd.LCECalibrator)(bandwidth=0.1)])
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def equal_fits(a: cd.LCECalibrator, b: cd.LCECalibrator) -> None:
    """Bit for bit."""
    assert a.n_features_in_ == b.n_features_in_
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_array_equal(a.bandwidth_, b.bandwidth_)
    np.testing.assert_array_equal(a.probability_, b.probability_)
    for name in a._sliced.numbers:
        np.testing.assert_array_equal(a._sliced.numbers[name], b._sliced.numbers[name])


def close_fits(a: cd.LCECalibrator, b: cd.LCECalibrator, scores: Array) -> None:
    """At scores of the data: weighted sums depend on their order, and where there is next to no data all is noise."""
    np.testing.assert_allclose(a.bandwidth_, b.bandwidth_, rtol=1e-9)
    np.testing.assert_allclose(a.predict_proba(scores), b.predict_proba(scores), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(a.predict_interval(scores), b.predict_interval(scores), rtol=1e-6, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_dask_equals_numpy(drawn: st.DataObject) -> None:
    data = drawn.draw(strategies.data(max_batch=1))
    labels, weights = data.labels[0], None if data.weights is None else data.weights[0]
    if len(np.unique(labels if weights is None else labels[weights > 0])) < 2:
        return
    scores = data.scores[0, :, 0] if data.layout.vector else data.scores[0]
    calibrator = cd.LCECalibrator(bandwidth=0.05, monotone=drawn.draw(st.booleans()))
    expected = clone(calibrator).fit(labels, scores, weights)
    cut = strategies.chunks(data.rows)
    chunks = (drawn.draw(cut), *([] if scores.ndim == 1 else [drawn.draw(st.sampled_from([-1, 1, 2]))]))
    lazy = da.from_array(scores, chunks=chunks)
    lazy_weights = None if weights is None else da.from_array(weights, chunks=(drawn.draw(cut),))
    with dask.config.set(scheduler="sync"):
        actual = calibrator.fit(da.from_array(labels, chunks=(drawn.draw(cut),)), lazy, lazy_weights)
        if weights is None:
            equal_fits(actual, expected)
        else:
            close_fits(actual, expected, scores[weights > 0])
        found_values = [expected.predict_proba(lazy), expected.predict(lazy), *expected.predict_interval(lazy, 0.8)]
        eager = [expected.predict_proba(scores), expected.predict(scores), *expected.predict_interval(scores, 0.8)]
        for block, whole in zip(found_values, eager, strict=True):
            assert isinstance(block, da.Array)
            assert block.shape == whole.shape
            np.testing.assert_array_equal(block.compute(), whole)


def test_predictions_from_dask_are_lazy() -> None:
    def never(block: Array) -> Array:
        raise AssertionError("computed")

    calibrator = cd.LCECalibrator().fit(*binary())
    lazy = da.zeros(10, chunks=3).map_blocks(never, dtype=float, meta=np.empty(0))
    assert calibrator.predict_proba(lazy).chunks == ((3, 3, 3, 1), (2,))
    assert calibrator.predict(lazy).shape == (10,)
    assert calibrator.predict_interval(lazy).low.dtype == np.float64
    with pytest.raises(AssertionError, match="computed"):
        calibrator.predict_proba(lazy).compute()


def test_data_frames_xarray_and_unknown_chunks() -> None:
    labels, scores = several(200)
    expected = cd.LCECalibrator().fit(labels, scores)
    names = ["a", "b", "c"]
    frame = pd.DataFrame(scores, columns=names)
    frame["label"] = labels
    lazy = dd.from_pandas(frame, npartitions=3)
    in_memory = cd.LCECalibrator().fit(frame["label"], frame[names])
    assert list(in_memory.feature_names_in_) == names
    equal_fits(in_memory, expected)
    actual = cd.LCECalibrator().fit(lazy["label"], lazy[names])
    equal_fits(actual, expected)
    np.testing.assert_array_equal(actual.predict_proba(lazy[names]).compute(), expected.predict_proba(scores))
    np.testing.assert_array_equal(in_memory.predict_proba(frame[names]), expected.predict_proba(scores))
    with pytest.raises(ValueError, match="feature names"):
        in_memory.predict_proba(frame[names[::-1]])
    array = xr.DataArray(scores.T, dims=["class", "sample"])
    equal_fits(cd.LCECalibrator().fit(xr.DataArray(labels, dims="sample"), array), expected)
    np.testing.assert_array_equal(expected.predict_proba(array), expected.predict_proba(scores))


def test_one_column_is_a_vector() -> None:
    labels, scores = binary()
    expected = cd.LCECalibrator().fit(labels, scores)
    column = scores[:, None]
    frame = dd.from_pandas(pd.DataFrame({"label": labels, "score": scores}), npartitions=2)
    lazy = da.from_array(column, chunks=(300, 1))
    for one in (
        cd.LCECalibrator().fit(labels, column),
        cd.LCECalibrator().fit(column, labels),
        cd.LCECalibrator().fit(labels.tolist(), scores.tolist()),
        cd.LCECalibrator().fit(X=column, y=labels),
        cd.LCECalibrator().fit(column, y=labels),
        cd.LCECalibrator().fit(X=scores, y=labels),
        cd.LCECalibrator().fit(y_prob=scores, y_true=labels),
        cd.LCECalibrator().fit(da.from_array(labels[:, None], chunks=200), lazy),
        cd.LCECalibrator().fit(frame["label"], frame[["score"]]),
    ):
        equal_fits(one, expected)
        np.testing.assert_array_equal(one.predict_proba(column), expected.predict_proba(scores))
    np.testing.assert_array_equal(expected.predict_proba(frame["score"]).compute(), expected.predict_proba(scores))
    np.testing.assert_array_equal(expected.predict_proba(lazy).compute(), expected.predict_proba(scores))


@pytest.mark.parametrize("kernel", ["triweight", "gaussian", "epanechnikov", "cosine", "beta"])
@pytest.mark.parametrize("monotone", [False, True])
def test_two_columns_equal_the_vector(kernel: str, monotone: bool) -> None:
    labels, scores = binary(500)
    rows = np.stack([1 - scores, scores], 1)
    options: dict[str, Any] = {"kernel": kernel, "monotone": monotone}
    vector, matrix = (cd.LCECalibrator(**options).fit(labels, given) for given in (scores, rows))
    np.testing.assert_array_equal(matrix.predict_proba(rows), vector.predict_proba(scores))
    for one, other in zip(matrix.predict_interval(rows), vector.predict_interval(scores), strict=True):
        np.testing.assert_array_equal(one, other)
    assert matrix.n_features_in_ == 2
    assert vector.n_features_in_ == 1


@pytest.mark.parametrize("make", [binary, several])
def test_whole_weights_are_repeated_rows(make: Any) -> None:
    labels, scores = make(300)
    weights = np.random.default_rng(1).integers(0, 4, 300)
    weighted = cd.LCECalibrator(bandwidth=0.08).fit(labels, scores, weights)
    repeated = cd.LCECalibrator(bandwidth=0.08).fit(labels.repeat(weights), scores.repeat(weights, axis=0))
    np.testing.assert_allclose(weighted.predict_proba(scores), repeated.predict_proba(scores), rtol=1e-9, atol=1e-12)
    scaled = cd.LCECalibrator(bandwidth=0.08).fit(labels, scores, weights * 7.0)
    for one, other in zip(scaled.predict_interval(scores), weighted.predict_interval(scores), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    # The same weight everywhere is no weight, for intervals too.
    plain, even = (cd.LCECalibrator().fit(labels, scores, w) for w in (None, np.full(300, 2.0)))
    close_fits(plain, even, scores)


def test_rows_of_weight_zero_are_as_good_as_absent() -> None:
    labels, scores = binary(300)
    weights = np.ones(300)
    weights[::3] = 0
    kept = weights > 0
    expected = cd.LCECalibrator().fit(labels[kept], scores[kept], weights[kept])
    scores[~kept], labels[~kept] = np.nan, 9
    close_fits(cd.LCECalibrator().fit(labels, scores, weights), expected, scores[kept])


@pytest.mark.parametrize("make", [binary, several])
def test_monotone_maps(make: Any) -> None:
    labels, scores = make(300)
    options = ({"bandwidth": 0.02, "monotone": monotone} for monotone in (False, True))
    raw, result = (cd.LCECalibrator(**keywords).fit(labels, scores) for keywords in options)
    assert (np.diff(np.atleast_2d(raw.probability_)) < 0).any()
    assert (np.diff(np.atleast_2d(result.probability_)) >= 0).all()
    weights = np.maximum(np.atleast_2d(raw.density_), 1e-9 * raw.density_.max(-1, keepdims=True))
    for p, q, w in zip(np.atleast_2d(raw.probability_), np.atleast_2d(result.probability_), weights, strict=True):
        np.testing.assert_allclose(q, isotonic_regression(p, sample_weight=w))
        # Nearer to every monotone truth.
        for truth in (raw.nodes_, raw.nodes_**2, np.full_like(p, 0.4)):
            assert (w * (q - truth) ** 2).sum() <= (w * (p - truth) ** 2).sum()


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_rows_are_probabilities(classes: int) -> None:
    labels, scores = several(400, classes)
    calibrator = cd.LCECalibrator().fit(labels, scores)
    result = calibrator.predict_proba(scores)
    assert result.shape == scores.shape
    assert ((result >= 0) & (result <= 1)).all()
    np.testing.assert_allclose(result.sum(1), 1, rtol=1e-12)
    np.testing.assert_array_equal(calibrator.predict(scores), result.argmax(1))
    assert calibrator.score(scores, labels) == (result.argmax(1) == labels).mean()


def test_classes_of_which_none_is_expected_are_equally_likely() -> None:
    # Scores of 0.5 for class 0 or 1, and of 0 for class 2, have come, never with that class.
    scores = np.array([[0.5, 0, 0.5], [0, 0.5, 0.5], [0.8, 0.2, 0], [0.2, 0.8, 0]])
    calibrator = cd.LCECalibrator(bandwidth=0.02).fit([2, 2, 0, 1], scores)
    np.testing.assert_array_equal(calibrator.predict_proba([[0.5, 0.5, 0]]), np.full((1, 3), 1 / 3))
    np.testing.assert_allclose(calibrator.predict_proba(scores), np.eye(3)[[2, 2, 0, 1]], atol=1e-9)


def test_a_class_that_never_occurs_keeps_its_scores() -> None:
    labels, scores = several()
    with pytest.warns(UserWarning, match="Classes 2 have rows of one outcome only; their scores are left"):
        calibrator = cd.LCECalibrator(bandwidth=0.1).fit(np.minimum(labels, 1), scores)
    assert np.isnan(calibrator.bandwidth_[2])
    assert (calibrator.predict_proba(scores)[:, 2] > 0).all()
    low, high = calibrator.predict_interval(scores)
    np.testing.assert_array_equal(low[:, 2], 0)
    np.testing.assert_array_equal(high[:, 2], 1)


@pytest.mark.parametrize("classes", [2, 4])
def test_intervals_hold_the_probability_and_widen_with_the_level(classes: int) -> None:
    labels, scores = several(400, classes)
    calibrator = cd.LCECalibrator().fit(labels, scores)
    if classes == 2:
        probability = calibrator.predict_proba(scores)
    else:
        # Before rows are divided by their sums.
        nodes = calibrator.nodes_
        columns = zip(scores.T, calibrator.probability_, strict=True)
        probability = np.stack([np.interp(s, nodes, curve) for s, curve in columns], 1)
    outer = None
    for level in (0.999, 0.95, 0.5, 0.01):
        low, high = calibrator.predict_interval(scores, level)
        assert low.shape == high.shape == scores.shape
        assert ((low >= 0) & (low <= probability + 1e-12) & (probability <= high + 1e-12) & (high <= 1)).all()
        assert outer is None or ((outer.low <= low) & (high <= outer.high)).all()
        outer = calibrator.predict_interval(scores, level)
    if classes == 2:
        low, high = calibrator.predict_interval(scores)
        np.testing.assert_allclose(low, 1 - high[:, ::-1])


@pytest.mark.parametrize("level", [0, 1, 1.5, "high", True, np.nan])
def test_levels(level: Any) -> None:
    calibrator = cd.LCECalibrator().fit(*binary(100))
    with pytest.raises(ValueError, match="level expects a number between 0 and 1"):
        calibrator.predict_interval([0.5], level)


def classification(classes: int) -> tuple[Array, Array]:
    X, y = make_classification(
        400, n_features=8, n_informative=4, n_redundant=4, n_classes=classes, flip_y=0.1, random_state=0
    )
    return X, y


@pytest.mark.parametrize("classes", [2, 3])
def test_pipelines_and_searches(classes: int) -> None:
    X, y = classification(classes)
    model = GaussianNB().fit(X[:200], y[:200])
    X, y = X[200:], y[200:]
    pipeline = make_pipeline(FunctionTransformer(model.predict_proba), cd.LCECalibrator(monotone=True))
    actual = pipeline.fit(X, y).predict_proba(X)
    expected = cd.LCECalibrator(monotone=True).fit(y, model.predict_proba(X)).predict_proba(model.predict_proba(X))
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(pipeline.predict(X), actual.argmax(1))
    out_of_fold = cross_val_predict(pipeline, X, y, cv=3, method="predict_proba")
    assert out_of_fold.shape == (200, classes)
    assert np.isfinite(cross_val_score(pipeline, X, y, cv=3, scoring="neg_brier_score")).all()
    choices = [0.03, 0.1, 0.3, "silverman"]
    options: dict[str, Any] = {"cv": 3, "scoring": "neg_log_loss"}
    search = GridSearchCV(pipeline, {"lcecalibrator__bandwidth": choices}, **options).fit(X, y)
    assert search.best_params_["lcecalibrator__bandwidth"] in choices
    scores = model.predict_proba(X)
    alone = GridSearchCV(cd.LCECalibrator(monotone=True), {"bandwidth": choices}, **options).fit(scores, y)
    np.testing.assert_array_equal(alone.predict_proba(scores), search.predict_proba(X))
    np.testing.assert_array_equal(alone.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])


def test_parameters_copies_and_looks() -> None:
    calibrator = cd.LCECalibrator(kernel="gaussian", bandwidth=0.05)
    usual = {"monotone": False, "step": 0.0003, "setting": None, "logits": False}
    assert calibrator.get_params() == {"kernel": "gaussian", "bandwidth": 0.05, **usual}
    assert repr(calibrator) == "LCECalibrator(bandwidth=0.05, kernel='gaussian')"
    assert cd.LCECalibrator(monotone=True).set_params(bandwidth="isj", monotone=False).bandwidth == "isj"
    labels, scores = binary(300)
    fitted = calibrator.fit(labels, scores)
    assert fitted is calibrator
    again = pickle.loads(pickle.dumps(fitted))
    equal_fits(again, fitted)
    np.testing.assert_array_equal(again.predict_proba(scores), fitted.predict_proba(scores))
    assert not hasattr(clone(fitted), "nodes__")
    # Fitting anew forgets the columns of before.
    fitted.fit(pd.Series(labels), pd.DataFrame({"no": 1 - scores, "yes": scores})).fit(labels, scores)
    assert fitted.n_features_in_ == 1
    assert not hasattr(fitted, "feature_names_in_")


@pytest.mark.parametrize("method", ["predict_proba", "predict", "predict_interval"])
@pytest.mark.parametrize("scores", [[0.5], np.full((2, 2), 0.5), da.full(3, 0.5)], ids=["list", "rows", "dask"])
def test_before_fit(method: str, scores: Any) -> None:
    with pytest.raises(NotFittedError):
        getattr(cd.LCECalibrator(), method)(scores)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "square"}, "kernel expects one of"),
        ({"bandwidth": -1}, "bandwidth expects"),
        ({"bandwidth": None}, "bandwidth expects"),
        ({"step": 1}, "step expects"),
        ({"monotone": "yes"}, "monotone expects True or False, got 'yes'"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.LCECalibrator(**options).fit([0, 1], [0.2, 0.7])


BAD_DATA: dict[str, tuple[Any, Any, str]] = {
    "no rows": ([], [], r"0 sample\(s\)"),
    "no columns": ([0, 1], np.zeros((2, 0)), r"0 feature\(s\)"),
    "no labels": (np.full((2, 2), 0.5), None, "requires y to be passed"),
    "nothing": (None, None, "requires y to be passed"),
    "nan": ([0, 1, 0], [0.2, np.nan, 0.3], "finite scores, but 1 of 3 rows .* row 1"),
    "logits": ([0, 1], [-2.0, 3.0], r"scores in \[0, 1\]"),
    "row sums": ([0, 1], [[0.5, 0.6], [0.5, 0.5]], "sum to 1"),
    "names": (["no", "yes"], [0.2, 0.3], "class numbers"),
    "label 2": ([0, 2], [0.2, 0.3], "whole numbers from 0 to 1"),
    "two labels a row": (np.zeros((2, 2)), np.full((2, 2), 0.5), "1d array"),
    "cube": ([0, 1], np.full((2, 2, 2), 0.5), "dim 3"),
    "lengths": ([0, 1, 1], [0.2, 0.3], "equally many rows"),
    "complex": ([0, 1], [[0.5j], [0.5j]], "Complex data not supported"),
    "masked": ([0, 1], np.ma.masked_greater([0.2, 0.9], 0.5), "Masked values"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data(case: str) -> None:
    labels, scores, message = BAD_DATA[case]
    with pytest.raises(ValueError, match=message):
        cd.LCECalibrator().fit(labels, scores)


LAZY_BAD_DATA: dict[str, tuple[Any, Any, str]] = {
    "no rows": (np.zeros(0), np.zeros(0), "at least one row"),
    "two labels a row": (np.zeros((2, 2)), np.full((2, 2), 0.5), "one label for each row"),
    "cube": (np.zeros(2), np.full((2, 2, 2), 0.5), "got 3 dimensions"),
    "nan": (np.zeros(3), np.array([0.2, np.nan, 0.3]), "finite scores, but 1 of 3 rows .* row 1"),
}


@pytest.mark.parametrize("case", LAZY_BAD_DATA)
def test_bad_data_in_dask(case: str) -> None:
    labels, scores, message = LAZY_BAD_DATA[case]
    with pytest.raises(ValueError, match=message):
        cd.LCECalibrator().fit(da.from_array(labels), da.from_array(scores))


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("method", ["predict_proba", "predict", "predict_interval"])
def test_bad_scores_to_predict(method: str, lazy: bool) -> None:
    def refused(calibrator: cd.LCECalibrator, scores: Any, message: str) -> None:
        given = da.from_array(np.asarray(scores)) if lazy else scores
        with pytest.raises(ValueError, match=message):
            dask.compute(getattr(calibrator, method)(given))

    vector = cd.LCECalibrator().fit(*binary(300))
    refused(vector, [0.5, np.nan], r"finite scores in \[0, 1\], got 1 invalid value, the first is nan")
    refused(vector, [0.5, np.inf], "got 1 invalid value, the first is inf")
    refused(vector, [0.5, -0.1, 2.0], "got 2 invalid values, the first is -0.1")
    refused(vector, np.full((4, 2), 0.5), "X has 2 features, but LCECalibrator is expecting 1 features")
    matrix = cd.LCECalibrator().fit(*several(300))
    refused(matrix, np.full((4, 2), 0.5), "X has 2 features, but LCECalibrator is expecting 3 features")
    refused(matrix, [0.2, 0.3, 0.5], r"rows of 3 scores, got a vector. Reshape your data to shape \(1, 3\)")
    refused(matrix, [[0.2, 0.3, 0.6]], r"rows that sum to 1 \(within 0.001\), got 1 invalid row, the first sums to 1.1")


def test_no_rows_and_rounded_scores_to_predict() -> None:
    vector, matrix = cd.LCECalibrator().fit(*binary(300)), cd.LCECalibrator().fit(*several(300))
    assert vector.predict_proba([]).shape == (0, 2)
    assert matrix.predict_interval(np.zeros((0, 3))).low.shape == (0, 3)
    np.testing.assert_array_equal(vector.predict_proba([1 + 1e-7, -1e-7]), vector.predict_proba([1, 0]))
    rounded = vector.predict_proba(np.float32([0.1, 0.9]))
    np.testing.assert_allclose(rounded, vector.predict_proba([0.1, 0.9]), atol=1e-6)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("outcome", [0, 1])
def test_one_class_only(outcome: int, columns: int) -> None:
    scores = np.random.default_rng(0).dirichlet([1, 1, 1], 50)
    with pytest.raises(ValueError, match="LCECalibrator expects labels of at least two classes, got one class in all"):
        cd.LCECalibrator().fit(np.full(50, outcome), scores if columns > 1 else scores[:, 0])


@pytest.mark.parametrize(
    ("kernel", "score", "n"),
    pairwise(["triweight", "gaussian", "epanechnikov", "cosine", "beta"], [0.0, 0.3, 1.0], [2, 40]),
)
def test_all_scores_equal(n: int, score: float, kernel: str) -> None:
    labels = np.arange(n) % 2
    calibrator = cd.LCECalibrator(kernel=kernel)
    with pytest.warns(UserWarning, match="below the step of the grid"):
        calibrator.fit(labels, np.full(n, score))
    np.testing.assert_allclose(calibrator.predict_proba([score])[0, 1], labels.mean(), atol=1e-3)
    everywhere = np.linspace(0, 1, 11)
    low, high = calibrator.predict_interval(everywhere)
    probability = calibrator.predict_proba(everywhere)
    assert ((low >= 0) & (low <= probability) & (probability <= high) & (high <= 1)).all()
    # Where no score has been, nothing is known.
    far = np.abs(everywhere - score) > 0.05
    assert (high - low)[far].min() > 0.99


@pytest.mark.parametrize("kernel", ["triweight", "gaussian", "epanechnikov", "cosine"])
@pytest.mark.parametrize("apart", [0.25, 0.5, 1.0])
def test_no_score_is_known_better_than_all_rows_tell(kernel: str, apart: float) -> None:
    labels, scores = np.arange(50) % 2, np.repeat([0.0, apart], 25)
    calibrator = cd.LCECalibrator(kernel=kernel).fit(labels, scores)
    low, high = calibrator.predict_interval(calibrator.nodes_)
    # The interval of Wilson for none of 50 is as wide as 0.07, and for 20 of 50 as 0.26.
    assert (high - low).min() > 0.07
    assert (high - low)[calibrator.nodes_ < apart].min() > 0.2


@pytest.mark.parametrize("kernel", ["triweight", "gaussian"])
def test_bandwidth_zero_and_gaps(kernel: str) -> None:
    labels, scores = binary(300)
    with pytest.warns(UserWarning, match="below the step of the grid"):
        calibrator = cd.LCECalibrator(kernel=kernel, bandwidth=0).fit(labels, scores)
    assert calibrator.bandwidth_ == calibrator._grid.width
    assert np.isfinite(calibrator.predict_proba(np.linspace(0, 1, 5000))).all()

    scores = np.where(scores < 0.5, scores / 5, 1 - scores / 5)
    calibrator = cd.LCECalibrator(kernel=kernel, bandwidth=0.01).fit(labels, scores)
    inside = np.linspace(0.3, 0.6, 50)
    errors = calibrator.predict_proba(inside)[:, 1] - inside
    # A straight line across the gap, and no idea how sure.
    np.testing.assert_allclose(np.diff(errors, 2), 0, atol=1e-12)
    low, high = calibrator.predict_interval(inside)
    assert (high - low).min() > 0.99


@pytest.mark.parametrize("monotone", [False, True])
def test_a_known_calibration_function(monotone: bool) -> None:
    labels, scores = binary(50_000, seed=3)
    inside = np.linspace(0.05, 0.95, 181)
    result = cd.LCECalibrator(monotone=monotone).fit(labels, scores).predict_proba(inside)[:, 1]
    assert np.abs(result - inside**2).max() < 0.03
    assert np.sqrt(np.mean((result - inside**2) ** 2)) < 0.012
    rows = np.stack([1 - scores, scores * 0.3, scores * 0.7], 1)
    three = np.where(labels == 0, 0, 1 + (np.random.default_rng(4).random(50_000) < 0.7))
    given = np.stack([1 - inside, inside * 0.3, inside * 0.7], 1)
    result = cd.LCECalibrator(monotone=monotone).fit(three, rows).predict_proba(given)
    assert np.abs(result - np.stack([1 - inside**2, inside**2 * 0.3, inside**2 * 0.7], 1)).max() < 0.04


@pytest.mark.parametrize(
    ("model", "monotone"),
    [
        (GaussianNB(), False),
        (GaussianNB(), True),
        (KNeighborsClassifier(), True),
        (RandomForestClassifier(30, random_state=0), False),
    ],
    ids=lambda value: str(value) if isinstance(value, bool) else type(value).__name__,
)
def test_lowers_the_held_out_error_of_real_models(model: Any, monotone: bool) -> None:
    X, y = load_digits(return_X_y=True)
    before, after = [], []
    for split in range(4):
        # A third each to fit, to calibrate and to measure.
        part = np.random.default_rng(split).permutation(np.arange(len(y)) % 3)
        scores = model.fit(X[part == 0], y[part == 0]).predict_proba(X)
        calibrator = cd.LCECalibrator(monotone=monotone)
        with warnings.catch_warnings():
            # Most scores of naive Bayes are 0 or 1.
            warnings.filterwarnings("ignore", "The bandwidth 'silverman' is below the step", UserWarning)
            calibrator.fit(y[part == 1], scores[part == 1])
        for values, probabilities in ((before, scores), (after, calibrator.predict_proba(scores))):
            values.append(cd.ece(y[part == 2], probabilities[part == 2], binning="equal-mass"))
    assert np.mean(after) < 0.8 * np.mean(before), (before, after)


def covered(
    truth: Any, shape: tuple[float, float], n: int, replicates: int, seed: int
) -> dict[str, tuple[Array, Array]]:
    """Predictions in each zone whose interval at 95 % holds the truth, and all of them, by replicate."""
    rng = np.random.default_rng(seed)
    counts = {zone: np.zeros((2, replicates)) for zone in ZONES}
    for replicate in range(replicates):
        scores, new = rng.beta(*shape, n), rng.beta(*shape, 1000)
        labels = rng.random(n) < truth(scores)
        low, high = cd.LCECalibrator().fit(labels, scores).predict_interval(new)
        inside = (low[:, 1] <= truth(new)) & (truth(new) <= high[:, 1])
        for zone, within in ZONES.items():
            counts[zone][:, replicate] = inside[within(new)].sum(), within(new).sum()
    return {zone: (hits, total) for zone, (hits, total) in counts.items()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_coverage_of_intervals(name: str) -> None:
    # 60 replicates of 3000 rows: the standard error, from the spread between replicates, is at most 0.02 at the ends
    # and 0.005 in the middle.
    results = [covered(FUNCTIONS[name], shape, 3000, 60, seed) for seed, shape in enumerate(DENSITIES.values())]
    for zone in ZONES if name == "steep" else list(ZONES)[:3]:
        filled = [result[zone] for result in results if result[zone][1].sum() >= 200]
        shares = np.array([hits.sum() / total.sum() for hits, total in filled])
        squares = [((h - s * t) ** 2).sum() / t.sum() ** 2 for (h, t), s in zip(filled, shares, strict=True)]
        error = np.sqrt(sum(squares)) / len(filled)
        assert len(filled) >= 2
        assert error < (0.005 if zone == "middle" else 0.02), (zone, error)
        assert 0.90 <= shares.mean() <= 0.99, (zone, shares, error)


def test_scores_before_labels_are_told() -> None:
    labels, scores = binary(100)
    with pytest.raises(ValueError, match="fit expects labels first"):
        cd.LCECalibrator().fit(scores, labels.astype(int))
