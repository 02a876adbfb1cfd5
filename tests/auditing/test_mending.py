"""Maps mended by segment: the same as by loops, cross-fitted, from any container, stored, and for no other features."""

import json
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

import calibdask as cd
from calibdask.analyses.multicalibration.boosting import Boosting
from calibdask.analyses.multicalibration.segment_map import SegmentMap
from calibdask.statistics.views.folds import fold_numbers
from tests.auditing.multicalibration_loops import mended

Array = NDArray[Any]


def few_scores(n: int = 4000, seed: int = 0) -> pd.DataFrame:
    """Few distinct scores, three features, and two segments that are off."""
    rng = np.random.default_rng(seed)
    score = np.linspace(0.1, 0.8, 12)[rng.integers(0, 12, n)]
    frame = pd.DataFrame({"score": score, "age": rng.integers(18, 90, n).astype(float)})
    frame["country"] = rng.choice(np.array(["be", "fr", "se"], object), n)
    frame["phone"] = rng.random(n) < 0.4
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    z = logit(score)
    z = np.where((frame.age > 50) & frame.phone, z + 1.2, z)
    z = np.where(frame.country == "se", 0.2 * z, z)
    return frame.assign(label=(rng.random(n) < expit(z)).astype(int))


def conditions(frame: pd.DataFrame) -> dict[str, Array]:
    age = ["age missing" if age != age else "age <= 50" if age <= 50 else "age > 50" for age in frame.age]
    texts = {name: np.array([f"{name} = {value}" for value in frame[name]]) for name in ("country", "phone")}
    return {"age": np.array(age), **texts}


FEATURES = ["age", "country", "phone"]
EDGES: dict[str, Any] = {"edges": {"age": [50]}, "min_rows": 50}
AUDITED: dict[str, Any] = {"edges": {"age": [50]}}


def fitted(frame: pd.DataFrame, **options: Any) -> cd.MulticalibratedScaling:
    return cd.MulticalibratedScaling(**EDGES, **options).fit(frame.label, frame.score, features=frame[FEATURES])


def test_every_round_is_that_of_loops() -> None:
    frame = few_scores()
    result = fitted(frame)
    steps = mended(
        frame.label.to_numpy(), frame.score.to_numpy(), conditions(frame), len(result.loss_) - 1, 50, 0.05, 1.0
    )
    assert len(steps) >= 2
    assert [int(number) for number in result.round_] == [r for r, step in enumerate(steps) for _ in step]
    expected = {(r, text): numbers for r, step in enumerate(steps) for text, numbers in step.items()}
    assert {(int(r), text) for r, text in zip(result.round_, result.segments_, strict=True)} == set(expected)
    for r, text, a, b in zip(result.round_, result.segments_, result.offset_, result.slope_, strict=True):
        assert (a, b) == pytest.approx(expected[int(r), text], abs=2e-5)
    z = logit(frame.score.to_numpy())
    texts = conditions(frame)
    for text, a, b in zip(result.segments_, result.offset_, result.slope_, strict=True):
        parts = text.split(", ") if text != "all rows" else []
        here = np.all([np.isin(values, parts) for values in texts.values() if np.isin(values, parts).any()], axis=0)
        z = np.where(here, z + a + b * z, z)
    mapped = result.predict_proba(frame.score, frame[FEATURES])
    np.testing.assert_allclose(mapped[:, 1], expit(z), rtol=1e-12)
    np.testing.assert_allclose(mapped.sum(1), 1)


