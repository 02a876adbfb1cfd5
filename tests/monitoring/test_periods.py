"""Which periods `watch` takes: each once, those that changed or came late are told, young cohorts are pending."""

import json
import warnings
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.analyses.monitoring.due_dates import are_due, period_ends
from calibdask.storage.summary_scores import SCORES
from tests.monitoring.test_watch import DAYS, assert_same_bits, summary


@pytest.fixture(scope="module")
def drifted() -> Any:
    return summary(shift=0.2)


def without_scores(dataset: xr.Dataset) -> xr.Dataset:
    return dataset.drop_vars(SCORES, errors="ignore")


@pytest.mark.parametrize("kept", [lambda dataset: dataset, without_scores], ids=["sums of scores", "cells alone"])
def test_a_growing_summary_is_watched_once(drifted: xr.Dataset, kept: Any) -> None:
    """As a daily job does: all that is there, with the state of the day before."""
    given = kept(drifted)
    whole = cd.watch(given, by="country")
    state = None
    for days in (8, 9, 9, 20):
        part = cd.watch(given.isel(day=slice(0, days)), by="country", state=state)
        state = part.attrs["state"]
        assert_same_bits(part, whole.isel(day=slice(days - part.sizes["day"], days)))
    assert state == whole.attrs["state"]
    again = cd.watch(given, by="country", state=state)
    assert (again.sizes["day"], again.attrs["rows"], again.attrs["state"]) == (0, 0, state)
    assert again.alarm.dtype == bool


@pytest.mark.parametrize("kept", [lambda dataset: dataset, without_scores], ids=["sums of scores", "cells alone"])
def test_a_period_that_has_changed_is_told(drifted: xr.Dataset, kept: Any) -> None:
    state = cd.watch(kept(drifted), by="country").attrs["state"]
    more = cd.summarize([1], [0.5], by={"day": DAYS[3:4], "country": ["a"]}, settings=["binary"])
    grown = kept(cd.merge(drifted, more))
    with pytest.raises(ValueError, match="day 2026-01-04 had other rows when it was monitored"):
        cd.watch(grown, by="country", state=state)
    swapped = drifted.isel(day=[0, 1, 2, 4, 3]).assign_coords(day=DAYS[:5])
    with pytest.raises(ValueError, match="day 2026-01-04, 2026-01-05 had other rows"):
        cd.watch(kept(swapped), by="country", state=state)


def test_what_does_not_change_rows_is_no_change(drifted: xr.Dataset) -> None:
    """Other orders, slices without rows, parts that were merged: the rows of a day are the same."""
    state = cd.watch(drifted, by="country").attrs["state"]
    parts = [drifted.isel(day=slice(0, 7), country=[2, 0]), drifted.isel(day=slice(7, 20), country=[2, 0])]
    more = summary(countries=["b"], shift=0.2)
    new = cd.summarize(
        [1], [0.5], by={"day": DAYS[-1:] + np.timedelta64(1, "D"), "country": ["d"]}, settings=["binary"]
    )
    result = cd.watch(cd.merge(new, *parts, more), by="country", state=state)
    assert result.sizes == {"country": 4, "day": 1}


def test_a_late_period_is_left_out(drifted: xr.Dataset) -> None:
    without = [*range(5), *range(6, 15)]
    state = cd.watch(drifted.isel(day=without), by="country").attrs["state"]
    with pytest.warns(UserWarning, match="day 2026-01-06 arrived after 2026-01-15 had been monitored, and is ignored"):
        result = cd.watch(drifted, by="country", state=state)
    expected = cd.watch(drifted.isel(day=[*without, *range(15, 20)]), by="country")
    assert_same_bits(result, expected.isel(day=slice(14, None)))
    assert result.attrs["state"] == expected.attrs["state"]


def test_cohorts_are_pending_until_they_are_due(drifted: xr.Dataset) -> None:
    """The 11th of January ends as the 12th begins."""
    whole = cd.watch(drifted, by="country")
    early, late = ("2026-02-10T23:59:59", "2026-02-11T00:00:00")
    first = cd.watch(drifted, by="country", due="30d", now=early)
    assert first.sizes["day"] == 10
    pending = json.loads(first.attrs["pending"])
    assert pending[0] == {"day": "2026-01-11", "rows": 600, "due": "2026-02-11"}
    assert len(pending) == 10
    moment = datetime.fromisoformat(late).replace(tzinfo=UTC)
    for now in (late, moment, moment.astimezone(), np.datetime64(late)):
        due = timedelta(days=30)
        second = cd.watch(drifted, by="country", due=due, now=now, state=first.attrs["state"])
        assert_same_bits(second, whole.isel(day=slice(10, 11)))
    assert cd.watch(drifted, by="country", due=np.timedelta64(4, "W")).attrs["state"] == whole.attrs["state"]
    none = cd.watch(drifted, by="country", due="2w", now="2026-01-02")
    assert (none.sizes["day"], len(json.loads(none.attrs["pending"]))) == (0, 20)
    assert json.loads(none.attrs["state"])["periods"]["values"] == []
    # A cohort whose labels come in is another one, and that is as it should be: it has not been watched.
    more = cd.summarize([1], [0.5], by={"day": DAYS[15:16], "country": ["a"]}, settings=["binary"])
    assert cd.watch(cd.merge(drifted, more), by="country", state=first.attrs["state"]).sizes["day"] == 10


