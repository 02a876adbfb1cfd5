"""What holds every page of the explorer: which store gets which page, links, files."""

import io
import json
import logging
import re
import sys
import warnings
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import numpy as np
import pandas as pd
import panel as pn
import pytest
import xarray as xr
from bokeh.document import Document
from bokeh.util.warnings import BokehUserWarning
from panel.io.location import Location
from tornado.websocket import WebSocketClosedError

import calibdask as cd
from calibdask.cli import main
from calibdask.explore.application import page_of
from calibdask.explore.downloads import downloads
from calibdask.explore.server import PageContent, filter_messages, framed, is_relevant
from calibdask.explore.summaries import answer_page, overview
from calibdask.explore.url_state import bind_to_url
from calibdask.storage.writers import write_dataset


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Any:
    location = Location()
    monkeypatch.setattr(type(pn.state), "location", property(lambda _: location))
    return location


def widgets() -> dict[str, Any]:
    return {
        "model": pn.widgets.Select(options=["a", "b"], value="a"),
        "size": pn.widgets.Select(options={"thirty": 30, "all": None}, value=30),
        "days": pn.widgets.MultiChoice(options=["mon", "tue", "wed"], value=[]),
        "years": pn.widgets.MultiChoice(options=[2023, 2024], value=[2024]),
        "quantile": pn.widgets.FloatInput(value=0.95),
        "logarithmic": pn.widgets.Checkbox(value=True),
        "range": pn.widgets.RangeSlider(start=0, end=9, value=(0, 9)),
        "period": pn.widgets.DateRangePicker(value=(date(2024, 1, 1), date(2024, 2, 1))),
        "words": pn.widgets.TextInput(value=""),
        "version": pn.widgets.Select(options=["1.1", "1.10", "007", "true"], value="1.1"),
    }


CHANGED: dict[str, Any] = {
    "model": "b",
    "size": None,
    "days": ["tue", "mon"],
    "years": [],
    "quantile": 0.5,
    "logarithmic": False,
    "range": (2, 5),
    "period": (date(2024, 1, 3), date(2024, 1, 9)),
    "words": "100",
    "version": "007",
}


def test_all_of_a_view_at_once_and_back_to_defaults(address: Any) -> None:
    bound = widgets()
    bind_to_url(bound)
    for name, value in CHANGED.items():
        bound[name].value = value
    restored = widgets()
    bind_to_url(restored)
    assert list(parse_qs(address.search[1:])) == list(CHANGED)
    assert {name: widget.value for name, widget in restored.items()} == CHANGED
    assert [type(widget.value) for widget in restored.values()] == [type(value) for value in CHANGED.values()]
    for name, widget in widgets().items():
        bound[name].value = widget.value
    assert address.search == ""


@pytest.mark.parametrize(
    "query",
    [
        {"model": "c"},
        {"size": "31"},
        {"days": '["sun"]'},
        {"days": "mon"},
        {"quantile": "half"},
        {"logarithmic": "[]"},
        {"range": "3"},
        {"range": '["x", "y"]'},
        {"period": '["no", "dates"]'},
        {"quantile": "NaN"},
        {"quantile": "1e999"},
        {"range": "[0, Infinity]"},
        {"words": '{"a": 1}'},
        {"years": '{"2023": 1}'},
        *({name: "[" * 20_000} for name in ("years", "quantile", "range", "words")),
        {"nothing": "1"},
    ],
)
def test_what_does_not_fit_is_left_out(address: Any, query: dict[str, str]) -> None:
    address.search = "?" + urlencode({"words": json.dumps("kept"), **query})
    bound = widgets()
    ignored = bind_to_url(bound)
    (name,) = query
    kept = {} if name == "words" else {"words": "kept"}
    assert {name: widget.value for name, widget in bound.items()} == {
        **{name: widget.value for name, widget in widgets().items()},
        **kept,
    }
    assert [message.startswith(f"This link asks for {name} ") for message in ignored] == [True] * (name in bound)
    assert {*parse_qs(address.search[1:])} == ({*kept} if ignored else {name, "words"})


def test_tables_are_saved_as_they_are_when_the_button_is_used() -> None:
    frame = pd.DataFrame({"size": [30, 39], "error": [0.1, 0.2]})
    frames = [frame]
    buttons = downloads("cube", {"figure": lambda: frames[-1]}, pn.Column())
    first, png, svg = buttons
    assert (first.filename, png.label, svg.label) == ("cube-figure.csv", "PNG", "SVG")
    frames.append(frame * 2)
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(first.callback().getvalue())), frame * 2)


