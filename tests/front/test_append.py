"""Adding periods to stored summaries: what is read is what one pass gives; what does not fit is refused."""

import json
import pickle
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.storage import period_labels, period_store
from calibdask.storage.location import Location
from calibdask.storage.period_log import PeriodLog
from calibdask.storage.writers import write_dataset

ROWS = 400
RNG = np.random.default_rng(11)
SCORES = RNG.dirichlet([0.5, 1.0, 2.0], ROWS)
LABELS = RNG.integers(0, 3, ROWS)
DAY = np.array(["2026-08-30", "2026-08-31", "2026-09-01", "2026-11-30"])[np.arange(ROWS) % 4]
# A country that comes later, and one that goes.
COUNTRY = np.where(DAY > "2026-09", "de", np.where(RNG.random(ROWS) < 0.5, "fr", "de"))
COUNTRY = np.where((DAY == "2026-11-30") & (RNG.random(ROWS) < 0.5), "at", COUNTRY)
STEP = 0.003


def summary(rows: Any = slice(None), **options: Any) -> xr.Dataset:
    chosen = {"by": {"country": COUNTRY[rows]}, "step": STEP, "settings": ["confidence", "classwise"]} | options
    return cd.summarize(LABELS[rows], SCORES[rows], **chosen)


WHOLE = summary(by={"day": DAY, "country": COUNTRY})


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that no test changes."""
    store = tmp_path_factory.mktemp("kept") / "store.zarr"
    for day in ("2026-11-30", "2026-08-31", "2026-08-30", "2026-09-01"):
        cd.append(summary(day == DAY), store, {"day": day})
    return store


@pytest.fixture
def store(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "store.zarr"))


def records(store: Path) -> int:
    return PeriodLog.read(Location.parse(str(store))).number


def test_days_in_any_order_are_one_summary(kept: Path) -> None:
    opened = cd.open_summary(kept)
    assert {type(variable.data).__name__ for name, variable in opened.items() if "_count" in str(name)} == {"Array"}
    xr.testing.assert_identical(opened.load().drop_attrs(), WHOLE.drop_attrs())
    by_day = [cd.evaluate(given.sum("country"), metrics=cd.ECE()).ece for given in (cd.open_summary(kept), WHOLE)]
    xr.testing.assert_identical(*by_day)
    pooled = [
        cd.evaluate(given.sum(["country", "day"]), metrics=cd.BrierScore()) for given in (cd.open_summary(kept), WHOLE)
    ]
    xr.testing.assert_equal(*pooled)


def test_parts_are_read(kept: Path) -> None:
    opened = cd.open_summary(kept)
    for at in ({"day": [1, 3], "country": [2, 0]}, {"day": 2, "country": slice(1, 3)}, {"country": 0, "class": [1]}):
        xr.testing.assert_identical(opened.isel(at).load().drop_attrs(), WHOLE.isel(at).drop_attrs())
    # As workers of a cluster get them.
    sent = pickle.loads(pickle.dumps(opened))
    xr.testing.assert_identical(sent.load().drop_attrs(), WHOLE.drop_attrs())


def test_several_periods_models_and_weights_at_once(tmp_path: Path) -> None:
    scores = xr.DataArray(np.stack([SCORES, SCORES[:, ::-1]]), dims=("model", "sample", "class"))
    weights = xr.DataArray(RNG.random(ROWS), dims="sample")
    models = cd.summarize(
        xr.DataArray(LABELS, dims="sample"),
        scores.assign_coords(model=["a", "b"]),
        by={"country": COUNTRY, "device": np.arange(ROWS) % 2, "day": DAY},
        sample_weight=weights,
        step=STEP,
    )
    cd.append(models.isel(day=[0, 3]), tmp_path / "store.zarr", "day")
    cd.append(models.isel(day=[2, 1]), tmp_path / "store.zarr", "day")
    assert records(tmp_path / "store.zarr") == 2
    opened = cd.open_summary(tmp_path / "store.zarr").load()
    assert opened.rows.dims == ("model", "day", "country", "device")
    for name, variable in models.data_vars.items():
        np.testing.assert_array_equal(opened[name].transpose(*variable.dims).values, variable.values)


@pytest.mark.parametrize(
    ("labels", "stored"),
    [
        ([np.datetime64("2026-11-22"), date(2026, 11, 21)], ["2026-11-21", "2026-11-22"]),
        ([pd.Timestamp("2026-11-22T13:00"), "2026-11-21"], ["2026-11-21", "2026-11-22T13:00:00"]),
        ([10, np.int64(9)], [9, 10]),
    ],
)
def test_labels_are_dates_texts_or_whole_numbers(labels: list[Any], stored: list[Any], tmp_path: Path) -> None:
    for label in labels:
        cd.append(summary(slice(0, 50)), tmp_path / "store.zarr", {"day": label})
    assert cd.open_summary(tmp_path / "store.zarr").day.values.tolist() == stored


def test_slices_of_all_kinds(tmp_path: Path) -> None:
    kinds = {
        "number": [np.array([1.0, np.nan]), np.array([2, 3])],
        "moment": [np.array(["2026-01-02", "NaT"], "M8[s]"), np.array(["2026-01-01", "2026-01-02"], "M8[ns]")],
        "flag": [np.array([True, False]), np.array([True, True])],
        "lag": [np.array([1, 2], "m8[s]"), np.array([2, 3], "m8[s]")],
    }
    for name, (one, other) in kinds.items():
        parts = [summary(slice(0, 50), by={name: np.resize(labels, 50)}) for labels in (one, other)]
        for number, part in enumerate(parts):
            cd.append(part, tmp_path / f"{name}.zarr", {"day": number})
        expected = cd.merge(*(part.expand_dims(day=[n]).assign(part[TOTALS]) for n, part in enumerate(parts)))
        xr.testing.assert_equal(cd.open_summary(tmp_path / f"{name}.zarr").load(), expected)


def test_slices_are_told_apart_to_the_last_character(tmp_path: Path) -> None:
    """NumPy's texts of fixed width drop NUL at their end."""
    texts = np.array(["a", "a\0", "a\0b"] * 50, object)
    whole = summary(slice(0, 150), by={"country": texts})
    assert whole.country.values.tolist() == ["a", "a\0", "a\0b"]
    for number, label in enumerate(["a", "a\0", "a\0b"]):
        # NumPy's comparison would find "a\0" equal to "a".
        chosen = [position for position, text in enumerate(texts.tolist()) if text == label]
        part = summary(np.array(chosen), by={"country": texts[chosen]})
        cd.append(part, tmp_path / "days.zarr", {"day": number})
    write_dataset(whole, tmp_path / "whole.zarr")
    for opened in (cd.open_summary(tmp_path / "days.zarr").load(), cd.open_summary(tmp_path / "whole.zarr").load()):
        assert opened.country.values.tolist() == ["a", "a\0", "a\0b"]
        pooled = opened.sum("day") if "day" in opened.dims else opened
        np.testing.assert_array_equal(pooled.confidence_count, whole.confidence_count)
    watched = cd.watch(cd.open_summary(tmp_path / "days.zarr").load(), by="country", setting="confidence")
    again = cd.watch(cd.open_summary(tmp_path / "days.zarr"), by="country", setting="confidence", state=watched.state)
    assert again.country.values.tolist() == ["a", "a\0", "a\0b"]
    with pytest.raises(ValueError, match="netCDF cannot hold the labels of country: one contains the character NUL"):
        write_dataset(whole, tmp_path / "whole.nc")


