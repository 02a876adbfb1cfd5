"""Dates that are missing: the same rows are one group, whichever parts of the date there are."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.analyses.auditing.audit_document import audit_document

N = 6000


def rows(start: str = "2024-01-01", hours: int = 3 * 365 * 24) -> pd.DataFrame:
    """Scores that are too low where there is no date."""
    rng = np.random.default_rng(0)
    score = rng.beta(2, 4, N)
    dates = pd.Series(pd.Timestamp(start) + pd.to_timedelta(rng.integers(0, hours, N), unit="h"))
    dates = dates.where(rng.random(N) > 0.2)
    frame = pd.DataFrame({"score": score, "since": dates, "phone": rng.random(N) < 0.3})
    return frame.assign(label=(rng.random(N) < np.where(dates.isna(), 0.2 + 0.8 * score, score)).astype(int))


def texts(result: xr.Dataset) -> list[str]:
    return list(result.sortby("number").segment.values.tolist())


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_same_rows_are_looked_at_once(depth: int) -> None:
    frame = rows()
    result = cd.audit(frame, depth=depth, min_rows=1)
    missing = [text for text in texts(result) if "since missing" in text]
    assert missing == ["since missing", "since missing, phone = False", "since missing, phone = True"][: 2 * depth - 1]
    assert result.rows.sel(segment="since missing") == frame.since.isna().sum()
    # No two groups by dates alone have the same rows, and the others have all the rows with a date.
    one_way = result.isel(segment=(result.depth == 1).values)
    for part in ("month", "weekday", "hour"):
        here = one_way.isel(segment=(one_way["features"] == f"since.{part}").values)
        assert here.rows.sum() == frame.since.notna().sum()
    assert result.segment[result.described].values.tolist() == ["since missing"]
    assert "further row" not in audit_document(result, one_way_only=True).to_text()


def test_a_summary_and_a_map_take_them_once_too() -> None:
    frame = rows()
    expected = cd.audit(frame, min_rows=50)
    result = cd.audit(cd.summarize(frame, features=["since", "phone"]), min_rows=50)
    assert texts(result) == texts(expected)
    assert result.pvalue_adjusted.equals(expected.pvalue_adjusted)
    fitted = cd.MulticalibratedScaling().fit(frame, features=["since", "phone"])
    assert fitted.segments_ == ("since missing",)


def test_parts_that_are_the_same_in_all_rows_say_nothing() -> None:
    hours = rows("2024-05-01", 24 * 30)
    assert not any("year" in text or "month" in text or "present" in text for text in texts(cd.audit(hours)))
    same = rows("2024-05-01", 1)
    assert texts(cd.audit(same, depth=1, features=["since"])) == ["all rows", "since present", "since missing"]


def test_bins_of_a_single_value_are_called_by_it() -> None:
    rng = np.random.default_rng(5)
    scores, dates = rng.random(7000), np.datetime64("2024-01-01") + np.arange(7000) % 364
    features = {"d": dates + np.timedelta64(0, "h")}
    result = cd.audit(rng.random(7000) < scores, scores, features, depth=1).sortby("number")
    by_part = {part: result.segment[result["features"] == f"d.{part}"].values.tolist() for part in ("month", "weekday")}
    # Fifths of the week: Monday and Tuesday, Wednesday, Thursday and Friday, Saturday, Sunday.
    assert by_part["weekday"] == [
        "d.weekday <= 2",
        "d.weekday = 3",
        "3 < d.weekday <= 5",
        "d.weekday = 6",
        "d.weekday = 7",
    ]
    weekday = pd.DatetimeIndex(dates).isocalendar().day.to_numpy()
    rows = {text: int(result.rows.sel(segment=text)) for text in by_part["weekday"]}
    assert [rows[f"d.weekday = {day}"] for day in (3, 6, 7)] == [(weekday == day).sum() for day in (3, 6, 7)]
    assert by_part["month"][0] == "d.month <= 3"
    assert by_part["month"][-1] == "d.month > 10"


def test_missing_dates_are_watched_once() -> None:
    frame = rows()
    first = cd.summarize(frame, features=["since", "phone"], depth=1)
    days: Any = xr.concat([first, cd.summarize(frame, cuts=first)], xr.IndexVariable("day", ["1", "2"]))
    result = cd.watch(days, features=True)
    names = result.segment.values.tolist()
    assert names.count("since missing") == 1
    assert names[-2:] == ["phone other", "phone missing"]
    assert result.rows.sel(segment="since missing").values.tolist() == [frame.since.isna().sum()] * 2
    assert result.rows.sel(segment="phone = True").values.tolist() == [frame.phone.sum()] * 2
