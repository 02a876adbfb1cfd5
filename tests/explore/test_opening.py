"""A store of periods opens with what the sums of whole periods tell; what needs slices follows."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibdask as cd
from calibdask.explore.cancellation import CancelToken
from calibdask.explore.summaries.overview import Overview, OverviewQuery
from calibdask.explore.summaries.page import SummaryPage
from calibdask.explore.summaries.page_metrics import RowChoice
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.slice_gaps import Gaps
from calibdask.storage.open_store import open_store
from calibdask.storage.period_arrays import PeriodArray
from calibdask.storage.summary import Summary

# Panel's table (1.9.4) still renumbers lines in the way that pandas is about to give up.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")

DAYS, ROWS = 5, 900
CHOICE = RowChoice("confidence")


@pytest.fixture
def stored(tmp_path: Path) -> Summary:
    """Five days of three countries, one of which is missing on the second and has scores that are too high."""
    rng = np.random.default_rng(4)
    for day in range(DAYS):
        country = rng.choice(["at", "be", "ch"] if day != 1 else ["at", "ch"], ROWS)
        scores = rng.dirichlet(np.ones(3) / 2, ROWS)
        labels = (rng.random((ROWS, 1)) > scores.cumsum(1)).sum(1)
        labels = np.where(country == "be", rng.integers(0, 3, ROWS), labels)
        part = cd.summarize(labels, scores, by={"country": country}, step=0.01, task="multiclass")
        cd.append(part, tmp_path / "days.zarr", {"day": f"2026-02-0{day + 1}"})
    summary = open_store(str(tmp_path / "days.zarr"))
    assert isinstance(summary, Summary)
    return summary


@pytest.fixture
def refuse_slices(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Lets no numbers of slices be read, or lets them again."""
    reading = PeriodArray.__getitem__

    def refused(*_: object) -> None:
        raise AssertionError("Slices were read.")

    def refuse(refused_now: bool) -> None:
        monkeypatch.setattr(PeriodArray, "__getitem__", refused if refused_now else reading)

    return refuse


def same(one: Gaps, other: Gaps) -> None:
    for name in ("value", "low", "high", "rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def queried(overview: Overview) -> OverviewQuery:
    return overview.query(Selection(), CHOICE, 0.02, ("country",))


def test_tiles_and_line_read_no_slices_and_are_those_of_all_at_once(
    stored: Summary, refuse_slices: Callable[[bool], None]
) -> None:
    overview = Overview(Pool(stored), lambda _: None)
    query = queried(overview)
    assert overview.waits(query)
    refuse_slices(True)
    begun = overview.begun(query, CancelToken())
    assert begun.map is None
    overview.show(query, begun)
    # The place of the map says that it follows; no sentence claims that nothing is off.
    assert "appears once all histograms" in overview.map_note.object
    assert [button.visible for button in overview.worst] == [False, False]
    assert not overview.map.figure.visible
    assert not overview.legend.visible
    with pytest.raises(AssertionError, match="Slices were read"):
        overview.computed(query, CancelToken())
    refuse_slices(False)
    later = overview.computed(query, CancelToken())
    # Nothing is computed twice.
    assert later.line is begun.line
    assert later.tiles is begun.tiles
    overview.show(query, later)
    assert overview.worst[0].label.startswith("Worst slice: country be")
    assert overview.map.figure.visible
    assert not overview.waits(query)

    in_memory = Overview(Pool(stored.dataset.load()), lambda _: None)
    assert not in_memory.waits(query)
    whole = in_memory.computed(query, CancelToken())
    assert repr(whole.tiles) == repr(later.tiles)
    assert repr(whole.findings) == repr(later.findings)
    assert (whole.map, later.map, whole.line, later.line) != (None,) * 4
    for one, other in ((whole.map, later.map), (whole.line, later.line)):
        same(one.gaps, other.gaps)  # type: ignore[union-attr]
    same(whole.map.whole, later.map.whole)  # type: ignore[union-attr, arg-type]


def test_a_map_of_another_selection_is_not_left_beside_what_is_new(stored: Summary) -> None:
    chosen: list[Any] = []
    overview = Overview(Pool(stored), chosen.append)
    query = queried(overview)
    overview.show(query, overview.computed(query, CancelToken()))
    assert overview.map.figure.visible
    other = overview.query(Selection(), RowChoice(1), None, ("country",))
    assert overview.waits(other)
    overview.show(other, overview.begun(other, CancelToken()))
    assert not overview.map.figure.visible
    assert not any(button.visible for button in overview.worst)
    # A click on what was there chooses nothing.
    overview.map.source.selected.indices = [0]
    assert chosen == []
    overview.show(other, overview.computed(other, CancelToken()))
    assert overview.map.figure.visible


def test_the_page_shows_what_is_quick_first_and_the_map_after_intervals(stored: Summary) -> None:
    page = SummaryPage(Pool(stored), "days.zarr")
    told: list[str] = []
    page.busy.param.watch(lambda event: told.append(event.new), "object")

    def steps() -> list[str]:
        return [step for text in told for step in re.findall("computing: (.*) …", text)]

    page.page()
    assert steps()[0] == "models and periods"
    assert steps().index("interval of smooth ece") < steps().index("models, slices and periods")
    assert page.overview.map.figure.visible
    assert "Observed rate minus mean prediction in points by country and each day" in page.overview.map_note.object
    # Once slices are in memory all is shown at once.
    told.clear()
    page.first.labels["country"].value = [0]
    assert steps()[0] == "models, slices and periods"
    assert "models and periods" not in steps()
