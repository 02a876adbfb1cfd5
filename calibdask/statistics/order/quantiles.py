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

_MOST_CELLS = 1 << 22


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
    setting: Setting, cells: KeyCells, shape: tuple[int, int, int], targets: Array, slack: Array | None
) -> Requests[Neighbours]:
    """Refine a table of `KeyCounts` until the neighbours of all targets are known exactly.

    ``targets`` has a row of cumulative counts (or weights) for each stratum, NaN where there is none; ``shape`` is
    (batch, groups, columns), whose product is the number of strata. ``slack`` of each stratum, with weights, is what
    cumulative weights may be off by rounding; None without weights.

    Sorted by score, a target lies between the first score at which the cumulative count (or weight) reaches it and the
    first one at which it is exceeded: the same score unless it is reached exactly.

    Notes
    -----
    float32 scores need one refinement, float64 scores one as long as few rows share a cell of the first table, else up
    to three; none up to 4096 rows.
    """
    tables = _split(cells, len(targets), tight=cells.low == cells.high)
    while True:
        if slack is None:
            keys = [_find(table, row) for table, row in zip(tables, targets, strict=True)]
        else:
            keys = [_find_weights(*each) for each in zip(tables, targets, slack, strict=True)]
        open_cells = [unresolved for _, _, unresolved in keys]
        if not any(chosen.size for chosen in open_cells):
            below, above = (np.stack([row[i] for row in keys]) for i in range(2))
            return Neighbours(_scores(below), _scores(above), tables)
        rows = sum(int(table.rows[chosen].sum()) for table, chosen in zip(tables, open_cells, strict=True))
        windows = _windows(tables, open_cells, rows)
        low, high, shift = (FrozenArray(field.reshape(*shape, -1)) for field in windows)
        state = yield from WindowCounts(setting, low, high, shift, rows)
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


def _find_weights(table: Ordered, targets: Array, slack: float) -> tuple[Counts, Counts, Counts]:
    """Keys at which the cumulative weight reaches and exceeds each target, and the cells that must be refined."""
    keys = np.full((2, targets.size), -1)
    exists = targets > slack
    if not table.low.size or not exists.any():
        return keys[0], keys[1], np.zeros(0, np.int64)
    after = np.cumsum(table.weight)
    t = targets[exists]
    reached, exceeded = np.searchsorted(after, t - slack), np.searchsorted(after, t + slack, side="right")
    cells = np.minimum(np.stack([reached, exceeded]), after.size - 1)
    single = table.low[cells] == table.high[cells]
    keys[:, exists] = np.where(single, table.low[cells], -1)
    return keys[0], keys[1], np.unique(cells[~single])


def _find(table: Ordered, targets: Array) -> tuple[Counts, Counts, Counts]:
    """Keys below and above each target (-1 for none or not yet known), and the cells that must be refined."""
    below = np.full(targets.size, -1)
    above = np.full(targets.size, -1)
    exists = np.isfinite(targets)
    if not table.low.size or not exists.any():
        return below, above, np.zeros(0, np.int64)
    after = np.cumsum(table.rows)
    t = targets[exists]
    cell = np.minimum(np.searchsorted(after, t, side="right"), after.size - 1)
    before = after[cell] - table.rows[cell]
    single = table.low[cell] == table.high[cell]
    shared = before + 1 <= t  # the first rows of the cell lie below the target
    previous = np.maximum(cell - 1, 0)
    # The position within a tight cell of several keys can be known from its ends.
    first, second, last = before == t, before + 1 == t, before + table.rows[cell] == t + 1
    tight = table.tight[cell]
    above_known = single | (tight & (first | last))
    below_known = np.where(shared, single | (tight & second), table.tight[previous])
    below_key = np.where(shared, table.low[cell], table.high[previous])
    above_key = np.where(last & ~first, table.high[cell], table.low[cell])
    below[exists] = np.where(below_known & (shared | (cell > 0)), below_key, -1)
    above[exists] = np.where(above_known, above_key, -1)
    needs_cell = ~above_known | (shared & ~below_known)
    needs_previous = (cell > 0) & ~table.tight[previous] & ~shared
    return below, above, np.unique(np.r_[cell[needs_cell], previous[needs_previous]])


def _windows(tables: list[Ordered], chosen: list[Counts], rows: int) -> tuple[Counts, Counts, Counts]:
    """Bounds and cell sizes of the windows to refine, (strata, windows), which hold so many rows."""
    most = max(c.size for c in chosen)
    shape = (len(tables), most)
    low, high, shift = np.full(shape, NO_WINDOW), np.full(shape, -1), np.zeros(shape, np.int64)
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
