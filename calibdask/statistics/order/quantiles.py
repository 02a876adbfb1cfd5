"""Exact order statistics of data of any size, by refining a table of key counts pass by pass."""

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.order.ranks import NO_WINDOW, KeyCells, WindowCounts
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting

__all__ = ["Neighbours", "Ordered", "neighbours"]

_MOST_CELLS = 1 << 22
# Cumulative weights are compared with this relative tolerance: rounding must not move an edge by a row.
_TOLERANCE = 2.0**-40


@dataclass(frozen=True)
class Neighbours:
    """The score just below and the one just above each target, NaN where there is none; shape (strata, targets).

    ``tables`` are the cells of each stratum, as far as they had to be refined.
    """

    below: Array
    above: Array
    tables: "list[Ordered]"


@dataclass
class Ordered:
    """Cells of one stratum in order; ``tight`` cells have keys seen as their bounds.

    ``hits`` and ``score`` are empty with weights; the sum of the scores in a cell is (-1, 0) where it is not known.
    """

    low: Counts
    high: Counts
    rows: Counts
    weight: Array
    hits: Counts
    score: Counts
    tight: np.ndarray

    def refined(self, chosen: Counts, cells: "Ordered") -> "Ordered":
        """The table with the chosen cells replaced by finer ones."""
        keep = np.ones(self.low.size, np.bool_)
        keep[chosen] = False
        kept = np.flatnonzero(keep)
        # Runs of kept cells go between runs of finer ones.
        at, begin = np.unique(np.searchsorted(cells.low, self.low[kept]), return_index=True)
        runs = list(zip([0, *at.tolist()], [*at.tolist(), cells.low.size], strict=True))
        kept_runs = [*np.split(kept, begin[1:]), kept[:0]] if kept.size else [kept]

        def interleaved(coarse: Any, finer: Any) -> Any:
            if not len(coarse):
                return coarse
            return np.concatenate(
                [part for run, rows in zip(runs, kept_runs, strict=True) for part in (finer[slice(*run)], coarse[rows])]
            )

        return Ordered(*(interleaved(getattr(self, name), getattr(cells, name)) for name in _FIELDS))


_FIELDS = tuple(field.name for field in fields(Ordered))


def neighbours(
    setting: Setting, cells: KeyCells, shape: tuple[int, int, int], targets: Array, weighted: bool
) -> Requests[Neighbours]:
    """Refine a table of `KeyCounts` until the neighbours of all targets are known exactly.

    ``targets`` has a row of cumulative counts (or weights) for each stratum, NaN where there is none; ``shape`` is
    (batch, groups, columns), whose product is the number of strata.

    Sorted by score, a target t lies between the last row whose cumulative count (its own included) is at most t and
    the next row. With weights the rows of equal score count with their mean weight.

    Notes
    -----
    float32 scores need one refinement, float64 scores one as long as few rows share a cell of the first table, else up
    to three; none up to 4096 rows.
    """
    tables = _split(cells, len(targets), tight=cells.low == cells.high)
    while True:
        keys = [_find(table, row, weighted) for table, row in zip(tables, targets, strict=True)]
        open_cells = [unresolved for _, _, unresolved in keys]
        if not any(chosen.size for chosen in open_cells):
            below, above = (np.stack([row[i] for row in keys]) for i in range(2))
            return Neighbours(_scores(below), _scores(above), tables)
        windows = _windows(tables, open_cells)
        state = yield from WindowCounts(setting, *(FrozenArray(field.reshape(*shape, -1)) for field in windows))
        tables = _refine(tables, open_cells, state, windows[0].shape[-1])


def _split(cells: KeyCells, strata: int, tight: np.ndarray) -> list[Ordered]:
    """One table for each stratum."""
    bounds = np.searchsorted(cells.stratum, np.arange(strata + 1))
    score = cells.score
    if len(score) < cells.hits.size:
        # The sum of a single key follows from the key; that of a cell of a window is not known.
        score = np.broadcast_to([-1, 0], (cells.hits.size, 2))
    parts: tuple[Any, ...] = (cells.low, cells.high, cells.rows, cells.weight, cells.hits, score, tight)
    return [Ordered(*(part[start:stop] for part in parts)) for start, stop in pairwise(bounds)]


