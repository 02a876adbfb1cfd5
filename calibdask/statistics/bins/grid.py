"""Histograms on a fine grid: the mergeable state of density estimates, curves, bands and summaries."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import gridding
from calibdask.kernels.gridding import HALVINGS, PARTS
from calibdask.kernels.smoothing import share_between_nodes
from calibdask.statistics.bins.edges import uniform_edges
from calibdask.statistics.bins.histograms import Histograms
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import Statistic, Weigh

# Positions within cells are stored in this unit where they are whole numbers.
UNIT = 2.0**-gridding.OFFSET_BITS
# Most rows of a cell and outcome whose positions, as whole numbers, fit an int64.
MOST_ROWS = (1 << (63 - gridding.OFFSET_BITS)) - 1
# Numbers of cells are multiples of this: edges of 10, 12, 15, 20, 25, 30, 50, 60, 75, 100, 150 or 300 bins are edges
# of cells, and the lengths of the transforms have small factors.
DIVISIBLE = 300
# Edges of bins may differ from a border by rounding, less than scores are rounded by.
_ROUNDING = 1e-14
# How far rows may be from a sum of 1, and scores from [0, 1], where nothing else is said.
_SUM_TOLERANCE, _SCORE_TOLERANCE = 1e-3, 1e-6


def cells_of(step: float) -> int:
    """Number of cells of the unit interval that are no wider than ``step``: a multiple of 300.

    Examples
    --------
    >>> cells_of(0.0003)
    3600
    """
    return DIVISIBLE * math.ceil(1 / (DIVISIBLE * step) - 1e-9)


def support(setting: Setting, classes: int) -> float:
    """The smallest score of a setting: the largest of K scores is at least 1/K, the sum of the k largest k/K."""
    if setting.kind == "confidence":
        return 1 / classes
    return setting.index / classes if setting.kind == "top-k" and setting.index < classes else 0.0


@dataclass(frozen=True)
class Grid:
    """Equal right-closed cells of [low, 1]; scores outside by rounding are moved to the nearer end.

    ``refined`` grids divide the 32 cells next to each end of the support, so that there are 32 parts (or more) to every
    doubling of the distance to the end, down to 2**-16 of a cell. Sums over the parts are those of the cells, exactly.
    """

    cells: int = 3600
    low: float = 0.0
    refined: bool = False

    @property
    def width(self) -> float:
        """Width of a cell."""
        return (1.0 - self.low) / self.cells

    @cached_property
    def nodes(self) -> Array:
        """Edges of the cells, shape (cells + 1,); on these nodes densities and curves are computed."""
        return uniform_edges(self.cells, self.low)

    @cached_property
    def starts(self) -> Counts:
        """Number of the first part of each cell, shape (cells + 1,)."""
        parts = np.ones(self.cells, np.int64)
        if self.refined:
            parts[:PARTS] = _parts()
            parts[-PARTS:] = _parts()[::-1]
        return np.r_[0, np.cumsum(parts)]

    @property
    def size(self) -> int:
        """Number of cells, or of their parts if refined."""
        return int(self.starts[-1])

    @cached_property
    def edges(self) -> Array:
        """Edges of the cells or their parts, shape (size + 1,)."""
        if not self.refined:
            return self.nodes
        octaves = 2.0 ** np.arange(-HALVINGS, 0)
        outermost = np.r_[0.0, (octaves[:, None] * (1 + np.arange(PARTS) / PARTS)).ravel()]
        shares = [outermost, *(np.arange(number) / number for number in _parts()[1:].tolist())]
        low = np.concatenate([self.nodes[k] + self.width * share for k, share in enumerate(shares)])
        # Distances to the upper end are those to the lower one.
        return np.r_[low, self.nodes[PARTS : self.cells + 1 - PARTS], (1.0 - (low - self.low))[::-1]]

    def borders(self, values: Array) -> Counts:
        """Numbers of the cells (or their parts) that begin at these values, up to rounding; -1 where none does."""
        at = np.minimum(np.searchsorted(self.edges, values - _ROUNDING), self.size)
        return np.where(np.abs(self.edges[at] - values) <= _ROUNDING, at, -1)

    @cached_property
    def nearer(self) -> tuple[Array, Array]:
        """For each cell (or part of one): the edge of the whole cell that positions count from, and their unit."""
        parts = np.diff(self.starts)
        edge = np.where(self.mirrored, self.nodes[1:], self.nodes[:-1])
        return np.repeat(edge, parts), np.repeat(np.where(self.mirrored, -self.width, self.width), parts)

    @property
    def mirrored(self) -> npt.NDArray[np.bool_]:
        """Cells whose positions count from their upper edge: the upper half."""
        return 2 * np.arange(self.cells) >= self.cells


def _parts() -> Counts:
    """Numbers of parts of the cells next to an end, from the end inwards."""
    parts = PARTS >> np.log2(np.maximum(np.arange(PARTS), 1)).astype(np.int64)
    parts[0] = PARTS * HALVINGS + 1
    return np.asarray(parts, np.int64)


class GridState(NamedTuple):
    """Sums by (batch, group, column, cell, outcome); they may be added plainly.

    ``mass``: number of rows, int64 (with weights: sum of w, float64). ``offset``: sum of positions within the cell,
    from 0 to 1 and counted from its edge nearer to the end of the support, int64 in units of 2**-30 (with weights: of
    w * position, float64). ``square`` and ``rows``: sum of w**2 and number of rows, without cells where there are no
    weights.
    """

    mass: npt.NDArray[Any]
    offset: npt.NDArray[Any]
    square: Array
    rows: Counts

    @classmethod
    def of(cls, function: Callable[..., Any], *states: Iterable[Any]) -> "GridState":
        """Apply a function to each array of a state, or to the arrays of one name of several states."""
        return cls(*map(function, *states))

    def part(self, index: Any) -> "GridState":
        """The sums at an index of the leading axes."""
        return GridState.of(itemgetter(index), self)

    def occupied(self) -> "tuple[Counts, GridState]":
        """The cells that have rows, and the sums over them; of more than half of all cells, all."""
        of_rows = self.rows if self.weighted else self.mass
        # In two steps: one over all axes at once is twenty times slower.
        cells = np.flatnonzero((of_rows != 0).any((0, 1, 2)).any(-1))
        size = of_rows.shape[3]
        if not cells.size or 2 * cells.size > size:
            return np.arange(size), self
        return cells, GridState.of(lambda sums: sums[..., cells, :] if sums.shape[3] else sums, self)

    def placed_in(self, cells: Counts, size: int) -> "GridState":
        """Sums over some cells among others without rows, ``size`` in all."""

        def placed(sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
            if sums.shape[3] in (0, size):
                return sums
            every = np.zeros((*sums.shape[:3], size, 2), sums.dtype)
            every[..., cells, :] = sums
            return every

        return GridState.of(placed, self)

    @property
    def weighted(self) -> bool:
        """Whether there are weights."""
        return self.mass.dtype != np.int64

    @property
    def distance(self) -> Array:
        """The sum of positions as float64, in widths of a cell."""
        return self.distance_of(self.offset)

    @staticmethod
    def distance_of(offset: npt.NDArray[Any]) -> Array:
        """Sums of positions as float64, in widths of a cell."""
        return np.asarray(offset * unit_of(offset), np.float64)

    @property
    def effective_rows(self) -> Array:
        """Number of rows of each (batch, group, column); with weights Kish's effective number."""
        total = np.asarray(self.mass.sum((-1, -2)), np.float64)
        if not self.weighted:
            return total
        square = self.square.sum((-1, -2))
        return np.divide(total**2, square, out=np.zeros_like(total), where=square > 0)


