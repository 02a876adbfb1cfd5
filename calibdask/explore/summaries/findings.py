"""Sentences of the first page: the slice and the period with the strongest evidence of miscalibration."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate, combinations, product
from math import prod

import numpy as np

from calibdask.explore.summaries.overview_numbers import MOST_CELLS, MOST_PERIODS, MapQuery, SliceMap, last_periods
from calibdask.explore.summaries.page_metrics import LEVEL
from calibdask.explore.summaries.page_texts import simultaneous
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.selection_widgets import label_text
from calibdask.explore.summaries.slice_gaps import Gaps, gaps_of
from calibdask.explore.summaries.slices_over_time import SlicesOverTime, TimeQuery
from calibdask.explore.summaries.tiles import models_of
from calibdask.results.over_time import GapEnds, points_text

# For which the evidence of a slice over time is told.
_ALPHA = 1 - LEVEL
# Gaps of slices by one and by two dimensions, of all models, which take a moment.
_MOST_JUDGED = 1000


@dataclass(frozen=True)
class SignificantGap:
    """Where scores are miscalibrated for certain.

    Attributes
    ----------
    what : str
        ``"slice"``, or what periods are called.
    name : str
        Which model, slice and period.
    at : mapping from str to int or None
        Their places; None where a click selects all along a dimension.
    ends : Ends
        The gap with an interval that holds for ``cells`` of them together.
    strength : float
    cells : int
    """

    what: str
    name: str
    at: Mapping[str, int | None]
    ends: GapEnds
    strength: float
    cells: int

    def text(self, since: str = "", within: str = "") -> str:
        """A sentence, with the period since when it is so, and the selection that it is about.

        Examples
        --------
        >>> SignificantGap("slice", "country be", {"country": 1}, GapEnds(-0.031, -0.04, -0.022), 3.4, 18).text(
        ...     "2026-05-14"
        ... )
        'Worst slice: country be, 3.1 points too high (2.2 to 4.0, simultaneous over 18 cells), since 2026-05-14'
        """
        text = points_text(self.ends).replace(")", f", {simultaneous(self.cells)})")
        what = f"{self.what} of {within}" if within else self.what
        return f"Worst {what}: {self.name}, {text}{f', since {since}' if since else ''}"


def worst_slice(
    pool: Pool, query: MapQuery, period: str, shown: SliceMap, is_cancelled: Callable[[], bool]
) -> SignificantGap | None:
    """The model and slice with the strongest evidence, over all periods; None if none is significantly miscalibrated.

    Slices by each dimension but the period, and by two of them, are judged, as many as take no longer than a map; where
    those of the map are too many for that, its own alone.
    """
    models, free = models_of(pool), [dim for dim in pool.slices if dim not in (period, *dict(query.selection.slices))]
    several = _fewest_first(pool, {*combinations(free, 1), *combinations(free, 2), query.dims}, len(models))
    if query.dims not in several:
        return _worst_of_map(pool, query, shown)
    everything = dict.fromkeys((*free, *query.dims, *filter(None, [query.period])))
    names, places, groups = [], [], []
    for dims, (name, model) in product(several, models):
        numbers = pool.grid(dims, Selection(query.selection.slices, model))
        for place in np.ndindex(numbers.shape[:-1]):
            at = dict(zip(dims, place, strict=True))
            words = " · ".join(f"{dim} {label_text(pool.labels[dim][index])}" for dim, index in at.items())
            names.append(f"{name} on {words}" if name else words)
            places.append({**everything, **at, **dict(model)})
            groups.append(numbers[place])
    cells = sum(bool(pool.rows_of(numbers).sum()) for numbers in groups)
    gaps = gaps_of(pool, groups, query.setting, 1 - (1 - LEVEL) / max(1, cells), is_cancelled).reshaped(-1, 1)
    found = _strongest(gaps)
    return None if found is None else _finding("slice", names[found[0]], places[found[0]], gaps, found, cells)


def _fewest_first(pool: Pool, several: Collection[tuple[str, ...]], models: int) -> list[tuple[str, ...]]:
    """Sets of dimensions, those with the fewest slices first, as long as these are not too many together."""
    sizes = {dims: models * prod(len(pool.labels[dim]) for dim in dims) for dims in several}
    order = sorted(sizes, key=lambda dims: (sizes[dims], dims))
    totals = accumulate(sizes[dims] for dims in order)
    return [dims for dims, total in zip(order, totals, strict=True) if total <= _MOST_JUDGED]


def _worst_of_map(pool: Pool, query: MapQuery, shown: SliceMap) -> SignificantGap | None:
    """The worst slice of a map, or None."""
    gaps = shown.gaps if shown.whole is None else shown.whole.reshaped(-1, 1)
    place = _strongest(gaps)
    if place is None:
        return None
    row, column = place
    name = " · ".join(f"{dim} {label_text(pool.labels[dim][index])}" for dim, index in shown.row_at[row].items())
    at: dict[str, int | None] = {**shown.row_at[row], **({query.period: None} if query.period else {})}
    if shown.whole is None and pool.models:
        name, at = f"{shown.columns[column]} on {name}", {**at, **shown.column_at[column]}
    return _finding("slice", name, at, gaps, place, shown.cells if shown.whole is None else shown.judged)


def worst_period(
    pool: Pool,
    query: MapQuery,
    period: str,
    shown: SliceMap,
    is_cancelled: Callable[[], bool],
) -> SignificantGap | None:
    """The model or slice, and the period, with the strongest evidence; None if none is significantly miscalibrated."""
    models = models_of(pool)
    positions = last_periods(pool, period, max(1, min(MOST_PERIODS, MOST_CELLS // len(models))))
    others = query.selection.without([period])
    groups = [numbers for _, at in models for numbers in pool.grid([period], Selection(others.slices, at))[positions]]
    level = 1 - (1 - LEVEL) / max(1, len(groups))
    gaps = gaps_of(pool, groups, query.setting, level, is_cancelled).reshaped(len(models), positions.size)
    place = _strongest(gaps)
    found = None
    if place is not None:
        model, column = place
        name, at = models[model]
        label = label_text(pool.labels[period][positions[column]])
        everything: dict[str, int | None] = dict.fromkeys(query.dims)
        everything |= {**dict(at), period: int(positions[column])}
        found = _finding(period, f"{name} on {label}" if name else label, everything, gaps, place, len(groups))
    cell = _strongest(shown.gaps) if query.period else None
    if cell is None or (found is not None and found.strength >= shown.gaps.strength[cell]):
        return found
    row, column = cell
    name = f"{shown.rows[row]} on {shown.columns[column]}"
    inside: dict[str, int | None] = {**shown.row_at[row], **shown.column_at[column]}
    return _finding(period, name, inside, shown.gaps, cell, shown.cells)


def since_when(
    pool: Pool, query: MapQuery, period: str, found: SignificantGap, is_cancelled: Callable[[], bool]
) -> str:
    """The period since when there is evidence that a slice is off; empty if from the first on, or not by one alone."""
    if pool.source.layout.weighted or (pool.clustered and not pool.counts_clusters):
        return ""
    others = {**dict(query.selection.without([period]).slices)}
    slices = {**others, **{dim: (at,) for dim, at in found.at.items() if dim in pool.slices and at is not None}}
    models = {**dict(query.selection.models), **{dim: at for dim, at in found.at.items() if dim in pool.models}}
    chosen = Selection(tuple(slices.items()), tuple((dim, at) for dim, at in models.items() if at is not None))
    watched = SlicesOverTime(pool, TimeQuery(period, chosen, query.setting, 0.0, _ALPHA))
    while not watched.done:
        watched.step(is_cancelled)
    processes = watched.processes()
    if not processes or not processes[0].is_off or processes[0].since == watched.periods[0]:
        return ""
    return label_text(processes[0].since)


def _strongest(gaps: Gaps) -> tuple[int, int] | None:
    """Row and column of the strongest evidence among those that are certain."""
    strength = np.where(gaps.certain, gaps.strength, -1.0)
    if not strength.size or strength.max() <= 0:
        return None
    row, column = np.unravel_index(int(strength.argmax()), strength.shape)
    return int(row), int(column)


def _finding(
    what: str, name: str, at: Mapping[str, int | None], gaps: Gaps, place: tuple[int, int], cells: int
) -> SignificantGap:
    ends = GapEnds(*(float(part[place]) for part in (gaps.value, gaps.low, gaps.high)))
    return SignificantGap(what, name, at, ends, float(gaps.strength[place]), cells)
