"""The page of a summary without a browser: what its widgets, pictures and tables hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.explore.summaries import page as page_module
from calibdask.explore.summaries.figures import COLORS
from calibdask.explore.summaries.pools import Pool, Selection
from calibdask.explore.summaries.selecting import SelectionWidgets, shown_label, worded
from calibdask.explore.summaries.table import curve_frame, diagram_frame, metrics_frame, metrics_table
from calibdask.explore.summaries.worst import WorstFirst
from calibdask.explore.summaries.worst_table import _told
from calibdask.plot.look import OVER, UNDER

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
            monkeypatch.setattr(page_module, "later", lambda *_, **__: iter(()))
        page = page_module._SummaryPage(Pool(summary), "summary.zarr")
        page.page()
        return page

    return make


def sources(page: Any) -> list[dict[str, Any]]:
    """The columns of all panels, by selection."""
    return [source.data for panel in page._pictures._panels for layer in panel._layers for source in layer.values()]


def test_choosing_slices_changes_all_that_is_shown(page_of: Callable[..., Any]) -> None:
    summary = summary_of()
    page = page_of(summary, later=True)
    assert "3,000 rows" in page._head.object
    page._a._labels["country"].value = [1]
    page._a._ranges["day"].value = (0, 2)
    pooled = summary.isel(country=[1], day=slice(0, 3)).sum(["country", "day"])
    plain = cd.evaluate(pooled, metrics={"ece": cd.ECE(), "diagram": cd.ReliabilityDiagram()}, ci=0.95)
    assert f"{int(pooled.rows):,} rows" in page._head.object
    assert f"{float(plain.ece):.4f}" in page._numbers.object
    assert f"{float(plain.ece_low):.4f} to {float(plain.ece_high):.4f}" in page._numbers.object
    assert "…" not in page._numbers.object
    bins, curve = sources(page)
    np.testing.assert_array_equal(bins["outcome"], plain.diagram_outcome)
    np.testing.assert_array_equal(bins["height"], plain.diagram_count)
    assert set(bins["color"]) <= {OVER, UNDER}
    np.testing.assert_array_equal(np.isnan(curve["over"]) & np.isnan(curve["under"]), np.isnan(curve["reliability"]))
    assert np.isfinite(curve["reliability_band_low"]).any()
    assert page._busy.object == ""


def test_two_selections_have_one_colour_each(page_of: Callable[..., Any]) -> None:
    scores = xr.DataArray(np.stack([SCORES, SCORES**1.5]), dims=("model", "sample"), coords={"model": ["raw", "right"]})
    summary = cd.summarize(xr.DataArray(LABELS, dims="sample"), scores, by={"country": COUNTRY}, settings=["binary"])
    page = page_of(summary)
    assert "model raw" in page._head.object
    assert len(sources(page)) == 2
    page._compare.value = True
    assert "model right" in page._head.object
    first, second = (cd.evaluate(summary.isel(model=i).sum("country"), metrics=cd.ECE()).ece for i in (0, 1))
    assert f"{float(second - first):+.4f}" in page._numbers.object
    bins = sources(page)[:2]
    assert [set(each["color"]) for each in bins] == [{COLORS[0]}, {COLORS[1]}]
    assert max(each["size"].max() for each in bins) == pytest.approx(14)
    page._compare.value = False
    assert len(sources(page)) == 2


def test_a_part_is_compared_with_all_others(page_of: Callable[..., Any]) -> None:
    summary = summary_of()
    page = page_of(summary)
    page._compare.value = True
    assert page._head.object.count("all rows: <b>3,000 rows</b>") == 2
    page._a._labels["country"].value = [1]
    assert "all rows but country BE" in page._head.object
    pooled = [summary.isel(country=places).sum(["country", "day"]) for places in ([1], [0, 2], [0, 1, 2])]
    first, rest, every = (float(cd.evaluate(each, metrics=cd.ECE()).ece) for each in pooled)
    assert f"{rest - first:+.4f}" in page._numbers.object
    page._b.kind.value = "all rows"
    assert f"{every - first:+.4f}" in page._numbers.object
    assert not page._b._slices.visible
    page._b.kind.value = "chosen"
    page._b.chosen._labels["country"].value = [0, 2]
    assert page._b._slices.visible
    assert "country AT, CH" in page._head.object
    assert f"{rest - first:+.4f}" in page._numbers.object


def test_classes_have_a_panel_each(page_of: Callable[..., Any]) -> None:
    matrix = RNG.dirichlet(np.ones(3), ROWS)
    classes = (matrix.cumsum(1) > RNG.random((ROWS, 1))).argmax(1)
    page = page_of(cd.summarize(classes, matrix, by={"country": COUNTRY}))
    assert len(page._pictures._panels) == 2
    page._setting.value = "classwise"
    titles = [panel._upper.title.text for panel in page._pictures._panels]
    assert [title.split(" · ")[0] for title in titles] == ["class 0", "class 1", "class 2"]
    page._setting.value = 1
    assert len(page._pictures._panels) == 2


def test_no_rows_are_said_and_mended(page_of: Callable[..., Any]) -> None:
    page = page_of(summary_of())
    page._a._ranges["day"].value = (0, 1)
    page._a._labels["day"].value = [4]
    assert "There are no rows" in page._head.object
    assert not page._picture.visible
    assert page._numbers.object == ""
    page._a._labels["day"].value = []
    assert page._picture.visible
    assert "ece" in page._numbers.object


def test_summaries_that_cannot_be_pooled_say_why(page_of: Callable[..., Any]) -> None:
    summary = summary_of()
    summary["class_1_count"] = summary["class_1_count"].where(summary["country"] != "BE")
    page = page_of(summary)
    assert "whole numbers" in page._head.object
    page._a._labels["country"].value = [0]
    assert "ece" in page._numbers.object


def test_a_line_of_the_worst_selects_its_slice(page_of: Callable[..., Any]) -> None:
    summary = summary_of()
    page = page_of(summary)
    # At first one dimension tells the slices.
    assert "day" not in page._worst.frame()
    assert len(page._worst.frame()) == 3
    page._worst._dims.value = ["country", "day"]
    frame = page._worst.frame()
    assert page._worst._words.object.count("18 slices, in the order") == 1
    assert set(next(iter(page._worst._table)).value["day"]) == {f"2026-01-0{day}" for day in range(1, 7)}
    plain = cd.worst_slices(cd.evaluate(summary, metrics={"ece": cd.ECE()}, ci=0.95), "ece", 18)
    assert frame["country"].tolist() == plain["country"].values.tolist()
    page._worst._choose(page._worst._order[0])
    assert page._a.selection() == Selection(
        tuple((dim, (int(np.flatnonzero(summary[dim] == plain[dim][0])[0]),)) for dim in ("country", "day"))
    )
    # All slices are still in the order: it leaves out no label of its own dimensions.
    assert len(page._worst.frame()) == 18
    page._worst._dims.value = ["country"]
    assert len(page._worst.frame()) == 3
    page._worst._dims.value = []
    assert "Choose" in page._worst._words.object


def test_summaries_without_slices_have_a_page(page_of: Callable[..., Any]) -> None:
    page = page_of(cd.summarize(LABELS, SCORES, settings=["binary"]))
    assert "all rows: <b>3,000 rows</b>" in page._head.object
    assert page._worst.listed == []
    assert set(page._widgets) == {"setting", "bins", "binning", "compare"}


def test_names_of_slices_are_no_markup(page_of: Callable[..., Any]) -> None:
    page = page_of(summary_of(place=np.where(COUNTRY == "AT", "<script>x</script>", COUNTRY)))
    page._a._labels["place"].value = [0]
    assert "&lt;script&gt;" in page._head.object
    assert "<script>" not in page._head.object


def test_selections_in_words() -> None:
    pool = Pool(summary_of())
    assert worded(pool, Selection()) == "all rows"
    some = Selection((("country", (0, 2)), ("day", (1, 2, 3))))
    assert worded(pool, some) == "country AT, CH · day 2026-01-02 to 2026-01-04"
    assert worded(pool, Selection((("country", ()),))) == "country none"
    sites = Pool(summary_of(site=[f"s{i % 9}" for i in range(ROWS)]))
    assert worded(sites, Selection((("site", tuple(range(6))),))) == "site s0, s1, s2, s3 and 2 more"
    assert shown_label(np.datetime64("2026-01-01T06:30")) == "2026-01-01T06:30"
    assert shown_label("2026-01-06 00:00:00") == shown_label(np.datetime64("2026-01-06", "ns")) == "2026-01-06"


def test_words_say_what_is_certain() -> None:
    worst = WorstFirst(Pool(summary_of()), ["country", "day"], Selection(), cd.ECE(), None)
    while not worst.with_intervals:
        worst.advance(0)
    assert _told(worst) == (
        f"18 slices. Intervals have been computed for {worst.with_intervals} of them; the order of the first "
        f"{worst.settled} cannot change any more. A click on a line selects its slice."
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
        widgets._ranges["when"].value = (1, 2)
        widgets._labels["when"].value = [0, 2]
        assert widgets.selection() == Selection((("when", (2,)),))


def test_tables_to_save() -> None:
    summary = summary_of()
    results = [
        cd.evaluate(each, metrics={"ece": cd.ECE(), "diagram": cd.ReliabilityDiagram(), "curve": cd.ReliabilityCurve()})
        for each in (summary.sum(["country", "day"]), summary.isel(country=0).sum("day"))
    ]
    metrics = metrics_frame(results, ["all", "AT"])
    assert metrics["selection"].tolist() == ["all", "AT"]
    assert metrics["value"].tolist() == [float(each.ece) for each in results]
    bins = diagram_frame(results, ["all", "AT"])
    assert len(bins) == 30
    np.testing.assert_array_equal(bins["outcome"][15:], results[1].diagram_outcome)
    curve = curve_frame(results, ["all", "AT"])
    np.testing.assert_array_equal(curve["score"][:301], results[0].curve_score)
    np.testing.assert_array_equal(curve["reliability"][301:], results[1].curve_reliability)
    assert "0 to" not in metrics_table(results, {"ece"})
    assert metrics_table(results, {"ece"}).count("…") == 2
