"""Reports of cubes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.report import write_cube_report
from calibdask.report.cubes import summary_of
from calibdask.storage.cube_layout import DONE, FAILED
from calibdask.study.example import Means
from calibdask.study.quantiles import quantiles
from calibdask.study.seeds import Seeds
from tests.report.page_reader import Reader


@dataclass(frozen=True, kw_only=True)
class Ends(cd.Study):
    """Values that tell their cell and place, with ends."""

    outputs: ClassVar = {"value": ("place",), "low": ("place",), "high": ("place",)}
    batch: ClassVar = 9

    def cells(self) -> dict[str, Any]:
        return {"model": range(50), "size": range(9)}

    def inside(self) -> dict[str, Any]:
        return {"place": ("left", "right")}

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        if at["model"] == at["size"] == 0:
            raise ValueError("lost")
        value = at["model"] + at["size"] / 10 + np.array([0.01, 0.02])
        return {"value": value, "low": value - 0.001, "high": value + 0.001}


@dataclass(frozen=True, kw_only=True)
class Broken(Means):
    """Means, the last of which is none."""

    def cell(self, at: Mapping[str, Any], seeds: Seeds) -> dict[str, Any]:
        if at["rows"] == self.rows[-1]:
            raise ValueError("<b>nothing</b> to see")
        return super().cell(at, seeds)


class TestCubes:
    def test_quantiles(self) -> None:
        rng = np.random.default_rng(1)
        values = rng.random((5, 31))
        values[rng.random(values.shape) < 0.3] = np.nan
        expected = np.nanquantile(values, (0.05, 0.5, 0.95), axis=-1)
        np.testing.assert_allclose(quantiles(values, (0.05, 0.5, 0.95)), expected, rtol=1e-12)
        assert np.isnan(quantiles(np.full((1, 3), np.nan), (0.5,))).all()

    def test_of_many_intervals_those_are_read_that_are_shown(self, tmp_path: Path) -> None:
        store = str(tmp_path / "cube.zarr")
        assert cd.run(Ends(), store).failed == 1
        write_cube_report(tmp_path / "page.html", store)
        reader = Reader((tmp_path / "page.html").read_text())
        assert reader.text.count("90 rows not shown.") == 2
        # 360 places, the first of which has failed: what is not there is none of the numbers.
        assert {0.11, 0.12, 39.82} <= {round(number, 6) for number in reader.numbers}
        assert not {0.01, 40.01} & {round(number, 6) for number in reader.numbers}

    def test_blocks_make_no_difference(self, monkeypatch: pytest.MonkeyPatch) -> None:
        status = xr.DataArray([[DONE, FAILED], [DONE, DONE]], dims=("a", "b"))
        values = xr.DataArray(np.random.default_rng(2).random((2, 2, 3, 20)), dims=("a", "b", "kind", "replicate"))
        cube = xr.Dataset({"x": values, "status": status})
        whole = summary_of(cube, "x")
        monkeypatch.setattr("calibdask.report.cubes.BLOCK", 1)
        np.testing.assert_array_equal(summary_of(cube, "x").values, whole.values)
        done = values.values[[0, 1, 1], [0, 0, 1]]
        expected = np.median(np.quantile(done, (0.05, 0.5, 0.95), axis=-1)[:, :, 1], axis=1)
        assert whole.at({"kind": 1}) == pytest.approx(tuple(expected))

    def test_page(self, tmp_path: Path) -> None:
        store = str(tmp_path / "cube.zarr")
        cd.run(Means(rows=(4, 5, 6), replicates=30), store)
        write_cube_report(tmp_path / "page.html", store)
        reader = Reader((tmp_path / "page.html").read_text())
        cube = cd.open_cube(store)
        assert set(cube.average.median("replicate").values.tolist()) <= set(reader.numbers)
        assert "3 of 3 cells are done." in reader.text
        assert "--set rows=4,5,6" in reader.text
        assert "--set replicates=30" in reader.text

    def test_what_is_missing_is_said(self, tmp_path: Path) -> None:
        store = str(tmp_path / "cube.zarr")
        assert cd.run(Broken(rows=(4, 5), replicates=30), store).failed == 1
        write_cube_report(tmp_path / "page.html", store)
        html = (tmp_path / "page.html").read_text()
        assert "1 of 2 cells is done, 1 failed." in Reader(html).text
        assert "ValueError: &lt;b&gt;nothing&lt;/b&gt; to see" in html
        assert "rows = 5" in html

    def test_no_cube(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="does not exist"):
            write_cube_report(tmp_path / "page.html", str(tmp_path / "none.zarr"))
        assert not (tmp_path / "page.html").exists()