def unit_of(offset: npt.NDArray[Any]) -> float:
    """Unit of sums of positions, in widths of a cell."""
    return 1.0 if offset.dtype == np.float64 else UNIT


@dataclass(frozen=True)
class GridHistogram(Statistic[GridState]):
    """Counts and positions by fine cell and outcome, for every column of a setting.

    Parameters
    ----------
    setting : Setting
        Which columns of (score, outcome).
    grid : Grid
        The cells.

    Notes
    -----
    The linearly binned weights of all rows and of positive rows on the edges of the cells follow exactly
    (`node_weights`), and so do the sums of `BinSums` over bins whose edges are edges of cells.
    One pass; memory batch * groups * columns * cells * 32 bytes (64 with weights): 115 kB for a class, 156 kB if
    refined.

    A score is rounded by at most 2**-31 of a cell, 1.3e-13. Scores below the support by rounding count as its end.

    Raises
    ------
    ValueError
        If scores lie further below the support: those of rows whose sum is far from 1.
    """

    setting: Setting
    grid: Grid = Grid()

    @property
    def adds(self) -> bool:
        """Sums."""
        return True

    def from_block(self, block: Block) -> GridState:
        """Sums of one block."""
        layout, grid = block.layout, self.grid
        columns = block.columns(self.setting)
        self.check_support(block, columns.scores)
        shape = (layout.batch, layout.groups, columns.scores.shape[-1], grid.size, 2)
        weighted = block.weights is not None
        table = np.zeros(
            (layout.batch, math.prod(shape[1:]), 4 if weighted else 2), np.float64 if weighted else np.int64
        )
        cells = (grid.cells, grid.low, 1 / grid.width, grid.size)
        for b in range(layout.batch):
            rest: Any = columns.first_class, block.group, *cells, table[b]
            if weighted:
                gridding.weighted_grid_sums(*columns.of(b), block.weights_of(b), *rest)
            else:
                gridding.grid_sums(*columns.packed_of(b), *rest)
        sums = table.reshape(*shape, -1)
        empty = np.zeros((*shape[:3], 0, 2))
        square, rows = (sums[..., 2], sums[..., 3]) if weighted else (empty, empty)
        return GridState.of(np.ascontiguousarray, (sums[..., 0], sums[..., 1], square, rows.astype(np.int64)))

    def check_support(self, block: Block, scores: npt.NDArray[np.floating]) -> None:
        """Refuse scores that only rows with other sums can have; the usual tolerance of sums has none."""
        least = self.grid.low * (1 - _SUM_TOLERANCE) - _SCORE_TOLERANCE
        if self.grid.low == 0 or block.layout.sum_tolerance <= _SUM_TOLERANCE or not (scores < least).any():
            return
        below = scores[..., 0] < least
        if block.weights is not None:
            below = below & (block.weights > 0)
        rows = np.flatnonzero(below.any(0))
        if rows.size:
            raise ValueError(
                f"Expected scores of the setting {self.setting} of at least {self.grid.low:.4g}, as where rows sum to "
                f"1, which densities, curves and summaries of it rely on; {rows.size} rows of a block have less, the "
                f"first {scores[:, rows[0], 0].min():.4g}. Normalise the rows, or choose other metrics or settings."
            )

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        cells = layout.batch * layout.groups * self.setting.columns(layout.classes) * self.grid.size
        return cells * (64 if layout.weighted else 32)

    def merge(self, a: GridState, b: GridState) -> GridState:
        """Sums of both."""
        return GridState.of(np.add, a, b)

    def check(self, state: GridState) -> None:
        """Refuse more rows of one cell and outcome than the sums of their positions can hold."""
        if not state.weighted and state.mass.max(initial=0) > MOST_ROWS:
            raise ValueError(self.too_many_rows(int(state.mass.max())))

    def too_many_rows(self, rows: int) -> str:
        """The message where one cell and outcome has too many rows."""
        return (
            f"The histogram of the setting {self.setting} holds fewer than 2**33 rows with scores in one cell "
            f"of {self.grid.width:.2g} and the same outcome, got {rows}; keep slices apart, or give "
            "weights (of 1), whose sums are not limited."
        )

    @property
    def is_reweighted(self) -> bool:
        """Sums."""
        return True

    def reweighted(self, state: GridState, weigh: Weigh) -> GridState:
        """Sums of w, w * position and w**2, and rows."""
        cells, state = state.occupied()
        of_rows, square = (state.rows, state.square) if state.weighted else (state.mass, state.mass)
        return GridState(
            weigh(np.asarray(state.mass, np.float64), 0, 1),
            weigh(state.distance, 0, 1),
            weigh(np.asarray(square, np.float64), 0, 2),
            weigh(of_rows, 0, 0),
        ).placed_in(cells, self.grid.size)

    has_calibrated_form = True

    def as_calibrated(
        self, state: GridState, total: Callable[[Any, int], Any], noise: Callable[[Any, int], Any]
    ) -> GridState:
        """The rows of each cell, with outcomes that add up to their scores, plus noise; some sums may be negative."""
        cells, state = state.occupied()
        edge, step = (values[cells, None] for values in self.grid.nearer)
        residual = -(edge * state.mass + step * state.distance)
        residual[..., 1] += state.mass[..., 1]
        of_rows, square = (state.rows, state.square) if state.weighted else (state.mass, state.mass)
        mass, distance = (total(np.asarray(sums.sum(-1), np.float64), 0) for sums in (state.mass, state.distance))
        hits = edge[:, 0] * mass + step[:, 0] * distance + noise(residual.sum(-1), 0)
        share = np.divide(hits, mass, out=np.zeros_like(hits), where=mass > 0)[..., None]
        of_outcomes = np.concatenate([1 - share, share], -1)
        return GridState(
            mass[..., None] * of_outcomes,
            distance[..., None] * of_outcomes,
            total(np.asarray(square, np.float64), 0),
            np.rint(total(of_rows, 0)).astype(np.int64),
        ).placed_in(cells, self.grid.size)

    def from_histograms(self, histograms: Histograms) -> GridState:
        """One of the histograms, or derived from one."""
        return histograms.state(self)


