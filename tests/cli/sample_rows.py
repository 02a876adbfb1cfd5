"""Rows for tests of the command line."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

ROWS = 400
RNG = np.random.default_rng(3)
LABELS = RNG.integers(0, 3, ROWS)
SCORES = RNG.dirichlet(np.ones(3), ROWS)
COUNTRY = np.array(["de", "fr"])[RNG.integers(0, 2, ROWS)]
# No row of France on day 2.
DAY = np.where(COUNTRY == "fr", 1, RNG.integers(1, 3, ROWS))
WEIGHTS = RNG.random(ROWS)
Run = Any


def open_result(path: Path) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification")
        opened = xr.open_zarr(path, consolidated=False) if path.suffix == ".zarr" else xr.open_dataset(path)
        with opened:
            return opened.load()
