"""Replicates of smoothed curves and errors on coarser grids are those on the fine one, but for little."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import calibdask as cd
from calibdask.engine.plan import run
from calibdask.engine.rows import Rows, make_block
from calibdask.engine.sources.summary import SummarySource
from calibdask.estimators.parts import CalibrationError, Curve, Part
from calibdask.statistics.bins.grid import Grid, GridHistogram, GridState, merged_cells, node_weights
from calibdask.statistics.layout import Layout
from calibdask.statistics.replicates.histograms import resampled

REPLICATES = 200


def histogram(asked: GridHistogram, labels: Any, scores: Any, weights: Any = None) -> GridState:
    given = None if weights is None else weights[None]
    layout = Layout(weighted=weights is not None)
    return asked.from_block(make_block(Rows(scores[None, :, None], labels[None], given), layout, 0))


@pytest.mark.parametrize("low", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cells", [300, 900, 3600])
def test_merged_cells_are_those_of_the_coarser_grid(low: float, weighted: bool, cells: int) -> None:
    rng = np.random.default_rng(1)
    scores = low + (1 - low) * rng.beta(0.4, 1, 500)
    labels = rng.integers(0, 2, 500)
    weights = rng.random(500) if weighted else None
    setting = cd.DensityECE().histogram(Layout()).setting
    fine, coarse = Grid(3600, low), Grid(cells, low)
    actual = merged_cells(histogram(GridHistogram(setting, fine), labels, scores, weights), fine, coarse)
    expected = histogram(GridHistogram(setting, coarse), labels, scores, weights)
    # Positions of rows are rounded by 2**-31 of a cell.
    for name in ("mass", "distance", "square", "rows"):
        np.testing.assert_allclose(getattr(actual, name), getattr(expected, name), rtol=1e-12, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(node_weights(actual, coarse), node_weights(expected, coarse), atol=1e-9)


def test_grids_of_replicates() -> None:
    metric = cd.DensityECE()
    for bandwidth in (0.001, 0.004, 0.01, 0.02, 0.05, 0.2):
        coarse = metric.on_fewer_cells(bandwidth, 0.0)
        histogram = coarse.histogram(Layout())
        cells = histogram.grid.cells
        assert 3600 % cells == 0
        assert cells == 3600 or 1 / cells <= bandwidth / 10
    assert metric.on_fewer_cells(0.05, 0.0) == replace(metric, step=1 / 300)
    # Smaller supports have narrower cells.
    assert metric.on_fewer_cells(0.03, 0.5).step == metric.on_fewer_cells(0.06, 0.0).step
    # Points stay nodes, and beta kernels are narrower at the ends than in the middle.
    assert cd.ReliabilityCurve(points=901).on_fewer_cells(0.05, 0.0).step == 1 / 900
    assert cd.DensityECE(kernel="beta").on_fewer_cells(0.05, 0.0) == cd.DensityECE(kernel="beta")


def values(metric: Any, state: GridState, grid: Grid, batch: int) -> tuple[Part, NDArray[Any]]:
    """The part that has intervals, and its values for each batch element."""
    asked = replace(metric, step=1 / grid.cells)
    wanted = asked.histogram(Layout())
    estimate = run({0: asked}, SummarySource({wanted: lambda: state}, Layout(batch=batch), 1)).estimates[0]
    part = next(part for part in estimate.values() if isinstance(part, Curve | CalibrationError))
    return part, part.resampled[:, 0]


@pytest.mark.parametrize(
    ("metric", "middle", "worst"),
    [
        (cd.DensityECE(), 1e-3, 1e-3),
        (cd.ResidualECE(), 1e-3, 1e-3),
        (cd.SmoothECE(), 1e-3, 1e-3),
        (cd.ReliabilityCurve(band="plain"), 1e-3, 1e-2),
        (cd.ReliabilityCurve().for_replicates(), 3e-3, 0.1),
    ],
    ids=["density", "residual", "smooth", "plain curve", "local fit"],
)
@pytest.mark.parametrize("rows", [2000, 100_000])
def test_ends_on_coarser_grids(metric: Any, middle: float, worst: float, rows: int) -> None:
    """The same replicates on both grids, moved by what the grid makes of the data: ends in widths of the interval.

    With 200 replicates ends have a Monte Carlo error of a tenth of the width. The worst are those of local fits at the
    two ends of the support, which linear binning there touches most.
    """
    rng = np.random.default_rng(2)
    scores = rng.random(rows)
    labels = (rng.random(rows) < scores**1.5).astype(int)
    asked = metric.histogram(Layout())
    state = histogram(asked, labels, scores)
    chosen_by = metric if isinstance(metric, cd.SmoothECE) else cd.ReliabilityCurve()
    bandwidth = run({0: chosen_by}, SummarySource({asked: lambda: state}, Layout(), rows)).estimates[0]["bandwidth"]
    few = metric.on_fewer_cells(float(bandwidth.values.min()), 0.0).histogram(Layout())
    assert few.grid.cells < 3600
    copies = resampled(state, asked.grid, 3, range(REPLICATES))
    ends, centres = [], []
    for grid in (asked.grid, few.grid):
        one, many = (
            merged_cells(histograms, asked.grid, grid) if grid != asked.grid else histograms
            for histograms in (state, copies)
        )
        centres.append(values(metric, one, grid, 1)[1])
        ends.append(values(metric, many, grid, REPLICATES)[1] - centres[-1])
    fine, coarse = (np.quantile(replicates, [0.025, 0.975], axis=0) for replicates in ends)
    width = fine[1] - fine[0]
    wide = width > 0.01 * width.max()
    error = np.abs(fine - coarse)[:, wide] / width[wide]
    assert np.median(error) < middle
    assert error.max() < worst


def test_replicates_drawn_on_the_coarser_grid_vary_as_much() -> None:
    """Standard deviations of 1000 replicates of each kind have an error of 2.2 %; four of their ratio are 13 %."""
    rng = np.random.default_rng(4)
    scores = rng.random(3000)
    labels = (rng.random(3000) < scores**1.5).astype(int)
    metric = cd.DensityECE()
    asked = metric.histogram(Layout())
    state = histogram(asked, labels, scores)
    few = metric.on_fewer_cells(0.05, 0.0).histogram(Layout())
    spread = [
        values(metric, resampled(merged_cells(state, asked.grid, grid), grid, seed, range(1000)), grid, 1000)[1].std()
        for grid, seed in ((asked.grid, 5), (few.grid, 6))
    ]
    assert spread[1] == pytest.approx(spread[0], rel=0.13)
