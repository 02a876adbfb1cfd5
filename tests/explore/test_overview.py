"""The top of the page of a summary: tiles of models, the map of slices and the line by period, without a browser."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.explore.cancellation import Cancelled
from calibdask.explore.summaries import overview_numbers
from calibdask.explore.summaries import page as page_module
from calibdask.explore.summaries.overview_figures import UNDECIDED, MapFigure
from calibdask.explore.summaries.page import SummaryPage
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.slice_gaps import gaps_of
from calibdask.plot.style import OVER, UNDER
from calibdask.results.format import PLAIN
from calibdask.results.over_time import GapEnds

# Panel's table (1.9.4) still renumbers lines in the way that pandas is about to give up.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")

RNG = np.random.default_rng(5)
ROWS = 8000
SCORES = RNG.random(ROWS)
COUNTRY = RNG.choice(["AT", "BE", "CH"], ROWS)
DAY = np.datetime64("2026-01-01") + RNG.integers(0, 4, ROWS)
# One slice, on one day, has scores that are far too high.
PLANTED = (COUNTRY == "BE") & (np.datetime64("2026-01-03") == DAY)
LABELS = (RNG.random(ROWS) < np.where(PLANTED, SCORES**4, SCORES)).astype(int)


@pytest.fixture
def page_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes pages whose work is done at once, without what takes longer."""
    monkeypatch.setattr(page_module, "refinements", lambda *_, **__: iter(()))

    def make(summary: xr.Dataset) -> Any:
        page = SummaryPage(Pool(summary), "summary.zarr")
        page.page()
        return page

    return make


def over_paper(color: str, paper: str) -> float:
    """The mean of red, green and blue, 0 to 255, of a colour with opacity that is drawn on paper."""
    parts = [int(color[start : start + 2], 16) for start in (1, 3, 5, 7)]
    papers = [int(paper[start : start + 2], 16) for start in (1, 3, 5)]
    return sum(below + (part - below) * parts[3] / 255 for part, below in zip(parts, papers, strict=False)) / 3


def test_cells_that_are_not_decided_stand_back_on_any_paper() -> None:
    for color in (f"{OVER}ff", f"{UNDER}ff"):
        assert over_paper(UNDECIDED, "#16191d") < over_paper(color, "#16191d")
        assert over_paper(UNDECIDED, "#ffffff") > over_paper(color, "#ffffff")
    # Numbers in cells are pale on a dark page, which the browser alone knows.
    (words,) = (
        glyph for glyph in MapFigure(lambda *_: None).figure.renderers if "text" in type(glyph.glyph).__name__.lower()
    )
    assert "prefers-color-scheme: dark" in words.glyph.text_color.transform.v_func


def by_day() -> xr.Dataset:
    return cd.summarize(LABELS, SCORES, by={"country": COUNTRY, "day": DAY}, settings=["binary"])


def by_model() -> xr.Dataset:
    scores = xr.DataArray(np.stack([SCORES, SCORES**3]), dims=("model", "sample"), coords={"model": ["right", "low"]})
    return cd.summarize(xr.DataArray(LABELS, dims="sample"), scores, by={"country": COUNTRY}, settings=["binary"])


def gaps(summary: xr.Dataset, ci: float) -> xr.Dataset:
    return cd.evaluate(summary, metrics={"gap": cd.MeanGap()}, ci=ci)


def test_the_planted_slice_and_day_lead_and_a_click_selects_them(page_of: Callable[..., Any]) -> None:
    summary = by_day()
    page = page_of(summary)
    shown = page.overview.map.source.data
    # Rows are slices, the strongest evidence first; columns are days, and all of them.
    assert shown["name"][0] == "BE"
    assert shown["column"].tolist()[:4] == [f"2026-01-0{day}" for day in (1, 2, 3, 4)]
    plain = gaps(summary, 1 - 0.05 / 12)
    assert shown["column"][12:].tolist() == ["all days"] * 3
    for number, (country, day) in enumerate(zip(shown["name"][:12], shown["column"][:12], strict=True)):
        here = plain.sel(country=country, day=np.datetime64(day))
        expected = [100 * float(here[name]) for name in ("gap", "gap_low", "gap_high")]
        assert [shown[name][number] for name in ("gap", "low", "high")] == pytest.approx(expected, rel=1e-9)
        is_grey = shown["color"][number] == UNDECIDED
        assert is_grey == (expected[1] <= 0 <= expected[2])
    planted = next(number for number, color in enumerate(shown["color"]) if color != UNDECIDED)
    assert (shown["name"][planted], shown["column"][planted]) == ("BE", "2026-01-03")
    # A click, as a browser tells it; another one on the same cell takes it back.
    page.overview.map.source.selected.indices = [planted]
    assert "country BE · day 2026-01-03" in page.head.object
    assert page.overview.map.marks.data == {"x": [2.0], "y": [0.0], "wide": [1.0], "tall": [1.0]}
    assert page.overview.map.source.selected.indices == []
    page.overview.map.source.selected.indices = [planted]
    assert "all rows" in page.head.object
    assert not page.overview.map.marks.data["x"]


