"""The first page of a summary leads the eye: what is worst, over all periods too; places, colours and captions."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.explore.summaries import page as page_module
from calibdask.explore.summaries import slice_table
from calibdask.explore.summaries.findings import since_when, worst_slice
from calibdask.explore.summaries.gap_scales import RATIO_SCALE
from calibdask.explore.summaries.measuring import Measuring
from calibdask.explore.summaries.overview_figures import SELECTED, UNDECIDED
from calibdask.explore.summaries.overview_numbers import MapQuery, slice_map
from calibdask.explore.summaries.own_metrics import OwnMetrics
from calibdask.explore.summaries.page import SummaryPage
from calibdask.explore.summaries.page_metrics import RowChoice
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.slice_gaps import Gaps
from calibdask.plot.style import OVER, UNDER

# Panel's table (1.9.4) still renumbers lines in the way that pandas is about to give up.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")

RNG = np.random.default_rng(11)
ROWS = 12_000
SCORES = RNG.random(ROWS)
COUNTRY = RNG.choice(["AT", "BE", "CH"], ROWS, p=[0.6, 0.2, 0.2])
FIRST = np.datetime64("2026-01-01")
DAY = FIRST + RNG.integers(0, 30, ROWS)
# Too high by 6 points on every day, which no day shows by itself.
PERSISTENT = np.where(COUNTRY == "BE", SCORES - 0.06, SCORES)


@pytest.fixture
def page_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes pages whose work is done at once, without what takes longer."""
    monkeypatch.setattr(page_module, "refinements", lambda *_, **__: iter(()))

    def make(summary: xr.Dataset) -> Any:
        page = SummaryPage(Pool(summary), "summary.zarr")
        page.page()
        return page

    return make


def summarized(frequency: np.ndarray, **by: np.ndarray) -> xr.Dataset:
    labels = (np.random.default_rng(3).random(ROWS) < frequency).astype(int)
    by = by or {"country": COUNTRY, "day": DAY}
    # There are thousands of slices by three columns: wider cells take a third of the time.
    return cd.summarize(labels, SCORES, by=by, settings=["binary"], step=0.0003 if len(by) < 3 else 0.002)


def of_models() -> xr.Dataset:
    """Two models, of which the second has scores that are too high in one country since the 11th day."""
    late = (COUNTRY == "BE") & (DAY >= FIRST + 10)
    scores = xr.DataArray(
        np.stack([SCORES, np.where(late, np.sqrt(SCORES), SCORES)]),
        dims=("model", "sample"),
        coords={"model": ["old", "new"]},
    )
    labels = xr.DataArray((np.random.default_rng(3).random(ROWS) < SCORES).astype(int), dims="sample")
    return cd.summarize(labels, scores, by={"country": COUNTRY, "day": DAY}, settings=["binary"])


def test_what_is_off_on_no_day_for_certain_is_over_all_of_them(page_of: Callable[..., Any]) -> None:
    summary = summarized(PERSISTENT)
    page = page_of(summary)
    shown = page.overview.map.source.data
    cells = len(shown["x"]) - 3
    assert shown["name"][0] == "BE"
    assert set(shown["color"][:30]) == {UNDECIDED}
    assert shown["column"][cells:].tolist() == ["all days"] * 3
    assert [color == UNDECIDED for color in shown["color"][cells:]] == [False, True, True]
    plain = cd.evaluate(summary.sum("day").sel(country=["BE"]), metrics={"gap": cd.MeanGap()}, ci=1 - 0.05 / 3)
    expected = [100 * float(plain[name][0]) for name in ("gap", "gap_low", "gap_high")]
    assert [shown[name][cells] for name in ("gap", "low", "high")] == pytest.approx(expected, rel=1e-9)
    # Apart from the days, with a number in it.
    assert shown["x"][cells] + shown["wide"][cells] / 2 < -0.5
    assert shown["text"][cells].startswith("−")
    assert not any(shown["text"][:cells])
    # A click selects the slice on all days, also where one of them was selected.
    page.first.labels["day"].value = [4]
    page.overview.map.source.selected.indices = [cells]
    assert "country BE: " in page.head.object
    page.overview.map.source.selected.indices = [cells]
    assert "all rows: " in page.head.object
    # Ratios of frequency and mean score, which leave out 1 where gaps leave out 0; of map and line.
    overview = page.overview
    gaps = np.array(overview.map.source.data["gap"])
    overview.scale.value = "observed / expected"
    plain = cd.evaluate(summary.sum("day"), metrics={"gap": cd.MeanGap()}, ci=0.95)
    assert "Observed over expected events by country" in overview.map_note.object
    shown = {name: np.array(values) for name, values in overview.map.source.data.items()}
    whole = np.flatnonzero((shown["name"] == "BE") & (shown["column"] == "all days"))[0]
    ratio = float((plain.frequency / plain.mean_score).sel(country="BE"))
    assert shown["gap"][whole] == pytest.approx(ratio, rel=1e-12)
    assert shown["text"][whole] == f"{ratio:.2f}"
    assert shown["words"][whole].startswith(f"{ratio:.3f} (95 % interval ")
    assert ((shown["high"] < 1) | (shown["low"] > 1)).sum() > 0
    assert (np.sign(gaps) == np.sign(shown["gap"] - 1)).all()
    assert overview.line.figure.yaxis.axis_label == "observed / expected"
    overview.scale.value = "difference"
    assert np.array_equal(overview.map.source.data["gap"], gaps)


