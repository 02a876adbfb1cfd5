"""The race with query engines: the same rows and the same number for all, from both formats, and the picture."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.scaling import engines


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small units, and calls in this process."""

    def at_once(call: Any, path: str, *, twice: bool) -> dict[str, float]:
        second = 0.5 if twice else math.nan
        return {"ece": call(path), "first_call": 1.0, "processor": 1.0, "second_call": second, "peak_mb": 1.0}

    monkeypatch.setattr(engines, "UNIT", 1500)
    monkeypatch.setattr(engines, "fresh", at_once)


@pytest.mark.usefixtures("small")
def test_one_number_for_all(tmp_path: Path) -> None:
    stem = tmp_path / "rows"
    engines.write_parquet(stem.with_suffix(".parquet"), 4000, "float64")
    engines.write_zarr(stem.with_suffix(".zarr"), 4000, "float64")
    errors = {row["contestant"]: row["ece"] for row in engines.race(stem, 4000, 1).rows}
    assert set(errors) == set(engines.CONTESTANTS)
    alike = [error for name, error in errors.items() if "slice" not in name]
    np.testing.assert_allclose(alike, alike[0], rtol=1e-9)
    exact = [error for name, error in errors.items() if name.startswith("calibdask") and "slice" not in name]
    assert len(set(exact)) == 1
    assert errors["calibdask, 2 errors by slice with intervals"] == pytest.approx(errors["DuckDB, one metric by slice"])


@pytest.mark.usefixtures("small")
def test_growth_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "LARGE", 1000)
    kept = {name: engines.CONTESTANTS[name] for name in ("DuckDB, one metric", "NumPy in memory, one metric")}
    monkeypatch.setattr(engines, "CONTESTANTS", kept)
    page = tmp_path / "page.md"
    words = ["--rows", "500", "2000", "--dtype", "float32", "--rounds", "1", "--out", str(page)]
    monkeypatch.setattr(sys, "argv", ["engines", *words])
    engines.main()
    text = page.read_text(encoding="utf-8")
    assert "![Processor seconds and memory by rows](page.png)" in text
    assert [text.count(name) for name in kept] == [2, 1]
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
