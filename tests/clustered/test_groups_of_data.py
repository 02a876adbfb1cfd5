"""The option ``groups`` of all containers: the same clusters from any of them."""

from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import calibdask as cd
from calibdask.data.clusters import cluster_numbers
from tests.clustered.clustered_data import clustered_rows

ROWS = clustered_rows(clusters=25, size=12)
TEXT = np.array([f"patient {value}" for value in ROWS.g])
DATES = np.datetime64("2024-01-01") + ROWS.g
FRAME = pd.DataFrame({"label": ROWS.y, "score": ROWS.p, "patient": ROWS.g, "name": TEXT, "day": DATES})


def ends(*data: Any, **options: Any) -> tuple[float, float, int]:
    result = cd.evaluate(*data, metrics=cd.BrierScore(), ci=0.9, **options)
    return float(result.brier_score_low), float(result.brier_score_high), int(result.clusters)


EXPECTED = ends(ROWS.y, ROWS.p, groups=ROWS.g)


@pytest.mark.parametrize(
    "data",
    [
        FRAME,
        pl.from_pandas(FRAME),
        pl.from_pandas(FRAME).lazy(),
        pa.Table.from_pandas(FRAME),
        dd.from_pandas(FRAME, npartitions=3),
        {name: FRAME[name].to_numpy() for name in FRAME},
    ],
    ids=["pandas", "polars", "lazy", "arrow", "dask", "mapping"],
)
def test_a_column_of_a_frame(data: Any) -> None:
    assert ends(data, groups="patient") == EXPECTED
    assert ends(data, groups="name") == ends(ROWS.y, ROWS.p, groups=TEXT)


def test_arrays_of_any_kind() -> None:
    for groups in (ROWS.g.tolist(), ROWS.g.astype(float), ROWS.g.astype(object), da.from_array(ROWS.g, chunks=50)):
        assert ends(ROWS.y, ROWS.p, groups=groups) == EXPECTED
    series = FRAME.patient.sample(frac=1.0, random_state=0)
    with pytest.warns(UserWarning, match="put in the order of the index"):
        assert ends(FRAME.label, FRAME.score, groups=series) == EXPECTED
    seconds = DATES.astype("datetime64[s]")
    assert ends(ROWS.y, ROWS.p, groups=DATES) == ends(ROWS.y, ROWS.p, groups=seconds)


def test_blocks_have_their_clusters_inside() -> None:
    cut = 100
    blocks = [(ROWS.y[at], ROWS.p[at], None, ROWS.g[at]) for at in (slice(cut), slice(cut, None))]
    assert ends(blocks) == EXPECTED
    with pytest.raises(ValueError, match="weights and groups in all or none"):
        ends([blocks[0], blocks[1][:2]])
    with pytest.raises(ValueError, match="of their rows, as"):
        ends(blocks, groups=ROWS.g)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_column_of_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    getattr(FRAME, f"to_{suffix}")(path, index=False)
    assert ends(path, groups="patient") == EXPECTED
    table = cd.read_rows(path, groups="patient")
    assert ends(table) == EXPECTED
    assert cd.evaluate(table, metrics=cd.BrierScore()).attrs["groups"] == "patient"


def test_clusters_of_some_dimensions_of_samples() -> None:
    y, p = (xr.DataArray(values[:200].reshape(10, 20), dims=("image", "pixel")) for values in (ROWS.y, ROWS.p))
    images = xr.DataArray(np.arange(10), dims="image")
    result = cd.evaluate(y, p, cd.BrierScore(), groups=images, sample_dim=("image", "pixel"))
    assert int(result.clusters) == 10


def test_rows_that_are_left_out_leave_their_clusters() -> None:
    scores = np.where(ROWS.g == 3, np.nan, ROWS.p)
    result = cd.evaluate(ROWS.y, scores, cd.BrierScore(), groups=ROWS.g, skip_missing=True)
    assert int(result.clusters) == 24


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.where(ROWS.g == 2, np.nan, ROWS.g), "groups expects a value in every row, got"),
        (np.where(ROWS.g == 2, None, TEXT), "groups expects a value in every row, got"),
        (ROWS.g[:5], "one value for each of the"),
        ("patient", "a name refers to a column"),
    ],
)
def test_misuse(groups: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cd.evaluate(ROWS.y, ROWS.p, cd.BrierScore(), groups=groups)


def test_analyses_that_take_rows_as_independent_refuse_tables_with_clusters(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    table = cd.read_rows(path, groups="patient")
    with pytest.raises(ValueError, match="threshold expects independent rows"):
        cd.threshold(table, risk=0.2)


def test_numbers_of_objects_do_not_depend_on_the_other_values_of_a_block() -> None:
    mixed = np.array([1, "a", np.datetime64("2024-01-01"), 2.5], object)
    whole = cluster_numbers(mixed)
    assert [int(cluster_numbers(mixed[i : i + 1])[0]) for i in range(4)] == whole.tolist()
    assert int(cluster_numbers([1])[0]) == int(whole[0])
