"""Audits of summaries: the numbers of the rows, to the last bit, merged and appended; other cuts are refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.statistics.lattice.segments import Segments, subsets_of
from calibdask.storage.summary import Summary
from tests.auditing.test_audit import FEATURES, table

ROWS = table().drop(columns="weight")


def check_same(result: xr.Dataset, expected: xr.Dataset) -> None:
    """Every bit of every variable and coordinate."""
    assert set(result.variables) == set(expected.variables)
    for name in expected.variables:
        assert result[name].equals(expected[name]), name
    differing = {name for name in expected.attrs if result.attrs.get(name) != expected.attrs[name]}
    assert differing <= {"passes", "analysis"}


@pytest.fixture(scope="module")
def summary() -> xr.Dataset:
    return cd.summarize(ROWS, features=FEATURES)


@pytest.mark.parametrize("given", [{}, {"depth": 3, "values": 3, "min_rows": 20}, {"depth": 1, "score_cells": 9}])
def test_audits_of_a_summary_are_those_of_its_rows(given: dict[str, Any]) -> None:
    expected = cd.audit(ROWS, features=FEATURES, **given)
    own = cd.summarize(ROWS, features=FEATURES, **given)
    check_same(cd.audit(own, min_rows=given.get("min_rows", 100)), expected)


def test_of_confidence_and_with_fewer_features(summary: xr.Dataset) -> None:
    rng = np.random.default_rng(0)
    scores, label = rng.dirichlet(np.ones(3), 2000), rng.integers(0, 3, 2000)
    features = {"half": np.arange(2000) // 1000, "x": rng.normal(size=2000)}
    expected = cd.audit(label, scores, features)
    check_same(cd.audit(cd.summarize(label, scores, features=features)), expected)
    single = cd.audit(summary, depth=1)
    assert single.sizes["segment"] == int((cd.audit(summary).depth <= 1).sum())
    # The metrics of a summary are what they are without features.
    plain = cd.evaluate(cd.summarize(ROWS.label, ROWS.score))
    assert cd.evaluate(summary).equals(plain)


def test_what_is_cut_alike_adds_up(summary: xr.Dataset) -> None:
    first, second = ROWS[:1000], ROWS[1000:].astype({"country": "category"})
    parts = [cd.summarize(part, cuts=summary) for part in (first, second)]
    for merged in (cd.merge(*parts), cd.merge(*reversed(parts))):
        xr.testing.assert_identical(merged.drop_attrs(), summary.drop_attrs())
        check_same(cd.audit(merged), cd.audit(ROWS, features=FEATURES))
    check_same(cd.audit(xr.concat(parts, "part").sum("part", keep_attrs=True)), cd.audit(summary))


def test_rows_unlike_those_that_cuts_were_learnt_from() -> None:
    known = pd.DataFrame({"label": [0, 1] * 200, "score": 0.5, "age": np.arange(400.0), "country": ["be", "fr"] * 200})
    first = cd.summarize(known, features=["age", "country"], values=2)
    later = known.assign(country=["be", None, "lu", "is"] * 100, age=[1e6, np.nan] * 200)
    result = cd.audit(cd.merge(first, cd.summarize(later, cuts=first)), depth=1)
    rows = dict(zip(result.segment.values.tolist(), result.rows.values.tolist(), strict=True))
    assert rows == {
        "all rows": 800,
        "age <= 199": 200,
        "age > 199": 400,
        "age missing": 200,
        "country = be": 300,
        "country = fr": 200,
        "country other": 200,
        "country missing": 100,
    }


def test_periods(tmp_path: Path, summary: xr.Dataset) -> None:
    store = tmp_path / "days.zarr"
    days = {"2026-08-30": ROWS[:900], "2026-08-31": ROWS[900:1500], "2026-12-01": ROWS[1500:]}
    own = {day: cd.summarize(rows, cuts=summary) for day, rows in days.items()}
    for day in reversed(days):
        cd.append(own[day], store, {"day": day})
    check_same(cd.audit(store), cd.audit(summary))
    stored = cd.open_summary(store)
    for day, one in own.items():
        check_same(cd.audit(stored.sel(day=day)), cd.audit(one))
    assert cd.expire(store, "90d") == {"2026-08": ["2026-08-30", "2026-08-31"]}
    check_same(cd.audit(str(store)), cd.audit(summary))
    with pytest.raises(ValueError, match="with the same cuts of features, got age cut at"):
        cd.append(cd.summarize(ROWS[:700], features=FEATURES), store, {"day": "2026-12-02"})
    with pytest.raises(ValueError, match=r"with the same cuts of features, got features .* and none"):
        cd.append(cd.summarize(ROWS.label, ROWS.score), store, {"day": "2026-12-02"})


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, store = tmp_path / "rows.parquet", tmp_path / "summary.zarr"
    ROWS.to_parquet(rows)
    assert main(["summarize", str(rows), "--features", "age,country", "--out", str(store)]) == 0
    again = tmp_path / "again.zarr"
    assert main(["summarize", str(rows), "--cuts", str(store), "--out", str(again)]) == 0
    assert main(["merge", str(store), str(again), "--out", str(tmp_path / "both.nc")]) == 0
    capsys.readouterr()
    assert main(["audit", str(store), "--json"]) == 0
    of_summary = json.loads(capsys.readouterr().out)
    assert main(["audit", str(rows), "--features", "age,country", "--json"]) == 0
    of_rows = json.loads(capsys.readouterr().out)
    assert of_summary == {**of_rows, "passes": 0}
    assert main(["audit", str(tmp_path / "both.nc"), "--min-rows", "5000"]) == 0
    assert "1 subgroup of at least 5,000 rows" in capsys.readouterr().out
    for words in (["--features", "age"], ["--values", "5"], ["--setting", "binary"], ["--skip-missing"]):
        assert main(["audit", str(store), *words]) == 2
        assert "has no effect on" in capsys.readouterr().err


FEATURE = {"x": np.arange(2000) % 7}
BINARY = {"y_true": np.arange(2000) % 2, "y_prob": np.full(2000, 0.5)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"by": {"half": np.arange(2000) // 1000}}, "without by, sample_weight"),
        ({"sample_weight": np.ones(2000)}, "without by, sample_weight"),
        ({"depth": 0}, "depth expects a whole number from 1 on, got 0"),
        ({"values": 1}, "values expects"),
        ({"features": {"x": np.ones(2000)}}, "expects a feature with two different values"),
        ({"cuts": cd.summarize(**BINARY)}, "cuts expects a summary with features, got one without"),
        ({"cuts": cd.summarize(**BINARY, features={"z": FEATURE["x"]})}, "expects the features of the summary, z"),
        (
            {"cuts": cd.summarize(**BINARY, features=FEATURE), "features": {"x": ["a", "b"] * 1000}},
            "expects numbers, as when its cuts were learnt, got texts",
        ),
    ],
)
def test_summaries_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.summarize(**{**BINARY, "features": FEATURE, **given})


@pytest.mark.parametrize(
    "given", [{"features": ["age"]}, {"setting": 1}, {"edges": {}}, {"skip_missing": True}, {"values": 7}]
)
def test_arguments_that_rows_alone_take(summary: xr.Dataset, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(given))} has no effect on a summary"):
        cd.audit(summary, **given)


def test_summaries_that_say_nothing_of_features(summary: xr.Dataset) -> None:
    with pytest.raises(ValueError, match="no features to audit"):
        cd.audit(cd.summarize([0, 1], [0.2, 0.4]))
    with pytest.raises(ValueError, match="up to 2 features, but depth=3"):
        cd.audit(summary, depth=3)
    with pytest.raises(ValueError, match="has lost segment_rows"):
        cd.audit(summary.drop_vars("segment_rows"))
    with pytest.raises(ValueError, match="expects all segments and cells"):
        cd.audit(summary.isel(segment=slice(0, 4)))
    for name, message in {"segment_rows": "rows in all segments", "segment_events": "no more than the rows"}.items():
        with pytest.raises(ValueError, match=message):
            cd.audit(summary.assign({name: summary[name] + 1}))
    with pytest.raises(ValueError, match="segment_cuts of a summary is damaged"):
        cd.audit(summary.assign_coords(segment_cuts="{}"))


def test_the_numbering_is_that_of_the_rows(summary: xr.Dataset) -> None:
    cuts = Summary.of(summary).cuts
    assert cuts is not None
    assert cuts.segments == Segments(tuple(one.size for one in cuts.features), subsets_of(len(cuts.features), 2))
    assert all(len(one.texts) == one.size for one in cuts.features)
    # Rows have no phone that is missing, nor another one; summaries keep room for both.
    assert "phone missing" in cuts.features[2].texts
    assert "phone missing" not in cd.audit(summary, min_rows=1).segment.values.tolist()
