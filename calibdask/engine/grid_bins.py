"""Bins made of cells of a grid: their sums, and edges of equal mass on the borders of cells."""

from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.statistics.binned import BinSums, BinSumsState
from calibdask.statistics.binnings import EqualMass, number_of_bins, padded
from calibdask.statistics.edges import Edges
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.grid import Grid, GridState, scores_of_cells

__all__ = ["bin_sums", "equal_mass_edges"]


def equal_mass_edges(binning: EqualMass, state: GridState, grid: Grid) -> Edges:
    """Edges after the cells that hold the scores of the wanted ranks; cells, and so ties, are never split.

    Raises
    ------
    ValueError
        If the binning is not the plain one.
    """
    if binning.rule != "spread" or binning.closed != "right" or binning.range != (0.0, 1.0):
        raise ValueError(
            "From histograms on a grid, bins of equal mass are right-closed, span [0, 1] and follow no other tool's "
            "rule; evaluate the data themselves for other ones."
        )
    places = state.mass.shape[:3]
    mass = np.cumsum(state.mass.sum(-1), -1).reshape(-1, grid.size)
    rows = mass[:, -1] if not state.weighted else state.rows.sum((-1, -2)).ravel()
    columns = []
    for cumulative, bins in zip(mass, number_of_bins(binning.bins, rows).tolist(), strict=True):
        i = np.arange(1, bins)
        wanted = i * (cumulative[-1] / bins) if state.weighted else i * cumulative[-1] // bins
        # The cell that holds the score of this rank ends the bin, as a run of equal scores does.
        ends = np.minimum(np.searchsorted(cumulative, wanted), grid.size - 1)
        _, first = np.unique(cumulative[ends], return_index=True)
        inner = ends[first] + 1
        inner = inner[(cumulative[inner - 1] > 0) & (cumulative[inner - 1] < cumulative[-1])]
        columns.append(np.r_[0.0, grid.edges[inner], 1.0])
    return Edges(FrozenArray(padded(columns).reshape(*places, -1)))


def bin_sums(request: BinSums, state: GridState, grid: Grid) -> BinSumsState:
    """Sums over bins whose edges are borders of cells.

    Scores are rounded by 2**-31 of a cell; for sums of squared scores, all scores of a cell with one outcome count as
    equal to their mean, which changes each by less than a quarter of the squared width of the cell, 2e-8.

    Raises
    ------
    ValueError
        If an edge is not the border of a cell, or bins are closed on the left.
    """
    at = _borders(request, grid, state.mass.shape[:3])

    def total(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sums over the bins, (batch, groups, columns, bins)."""
        sums = np.zeros((*cells.shape[:3], grid.size + 1), cells.dtype)
        np.cumsum(cells, -1, out=sums[..., 1:])
        return np.diff(np.take_along_axis(sums, at, -1), axis=-1)

    count, score = state.mass.astype(np.float64), _cell_scores(state, grid)
    weight = state.square.sum(-1) if state.weighted else count.sum(-1)
    rows = state.rows if state.weighted else state.mass
    plain = BinSumsState(
        total(rows.sum(-1)),
        total(count.sum(-1)),
        total(weight),
        total(count[..., 1]),
        total(score.sum(-1)),
        np.zeros((0, *at.shape[:3], at.shape[3] - 1)),
    )
    if request.second == "none":
        return plain
    square = total(np.divide(score**2, count, out=np.zeros_like(score), where=count > 0).sum(-1))
    product = total(score[..., 1])
    if request.second == "squares":
        return plain._replace(second=np.stack([square, product]))
    left, width = request.edges.values[..., :-1], np.diff(request.edges.values, axis=-1)
    left, width = np.nan_to_num(left), np.where(width > 0, width, np.inf)
    offset = (plain.score - left * plain.weight) / width
    by_hit = (product - left * plain.outcome) / width
    return plain._replace(second=np.stack([offset, by_hit, (square - left * plain.score) / width]))


def _cell_scores(state: GridState, grid: Grid) -> Array:
    """Sums of scores by cell and outcome."""
    mass = state.mass.astype(np.float64)
    position = np.divide(state.distance, mass, out=np.zeros_like(mass), where=mass > 0)
    return np.moveaxis(scores_of_cells(grid, np.moveaxis(position, -1, -2)), -2, -1) * mass


def _borders(request: BinSums, grid: Grid, places: tuple[int, ...]) -> Counts:
    """Numbers of the cells that bins begin with; the first bin takes all below it and the last one all above."""
    values = request.edges.values
    inner = values[..., 1:-1]
    if request.edges.closed != "right":
        raise ValueError("From histograms on a grid, bins are closed on the right; evaluate the data for other ones.")
    last = np.arange(1, request.edges.bins) >= request.edges.effective[..., None]
    at = grid.borders(inner)
    missed = ~last & (at < 0)
    if missed.any():
        raise ValueError(
            f"The edge {np.extract(missed, inner)[0]:.17g} of a bin is no border of {grid.cells} equal cells; "
            f"numbers of bins that divide {grid.cells} fit, such as 10, 15, 20 or 100. Evaluate the data for others."
        )
    whole = np.zeros(values.shape, np.int64)
    whole[..., 1:-1] = np.where(last, grid.size, at)
    whole[..., -1] = grid.size
    return np.broadcast_to(whole, (*places, request.edges.bins + 1))