def _find(table: Ordered, targets: Array, weighted: bool) -> tuple[Counts, Counts, Counts]:
    """Keys below and above each target (-1 for none or not yet known), and the cells that must be refined."""
    below = np.full(targets.size, -1)
    above = np.full(targets.size, -1)
    exists = np.isfinite(targets)
    if not table.low.size or not exists.any():
        return below, above, np.zeros(0, np.int64)
    mass = table.weight if weighted else table.rows
    after = np.cumsum(mass)
    slack = _TOLERANCE * after[-1] if weighted else 0
    t = targets[exists] + slack
    cell = np.minimum(np.searchsorted(after, t, side="right"), after.size - 1)
    before = after[cell] - mass[cell]
    one = table.weight[cell] / table.rows[cell] if weighted else np.ones(cell.size)
    single = table.low[cell] == table.high[cell]
    shared = before + one <= t  # the first rows of the cell lie below the target
    previous = np.maximum(cell - 1, 0)
    # Without weights the position within a tight cell of several keys can be known from its ends.
    first, second, last = (
        (before == t, before + 1 == t, before + table.rows[cell] == t + 1)
        if not weighted
        else (np.zeros(cell.size, np.bool_),) * 3
    )
    tight = table.tight[cell]
    above_known = single | (tight & (first | last))
    below_known = np.where(shared, single | (tight & second), table.tight[previous])
    below_key = np.where(shared, table.low[cell], table.high[previous])
    above_key = np.where(last & ~first, table.high[cell], table.low[cell])
    below[exists] = np.where(below_known & (shared | (cell > 0)), below_key, -1)
    above[exists] = np.where(above_known, above_key, -1)
    needs_cell = ~above_known | (shared & ~below_known)
    # With weights whether the target lies beyond the first rows of an unresolved cell is not known either.
    needs_previous = (cell > 0) & ~table.tight[previous] & (~shared | (weighted & ~single))
    return below, above, np.unique(np.r_[cell[needs_cell], previous[needs_previous]])


def _windows(tables: list[Ordered], chosen: list[Counts]) -> tuple[Counts, Counts, Counts]:
    """Bounds and cell sizes of the windows to refine, (strata, windows)."""
    most = max(c.size for c in chosen)
    shape = (len(tables), most)
    low, high, shift = np.full(shape, NO_WINDOW), np.full(shape, -1), np.zeros(shape, np.int64)
    rows = sum(int(table.rows[cells].sum()) for table, cells in zip(tables, chosen, strict=True))
    for stratum, (table, cells) in enumerate(zip(tables, chosen, strict=True)):
        low[stratum, : cells.size] = table.low[cells]
        high[stratum, : cells.size] = table.high[cells]
        keys = (table.high - table.low)[cells] + 1
        # Every key where all fit; else each window its share, by the rows that it holds.
        budget = np.maximum(1 << 8, _MOST_CELLS * (table.rows[cells] / rows))
        size = np.ceil(np.log2(np.maximum(1, keys / budget))).astype(np.int64)
        shift[stratum, : cells.size] = np.where(rows <= _MOST_CELLS, 0, size)
    return low, high, shift


def _refine(tables: list[Ordered], chosen: list[Counts], state: KeyCells, windows: int) -> list[Ordered]:
    cells = state._replace(stratum=state.stratum // windows)
    finer = _split(cells, len(tables), tight=np.ones(state.stratum.size, np.bool_))
    return [table.refined(cells, new) for table, cells, new in zip(tables, chosen, finer, strict=True)]


def _scores(keys: Counts) -> Array:
    return np.where(keys >= 0, np.maximum(keys, 0).view(np.float64), np.nan)
