"""The measurements of watching, at small sizes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calibdask as cd
from experiments.scaling import watching


def test_slices_of_one_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watching.main(["slices", "--slices", "30", "--out", str(tmp_path)])
    assert capsys.readouterr().out.count("| 30 | 3000 |") == 1
    page = (tmp_path / "watching.md").read_text(encoding="utf-8")
    assert "goal 15" in page
    assert "### slices" in page


def test_a_store_that_has_grown(tmp_path: Path) -> None:
    watching.make_days(tmp_path / "days.zarr", days=3, countries=4, classes=5, rows_a_day=80)
    summary = cd.open_summary(tmp_path / "days.zarr")
    assert summary.day.values.tolist() == ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert (summary.rows == 20).all()
    assert np.unique(summary.country).size == 4


def test_the_peak_of_a_process_is_no_less_than_what_it_holds() -> None:
    code = "held = b'1' * 80_000_000; print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 80 < watching.peak(process.pid) < 200
        process.communicate(b"\n")
