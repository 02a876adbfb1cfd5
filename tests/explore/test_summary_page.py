"""The page of a summary without a browser: what its widgets, pictures and tables hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.estimators.smooth.adaptive import AdaptiveDiagram
from calibdask.explore.summaries import page as page_module
from calibdask.explore.summaries.metrics_table import curve_frame, diagram_frame, metrics_frame, metrics_table
from calibdask.explore.summaries.page import SummaryPage
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.reliability_panel import COLORS
from calibdask.explore.summaries.selection_widgets import SelectionWidgets, label_text, selection_text
from calibdask.explore.summaries.slice_ranking import RankingMetric, SliceRanking
from calibdask.explore.summaries.slice_table import ranking_text
from calibdask.plot.style import OVER, UNDER

# Panel's table (1.9.4) still renumbers lines in the way that pandas is about to give up.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")

RNG = np.random.default_rng(2)
ROWS = 3000
SCORES = RNG.random(ROWS)
LABELS = (RNG.random(ROWS) < SCORES**1.5).astype(int)
COUNTRY = RNG.choice(["AT", "BE", "CH"], ROWS)
DAY = np.datetime64("2026-01-01") + RNG.integers(0, 6, ROWS)


def summary_of(**by: Any) -> xr.Dataset:
    return cd.summarize(LABELS, SCORES, by=by or {"country": COUNTRY, "day": DAY}, settings=["binary"])


@pytest.fixture
def page_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes pages whose work is done at once; without ``later``, what takes longer is left out."""

    def make(summary: xr.Dataset, *, later: bool = False) -> Any:
        if not later:
            monkeypatch.setattr(page_module, "refinements", lambda *_, **__: iter(()))
        page = SummaryPage(Pool(summary), "summary.zarr")
        page.page()
        return page

    return make


def sources(page: Any) -> list[dict[str, Any]]:
    """The columns of all panels, by selection, without the bars of rows."""
    layers = [layer for panel in page.panel_grid.panels for layer in panel.layers]
    return [source.data for layer in layers for name, source in layer.items() if name != "bars"]


def test_choosing_slices_changes_all_that_is_shown(page_of: Callable[..., Any]) -> None:
    summary = summary_of()
    page = page_of(summary, later=True)
    assert "3,000 rows" in page.head.object
    page.first.labels["country"].value = [1]
    page.first.ranges["day"].value = (0, 2)
    pooled = summary.isel(country=[1], day=slice(0, 3)).sum(["country", "day"])
    marks = AdaptiveDiagram(bins=15)
    plain = cd.evaluate(pooled, metrics={"ece": cd.ECE(), "diagram": marks}, ci=0.95)
    assert f"{int(pooled.rows):,} rows" in page.head.object
    assert f"{float(plain.ece):.4f}" in page.numbers.object
    assert f"{float(plain.ece_low):.4f} to {float(plain.ece_high):.4f}" in page.numbers.object
    assert "…" not in page.numbers.object
    bins, curve = sources(page)
    filled = plain.diagram_count.values > 0
    np.testing.assert_array_equal(bins["frequency"], plain.diagram_outcome[filled])
    np.testing.assert_array_equal(bins["rows"], plain.diagram_count[filled])
    for layer in (panel.layers[0] for panel in page.panel_grid.panels):
        np.testing.assert_array_equal(layer["bars"].data["height"], plain.diagram_bars)
    assert set(bins["color"]) <= {OVER, UNDER}
    np.testing.assert_array_equal(np.isnan(curve["over"]) & np.isnan(curve["under"]), np.isnan(curve["frequency"]))
    assert np.isfinite(curve["low"]).any()
    assert page.busy.object == ""


