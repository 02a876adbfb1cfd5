"""Many cheap cells: that the measurement counts meaning."""

from pathlib import Path

import pytest

from experiments.scaling import cells
from experiments.scaling.cells import Hundreds, Singles, Thousands, measured


def test_batches_are_all_that_differs() -> None:
    assert {number: study.batch for number, study in cells.STUDIES.items()} == {1: 1, 100: 100, 1000: 1000}
    for study in (Hundreds, Thousands):
        assert study().computed(7) == Singles().computed(7)


def test_a_study_of_single_cells() -> None:
    row = measured("threads:2", 12, 1)
    assert (row["cells"], row["tasks"]) == (12, 12)
    # Files of the value, status and hashes of each cell; of five axes and variables; of what says that all are done;
    # of the versions that computed them; of their group and the cube.
    assert row["files"] == 3 * 12 + 1 + 5 + 1 + 1 + 2
    assert row["wall_us"] > 0
    assert row["peak_mb"] >= row["before_mb"] > 0


def test_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cells, "fresh", measured)
    cells.main(["--cells", "101", "--batch", "100", "--on", "threads:2", "--out", str(tmp_path)])
    output = capsys.readouterr().out
    assert "### cells_100" in output
    assert "### cells_1\n" in output
    assert "| threads:2 | 101 | 2 |" in (tmp_path / "cells.md").read_text()