def test_the_line_is_that_of_the_selection(page_of: Callable[..., Any]) -> None:
    summary = by_day()
    page = page_of(summary)
    for selected in (slice(None), slice(1, 2)):
        page.first.labels["country"].value = list(range(3))[selected] if selected.stop else []
        plain = gaps(summary.isel(country=selected).sum("country"), 0.95)
        data = page.overview.line.source.data
        np.testing.assert_allclose(data["gap"], 100 * plain["gap"], rtol=1e-9)
        np.testing.assert_allclose(data["high"], 100 * plain["gap_high"], rtol=1e-9)
        assert data["rows"].tolist() == plain["rows"].values.tolist()
    page.overview.line.source.selected.indices = [2]
    assert "country BE · day 2026-01-03" in page.head.object
    # A ring marks the day, and the line keeps all days.
    assert [size > 7 for size in page.overview.line.source.data["size"]] == [False, False, True, False]


def test_a_tile_for_each_model_says_whether_it_keeps_the_limit(page_of: Callable[..., Any]) -> None:
    summary = by_model()
    page = page_of(summary)
    text = page.overview.tiles.object
    assert text.count("<li class='none'") == 2
    # The one that the page shows is marked, in words too.
    assert text.index("aria-current='true'") < text.index("<h2>right</h2>") < text.index("rows, shown below")
    assert (text.count("aria-current"), text.count("shown below")) == (1, 1)
    assert text.index("<h2>right</h2>") < text.index("<h2>low</h2>")
    plain = cd.evaluate(summary.isel(model=1).sum("country"), metrics={"ece": cd.ECE()}, ci=0.95)
    ends = GapEnds(float(plain.ece), float(plain.ece_low), float(plain.ece_high))
    assert f"{PLAIN.estimate(*ends)} <small>{PLAIN.span(ends.low, ends.high)}" in text
    assert "points too low" in text
    for limit, states in ((0.1, ("met", "broken")), (0.02, ("undecided", "broken")), (0.5, ("met", "met"))):
        page.limit.value = limit
        ece = [cd.check(summary.isel(model=i).sum("country"), limits={"ece": limit}).outcome for i in (0, 1)]
        words = ["undecided" if outcome == "cannot be decided" else outcome for outcome in ece]
        assert tuple(words) == states
        items = page.overview.tiles.object.split("<li ")[1:]
        for item, state in zip(items, states, strict=True):
            assert item.startswith(f"class='{state}'")
            assert f"limit {limit:g} {state}" in item
    # Several models are the columns of the map, whatever days there are.
    assert set(page.overview.map.source.data["column"]) == {"right", "low"}
    assert page.overview.map.source.data["text"][0] != ""


def test_very_many_slices_are_judged_as_far_as_said(
    page_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("MOST_CELLS", 8), ("MOST_ROWS", 1)):
        monkeypatch.setattr(overview_numbers, name, most)
    page = page_of(by_day())
    shown = page.overview.map.source.data
    assert len(shown["x"]) == 4 + 1
    assert "the worst 1 of 3 slices (2 with the most rows were judged)" in page.overview.map_note.object
    assert "simultaneous over 8 cells" in page.overview.map_note.object


def test_classes_together_have_no_mean_gap(page_of: Callable[..., Any]) -> None:
    matrix = RNG.dirichlet(np.ones(3), 900)
    classes = (matrix.cumsum(1) > RNG.random((900, 1))).argmax(1)
    page = page_of(cd.summarize(classes, matrix, by={"country": COUNTRY[:900]}))
    map_box = page.overview.listed[-1].objects[0]
    assert map_box.visible
    page.setting.value = "classwise"
    assert not map_box.visible
    assert "ECE" in page.overview.tiles.object


def test_gaps_are_cancelled_between_batches() -> None:
    pool = Pool(by_day())
    with pytest.raises(Cancelled):
        gaps_of(pool, [pool.numbers(Selection())], None, 0.95, lambda: True)


def test_slices_without_rows_have_no_gap() -> None:
    pool = Pool(by_day())
    none = gaps_of(pool, [np.array([], np.int64)], None, 0.95)
    assert np.isnan(none.value).all()
    assert none.distance.tolist() == [-1.0]


def test_labels_beyond_those_that_are_sent_can_be_found_and_chosen() -> None:
    from calibdask.explore.summaries.selection_widgets import SelectionWidgets
    from calibdask.explore.url_state import in_link, restore

    sites = np.array([f"site <{number}>" for number in range(2500)])
    pool = Pool(
        cd.summarize(np.tile([0, 1], 1250), np.full(2500, 0.5), by={"site": sites}, settings=["binary"], step=0.01)
    )
    place = {str(label): index for index, label in enumerate(pool.labels["site"])}
    widgets = SelectionWidgets(pool, "a")
    box, find = widgets.labels["site"], widgets.of_slices[-1]
    assert len(box.options) == 50
    find.value_input = "<1777"
    assert list(box.options) == ["site <1777>"]
    box.value = [place["site <1777>"]]
    find.value_input = "<3>"
    assert list(box.options) == ["site <1777>", "site <3>"]
    assert box.value == [place["site <1777>"]]
    # What is clicked elsewhere, or named by a link, is an option from then on.
    widgets.toggle({"site": place["site <2400>"]})
    assert widgets.selection() == Selection((("site", (place["site <2400>"],)),))
    link = in_link(box, box.value)
    box.value = []
    assert restore(box, link)
    assert box.value == [place["site <2400>"]]
    assert set(box.value) <= set(box.options.values())
