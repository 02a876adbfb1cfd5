"""Races: their arithmetic, and that every entrant of a race computes something."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from experiments.scaling import race
from experiments.scaling.data import binary, matrix, read
from experiments.scaling.race import Race, combined, raced
from experiments.scaling.report import markdown, surroundings, write
from experiments.scaling.workloads import WORKLOADS


def test_ratios_are_those_within_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that gets slower and slower leaves ratios as they are."""
    # Durations 1 and 3, then 2 and 6, then 4 and 12: each call reads the clock before and after.
    clock = iter([0, 1, 1, 4, 4, 6, 6, 12, 12, 16, 16, 28])
    monkeypatch.setattr(race, "CLOCKS", {"cores": lambda: next(clock)})
    monkeypatch.setattr(race, "_repeats", lambda call: 1)
    result = raced(Race("work", {"read": int, "other": int}, "read", units=10, goal={"other": 4.0}), rounds=3)
    assert result.ratio.sel(entrant="read") == 1
    assert result.ratio.sel(entrant="other") == 3
    assert result.ratio_low.sel(entrant="other") == result.ratio_high.sel(entrant="other") == 3
    np.testing.assert_allclose(result.nanoseconds, result.seconds / 10 * 1e9)


def test_reading_reads_every_bit() -> None:
    labels, scores = binary(1001, "float32")
    before = read(labels, scores)
    scores[-1] += 1
    assert read(labels, scores) != before


def test_predictions_are_calibrated() -> None:
    labels, scores = binary(200_000, "float64", skewed=True)
    assert labels.mean() == pytest.approx(scores.mean(), abs=0.005)
    labels, scores = matrix(50_000, 4, "float32")
    np.testing.assert_allclose(np.eye(4)[labels].mean(0), scores.mean(0), atol=0.01)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_runs(name: str, tmp_path: Path) -> None:
    results = {}
    for each in WORKLOADS[name](5000):
        entrants = {who: call for who, call in each.entrants.items() if who in ("read", "calibdask", each.reference)}
        results[each.name] = raced(Race(each.name, entrants, each.reference, each.units, each.goal), rounds=1)
    result = combined(results).assign_attrs(surroundings("cores", 1))
    write(result, tmp_path)
    assert xr.load_dataset(tmp_path / "results.nc", engine="scipy").sizes["race"] == len(results)
    assert all(f"### {name}" in markdown(result) for name in results)
    assert "<table" in (tmp_path / "index.html").read_text()
