"""Races: their arithmetic, and that every entrant of a race computes something."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from experiments.scaling.data import binary, matrix, read
from experiments.scaling.machine import surroundings
from experiments.scaling.race import Race
from experiments.scaling.tables import markdown, write
from experiments.scaling.timing import Times, timed
from experiments.scaling.workloads import WORKLOADS


def test_ratios_are_those_within_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that gets slower and slower leaves ratios as they are."""
    times = {"read": Times(wall=(9, 9, 9), cpu=(1, 2, 4)), "other": Times(wall=(9, 9, 9), cpu=(3, 6, 12))}
    monkeypatch.setattr("experiments.scaling.race.timed", lambda entrants, rounds: times)
    table = Race("work", {"read": int, "other": int}, "read", units=10, goal={"other": 4.0}).table()
    read, other = table.rows
    assert (read["seconds"], read["nanoseconds"], read["ratio"]) == (2, 2e8, 1)
    assert other["ratio"] == other["low"] == other["high"] == 3
    assert "| other | 6 | 6e+08 | 3 (goal 4: met) | 3 | 3 |" in markdown({"work": table}, {})


def test_short_calls_are_repeated() -> None:
    calls: list[int] = []
    times = timed({"short": lambda: calls.append(0)}, rounds=1)
    assert len(calls) > 100
    assert times["short"].wall[0] < 2e-4


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


def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are made once: their times do not matter, and what other tests have left is not searched for garbage."""
    monkeypatch.setattr("experiments.scaling.timing._SHORTEST", 0.0)
    monkeypatch.setattr("experiments.scaling.timing.gc", SimpleNamespace(collect=int))


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)
    tables = {}
    for race in WORKLOADS[name](5000):
        entrants = {who: call for who, call in race.entrants.items() if who in ("read", "calibdask", race.reference)}
        tables[race.name] = replace(race, entrants=entrants).table(rounds=1)
    write(tables, surroundings("cores", 1), tmp_path, "results")
    assert set(xr.load_dataset(tmp_path / "results.nc", engine="scipy").sizes) == set(tables)
    assert all(f"### {race}" in (tmp_path / "results.md").read_text() for race in tables)
    assert "<table" in (tmp_path / "results.html").read_text()
