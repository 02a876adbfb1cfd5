"""Conventions of the ecosystem: accessor of xarray, scorers and displays as in scikit-learn."""

import pickle
import subprocess
import sys
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import sklearn
import xarray as xr
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, make_scorer
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibdask as cd
import calibdask.accessor

RNG = np.random.default_rng(11)
N = 400
SCORES = RNG.random(N)
LABELS = (RNG.random(N) < SCORES**2).astype(int)
MATRIX = RNG.dirichlet(np.ones(3), N)
CLASSES = RNG.integers(0, 3, N)
NAMES = np.array(["cat", "dog", "eel"])
DAY = np.where(np.arange(N) % 3 == 0, "mon", "tue")
WEIGHT = RNG.random(N)
MAIL = np.array(["ham", "spam"])[LABELS]

CANCER = load_breast_cancer()
IRIS = load_iris()
SPECIES = IRIS.target_names[IRIS.target]
SHORTHANDS = [cd.ece, cd.mce, cd.brier_score, cd.log_loss, cd.density_ece, cd.skce, cd.smooth_ece]


def dataset(row: str = "row") -> xr.Dataset:
    models = np.stack([SCORES, SCORES**2])
    return xr.Dataset(
        {"labels": (row, LABELS), "scores": (("model", row), models), "weight": (row, WEIGHT)},
        {"day": (row, DAY), "model": ["tree", "forest"], "time": (row, pd.date_range("2026-01-01", periods=N))},
    )


def error_scorer(metric: Any, **options: Any) -> Any:
    return make_scorer(metric, greater_is_better=False, response_method="predict_proba", **options)


# The accessor.


