"""The page of time of a summary without a browser: sentence, pictures, changes, and work in pieces."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.analyses.monitoring import due_dates
from calibdask.analyses.monitoring.since import gap_since
from calibdask.explore.application import page_of
from calibdask.explore.cancellation import Cancelled
from calibdask.explore.summaries import slices_over_time
from calibdask.explore.summaries.page import SummaryPage
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.slices_over_time import (
    SlicesOverTime,
    TimeQuery,
    pending_positions,
    pending_rows,
    period_dims,
)
from calibdask.results.over_time import OverTime
from calibdask.storage.open_store import open_store
from calibdask.storage.summary import Summary
from calibdask.storage.summary_totals import with_totals
from calibdask.storage.writers import write_dataset
from tests.explore.shown_page import ShownPage
from tests.monitoring.drifted import DAYS, FROM, drifted_rows, drifted_summary


@pytest.fixture(scope="module")
def summary() -> xr.Dataset:
    return drifted_summary("country", "day", "version")


@pytest.fixture
def shown() -> Callable[..., ShownPage]:
    """A page whose work is done at once, on its view over time."""

    def make(summary: xr.Dataset) -> ShownPage:
        made = SummaryPage(Pool(summary), "days.zarr")
        made.view.value = "over time"
        return ShownPage(made.page(), made.widgets)

    return make


def query(by: str = "", **options: Any) -> TimeQuery:
    return TimeQuery(
        **{"period": "day", "selection": Selection(), "setting": None, "tolerance": 0.0, "alpha": 0.05, "by": by}
        | options
    )


def done(pool: Pool, asked: TimeQuery) -> SlicesOverTime:
    slices = SlicesOverTime(pool, asked)
    while not slices.done:
        slices.step(lambda: False)
    return slices


def test_the_page_tells_since_when_and_where(shown: Callable[..., ShownPage], summary: xr.Dataset) -> None:
    page = shown(summary)
    assert "Alarm: country=b since 19 January 2026: scores " in page.text
    assert page.text.index("a discovery among 3 (e-BH)") > page.text.index("Alarm: ")
    assert "By country, alarms first, then the largest" in page.text
    assert page.text.index("country=b: evidence") < page.text.index("country=a: evidence")
    assert "from the population (mix)" in page.text
    # The version of the model is marked without being asked for.
    assert ">v2</text>" in page.text
    page.choose(version="")
    assert ">v2</text>" not in page.text
    # Without the country that is off nothing is.
    page.widgets["a-country"].value = [0, 2]
    assert "<figcaption>country a, c: " in page.text
    page.choose(time_by="")
    assert "No alarm for the model in 30 periods: scores are " in page.text
    assert "alarms first" not in page.text
    page.choose(view="all periods together")
    assert "No alarm" not in page.text
    assert "95 %" in page.text


def test_windows_of_a_change(shown: Callable[..., ShownPage], summary: xr.Dataset) -> None:
    page = shown(summary)
    page.choose(before_day=(0, 17), after_day=(18, 29))
    expected = cd.attribute(summary, slice(None, DAYS[17]), slice(FROM, None), by="country")
    assert f"and {100 * float(expected.all_within):+.1f} points from behaviour" in page.text
    page.choose(after_day=(10, 29))
    assert "two windows that do not share any day" in page.text
    page.choose(before_day=(0, 9))
    assert "two windows" not in page.text


def test_windows_of_days_that_are_selected(summary: xr.Dataset) -> None:
    """Windows are of all days, wherever the selection begins."""
    pool = Pool(summary)
    chosen = done(pool, query("country", selection=Selection((("day", tuple(range(10, 25))),))))
    expected = cd.attribute(summary, slice(DAYS[10], DAYS[17]), slice(FROM, DAYS[24]), by="country")
    found = chosen.change((0, 17), (18, 29))
    xr.testing.assert_allclose(found.all_total, expected.all_total)
    with pytest.raises(ValueError, match="window before has no rows"):
        chosen.change((0, 9), (18, 29))


def test_periods_that_are_not_due_are_pending(summary: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = np.datetime64("2026-02-10T00:00:00")
    monkeypatch.setattr(due_dates, "parse_now", lambda _: moment)
    made = SummaryPage(Pool(summary), "days.zarr", due="30d")
    made.view.value = "over time"
    page = ShownPage(made.page(), made.widgets)
    # The last day that is due is the 10th, before anything was off.
    assert "No alarm for the model in 10 periods" in page.text
    assert "Grey: not due, and not tested." in page.text
    of_due = done(Pool(summary.isel(day=slice(0, 10))), query())
    pending = pending_positions(Pool(summary), "day", "30d")
    assert pending == tuple(range(10, 30))
    asked = query(pending=pending)
    np.testing.assert_array_equal(done(Pool(summary), asked).processes()[0].log_e, of_due.processes()[0].log_e)
    rows = pending_rows(Pool(summary), asked)
    assert rows is not None
    assert rows.rows.tolist() == [300] * 20
    assert pending_rows(Pool(summary), query()) is None


def test_what_cannot_be_watched_says_why(shown: Callable[..., ShownPage]) -> None:
    labels, scores, by = drifted_rows(days=DAYS[:4])
    weighted = cd.summarize(
        labels, scores, by={"day": by["day"]}, sample_weight=np.ones(labels.size), settings=["binary"]
    )
    assert "expects a summary without weights" in shown(weighted).text
    page = SummaryPage(Pool(cd.summarize(labels, scores, by={"country": by["country"]}, settings=["binary"])), "x.zarr")
    assert page.time is None
    assert "over time" not in page.view.options


@pytest.mark.parametrize("days", [1, 2])
def test_few_periods(shown: Callable[..., ShownPage], days: int) -> None:
    page = shown(drifted_summary("day", days=DAYS[:days]))
    assert f"No alarm for the model in {days} period" in page.text
    assert ("two windows that do not share any day" in page.text) == (days == 1)


def test_periods_are_dates_first() -> None:
    labels, scores, _ = drifted_rows(days=DAYS[:4])
    number = np.arange(labels.size)
    by = {
        "grade": number % 4,
        "kind": np.array(["x", "y"])[number % 2],
        "day": np.array(["2026-01-02", "2026-01-01"])[number % 2],
    }
    pool = Pool(cd.summarize(labels, scores, by=by, settings=["binary"], step=0.003))
    assert period_dims(pool) == ["day", "grade"]
    (one,) = done(pool, query()).processes()
    assert one.periods.tolist() == ["2026-01-01", "2026-01-02"]


@pytest.mark.parametrize("classes", [False, True])
def test_pieces_are_what_watch_gives_at_once(classes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, scores, by = drifted_rows(per_day=60)
    matrix = np.stack([1 - scores, 0.6 * scores, 0.4 * scores], -1) if classes else scores
    settings = ["classwise"] if classes else ["binary"]
    summary = cd.summarize(
        labels, matrix, by={name: by[name] for name in ("country", "day")}, settings=settings, step=0.003
    )
    monkeypatch.setattr(slices_over_time, "_MOST_PROCESSES", 6)
    monkeypatch.setattr(slices_over_time, "_MOST_AT_ONCE", 70)
    setting = "classwise" if classes else None
    pieces = {str(one.at): one for one in done(Pool(summary), query("country", setting=setting)).processes()}
    whole = cd.watch(summary, by="country", setting=setting)
    expected = OverTime.all_of(whole)
    assert len(expected) == (9 if classes else 3)
    for one in expected:
        same = pieces[str(one.at)]
        for name in ("log_e", "gap", "gap_low", "period_high", "alarm", "rows"):
            np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
        assert (one.since, one.found, one.tests) == (same.since, same.found, same.tests)


def test_the_gap_since_is_that_of_the_rows_since(summary: xr.Dataset) -> None:
    pool = Pool(summary)
    slices = done(pool, query("country"))
    (off,) = [one for one in slices.processes() if one.is_off]
    ends = slices.since(off)
    chosen = {"chosen_from": 3}
    assert ends == pytest.approx(gap_since(summary, off.since, by="country", **chosen)[1])
    later = summary.sel(day=slice(off.since, None))
    plain = cd.evaluate(later.sum(["day", "version"]), metrics=cd.MeanGap(step=0.003), ci=0.95).sel(country="b")
    assert ends.value == pytest.approx(float(plain.mean_gap), abs=1e-9)
    # It holds whichever the period is, and the country, so it is wider.
    assert ends.low < float(plain.mean_gap_low) < float(plain.mean_gap_high) < ends.high


def test_work_that_is_cancelled_is_done_later(summary: xr.Dataset) -> None:
    slices = SlicesOverTime(Pool(summary), query("country"))
    with pytest.raises(Cancelled):
        slices.step(lambda: True)
    assert slices.ready == 0
    slices.step(lambda: False)
    assert slices.ready == 3


def test_a_table_to_save(summary: xr.Dataset) -> None:
    page = SummaryPage(Pool(summary), "days.zarr")
    page.view.value = "over time"
    assert page.time is not None
    with pytest.raises(ValueError, match="no numbers yet"):
        page.time.frame()
    page.page()
    frame = page.time.frame()
    assert set(frame["slice"]) == {"all rows", "country=a", "country=b", "country=c"}
    assert len(frame) == 4 * DAYS.size
    assert frame["rows"].sum() == 2 * 9000


def test_due_expects_periods_that_are_dates(summary: xr.Dataset, tmp_path: Path) -> None:
    write_dataset(summary, tmp_path / "days.zarr")
    assert callable(page_of(str(tmp_path / "days.zarr"), due="30d"))
    with pytest.raises(ValueError, match="due expects a time such as '30d'"):
        page_of(str(tmp_path / "days.zarr"), due="soon")
    write_dataset(with_totals(summary.isel(day=0, drop=True), ()), tmp_path / "day.zarr")
    with pytest.raises(ValueError, match=r"due expects a summary by periods that are dates, .*day\.zarr has none"):
        page_of(str(tmp_path / "day.zarr"), due="30d")


def test_periods_of_a_store_come_first(tmp_path: Path) -> None:
    """Whatever its labels look like; another slice of dates would come before them."""
    rng = np.random.default_rng(4)
    store = str(tmp_path / "store.zarr")
    for number in range(1, 4):
        scores = rng.random(200)
        by = {"opened": np.array(["2026-01-01", "2026-02-01"])[rng.integers(0, 2, 200)]}
        summary = cd.summarize((rng.random(200) < scores).astype(int), scores, by=by, settings=["binary"])
        cd.append(summary, store, {"batch": f"b{number}"})
    page = page_of(store)()
    opened = open_store(store)
    assert isinstance(opened, Summary)
    assert period_dims(Pool(opened))[0] == "batch" == opened.period
    assert page is not None
    assert done(Pool(opened), query(period="batch")).periods.tolist() == ["b1", "b2", "b3"]