def test_the_cross_fit_is_that_of_maps_fitted_without_each_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, folds = few_scores(), 3
    maps: dict[Any, SegmentMap] = {}
    improvements = Boosting._improvements

    def recorded(boosting: Boosting, of_places: Any, source: Any) -> Any:
        maps.update(of_places)
        return improvements(boosting, of_places, source)

    monkeypatch.setattr(Boosting, "_improvements", recorded)
    result = fitted(frame, folds=folds)
    y, p, n = frame.label.to_numpy(), frame.score.to_numpy(), len(frame)
    fold = fold_numbers(np.arange(n), folds, 0)
    values = conditions(frame)
    codes = np.stack([np.unique(texts, return_inverse=True)[1] for texts in values.values()]).astype(np.uint8)
    for f in range(folds):
        others = fold != f
        steps = mended(
            y[others],
            p[others],
            {name: texts[others] for name, texts in values.items()},
            len(maps[f].steps),
            50,
            0.05,
            1.0,
        )
        moved = [np.c_[step.offset.values, step.slope.values] for step in maps[f].steps]
        for step, expected in zip(moved, steps, strict=True):
            np.testing.assert_allclose(step[(step != 0).any(1)], list(expected.values()), atol=5e-5)
    losses = np.empty((len(result.loss_), folds, n))
    for rounds in range(len(result.loss_)):
        for f in range(folds):
            q = SegmentMap(maps[f].sizes, maps[f].steps[:rounds])(p, codes)
            losses[rounds, f] = -np.log(np.where(y == 1, q, 1 - q))
    np.testing.assert_allclose(losses[:, fold, np.arange(n)].mean(-1), result.loss_, rtol=1e-12)
    own, other = (losses[-1, (fold + shift) % folds, np.arange(n)] for shift in (0, 1))
    gain = losses[0, 0] - own
    error = np.sqrt(gain.var() / (n - 1) + (folds - 1) / 2 * np.sum((own - other) ** 2) / n**2)
    assert result.improvement_ == pytest.approx(gain.mean(), abs=1e-12)
    reach = stats.t.isf(0.025, n - 1)
    assert result.improvement_ - result.improvement_low_ == pytest.approx(reach * error, rel=1e-9)
    q = maps[None](p, codes)
    of_own_rows = losses[0, 0] + np.log(np.where(y == 1, q, 1 - q))
    high = max(gain.mean() + reach * error, of_own_rows.mean() + reach * np.sqrt(of_own_rows.var() / (n - 1)))
    assert result.improvement_high_ == pytest.approx(high, rel=1e-9)
    assert result.improvement_low_ > 0
    assert result.improvement_pvalue_ < 1e-6
    assert (np.diff(result.loss_) < 0).all()


def test_planted_segments_are_mended_and_nothing_else() -> None:
    frame, fresh = few_scores(100_000), few_scores(10_000, 1)
    result = fitted(frame)
    mapped = result.predict_proba(fresh.score, fresh[FEATURES])[:, 1]
    before = cd.audit(fresh.label, fresh.score, fresh[FEATURES], **AUDITED)
    after = cd.audit(fresh.label, mapped, fresh[FEATURES], **AUDITED)
    assert before.found.sum() > 5
    assert not after.found.any()
    gain = cd.log_loss(fresh.label, fresh.score) - cd.log_loss(fresh.label, mapped)
    assert gain == pytest.approx(result.improvement_, abs=0.006)
    calibrated = frame.assign(label=np.random.default_rng(2).random(len(frame)) < frame.score)
    nothing = fitted(calibrated)
    assert nothing.segments_ == ()
    assert (nothing.improvement_, nothing.improvement_pvalue_) == (0.0, 1.0)
    np.testing.assert_array_equal(nothing.predict_proba(frame.score, frame[FEATURES])[:, 1], frame.score)