def test_figures_are_drawn_anew_only_where_they_are_others(
    page_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser lays a figure out again for each ticker that is another, which takes longer than all the rest."""
    page = page_of(summary_of(), later=True)
    figures = [panel.upper for panel in page.panel_grid.panels]
    tickers = [axis.ticker for figure in figures for axis in (*figure.xaxis, *figure.yaxis)]
    assert [grid.ticker for figure in figures for grid in (*figure.xgrid, *figure.ygrid)] == tickers
    assert all(ticker.ticks for ticker in tickers)
    drawn: list[int] = []
    show = page.panel_grid.show
    monkeypatch.setattr(page.panel_grid, "show", lambda results: [drawn.append(1), show(results)])
    page.first.labels["country"].value = [1]
    # The intervals that have followed are in the table alone.
    assert "…" not in page.numbers.object
    assert len(drawn) == 1
    assert [axis.ticker for figure in figures for axis in (*figure.xaxis, *figure.yaxis)] == tickers


def test_wide_cells_will_do(page_of: Callable[..., Any]) -> None:
    summary = cd.summarize(LABELS, SCORES, by={"country": COUNTRY, "day": DAY}, settings=["binary"], step=0.01)
    page = page_of(summary, later=True)
    page.first.labels["country"].value = [1]
    here = COUNTRY == "BE"
    gap = float(cd.evaluate(LABELS[here], SCORES[here], cd.MeanGap()).mean_gap)
    assert f"{abs(gap):.4f}" in page.numbers.object
    assert "is not stored; available are" not in "".join((page.numbers.object, page.head.object, page.busy.object))


def test_two_selections_have_one_colour_each(page_of: Callable[..., Any]) -> None:
    scores = xr.DataArray(np.stack([SCORES, SCORES**1.5]), dims=("model", "sample"), coords={"model": ["raw", "right"]})
    summary = cd.summarize(xr.DataArray(LABELS, dims="sample"), scores, by={"country": COUNTRY}, settings=["binary"])
    page = page_of(summary)
    assert "model raw" in page.head.object
    assert len(sources(page)) == 2
    page.compare.value = True
    assert "model right" in page.head.object
    first, second = (cd.evaluate(summary.isel(model=i).sum("country"), metrics=cd.ECE()).ece for i in (0, 1))
    assert f"{float(second - first):+.4f}" in page.numbers.object
    bins = sources(page)[:2]
    assert [set(columns["color"]) for columns in bins] == [{COLORS[0]}, {COLORS[1]}]
    assert max(columns["size"].max() for columns in bins) == pytest.approx(14)
    page.compare.value = False
    assert len(sources(page)) == 2


def test_a_part_is_compared_with_all_others(page_of: Callable[..., Any]) -> None:
    summary = summary_of()
    page = page_of(summary)
    page.compare.value = True
    assert page.head.object.count("all rows: <b>3,000 rows</b>") == 2
    page.first.labels["country"].value = [1]
    assert "all rows but country BE" in page.head.object
    pooled = [summary.isel(country=indices).sum(["country", "day"]) for indices in ([1], [0, 2], [0, 1, 2])]
    first, rest, every = (float(cd.evaluate(summed, metrics=cd.ECE()).ece) for summed in pooled)
    assert f"{rest - first:+.4f}" in page.numbers.object
    page.second.kind.value = "all rows"
    assert f"{every - first:+.4f}" in page.numbers.object
    assert not page.second.slices.visible
    page.second.kind.value = "chosen"
    page.second.chosen.labels["country"].value = [0, 2]
    assert page.second.slices.visible
    assert "country AT, CH" in page.head.object
    assert f"{rest - first:+.4f}" in page.numbers.object


def test_classes_have_a_panel_each(page_of: Callable[..., Any]) -> None:
    matrix = RNG.dirichlet(np.ones(3), ROWS)
    classes = (matrix.cumsum(1) > RNG.random((ROWS, 1))).argmax(1)
    page = page_of(cd.summarize(classes, matrix, by={"country": COUNTRY}))
    assert len(page.panel_grid.panels) == 2
    page.setting.value = "classwise"
    titles = [panel.upper.title.text for panel in page.panel_grid.panels]
    assert [title.split(" · ")[0] for title in titles] == ["class 0", "class 1", "class 2"]
    page.setting.value = 1
    assert len(page.panel_grid.panels) == 2


def test_no_rows_are_said_and_mended(page_of: Callable[..., Any]) -> None:
    page = page_of(summary_of())
    page.first.ranges["day"].value = (0, 1)
    page.first.labels["day"].value = [4]
    assert "There are no rows" in page.head.object
    assert not page.plots.visible
    assert page.numbers.object == ""
    page.first.labels["day"].value = []
    assert page.plots.visible
    assert "ece" in page.numbers.object


def test_summaries_that_cannot_be_pooled_say_why(page_of: Callable[..., Any]) -> None:
    summary = summary_of()
    summary["class_1_count"] = summary["class_1_count"].where(summary["country"] != "BE")
    page = page_of(summary)
    assert "whole numbers" in page.head.object
    page.first.labels["country"].value = [0]
    assert "ece" in page.numbers.object


def test_a_line_of_the_worst_selects_its_slice(page_of: Callable[..., Any]) -> None:
    summary = summary_of()
    page = page_of(summary)
    # At first one dimension tells the slices.
    assert "day" not in page.slices.frame()
    assert len(page.slices.frame()) == 3
    page.slices.dims.value = ["country", "day"]
    frame = page.slices.frame()
    assert page.slices.note.object.count("18 slices, ordered by") == 1
    lines = next(iter(page.slices.table)).value["slice"]
    assert {line.split(" · ")[1] for line in lines} == {f"2026-01-0{day}" for day in range(1, 7)}
    plain = cd.worst_slices(cd.evaluate(summary, metrics={"ece": cd.ECE()}, ci=0.95), "ece", 18)
    assert frame["country"].tolist() == plain["country"].values.tolist()
    page.slices.choose_line(0)
    assert page.first.selection() == Selection(
        tuple((dim, (int(np.flatnonzero(summary[dim] == plain[dim][0])[0]),)) for dim in ("country", "day"))
    )
    # All slices are still in the order: it leaves out no label of its own dimensions.
    assert len(page.slices.frame()) == 18
    page.slices.dims.value = ["country"]
    assert len(page.slices.frame()) == 3
    page.slices.dims.value = []
    assert "Choose" in page.slices.note.object


def test_summaries_without_slices_have_a_page(page_of: Callable[..., Any]) -> None:
    page = page_of(cd.summarize(LABELS, SCORES, settings=["binary"]))
    assert "all rows: <b>3,000 rows</b>" in page.head.object
    assert page.slices.listed == []
    assert {"setting", "bins", "binning", "limit", "compare", "view"} <= set(page.widgets)
    assert list(page.view.options) == ["all rows", "decisions", "recalibration"]


def test_selections_in_words() -> None:
    pool = Pool(summary_of())
    assert selection_text(pool, Selection()) == "all rows"
    part = Selection((("country", (0, 2)), ("day", (1, 2, 3))))
    assert selection_text(pool, part) == "country AT, CH · day 2026-01-02 to 2026-01-04"
    assert selection_text(pool, Selection((("country", ()),))) == "country none"
    sites = Pool(summary_of(site=[f"s{i % 9}" for i in range(ROWS)]))
    assert selection_text(sites, Selection((("site", tuple(range(6))),))) == "site s0, s1, s2, s3 and 2 more"
    assert label_text(np.datetime64("2026-01-01T06:30")) == "2026-01-01T06:30"
    assert label_text("2026-01-06 00:00:00") == label_text(np.datetime64("2026-01-06", "ns")) == "2026-01-06"


def test_words_say_what_is_certain() -> None:
    worst = SliceRanking(Pool(summary_of()), ["country", "day"], Selection(), RankingMetric(cd.ECE(), None))
    while not worst.with_intervals:
        worst.advance(0)
    assert ranking_text(worst) == (
        f"18 slices. Intervals have been computed for {worst.with_intervals} of them; the order of the first "
        f"{worst.settled} is final. Intervals are simultaneous over 18 slices (Bonferroni). "
        "Click a row to select its slice."
    )


@pytest.mark.parametrize(
    ("labels", "ordered"),
    [
        (np.arange(5), True),
        (np.array([0.5, 1.5, 2.5]), True),
        (np.array(["2026-01", "2026-02", "2026-03"]), True),
        (np.array(["a", "b", "c"]), False),
        (np.array([1, 2]), False),
    ],
)
def test_periods_are_for_what_is_ordered(labels: np.ndarray, ordered: bool) -> None:
    by = labels[np.arange(ROWS) % len(labels)]
    widgets = SelectionWidgets(Pool(summary_of(when=by)), "a")
    assert ("a-when-range" in widgets.widgets) == ordered
    if ordered:
        widgets.ranges["when"].value = (1, 2)
        widgets.labels["when"].value = [0, 2]
        assert widgets.selection() == Selection((("when", (2,)),))


def test_tables_to_save() -> None:
    summary = summary_of()
    results = [
        cd.evaluate(
            pooled, metrics={"ece": cd.ECE(), "diagram": cd.ReliabilityDiagram(), "curve": cd.ReliabilityCurve()}
        )
        for pooled in (summary.sum(["country", "day"]), summary.isel(country=0).sum("day"))
    ]
    metrics = metrics_frame(results, ["all", "AT"])
    assert metrics["selection"].tolist() == ["all", "AT"]
    assert metrics["value"].tolist() == [float(result.ece) for result in results]
    bins = diagram_frame(results, ["all", "AT"])
    assert len(bins) == 30
    np.testing.assert_array_equal(bins["outcome"][15:], results[1].diagram_outcome)
    curve = curve_frame(results, ["all", "AT"])
    np.testing.assert_array_equal(curve["score"][:301], results[0].curve_score)
    np.testing.assert_array_equal(curve["reliability"][301:], results[1].curve_reliability)
    assert "0 to" not in metrics_table(results, {"ece"})
    assert metrics_table(results, {"ece"}).count("…") == 2
