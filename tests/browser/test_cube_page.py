"""The page of a cube in a real browser: what is chosen is what is drawn, down to a cell."""

import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from tests.explore.explored_study import ESTIMATORS, Estimates

pytestmark = pytest.mark.browser

# What the figures hold that the browser has drawn: points by line, of all panels.
_DRAWN = """() => {
  const found = []
  const walk = (view) => {
    const points = view.model.type === "GlyphRenderer" && view.model.glyph.type === "Scatter"
    const data = points ? view.model.data_source.data : {}
    if ("line" in data)
      for (let i = 0; i < data.line.length; i++) found.push([data.line[i], data.along[i], data.value[i]])
    for (const child of view.children()) walk(child)
  }
  for (const view of Bokeh.index) walk(view)
  return found
}"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cubes") / "estimates.zarr"
    assert cd.run(Estimates(broken="linear"), path).failed == 1
    return path


@pytest.fixture
def errors(store: Path) -> xr.DataArray:
    """Absolute errors of all cells that are done."""
    cube = cd.open_cube(str(store)).load()
    error = abs(cube.estimate.astype(float) - cube.truth.sel(norm="l1", drop=True))
    return error.where(cube.status == 1)


def choose(page: Any, label: str, value: str) -> None:
    """Choose a value of a select box by what stands above it."""
    page.get_by_label(label, exact=True).select_option(value)


def drawn(page: Any, expected: xr.DataArray, line: str, x: str) -> None:
    """Wait until the figures show these numbers, and no others."""
    wanted = {
        (str(a), str(b)): float(expected.sel({line: a, x: b}))
        for a in expected[line].values
        for b in expected[x].values
    }
    # A minute: other tests may run beside these.
    for _ in range(600):
        points = page.evaluate(_DRAWN)
        actual = {(name, along): value for name, along, value in points}
        if set(actual) == set(wanted) and all(
            value == pytest.approx(wanted[point], rel=1e-9) for point, value in actual.items()
        ):
            return
        page.wait_for_timeout(100)
    assert actual == pytest.approx(wanted, rel=1e-9)


def test_choices_change_what_is_drawn(
    store: Path, errors: xr.DataArray, explored: Callable[[Path], str], visit: Callable[..., Any]
) -> None:
    page = visit().page
    page.goto(explored(store))
    page.get_by_text("Estimates: 8 of 9 cells done, 1 failed").wait_for()
    choose(page, "model (3)", "aggregated second")
    words = "|estimate − truth (norm l1)|: 95th percentile over replicate, then median over model, draw"
    page.get_by_text(words).wait_for()
    tail = _quantile(errors, 0.95, "replicate")
    drawn(page, tail.median(("model", "draw")), "estimator", "size")
    # One role after another: the order of aggregations is the user's.
    choose(page, "aggregated first: over replicate", "mean")
    mean = errors.mean("replicate")
    drawn(page, mean.median(("model", "draw")), "estimator", "size")
    choose(page, "estimator (3)", "aggregated first")
    choose(page, "model (3)", "a line each")
    page.get_by_text("mean over estimator, replicate, then median over draw").wait_for()
    drawn(page, errors.mean(("estimator", "replicate")).median("draw"), "model", "size")
    choose(page, "compared with", "nothing")
    cube = cd.open_cube(str(store)).load()
    plain = cube.estimate.astype(float).where(cube.status == 1).mean(("estimator", "replicate")).median("draw")
    drawn(page, plain, "model", "size")


def test_from_a_point_to_a_cell_and_back_by_its_link(
    store: Path, errors: xr.DataArray, explored: Callable[[Path], str], visit: Callable[..., Any]
) -> None:
    first = visit(width=1300, height=1400)
    page = first.page
    page.goto(explored(store))
    choose(page, "model (3)", "aggregated second")
    tail = _quantile(errors, 0.95, "replicate")
    shown = tail.median(("model", "draw"))
    drawn(page, shown, "estimator", "size")
    _tap(page, 300, float(shown.sel(estimator="wide", size=300)))
    value = float(shown.sel(estimator="wide", size=300))
    page.get_by_text(f"Behind wide · size 300: {value:.5g}").wait_for()
    number = int(errors.sel(estimator="wide", size=300).count())
    page.get_by_text(f"All {number:,} values").wait_for()
    ranked = tail.sel(estimator="wide", size=300).to_series().dropna().sort_values(ascending=False)
    page.get_by_text(f"{len(ranked)} underlying values, worst first").wait_for()
    row = page.locator(".tabulator-row").first
    (model, draw), worst = next(iter(ranked.items()))
    assert row.inner_text().split() == [model, str(draw), f"{worst:.5f}"]
    first.press(row, page.get_by_text(f"wide · size 300 · {model} · draw {draw}"))
    page.get_by_text("Its 20 values").wait_for()
    page.get_by_text(f"95th percentile {worst:.5g}, as chosen").wait_for()
    values = pd.read_csv(StringIO(first.download(page.get_by_text("CSV: values"))))
    cell = errors.sel(estimator="wide", size=300, model=model, draw=draw)
    assert values["replicate"].tolist() == cell["replicate"].values.tolist()
    np.testing.assert_allclose(values["value"], cell, rtol=1e-9)
    page.get_by_text("Other variables of the cell").wait_for()
    # Its reliability curve, with the mean gap of the study's own.
    titles = page.evaluate(
        "() => [...Bokeh.documents[0]._all_models.values()].filter((m) => m.type === 'Title').map((m) => m.text)"
    )
    assert any("density ECE 0.033" in title for title in titles)

    page.wait_for_function("() => location.search.includes('cell')")
    again = visit(width=400, height=1200).page
    again.goto(page.evaluate("location.href"))
    again.get_by_text(f"Behind wide · size 300: {value:.5g}").wait_for()
    again.get_by_text(f"wide · size 300 · {model} · draw {draw}").wait_for()
    drawn(again, shown, "estimator", "size")
    assert again.evaluate("() => document.documentElement.scrollWidth") <= 400


# A session ends at once if no browser connects.
_SHORT_SESSIONS = """
import sys
from calibdask.explore import server
server.UNUSED_MILLISECONDS = 500
from calibdask.cli import main
sys.exit(main())
"""


def test_a_slow_browser_is_shown_what_was_read_meanwhile(
    store: Path, address_of: Callable[[list[str], str], str], visit: Callable[..., Any]
) -> None:
    """Its session has ended when its scripts are there, and the next one works while the page is drawn."""
    command = [sys.executable, "-c", _SHORT_SESSIONS, "explore", str(store), "--no-browser"]
    address = address_of(command, r"http://[\d.]+:\d+/")
    page = visit().page
    late = iter([2.0])

    def after_a_while(route: Any) -> None:
        sleep(next(late, 0.0))
        route.continue_()

    page.route("**/*.js*", after_a_while)
    point = {"estimator": "wide", "size": "300"}
    cell = {"model": "forest", "draw": "0"}
    selected = {name: json.dumps(json.dumps(at)) for name, at in (("point", point), ("cell", cell))}
    page.goto(address + "?" + urlencode({"role.model": "aggregated second", **selected}))
    page.get_by_text("wide · size 300 · forest · draw 0").wait_for()


def test_downloads(
    store: Path, errors: xr.DataArray, explored: Callable[[Path], str], visit: Callable[..., Any]
) -> None:
    one = visit()
    page = one.page
    page.goto(explored(store))
    choose(page, "model (3)", "aggregated second")
    expected = _quantile(errors, 0.95, "replicate").median(("model", "draw"))
    drawn(page, expected, "estimator", "size")
    table = pd.read_csv(StringIO(one.download(page.get_by_text("CSV: figure"))))
    assert list(table.columns) == ["estimator", "size", "value"]
    actual = table.set_index(["estimator", "size"]).value.to_xarray().sel(estimator=list(ESTIMATORS))
    np.testing.assert_allclose(actual, expected.transpose("estimator", "size"), rtol=1e-9)
    picture = one.download(page.get_by_text("SVG", exact=True))
    assert picture.startswith("<svg")
    assert all(f">{name}<" in picture for name in (*ESTIMATORS, "absolute error: 95th percentile, then median", "size"))
    assert one.saved(page.get_by_text("PNG", exact=True)).read_bytes().startswith(b"\x89PNG")


def test_cells_that_have_failed_tell_why(
    store: Path, explored: Callable[[Path], str], visit: Callable[..., Any]
) -> None:
    page = visit().page
    page.goto(explored(store))
    choose(page, "Failed cells", "linear · draw 1")
    page.get_by_text("linear · draw 1 (failed)").wait_for()
    page.get_by_text("RuntimeError: this cell is broken").wait_for()


def test_results_that_are_no_cube(tmp_path: Path, explored: Callable[[Path], str], visit: Callable[..., Any]) -> None:
    values = np.array([[0.4, 0.2, 0.1], [0.3, 0.1, 0.05]])
    names = {"name": ["one", "two"], "size": [10, 100, 1000]}
    results = xr.Dataset({"error": (("name", "size"), values), "other": ("size", [1.0, 2.0, 3.0])}, names)
    results.to_netcdf(tmp_path / "results.nc")
    page = visit().page
    page.goto(explored(tmp_path / "results.nc"))
    drawn(page, results.error, "name", "size")
    choose(page, "Values of", "other")
    page.wait_for_function(f"() => ({_DRAWN})().map((point) => point[2]).join() === '1,2,3'")


def _tap(page: Any, x: float, y: float) -> None:
    """Click where a point of the first figure stands."""
    place = page.evaluate(
        """([x, y]) => {
          const views = []
          const walk = (view) => { views.push(view); for (const child of view.children()) walk(child) }
          for (const view of Bokeh.index) walk(view)
          const plot = views.find((view) => view.model.type === "Figure" && view.frame !== undefined)
          const box = plot.canvas_view.el.getBoundingClientRect()
          return [box.x + plot.frame.x_scale.compute(x), box.y + plot.frame.y_scale.compute(y)]
        }""",
        [x, y],
    )
    page.mouse.click(*place)


def _quantile(values: xr.DataArray, share: float, dim: str) -> xr.DataArray:
    """The quantile of values that there are, without what NumPy says where there are none."""
    ordered = values.transpose(..., dim)
    quantiles = [
        np.quantile(row[~np.isnan(row)], share) if not np.isnan(row).all() else np.nan for row in _rows(ordered)
    ]
    return ordered.isel({dim: 0}, drop=True).copy(data=np.reshape(quantiles, ordered.shape[:-1]))


def _rows(values: xr.DataArray) -> np.ndarray:
    return values.values.reshape(-1, values.shape[-1])
