"""What is behind a point of a figure: rows, values, cells."""

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.explore.cubes.cell_contents import failures, numbers_at, plots_at, status_at
from calibdask.explore.cubes.reductions import Reductions, worst_first
from tests.explore.cube_views import FIGURE, quantiles, whole


def test_rows_behind_a_point_worst_first(cube: xr.Dataset) -> None:
    point = {"size": 100, "estimator": "wide"}
    reductions = Reductions(cube)
    table = worst_first(reductions.rows(FIGURE, point))
    errors = quantiles(whole(cube).sel(point), 0.95, ("replicate",)).rename("error")
    expected = errors.to_series().dropna().sort_values(ascending=False)
    assert list(zip(table.model, table.draw, strict=True)) == expected.index.tolist()
    np.testing.assert_allclose(table.value, expected.values, rtol=1e-12)
    shown = float(reductions.values_of(FIGURE).value.sel(point))
    assert np.median(table.value) == pytest.approx(shown, rel=1e-12)
    # The same without what was read for the figure.
    assert worst_first(Reductions(cube).rows(FIGURE, point)).equals(table)


def test_all_values_behind_a_point_and_a_row(cube: xr.Dataset) -> None:
    reductions, errors = Reductions(cube), whole(cube)
    values = reductions.finite(FIGURE, {"size": 30, "estimator": "wide"})
    expected = errors.sel(size=30, estimator="wide").values.ravel()
    np.testing.assert_allclose(np.sort(values), np.sort(expected[~np.isnan(expected)]), rtol=1e-12)
    row = {"size": 30, "estimator": "plain", "model": "svc", "draw": 2}
    np.testing.assert_allclose(reductions.finite(FIGURE, row), errors.sel(row), rtol=1e-12)


def test_signed_errors_are_ordered_by_their_distance_from_zero() -> None:
    rows = xr.DataArray([0.1, -0.5, np.nan, 0.3], {"draw": range(4)}, "draw")
    assert worst_first(rows, signed=True).draw.tolist() == [1, 3, 0]
    assert worst_first(rows).draw.tolist() == [3, 0, 1]


def test_one_cell(cube: xr.Dataset, store: str) -> None:
    at = {"model": "linear", "draw": 1}
    (broken,) = failures(cube, store)
    assert broken[0] == at
    assert "RuntimeError: this cell is broken" in broken[1]
    assert failures(cube, None) == []
    assert status_at(cube, at) == "failed"
    assert status_at(cube, {"model": "svc", "draw": 0}) == "done"
    assert status_at(cube, {"model": "svc"}) == ""
    assert plots_at(cube, at) == []
    done = {"model": "svc", "draw": 0}
    (picture,) = plots_at(cube, done)
    line = next(element for element in picture.traverse() if element.group == "Over")
    np.testing.assert_allclose(line["reliability"], cube.reliability.sel(done), atol=1e-12)
    numbers = {(number["variable"], number["where"]): number["value"] for number in numbers_at(cube, done)}
    assert numbers["rows", ""] == 7
    assert numbers["truth", "l2"] == pytest.approx(float(cube.truth.sel(**done, norm="l2")))


def test_diagrams_of_cells_are_recognised() -> None:
    rows = np.random.default_rng(0).random(200)
    diagram = cd.evaluate((rows > 0.5).astype(int), rows, {"diagram": cd.ReliabilityDiagram(bins=5)})
    cube = diagram.expand_dims(model=["a", "b"])
    (picture,) = plots_at(cube, {"model": "b"})
    assert len(picture) == 2