def test_accessor_is_registered_by_its_module_alone_and_light() -> None:
    code = (
        "import sys, calibdask as cd; assert 'xarray' not in sys.modules;"
        "import xarray as xr; assert not hasattr(xr.Dataset, 'calib');"
        "import calibdask.accessor; assert xr.Dataset.calib is calibdask.accessor.CalibrationAccessor;"
        "heavy = {'numba', 'sklearn', 'hvplot', 'holoviews', 'calibdask.analyses.evaluation'} & set(sys.modules);"
        "assert not heavy, heavy;"
        # Results have it without another import.
        "result = cd.evaluate([0, 1, 1], [0.2, 0.7, 0.9], cd.BrierScore());"
        "assert result.calib.to_dataframe()['value'].to_dict() == {'brier_score': float(result.brier_score)}"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_accessor_takes_names_of_variables() -> None:
    ds = dataset("sample").rename(labels="y", scores="p").rename_dims(sample="loan")
    result = ds.calib.evaluate({"e": cd.ECE()}, labels="y", scores="p")
    assert float(result.e.sel(model="tree")) == cd.ece(LABELS, SCORES)
    for argument, names in {
        "labels": {},
        "scores": {"labels": "y"},
        "by": {"labels": "y", "scores": "p", "by": "no"},
    }.items():
        with pytest.raises(ValueError, match=f"{argument} expects the name of a variable of the dataset, .*y.*; got"):
            ds.calib.evaluate(**names)


@pytest.mark.parametrize(
    ("by", "dims"),
    [
        ("day", ("day",)),
        (["day", "time.quarter"], ("day", "quarter")),
        ({"weekday": "day"}, ("weekday",)),
    ],
)
def test_accessor_slices(by: Any, dims: tuple[str, ...]) -> None:
    result = dataset().isel(model=0).calib.evaluate(cd.ECE(), by=by)
    assert result.ece.dims == dims
    monday = result.ece.sel({dims[0]: "mon"})
    if len(dims) == 1:
        assert float(monday) == cd.ece(LABELS[DAY == "mon"], SCORES[DAY == "mon"])


def test_accessor_diagram_curve_and_summary() -> None:
    ds = dataset().isel(model=0, drop=True)
    xr.testing.assert_identical(ds.calib.reliability_diagram(bins=5), cd.reliability_diagram(LABELS, SCORES, bins=5))
    xr.testing.assert_identical(ds.calib.reliability_curve(ci=0.9), cd.reliability_curve(LABELS, SCORES, ci=0.9))
    summary = dataset().calib.summarize(by="day", settings=["binary"])
    assert summary["rows"].sizes == {"model": 2, "day": 2}
    result = summary.calib.evaluate(cd.ECE())
    np.testing.assert_allclose(result.ece, dataset().calib.evaluate(cd.ECE(), by="day").ece, rtol=1e-9)
    assert summary.sum("day").calib.reliability_diagram(bins=5).outcome.dims == ("model", "bin")
    with pytest.raises(ValueError, match="A summary already has its weights and slices"):
        summary.calib.evaluate(by="day")


def test_accessor_takes_names_of_classes() -> None:
    coords = {"class": NAMES}
    ds = xr.Dataset({"labels": ("row", NAMES[CLASSES]), "scores": (("row", "class"), MATRIX)}, coords)
    assert float(ds.calib.evaluate(cd.ECE()).ece) == cd.ece(CLASSES, MATRIX)
    diagram = ds.calib.reliability_diagram(setting="classwise")
    assert diagram["class"].values.tolist() == NAMES.tolist()
    # The order is that of the columns, not of the alphabet.
    turned = ds.isel({"class": [2, 0, 1]})
    assert float(turned.calib.evaluate(cd.ECE()).ece) == cd.ece(CLASSES, MATRIX)
    mail = dataset().assign(labels=("row", MAIL)).isel(model=0)
    assert float(mail.calib.evaluate(cd.ECE(), pos_label="spam").ece) == cd.ece(LABELS, SCORES)


# Class names.


def test_results_call_classes_by_their_names() -> None:
    diagram = cd.reliability_diagram(NAMES[CLASSES], MATRIX, setting="classwise", labels=NAMES)
    assert diagram["class"].values.tolist() == NAMES.tolist()
    several = cd.reliability_diagram(NAMES[CLASSES], np.stack([MATRIX, MATRIX]), setting="classwise", labels=NAMES)
    assert several.outcome.dims == ("dim_0", "class", "bin")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((MAIL, SCORES, {}), "Class names require pos_label=..."),
        ((MAIL, SCORES, {"pos_label": "egg"}), "pos_label expects a class of y_true, such as 'ham', got 'egg'"),
        (
            (MAIL, SCORES, {"pos_label": "egg", "labels": ["ham", "spam"]}),
            r"expects one of \['ham', 'spam'\], got 'egg'",
        ),
        ((MAIL, SCORES, {"labels": NAMES}), "A vector of scores expects labels of two classes, got 3"),
        (
            (MAIL, MATRIX, {}),
            r"a class for each of the 3 columns of scores, got the names of 2: \['ham', 'spam'\]. If these",
        ),
        ((MAIL, MATRIX, {"pos_label": "spam"}), "pos_label belongs to vectors of scores; name the 3 classes"),
        ((MAIL, MATRIX, {"labels": NAMES}), r"y_true expects classes among \['cat', 'dog', 'eel'\], got 'ham'"),
        ((da.from_array(MAIL), MATRIX, {}), "Class names in a Dask collection require labels=..."),
        (([(NAMES[CLASSES], MATRIX)], None, {}), "Class names in blocks require labels=..."),
        ((np.where(LABELS, "spam", None), SCORES, {"pos_label": "spam"}), "y_true expects a class in every row"),
        ((np.where(CLASSES, "spam", None), MATRIX, {}), "y_true expects a class in every row"),
    ],
)
def test_refused(arguments: tuple[Any, Any, dict[str, Any]], message: str) -> None:
    y_true, y_prob, options = arguments
    with pytest.raises(ValueError, match=message):
        cd.ece(y_true, y_prob, **options)


# Scorers.


