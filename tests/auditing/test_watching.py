"""Features watched over time: the same sums as slices have, and alarms where they belong."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import calibdask as cd
from calibdask.cli import main
from calibdask.inference.sequential.cells import PeriodCells

DAYS = [f"2026-11-{day:02}" for day in range(1, 9)]


def rows_of(day: int, rows: int = 3000) -> pd.DataFrame:
    """Scores that are too low for the value b from the fifth day on, where some values are missing."""
    rng = np.random.default_rng(day)
    score, place = rng.beta(1, 3, rows), rng.choice(["a", "b"], rows)
    truth = np.where((place == "b") & (day >= 4), np.minimum(score + 0.15, 1), score)
    place = np.where((rng.random(rows) < 0.1) & (day >= 5), None, place.astype(object))
    frame = pd.DataFrame({"label": (rng.random(rows) < truth).astype(int), "score": score, "place": place})
    return frame.assign(size=rng.integers(0, 3, rows))


@pytest.fixture(scope="module")
def summary() -> xr.Dataset:
    """Eight days with two features."""
    first = cd.summarize(rows_of(0), features=["place", "size"], depth=2)
    later = [cd.summarize(rows_of(day), cuts=first) for day in range(1, 8)]
    whole: xr.Dataset = xr.concat([first, *later], xr.IndexVariable("day", DAYS))
    return whole


def test_each_value_is_watched_as_a_slice_would_be(summary: xr.Dataset) -> None:
    result = cd.watch(summary, features=True)
    frame = pd.concat([rows_of(day).assign(day=name) for day, name in enumerate(DAYS)])
    slices = cd.summarize(frame.label, frame.score, by={"day": frame.day, "size": frame["size"]})
    expected = cd.watch(slices, by="size")
    texts = ["size = 0", "size = 1", "size = 2"]
    for text, size in zip(texts, range(3), strict=True):
        here, there = result.sel(segment=text), expected.sel(size=size)
        for name in ("rows", "events"):
            assert here[name].values.tolist() == there[name].values.tolist()
        for name in ("gap", "mean_score", "frequency", "period_gap"):
            np.testing.assert_allclose(here[name], there[name], rtol=0, atol=1e-10)
        # Cells are fewer: what they do not tell is taken at its worst.
        assert (here.gap_low <= there.gap_low + 1e-12).all()
        assert (here.gap_high >= there.gap_high - 1e-12).all()
        assert abs(here.log_e[-1] - there.log_e[-1]) < 0.5 * abs(there.log_e[-1]) + 1
    whole = cd.watch(summary)
    np.testing.assert_allclose(result.gap.sel(segment="all rows"), whole.gap, rtol=0, atol=1e-10)


def test_alarms_name_the_value_and_go_on_to_the_same_bits(summary: xr.Dataset) -> None:
    result = cd.watch(summary, features=True)
    last = result.isel(day=-1)
    assert last.found.sel(segment=["place = b", "place = a"]).values.tolist() == [True, False]
    assert str(result.segment.values[int(np.argmax(last.log_e.values))]) == "place = b"
    assert not result.alarm.isel(day=slice(0, 4)).any()
    # A value that comes later had its place before.
    assert result.rows.sel(segment="place missing").values.tolist()[:5] == [0] * 5
    assert (result.rows.sel(segment="place missing").values[5:] > 200).all()
    first = cd.watch(summary.isel(day=slice(0, 5)), features=True)
    later = cd.watch(summary, features=True, state=first.attrs["state"])
    for name in ("log_e", "gap_low", "found", "log_detector"):
        np.testing.assert_array_equal(later[name], result[name].isel(day=slice(5, None)))
    with pytest.raises(ValueError, match="give the same by"):
        cd.watch(summary, state=first.attrs["state"])


def test_a_bound_of_squares_from_sums() -> None:
    rng = np.random.default_rng(0)
    edges = np.array([0.0, 0.1, 0.3, 0.35, 1.0])
    score = rng.random(50) ** 2
    for outcome in (rng.random(50) < score, score < 0.2, np.ones(50, bool), np.zeros(50, bool)):
        sums = [np.histogram(score, edges, weights=by)[0][None] for by in (np.ones(50), outcome * 1.0, score)]
        cells = PeriodCells.of_sums(*sums, edges)
        truth = np.histogram(score, edges, weights=(outcome - score) ** 2)[0]
        assert (cells.square >= truth - 1e-12).all()
        assert cells.rows.sum() == 50
    # At the edges nothing is lost.
    exact = PeriodCells.of_sums(np.array([[4]]), np.array([[0]]), np.array([[0.4]]), np.array([0.1, 0.3]))
    assert exact.square.tolist() == [pytest.approx(4 * 0.1**2)]


def test_at_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "days.zarr")
    for day in (0, 4, 5, 6):
        rows_of(day).to_parquet(tmp_path / "rows.parquet")
        chosen = [] if day else ["--features", "place,size"]
        append = ["--append", store, "--period", f"day={DAYS[day]}"]
        assert main(["summarize", str(tmp_path / "rows.parquet"), *chosen, *append]) == 0
    capsys.readouterr()
    assert main(["watch", store, "--features", "--json", "--state", str(tmp_path / "state.json")]) == 1
    alarms = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"segment": "place = b"} in [alarm["by"] for alarm in alarms]
    assert {"segment": "place = a"} not in [alarm["by"] for alarm in alarms]
    assert main(["watch", store, "--features", "--state", str(tmp_path / "state.json")]) == 1
    assert "place = b" in capsys.readouterr().out
    assert main(["watch", store, "--features", "--by", "place"]) == 2
    assert "by has no effect with features" in capsys.readouterr().err


def test_what_cannot_be_watched(summary: xr.Dataset) -> None:
    plain = cd.summarize([0, 1, 0, 1], [0.1, 0.9, 0.2, 0.7], by={"day": [1, 1, 2, 2]})
    with pytest.raises(ValueError, match="features expects a summary with features, but this one has none"):
        cd.watch(plain, features=True)
    with pytest.raises(ValueError, match="features of this summary are of the setting class 1, got 'confidence'"):
        cd.watch(summary, features=True, setting="confidence")
