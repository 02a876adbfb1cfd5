"""The study of watching: its summaries, the charts beside the e-process, and a small cube up to tables and figures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import calibdask as cd
from calibdask.study.seeds import Seeds
from experiments.monitoring import charts, outcome
from experiments.monitoring.counted import summary_of
from experiments.monitoring.kinds import KINDS, RARE, SCORES
from experiments.monitoring.study import DETECTOR, E_PROCESS, E_TOLERANCE, MONITORS, Monitoring
from experiments.monitoring.summaries import of_monitoring

SMALL = Monitoring(
    rows=(200, 50_000), kinds=("calibrated", "shift 0.05"), replicates=2, looks=20, change=10, history=15, window=3
)


def drawn(kind: str, rows: int, days: int, seed: int = 0) -> Any:
    return KINDS[kind].draw(rows, np.arange(days) - days // 2, np.random.default_rng(seed))


def as_array(counts: Any) -> xr.DataArray:
    return xr.DataArray(counts, {"day": np.arange(len(counts))}, ("day", "score", "outcome"))


@pytest.mark.parametrize("kind", ["calibrated", "rare", "repeated rows"])
def test_a_summary_of_counts_is_that_of_the_rows(kind: str) -> None:
    counts = drawn(kind, 3000, 5)
    day, score, outcomes = np.repeat(np.argwhere(counts >= 0), counts.ravel(), axis=0).T
    rows = cd.summarize(outcomes, SCORES[score], by={"day": day}, settings=["binary"], step=0.01)
    xr.testing.assert_identical(summary_of(as_array(counts)), rows)


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_are_as_frequent_as_their_chances(kind: str) -> None:
    since = np.array([-5, -1, 0, 1, 200])
    counts = KINDS[kind].draw(10_000_000, since, np.random.default_rng(1))
    rows, chances = counts.sum(-1), KINDS[kind].chances(since)
    assert (rows.sum(-1) == 10_000_000).all()
    spread = np.sqrt(KINDS[kind].copies * rows * chances * (1 - chances))
    assert (np.abs(counts[..., 1] - rows * chances) <= 5 * spread).all()
    before = chances[:2] == SCORES
    assert before.all() or kind == "within tolerance"
    changed = not (chances == SCORES).all()
    assert changed == (KINDS[kind].changes or kind == "within tolerance")
    if kind == "rare":
        assert pytest.approx(0.0104) == SCORES @ RARE


def test_cusum_is_that_of_a_loop_and_of_its_run_length() -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=(20_000, 100))
    limit = charts.cusum_limit(100, 0.05)
    signals = charts.cusum(z, limit)
    assert signals.any(-1).mean() == pytest.approx(0.05, abs=5 * np.sqrt(0.05 * 0.95 / 20_000))
    for path, of_path in zip(z[:300] + 0.3, charts.cusum(z[:300] + 0.3, limit), strict=True):
        above = below = 0.0
        for value, signal in zip(path, of_path, strict=True):
            above, below = max(0.0, above + value - 0.5), max(0.0, below - value - 0.5)
            assert signal == (max(above, below) > limit)
            if signal:
                above = below = 0.0


def test_residuals_are_those_of_rows() -> None:
    counts = drawn("slope", 500, 4).astype(float)
    rows, events = counts.sum(-1), counts[..., 1]
    z, brier = charts.standardised(rows, events), charts.brier_residuals(rows, events)
    for day in range(4):
        of_rows = np.repeat([(s, o) for s in SCORES for o in (0, 1)], counts[day].astype(int).ravel(), axis=0)
        s, o = of_rows.T
        assert z[day] == pytest.approx((o - s).sum() / np.sqrt((s * (1 - s)).sum()))
        excess = (o - s) ** 2 - s * (1 - s)
        assert brier[day] == pytest.approx(excess.sum() / np.sqrt((s * (1 - s) * (1 - 2 * s) ** 2).sum()))
    assert charts.daily(np.array([1.95, -1.97, 0.0]), 0.05).tolist() == [False, True, False]


def test_moving_ece_is_the_ece_of_the_days() -> None:
    counts = drawn("slope", 500, 9)
    moving = charts.moving_ece(counts.sum(-1).astype(float), counts[..., 1].astype(float), 4)
    assert np.isnan(moving[:3]).all()
    summary = summary_of(as_array(counts))
    for day in range(3, 9):
        days = summary.isel(day=slice(day - 3, day + 1))
        assert moving[day] == pytest.approx(
            float(cd.evaluate(cd.merge(days).sum("day"), metrics=cd.ECE(bins=10)).ece), abs=1e-9
        )
    values = np.r_[np.nan, 0.1, 0.2, 0.3, 0.25, 0.31]
    assert charts.above_history(values, 4, 0.95).tolist() == [False, True]


def test_stability_index_is_its_formula() -> None:
    rows = np.zeros((3, SCORES.size))
    # Tenths of the first day: scores 0 to 9, the last of which comes on the third day no more.
    rows[0, :10], rows[1, :10], rows[2, :9] = 10, 10, 10
    psi = charts.stability_index(rows, 1)
    q, p = np.full(10, 0.1), np.r_[np.full(9, 1 / 9), 1e-4]
    assert psi.tolist() == pytest.approx([0.0, ((p - q) * np.log(p / q)).sum()])


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> str:
    store = str(tmp_path_factory.mktemp("monitoring") / "cube.zarr")
    cd.run(SMALL, store)
    return store


def test_a_cell_is_watched_as_in_one_call(cube: str) -> None:
    """Days come in parts, from state to state."""
    values = cd.open_cube(cube).sel(rows=200).load()
    since = np.arange(-SMALL.history, SMALL.looks) - SMALL.change
    for kind in SMALL.kinds:
        rng = Seeds(0, (("rows", 200),)).generator(kind=kind, replicate=1)
        summary = summary_of(as_array(KINDS[kind].draw(200, since, rng)[SMALL.history :]))
        plain, tolerant = cd.watch(summary), cd.watch(summary, tolerance=0.01)
        for name, signals in (
            (E_PROCESS, plain.alarm.values),
            (E_TOLERANCE, tolerant.alarm.values),
            (DETECTOR, plain.detected.values),
        ):
            first = signals.argmax() + 1 if signals.any() else np.nan
            np.testing.assert_equal(values["first"].sel(kind=kind, replicate=1, monitor=name).item(), first)
        assert not values["outside"].sel(kind=kind, replicate=1)


def test_summary_counts_streams(cube: str) -> None:
    summary = of_monitoring(cd.open_cube(cube), SMALL.parameters())
    caught = cd.open_cube(cube)["caught"].load()
    at = {"rows": 50_000, "kind": "shift 0.05", "monitor": E_PROCESS}
    assert float(summary["delay"].sel(at)) == caught.sel(at).min() == 1
    assert float(summary["missed"].sel(at)) == 0
    assert float(summary["since"].sel(rows=50_000, kind="shift 0.05")) == 0
    quiet = summary.sel(rows=50_000, kind="calibrated", monitor=E_PROCESS)
    assert np.isinf(quiet["delay"])
    assert float(quiet["ever"]) == 0
    assert float(summary["by_look"].sel(kind="shift 0.05", monitor=E_PROCESS)[-1]) == 1


def test_delays_leave_out_what_was_never_silent() -> None:
    first = np.full((1, 1, 4, len(MONITORS)), np.nan)
    caught = first.copy()
    # Of the e-process one alarm before the change, two after it, and one that never comes; all others are silent.
    first[0, 0, :, 0], caught[0, 0, :, 0] = [3, 12, 15, np.nan], [1, 2, 5, np.nan]
    dims = ("rows", "kind", "replicate", "monitor")
    one = xr.Dataset(
        {
            **{name: (dims, values) for name, values in (("first", first), ("caught", caught), ("signals", 0 * first))},
            "since": (dims[:3], np.zeros((1, 1, 4))),
            "outside": (dims[:3], np.zeros((1, 1, 4), bool)),
            "status": ("rows", [1]),
        },
        {"rows": [20], "kind": ["shift 0.05"], "monitor": list(MONITORS)},
    )
    summary = of_monitoring(one, SMALL.parameters()).isel(rows=0, kind=0, monitor=0)
    assert float(summary["delay"]) == 5
    assert np.isinf(summary["delay_90"])
    assert float(summary["missed"]) == pytest.approx(1 / 3)
    assert float(summary["before"]) == 0.25


def test_outcome_of_a_cube(cube: str, tmp_path: Path, capsys: Any) -> None:
    assert outcome.main([cube, "--out", str(tmp_path / "first")]) == 0
    names = {"delays.png", "false_alarms.png", "results.md", "summary.nc"}
    assert {path.name for path in (tmp_path / "first").iterdir()} == names
    assert "### Shift by 0.05" in (tmp_path / "first" / "results.md").read_text(encoding="utf-8")
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "other.nc", engine="scipy")
    assert outcome.main([str(tmp_path / "other.nc"), "--out", str(tmp_path)]) == 2
    assert "Expected a cube or a summary of Monitoring" in capsys.readouterr().err


def test_problems_are_told() -> None:
    problems = " ".join(Monitoring(kinds=("storm",), rows=(), change=400, window=90).problems())
    for words in ("kinds expects", "rows and replicates", "change expects", "history expects"):
        assert words in problems
