"""Bins made of cells of a grid: their sums, and edges of equal mass on the borders of cells."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import sparse_grid
from calibdask.kernels.gridding import add_cells, loss_sums
from calibdask.statistics.bins.bin_sums import BinSums, BinSumsState
from calibdask.statistics.bins.binnings import EqualMass, number_of_bins, padded
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.bins.grid import UNIT, Grid, GridState, unit_of
from calibdask.statistics.bins.masses import Masses
from calibdask.statistics.bins.sparse_grid import SparseGridState
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray

# Occupied cells that are added up at a time.
_CELLS_TOGETHER = 1 << 20


def equal_mass_edges(binning: EqualMass, state: GridState, grid: Grid) -> Edges:
    """Edges after the cells that hold the scores of the ranks n i / bins; cells, and so ties, are never split.

    Scores below 2**-31 of a cell, at most 1.3e-13 for 3600 cells, count as 0: where a rank lies among such scores alone
    there is no edge, as there is none between rows with scores of 0.

    Raises
    ------
    ValueError
        If the binning is not the plain one.
    """
    if binning.rule != "spread" or binning.closed != "right" or binning.range != (0.0, 1.0):
        raise ValueError(
            "From a summary, bins of equal mass are closed on the right, span [0, 1] and follow no other tool's rule; "
            "evaluate the data themselves for others."
        )
    shape = state.mass.shape[:3]
    mass = np.cumsum(state.mass.sum(-1), -1).reshape(-1, grid.size)
    masses = Masses.of_cells(mass[:, -1], (state.mass, state.square, state.rows) if state.weighted else None)
    rows = masses.total if not state.weighted else state.rows.sum((-1, -2)).ravel()
    columns = []
    only_zeros = (state.offset[..., 0, :] == 0).all(-1).ravel() & (grid.low == 0)
    numbers = number_of_bins(binning.bins, rows).tolist()
    for cumulative, zeros, bins, *units in zip(mass, only_zeros.tolist(), numbers, *masses, strict=True):
        total, unit, slack = units
        ranks = np.arange(1, bins) * total // bins
        ranks = ranks[ranks > 0] * unit
        if zeros:
            # Between two scores of 0 lies the outer edge, which is there already.
            ranks = ranks[ranks + slack >= cumulative[0]]
        # The cell that holds the score of this rank ends the bin, as a run of equal scores does.
        ends = np.minimum(np.searchsorted(cumulative, ranks - slack), grid.size - 1)
        _, first = np.unique(cumulative[ends], return_index=True)
        inner = ends[first] + 1
        inner = inner[(cumulative[inner - 1] > 0) & (cumulative[inner - 1] < cumulative[-1])]
        columns.append(np.r_[0.0, grid.edges[inner], 1.0])
    return Edges(FrozenArray(padded(columns).reshape(*shape, -1)))


class HistogramSums(NamedTuple):
    """Sums of a histogram by (batch, group, column, outcome, cell): of w, of w * score, of w**2 and of rows."""

    mass: Array
    score: Array
    square: Array
    rows: npt.NDArray[Any]
    weighted: bool


def cell_sums(state: GridState, grid: Grid) -> HistogramSums:
    """Sums by cell of a state."""
    count, distance = _by_outcome(state.mass, np.float64), _by_outcome(state.distance, np.float64)
    edge, step = grid.nearer
    score = count * edge + distance * step
    if not state.weighted:
        return HistogramSums(count, score, count, _by_outcome(state.mass, np.int64), weighted=False)
    return HistogramSums(
        count, score, _by_outcome(state.square, np.float64), _by_outcome(state.rows, np.int64), weighted=True
    )


def square_sums(request: BinSums, state: GridState, grid: Grid) -> BinSumsState:
    """Sums of squared weights over bins, with all rows of a cell and outcome at their mean score."""
    mass = np.asarray(state.mass, np.float64)
    position = np.divide(state.distance, mass, out=np.zeros_like(mass), where=mass > 0)
    squared = GridState(state.square, state.square * position, state.square, state.rows)
    return bin_sums(request, cell_sums(squared, grid), grid)


def _by_outcome(sums: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.ascontiguousarray(np.moveaxis(sums, -1, -2), dtype)


def bin_sums(request: BinSums, cells: HistogramSums, grid: Grid) -> BinSumsState:
    """Sums over bins whose edges are borders of cells.

    Scores are rounded by 2**-31 of a cell; for sums of squared scores, all scores of a cell with one outcome count as
    equal to their mean, which changes each by less than a quarter of the squared width of the cell, 2e-8.

    Raises
    ------
    ValueError
        If an edge is not the border of a cell, or bins are closed on the left.
    """
    at = borders(request, grid, cells.mass.shape[:3])
    return _added(request, cells, lambda values: _total(values, at))


def occupied_bin_sums(request: BinSums, state: SparseGridState, shape: tuple[int, ...], grid: Grid) -> BinSumsState:
    """As `bin_sums`, to the last bit, of the occupied cells of a histogram with these batch, groups and columns."""
    bins = request.edges.bins
    at = borders(request, grid, shape).reshape(-1, bins + 1)
    if not state.weighted:
        rows, totals = np.zeros((*shape, bins), np.int64), np.zeros((4, *shape, bins))
        options = UNIT, grid.size, *grid.nearer, np.ascontiguousarray(at)
        sparse_grid.occupied_bin_sums(
            state.at, state.sums, *options, rows.reshape(at.shape[0], bins), totals.reshape(4, -1, bins)
        )
        mass = rows.astype(np.float64)
        plain = BinSumsState(rows, mass, mass, totals[0], totals[1], np.zeros((0, *mass.shape)))
        return plain._replace(second=second_sums(request, plain, *totals[2:]))
    # Some strata at a time, so that what is computed by cell needs no memory beside the cells themselves.
    ends = np.searchsorted(state.at, np.arange(len(at) + 1) * (2 * grid.size))
    cuts = np.searchsorted(ends, np.arange(_CELLS_TOGETHER, ends[-1], _CELLS_TOGETHER))
    parts = []
    for first, last in pairwise(np.unique([0, *cuts, len(at)]).tolist()):
        cells = slice(ends[first], ends[last])
        piece = SparseGridState(state.at[cells] - first * 2 * grid.size, state.sums[:, cells])
        parts.append(_bin_sums_of_strata(request, piece, at[first:last], grid))
    fields = (np.concatenate(field, axis=-2) for field in zip(*parts, strict=True))
    return BinSumsState(*(field.reshape(*field.shape[:-2], *shape, bins) for field in fields))


def _bin_sums_of_strata(request: BinSums, state: SparseGridState, at: npt.NDArray[Any], grid: Grid) -> BinSumsState:
    """Weighted sums (strata, bins) of occupied cells, with the borders (strata, bins + 1) of bins."""
    number, cells = occupied_sums(state, grid)
    stratum, cell = np.divmod(number, grid.size)
    # Bins of all strata one after the other; a cell is in the last one that begins no later.
    first = (at + (np.arange(len(at)) * (grid.size + 1))[:, None]).ravel()
    place = np.searchsorted(first, cell + stratum * (grid.size + 1), "right") - 1 - stratum
    length = len(at) * request.edges.bins

    def total(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # In their order, from 0, as `_total` does.
        sums = np.bincount(place, values, length).reshape(len(at), request.edges.bins)
        return np.rint(sums).astype(np.int64) if values.dtype == np.int64 else sums

    return _added(request, cells, total)


def occupied_sums(state: SparseGridState, grid: Grid) -> tuple[Counts, HistogramSums]:
    """Numbers of cells with rows, in all histograms one after the other, and their weighted sums (outcome, cell)."""
    both, outcome = np.divmod(state.at, 2)
    is_first = np.diff(both, prepend=-1) > 0
    place = np.cumsum(is_first) - 1
    number = both[is_first]

    def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        sums = np.zeros((2, number.size), values.dtype)
        sums[outcome, place] = values
        return sums

    edge, step = (values[number % grid.size] for values in grid.nearer)
    count, distance = (spread(np.asarray(sums, np.float64)) for sums in (state.sums[0], state.distance))
    score = count * edge + distance * step
    rows = spread(state.rows.astype(np.int64))
    return number, HistogramSums(count, score, spread(state.sums[2]), rows, weighted=True)


def _added(
    request: BinSums, cells: HistogramSums, total: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
) -> BinSumsState:
    """The sums that a request asks for, by a function that adds up the cells of each bin."""
    count, score = cells.mass, cells.score
    mass = total(count[..., 0, :] + count[..., 1, :])
    plain = BinSumsState(
        total(cells.rows[..., 0, :] + cells.rows[..., 1, :]),
        mass,
        total(cells.square[..., 0, :] + cells.square[..., 1, :]) if cells.weighted else mass,
        total(count[..., 1, :]),
        total(score[..., 0, :] + score[..., 1, :]),
        np.zeros((0, *mass.shape)),
    )
    if request.second == "none":
        return plain
    square = np.divide(score**2, count, out=np.zeros_like(score), where=count > 0).sum(-2)
    return plain._replace(second=second_sums(request, plain, total(square), total(score[..., 1, :])))


def binary_scores(state: GridState, grid: Grid, smallest: float) -> tuple[Array, Array, Array]:
    """Sums of w, w * Brier score and w * logarithmic score of binary scores, (batch, groups), from their one column.

    All scores of a cell with one outcome count as equal to their mean; probabilities are clipped at ``smallest``.
    """
    mass, offset = (
        np.ascontiguousarray(sums[:, :, 0]).reshape(-1, grid.size, 2) for sums in (state.mass, state.offset)
    )
    sums = np.empty((len(mass), 3))
    loss_sums(mass, offset, unit_of(offset), *grid.nearer, smallest, sums)
    weight, brier, log = sums.T.reshape(3, *state.mass.shape[:2])
    return weight, brier, log


def second_sums(request: BinSums, plain: BinSumsState, square: Array, product: Array) -> Array:
    """The further sums of a request, from sums of w * score**2 and w * score * outcome."""
    if request.second == "none":
        return np.zeros((0, *square.shape))
    if request.second == "squares":
        return np.stack([square, product])
    left, width = request.edges.values[..., :-1], np.diff(request.edges.values, axis=-1)
    left, width = np.nan_to_num(left), np.where(width > 0, width, np.inf)
    offset = (plain.score - left * plain.weight) / width
    by_hit = (product - left * plain.outcome) / width
    return np.stack([offset, by_hit, (square - left * plain.score) / width])


def _total(cells: npt.NDArray[Any], at: Counts) -> npt.NDArray[Any]:
    """Sums over bins, (batch, groups, columns, bins), from the cells numbered ``at`` to before the next."""
    sums = np.empty((*cells.shape[:3], at.shape[-1] - 1), cells.dtype)
    columns = np.ascontiguousarray(cells).reshape(-1, cells.shape[-1])
    add_cells(columns, np.ascontiguousarray(at).reshape(len(columns), -1), sums.reshape(len(columns), -1))
    return sums


def borders(request: BinSums, grid: Grid, shape: tuple[int, ...]) -> Counts:
    """Number of the first cell of each bin; the outer bins extend to the ends of the grid."""
    values = request.edges.values
    inner = values[..., 1:-1]
    if request.edges.closed != "right":
        raise ValueError("From a summary, bins are closed on the right; evaluate the data themselves for others.")
    last = np.arange(1, request.edges.bins) >= request.edges.effective[..., None]
    at = grid.borders(inner)
    missed = ~last & (at < 0)
    if missed.any():
        raise ValueError(
            f"The bin edge {np.extract(missed, inner)[0]:.17g} does not coincide with a cell boundary of the summary; "
            f"use a number of bins that divides {grid.cells}, such as 10, 15, 20 or 100, or evaluate the data."
        )
    whole = np.zeros(values.shape, np.int64)
    whole[..., 1:-1] = np.where(last, grid.size, at)
    whole[..., -1] = grid.size
    return np.broadcast_to(whole, (*shape, request.edges.bins + 1))
