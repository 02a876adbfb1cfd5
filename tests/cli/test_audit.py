"""``calibdask audit``: what its exit status tells."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.sample_rows import Run


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Rows of which no group has a hundred."""
    rng = np.random.default_rng(0)
    scores = rng.random(90)
    frame = pd.DataFrame({"label": (rng.random(90) < scores).astype(int), "score": scores, "x": rng.integers(0, 3, 90)})
    frame.to_parquet(tmp_path / "few.parquet")
    return tmp_path / "few.parquet"


def test_too_few_rows_decide_nothing(run: Run, few: Path) -> None:
    status, out, _ = run("audit", few, "--features", "x")
    assert (status, "No subgroup has 100 rows: undecided." in out) == (3, True)
    assert run("audit", few, "--features", "x", "--json")[0] == 3
    assert run("audit", few, "--features", "x", "--min-rows", "20")[0] == 0
    status, out, _ = run("audit", "--help")
    assert "3 no subgroup" in out
    summary = few.with_name("few.zarr")
    assert run("summarize", few, "--features", "x", "--out", summary)[0] == 0
    assert run("audit", summary)[0] == 3


def test_maps_of_too_few_rows_say_so(run: Run, few: Path) -> None:
    status, out, _ = run("calibrate", few, "--features", "x", "--out", few.with_name("map.json"))
    assert status == 0
    assert "No subgroup has 100 rows: undecided, scores unchanged." in out
    method = ("--method", "multicalibrated(min_rows=20)")
    status, out, _ = run("calibrate", few, "--features", "x", *method, "--out", few.with_name("other.json"))
    assert (status, "No subgroup is significantly miscalibrated" in out) == (0, True)


@pytest.mark.filterwarnings("default")
def test_what_is_noted_of_columns_is_printed_once(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 3000
    scores = rng.random(n)
    frame = pd.DataFrame({"label": (rng.random(n) < scores).astype(int), "score": scores, "same": 1})
    frame["zip"] = [f"z{number}" for number in np.arange(n) % 20]
    frame["customer"] = rng.permutation(n)
    frame.to_parquet(tmp_path / "rows.parquet")
    status, out, err = run("audit", tmp_path / "rows.parquet", "--features", "same,zip,customer", "--values", 5)
    out = " ".join(out.split())
    assert status == 0
    assert "zip: 16 of 20 values, 80 % of the rows, are pooled as other" in out
    assert "customer has a whole number of its own in nearly every row" in out
    assert ("same has the same value" in out, err.count("same has the same value")) == (True, 1)
    summary = tmp_path / "rows.zarr"
    assert run("summarize", tmp_path / "rows.parquet", "--features", "zip", "--values", 5, "--out", summary)[0] == 0
    assert "zip: 16 of 20 values" in run("audit", summary)[1]


def test_one_further_group_and_a_level(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    scores, group = rng.random(20_000), rng.random(20_000) < 0.5
    truth = np.where(group, 0.7 * scores, scores)
    frame = pd.DataFrame({"label": (rng.random(20_000) < truth).astype(int), "score": scores, "g": group})
    frame.to_parquet(tmp_path / "rows.parquet")
    status, out, _ = run("audit", tmp_path / "rows.parquet", "--features", "g")
    assert (status, "Further subgroups that overlap with it" in out) == (1, True)
    status, _, err = run("audit", tmp_path / "rows.parquet", "--features", "g", "--alpha", "5")
    assert (status, "alpha expects a number between 0 and 1 such as 0.05, got 5.0" in err) == (2, True)


@pytest.mark.filterwarnings("default")
def test_what_zarr_warns_of_is_one_line(run: Run, tmp_path: Path) -> None:
    import zarr

    rng = np.random.default_rng(2)
    scores = rng.random(500)
    group = zarr.open_group(tmp_path / "rows.zarr", mode="w")
    for name, values in {"scores": scores, "labels": (rng.random(500) < scores) * 1, "x": rng.random(500)}.items():
        group.create_array(name, data=values)
    (tmp_path / "rows.zarr" / "notes.txt").write_text("what else is there")
    status, _, err = run("audit", tmp_path / "rows.zarr", "--features", "x")
    assert status == 0
    assert err == "calibdask: Object at notes.txt is not recognized as a component of a Zarr hierarchy.\n"