TOTALS = ["total_rows", "total_parts", "total_models"]


def test_replaced_with_a_reason(store: Path) -> None:
    corrected = summary((DAY == "2026-08-31") & (COUNTRY == "fr"))
    cd.append(corrected, store, {"day": "2026-08-31"}, replace="labels of Germany were wrong")
    opened = cd.open_summary(store)
    assert int(opened.rows.sel(day="2026-08-31").sum()) == int(corrected.rows.sum())
    (told,) = json.loads(opened.attrs["history"])
    assert (told["action"], told["reason"]) == ("replace", "labels of Germany were wrong")
    assert (told["removed"], told["added"]) == (["2026-08-31"], ["2026-08-31"])
    assert abs(pd.Timestamp.now("UTC") - pd.Timestamp(told["date"])) < pd.Timedelta("1h")


def test_old_days_expire_into_months(store: Path) -> None:
    assert cd.expire(store, "60d", "month") == {
        "2026-08": ["2026-08-30", "2026-08-31"],
        "2026-09": ["2026-09-01"],
    }
    opened = cd.open_summary(store)
    assert opened.day.values.tolist() == ["2026-08", "2026-09", "2026-11-30"]
    pooled = [cd.merge(given.sum("day")).drop_attrs() for given in (opened, WHOLE)]
    xr.testing.assert_identical(*pooled)
    assert [told["added"] for told in json.loads(opened.attrs["history"])] == [["2026-08"], ["2026-09"]]
    assert cd.expire(store, 60) == {}
    with pytest.raises(ValueError, match="has the day 2026-08-31 within 2026-08, into which it was merged"):
        cd.append(summary(DAY == "2026-08-31"), store, {"day": "2026-08-31"}, replace="again")
    # No other day of the month can be added beside it, but the whole month can be replaced.
    with pytest.raises(ValueError, match="has 2026-08, into which periods were merged, and day 2026-08-29 is"):
        cd.append(summary(DAY == "2026-08-31"), store, {"day": "2026-08-29"})
    august = summary(DAY < "2026-09")
    cd.append(august, store, {"day": "2026-08"}, replace="with a late cohort")
    with pytest.raises(ValueError, match="2026-08-29T13 is within it"):
        cd.append(august, store, {"day": "2026-08-29T13"})
    cd.append(summary(DAY == "2026-11-30"), store, {"day": "2027-03-01"})
    assert cd.expire(store, 30, "year") == {"2026": ["2026-08", "2026-09", "2026-11-30"]}
    opened = cd.open_summary(store)
    assert opened.rows.sum("country").values.tolist() == [400, 100]