def coarsened(state: GridState, grid: Grid) -> GridState:
    """Sum the parts of each cell of a refined grid, which gives exactly the state on the unrefined grid."""

    def whole(sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not sums.shape[3]:
            return sums
        cells = np.empty((*sums.shape[:3], grid.cells, 2), sums.dtype)
        parts = np.ascontiguousarray(sums).reshape(-1, grid.size, 2)
        gridding.add_parts(parts, grid.starts, cells.reshape(-1, grid.cells, 2))
        return cells

    return GridState.of(whole, state)


def merged_cells(state: GridState, grid: Grid, coarse: Grid) -> GridState:
    """Sums over cells of a coarser grid made of whole cells, neither grid refined; positions as float64."""
    ratio = grid.cells // coarse.cells
    before = np.arange(grid.cells) % ratio
    before = np.where(grid.mirrored, ratio - 1 - before, before)[:, None]
    distance = (state.mass * before + state.distance) / ratio

    def total(sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not sums.shape[3]:
            return sums
        return np.asarray(sums.reshape(*sums.shape[:3], coarse.cells, ratio, 2).sum(-2))

    return GridState(total(state.mass), total(distance), total(state.square), total(state.rows))


def scores_of_cells(grid: Grid, position: Array) -> Array:
    """The scores at positions (..., cells or their parts) counted as in `GridState`."""
    edge, step = grid.nearer
    return edge + step * position


def node_weights(state: GridState, grid: Grid) -> Array:
    """Linearly binned weights on the nodes, shape (batch, groups, columns, 3, cells + 1).

    Of rows with outcome 0, of rows with outcome 1, and of the scores of all rows. A row between two nodes is shared
    between them so that its score stays the mean of theirs.
    """
    return _shared(state, grid, smooth=False)


def smooth_weights(state: GridState, grid: Grid) -> Array:
    """Weights like `node_weights`, whose sums of smooth functions are accurate to two more orders.

    The rows of each cell and outcome, taken to be at their mean, are shared between the four nearest nodes so that
    polynomials up to the third degree keep their sums; nodes beyond an end are mirrored. Some weights are slightly
    negative.
    """
    return _shared(state, grid, smooth=True)


def _shared(state: GridState, grid: Grid, *, smooth: bool) -> Array:
    shape = state.mass.shape[:3]
    mass, offset = (np.ascontiguousarray(sums).reshape(-1, grid.cells, 2) for sums in (state.mass, state.offset))
    weights = np.zeros((len(mass), 3, grid.cells + 1))
    half = int((~grid.mirrored).sum())
    share_between_nodes(mass, offset, unit_of(offset), half, grid.nodes, grid.width, smooth, weights)
    return weights.reshape(*shape, *weights.shape[1:])
