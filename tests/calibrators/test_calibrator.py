"""What all calibrators have from their base class: kinds of data, slices, summaries, storing, named results."""

import json
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

import calibdask as cd
from calibdask.calibrators.curves.columns import ConfidenceMap

Array = NDArray[Any]


def rows(n: int = 3000, seed: int = 0) -> tuple[Array, Array]:
    """Labels, and scores whose logits are too small."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    return (rng.random(n) < expit(0.3 + 1.5 * z)).astype(int), expit(z)


def matrix(n: int = 3000, classes: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    scores = rng.dirichlet(np.ones(classes), n)
    return (scores.cumsum(1) < rng.random((n, 1))).sum(1), scores


def equal(a: cd.Calibrator, b: cd.Calibrator) -> None:
    """Bit for bit."""
    first, second = a.to_dict(), b.to_dict()
    assert first["numbers"] == second["numbers"]
    assert first["rows"] == second["rows"]


@pytest.fixture
def frame() -> pd.DataFrame:
    labels, scores = rows()
    return pd.DataFrame({"clicked": labels, "p": scores, "day": np.arange(len(labels)) % 3})


def test_containers_files_and_blocks_are_arrays(frame: pd.DataFrame, tmp_path: Path) -> None:
    labels, scores = rows()
    expected = cd.PlattScaling().fit(labels, scores)
    equal(cd.PlattScaling().fit(frame, label="clicked", score="p"), expected)
    frame.to_parquet(tmp_path / "rows.parquet")
    equal(cd.PlattScaling().fit(str(tmp_path / "rows.parquet"), label="clicked", score="p"), expected)
    equal(cd.PlattScaling().fit([(labels[:1000], scores[:1000]), (labels[1000:], scores[1000:])]), expected)
    data = xr.Dataset({"clicked": ("sample", labels), "p": ("sample", scores)})
    equal(cd.PlattScaling().fit(data, label="clicked", score="p"), expected)
    lazy = cd.PlattScaling().fit(da.from_array(labels, chunks=700), da.from_array(scores, chunks=999))
    equal(lazy, expected)


def test_logits_are_scores() -> None:
    labels, scores = rows()
    z = np.log(scores) - np.log1p(-scores)
    expected = cd.PlattScaling().fit(labels, scores)
    calibrator = cd.PlattScaling(logits=True).fit(labels, z)
    assert calibrator.coef_ == pytest.approx(expected.coef_, rel=1e-9)
    np.testing.assert_allclose(calibrator.predict_proba(z), expected.predict_proba(scores), rtol=1e-9)
    targets, probabilities = matrix()
    shifted = log_softmax(np.log(probabilities), axis=1) + 3.0
    result = cd.PlattScaling(logits=True).fit(targets, shifted).predict_proba(shifted)
    np.testing.assert_allclose(result, cd.PlattScaling().fit(targets, probabilities).predict_proba(probabilities))
    with pytest.raises(ValueError, match="finite logits, got 1 invalid value, the first is nan"):
        calibrator.predict_proba([np.nan, 0.0])


def test_names_of_classes() -> None:
    labels, scores = matrix()
    names = np.array(["ant", "bee", "cow"])
    calibrator = cd.PlattScaling().fit(names[labels], scores)
    assert calibrator.classes_.tolist() == names.tolist()
    np.testing.assert_array_equal(calibrator.predict(scores), names[calibrator.predict_proba(scores).argmax(1)])
    again = cd.Calibrator.from_dict(json.loads(json.dumps(calibrator.to_dict())))
    np.testing.assert_array_equal(again.predict(scores), calibrator.predict(scores))
    binary, positive = rows()
    text = np.array(["no", "yes"])[binary]
    equal(cd.PlattScaling().fit(text, positive, pos_label="yes"), cd.PlattScaling().fit(binary, positive))


@pytest.mark.parametrize("lazy", [False, True])
def test_every_slice_has_the_map_of_its_rows(lazy: bool) -> None:
    labels, scores = rows()
    by = {"day": np.arange(len(labels)) % 3, "country": np.array(["se", "be"])[(np.arange(len(labels)) // 3) % 2]}
    given = [da.from_array(values, chunks=500) if lazy else values for values in (labels, scores)]
    slicing = {name: da.from_array(values, chunks=700) if lazy else values for name, values in by.items()}
    calibrator = cd.PlattScaling().fit(*given, by=slicing)
    assert calibrator.coef_.shape == (3, 2)
    result = calibrator.predict_proba(given[1], by=slicing)
    for d, day in enumerate((0, 1, 2)):
        for c, country in enumerate(("be", "se")):
            here = (by["day"] == day) & (by["country"] == country)
            alone = cd.PlattScaling().fit(labels[here], scores[here])
            assert calibrator.coef_[d, c] == alone.coef_
            np.testing.assert_array_equal(np.asarray(result)[here], alone.predict_proba(scores[here]))
    whole = cd.PlattScaling().fit(labels, scores)
    np.testing.assert_array_equal(calibrator.predict_proba(scores), whole.predict_proba(scores))
    unknown = {"day": np.array([7, 0]), "country": np.array(["be", "xx"])}
    with pytest.warns(UserWarning, match="2 of 2 rows have values of day, country that are unknown to the map") as told:
        mapped = calibrator.predict_proba(scores[:2], by=unknown)
    assert told[0].filename == __file__
    np.testing.assert_array_equal(mapped, whole.predict_proba(scores[:2]))
    with pytest.raises(ValueError, match="by expects the slices day, country, got day"):
        calibrator.predict_proba(scores, by={"day": by["day"]})
    with pytest.raises(ValueError, match="fitted by slices"):
        whole.predict_proba(scores, by=by)


def test_small_slices_have_the_map_of_all_rows() -> None:
    labels, scores = rows()
    group = np.where(np.arange(len(labels)) < 99, "rare", "common")
    # All alike: no map of its own either.
    labels[-200:], group[-200:] = 1, "alike"
    with pytest.warns(UserWarning, match="2 of 3 slices have fewer than 100 rows, .* of all rows: alike, rare") as told:
        calibrator = cd.PlattScaling().fit(labels, scores, by=group)
    assert told[0].filename == __file__
    assert calibrator.pooled_slices_ == ("alike", "rare")
    whole = cd.PlattScaling().fit(labels, scores)
    assert calibrator.coef_[0] == calibrator.coef_[2] == whole.coef_ != calibrator.coef_[1]
    with pytest.warns(UserWarning, match="1 of 3"):
        own = cd.PlattScaling().fit(labels, scores, by=group, min_rows=99)
    assert own.coef_[2] == cd.PlattScaling().fit(labels[:99], scores[:99]).coef_
    with pytest.raises(ValueError, match="min_rows expects a positive whole number of rows, got 0"):
        cd.PlattScaling().fit(labels, scores, by=group, min_rows=0)


def test_missing_values_of_slices_are_a_slice() -> None:
    labels, scores = rows()
    group = pd.Series(np.where(np.arange(len(labels)) % 3, "a", "b"), dtype=object)
    group[group.index % 5 == 0] = None
    calibrator = cd.PlattScaling().fit(labels, scores, by=group)
    assert calibrator.coef_.shape == (3,)
    here = group.isna().to_numpy()
    alone = cd.PlattScaling().fit(labels[here], scores[here])
    result = calibrator.predict_proba(scores, by=group)
    np.testing.assert_array_equal(result[here], alone.predict_proba(scores[here]))


@pytest.mark.parametrize("by", [None, "day"])
def test_a_summary_is_enough(by: str | None) -> None:
    labels, scores = rows(20_000)
    day = np.arange(len(labels)) % 2
    summary = cd.summarize(labels, scores, by={"day": day, "hour": day // 2}, settings=["binary"])
    calibrator = cd.PlattScaling().fit(summary, by=by)
    expected = cd.PlattScaling().fit(labels, scores, by=None if by is None else {"day": day})
    assert (np.abs(calibrator.coef_ - expected.coef_) < 0.01 * expected.coef_se_).all()
    with pytest.raises(ValueError, match="by expects slices of the summary, day, hour, got week"):
        cd.PlattScaling().fit(summary, by="week")
    with pytest.raises(ValueError, match="A summary already has its weights and slices"):
        cd.PlattScaling().fit(summary, by={"day": day})


@pytest.mark.parametrize("kind", ["none", "text", "numbers", "dates"])
def test_stored_as_json(kind: str) -> None:
    labels, scores = rows()
    day = np.arange(len(labels)) % 2
    values = {
        "none": None,
        "text": np.array(["a", "b"])[day],
        "numbers": np.where(day == 1, np.nan, 3.0),
        "dates": np.array(["2026-01-01", "2026-01-02"], "datetime64[ns]")[day],
    }[kind]
    by = None if values is None else {"day": values}
    calibrator = cd.PlattScaling().fit(labels, scores, by=by)
    text = json.dumps(calibrator.to_dict(), allow_nan=False)
    again = cd.PlattScaling.from_dict(json.loads(text))
    assert json.dumps(again.to_dict()) == text
    np.testing.assert_array_equal(again.coef_, calibrator.coef_)
    np.testing.assert_array_equal(again.predict_proba(scores, by=by), calibrator.predict_proba(scores, by=by))


def test_what_is_no_stored_calibrator_is_refused() -> None:
    stored = cd.PlattScaling().fit(*rows()).to_dict()
    without_checksum = {key: value for key, value in stored.items() if key != "checksum"}
    by_hand = without_checksum | {"format": 1}
    for wrong, message in [
        ({}, "it lacks format, calibrator"),
        (None, "it lacks format"),
        (stored | {"format": 3}, "expects format 1 or 2, got 3, of calibdask"),
        (by_hand | {"calibrator": "ECE"}, "expects a calibrator of calibdask, got 'ECE'"),
        (by_hand | {"calibrator": "__import__"}, "expects a calibrator of calibdask"),
        (by_hand | {"rows": [1, 2]}, "the mapping is damaged"),
        *((by_hand | {key: -1}, "parts of it are missing or have other types") for key in ("parameters", "numbers")),
        *((by_hand | {key: None}, "parts of it are missing or have other types") for key in ("rows", "cautions")),
        (by_hand | {"parameters": {"smooth": True}}, "parts of it are missing or have other types"),
        (by_hand | {"numbers": {}}, "the mapping is damaged"),
        ({**stored, "checksum": None}, "its checksum does not match"),
        (without_checksum, "its checksum does not match"),
    ]:
        with pytest.raises(ValueError, match=message):
            cd.Calibrator.from_dict(wrong)
    with pytest.raises(ValueError, match=r"LCECalibrator.from_dict expects a LCECalibrator, got a PlattScaling"):
        cd.LCECalibrator.from_dict(stored)


def test_a_number_that_was_changed_is_noticed() -> None:
    """Also one that still makes probabilities; unless the format says that it was written by hand."""
    fitted = cd.PlattScaling().fit(*rows(60), by={"day": np.arange(60) % 2}, min_rows=1)
    text = json.dumps(fitted.to_dict())
    for path in (("numbers", "coef", 0, 0), ("rows", 0), ("classes", 1), ("slices", "labels", 0, 1), ("cautions",)):
        changed: Any = json.loads(text)
        *outer, last = path
        place = changed
        for key in outer:
            place = place[key]
        place[last] = ["new"] if last == "cautions" else place[last] + 1
        with pytest.raises(ValueError, match=r"damaged, or changed by hand; fit it again, or, .* set its format to 1"):
            cd.Calibrator.from_dict(changed)
        del changed["checksum"]
        cd.Calibrator.from_dict(changed | {"format": 1})
    # Programs that write 1.0 as 1, and keys in another order.
    stored = json.loads(text)
    stored["numbers"]["smoothed"] = [[int(value) for value in part] for part in stored["numbers"]["smoothed"]]
    again = cd.Calibrator.from_dict(dict(reversed(stored.items())))
    np.testing.assert_array_equal(again.coef_, fitted.coef_)


def test_named_arrays_stay_named() -> None:
    labels, scores = matrix()
    calibrator = cd.PlattScaling().fit(labels, scores)
    array = xr.DataArray(scores.T, dims=("kind", "sample"), coords={"kind": list("abc")})
    result = calibrator.predict_proba(array)
    assert result.dims == ("sample", "kind")
    assert result.kind.values.tolist() == list("abc")
    np.testing.assert_array_equal(result, calibrator.predict_proba(scores))
    lazy = calibrator.predict_proba(array.chunk(sample=500))
    assert isinstance(lazy.data, da.Array)
    np.testing.assert_array_equal(lazy, result)
    binary, positive = rows()
    vector = cd.PlattScaling().fit(binary, positive).predict_proba(xr.DataArray(positive, dims="sample"))
    assert vector.dims == ("sample", "class")
    assert vector["class"].values.tolist() == [0, 1]


def test_the_confidence_alone() -> None:
    labels, scores = matrix()
    calibrator = cd.PlattScaling(setting="confidence").fit(labels, scores)
    result = calibrator.predict_proba(scores)
    top = scores.argmax(1)
    own = cd.PlattScaling().fit(top == labels, scores.max(1))
    np.testing.assert_array_equal(result[np.arange(len(top)), top], own.predict_proba(scores.max(1))[:, 1])
    np.testing.assert_allclose(result.sum(1), 1.0)
    # The others keep their proportions; where they are 0 they share equally.
    np.testing.assert_allclose(result[:, 0] / result[:, 1] * (top == 2), scores[:, 0] / scores[:, 1] * (top == 2))
    np.testing.assert_allclose(ConfidenceMap(lambda s: 0.7 * s)(np.array([[1.0, 0, 0]])), [[0.7, 0.15, 0.15]])
    with pytest.raises(ValueError, match="expects a matrix of scores, got a vector"):
        cd.PlattScaling(setting="confidence").fit(*rows())
    with pytest.raises(ValueError, match="setting expects 'classwise', 'confidence' or None, got 'binary'"):
        cd.PlattScaling(setting="binary").fit(labels, scores)


def test_several_models_are_refused() -> None:
    labels, scores = rows()
    two = xr.DataArray(np.stack([scores, scores]), dims=("model", "sample"))
    summary = cd.summarize(xr.DataArray(labels, dims="sample"), two, settings=["binary"])
    with pytest.raises(ValueError, match="fit expects the scores of one model, got several along model"):
        cd.PlattScaling().fit(summary)


def test_quiet_fits_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cd.PlattScaling().fit(*rows()).cautions_ == ()


def test_many_rows_are_cells_however_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibdask.calibrators.curves.columns.MOST_ROWS", 1000)
    labels, scores = rows()
    expected = cd.PlattScaling().fit(labels, scores)
    # Without the sizes of chunks the number of rows is known after a pass only.
    lazy = da.from_array(scores, chunks=700)
    kept = lazy[lazy >= 0]
    equal(cd.PlattScaling().fit(da.from_array(labels, chunks=700)[lazy >= 0], kept), expected)
    equal(cd.PlattScaling().fit(cd.summarize(labels, scores, settings=["binary"])), expected)
    monkeypatch.setattr("calibdask.calibrators.curves.columns.MOST_ROWS", 1 << 22)
    exact = cd.PlattScaling().fit(labels, scores)
    assert 0 < abs(exact.coef_ - expected.coef_) < 0.01 * exact.coef_se_


LABELS, SCORES = rows(200)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: cd.PlattScaling().fit(np.eye(3)[matrix(50)[0]], matrix(50)[1]),
            r"decode one-hot rows by y_true\.argmax",
        ),
        (lambda: cd.PlattScaling().fit(np.array(["n", "p"])[LABELS], SCORES), r"require pos_label=\.\.\."),
        (lambda: cd.PlattScaling().fit(LABELS, SCORES, np.zeros(200)), "At least one sample weight must be positive"),
        (lambda: cd.PlattScaling().fit([0, 1, 1], [0.4, 0.4, 0.4]), "at least 2 distinct scores, all are 0.4"),
        (lambda: cd.PlattScaling().fit(np.zeros(200, int), SCORES), "two classes, got one class in all 200 rows"),
        (
            lambda: cd.PlattScaling().fit(pd.Series(LABELS), pd.Series(SCORES, index=np.arange(200) + 5)),
            "y_true and y_prob are pandas objects with different indexes",
        ),
        (
            lambda: cd.PlattScaling().fit(LABELS, SCORES, by=np.arange(200) % 2).predict_proba(SCORES, by=[0, 1]),
            r"by 'by' expects one value for each of the 200 rows, got an array of shape \(2,\)",
        ),
        (
            lambda: cd.PlattScaling().fit(cd.summarize(*matrix(), settings=["confidence"])),
            "No histogram of the setting classwise is stored",
        ),
        (lambda: cd.PlattScaling(logits=True).fit(cd.summarize(LABELS, SCORES)), "logits has no effect on it"),
        (lambda: cd.PlattScaling(logits=3).fit(LABELS, SCORES), "logits expects True or False, got 3"),
    ],
)
def test_misuse_has_one_sentence(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_no_slice_of_its_own() -> None:
    with pytest.warns(UserWarning, match="200 of 200 slices have fewer than 100 rows"):
        calibrator = cd.PlattScaling().fit(LABELS, SCORES, by=np.arange(200))
    assert (calibrator.coef_ == cd.PlattScaling().fit(LABELS, SCORES).coef_).all()


@pytest.mark.filterwarnings("ignore:.*the map falls as the score rises:UserWarning")
@pytest.mark.parametrize("kind", [cd.PlattScaling, cd.BetaCalibration, cd.QuadraticScaling, cd.SplineCalibration])
def test_clipped_logits_are_said(kind: type[cd.Calibrator]) -> None:
    labels, scores = rows(500)
    assert kind().fit(labels, scores).clipped_ == 0
    scores[:3], scores[3] = 1.0, 0.0
    with pytest.warns(UserWarning, match="scores of exactly 0 or 1, in rows of weight 4, have logits clipped at -708"):
        assert kind().fit(labels, scores).clipped_ == 4


def test_slices_of_another_name_are_refused() -> None:
    labels, scores = rows(400)
    day = np.arange(400) % 2
    fitted = cd.PlattScaling().fit(labels, scores, by={"day": day})
    with pytest.raises(ValueError, match="by expects the slices day, got country"):
        fitted.predict_proba(scores, by={"country": day})
    # An array without a name is the only slice.
    np.testing.assert_array_equal(fitted.predict_proba(scores, by=day), fitted.predict_proba(scores, by={"day": day}))


@pytest.mark.parametrize("chunk", [3, 7, 20])
def test_rows_without_a_score_are_named_whatever_the_chunks(chunk: int) -> None:
    scores = np.linspace(0.1, 0.9, 20)
    calibrator = cd.PlattScaling().fit(np.arange(20) % 2, scores, min_rows=1)
    scores[13] = np.nan
    for rows in (scores, pd.Series(scores), da.from_array(scores, chunks=chunk)):
        with pytest.raises(ValueError, match=r"got 1 invalid value, the first is nan in row 13; remove NaN"):
            np.asarray(calibrator.predict_proba(rows))