def test_dropped_with_a_reason(store: Path) -> None:
    cd.drop_periods(store, ["2026-08-31", np.datetime64("2026-08-30")], reason="test rows")  # type: ignore[list-item]
    opened = cd.open_summary(store)
    assert opened.day.values.tolist() == ["2026-09-01", "2026-11-30"]
    (told,) = json.loads(opened.attrs["history"])
    assert (told["action"], told["reason"]) == ("drop", "test rows")
    cd.append(summary(DAY == "2026-08-31"), store, {"day": "2026-08-31"})
    assert cd.open_summary(store).day.values.tolist()[0] == "2026-08-31"


SPELLINGS = [
    ("2026-8-31", "no such date, or it is spelled in another way"),
    ("2026/08/31", "spelled in another way"),
    (" 2026-08-31", "give '2026-08-31'"),
    ("2026-08-30T00:00:00", "has the day 2026-08-30, which 2026-08-30T00:00:00 spells differently"),
    ("2026-08-30T13:00:00", "do not overlap, got 2026-08-30T13:00:00, which is within 2026-08-30"),
    ("2026-10-31", "do not overlap, got 2026-10-31T13:00:00, which is within 2026-10-31: its rows would count twice"),
    ("2026-08-31T13:00", "give '2026-08-31T13:00:00'"),
    ("31.08.2026", "spelled in another way"),
    ("\uff12\uff10\uff12\uff16-08-31", "spelled in another way"),
    ("2026-02-30", "no such date"),
    ("2026-13-01", "no such date"),
    ("0000-11-21", "no such date"),
    ("2026-08-\ud800", r"expects texts of whole characters, got '2026-08-\\ud800' with a lone surrogate"),
    ("2026-08", "do not overlap, got 2026-08-30, which is within 2026-08: its rows would count twice"),
    ("2026", "do not overlap, got 2026-08-30, which is within 2026: its rows would count twice"),
    ("20260831", "label of the same kind, text, whole number, week, quarter or date"),
    ("2026-W36", "label of the same kind, text, whole number, week, quarter or date"),
    ("2026-W7", "expects weeks as 2026-W07 and quarters as 2026-Q1"),
    ("2026-W54", "expects weeks as 2026-W07 and quarters as 2026-Q1"),
    ("2026q1", "expects weeks as 2026-W07 and quarters as 2026-Q1"),
    ("August 31", "label of the same kind"),
    ("2026-10-31T13", "has the day 2026-10-31T13:00:00, which 2026-10-31T13 spells differently"),
    ("2026-08-31T00", "has the day 2026-08-31, which 2026-08-31T00 spells differently"),
]


