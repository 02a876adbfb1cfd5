"""The view of groups without a browser: what it shows of an audit, and how lines lead from group to group."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.explore.summaries.audited_groups import AuditedGroups, GroupsQuery
from calibdask.explore.summaries.group_table import GroupTable
from calibdask.explore.summaries.page import SummaryPage
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.results.format import points_of
from tests.explore.shown_page import ShownPage

# Bokeh calls pandas so.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")

VIEW = "groups by features"


def rows(n: int = 30_000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"score": rng.beta(2, 3, n), "age": rng.integers(18, 90, n).astype(float)})
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame["<b>country"] = rng.choice(["be", "fr", "<i>lu"], n)
    frame["phone"] = rng.random(n) < 0.4
    off = (frame.age > 75) & frame.phone
    frame["label"] = (rng.random(n) < np.where(off, 0.6 * frame.score, frame.score)).astype(int)
    return frame


@pytest.fixture(scope="module")
def summary() -> xr.Dataset:
    return cd.summarize(rows(), features=["age", "<b>country", "phone"], depth=3, score_cells=40)


def page_of(summary: xr.Dataset) -> tuple[SummaryPage, ShownPage]:
    made = SummaryPage(Pool(summary), "s.zarr")
    made.view.value = VIEW
    return made, ShownPage(made.page(), made.widgets)


def lines(table: GroupTable) -> list[str]:
    return [] if not table.box.objects else table.box[0].value.iloc[:, 0].tolist()


def test_it_shows_the_audit_and_leads_from_group_to_group(summary: xr.Dataset) -> None:
    made, page = page_of(summary)
    groups = made.groups
    assert groups is not None
    result = cd.audit(summary)
    assert result.attrs["conclusion"].replace("(-", "(−").replace(">", "&gt;") in page.text
    described = result.segment[result.described].values.tolist()
    assert groups.busy.object == ""
    assert lines(groups.ranked) == described == ["age > 75, phone = True"]
    page.choose(audit_groups="all")
    assert lines(groups.ranked) == result.segment.values.tolist()
    # The first group is selected; a click leads to what it is part of, and back to its parts.
    assert groups.group.value == described[0]
    assert set(lines(groups.wholes)) == {"age > 75", "phone = True"}
    assert all(described[0].split(", ")[0] in text and text.count(",") == 2 for text in lines(groups.parts))
    groups.wholes.choose_line(lines(groups.wholes).index("age > 75"))
    assert groups.group.value == "age > 75"
    assert described[0] in lines(groups.parts)
    assert lines(groups.wholes) == ["all rows"]
    page.choose(column="age")
    assert lines(groups.values)[-2:] == ["age > 75", "age missing"]
    groups.values.choose_line(0)
    assert groups.group.value == lines(groups.values)[0]
    shown = groups.values.box[0].value
    gaps = [100 * float(result.gap.sel(segment=text)) for text in lines(groups.values)]
    # With the minus sign of pages; what is saved has numbers.
    assert shown.gap.tolist() == [f"{gap:+.2f}".replace("-", "−") for gap in gaps]
    assert groups.frame().gap.dtype == np.float64
    page.choose(audit_least=10_000, audit_depth=1, audit_alpha=0.01)
    assert set(groups.frame().segment) == set(cd.audit(summary, depth=1, min_rows=10_000).segment.values.tolist())
    assert "<b>country" not in page.text
    assert "<i>lu" not in page.text


def test_the_diagram_is_that_of_the_rows(summary: xr.Dataset) -> None:
    frame = rows()
    groups = AuditedGroups.of(Pool(summary), GroupsQuery(Selection(), 2, 100, 0.05))
    line = groups.texts.index("age missing, phone = True")
    bins = groups.bins(line)
    here = frame[frame.age.isna() & frame.phone]
    assert bins.rows == len(here)
    assert bins.count.size <= 15
    assert bins.mean_score == pytest.approx(here.score.mean(), abs=1e-9)
    assert bins.frequency == pytest.approx(here.label.mean(), abs=1e-12)
    for lower, upper, count, outcome in zip(bins.lower, bins.upper, bins.count, bins.outcome, strict=True):
        inside = here[(here.score > lower) & (here.score <= upper)]
        assert (len(inside), inside.label.mean()) == (count, pytest.approx(outcome))
    assert ((bins.low <= bins.outcome) & (bins.outcome <= bins.high)).all()


def test_groups_of_the_same_text_have_their_own_numbers() -> None:
    """A category may look like the condition that it is."""
    frame = rows(4000)
    values = np.random.default_rng(5).choice(["b", "b, c = d"], len(frame))
    further = {"a": values, "c": np.where(frame.phone, "d", "e")}
    made, page = page_of(cd.summarize(frame.label, frame.score, features=further, score_cells=20))
    page.choose(audit_groups="all")
    groups = made.groups
    assert groups is not None
    table = groups.frame()
    same = table.index[table.segment == "a = b, c = d"].tolist()
    assert len(same) == 2
    for line in same:
        groups.ranked.choose_line(line)
        assert f"{table['rows'][line]:,} rows" in groups.selected.object
        gap, low, high = points_of(*(float(table[name][line]) for name in ("gap", "gap_low", "gap_high")))
        assert f"gap {gap} points, {low} to {high}" in groups.selected.object
        assert "<h2>a = b, c = d</h2>" in groups.selected.object
    assert table["rows"][same[0]] != table["rows"][same[1]]


def test_slices_are_selected(summary: xr.Dataset) -> None:
    frame = rows()
    days = {day: cd.summarize(frame[at::2], cuts=summary) for at, day in enumerate(("2026-11-01", "2026-11-02"))}
    both = cd.merge(*(one.expand_dims(day=[day]) for day, one in days.items()))
    made, page = page_of(both)
    assert made.groups is not None
    assert "of 30,000 rows" in page.text
    made.first.choose({"day": 1})
    assert "of 15,000 rows" in page.text
    expected = cd.audit(days["2026-11-02"])
    assert np.array_equal(made.groups.frame().gap, expected.gap)


def test_summaries_without_features_have_no_such_view() -> None:
    made = SummaryPage(Pool(cd.summarize([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8])), "s.zarr")
    assert made.groups is None
    assert VIEW not in made.view.options
