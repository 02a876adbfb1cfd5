"""Numbers of the first page: mean gaps of slices by model or period, and of all rows by period."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from calibdask.explore.summaries.page_metrics import LEVEL
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.selection_widgets import label_text
from calibdask.explore.summaries.slice_gaps import Gaps, gaps_of
from calibdask.explore.summaries.tiles import models_of

# Cells of which the gaps are computed, which takes a second; rows and columns that are shown, and periods of the line.
MOST_CELLS, MOST_ROWS, MOST_COLUMNS, MOST_PERIODS = 4000, 24, 60, 400


@dataclass(frozen=True)
class MapQuery:
    """Query of the map: slices in its rows, columns, and the selected data.

    Without a ``period`` the columns are the models.
    """

    dims: tuple[str, ...]
    period: str
    selection: Selection
    setting: str | int | None


@dataclass(frozen=True, eq=False)
class SliceMap:
    """The slices that are shown, the strongest evidence first, with their gaps by column.

    Attributes
    ----------
    rows, columns : sequence of str
        Names.
    row_at, column_at : sequence of dict
        Their places along dimensions of slices, of periods or of models.
    gaps : Gaps
        By row and column, at a level that holds for all that were judged.
    whole : Gaps or None
        By row, over all periods together, at a level that holds for all slices that were judged; None where the columns
        are models, which are over all periods themselves.
    judged, slices : int
        The number of slices that were judged, and that there are with rows.
    cells : int
        The number of gaps that were judged.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    row_at: Sequence[dict[str, int]]
    column_at: Sequence[dict[str, int]]
    gaps: Gaps
    whole: Gaps | None
    judged: int
    slices: int
    cells: int


@dataclass(frozen=True, eq=False)
class PeriodLine:
    """Gaps of a selection by period, each for one look; ``positions`` are the places of these among all ``periods``."""

    period: str
    periods: int
    labels: npt.NDArray[np.object_]
    positions: npt.NDArray[np.int64]
    gaps: Gaps


def slice_map(pool: Pool, query: MapQuery, is_cancelled: Callable[[], bool]) -> SliceMap:
    """Gaps of slices; with very many slices, only those with the most rows are tested."""
    columns, column_at, numbers = _numbers(pool, query)
    rows = pool.rows_of(numbers).sum((1, 2))
    filled = np.flatnonzero(rows)
    judged = filled[np.argsort(-rows[filled], kind="stable")][: max(1, MOST_CELLS // max(1, len(columns)))]
    groups = [numbers[row, column] for row in judged for column in range(len(columns))]
    level = 1 - (1 - LEVEL) / max(1, len(groups))
    gaps = gaps_of(pool, groups, query.setting, level, is_cancelled).reshaped(judged.size, len(columns))
    whole, strength = None, gaps.strength
    if query.period:
        # Of which each period alone may have too few rows to say.
        # Those before the columns that are shown too.
        slices = pool.grid(query.dims, query.selection)
        slices = slices.reshape(-1, slices.shape[-1])
        level = 1 - (1 - LEVEL) / max(1, judged.size)
        whole = gaps_of(pool, [slices[row] for row in judged], query.setting, level, is_cancelled)
        strength = np.column_stack([strength, whole.strength])
    worst = np.argsort(-strength.max(1, initial=-2.0), kind="stable")[:MOST_ROWS]
    places = list(product(*(range(len(pool.labels[dim])) for dim in query.dims)))
    row_at = [dict(zip(query.dims, places[row], strict=True)) for row in judged[worst].tolist()]
    names = [" · ".join(label_text(pool.labels[dim][index]) for dim, index in at.items()) for at in row_at]
    whole = None if whole is None else whole.select(worst)
    return SliceMap(names, columns, row_at, column_at, gaps.select(worst), whole, judged.size, filled.size, len(groups))


def _numbers(pool: Pool, query: MapQuery) -> tuple[list[str], list[dict[str, int]], npt.NDArray[np.int64]]:
    """Names and places of the columns; numbers of slices by row, column and slice."""
    if not query.period:
        models = models_of(pool)
        chosen = [pool.grid(query.dims, Selection(query.selection.slices, at)) for _, at in models]
        grids = [numbers.reshape(-1, numbers.shape[-1]) for numbers in chosen]
        return [name or "all" for name, _ in models], [dict(at) for _, at in models], np.stack(grids, 1)
    numbers = pool.grid([*query.dims, query.period], query.selection)
    numbers = numbers.reshape(-1, *numbers.shape[-2:])
    positions = last_periods(pool, query.period, MOST_COLUMNS)
    names = [label_text(pool.labels[query.period][position]) for position in positions]
    return names, [{query.period: position} for position in positions.tolist()], numbers[:, positions]


def period_line(pool: Pool, period: str, selection: Selection, setting: str | int | None) -> PeriodLine:
    """The gaps of a selection by period, all others pooled."""
    positions = last_periods(pool, period, MOST_PERIODS)
    numbers = pool.grid([period], selection)
    gaps = gaps_of(pool, [numbers[position] for position in positions], setting, LEVEL)
    labels = np.array([label_text(pool.labels[period][position]) for position in positions], object)
    return PeriodLine(period, len(pool.labels[period]), labels, positions, gaps)


def last_periods(pool: Pool, period: str, most: int) -> npt.NDArray[np.int64]:
    """The places of the last periods in their order, without rows that have none."""
    labels = pool.labels[period]
    known = np.array([label == label for label in labels], bool)
    order = np.flatnonzero(known)[np.argsort(labels[known], kind="stable")]
    return order[-most:]
