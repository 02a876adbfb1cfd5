"""Scores that are stored as whole numbers: read as they are stored, and the numbers that xarray makes of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import calibdask as cd

RNG = np.random.default_rng(26)
SCORES = RNG.dirichlet(np.full(4, 0.5), 1000)
LABELS = np.array([RNG.choice(4, p=row) for row in SCORES])
PACKINGS: list[dict[str, Any]] = [
    {"dtype": "uint8", "scale_factor": 1 / 255},
    {"dtype": "uint16", "scale_factor": 1 / 65535},
    {"dtype": "uint16", "scale_factor": 1 / 65535, "_FillValue": 65535 - 3},
    {"dtype": "int16", "scale_factor": 1 / 65535, "add_offset": 0.5, "_FillValue": -(2**15)},
]


def write(path: Path, packing: dict[str, Any], zarr_format: int = 3, scores: np.ndarray = SCORES) -> str:
    """Whole numbers, and attributes that say what they stand for."""
    attributes = {name: value for name, value in packing.items() if name != "dtype"}
    numbers = np.round((scores - packing.get("add_offset", 0)) / packing["scale_factor"])
    codes = np.nan_to_num(numbers, nan=packing.get("_FillValue", 0)).astype(packing["dtype"])
    dims = ("row", "class")[: scores.ndim]
    labels = LABELS % 2 if scores.ndim == 1 else LABELS
    rows = xr.Dataset({"labels": ("row", labels), "scores": (dims, codes, attributes)})
    rows.to_zarr(
        path, zarr_format=zarr_format, consolidated=False, encoding={"scores": {"chunks": (300, 4)[: codes.ndim]}}
    )
    return str(path)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("packing", PACKINGS, ids=lambda packing: "-".join(map(str, packing)))
def test_the_numbers_of_xarray(packing: dict[str, Any], zarr_format: int, tmp_path: Path) -> None:
    path = write(tmp_path / "rows.zarr", packing, zarr_format, SCORES[:, 0])
    expected = xr.open_zarr(path, consolidated=False, chunks=None).scores.values
    table = cd.read_rows(path)
    assert table.scores.dtype == np.float64
    np.testing.assert_array_equal(np.asarray(table.scores), expected)
    assert np.abs(expected - SCORES[:, 0]).max() <= packing["scale_factor"]


@pytest.mark.parametrize("packing", PACKINGS[:3], ids=lambda packing: packing["dtype"])
def test_metrics_of_rows_of_scores(packing: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "rows.zarr", packing)
    decoded = xr.open_zarr(path, consolidated=False, chunks=None).scores.values
    metrics = [cd.ECE(), cd.ECE(setting="classwise"), cd.BrierScore()]
    # Rounded to 255ths, rows of four scores are off 1 by up to 8 thousandths.
    options: Any = {"sum_tolerance": 0.01}
    xr.testing.assert_equal(
        cd.evaluate(path, metrics=metrics, **options), cd.evaluate(LABELS, decoded, metrics, **options)
    )


def test_missing_scores_are_refused(tmp_path: Path) -> None:
    scores = np.where(np.arange(1000) == 417, np.nan, SCORES[:, 0])
    path = write(tmp_path / "rows.zarr", {"dtype": "uint8", "scale_factor": 1 / 254, "_FillValue": 255}, scores=scores)
    with pytest.raises(ValueError, match="row 417"):
        cd.evaluate(path)


def test_maps_are_applied(run: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "rows.zarr", PACKINGS[0], scores=SCORES[:, 0])
    decoded = xr.open_zarr(path, consolidated=False, chunks=None).scores.values
    stored, mended = tmp_path / "map.json", tmp_path / "mended.zarr"
    assert run("calibrate", path, "--method", "isotonic", "--out", stored)[0] == 0
    assert run("apply", stored, path, "--out", mended)[0] == 0
    calibrator = cd.IsotonicCalibration().fit(LABELS % 2, decoded)
    expected = calibrator.predict_proba(decoded)
    np.testing.assert_array_equal(
        zarr.open_group(mended)["scores"][:], expected[..., 1] if expected.ndim > 1 else expected
    )