def test_dates_have_one_spelling(store: Path) -> None:
    given = summary()
    cd.append(given, store, {"day": "2026-10-31T13:00:00"})
    for label, message in SPELLINGS:
        with pytest.raises(ValueError, match=message):
            cd.append(given, store, {"day": label})
    assert records(store) == 5


def test_periods_of_one_call_do_not_overlap(tmp_path: Path) -> None:
    labels, scores = np.arange(6) % 2, np.linspace(0.1, 0.9, 6)
    for periods in (
        ["2026-08", "2026-08-31"],
        ["2026", "2026-08"],
        ["2026-08-31T13", "2026"],
        ["2026-08-31T13", "2026-08-31"],
        ["2026-08-31T13:30:00", "2026-08-31T13"],
    ):
        both = cd.summarize(labels, scores, by={"day": np.array(periods)[np.arange(6) % 2]}, settings=["binary"])
        with pytest.raises(ValueError, match="do not overlap"):
            cd.append(both, tmp_path / "store.zarr", "day")
    apart = cd.summarize(labels, scores, by={"day": np.array(["2026-08", "2026-09-01"])[np.arange(6) % 2]})
    cd.append(apart, tmp_path / "store.zarr", "day")


def test_what_earlier_versions_took_is_replaced_and_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store.zarr"
    with monkeypatch.context() as earlier:
        earlier.setattr(period_store, "overlap", lambda labels, others: None)
        earlier.setattr(period_labels, "_NO_YEAR", "none")
        for day in ("2026-08", "2026-08-31", "0000-11-21"):
            cd.append(summary(), store, {"day": day})
    cd.drop_periods(store, ["0000-11-21"], "no such year")
    cd.append(summary(), store, {"day": "2026-08"}, replace="again")
    with pytest.raises(ValueError, match="do not overlap"):
        cd.append(summary(), store, {"day": "2026-08-30"})
    cd.drop_periods(store, ["2026-08"], "its days are here")
    cd.append(summary(), store, {"day": "2026-08-30"})
    assert cd.open_summary(store).day.values.tolist() == ["2026-08-30", "2026-08-31"]


def test_hours_are_stored_from_midnight_on(tmp_path: Path) -> None:
    store, moments = (
        tmp_path / "store.zarr",
        np.arange("2026-08-30T22", "2026-08-31T03", dtype="M8[h]").astype("M8[ns]"),
    )
    hours = cd.summarize(np.arange(5) % 2, np.linspace(0.1, 0.9, 5), by={"hour": moments}, settings=["binary"])
    cd.append(hours, store, "hour")
    stored = [f"{hour}:00:00" for hour in moments.astype("M8[h]").astype(str)]
    assert cd.open_summary(store).hour.values.tolist() == stored
    with pytest.raises(ValueError, match="has the hour 2026-08-31T00:00:00 already"):
        cd.append(hours.isel(hour=[2]), store, "hour")
    cd.append(hours.isel(hour=[2]), store, "hour", replace="late rows")
    cd.drop_periods(store, [moments[2]], "no rows")
    assert cd.open_summary(store).hour.values.tolist() == [*stored[:2], *stored[3:]]
    cd.append(hours.isel(hour=2, drop=True), store, {"hour": moments[2]})
    assert cd.open_summary(store).hour.values.tolist() == stored
    assert cd.expire(store, "0d", "day") == {"2026-08-30": stored[:2]}
    with pytest.raises(ValueError, match="2026-08-30T21:00:00 is within it"):
        cd.append(hours.isel(hour=2, drop=True), store, {"hour": "2026-08-30T21:00:00"})


