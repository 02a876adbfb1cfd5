"""The page of a cube without a browser."""

import numpy as np
import pytest
import xarray as xr

from calibdask.explore.cubes.aggregates import Step
from calibdask.explore.cubes.reductions import Reductions
from calibdask.explore.cubes.suggested_view import suggested
from calibdask.explore.cubes.views import CubeView
from tests.explore.jobs import Document, working


def test_a_choice_taken_back_cancels_the_running_job(cube: xr.Dataset, store: str) -> None:
    import panel as pn

    from calibdask.explore.cubes.page import CubePage

    pn.extension("tabulator")
    page, document = CubePage(cube, "estimates.zarr", store), Document()
    page.page()
    first = page.view
    assert first is not None
    words = page.heading.object
    page.work.close()
    with working(document) as page.work, pytest.MonkeyPatch.context() as patched:
        patched.setattr(page.reductions, "is_at_hand", lambda view: False)
        page.controls.hows[0].value = "mean"
        assert page.heading.object != words
        assert document.added.wait(10)
        page.controls.hows[0].value = first.steps[0].how
        document.run()
    assert (page.view, page.heading.object) == (first, words)
    assert not page.figure.loading


def test_widgets_describe_the_view(cube: xr.Dataset) -> None:
    from calibdask.explore.cubes.controls import Controls

    views: list[CubeView] = []
    controls = Controls(cube, lambda: views.append(controls.view()))
    assert controls.view() == suggested(cube, "estimate")
    # One dimension at a time is along the x axis: the other takes its place.
    controls.roles["estimator"].value = "along the x axis"
    assert (views[-1].x, views[-1].lines) == ("estimator", ("size",))
    controls.roles["size"].value = "one label"
    controls.at["size"].value = 300
    controls.only["estimator"].value = ["plain", "wide"]
    controls.hows[0].value = "mean"
    controls.against.value = "nothing"
    controls.band.value = "middle half"
    assert views[-1] == CubeView(
        "estimate",
        "estimator",
        panels=("model",),
        steps=(Step("mean", ("replicate",), 0.95), Step("median", ("draw",))),
        at=(("size", 300),),
        only=(("estimator", ("plain", "wide")),),
        band=(0.25, 0.75),
    )
    before = len(views)
    controls.variable.value = "truth"
    assert views[-1] == suggested(cube, "truth")
    # All the widgets that change then are one change.
    assert len(views) == before + 1


def test_long_dimensions_are_chosen_by_position() -> None:
    from calibdask.explore.cubes.controls import Controls

    data = xr.Dataset({"error": (("size", "replicate"), np.arange(900.0).reshape(3, 300))}, {"size": [1, 10, 100]})
    controls = Controls(data, lambda: None)
    assert controls.view().only == ()
    controls.only["replicate"].value = (298, 299)
    view = controls.view()
    assert view.only == (("replicate", (298, 299)),)
    assert Reductions(data).values_of(view).value.values.tolist() == [298.5, 598.5, 898.5]


def test_a_page_without_a_server(cube: xr.Dataset, store: str) -> None:
    import panel as pn

    from calibdask.explore.cubes.page import cube_page

    pn.extension("tabulator")
    page = cube_page(cube, "estimates.zarr", store)
    assert page.title == "estimates.zarr"
    words = " ".join(str(pane.object) for pane in pn.Column(*page.main).select(pn.pane.HTML))
    assert "8 of 9 cells done, 1 failed" in words
    assert "95th percentile over replicate, then median over draw" in words
    # Each number of the figure, and the lines of all panels once.
    view = suggested(cube, "estimate")
    shown = Reductions(cube).values_of(view).value
    number = float(shown.sel(model="svc", estimator="wide", size=100))
    line = words[words.index("svc · wide") :]
    assert f"<td>{number:.4g}</td>" in line[: line.index("</tr>")]
    assert words.count("</svg> wide") == 1


def test_the_first_row_has_the_same_widgets_whatever_the_cells_are(cube: xr.Dataset, store: str) -> None:
    """They are there before cells are counted: none is added to a page that is shown already."""
    import panel as pn

    from calibdask.explore.cubes.page import cube_page

    pn.extension("tabulator")
    rows = [cube_page(one, "cube.zarr", store).main[0] for one in (cube, cube.assign(status=cube.status * 0 + 1))]
    some, whole = ([type(widget) for widget in row.select()] for row in rows)
    assert some == whole
    for row, words, is_partial in zip(
        rows, ("8 of 9 cells done, 1 failed", "all 9 cells done"), (True, False), strict=True
    ):
        assert words in "".join(str(pane.object) for pane in row.select(pn.pane.HTML))
        assert [widget.visible for widget in row.select(pn.widgets.Button)] == [is_partial]
        assert [widget.visible for widget in row.select(pn.widgets.Select)] == [is_partial]
    # Numbers without cells have no such row.
    data = xr.Dataset({"error": ("size", [0.1, 0.2])}, {"size": [1, 10]})
    assert len(cube_page(data, "errors.nc", None).main[0]) == 0
