"""A hundred thousand cheap cells: neither the scheduler's memory nor the time of a cell grows with their number."""

import pytest

from experiments.scaling.cells import fresh

pytestmark = pytest.mark.faults


def test_memory_and_time_a_cell_are_bounded() -> None:
    few, many = (fresh("local:2", cells, 1000) for cells in (1000, 100_000))
    assert (few["tasks"], many["tasks"]) == (1, 100)
    # Values, status and hashes of each of 100 chunks; the others are of axes, groups and versions.
    assert many["files"] == 3 * 100 + 13
    assert many["peak_mb"] <= 1.15 * few["peak_mb"]
    # Processor time of driver and scheduler, no race: a task for each cell would take ten times as much.
    assert many["cpu_us"] <= 1000