def test_the_strongest_evidence_is_first() -> None:
    """A gap is large in few rows too: its interval says how much it weighs."""
    gaps = Gaps(np.array([0.2, 0.05, -0.3, 0.1]), np.array([0.02, 0.04, -0.5, 0.1]), *np.full((3, 4), 1.0))
    gaps = replace(gaps, high=np.array([0.4, 0.06, -0.1, 0.1]), rows=np.array([30, 9000, 20, 0]))
    assert np.argsort(-gaps.strength).tolist() == [1, 2, 0, 3]
    assert (gaps.strength > 1).tolist() == gaps.certain.tolist()


def test_a_sentence_names_the_worst_and_a_click_selects_it(page_of: Callable[..., Any]) -> None:
    summary = of_models()
    page = page_of(summary)
    worst, day = page.overview.worst
    level = 1 - 0.05 / 6
    plain = cd.evaluate(summary.isel(model=1).sum("day").sel(country=["BE"]), metrics={"gap": cd.MeanGap()}, ci=level)
    low, high = (abs(100 * float(plain[name][0])) for name in ("gap_high", "gap_low"))
    assert f"Worst slice: new on country BE, {abs(100 * float(plain.gap[0])):.1f} points too high" in worst.label
    assert f"({low:.1f} to {high:.1f}, simultaneous over 6 cells), since 2026-01-1" in worst.label
    assert "Worst day: " not in day.label or "simultaneous over 60 cells" in day.label
    worst.clicks += 1
    assert page.head.object.startswith("model new · country BE: ")
    # Its cell alone is framed: the other model of this country is not selected.
    assert [len(values) for values in page.overview.map.marks.data.values()] == [1] * 4
    assert (page.overview.map.marks.data["x"], page.overview.map.marks.data["y"]) == ([1.0], [0.0])


def test_nothing_is_off_for_certain(page_of: Callable[..., Any]) -> None:
    page = page_of(summarized(SCORES))
    worst, day = page.overview.worst
    assert (worst.label, worst.disabled, day.visible) == ("No slice is significantly miscalibrated", True, False)


def test_since_when_is_left_out_where_it_was_never_right() -> None:
    pool = Pool(summarized(SCORES**2))
    query = MapQuery(("country",), "day", Selection(), None)
    worst = worst_slice(pool, query, "day", slice_map(pool, query, lambda: False), lambda: False)
    assert worst is not None
    assert since_when(pool, query, "day", worst, lambda: False) == ""


def test_warnings_move_nothing_and_a_selection_is_cleared(page_of: Callable[..., Any]) -> None:
    page = page_of(summarized(SCORES))
    assert page.clear.disabled
    # A line, whether there are warnings or none.
    page.first.labels["country"].value = [1]
    page.first.labels["day"].value = [2]
    assert "⚠" not in page.head.object
    assert page.cautions.object.count("<summary>") == 1
    assert "warnings: There are only" in page.cautions.object
    assert not page.clear.disabled
    page.clear.clicks += 1
    assert "all rows: " in page.head.object
    assert page.clear.disabled


