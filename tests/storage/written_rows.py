"""The same rows, written in every format."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
import zarr

ROWS, CLASSES = 600, 3
RNG = np.random.default_rng(7)
LABELS = RNG.integers(0, CLASSES, ROWS)
SCORES = RNG.dirichlet(np.ones(CLASSES), ROWS)
COUNTRY = np.array(["fr", "de", "it"])[RNG.integers(0, 3, ROWS)]
DAY = RNG.integers(1, 4, ROWS)
WEIGHTS = RNG.random(ROWS)
ARRAYS = {"labels": LABELS, "scores": SCORES, "country": COUNTRY, "day": DAY, "w": WEIGHTS}
COLUMNS = {"label": LABELS, "country": COUNTRY, "day": DAY, "w": WEIGHTS, "unused": np.zeros(ROWS)}


def frame() -> pd.DataFrame:
    # Out of order on purpose: classes go by their numbers.
    return pd.DataFrame({**{f"score_{k}": SCORES[:, k] for k in (2, 0, 1)}, **COLUMNS})


def write_zarr(path: str | Path, arrays: dict[str, Any], chunk: int = 50) -> None:
    group = zarr.open_group(path, mode="w")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification")
        for name, values in arrays.items():
            texts = values.dtype.kind == "U"
            given = values.astype(np.dtypes.StringDType()) if texts else values
            group.create_array(name, data=given, chunks=(chunk, *values.shape[1:]))


def write_all(folder: Path) -> Path:
    """The same rows in every format."""
    np.savez(folder / "rows.npz", **ARRAYS)
    write_zarr(folder / "rows.zarr", ARRAYS)
    dims = {name: ("row", "kind")[: values.ndim] for name, values in ARRAYS.items()}
    dataset = xr.Dataset({name: (dims[name], values) for name, values in ARRAYS.items()})
    dataset.to_netcdf(folder / "rows.nc", engine="h5netcdf", encoding={"scores": {"chunksizes": (100, CLASSES)}})
    codes = np.unique(COUNTRY, return_inverse=True)[1]
    dataset.assign(country=("row", codes)).to_netcdf(folder / "rows3.nc", engine="scipy")
    frame().to_parquet(folder / "rows.parquet", row_group_size=100, index=False)
    for name in ("parts.parquet", "plain"):
        (folder / name).mkdir()
        for part, start in enumerate(range(0, ROWS, 200)):
            frame()[start : start + 200].to_parquet(folder / name / f"part.{part}.parquet", index=False)
    frame().to_csv(folder / "rows.csv", index=False)
    frame().to_csv(folder / "rows.csv.gz", index=False)
    return folder
