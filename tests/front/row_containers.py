"""The ways in which people hold labels, scores, slices, weights and clusters in columns, by the container."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import xarray as xr

import calibdask as cd

Call = dict[str, Any]
# Of a frame with some of the columns y, p, g, w and c, and a folder for files: the arguments of the functions.
Container = Callable[[pd.DataFrame, Path], Call]
# Arguments that take a column by its name, and the column.
NAMES = {"label": "y", "score": "p", "sample_weight": "w", "groups": "c"}
ARRAYS = {"y_true": "y", "y_prob": "p", "sample_weight": "w", "groups": "c"}


def columns(frame: pd.DataFrame, rows: Any) -> Call:
    """Rows whose columns are named."""
    named = {argument: column for argument, column in NAMES.items() if column in frame}
    return {"y_true": rows, **named, "by": ["g"]}


def arrays(convert: Callable[[np.ndarray], Any], slices: Callable[[np.ndarray], Any] = np.asarray) -> Container:
    """An array for each column."""

    def call(frame: pd.DataFrame, folder: Path) -> Call:
        del folder
        given = {name: convert(frame[column].to_numpy()) for name, column in ARRAYS.items() if column in frame}
        return {**given, "by": {"g": slices(frame.g.to_numpy())}}

    return call


def lazy(array: np.ndarray) -> Any:
    """A Dask array in chunks of unequal length."""
    return da.from_array(array, chunks=170)


def series(frame: pd.DataFrame, folder: Path) -> Call:
    """A series for each column."""
    del folder
    given = {name: frame[column] for name, column in ARRAYS.items() if column in frame}
    return {**given, "by": {"g": frame.g}}


def objects(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with Python's own numbers and None."""
    return pd.DataFrame(
        {name: pd.Series([None if pd.isna(v) else v for v in frame[name].tolist()], dtype=object) for name in frame}
    )


def nullable(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with nullable types of pandas."""
    return frame.convert_dtypes()


def table(frame: pd.DataFrame) -> pa.Table:
    """The frame as an Arrow table."""
    return pa.Table.from_pandas(nullable(frame), preserve_index=False)


def file(suffix: str) -> Container:
    """A file with a column for each."""

    def call(frame: pd.DataFrame, folder: Path) -> Call:
        path = folder / f"rows{suffix}"
        if suffix == ".parquet":
            nullable(frame).to_parquet(path, index=False, row_group_size=90)
        elif suffix == ".feather":
            nullable(frame).to_feather(path)
        elif suffix == ".jsonl":
            path.write_text("\n".join(map(json.dumps, table(frame).to_pylist())))
        else:
            frame.to_csv(path, index=False)
        return columns(frame, str(path))

    return call


CONTAINERS: dict[str, Container] = {
    "numpy": arrays(np.asarray),
    "lists": arrays(np.ndarray.tolist),
    "objects": lambda frame, _: {
        **{name: objects(frame)[column].to_numpy() for name, column in ARRAYS.items() if column in frame},
        "by": {"g": frame.g.to_numpy()},
    },
    "dask": arrays(lazy),
    "dask, slices too": arrays(lazy, lazy),
    "xarray": arrays(lambda array: xr.DataArray(array, dims="sample")),
    "xarray of dask": arrays(lambda array: xr.DataArray(lazy(array), dims="sample")),
    "series": series,
    "nullable series": lambda frame, folder: series(nullable(frame), folder),
    "frame": lambda frame, _: columns(frame, frame),
    "nullable frame": lambda frame, _: columns(frame, nullable(frame)),
    "frame of objects": lambda frame, _: columns(frame, objects(frame)),
    "frame of dask": lambda frame, _: columns(frame, dd.from_pandas(frame, npartitions=4)),
    "nullable frame of dask": lambda frame, _: columns(frame, dd.from_pandas(nullable(frame), npartitions=4)),
    "polars": lambda frame, _: columns(frame, pl.from_arrow(table(frame))),
    "arrow": lambda frame, _: columns(frame, table(frame)),
    "dataset": lambda frame, _: columns(frame, xr.Dataset.from_dataframe(frame.rename_axis("sample"))),
    "list of mappings": lambda frame, _: columns(frame, table(frame).to_pylist()),
    "csv": file(".csv"),
    "csv.gz": file(".csv.gz"),
    "jsonl": file(".jsonl"),
    "parquet": file(".parquet"),
    "feather": file(".feather"),
}


def summarized(call: Call) -> xr.Dataset:
    return cd.summarize(**call, settings=["binary"])


def accumulated(call: Call, options: Call) -> cd.Accumulator:
    """An accumulator of labels and scores, which takes no columns by name."""
    return cd.Accumulator(["ece"], **options).update(call["y_true"], call["y_prob"])


def appended(first: Call, second: Call, folder: Path) -> str:
    store = str(folder / "store.zarr")
    for day, call in enumerate((first, second), 1):
        cd.append(summarized(call), store, {"day": f"2026-01-{day:02d}"})
    return store


def merged(first: Call, second: Call) -> xr.Dataset:
    return cd.merge(summarized(first), summarized(second))


def concatenated(first: Call, second: Call) -> xr.Dataset:
    """A dimension more, of two summaries with the same slices."""
    parts = [summarized({**call, "by": None}) for call in (first, second)]
    return xr.concat(parts, pd.Index(["one", "other"], name="part"))


def zarr(summary: xr.Dataset, path: Path) -> str:
    summary.to_zarr(path, consolidated=False)
    return str(path)


def netcdf(summary: xr.Dataset, path: Path) -> str:
    summary.to_netcdf(path, engine="h5netcdf")
    return str(path)


def loaded(first: Call, second: Call, options: Call) -> cd.Accumulator:
    one, other = (accumulated(call, options).state_dict() for call in (first, second))
    return cd.Accumulator(["ece"], **options).load_state_dict({name: one[name] + other[name] for name in one})


# Of two calls, and the options of both: the states of all rows, which `calibdask.evaluate` takes.
STATES: dict[str, Callable[[Call, Call, Call, Path], Any]] = {
    "merge": lambda a, b, options, folder: merged(a | options, b | options),
    "merge in another order": lambda a, b, options, folder: merged(b | options, a | options),
    "sum of slices": lambda a, b, options, folder: merged(a | options, b | options).sum("g"),
    "zarr": lambda a, b, options, folder: zarr(merged(a | options, b | options), folder / "both.zarr"),
    "netcdf": lambda a, b, options, folder: netcdf(merged(a | options, b | options), folder / "both.nc"),
    "concatenated": lambda a, b, options, folder: concatenated(a | options, b | options),
    "store": lambda a, b, options, folder: appended(a | options, b | options, folder),
    "accumulators": lambda a, b, options, folder: accumulated(a, options).merge(accumulated(b, options)),
    "sum of states": lambda a, b, options, folder: loaded(a, b, options),
}
