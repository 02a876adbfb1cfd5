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
    assert (status, "No group has 100 rows: nothing can be said." in out) == (3, True)
    assert run("audit", few, "--features", "x", "--json")[0] == 3
    assert run("audit", few, "--features", "x", "--min-rows", "20")[0] == 0
    status, out, _ = run("audit", "--help")
    assert "3 no group has --min-rows rows, so" in out
    summary = few.with_name("few.zarr")
    assert run("summarize", few, "--features", "x", "--out", summary)[0] == 0
    assert run("audit", summary)[0] == 3


def test_maps_of_too_few_rows_say_so(run: Run, few: Path) -> None:
    status, out, _ = run("calibrate", few, "--features", "x", "--out", few.with_name("map.json"))
    assert status == 0
    assert "No group has 100 rows: nothing can be said, and scores stay as they are." in out
    method = ("--method", "multicalibrated(min_rows=20)")
    status, out, _ = run("calibrate", few, "--features", "x", *method, "--out", few.with_name("other.json"))
    assert (status, "No group is off for certain" in out) == (0, True)