def test_the_table_has_the_side_of_slices_and_a_colour_for_each(
    page_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    frequency = np.select([COUNTRY == "AT", COUNTRY == "BE"], [SCORES**2, np.sqrt(SCORES)], SCORES)
    summary = summarized(frequency)
    page = page_of(summary)
    table = next(iter(page.slices.table))
    assert list(table.value.columns) == ["slice", "gap", "error", "rows"]
    lines = {line["slice"]: line for _, line in table.value.iterrows()}
    plain = cd.evaluate(summary.sum("day"), metrics={"gap": cd.MeanGap()}, ci=1 - 0.05 / 3)
    frame = page.slices.frame().set_index("country")
    for country, color in (("AT", OVER), ("BE", UNDER), ("CH", "#7a858f")):
        gap = float(plain.gap.sel(country=country))
        assert lines[country]["gap"].endswith(f"{100 * gap:+.1f}</span>".replace("-", "−"))
        assert f'fill="{color}"' in lines[country]["gap"]
        assert frame.loc[country, "mean_gap"] == pytest.approx(gap)
        assert frame.loc[country, "mean_gap_low"] == pytest.approx(float(plain.gap_low.sel(country=country)))
    # Of very many slices some are in the table, and all in the file.
    monkeypatch.setattr(slice_table, "_MOST_LINES", 2)
    page = page_of(summary)
    assert len(next(iter(page.slices.table)).value) == 2
    assert len(page.slices.frame()) == 3
    assert "The first 2 are shown" in page.slices.note.object


def test_slices_are_told_apart_by_all_that_are_few() -> None:
    kind = np.where(np.arange(ROWS) % 2, "web", "app")
    day, number = FIRST + np.arange(ROWS) % 2, np.arange(ROWS)

    def chosen(**by: np.ndarray) -> tuple[str, ...]:
        return SummaryPage(Pool(summarized(SCORES, **by, kind=kind, day=day)), "summary.zarr").slices.chosen_dims

    assert chosen(country=COUNTRY) == ("country", "kind")
    # Numbers are ids where there are dates.
    assert chosen(site=number % 40) == ("site", "kind")
    assert chosen(site=number % 60) == ("site",)


def test_a_bad_pair_of_values_is_named_although_slices_are_told_apart_by_one(page_of: Callable[..., Any]) -> None:
    rng = np.random.default_rng(8)
    site, device = rng.integers(0, 50, ROWS), rng.choice(["phone", "tablet", "web"], ROWS)
    planted, day = (site == 7) & (device == "tablet"), FIRST + np.arange(ROWS) % 5
    summary = summarized(np.where(planted, SCORES**4, SCORES), site=site, device=device, day=day)
    page = page_of(summary)
    assert page.slices.chosen_dims == ("site",)
    worst = page.overview.worst[0]
    judged = 50 + 3 + 150
    plain = cd.evaluate(summary.sum("day"), metrics={"gap": cd.MeanGap(step=0.002)}, ci=1 - 0.05 / judged)
    here = plain.sel(site=7, device="tablet")
    assert worst.label.startswith(f"Worst slice: site 7 · device tablet, {abs(100 * float(here.gap)):.0f}")
    assert f"simultaneous over {judged} cells" in worst.label
    # Of a selection the sentence says so.
    page.first.labels["device"].value = [1, 2]
    assert worst.label.startswith("Worst slice of device tablet, web: site 7, ")
    page.first.clear()
    page.first.labels["day"].value = [3]
    worst.clicks += 1
    assert page.head.object.startswith("site 7 · device tablet: ")
    # Where a whole value is off it is named alone: it has more rows.
    page = page_of(summarized(np.where(device == "web", SCORES**2, SCORES), site=site, device=device, day=day))
    assert page.overview.worst[0].label.startswith("Worst slice: device web, ")


def test_the_period_is_what_is_called_so(page_of: Callable[..., Any]) -> None:
    day = (DAY - FIRST).astype(int)
    page = page_of(summarized(SCORES, branch=np.arange(ROWS) % 20, day=day))
    assert page.slices.chosen_dims == ("branch",)
    assert page.overview.line_note.object.startswith("<h2>By day</h2>")
    assert page.overview.map.source.data["column"][-1] == "all days"
    page = page_of(summarized(SCORES, country=np.arange(ROWS) % 20, kind=COUNTRY))
    assert page.overview.map.source.data["column"][-1] == "all countries"


def test_colours_have_one_meaning_and_frames_cover_none(page_of: Callable[..., Any]) -> None:
    page = page_of(summarized(np.where(FIRST + 20 == DAY, SCORES**3, SCORES)))
    legend = page.overview.legend.object
    for words, color in (("too low", UNDER), ("too high", OVER), ("not decided", UNDECIDED), ("selected", SELECTED)):
        assert color in legend[: legend.index(words)].rpartition("<li>")[2]
    line = page.overview.line.source.data
    sides = {OVER: line["high"] < 0, UNDER: line["low"] > 0}
    for color, certain in sides.items():
        assert [one == color for one in line["color"]] == certain.tolist()
    # A selected day: a frame around its column, outside of the cells.
    page.first.labels["day"].value = [20]
    frame = {name: values[0] for name, values in page.overview.map.marks.data.items()}
    assert frame == {"x": 20.0, "y": 1.0, "wide": 1.0, "tall": 3.0}
    assert set(page.overview.map.source.data["wide"][:90]) == {0.96}
    page.first.labels["country"].value = [0]
    page.first.labels["day"].value = []
    (wide,) = page.overview.map.marks.data["wide"]
    assert wide > 30
    # The bad day is named.
    page.first.clear()
    day = page.overview.worst[1]
    assert day.label.startswith("Worst day: 2026-01-21, ")
    assert "too high" in day.label
    assert "simultaneous over 30 cells" in day.label
    day.clicks += 1
    assert "day 2026-01-21: " in page.head.object

    # Each interval says what it holds for.
    alone = "this selection alone"
    assert "simultaneous over 90 cells; of all days, simultaneous over 3 slices" in page.overview.map_note.object
    assert "simultaneous over 3 slices" in page.slices.note.object
    for pane in (page.overview.tiles, page.overview.line_note, page.note):
        assert alone in pane.object
    kinds = page.overview.map.source.data["kind"]
    assert (kinds[0], kinds[-1]) == ("simultaneous over 90 cells", "simultaneous over 3 slices")


def test_views_are_built_when_they_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "refinements", lambda *_, **__: iter(()))
    page = SummaryPage(Pool(summarized(SCORES)), "summary.zarr")
    shown = page.page()
    assert [len(column.objects) > 0 for column in shown.main[1:]] == [True, False, False, False]
    page.view.value = "over time"
    assert [len(column.objects) > 0 for column in shown.main[1:]] == [True, True, False, False]