NEW = {"day": "2026-12-01"}
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "twice": (
        lambda store: cd.append(summary(), store, {"day": "2026-08-31"}),
        r"store\.zarr has the day 2026-08-31 already.*replace='the reason' \(--replace --reason TEXT at the shell\)",
    ),
    "one of several": (lambda store: cd.append(WHOLE.isel(day=[0]), store), "has the day 2026-08-30 already"),
    "no reason": (lambda store: cd.append(summary(), store, NEW, replace=" "), "expects the reason for"),
    "step": (lambda store: cd.append(summary(step=0.001), store, NEW), r"store\.zarr, with the same step, got"),
    "weights": (lambda store: cd.append(summary(sample_weight=np.ones(ROWS)), store, NEW), "same weights"),
    "slices": (
        lambda store: cd.append(summary(by=None), store, NEW),
        "same dimensions of slices, got country, day and",
    ),
    "kind of slices": (lambda store: cd.append(summary(by={"country": LABELS}), store, NEW), "labels of one kind"),
    "another period": (
        lambda store: cd.append(summary(), store, {"week": 3}),
        "holds summaries by day, but the given periods are called week",
    ),
    "kind of periods": (lambda store: cd.append(summary(), store, {"day": 3}), "a label of the same kind"),
    "missing period": (
        lambda store: cd.append(summary(), store, {"day": "missing"}),
        "a date or a whole number, got 'missing'",
    ),
    "taken name": (lambda store: cd.append(summary(), store, {"country": "x"}), "has something called 'country'"),
    "no such slice": (
        lambda store: cd.append(summary(), store),
        "one of the slices of the summary, country, got 'day'",
    ),
    "unlabelled": (lambda store: cd.append(summary().drop_vars("country"), store, NEW), "labels along the slices"),
    "lost rows": (
        lambda store: cd.append(summary(DAY < "2026-09") + summary(DAY > "2026-09"), store, NEW),
        "of the 400 rows that went into it",
    ),
    "damaged": (
        lambda store: cd.append(summary().assign(classwise_count=summary().classwise_count * 2), store, NEW),
        "classwise_count of a summary expects",
    ),
    "drop": (lambda store: cd.drop_periods(store, ["2026-01-01"], "wrong"), "has no day 2026-01-01; it has 2026-08-30"),
    "days": (lambda store: cd.expire(store, "90"), "after expects a number of days such as '90d', got '90'"),
    "into": (lambda store: cd.expire(store, 90, "week"), "into expects one of day, month, year, got 'week'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str, kept: Path) -> None:
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call(kept)


def test_nothing_changed_then(kept: Path) -> None:
    assert records(kept) == 4
    assert cd.open_summary(kept).rows.equals(WHOLE.rows)


def test_other_things(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"append expects a summary of calibdask\.summarize, got list"):
        cd.append([1], tmp_path / "store.zarr")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"ends in one of \.zarr"):
        cd.append(summary(), tmp_path / "store.nc", NEW)
    write_dataset(WHOLE, tmp_path / "whole.zarr")
    for call in (lambda store: cd.append(summary(), store, NEW), cd.expire):
        with pytest.raises(ValueError, match="was written as a whole, so periods cannot be added to it"):
            call(tmp_path / "whole.zarr")
    with pytest.raises(ValueError, match=r"expects a store with periods added by calibdask\.append, got none"):
        cd.expire(tmp_path / "none.zarr")
    assert not (tmp_path / "none.zarr").exists()
    cd.append(summary(), tmp_path / "weeks.zarr", {"week": "2026-W47"})
    with pytest.raises(ValueError, match=r"label of the same kind.*got '2026-Q4' and '2026-W47'"):
        cd.append(summary(), tmp_path / "weeks.zarr", {"week": "2026-Q4"})
    with pytest.raises(ValueError, match="Periods expire that are dates such as '2026-11-22', got '2026-W47'"):
        cd.expire(tmp_path / "weeks.zarr")
    np.savez(tmp_path / "rows.npz", labels=LABELS, scores=SCORES)
    with pytest.raises(ValueError, match="not a summary; make one by"):
        cd.open_summary(tmp_path / "rows.npz")