@pytest.mark.parametrize("name", ["absent.zarr", "notes.md", "rows.npz", "texts.nc", "broken.nc", "broken.zarr"])
def test_what_cannot_be_shown_is_one_line(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    if name == "rows.npz":
        np.savez(path, labels=[0, 1], scores=[0.1, 0.2])
    elif name == "texts.nc":
        xr.Dataset({"word": ("row", ["a", "b"])}).to_netcdf(path)
    elif name == "broken.zarr":
        path.mkdir()
        (path / "zarr.json").write_text("{")
    elif name != "absent.zarr":
        path.write_text("no")
    assert main(["explore", str(path), "--no-browser"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert name in err
    assert ("calibdask summarize" in err) == (name in ("rows.npz", "texts.nc"))


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_start_is_printed_on_terminals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    store = str(tmp_path / "nothing.zarr")
    assert main(["explore", store]) != 0
    assert (f"{store}: starting ...\n" in capsys.readouterr().err) == is_terminal


def test_only_what_nobody_can_mend_is_kept_off_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_shown(error: Exception | None) -> bool:
        given = (type(error), error, None) if error else None
        return is_relevant(logging.LogRecord("asyncio", logging.ERROR, "", 0, "Task exception", None, given))

    assert [is_shown(error) for error in (WebSocketClosedError(), ValueError(), None)] == [False, True, True]
    monkeypatch.setattr(logging.getLogger("asyncio"), "filters", [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filter_messages()
        warnings.warn("reference already known 'p1'", BokehUserWarning, stacklevel=1)
        warnings.warn("another", BokehUserWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["another"]
    assert is_relevant in logging.getLogger("asyncio").filters


def test_a_session_without_a_page_names_no_server_elsewhere() -> None:
    """Such as one that begins with the connection of a browser that took longer than sessions wait."""
    document = Document()
    page = PageContent("sales", [pn.widgets.Select(label="Bins", options=[10, 15])], [pn.pane.HTML("words")])
    framed(page).server_doc(document)
    addresses = [model.url for root in document.roots for model in root.references() if hasattr(model, "url")]
    assert any("static/extensions/panel/" in address for address in addresses)
    assert [address for address in addresses if "//" in address] == []


def test_an_origin_names_a_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "s.zarr", "--origin", "example.org:80"]) == 2
    assert "--port has to be given" in capsys.readouterr().err


def test_every_store_has_its_page(tmp_path: Path) -> None:
    summary = cd.summarize([0, 1, 1, 0], [0.1, 0.8, 0.7, 0.4], by={"day": ["a", "a", "b", "b"]}, settings=["binary"])
    write_dataset(summary, tmp_path / "summary.zarr")
    summary.to_netcdf(tmp_path / "summary.nc")
    cd.evaluate(summary, metrics=cd.ECE()).to_netcdf(tmp_path / "result.nc")
    kinds = {name: page_of(str(tmp_path / name)).func.__name__ for name in ("summary.zarr", "summary.nc", "result.nc")}  # type: ignore[attr-defined]
    assert kinds == {"summary.zarr": "summary_page", "summary.nc": "summary_page", "result.nc": "cube_page"}


def test_colours_mean_the_same_in_reports_and_in_the_explorer() -> None:
    """Decisions have three colours, and the two sides two others, on light paper and on dark."""
    sheets = [
        (files("calibdask") / folder / name).read_text(encoding="utf-8")
        for folder, name in (("explore", "frame.css"), ("render", "page.css"))
    ]
    for word in ("met", "broken", "undecided"):
        light, dark = (re.findall(rf"--{word}: (#\w+)", sheet)[:2] for sheet in sheets)
        assert light == dark
        assert len(light) == 2
    for side in ("over", "under"):
        (explored,), reported = (re.findall(rf"--{side}: (#\w+)", sheet) for sheet in sheets)
        assert reported == [explored]
    # A line without sides has the colour of neither; tiles have those of decisions.
    assert "var(--over" not in answer_page._CSS
    assert "var(--under" not in answer_page._CSS
    assert "var(--undecided)" in overview._STYLE