def test_what_was_computed_while_the_browser_was_loading_is_not_computed_again() -> None:
    measuring = Measuring(Pool(summarized(SCORES)), OwnMetrics())
    first = measuring.measured([Selection()], RowChoice(None))
    assert measuring.measured([Selection()], RowChoice(None)) is first
    assert measuring.measured([Selection()], RowChoice(None, bins=20)) is not first


def test_the_first_page_does_not_wait_for_what_other_views_need() -> None:
    code = (
        "import sys, numpy as np, calibdask as cd\n"
        "from calibdask.explore.summaries.page import SummaryPage\n"
        "from calibdask.explore.summaries.pool import Pool\n"
        "y = np.tile([0, 1], 50)\n"
        "summary = cd.summarize(y, np.full(100, 0.5), by={'site': y}, settings=['binary'])\n"
        "SummaryPage(Pool(summary), 'summary.zarr')\n"
        "print('sklearn' in sys.modules)\n"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_slices_that_expect_no_event_have_no_ratio() -> None:
    """Their gap may be certain, and is drawn in full colour."""
    value, low, high, score = np.array([[0.5, 0.1], [0.4, 0.05], [0.6, 0.2], [0.0, 0.4]])
    gaps = Gaps(value, low, high, score, np.array([100, 100]))
    ratio, least, most = RATIO_SCALE.ends(gaps)
    assert np.isnan([ratio[0], least[0], most[0]]).all()
    assert (ratio[1], least[1], most[1]) == pytest.approx((1.25, 1.125, 1.5))
    assert RATIO_SCALE.texts(ratio) == ["", "1.25"]
    assert RATIO_SCALE.size(ratio).tolist() == pytest.approx([np.log(10), np.log(1.25)])
