"""Figures of views."""

import numpy as np
import xarray as xr

from calibdask.explore.cubes.aggregates import Step
from calibdask.explore.cubes.figure import drawn
from calibdask.explore.cubes.picture import Scales, picture_of, ticks
from calibdask.explore.cubes.reductions import Reductions
from calibdask.explore.cubes.views import CubeView
from tests.explore.cube_views import FIGURE, L1


def test_a_picture_of_a_view(cube: xr.Dataset) -> None:
    shown = Reductions(cube).values_of(FIGURE)
    picture = picture_of(FIGURE, shown, Scales())
    assert (picture.logx, picture.logy, picture.x_name) == (True, True, "size")
    # The axis says what of the values is shown.
    assert picture.y_name == "absolute error: 95th percentile, then median"
    (panel,) = picture.panels
    for line in panel.lines:
        np.testing.assert_array_equal(line.value, shown.value.sel(estimator=line.label))
    for estimator in ("plain", "wide"):
        for size in (30, 1000):
            y = float(shown.value.sel(estimator=estimator, size=size))
            at = {"estimator": estimator, "size": size}
            assert picture.nearest(panel, size * 1.02, y * 0.99) == at
            assert picture.position(panel, at) == (size, y)
    assert picture.position(panel, {"estimator": "other", "size": 30}) is None
    low, high = picture.limits()
    assert 0 < low < shown.value.min() < shown.value.max() < high
    assert not picture_of(FIGURE, shown, Scales("linear", "linear")).logy


def test_names_along_the_x_axis_stand_beside_each_other(cube: xr.Dataset) -> None:
    view = CubeView(
        "estimate",
        "model",
        ("estimator",),
        steps=(Step("mean", ("replicate", "draw", "size")),),
        reference=L1,
    )
    picture = picture_of(view, Reductions(cube).values_of(view), Scales("log"))
    assert not picture.logx
    positions = np.array([picture.positions(number, 3) for number in range(3)])
    np.testing.assert_allclose(positions[1], [0, 1, 2])
    assert (np.diff(positions, axis=0) > 0.1).all()
    assert (abs(positions - positions[1]) < 0.4).all()
    (panel,) = picture.panels
    x, y = picture.position(panel, {"estimator": "debiased", "model": "svc"}) or (0, 0)
    assert picture.nearest(panel, x, y) == {"estimator": "debiased", "model": "svc"}


def test_what_is_not_drawn_is_noted() -> None:
    values = np.array([[0.0, -1.0], [1.0, np.nan]])
    shown = xr.Dataset({"value": (("line", "x"), values)}, {"line": ["a", "b"], "x": [1, 2]})
    view = CubeView("error", "x", ("line",))
    picture = picture_of(view, shown, Scales(y="log"))
    assert picture.notes == ["2 of 3 points are not positive and are hidden on the logarithmic axis."]
    ends = {"low": (("line", "x"), values - 0.5), "high": (("line", "x"), values + 2)}
    picture = picture_of(view, shown.assign(ends), Scales(y="log"))
    assert picture.notes[1] == "2 bands end at or below 0, and on the logarithmic axis at its lower edge."
    area = next(part for part in drawn(picture, picture.panels[0], same=True) if type(part).__name__ == "Area")
    assert area.dimension_values("value").tolist() == [picture.limits()[0]] * 2
    many = xr.Dataset({"value": (("line", "x"), np.ones((40, 2)))}, {"line": range(40), "x": [1, 2]})
    picture = picture_of(view, many, Scales())
    assert picture.notes == ["12 of 40 lines are not drawn; choose fewer labels."]
    assert len(picture.panels[0].lines) == 28
    assert picture.panels[0].lines[3].label == "line 3"
    nothing = picture_of(view, shown * np.nan, Scales())
    assert nothing.notes[0].startswith("There are no numbers here")
    assert nothing.limits() == (0.0, 1.0)


def test_ticks_of_logarithmic_axes() -> None:
    assert ticks(0.004, 0.3) == [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
    assert ticks(1e-9, 1.0) == [10.0**power for power in range(-9, 1)]