def test_scorer_of_two_classes() -> None:
    model = GaussianNB().fit(CANCER.data, CANCER.target)
    scores = model.predict_proba(CANCER.data)[:, 1]
    assert error_scorer(cd.ece, bins=10)(model, CANCER.data, CANCER.target) == -cd.ece(CANCER.target, scores, bins=10)
    # As scikit-learn's own metric, also of the other class and of its name.
    ours, theirs = error_scorer(cd.brier_score, pos_label=0), error_scorer(brier_score_loss, pos_label=0)
    result = ours(model, CANCER.data, CANCER.target)
    assert result == pytest.approx(theirs(model, CANCER.data, CANCER.target), rel=1e-12)
    names = CANCER.target_names[CANCER.target]
    named = GaussianNB().fit(CANCER.data, names)
    assert error_scorer(cd.brier_score, pos_label="malignant")(named, CANCER.data, names) == result
    with pytest.raises(ValueError, match="pos_label"):
        error_scorer(cd.brier_score)(named, CANCER.data, names)


@pytest.mark.parametrize("metric", SHORTHANDS, ids=lambda metric: metric.__name__)
def test_every_shorthand_is_a_scorer(metric: Any) -> None:
    scorer = pickle.loads(pickle.dumps(error_scorer(metric)))
    assert metric.__name__ in repr(scorer)
    model = GaussianNB().fit(IRIS.data, SPECIES)
    result = scorer(model, IRIS.data, SPECIES)
    assert isinstance(result, float)
    assert result == -metric(IRIS.target, model.predict_proba(IRIS.data))


def test_folds_that_lack_a_class_expect_labels() -> None:
    model = GaussianNB().fit(IRIS.data, SPECIES)
    few = IRIS.target < 2
    with pytest.raises(ValueError, match="expects a class for each of the 3 columns of scores, got the names of 2"):
        error_scorer(cd.ece)(model, IRIS.data[few], SPECIES[few])
    result = error_scorer(cd.ece, labels=IRIS.target_names)(model, IRIS.data[few], SPECIES[few])
    assert result == -cd.ece(IRIS.target[few], model.predict_proba(IRIS.data[few]))


def test_weights_reach_scorers() -> None:
    weight = np.random.default_rng(0).random(len(IRIS.target))
    model = GaussianNB().fit(IRIS.data, IRIS.target)
    weighed = cd.evaluate(IRIS.target, model.predict_proba(IRIS.data), cd.ECE(), sample_weight=weight)
    expected = -float(weighed.ece)
    assert error_scorer(cd.ece)(model, IRIS.data, IRIS.target, sample_weight=weight) == expected
    folds = StratifiedKFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_validate(
            GaussianNB().set_fit_request(sample_weight=False),
            IRIS.data,
            IRIS.target,
            scoring=error_scorer(cd.ece).set_score_request(sample_weight=True),
            params={"sample_weight": weight},
            cv=folds,
            return_estimator=True,
        )
    for fitted, (_, rows), actual in zip(
        routed["estimator"], folds.split(IRIS.data, IRIS.target), routed["test_score"], strict=True
    ):
        scores = fitted.predict_proba(IRIS.data[rows])
        assert actual == -cd.ece(IRIS.target[rows], scores, sample_weight=weight[rows])


# Displays.


def legend(display: cd.ReliabilityDisplay) -> list[str]:
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    return [text for text in texts if text != "calibrated" and "confidence" not in text]


def test_display_of_predictions() -> None:
    options: dict[str, Any] = {"binning": "uniform", "axis": "full"}
    display = cd.ReliabilityDisplay.from_predictions(LABELS, SCORES, bins=5, **options, ci=0.9, name="forest")
    diagram = cd.reliability_diagram(LABELS, SCORES, bins=5, ci=0.9)
    filled = display.result.diagram_count.values > 0
    for name in ("outcome", "outcome_low", "outcome_high", "lower", "upper"):
        np.testing.assert_allclose(display.result[f"diagram_{name}"][filled], diagram[name], rtol=1e-9)
    np.testing.assert_array_equal(display.result.diagram_count[filled], diagram["count"])
    assert legend(display.plot()) == ["forest"]
    assert legend(display.plot("curve", name="other")) == ["other"]
    with pytest.raises(ValueError, match="kind expects 'diagram' or 'curve', got 'bars'"):
        display.plot("bars")  # type: ignore[arg-type]


