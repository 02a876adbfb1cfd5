"""Kernels of fine cells against plain sums: parts of cells, losses, and smoothing under reflection."""

from typing import Any

import numpy as np
import pytest

from calibdask.estimators.smooth.smoothing import REACH, Kernel, Mirrored, profile
from calibdask.kernels.smoothing import absolute_sums
from calibdask.statistics.bins.grid import UNIT, Grid, GridState, coarsened, scores_of_cells
from calibdask.statistics.bins.grid_bins import binary_scores

GRID = Grid(600)
WEIGHTS = np.random.default_rng(7).normal(size=(4, GRID.cells + 1))
# The last two are smoothed by cosine coefficients.
WIDTHS = np.array([0.0021, 0.011, 0.09, 0.41])
KERNELS: tuple[Kernel, ...] = ("triweight", "gaussian", "epanechnikov", "cosine")


def convolved(kernel: Kernel, column: int) -> Any:
    """Sums over mirror images of the nodes, one by one; weights at both ends are mirrored onto themselves."""
    place = np.arange(GRID.cells + 1)
    period, smoothed = 2 * GRID.cells, np.zeros(place.size)
    for image in range(-3, 4):
        for mirror in (1, -1):
            distance = (place[:, None] - mirror * place[None, :] + image * period) * GRID.width / WIDTHS[column]
            inside = np.abs(distance) < REACH[kernel]
            smoothed += np.where(inside, profile(kernel, distance), 0.0) @ WEIGHTS[column]
    steps = np.arange(-4 * GRID.cells, 4 * GRID.cells + 1) * GRID.width / WIDTHS[column]
    total = np.where(np.abs(steps) < REACH[kernel], profile(kernel, steps), 0.0).sum()
    return smoothed / total / GRID.width


@pytest.mark.parametrize("kernel", KERNELS)
def test_smoothing_is_the_sum_over_mirror_images(kernel: Kernel) -> None:
    smoothed = Mirrored(WEIGHTS, GRID).by(kernel, WIDTHS)
    for column in range(len(WIDTHS)):
        np.testing.assert_allclose(smoothed[column], convolved(kernel, column), rtol=0, atol=1e-9)
    for column in (0, 1):
        alone = Mirrored(WEIGHTS[[column]], GRID).by(kernel, WIDTHS[[column]])
        np.testing.assert_array_equal(alone[0], smoothed[column])


def test_absolute_sums_are_those_of_smoothed_weights() -> None:
    columns, sums = np.array([1, 0]), np.empty(2)
    absolute_sums(WEIGHTS, columns, GRID.width / WIDTHS[columns], REACH["gaussian"], sums)
    values = np.abs(Mirrored(WEIGHTS, GRID).by("gaussian", WIDTHS)[columns]) * GRID.width
    np.testing.assert_allclose(sums, values.sum(1) - (values[:, 0] + values[:, -1]) / 2, rtol=1e-13)


def refined_state(*, weighted: bool) -> tuple[GridState, Grid]:
    """Few rows in the parts of a refined grid."""
    grid, rng = Grid(refined=True), np.random.default_rng(3)
    rows = rng.poisson(0.7, (2, 1, 3, grid.size, 2))
    places = np.rint(rows * rng.random(rows.shape) / UNIT).astype(np.int64)
    if not weighted:
        empty = np.zeros((2, 1, 3, 0, 2))
        return GridState(rows, places, empty, empty.astype(np.int64)), grid
    return GridState(rows * 1.5, places * UNIT * 1.5, rows * 2.25, rows), grid


@pytest.mark.parametrize("weighted", [False, True])
def test_parts_of_cells_add_up(weighted: bool) -> None:
    state, grid = refined_state(weighted=weighted)
    for parts, cells in zip(state, coarsened(state, grid), strict=True):
        if parts.shape[3]:
            np.testing.assert_array_equal(cells, np.add.reduceat(parts, grid.starts[:-1], axis=3))


@pytest.mark.parametrize("weighted", [False, True])
def test_losses_are_those_of_mean_scores(weighted: bool) -> None:
    state, grid = refined_state(weighted=weighted)
    with np.errstate(invalid="ignore"):
        position = state.distance / state.mass
    score = np.moveaxis(scores_of_cells(grid, np.moveaxis(position, -1, -2)), -2, -1)
    chosen = np.where(np.arange(2) == 1, score, 1 - score)
    first = (slice(None), slice(None), 0)
    expected = (1.0, (1 - chosen) ** 2, -np.log(np.maximum(chosen, 1e-300)))
    for sums, loss in zip(binary_scores(state, grid, 1e-300), expected, strict=True):
        np.testing.assert_allclose(sums, np.nansum((state.mass * loss)[first], axis=(-1, -2)), rtol=1e-12)
