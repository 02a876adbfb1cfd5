"""The first view of a store."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.explore.cubes.reductions import Reductions
from calibdask.explore.cubes.suggested_view import is_geometric, suggested
from calibdask.explore.cubes.variables import interval_ends, references_of, variables_of
from tests.explore.cube_views import L1
from tests.explore.explored_study import Recommended


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([30, 67, 151, 339, 759], True),
        ([2, 5, 7], False),
        ([1, 2, 3, 4], False),
        ([0, 1, 10, 100], False),
        ([100, 10, 1], False),
        (["1", "10", "100"], False),
        ([1, 10], False),
    ],
)
def test_geometric_labels(labels: list[Any], expected: bool) -> None:
    assert is_geometric(labels) is expected


def test_first_views_of_other_stores(cube: xr.Dataset) -> None:
    assert variables_of(cube)[0] == "estimate"
    first = suggested(cube, "estimate")
    assert first.text().endswith(": 95th percentile over replicate, then median over draw")
    assert (first.x, first.lines, first.panels, first.reference) == ("size", ("estimator",), ("model",), L1)
    assert references_of(cube, "estimate") == ["density", "reliability", "truth", "rows"]
    # Labels that only one variable has are parts of it, and looked at one at a time.
    parts = cube[["truth"]].assign(end=cube.estimate.isel(replicate=0, drop=True).expand_dims(side=["low", "high"]))
    assert dict(suggested(parts, "end").at)["side"] == "low"
    many = xr.Dataset(
        {"error": (("size", "name"), np.zeros((3, 40)))}, {"size": [1, 10, 100], "name": [f"n{i}" for i in range(40)]}
    )
    assert dict(suggested(many, "error").only)["name"] == tuple(f"n{i}" for i in range(8))
    holdout = xr.Dataset(
        {name: (("model", "metric"), np.zeros((2, 4))) for name in ("value", "low", "high")},
        {"model": ["a", "b"], "metric": ["ece", "brier", "skce", "mce"]},
    )
    assert interval_ends(holdout, "value") == ("low", "high")
    view = suggested(holdout, "value")
    assert (view.x, view.lines, view.band) == ("metric", ("model",), ("low", "high"))
    shown = Reductions(holdout.assign(low=holdout.low - 1)).values_of(view)
    assert (shown.low == -1).all()
    assert (shown.high == 0).all()


def test_models_are_never_averaged() -> None:
    scores = xr.DataArray(np.linspace(0.05, 0.95, 40), dims="sample")
    models = xr.concat([scores, scores**2], "version")
    day = np.repeat([3, 5, 8, 9], 10)
    result = cd.evaluate(xr.DataArray(np.arange(40) % 2, dims="sample"), models, cd.ECE(bins=5), by={"day": day})
    view = suggested(result, "ece")
    assert (view.x, view.lines, view.steps) == ("day", ("version",), ())


def test_a_cube_opens_on_what_its_study_recommends(tmp_path: Path) -> None:
    cd.run(Recommended(models=("forest",), draws=1), tmp_path / "cube.zarr")
    cube = cd.open_cube(str(tmp_path / "cube.zarr"))
    # The density has more numbers than the rows.
    assert variables_of(cube)[:2] == ["estimate", "rows"]
    view = suggested(cube, "estimate")
    assert dict(view.only) == {"estimator": ("plain", "debiased")}
    assert view.axis_name == "absolute error: 95th percentile"
