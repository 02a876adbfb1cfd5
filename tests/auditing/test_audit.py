"""Audits: every number by loops over rows, the same from any container, and what is found."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.typing import NDArray

import calibdask as cd
from calibdask.cli import main
from calibdask.statistics.lattice import value_counts
from tests.auditing.loops import (
    adjusted,
    discoveries,
    ece_of_chance,
    evidence,
    exact_tail,
    numbers,
    segment_rows,
    slope,
)
from tests.equality import same_results

ROWS = 3000


def table(n: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Scores with ties, weights, and features of all kinds with missing values."""
    rng = np.random.default_rng(seed)
    score = rng.beta(0.6, 2.0, n).round(2)
    frame = pd.DataFrame({"label": (rng.random(n) < score).astype(int), "score": score})
    frame["age"] = np.where(rng.random(n) < 0.1, np.nan, rng.integers(18, 90, n))
    frame["country"] = rng.choice(np.array(["be", "fr", "se", None], object), n, p=[0.5, 0.3, 0.1, 0.1])
    frame["phone"] = rng.random(n) < 0.3
    frame["since"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 3 * 365, n), unit="D")
    frame["weight"] = rng.integers(0, 4, n) * 0.5
    return frame


FEATURES = ["age", "country", "phone", "since"]


def conditions(frame: pd.DataFrame) -> dict[str, list[str]]:
    """The text of the value of each feature in each row."""
    months = frame.since.dt.month
    year = ["since.year <= 2024" if y == 2024 else f"since.year > {2024}" for y in frame.since.dt.year]
    return {
        "age": ["age missing" if age != age else "age <= 50" if age <= 50 else "age > 50" for age in frame.age],
        "country": ["country missing" if pd.isna(c) else f"country = {c}" for c in frame.country],
        "phone": [f"phone = {phone}" for phone in frame.phone],
        "since.year": year,
        "since.month": ["since.month <= 6" if month <= 6 else "since.month > 6" for month in months],
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_every_number_is_that_of_a_loop_over_rows(weighted: bool) -> None:
    frame = table(1200)
    # Something to find: outcomes that scores do not know of, of old people and of those without a country.
    off = np.random.default_rng(7).random(len(frame)) < np.where(frame.age > 50, 0.25, 0.5 * frame.country.isna())
    frame["label"] |= off & frame.phone
    # Whole numbers are as rows that are repeated: with so many cells no two scores share one.
    frame["weight"] *= 2
    weight = frame.weight.to_numpy() if weighted else np.ones(len(frame))
    # Edges in place of quantiles, so that loops need not find them; more cells than distinct scores.
    result = cd.audit(
        frame if weighted else frame.drop(columns="weight"),
        features=["age", "country", "phone"],
        depth=3,
        min_rows=5,
        edges={"age": [50]},
        score_cells=6000,
        values=4,
        sample_weight="weight" if weighted else None,
    )
    texts = {name: texts for name, texts in conditions(frame).items() if not name.startswith("since")}
    kept = np.flatnonzero(weight > 0)
    expected = segment_rows({name: [values[i] for i in kept] for name, values in texts.items()}, 3)
    expected = {text: rows for text, rows in expected.items() if len(rows) >= 5}
    assert set(result.segment.values.tolist()) == set(expected)
    cells = np.unique(frame.score, return_inverse=True)[1]
    by_segment = {}
    for text, rows in expected.items():
        at = kept[rows]
        y, p, w, cell = (array[at] for array in (frame.label.to_numpy(), frame.score.to_numpy(), weight, cells))
        by_segment[text] = numbers(y.tolist(), p.tolist(), w.tolist(), cell.tolist())
        by_segment[text] |= evidence(y, p, w, weight.max(), weighted=weighted)
        by_segment[text]["ece_chance"] = ece_of_chance(p, w, cell)
        here = result.sel(segment=text)
        for name, value in by_segment[text].items():
            assert float(here[name]) == pytest.approx(value, rel=1e-8, abs=1e-9), (text, name)
        # Outcomes of fewer rows may be separated by a threshold.
        if len(rows) >= 100:
            assert float(here.slope) == pytest.approx(slope(y, p, w), abs=1e-5), text
    chances = adjusted({text: found["pvalue"] for text, found in by_segment.items()})
    for text, chance in chances.items():
        assert float(result.pvalue_adjusted.sel(segment=text)) == pytest.approx(chance, rel=1e-7)
    found = {text for text, chance in chances.items() if chance <= 0.05}
    assert 2 <= len(found) < len(expected)
    assert set(result.segment[result.found].values.tolist()) == found
    discovered = discoveries({text: segment["log_e"] for text, segment in by_segment.items()}, 0.05)
    assert set(result.segment[result.discovery].values.tolist()) == discovered


def test_all_rows_have_the_numbers_of_the_metrics() -> None:
    frame = table()
    metrics = {"ece": cd.ECE(bins=64, binning="equal-mass"), "ecce": cd.ECCE(kind="range"), "gap": cd.MeanGap()}
    expected = cd.evaluate(frame.label, frame.score, metrics)
    result = cd.audit(frame.label, frame.score, frame[["phone"]]).sel(segment="all rows")
    exact = cd.audit(frame.label, frame.score, frame[["phone"]], score_cells=30_000).sel(segment="all rows")
    assert float(result.ece) == pytest.approx(float(expected.ece), abs=1e-12)
    assert float(result.gap) == pytest.approx(float(expected.gap), abs=1e-12)
    assert float(exact.ecce) == pytest.approx(float(expected.ecce), abs=1e-12)
    assert float(result.ecce) <= float(exact.ecce) + 1e-12


def test_cuts_are_order_statistics_and_rare_values_are_pooled() -> None:
    frame = table()
    result = cd.audit(frame.label, frame.score, frame[FEATURES], depth=1, values=3, min_rows=1)
    present = np.sort(frame.age.dropna())
    low, high = (int(present[-(-len(present) * i // 3) - 1]) for i in (1, 2))
    texts = result.sortby("number").segment.values.tolist()
    assert texts[1:5] == [f"age <= {low}", f"{low} < age <= {high}", f"age > {high}", "age missing"]
    assert texts[5:9] == ["country = be", "country = fr", "country = se", "country missing"]
    assert int(result.rows.sel(segment=f"age <= {low}")) == int((frame.age <= low).sum())
    assert {"since.year", "since.month", "since.weekday"} < set(result["features"].values.tolist())
    by_weekday = frame.since.dt.isocalendar().day
    for text, rows in zip(texts, result.sortby("number").rows.values.tolist(), strict=True):
        if "< since.weekday <=" in text:
            first, last = (int(word) for word in (text.split()[0], text.split()[-1]))
            assert rows == int(((by_weekday > first) & (by_weekday <= last)).sum())
    pooled = cd.audit(frame.label, frame.score, frame[["country"]], depth=1, values=2)
    assert set(pooled.segment.values.tolist()) == {"all rows", "country = be", "country other", "country missing"}


def ways(frame: pd.DataFrame, folder: Path) -> dict[str, dict[str, Any]]:
    """The arguments of the same audit for rows in different containers."""
    dd = pytest.importorskip("dask.dataframe")
    import dask.array as da
    import zarr

    plain = frame.astype({"country": object})
    plain.to_parquet(folder / "rows.parquet", row_group_size=700)
    plain.to_csv(folder / "rows.csv", index=False)
    arrays = {name: plain[name].to_numpy() for name in ("label", "score", "age", "phone")}
    arrays["since"] = plain.since.to_numpy().astype("M8[s]")
    names = {"label": "labels", "score": "scores"}
    np.savez(folder / "rows.npz", **{names.get(name, name): array for name, array in arrays.items()})
    group = zarr.open_group(folder / "rows.zarr", mode="w")
    for name in ("label", "score", "age", "phone"):
        group.create_array(names.get(name, name), data=arrays[name], chunks=(900,))
    chunks = (1000, 500, 1500)
    lazy = {name: da.from_array(plain[name].to_numpy(), chunks=(chunks,)) for name in ("label", "score", *FEATURES)}
    return {
        "frame": {"y_true": frame},
        "table": {"y_true": frame.label, "y_prob": frame.score, "table": frame},
        "categories": {"y_true": frame.astype({"country": "category"})},
        "parquet": {"y_true": str(folder / "rows.parquet")},
        "csv": {"y_true": str(folder / "rows.csv")},
        "npz": {"y_true": str(folder / "rows.npz")},
        "zarr": {"y_true": str(folder / "rows.zarr")},
        "dask frame": {"y_true": dd.from_pandas(plain, npartitions=4)},
        "dask": {"y_true": lazy["label"], "y_prob": lazy["score"], "table": lazy},
    }


def test_containers_and_chunks_change_nothing(tmp_path: Path) -> None:
    frame = table().drop(columns="weight")
    # Files of text hold no dates, and arrays no missing texts.
    left_out = {"csv": {"since"}, "npz": {"country"}, "zarr": {"country", "since"}}
    for name, way in ways(frame, tmp_path).items():
        chosen = [feature for feature in FEATURES if feature not in left_out.get(name, ())]
        expected = cd.audit(frame.label, frame.score, frame[chosen], min_rows=50)
        given = way.pop("table", None)
        features = chosen if given is None else {feature: given[feature] for feature in chosen}
        result = cd.audit(features=features, min_rows=50, **way)
        same_results(result, expected, weighted=False)
        assert result.attrs["conclusion"] == expected.attrs["conclusion"], name


def test_a_lattice_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table()
    whole = cd.audit(frame.label, frame.score, frame[FEATURES], depth=3)
    monkeypatch.setattr("calibdask.analyses.auditing.planning._PART_BYTES", 1 << 18)
    parts = cd.audit(frame.label, frame.score, frame[FEATURES], depth=3, score_cells=16)
    same_results(parts, whole, weighted=False)
    assert parts.attrs["passes"] > whole.attrs["passes"]
    monkeypatch.setattr("calibdask.analyses.auditing.planning._PART_BYTES", 1 << 11)
    with pytest.raises(ValueError, match=r"feasible: .*depth=1 \(\d+ segments\)"):
        cd.audit(frame.label, frame.score, frame[FEATURES], depth=3, score_cells=16)


def planted(n: int, seed: int, shift: float) -> tuple[NDArray[np.bool_], NDArray[np.float64], dict[str, Any]]:
    """A model that is off for one value of each of two features: a segment of about a hundredth of the rows."""
    rng = np.random.default_rng(seed)
    features = {f"x{i}": rng.integers(0, 10, n) for i in range(6)}
    score = rng.beta(2, 5, n)
    truth = np.clip(score + shift * ((features["x1"] == 3) & (features["x4"] == 7)), 0, 1)
    return rng.random(n) < truth, score, features


def test_a_planted_segment_is_found_and_described_alone() -> None:
    y, p, features = planted(200_000, 1, 0.15)
    result = cd.audit(y, p, features, values=10)
    assert result.segment[result.described].values.tolist() == ["x1 = 3, x4 = 7"]
    assert result.segment.values[0] == "x1 = 3, x4 = 7"
    assert abs(float(result.gap[0]) - 0.15) < 0.04
    assert bool(result.discovery[0])
    assert "1 subgroup is off" in result.attrs["conclusion"]
    everywhere = cd.audit(np.random.default_rng(0).random(p.size) < p + 0.04, p, features)
    assert everywhere.segment[everywhere.described].values.tolist() == ["all rows"]


def test_calibrated_models_are_left_alone() -> None:
    """Rare outcomes and small segments: the familywise level of 5 % holds; of 40 models hardly any has a segment."""
    found = discovered = 0
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        p = rng.beta(0.3, 10, 3000)
        base = rng.normal(size=3000)
        features = {f"x{i}": base + rng.normal(size=3000) for i in range(6)}
        result = cd.audit(rng.random(3000) < p, p, features, min_rows=30)
        found += bool(result.found.any())
        discovered += bool(result.discovery.any())
    # With a chance of 5 % each more than 7 of 40 happen once in a thousand times.
    assert found <= 7
    assert discovered <= 7


def test_pvalues_bound_the_exact_tail_and_are_not_far_from_it() -> None:
    rng = np.random.default_rng(3)
    p = rng.beta(0.5, 3, 2000).round(3)
    group = rng.integers(0, 12, 2000).astype(str).astype(object)
    y = rng.random(2000) < np.clip(p * rng.choice([0.5, 1.0, 1.8], 12)[group.astype(int)], 0, 1)
    result = cd.audit(y, p, {"g": group}, values=12, depth=1, score_cells=2000)
    for text in result.segment.values.tolist()[:-1]:
        here = group == text.removeprefix("g = ") if text != "all rows" else np.full(2000, True)
        exact = exact_tail(p[here].tolist(), int(y[here].sum()))
        bound = float(result.pvalue.sel(segment=text))
        assert exact * (1 - 1e-6) <= bound or exact < 1e-12
        assert bound <= max(12 * exact, 1e-12) or bound == 1


def test_slopes_where_outcomes_contradict_scores_of_0() -> None:
    """From the line of calibrated scores Newton's method does not arrive."""
    rng = np.random.default_rng(6)
    p = rng.beta(0.6, 2.0, 2000).round(2)
    y = (rng.random(2000) < p) | (rng.random(2000) < 0.2)
    result = cd.audit(y, p, {"g": rng.random(2000) < 0.5}, depth=1, score_cells=4000).sel(segment="all rows")
    assert float(result.slope) == pytest.approx(slope(y, p, np.ones(2000)), abs=1e-5)


def test_small_data_say_nothing() -> None:
    frame = table(80)
    few = cd.audit(frame.label, frame.score, frame[["phone"]])
    assert few.sizes["segment"] == 0
    assert few.attrs["conclusion"] == "No subgroup has 100 rows: undecided."
    more = table(150)
    assert "little power" in cd.audit(more.label, more.score, more[["phone"]]).attrs["conclusion"]
    rng = np.random.default_rng(0)
    p = rng.random(50_000)
    many = cd.audit(rng.random(50_000) < p, p, {"x": rng.random(50_000)})
    assert many.attrs["conclusion"].startswith("No subgroup of at least")
    excluded = json.loads(many.attrs["not_excluded"])
    assert list(excluded) == ["100", "1000", "10000"]
    assert excluded["100"] >= excluded["10000"] > 0


BAD: dict[str, tuple[Any, str]] = {
    "constant": (np.ones(500), "has the same value in all rows"),
    "empty": (np.full(500, np.nan), "has no values: all 500 rows are missing"),
    "no text": (np.full(500, None, object), "has no values: all 500 rows are missing"),
    "identifier": (np.array([f"user {i}" for i in range(500)], object), "has 500 different values, each in fewer"),
}


@pytest.mark.parametrize("name", BAD)
def test_features_that_tell_nothing_are_left_out_with_a_word(name: str) -> None:
    values, message = BAD[name]
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = rng.random(500) < p
    with pytest.warns(UserWarning, match=f"{message}.*: it defines no subgroup, and is ignored"):
        result = cd.audit(y, p, {name: values, "x": rng.random(500)})
    assert not any(name in text for text in result.segment.values)
    with pytest.raises(ValueError, match=f"two different values, got none: .*{message}"):
        cd.audit(y, p, {name: values})


@pytest.mark.parametrize("weighted", [False, True])
def test_wide_tables_of_many_rows_add_up_to_the_numbers_of_narrow_ones(weighted: bool) -> None:
    import dask.array as da

    rng = np.random.default_rng(1)
    rows = 70_000
    features = {f"x{number}": rng.integers(0, size, rows) for number, size in enumerate((2, 5, 3, 4))}
    columns = {"score": rng.random(rows), "weight": rng.integers(0, 3, rows) * 0.5, **features}
    columns["label"] = rng.random(rows) < columns["score"]
    lazy = {name: da.from_array(values, chunks=9000) for name, values in columns.items()}
    one, many = (
        cd.audit(
            given["label"],
            given["score"],
            {name: given[name] for name in features},
            depth=3,
            min_rows=1,
            sample_weight=given["weight"] if weighted else None,
        )
        for given in (columns, lazy)
    )
    same_results(one.sortby("number"), many.sortby("number"), weighted=weighted)
    counts = (
        pd.Series(columns["weight"] > 0 if weighted else columns["weight"] >= 0)
        .groupby(list(features.values())[1:4])
        .sum()
    )
    # Groups by three columns follow each other, value by value.
    there = one.isel(segment=one["features"].values == "x1, x2, x3").sortby("number")
    assert there.rows.values.tolist() == counts.tolist()


def test_identifiers_are_left_out_without_keeping_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    import dask.array as da

    monkeypatch.setattr(value_counts, "MOST_TEXTS", 300)
    rng = np.random.default_rng(0)
    p = rng.random(500)
    # No block has too many values, both together do.
    chunks = ((200, 300),)
    names = da.from_array(np.array([f"user {i}" for i in range(500)], object), chunks=chunks)
    y, scores, x = (da.from_array(array, chunks=chunks) for array in (rng.random(500) < p, p, rng.random(500)))
    with pytest.warns(UserWarning, match="Feature name has more than .* and seems to be an identifier"):
        result = cd.audit(y, scores, {"name": names, "x": x}, min_rows=1)
    assert not any("name" in text for text in result.segment.values)
    with pytest.raises(ValueError, match=r"got none: .*seems to be an identifier"):
        cd.audit(y, scores, {"name": names}, min_rows=1)


def test_the_label_and_mixed_types_are_named() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = rng.random(500) < p
    with pytest.warns(UserWarning, match="Feature copy determines the outcome"):
        cd.audit(y, p, {"copy": y})
    mixed = np.array(["a", 1, 2.5, None] * 125, object)
    with pytest.warns(UserWarning, match="mixes texts with other values"):
        result = cd.audit(y, p, {"mixed": mixed}, depth=1)
    assert set(result.segment.values.tolist()) == {"all rows", "mixed = 1", "mixed = 2.5", "mixed = a", "mixed missing"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": None}, "features expects a data frame"),
        ({"features": {"x": np.ones(3)}}, "x.*expects one value for each|equally many rows"),
        ({"features": {"x": np.ones((500, 2))}}, "one value for each of the 500 rows"),
        ({"depth": 0}, "depth expects a whole number from 1"),
        ({"depth": 10**20}, "depth expects a whole number up to 1,000,000,000,000"),
        ({"values": 1}, "values expects a whole number from 2"),
        ({"alpha": 2}, "alpha expects"),
        ({"setting": "classwise"}, "one column of scores"),
        ({"features": ["x"]}, "expects names of columns, x, together with the frame .* got arrays"),
    ],
)
def test_bad_use_is_said(options: dict[str, Any], message: str) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(500)
    given: dict[str, Any] = {"features": {"x": p}} | options
    with pytest.raises(ValueError, match=message):
        cd.audit(rng.random(500) < p, p, **given)


def test_at_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    y, p, features = planted(20_000, 2, 0.4)
    frame = pd.DataFrame({"label": y.astype(int), "score": p, **features})
    frame.to_parquet(tmp_path / "off.parquet")
    command = ["audit", str(tmp_path / "off.parquet"), "--features"]
    assert main([*command, "x1,x4", "--values", "10", "--out", str(tmp_path / "off.nc")]) == 1
    printed = capsys.readouterr().out
    assert "x1 = 3, x4 = 7" in printed
    assert "Errors that cannot be ruled out" in printed
    stored = xr.open_dataset(tmp_path / "off.nc")
    assert stored.segment.values[0] == "x1 = 3, x4 = 7"
    assert main([*command, "all", "--values", "10", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["found"][0]["features"] == ["x1", "x4"]
    assert document["not_excluded"].keys() == {"100", "1000", "10000"}
    frame["label"] = (np.random.default_rng(0).random(len(frame)) < p).astype(int)
    frame.to_parquet(tmp_path / "right.parquet")
    assert main(["audit", str(tmp_path / "right.parquet"), "--features", "x1", "--features", "x2", "--one-way"]) == 0
    assert "x1 <= " in capsys.readouterr().out
    assert main([*command, "x9"]) == 2
    assert "x9" in capsys.readouterr().err