def test_rounds_that_do_not_help_rows_left_out_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is off by chance is taken for certain here: the cross-fit sees that it is not."""
    rng = np.random.default_rng(0)
    p, features = rng.random(3000), {f"x{i}": rng.integers(0, 5, 3000) for i in range(4)}
    y = rng.random(3000) < p
    monkeypatch.setattr("calibdask.analyses.multicalibration.choosing.holm", lambda pvalues: 0 * pvalues)
    monkeypatch.setattr("calibdask.analyses.multicalibration.choosing._TESTS", 0.05 / 600)
    result = cd.MulticalibratedScaling(min_rows=20).fit(y, p, features=features)
    assert result.segments_ == ()
    assert len(result.loss_) == 1


def test_containers_and_chunks_change_nothing(tmp_path: Path) -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame = few_scores(3000)
    expected = fitted(frame)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    new = cd.MulticalibratedScaling(**EDGES)
    lazy = {name: da.from_array(frame[name].to_numpy(), chunks=800) for name in ("label", "score", *FEATURES)}
    partitioned = dd.from_pandas(frame, npartitions=4)
    both = np.stack([1 - frame.score, frame.score], 1)
    ways = [
        lambda: new.fit(frame, features=FEATURES),
        lambda: new.fit(frame[["label", "score", *FEATURES]]),
        lambda: new.fit(str(tmp_path / "rows.parquet"), features=FEATURES),
        lambda: new.fit(lazy["label"], lazy["score"], features={name: lazy[name] for name in FEATURES}),
        lambda: new.fit(partitioned, features=FEATURES),
        lambda: new.fit(frame.label, both, features=frame[FEATURES].astype({"country": "category"})),
    ]
    for way in ways:
        result = way()
        assert result.segments_ == expected.segments_
        for name in ("offset_", "slope_", "loss_", "improvement_", "improvement_high_"):
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
    mapped = expected.predict_proba(frame.score, frame[FEATURES])
    labels = ["se", "xx", "fr", "be"]
    other = frame[FEATURES].assign(country=pd.Categorical(frame.country, categories=labels))
    given = xr.DataArray(frame.score.to_numpy(), dims="sample", coords={"sample": np.arange(3000)})
    lazily = expected.predict_proba(lazy["score"], {name: lazy[name] for name in FEATURES})
    assert isinstance(lazily, da.Array)
    for probabilities in (
        lazily.compute(scheduler="synchronous"),
        expected.predict_proba(lazy["score"], frame[FEATURES]).compute(scheduler="synchronous"),
        expected.predict_proba(partitioned.score, partitioned[FEATURES]).compute(scheduler="synchronous"),
        expected.predict_proba(frame.score, other),
        expected.predict_proba(given, {name: frame[name].to_numpy() for name in FEATURES}).values,
        result.predict_proba(both, frame[FEATURES]),
        np.concatenate([expected.predict_proba(frame.score[i::7], frame[FEATURES][i::7]) for i in range(7)])[
            np.argsort(np.concatenate([np.arange(3000)[i::7] for i in range(7)]))
        ],
    ):
        np.testing.assert_array_equal(probabilities, mapped)
    assert (expected.predict(frame.score, frame[FEATURES]) == (mapped[:, 1] > 0.5)).all()


def test_stored_maps_and_values_that_were_not_there() -> None:
    frame = few_scores(3000)
    frame["since"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(3000) % 700, unit="D")
    frame["member"] = frame.country == "be"
    names = [*FEATURES, "since", "member"]
    result = cd.MulticalibratedScaling(**EDGES).fit(frame.label, frame.score, features=frame[names])
    stored = json.loads(json.dumps(result.to_dict()))
    again = cd.Calibrator.from_dict(stored)
    assert isinstance(again, cd.MulticalibratedScaling)
    np.testing.assert_array_equal(
        again.predict_proba(frame.score, frame[names]), result.predict_proba(frame.score, frame[names])
    )
    assert again.segments_ == result.segments_
    assert (again.improvement_, again.feature_columns_) == (result.improvement_, tuple(names))
    assert again.to_dict() == result.to_dict()
    changed = json.loads(json.dumps(stored))
    changed["features"]["codings"][0]["edges"] = [40.0]
    with pytest.raises(ValueError, match="checksum does not match"):
        cd.Calibrator.from_dict(changed)
    del changed["features"], changed["checksum"]
    with pytest.raises(ValueError, match="its features are damaged"):
        cd.Calibrator.from_dict(changed | {"format": 1})
    # Ages of no row are of no segment of ages; a country that nobody has seen neither.
    alone = fitted(frame[frame.age.notna()])
    countries = np.array(["fr", "fr", "xx", "xx"], object)
    rows = {"age": np.array([70.0, np.nan, 70.0, np.nan]), "country": countries, "phone": np.full(4, True)}
    with pytest.warns(UserWarning, match="3 of 4 rows have values of age, country that are unknown to the map"):
        mapped = alone.predict_proba(np.full(4, 0.4), rows)[:, 1]
    of = {text: (a, b) for text, a, b in zip(alone.segments_, alone.offset_, alone.slope_, strict=True)}
    z, old = logit(0.4), of["age > 50, phone = True"]
    french = z + of["country = fr, phone = True"][0] + of["country = fr, phone = True"][1] * z
    expected = [french + old[0] + old[1] * french, french, z + old[0] + old[1] * z]
    np.testing.assert_allclose(logit(mapped[:3]), expected)
    assert mapped[3] == 0.4
    empty = {
        "age": np.array([None, None], object),
        "country": np.array(["be", "be"], object),
        "phone": np.full(2, False),
    }
    with pytest.warns(UserWarning, match="2 of 2 rows have values of age that are unknown to the map"):
        assert alone.predict_proba(np.full(2, 0.4), empty).shape == (2, 2)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            None,
            r"features expects the features that the map was fitted with, age, country, phone; age, .* phone are not "
            r"there",
        ),
        ({"age": [1.0]}, "country, phone are not there"),
        ({"age": [1.0], "country": ["be"], "phone": [True], "city": ["x"]}, "city was not among them"),
        (
            {"age": ["old"], "country": ["be"], "phone": [True]},
            "Feature 'age' expects numbers, as when the map was fitted, got texts",
        ),
        ({"age": [1.0], "country": [3], "phone": [True]}, "Feature 'country' expects categories, .* got numbers"),
        ({"age": [1.0, 2.0], "country": ["be", "be"], "phone": [True, True]}, "one value for each of the 1 rows"),
        (["age", "country"], "got names"),
    ],
)
def test_other_features_are_refused(features: Any, message: str) -> None:
    given = {name: np.array(v) for name, v in features.items()} if isinstance(features, dict) else features
    with pytest.raises(ValueError, match=message):
        fitted(few_scores(1000)).predict_proba([0.5], given)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"depth": 0}, "depth expects a whole number from 1"),
        ({"rounds": 0.5}, "rounds expects a whole number from 1"),
        ({"shrinkage": -1}, "shrinkage expects a number from 0"),
        ({"folds": 1}, "folds expects"),
        ({"alpha": 1.5}, "alpha expects"),
        ({"values": 1}, "values expects"),
    ],
)
def test_bad_parameters_are_said(parameters: dict[str, Any], message: str) -> None:
    frame = few_scores(500)
    with pytest.raises(ValueError, match=message):
        cd.MulticalibratedScaling(**parameters).fit(frame.label, frame.score, features=frame[["age"]])


def test_other_data_are_refused() -> None:
    frame = few_scores(500)
    new = cd.MulticalibratedScaling()
    with pytest.raises(ValueError, match="features expects a data frame"):
        new.fit(frame.label, frame.score)
    with pytest.raises(ValueError, match=r"scores of one model of two classes, .* got 3 classes"):
        new.fit(frame.label, np.full((500, 3), 1 / 3), features=frame[["age"]])
    with (
        pytest.warns(UserWarning, match="has the same value in all rows"),
        pytest.raises(ValueError, match="two different values"),
    ):
        new.fit(frame.label, frame.score, features={"x": np.ones(500)})
    with pytest.raises(ValueError, match=r"needs features: fit\(y_true, y_prob, features=...\)"):
        cd.compare_calibrators(frame.label, frame.score, [new])


def test_weights_of_one_and_logits_are_the_rows() -> None:
    frame = few_scores(3000)
    expected = fitted(frame)
    weighted = cd.MulticalibratedScaling(**EDGES).fit(frame.label, frame.score, np.ones(3000), features=frame[FEATURES])
    of_logits = cd.MulticalibratedScaling(**EDGES, logits=True).fit(
        frame.label, logit(frame.score), features=frame[FEATURES]
    )
    for result in (weighted, of_logits):
        assert result.segments_ == expected.segments_
        np.testing.assert_allclose(result.offset_, expected.offset_, atol=1e-6)
        assert result.improvement_ == pytest.approx(expected.improvement_, abs=1e-9)
    np.testing.assert_allclose(
        of_logits.predict_proba(logit(frame.score), frame[FEATURES]),
        expected.predict_proba(frame.score, frame[FEATURES]),
        atol=1e-6,
    )