def test_display_of_an_estimator_of_two_classes() -> None:
    names = CANCER.target_names[CANCER.target]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(CANCER.data, names)
    scores = model.predict_proba(CANCER.data)
    given: dict[str, Any] = {"bins": (0, 0.2, 0.4, 0.6, 0.8, 1)}
    display = cd.ReliabilityDisplay.from_estimator(model, CANCER.data, names, **given)
    assert (display.name, display.pos_label) == ("Pipeline", "malignant")
    expected = cd.reliability_diagram(CANCER.target == 0, scores[:, 1], **given)
    np.testing.assert_array_equal(display.result.diagram_outcome, expected.outcome)
    assert legend(display.plot()) == ["Pipeline · P(malignant)"]
    other = cd.ReliabilityDisplay.from_estimator(model, CANCER.data, names, **given, pos_label="benign", name="")
    expected = cd.reliability_diagram(CANCER.target == 1, scores[:, 0], **given)
    np.testing.assert_array_equal(other.result.diagram_outcome, expected.outcome)
    with pytest.raises(ValueError, match="pos_label expects a class of the estimator"):
        cd.ReliabilityDisplay.from_estimator(model, CANCER.data, names, pos_label="unknown")


def test_display_of_an_estimator_of_several_classes() -> None:
    model = GaussianNB().fit(IRIS.data, SPECIES)
    display = cd.ReliabilityDisplay.from_estimator(model, IRIS.data, SPECIES, setting="classwise", bins=(0, 0.5, 1))
    assert legend(display.plot()) == [f"GaussianNB · {name}" for name in IRIS.target_names]
    expected = cd.reliability_diagram(
        IRIS.target, model.predict_proba(IRIS.data), setting="classwise", bins=(0, 0.5, 1)
    )
    np.testing.assert_array_equal(display.result.diagram_outcome, expected.outcome)
    with pytest.raises(ValueError, match="pos_label belongs to vectors"):
        cd.ReliabilityDisplay.from_estimator(model, IRIS.data, SPECIES, pos_label="setosa")


# The names of options of bins that scikit-learn has.


@pytest.mark.parametrize(
    "metric", [cd.ECE, cd.MCE, cd.ReliabilityDiagram, cd.BrierDecomposition, cd.LogLossDecomposition]
)
@pytest.mark.parametrize(("strategy", "binning"), [("uniform", "uniform"), ("quantile", "equal-mass")])
def test_bins_by_the_names_of_scikit_learn(metric: Any, strategy: str, binning: str) -> None:
    expected = metric(bins=7, binning=binning)
    assert metric(n_bins=7, strategy=strategy) == expected
    assert pickle.loads(pickle.dumps(metric(n_bins=7, strategy=strategy))) == expected


def test_functions_and_texts_take_the_names_of_scikit_learn() -> None:
    expected = cd.ece(LABELS, SCORES, bins=7, binning="equal-mass")
    assert cd.ece(LABELS, SCORES, n_bins=7, strategy="quantile") == expected
    assert float(cd.evaluate(LABELS, SCORES, "ece(n_bins=7, strategy=quantile)").ece) == expected
    assert cd.reliability_diagram(LABELS, SCORES, n_bins=7).sizes["bin"] == 7
    given, aliased = (
        cd.ReliabilityDisplay.from_predictions(LABELS, SCORES, ci=None, **options).result
        for options in ({"bins": 7, "binning": "equal-mass"}, {"n_bins": 7, "strategy": "quantile"})
    )
    xr.testing.assert_identical(given, aliased)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_bins": 7, "bins": 5}, TypeError, "n_bins is scikit-learn's name of bins; give one of them"),
        ({"strategy": "quantile", "binning": "uniform"}, TypeError, "strategy is scikit-learn's name of binning"),
        ({"strategy": "kmeans"}, ValueError, "strategy expects 'uniform'"),
    ],
)
def test_names_of_scikit_learn_are_checked(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cd.ECE(**options)
    with pytest.raises(error, match=message):
        cd.ReliabilityDisplay.from_predictions(LABELS, SCORES, **options)
