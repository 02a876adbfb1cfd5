"""Texts of others in all widgets of all pages: nothing that a browser takes for HTML holds them as they are."""

import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import panel as pn
import pytest
import xarray as xr
from bokeh.model import Model
from bokeh.models import Title

import calibdask as cd
from calibdask.estimators.metrics import Metrics
from calibdask.explore.cancellation import CancelToken
from calibdask.explore.cubes.drill_down import DrillDown
from calibdask.explore.cubes.page import CubePage
from calibdask.explore.html_widgets import html_pane, html_table, label_slider, multi_choice, table_frame
from calibdask.explore.server import PageContent
from calibdask.explore.summaries.own_metrics import OwnMetrics
from calibdask.explore.summaries.page import SummaryPage
from calibdask.explore.summaries.pool import pool_of
from calibdask.explore.summaries.selection_widgets import range_widget
from calibdask.markup import Html
from calibdask.storage.open_store import open_store
from calibdask.storage.summary import Summary
from tests.hostile import marked_text
from tests.hostile.marked_text import MARK, hostile

# Bokeh reads data frames in a way that pandas is to drop.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")

METRICS: Metrics = {hostile("metric"): cd.ECE(bins=7)}
# Properties of Bokeh's models that are shown as texts, in a browser too (`tests/browser/test_hostile_text.py`).
TEXTS = {
    ("Button", "label"),
    ("CategoricalTicker", "ticks"),
    ("CheckboxButtonGroup", "labels"),
    ("ColumnDataSource", "data"),
    ("CustomJS", "args"),
    ("CustomJSTickFormatter", "args"),
    ("CustomSelect", "options"),
    ("CustomSelect", "title"),
    ("CustomSelect", "value"),
    ("FileDownload", "filename"),
    ("FileDownload", "label"),
    ("HoverTool", "tooltips"),
    ("Label", "value"),
    ("LegendItem", "label"),
    ("LinearAxis", "axis_label"),
    ("LinearAxis", "major_label_overrides"),
    ("LogAxis", "axis_label"),
    ("MultiChoice", "title"),
    ("RadioButtonGroup", "labels"),
    ("RangeSlider", "title"),
    ("Select", "options"),
    ("Select", "title"),
    ("Select", "value"),
    ("TextInput", "title"),
    ("TextInput", "value"),
    ("Title", "text"),
}

# Those of them in which Bokeh finds formulas, and takes what is around them for HTML.
FORMULAS = {"axis_label", "major_label_overrides"}
TITLES = {("Title", "text"), ("RangeSlider", "title")}

NEVER_SHOWN = {"field", "name", "tags"}


