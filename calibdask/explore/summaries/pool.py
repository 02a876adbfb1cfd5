"""Slices of a summary, chosen and pooled on demand: selections, their numbers of rows, and groups of slices."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.engine.sources.source import Source
from calibdask.explore.summaries.clustered_gaps import BucketSums
from calibdask.explore.summaries.sparse_sums import SliceNumbers, SparseSums
from calibdask.results.cautions import MODEL_DIMS
from calibdask.storage.summary import Summary
from calibdask.storage.summary_cluster_weights import CLUSTER_WEIGHTED, WEIGHT_PERIODS
from calibdask.storage.summary_clusters import BY_BUCKET, CLUSTER_ROWS, GROUPS
from calibdask.storage.summary_lattice import Cuts
from calibdask.storage.summary_totals import with_totals

Labels = npt.NDArray[Any]


@dataclass(frozen=True)
class Selection:
    """Slices of a summary, by positions along its dimensions; all positions where a dimension is not named.

    Parameters
    ----------
    slices : tuple of (str, tuple of int)
        Positions along dimensions of slices.
    models : tuple of (str, int)
        One position along each dimension of models or replicates, the first where it is not named.
    is_others : bool
        All slices but these, of the same models.
    """

    slices: tuple[tuple[str, tuple[int, ...]], ...] = ()
    models: tuple[tuple[str, int], ...] = ()
    is_others: bool = False

    def without(self, dims: Sequence[str]) -> "Selection":
        """The selection with all positions along these dimensions."""
        return Selection(tuple((dim, at) for dim, at in self.slices if dim not in dims), self.models)


@dataclass(frozen=True)
class Group:
    """Slices that are pooled into one: its position along the dimensions of groups, and the numbers of its slices."""

    position: tuple[int, ...]
    numbers: SliceNumbers


class Pool:
    """A summary whose slices are added up as they are chosen.

    Models, and replicates, are never added up: they may have scored the same rows. One of them is selected at a time.

    Parameters
    ----------
    summary : Summary or xarray.Dataset
        What `calibdask.summarize` made, or `calibdask.storage.open_store` opened. Only its coordinates and numbers of
        rows are read at first.

    Raises
    ------
    ValueError
        If this version cannot read it.

    Examples
    --------
    >>> import calibdask as cd
    >>> y_true, y_prob, day = [0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], ["mon", "mon", "tue", "tue"]
    >>> pool = Pool(cd.summarize(y_true, y_prob, by={"day": day}, settings=["binary"]))
    >>> pool.rows(Selection((("day", (1,)),)))
    2
    >>> float(cd.evaluate(pool.pooled(Selection(), None), metrics=cd.ECE(bins=2)).ece)
    0.25
    """

    def __init__(self, summary: Summary | xr.Dataset) -> None:
        self._opened = Summary.of(summary)
        # Only clusters are independent: sums by bucket of clusters go with all others.
        self.clustered = self._opened.source.layout.clustered
        self.summary = self._opened.dataset
        # Small, and asked for at every sum.
        self._counted = self.summary.assign(rows=self.summary["rows"].load()).assign_coords(
            {name: coordinate.load() for name, coordinate in self.summary.coords.items()}
        )
        self._row_counts = np.asarray(self._counted["rows"].values.ravel(), np.int64)
        self.labels: dict[str, Labels] = self._opened.labels
        self.axes = tuple(self.labels)
        # Summaries of several models may have been joined, and a column of rows may name their models.
        self.models = tuple(axis for axis in self.axes if axis in self._opened.batch or axis in MODEL_DIMS)
        self.slices = tuple(axis for axis in self.axes if axis not in self.models)
        self.sums = SparseSums(self.summary, self.axes)
        # What the store calls its periods, whatever their labels look like.
        self.period = self._opened.period
        by_period = self._opened.by_period
        # Its axes are the first of these: groups of whole periods are summed from it.
        self._periods = None if by_period is None or len(self.axes) == len(by_period.axes) else Pool(by_period)
        self._per_period = self.slice_count // (1 if self._periods is None else self._periods.slice_count)
        self.pooled = lru_cache(maxsize=4)(self._pooled)
        self._variables = lru_cache(self._variables_of)
        # Sums of all slices by bucket of clusters, which take a pass over their histograms.
        self.bucket_sums = lru_cache(maxsize=4)(partial(BucketSums, self))

    @property
    def url(self) -> str:
        """Where the summary is stored; empty in memory."""
        return self._opened.url

    @property
    def source(self) -> Source:
        """The source of the summary: which settings it has histograms of, without reading them."""
        return self._opened.source

    @property
    def cuts(self) -> Cuts | None:
        """How features are cut; None where the summary has none that can be audited."""
        return None if self.models else self._opened.cuts

    @property
    def classes(self) -> Labels:
        """Names of the classes."""
        return self._opened.classes

    @property
    def slice_count(self) -> int:
        """Number of slices of one model."""
        return math.prod(len(self.labels[dim]) for dim in self.slices)

    def settings(self) -> dict[str, str | int | None]:
        """Settings that the summary has histograms of, by their labels; None is the only one of binary scores."""
        layout = self.source.layout
        if layout.vector:
            return {"binary": None}
        pooled: dict[str, str | int | None] = {
            label: setting
            for label, setting in (
                ("confidence (largest score)", "confidence"),
                ("class-wise (all classes)", "classwise"),
            )
            if self.source.has_histogram(layout.setting(setting))
        }
        single = (k for k in range(layout.classes) if self.source.has_histogram(layout.setting(k)))
        return pooled | {f"class {self.classes[k]}": k for k in single}

    def is_read(self, setting: str | int | None) -> bool:
        """Whether the histograms of a setting are in memory."""
        read = self.sums if self._periods is None else self._periods.sums
        return all(read.has(name) or self.sums.has(name) for name in self._variables(setting))

    def waits_for_slices(self, setting: str | int | None) -> bool:
        """Whether whole periods are read from their stored sums, and single slices of a setting are not in memory."""
        return self._periods is not None and not all(self.sums.has(name) for name in self._of_unit(setting))

    def nbytes(self, setting: str | int | None) -> int:
        """Memory of the histograms of a setting of one slice, for `watchable`."""
        variables = [self.summary[name] for name in self._of_unit(setting)]
        slices = math.prod(self.summary.sizes[axis] for axis in self.axes)
        return sum(variable.nbytes // max(1, slices) for variable in variables)

    @property
    def counts_clusters(self) -> bool:
        """Whether each cluster counts once in a period, as `calibdask.watch` needs it of clusters."""
        return WEIGHT_PERIODS in self.summary

    @property
    def groups_name(self) -> str:
        """The name of the column of clusters."""
        return str(self.summary.attrs.get(GROUPS, GROUPS))

    def numbers(self, selection: Selection) -> SliceNumbers:
        """Numbers of the slices of a selection."""
        if selection.is_others:
            inside = self.numbers(Selection(selection.slices, selection.models))
            return np.setdiff1d(self.numbers(Selection(models=selection.models)), inside)
        positions = self._positions(selection)
        everything = np.arange(math.prod(len(labels) for labels in self.labels.values()))
        shaped = everything.reshape([len(self.labels[axis]) for axis in self.axes])
        return shaped[np.ix_(*positions)].ravel() if positions else everything

    def rows(self, selection: Selection) -> int:
        """Number of rows of a selection."""
        return int(self._rows(self.numbers(selection)))

    def groups(self, dims: Sequence[str], selection: Selection) -> list[Group]:
        """The slices along some dimensions; the others are pooled over the selection."""
        numbers = self.grid(dims, selection)
        return [Group(position, numbers[position]) for position in product(*map(range, numbers.shape[:-1]))]

    def grid(self, dims: Sequence[str], selection: Selection) -> SliceNumbers:
        """Numbers of the slices of each such group, by its position along the dimensions: (dims, slices)."""
        positions = self._positions(selection.without(dims))
        shaped = self.numbers(selection.without(dims)).reshape([len(along_axis) for along_axis in positions])
        along = [self.axes.index(dim) for dim in dims]
        numbers = np.moveaxis(shaped, along, range(len(along)))
        return numbers.reshape(*numbers.shape[: len(along)], -1)

    def group_rows(self, groups: Sequence[Group]) -> npt.NDArray[np.int64]:
        """Number of rows of each group."""
        sizes = [group.numbers.size for group in groups]
        rows = self.rows_of(np.concatenate([np.zeros(0, np.int64), *(group.numbers for group in groups)]))
        return np.diff(np.concatenate([[0], np.cumsum(rows)])[np.cumsum([0, *sizes])])

    def rows_of(self, numbers: SliceNumbers) -> npt.NDArray[np.int64]:
        """Number of rows of each of these slices."""
        return self._row_counts[numbers]

    def grouped(
        self, groups: Sequence[Group], setting: str | int | None, *, complete: bool = False, intervals: bool = True
    ) -> Summary:
        """A summary with these groups along the dimension ``slice``, of one setting or ``complete``.

        Without ``intervals``, clusters are left out: values do not depend on them.
        """
        numbers, names = [group.numbers for group in groups], self._names(setting, complete=complete)
        return self._summary(numbers, self._by_bucket(names) if intervals else names, ("slice",))

    def watchable(self, groups: Sequence[SliceNumbers], setting: str | int | None) -> Summary:
        """A summary of groups of numbers of slices, with what `calibdask.watch` needs: half of the histograms.

        With clusters, also those in which each counts once in a period.
        """
        names = self._of_unit(setting)
        weighted = self._opened.cluster_weighted
        if weighted is None:
            # Of buckets alone `watch` says what they lack.
            return self._summary(groups, self._by_bucket(names), ("slice",))
        kept = weighted.variables(weighted.source.layout.setting(setting), on_support=False)
        summary = self._summary(groups, [*names, *(f"{name}{CLUSTER_WEIGHTED}" for name in kept)], ("slice",))
        counted = self.summary.variables[WEIGHT_PERIODS].load()
        if counted.ndim:
            counted = xr.Variable("slice", [self._weight_periods(counted, numbers) for numbers in groups])
        return Summary.of(summary.dataset.assign({WEIGHT_PERIODS: counted}))

    def gap_variables(self, setting: str | int | None) -> list[str]:
        """Histograms of counts and positions by bucket of clusters, of the cells of a setting."""
        ends = ("_count", "_offset")
        return [f"{name}{BY_BUCKET}" for name in self._of_unit(setting) if name.endswith(ends)]

    def _weight_periods(self, counted: xr.Variable, numbers: SliceNumbers) -> int:
        """The most that the weights of one cluster add up to in these slices."""
        filled = np.unravel_index(numbers[self.rows_of(numbers) > 0], [self.summary.sizes[axis] for axis in self.axes])
        places = np.unique([filled[self.axes.index(str(dim))] for dim in counted.dims], axis=1)
        return int(counted.values[tuple(places)].sum())

    def _pooled(self, selection: Selection, setting: str | int | None, *, complete: bool = False) -> Summary:
        """The summary of all rows of a selection, without slices; of the histograms of one setting, or ``complete``."""
        return self._summary([self.numbers(selection)], self._by_bucket(self._names(setting, complete=complete)), ())

    def _of_unit(self, setting: str | int | None) -> list[str]:
        return self._opened.variables(self.source.layout.setting(setting), on_support=False)

    def _by_bucket(self, names: list[str]) -> list[str]:
        """These variables, and with clusters also those by bucket."""
        if not self.clustered:
            return names
        return [*names, *(f"{name}{BY_BUCKET}" for name in (*names, "rows")), CLUSTER_ROWS]

    def _names(self, setting: str | int | None, *, complete: bool) -> list[str]:
        settings = self.settings().values() if complete else (setting,)
        for chosen in settings:
            # Raises an error that names the stored settings if this one is missing.
            self.source.finest(self.source.layout.setting(chosen))
        return list(dict.fromkeys(name for chosen in settings for name in self._variables(chosen)))

    def _summary(self, groups: Sequence[Any], names: list[str], dims: tuple[str, ...]) -> Summary:
        if self._periods is not None and all(name in self._periods.summary for name in names):
            periods = [whole_runs(numbers, self._per_period) for numbers in groups]
            if all(numbers is not None for numbers in periods):
                return self._periods._summary(periods, names, dims)
        template = self._counted[names].isel(dict.fromkeys(self.axes, 0), drop=True)
        sums: dict[str, Any] = {"rows": (dims, self._shaped([self._rows(numbers) for numbers in groups], dims))}
        for name in names:
            cells = tuple(dim for dim in self.summary[name].dims if dim not in self.axes)
            sums[name] = ((*dims, *cells), self._shaped(self.sums.of(name, groups), dims))
        attributes = {GROUPS: self.groups_name} if self.clustered else {}
        return Summary.of(with_totals(xr.Dataset(sums, template.coords, attributes), ()))

    def _shaped(self, values: Any, dims: tuple[str, ...]) -> Any:
        return np.asarray(values) if dims else values[0]

    def _rows(self, numbers: SliceNumbers) -> Any:
        return self.rows_of(numbers).sum()

    def _positions(self, selection: Selection) -> list[tuple[int, ...]]:
        """Positions along all axes."""
        slices, models = dict(selection.slices), dict(selection.models)
        return [
            (models.get(axis, 0),) if axis in self.models else slices.get(axis, tuple(range(len(self.labels[axis]))))
            for axis in self.axes
        ]

    def _variables_of(self, setting: str | int | None) -> list[str]:
        """The variables of the histograms of a setting."""
        return self._opened.variables(self.source.layout.setting(setting))


def whole_runs(numbers: SliceNumbers, length: int) -> SliceNumbers | None:
    """The runs of so many numbers that these are all of; None if they are not whole runs.

    Examples
    --------
    >>> whole_runs(np.array([5, 3, 4, 0, 2, 1]), 3), whole_runs(np.array([0, 1, 2, 3]), 3)
    (array([0, 1]), None)
    """
    runs = np.unique(numbers // length)
    return runs if runs.size * length == numbers.size else None


_POOLS: deque[Pool] = deque(maxlen=4)


def pool_of(summary: Summary | xr.Dataset) -> Pool:
    """The pool of a summary; sessions of one server share what has been read."""
    dataset = summary.dataset if isinstance(summary, Summary) else summary
    for pool in _POOLS:
        if pool.summary is dataset:
            return pool
    _POOLS.append(Pool(summary))
    return _POOLS[-1]
