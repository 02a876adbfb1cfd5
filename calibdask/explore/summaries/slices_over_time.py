"""Slices of a selection watched over time, in pieces of a moment each, and what has changed between two windows."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.analyses.monitoring.attribution import attribute
from calibdask.analyses.monitoring.due_dates import are_due, dates_of
from calibdask.analyses.monitoring.period_sums import as_labels, known_labels
from calibdask.analyses.monitoring.since import gap_since
from calibdask.analyses.monitoring.watch import watch
from calibdask.explore.cancellation import Cancelled
from calibdask.explore.summaries.pool import Labels, Pool, Selection
from calibdask.explore.summaries.selection_widgets import DATE, ordered
from calibdask.explore.summaries.sparse_sums import SliceNumbers
from calibdask.inference.multiplicity import e_benjamini_hochberg
from calibdask.plot.over_time import Pending
from calibdask.results.build import CLUSTER_NOTES, sentences_of
from calibdask.results.over_time import GapEnds, OverTime
from calibdask.storage.summary_cluster_weights import WEIGHT_PERIODS
from calibdask.storage.summary_totals import with_totals

# Numbers may be periods, and ids: the name tells which.
_TIME = re.compile(
    r"(?<![^\W_])(date|day|week|month|quarter|year|hour|time|period|snapshot|cohort|vintage)s?(?![^\W_])", re.IGNORECASE
)
# Histograms that are in memory at a time; processes and periods that take about a second.
_MOST_BYTES, _MOST_PROCESSES, _MOST_AT_ONCE = 1 << 28, 64, 2000
# Histograms of the windows of a change.
_MOST_BYTES_OF_WINDOWS = 1 << 30
_MOST_CHANGES = 10


@dataclass(frozen=True)
class TimeQuery:
    """Query of the view over time: periods, selection, setting, tolerance and slices.

    ``pending`` are positions of periods that are not due, which are left out.
    """

    period: str
    selection: Selection
    setting: str | int | None
    tolerance: float
    alpha: float
    by: str = ""
    pending: tuple[int, ...] = ()


def period_dims(pool: Pool) -> list[str]:
    """Dimensions of slices that can be periods: of the store, dates, names like a time, numbers in order."""

    def are_dates(labels: Labels) -> bool:
        return labels.dtype.kind == "M" or all(DATE.fullmatch(str(label)) for label in labels)

    dates = [dim for dim in pool.slices if are_dates(known_labels(pool.labels[dim]))]
    others = [dim for dim in pool.slices if dim not in dates and ordered(known_labels(pool.labels[dim]))]
    stored = [dim for dim in pool.slices if dim == pool.period]
    return list(dict.fromkeys([*stored, *dates, *sorted(others, key=lambda dim: not _TIME.search(dim))]))


def periods_of(pool: Pool, period: str) -> Labels:
    """The labels of the periods in their order, without rows that have none."""
    return np.sort(as_labels(known_labels(pool.labels[period])))


def pending_positions(pool: Pool, period: str, due: str) -> tuple[int, ...]:
    """Positions of the periods that are not due at this moment; none where labels are no dates."""
    labels = pool.labels[period]
    known = np.array([label == label for label in labels], bool)
    named = as_labels(labels[known])
    if dates_of(named) is None:
        return ()
    return tuple(np.flatnonzero(known)[~are_due(period, named, due, None)].tolist())


def pending_rows(pool: Pool, query: TimeQuery) -> Pending | None:
    """The periods of a selection that are pending, with their rows."""
    selected = dict(query.selection.slices).get(query.period, range(len(pool.labels[query.period])))
    at = [position for position in query.pending if position in selected]
    if not at:
        return None
    rows = pool.rows_of(pool.grid([query.period], query.selection)[at]).sum(-1)
    return Pending(as_labels(pool.labels[query.period][at]), rows)


class SlicesOverTime:
    """The processes of all rows of a selection, or of its slices by a dimension: more of them with each step.

    Slices with the most rows come first: they may have the most evidence. Each step takes about a second; one that is
    cancelled leaves all as it was.

    Parameters
    ----------
    pool : Pool
    query : TimeQuery

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores, day, country = rng.random(3000), rng.integers(0, 5, 3000), rng.choice(["at", "be"], 3000)
    >>> labels = (rng.random(3000) < np.where(country == "be", scores**3, scores)).astype(int)
    >>> pool = Pool(cd.summarize(labels, scores, by={"day": day, "country": country}, settings=["binary"]))
    >>> slices = SlicesOverTime(pool, TimeQuery("day", Selection(), None, 0.0, 0.05, by="country"))
    >>> slices.step(lambda: False)
    >>> slices.done, [one.label for one in slices.processes() if one.is_off]
    (True, ['country=be'])
    """

    def __init__(self, pool: Pool, query: TimeQuery) -> None:
        self.query = query
        self._pool = pool
        self._grid = _grid(pool, query)
        rows = pool.rows_of(self._grid.numbers).sum((1, 2))
        self._left = [number for number in np.argsort(-rows, kind="stable").tolist() if rows[number]]
        self.count = len(self._left)
        self._watched: list[OverTime] = []
        self._parts: list[xr.Dataset] = []
        # How clusters count.
        self.notes: tuple[str, ...] = ()
        columns = len(pool.classes) if query.setting == "classwise" else 1
        self._batch = max(1, _MOST_PROCESSES // columns)
        self._nbytes = pool.nbytes(query.setting)
        self._columns = columns

    @property
    def done(self) -> bool:
        """Whether all slices with rows have been watched."""
        return not self._left

    @property
    def ready(self) -> int:
        """Number of slices that have been watched."""
        return self.count - len(self._left)

    @property
    def periods(self) -> Labels:
        """The labels of the periods, in their order."""
        return self._grid.periods

    def step(self, is_cancelled: Callable[[], bool]) -> None:
        """Watch some more slices, or more of the periods of these."""
        batch = self._left[: self._batch]
        if not batch:
            return
        start = sum(part.sizes[self.query.period] for part in self._parts)
        length = min(_MOST_AT_ONCE // (len(batch) * self._columns), _MOST_BYTES // (len(batch) * self._nbytes))
        stop = min(start + max(1, length), self.periods.size)
        dataset = self._grid.dataset(self._pool, self.query, batch, slice(start, stop))
        if is_cancelled():
            raise Cancelled
        query = self.query
        part = watch(
            dataset,
            query.period,
            query.by or None,
            query.tolerance,
            query.alpha,
            setting=query.setting,
            state=self._parts[-1].attrs["state"] if self._parts else None,
        )
        if is_cancelled():
            raise Cancelled
        self._parts.append(part)
        self.notes = tuple(dict.fromkeys((*self.notes, *sentences_of(part, CLUSTER_NOTES))))
        if stop == self.periods.size:
            whole = xr.concat(self._parts, query.period, data_vars="minimal", combine_attrs="override")
            self._watched += OverTime.all_of(whole)
            self._parts, self._left = [], self._left[len(batch) :]

    def processes(self) -> list[OverTime]:
        """Monitored processes so far; discoveries are judged among all slices."""
        tests = self.count * self._columns
        log_e = np.full(tests, -np.inf)
        log_e[: len(self._watched)] = [one.evidence for one in self._watched]
        found = e_benjamini_hochberg(log_e, self.query.alpha)
        return [
            replace(one, found=bool(is_found), tests=tests) for one, is_found in zip(self._watched, found, strict=False)
        ]

    def since(self, process: OverTime) -> GapEnds:
        """The gap since a process that has been watched is off."""
        query, grid = self.query, self._grid
        later = np.flatnonzero(grid.periods >= process.since)
        number = grid.slice_number(process.at.get(query.by)) if query.by else 0
        since = grid.numbers[number, later].ravel()
        dataset = _dataset(self._pool, query, [[since]], grid.labels[[number]], grid.periods[later[:1]])
        # All periods, and all processes, might have been told.
        chosen_from = grid.periods.size * process.tests
        ends = gap_since(
            dataset,
            process.since,
            query.period,
            query.by or None,
            setting=query.setting,
            alpha=query.alpha,
            chosen_from=chosen_from,
        )
        classes = self._pool.classes.tolist() if query.setting == "classwise" else [None]
        return ends[classes.index(next((label for dim, label in process.at.items() if dim != query.by), None))]

    def change(self, before: tuple[int, int], after: tuple[int, int]) -> xr.Dataset:
        """Result of `calibdask.attribute` between two windows, by slice or by score group.

        Windows are the first and the last position among all periods (`periods_of`), of which those count that are
        selected and due.

        Raises
        ------
        ValueError
            If windows overlap or have no rows; if their histograms would take too much memory.
        """
        query, grid = self.query, self._grid
        if before[0] <= after[1] and after[0] <= before[1]:
            raise ValueError(f"Choose two windows that do not share any {query.period}.")
        known = periods_of(self._pool, query.period)
        windows = [(grid.periods >= known[first]) & (grid.periods <= known[last]) for first, last in (before, after)]
        groups = [[numbers[window].ravel() for window in windows] for numbers in grid.numbers]
        if len(groups) * self._nbytes * 2 > _MOST_BYTES_OF_WINDOWS:
            raise ValueError("There are too many slices and classes for this page; use calibdask.attribute.")
        dataset = _dataset(self._pool, query, groups, grid.labels, np.arange(2))
        by = query.by or None
        return attribute(dataset, 0, 1, by, query.period, setting=query.setting, ci=1 - query.alpha)


@dataclass(frozen=True, eq=False)
class _Grid:
    """Numbers of slices by slice and period, with the labels of both; all rows are one slice without a label."""

    numbers: SliceNumbers
    labels: Labels
    periods: Labels

    def slice_number(self, label: Any) -> int:
        return int(np.flatnonzero(self.labels == label)[0])

    def dataset(self, pool: Pool, query: TimeQuery, slices: Sequence[int], periods: slice) -> xr.Dataset:
        chosen = self.numbers[list(slices), periods]
        return _dataset(pool, query, chosen, self.labels[list(slices)], self.periods[periods])


def _grid(pool: Pool, query: TimeQuery) -> _Grid:
    dims = [query.by, query.period] if query.by else [query.period]
    numbers = pool.grid(dims, query.selection)
    numbers = numbers.reshape(-1, *numbers.shape[-2:])
    labels = pool.labels[query.period]
    selected = {*dict(query.selection.slices).get(query.period, range(labels.size))} - {*query.pending}
    order = sorted((index for index in selected if labels[index] == labels[index]), key=lambda index: labels[index])
    slices = pool.labels[query.by] if query.by else np.zeros(1, np.int64)
    kept = [number for number in range(len(slices)) if slices[number] == slices[number]]
    return _Grid(numbers[kept][:, order], as_labels(slices[kept]), as_labels(labels[order]))


def _dataset(
    pool: Pool,
    query: TimeQuery,
    groups: SliceNumbers | Sequence[Sequence[SliceNumbers]],
    labels: Labels,
    periods: Labels,
) -> xr.Dataset:
    """A summary of groups by slice and period; of all rows by period alone."""
    shape = (len(groups), len(periods)) if query.by else (len(periods),)
    dims = (query.by, query.period) if query.by else (query.period,)
    grouped = pool.watchable([group for of_slice in groups for group in of_slice], query.setting).dataset
    variables = {
        name: ((*dims, *variable.dims[1:]), _reshaped(variable.values, shape))
        if "slice" in variable.dims
        else variable.variable
        for name, variable in grouped.data_vars.items()
    }
    if query.by and WEIGHT_PERIODS in grouped and grouped[WEIGHT_PERIODS].ndim:
        # All slices have the same periods.
        variables[WEIGHT_PERIODS] = ((query.period,), grouped[WEIGHT_PERIODS].values.reshape(shape).max(0))
    coordinates = {**grouped.coords, query.period: periods} | ({query.by: labels} if query.by else {})
    return with_totals(xr.Dataset(variables, coordinates, grouped.attrs), ())


def _reshaped(values: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return values.reshape(*shape, *values.shape[1:])