@pytest.mark.parametrize(
    ("labels", "last"),
    [
        (["2026-11-22"], "2026-11-23"),
        (["2026-11-21", "2026-11-22"], "2026-11-23"),
        (["2026-11-09", "2026-11-16"], "2026-11-23"),
        (["2026-W47"], "2026-11-23"),
        (["2026-W45", "2026-W47", "2026-W46"], "2026-11-16"),
        (["2026-02"], "2026-03-01"),
        (["2026-01-01", "2026-02-01"], "2026-03-01"),
        (["2026-01", "2026-04"], "2026-07-01"),
        (["2025"], "2026-01-01"),
        (["2025-08-30", "2025-08-31", "2025-09"], "2025-10-01"),
        (["2025-09", "2025-08-30", "2025-08-31"], "2025-09-01"),
        (["2026-11-22T05", "2026-11-22T06"], "2026-11-22T07"),
        (["2026-11-22 05:30"], "2026-11-23T05:30"),
        (np.array(["2026-11-01"], "datetime64[ns]"), "2026-11-02"),
        (np.array(["2026-10-01", "2026-11-01"], "datetime64[s]"), "2026-12-01"),
        (np.array(["2026-11"], "datetime64[M]"), "2026-12-01"),
    ],
)
def test_periods_end(labels: Any, last: str) -> None:
    assert period_ends("day", np.array(labels))[-1] == np.datetime64(last)


@pytest.mark.parametrize("labels", [["monday"], [20261122], ["20261122"], ["2026-13-01"], [2026], ["2026-W60"]])
def test_periods_that_are_no_dates(labels: Any) -> None:
    given = cd.summarize([0, 1], [0.4, 0.5], by={"cohort": np.repeat(labels, 2)}, settings=["binary"])
    with pytest.raises(ValueError, match=f"due needs dates to label the values of cohort.*{labels[0]}"):
        cd.watch(given, period="cohort", due="30d")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"due": 30}, "due expects a time such as '30d'"),
        ({"due": "30"}, "due expects a time such as '30d'"),
        ({"due": np.timedelta64(-1, "D")}, "due expects"),
        ({"due": "30d", "now": "today"}, "now expects a date"),
        ({"due": "30d", "now": 3}, "now expects a date"),
        ({"due": "30d", "now": np.datetime64("NaT", "D")}, "now expects a date"),
        ({"now": "2026-01-01"}, "now has no effect without due"),
    ],
)
def test_misuse_is_told(drifted: xr.Dataset, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cd.watch(drifted, **change)


def test_days_that_were_merged_into_months_have_been_watched(drifted: xr.Dataset) -> None:
    days = drifted.assign_coords(day=DAYS.astype("datetime64[D]").astype(str))
    state = cd.watch(days.isel(day=slice(0, 18)), by="country").attrs["state"]
    month = cd.merge(*(days.isel(day=[number]).assign_coords(day=["2026-01"]) for number in range(12)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = cd.watch(cd.merge(month, days.isel(day=slice(12, 20))), by="country", state=state)
    assert_same_bits(result, cd.watch(days, by="country", state=state))


def test_states_with_other_labels_are_refused(drifted: xr.Dataset) -> None:
    state = cd.watch(drifted.isel(day=slice(0, 3))).attrs["state"]
    texts = drifted.isel(day=slice(3, 6)).assign_coords(day=["2026-01-04", "2026-01-05", "2026-01-06"])
    with pytest.raises(ValueError, match="cannot be compared with"):
        cd.watch(texts, state=state)
    damaged = json.loads(state)
    damaged["digests"] = damaged["digests"][1:]
    with pytest.raises(ValueError, match="damaged"):
        cd.watch(drifted, state=damaged)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coarse = drifted.assign_coords(day=DAYS.astype("datetime64[s]"))
        assert cd.watch(coarse, state=state).sizes["day"] == 17


def test_outcomes_that_take_calendar_months() -> None:
    """Twelve months after the end of a month, also in a leap year, where 365 days are not."""
    months = np.array(["2023-01", "2023-02", "2023-03"])
    assert are_due("month", months, "12m", "2024-02-29").tolist() == [True, False, False]
    assert are_due("month", months, "12m", "2024-03-01").tolist() == [True, True, False]
    assert are_due("month", months, "12m", "2024-03-31T23:59:59").tolist() == [True, True, False]
    assert are_due("month", months, "12m", "2024-04-01").all()
    assert are_due("day", np.array(["2026-01-29", "2026-01-30"]), "1m", "2026-02-28").all()
    weeks = np.array(["2026-W47"])
    assert not are_due("week", weeks, "1m", "2026-12-22").any()
    assert are_due("week", weeks, "1m", "2026-12-23").all()
