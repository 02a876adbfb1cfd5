"""The grid kernel puts every score in the cell whose edges it lies between, and at its place there."""

from typing import Any

import numpy as np
import pytest

from calibdask.kernels import gridding
from calibdask.kernels.labels import packed
from calibdask.statistics.bins.grid import Grid
from tests.combinations import pairwise


def placed(grid: Grid, scores: Any, columns: int = 1, group: Any = None) -> Any:
    """Counts and positions by (group, column, cell, outcome) of scores (n,) repeated in every column; no hits."""
    # Of the types of blocks, whose kernels other tests compile as well.
    members = np.empty(0, np.int32) if group is None else group.astype(np.int32)
    groups = 1 if group is None else int(group.max()) + 1
    sums = np.zeros((groups * columns * grid.size * 2, 2), np.int64)
    matrix = np.repeat(scores[:, None], columns, 1)
    matrix.setflags(write=False)
    members.setflags(write=False)
    labels = np.full(len(scores), -1, np.int32)
    gridding.grid_sums(matrix, packed(labels), 0, members, grid.cells, grid.low, 1 / grid.width, grid.size, sums)
    return sums.reshape(groups, columns, grid.size, 2, 2)


@pytest.mark.parametrize(
    ("dtype", "low", "cells"), pairwise([np.float32, np.float64], [0.0, 0.1, 1 / 3], [49, 300, 3600, 3900])
)
def test_scores_at_and_next_to_edges(cells: int, low: float, dtype: Any) -> None:
    grid = Grid(cells, low)
    at = grid.nodes.astype(dtype)
    scores = np.concatenate([at, np.nextafter(at, dtype(0)), np.nextafter(at, dtype(1)), dtype([0, 1, np.nan])])
    clean = np.nan_to_num(scores.astype(np.float64))
    cell = np.clip(np.searchsorted(grid.nodes, clean, side="left") - 1, 0, cells - 1)
    count = placed(grid, scores)[0, 0, :, 0, 0]
    np.testing.assert_array_equal(count, np.bincount(cell, minlength=cells))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("refined", [False, True])
def test_positions_do_not_depend_on_how_many_rows_come_at_once(refined: bool, dtype: Any) -> None:
    grid = Grid(300, refined=refined)
    rng = np.random.default_rng(0)
    # More rows of one cell than share an int64, at both of its ends.
    scores = np.concatenate([rng.beta(0.2, 0.2, 20_000), np.ones(140_000), np.full(3, 1e-9)]).astype(dtype)
    parts = [placed(grid, part) for part in np.array_split(scores, 60)]
    np.testing.assert_array_equal(placed(grid, scores), sum(parts))


@pytest.mark.parametrize("columns", [1, 3, 40])
def test_columns_and_groups_are_kept_apart(columns: int) -> None:
    grid = Grid(300, refined=True)
    rng = np.random.default_rng(1)
    scores, group = rng.random(6000), rng.integers(0, 2, 6000)
    result = placed(grid, scores, columns, group)
    for g in range(2):
        alone = placed(grid, scores[group == g])[0, 0]
        for c in range(columns):
            np.testing.assert_array_equal(result[g, c], alone)
