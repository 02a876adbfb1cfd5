"""Mending at size: the planted groups are off and nothing else, and the page holds what was measured."""

from pathlib import Path

import numpy as np
import pytest

from experiments.scaling import menders, mending


def test_two_groups_are_off() -> None:
    frame, truth = mending.rows_of(50_000, 0)
    first = (frame.x0 == "b") & (frame.x6 > 0.7)
    second = (frame.x1 == "d") & (frame.x2 == "a")
    np.testing.assert_array_equal(frame.score[~first & ~second], truth[~first & ~second])
    assert (truth[first & ~second] > frame.score[first & ~second]).all()
    assert (truth[second & ~first] < frame.score[second & ~first]).all()
    residual = frame.label - truth
    assert abs(residual.mean()) < 4 * residual.std() / np.sqrt(residual.size)
    assert [*frame.columns] == ["label", "score", *menders.FEATURES]


def test_a_measurement(tmp_path: Path) -> None:
    mending.rows_of(20_000, 0)[0].to_parquet(tmp_path / "fit.parquet")
    fresh, truth = mending.rows_of(20_000, 1)
    fresh.to_parquet(tmp_path / "fresh.parquet")
    told = menders.measured("calibdask", tmp_path, 2)
    assert {*told} == {*mending.CLOCKS}
    assert told["fit"] > told["predict"] > 0
    np.save(tmp_path / "mcgrad.npy", fresh.score)
    losses = mending.log_losses(fresh, truth, tmp_path)
    assert losses["truth"] < losses["calibdask"] < losses["before"] == losses["mcgrad"]


def test_tables_of_measurements() -> None:
    seen = {
        "calibdask": [{"fit": 1.0, "fit_cpu": cpu, "predict": 0.1, "predict_cpu": 0.1} for cpu in (1.0, 2.0, 4.0)],
        "mcgrad": [{"fit": 9.0, "fit_cpu": cpu, "predict": 0.5, "predict_cpu": 0.4} for cpu in (3.0, 8.0, 8.0)],
    }
    seconds = mending.seconds_rows(1000, 1, seen)
    # Of each round, not of the medians, whose ratio is 4.
    assert [line["fit_cpu_ratio"] for line in seconds] == [1.0, 3.0]
    assert seconds[1]["predict_cpu_ratio"] == pytest.approx(4)
    losses = {"truth": 0.5, "before": 0.51, "calibdask": 0.501, "mcgrad": 0.502}
    effects = mending.effect_rows(1000, losses, {"before": 9.0, "calibdask": 2.0, "mcgrad": 3.0})
    assert effects[1]["above_truth_1000"] == pytest.approx(1)
    text = mending.page_of(seconds, effects)
    assert "| 1000 | 1 | 3 | mcgrad | 9 | 8 | 0.5 | 0.4 | 3 | 4 |" in text
    assert "| 1000 | mended by mcgrad | 0.502 | 2 | 3 |" in text


def test_the_page_of_speed_says_what_was_measured() -> None:
    readme = " ".join((mending.PAGE.parents[1] / "README.md").read_text(encoding="utf-8").split())
    lines = mending.PAGE.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| 100")]
    few, many = ([float(cell) for cell in rows[at][-2:]] for at in (1, 3))
    said = (few[0], few[1], f"{many[0]:.0f}", many[1])
    times = (
        "takes {:.1f} times the processor time for a fit and {:.1f} times for mending, at 10^6 rows {} and {:.1f} times"
    )
    assert times.format(*said) in readme
    left = {(row[0], row[1].removeprefix("mended by ")): [float(cell) for cell in row[3:]] for row in rows[4:]}
    ours, theirs = left["100000", "calibdask"], left["100000", "mcgrad"]
    small = f"({ours[0]:.2f} thousandths and {ours[1]:.1f}, MCGrad {theirs[0]:.2f} and {theirs[1]:.1f})"
    assert small in readme
    ours, theirs, before = (left["1000000", name] for name in ("calibdask", "mcgrad", "as they come"))
    assert f"({theirs[0]:.2f} and {ours[0]:.2f}, of {before[0]:.1f} before)" in readme
    assert ours[1] == pytest.approx(theirs[1], rel=0.02)