def strings(value: Any) -> Iterator[str]:
    """All texts of a property, but for those of other models."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        # The key of a column of a table is an attribute that nobody sees.
        for part in (*value, *(of for name, of in value.items() if name != "field")):
            yield from strings(part)
    elif not isinstance(value, Model) and hasattr(value, "__iter__"):
        for part in value:
            yield from strings(part)


# The name of a model's class, that of a property, and a text of it.
Shown = tuple[str, str, str]


def shown_texts(*items: Any) -> set[Shown]:
    """All texts of the models of what is shown."""
    return {
        (type(model).__name__, name, text)
        for model in pn.Column(*items).get_root().references()
        for name, value in model.properties_with_values(include_defaults=False).items()
        if name not in NEVER_SHOWN
        for text in strings(value)
    }


def raw_properties(shown: set[Shown]) -> set[tuple[str, str]]:
    """The properties of models that hold an element of a hostile text: escaped once, or not at all."""
    # Panes of Panel are escaped once more on their way.
    return {
        (model, name) for model, name, text in shown if f"<b {MARK}" in (unescape(text) if model == "HTML" else text)
    }


def formulas(shown: set[Shown]) -> set[str]:
    """The texts in which Bokeh would find formulas."""
    return {
        text
        for model, name, text in shown
        if (name in FORMULAS or (model, name) in TITLES) and re.search(r"\$\$|\\[\[(]", text)
    }


def views_of_summary(path: Path, *views: str) -> Iterator[PageContent]:
    """The first view with two selections, after some of the others or all of them."""
    opened = open_store(str(path))
    assert isinstance(opened, Summary)
    shown = SummaryPage(pool_of(opened), hostile("file"), OwnMetrics.of(METRICS))
    page = shown.page()
    for view in views or shown.view.options[1:]:
        shown.view.value = view
        yield page
    shown.compare.value = True
    shown.view.value = shown.view.options[0]
    yield page


def views_of_cube(path: Path) -> Iterator[PageContent]:
    shown = CubePage(cd.open_cube(str(path)), hostile("file"), str(path))
    page = shown.page()
    yield page
    assert shown.view is not None
    cube = cd.open_cube(str(path))
    drill = DrillDown(cube, shown.reductions, None)
    numbers = shown.reductions.values_of(shown.view, CancelToken())
    at = {dim: numbers[dim].values[0] for dim in shown.view.kept}
    drill.point_at(at)
    drill.settle(shown.view, numbers)
    yield PageContent("", [], [drill.layout])
    drill.fail(at, hostile("error"))
    yield PageContent("", [], [drill.layout])
    for role in shown.controls.roles.values():
        role.value = "one label"
    yield page


PAGES: dict[str, Callable[[Path], Iterator[PageContent]]] = {
    "summary": views_of_summary,
    "classes": lambda path: views_of_summary(path, "decisions"),
    "groups": lambda path: views_of_summary(path, "groups by features"),
    "cube": views_of_cube,
}


@pytest.mark.parametrize("kind", PAGES)
def test_no_widget_takes_a_text_for_html(kind: str, tmp_path: Path) -> None:
    path = getattr(marked_text, kind)(tmp_path / "store.zarr")
    found: set[tuple[str, str]] = set()
    for page in PAGES[kind](path):
        shown = shown_texts(*page.side, *page.main)
        found |= raw_properties(shown)
        assert formulas(shown) == set()
    assert found - TEXTS == set()
    # The texts are there.
    assert len(found) > 3


LABELS = ["{x}", "{", "}", "{0}", "{label.__class__}", "{label:>9999999999999}", "{{7*7}}", "{label!r:{group}}"]


def test_names_are_no_formats_of_titles() -> None:
    names = xr.Dataset({"{y}": (("{x}", "z"), np.ones((len(LABELS), 2)))}, {"{x}": LABELS, "z": [1, 2]})
    for role in ("a line each", "along the x axis", "one label", "a panel each"):
        shown = CubePage(names, "file", None)
        page = shown.page()
        shown.controls.roles["{x}"].value = role
        root = pn.Column(*page.main).get_root()
    titles = [model.text for model in root.references() if isinstance(model, Title)]
    assert sorted(titles) == sorted(LABELS)


def test_sliders_show_labels_as_words() -> None:
    labels = np.array([f"2026-01-0{day} {hostile('day')}" for day in (1, 2, 3)], object)
    slider = range_widget(hostile("column"), labels).get_root()
    # What is above the handles would be HTML, and so would a title with a formula.
    assert slider.tooltips is False
    assert formulas(shown_texts(range_widget(hostile("column"), labels))) == set()
    assert slider.format.args["texts"] == labels.tolist()
    discrete = pn.Column(label_slider(dict.fromkeys(labels, 1))).get_root()
    assert [model.tooltips for model in discrete.references() if hasattr(model, "tooltips")] == [False]


def test_widgets_of_html_take_other_texts_for_words() -> None:
    text, label = hostile("text"), {hostile("option"): 1, "b": 2}
    frame = table_frame({text: [text], "cell": [Html("<i>{}</i>").format(text)], "plain": [text]})
    # Those of Panel would show elements of the texts, and this test would see it.
    remote = {"pagination": "remote", "show_index": False}
    for widget in (
        pn.pane.HTML(text),
        pn.widgets.Tabulator(frame, **remote),
        pn.widgets.MultiChoice(options=label),
        pn.widgets.DiscreteSlider(label=text, options=label),
    ):
        assert raw_properties(shown_texts(widget)) - TEXTS, widget
    pane, table = html_pane(text), html_table(frame, html=["cell"], **remote)
    box, slider = multi_choice(label, label="box"), label_slider(label, label=text)
    root = pn.Column(pane, table, box, slider)
    assert raw_properties(shown_texts(root)) <= TEXTS
    # What is replaced later is no different.
    pane.object, box.options, slider.value = Html("<i>{}</i>").format(text), {text: 1}, 2
    table.value = frame.rename(columns={text: hostile("other")})
    assert raw_properties(shown_texts(root)) <= TEXTS


@pytest.mark.parametrize(("pagination", "in_formatters"), [(None, False), ("local", True), ("remote", False)])
def test_cells_that_are_shown_as_html_are_escaped_unless_they_are_html(pagination: Any, in_formatters: bool) -> None:
    text = hostile("cell")
    # Texts of NumPy and pandas, and texts that had been HTML: their type is lost, so that they are escaped.
    frames = [
        table_frame({"cell": [text, Html("<i>{}</i>").format("a & b")]}),
        pd.DataFrame({"cell": [text, Html("<i>c</i>")]}, dtype="str"),
        pd.DataFrame({"cell": np.array([text, None], object)}),
    ]
    columns: dict[str, Any] = {"formatters": {"cell": {"type": "html"}}} if in_formatters else {"html": ["cell"]}
    table = html_table(frames[0], pagination=pagination, **columns)
    model = table.get_root()
    sent = []
    for frame in frames:
        table.value = frame
        sent += list(model.source.data["cell"])
    escaped = str(Html.escape(text))
    assert sent == [escaped, "<i>a &amp; b</i>", escaped, "&lt;i&gt;c&lt;/i&gt;", escaped, ""]
