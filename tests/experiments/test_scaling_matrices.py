"""The measurement of many rows of several classes."""

import math
from pathlib import Path
from typing import Any

import pytest

import calibdask as cd
from experiments.scaling import matrices

pytestmark = pytest.mark.filterwarnings("ignore:.*read scores from:UserWarning")


def _at_once(call: Any, path: str, **_: Any) -> dict[str, float]:
    return {"ece": call(path), "first_call": 1.0, "second_call": math.nan}


def test_both_formats_have_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_CHUNK_ROWS": 3000, "UNIT": 2000, "PANEL": {"ece": cd.ECE()}, "fresh": _at_once}.items():
        monkeypatch.setattr(matrices, name, value)
    table = matrices.race(tmp_path, 10_000, 3)
    errors: dict[str, set[float]] = {}
    for row in table.rows:
        errors.setdefault(row["what"], set()).add(row["ece"])
    assert {name: len(values) for name, values in errors.items() if "calibdask" in name} == {
        "calibdask, twelve metrics": 1,
        "calibdask, twelve metrics by slice with intervals": 1,
    }
    assert errors["DuckDB, one metric"].pop() == pytest.approx(errors["calibdask, twelve metrics"].pop())
