"""Periods of a summary: one dimension of its slices, read period by period and by blocks of slices."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.inference.sequential.cells import Index, PeriodCells
from calibdask.results.format import slice_text
from calibdask.safe_text import listed
from calibdask.statistics.bins.grid import Grid, GridState
from calibdask.statistics.bins.sparse_grid import SparseGridState
from calibdask.statistics.settings import Setting
from calibdask.storage.slice_labels import texts_of
from calibdask.storage.sparse_cells import SparseCells
from calibdask.storage.summary import Summary
from calibdask.storage.summary_cluster_weights import WEIGHT_PERIODS, weight_periods
from calibdask.storage.summary_clusters import GROUPS

# Histograms are read for so many slices, classes and periods at a time.
_AT_ONCE = 256
# The same, of histograms that hold their occupied cells alone.
_MOST_OCCUPIED = 4096
_MOST_NAMED = 5


@dataclass(frozen=True, eq=False)
class PeriodSums:
    """One setting of a summary without weights, whose last dimension is that of the periods.

    A process is a (model, slice, class); they are numbered in the order of these dimensions. ``weight_periods``
    (models and slices, periods) is the most that the weights of one cluster add up to, by which they are divided; None
    where rows have no weights. ``weighted_by`` are the slices in whose labels clusters count once.
    """

    summary: Summary
    period: str
    setting: Setting
    weight_periods: npt.NDArray[np.int64] | None = field(default=None, kw_only=True)
    weighted_by: tuple[str, ...] = field(default=(), kw_only=True)
    _kept: dict[int, tuple[GridState, Grid]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls, name: str, given: Any, period: str, by: str | Sequence[str] | None, setting: Setting | str | int | None
    ) -> "PeriodSums":
        """Sums of the summary that was passed to the function ``name``.

        Raises
        ------
        TypeError
            If it is no summary.
        ValueError
            If the summary has weights, or no such period, slices or setting; if periods have no label, or the same.
        """
        summary = Summary.passed_to(name, given)
        if summary.source.layout.weighted:
            raise ValueError(
                f"{name} expects a summary without weights: bets need the weight of each row, which a summary does not "
                "store. Summarize the data without sample_weight."
            )
        weighted = None if name == "attribute" else summary.cluster_weighted
        if weighted is None and summary.source.layout.clustered and name != "attribute":
            raise ValueError(
                f"{name} expects a summary in which each cluster counts once in a period, got one that has only "
                "buckets of clusters: it, or a part merged into it, was written by an earlier version or from a reader "
                "that can be read only once. Summarize the rows again with groups (--groups), into a new store. In "
                "Python, drop_dims('cluster_bucket') treats rows as independent, which raises more false alarms."
            )
        summary = weighted or summary
        slices = [by] if isinstance(by, str) else list(by or ())
        if period not in summary.slices or period in slices:
            raise ValueError(
                f"period expects one of the slices of the summary, {listed(summary.slices) or 'none'}, that is not in "
                f"by, got {period!r}; name one, or summarize by {period} too."
            )
        pooled = summary.pooled([*slices, period])
        for axis, labels in pooled.labels.items():
            if labels.size != np.unique(labels).size:
                raise ValueError(f"The summary has labels of {axis} twice; unite its parts by calibdask.merge.")
        labels = pooled.labels[period]
        if (labels != labels).any():
            raise ValueError(f"Some rows have no {period}; select the slices that have one.")
        if weighted is None:
            return cls(pooled, period, _setting(pooled, setting))
        dims = [axis for axis in pooled.labels if axis not in pooled.batch]
        models = math.prod(pooled.dataset.sizes[dim] for dim in pooled.batch)
        weights = weight_periods(weighted.dataset, dims, pooled.batch)
        weights = np.tile(weights.reshape(-1, labels.size), (models, 1))
        weighted_by = tuple(map(str, weighted.dataset.variables[WEIGHT_PERIODS].dims))
        return cls(pooled, period, _setting(pooled, setting), weight_periods=weights, weighted_by=weighted_by)

    @property
    def periods(self) -> npt.NDArray[Any]:
        """The labels of the periods, in the order of the summary."""
        return as_labels(self.summary.labels[self.period])

    @property
    def slices(self) -> dict[str, npt.NDArray[Any]]:
        """The labels along all other dimensions."""
        return {name: as_labels(labels) for name, labels in self.summary.labels.items() if name != self.period}

    @property
    def columns(self) -> int:
        """Number of (score, outcome) columns of each slice."""
        return self.setting.columns(self.summary.source.layout.classes)

    def cluster_notes(self, positions: Sequence[int]) -> list[str]:
        """How clusters count in these periods, in sentences."""
        assert self.weight_periods is not None
        name = self.summary.dataset.attrs.get(GROUPS, GROUPS)
        often = f"once a {listed(self.weighted_by or [self.period])}"
        if not self.weighted_by:
            often = f"once in all {self.period} labels together (summarize with period={self.period!r})"
        notes = [
            f"each cluster ({name}) counts {often}: each of its m rows has the weight 1 / m in rates, gaps and evidence"
        ]
        divided = [at for at in positions if (self.weight_periods[:, at] > 1).any()]
        if divided:
            labels = [slice_text(label) for label in self.periods[divided[:_MOST_NAMED]]]
            more = f" and {len(divided) - len(labels):,} more" if len(divided) > len(labels) else ""
            notes.append(
                f"{self.period} {listed(labels)}{more}: rows were summarized in several parts (of a {self.period}, or "
                "shorter periods), which may have clusters in common; weights are divided by their number, which "
                f"weakens the evidence. Summarize all rows of a {self.period} together, with period={self.period!r} "
                f"(--period {self.period})"
            )
        return notes

    @property
    def whole(self) -> "PeriodSums":
        """Sums by period over all slices."""
        return self

    def part(self, positions: Sequence[int]) -> "PeriodSums":
        """Some periods, in memory."""
        there = Summary.of(self.summary.dataset.isel({self.period: positions}).load())
        weights = None if self.weight_periods is None else self.weight_periods[:, positions]
        return replace(self, summary=there, weight_periods=weights)

    def cells(self, position: int) -> Iterator[tuple[Index, PeriodCells]]:
        """The cells of a period: numbers of processes, and their cells, in blocks."""
        if self.weight_periods is None:
            yield from self._cells(position)
            return
        for numbers, cells in self._cells(position):
            yield numbers, cells.divided(self.weight_periods[numbers // self.columns, position])

    def _cells(self, position: int) -> Iterator[tuple[Index, PeriodCells]]:
        shape = [labels.size for labels in self.slices.values()]
        numbers = np.arange(math.prod(shape) * self.columns).reshape(*shape, self.columns)
        if numbers.size <= _AT_ONCE:
            yield numbers.ravel(), self._with_neighbours(position, _AT_ONCE // max(1, numbers.size))
            return
        if (occupied := self._occupied(position)) is not None:
            state, grid = occupied
            for start in range(0, numbers.size, _MOST_OCCUPIED):
                here = slice(start, min(start + _MOST_OCCUPIED, numbers.size))
                yield np.arange(here.start, here.stop), PeriodCells.of_occupied(state, here, grid)
            return
        longest = int(np.argmax(shape))
        step = max(1, _AT_ONCE * shape[longest] // numbers.size)
        axis = list(self.slices)[longest]
        period = self.summary.dataset.isel({self.period: position})
        for start in range(0, shape[longest], step):
            at = slice(start, start + step)
            block = numbers[(slice(None),) * longest + (at,)]
            yield block.ravel(), PeriodCells.of_histogram(*self._read(period.isel({axis: at})))

    def _occupied(self, position: int) -> tuple[SparseGridState, Grid] | None:
        """The occupied cells of a period, where they alone are stored."""
        variables = map(self.summary.dataset.variables.__getitem__, self.summary.histogram_variables)
        if not any(isinstance(variable.data, SparseCells) for variable in variables):
            return None
        source = Summary.of(self.summary.dataset.isel({self.period: position})).source
        histogram = source.finest(self.setting)
        occupied = source.occupied(histogram)
        return None if occupied is None else (occupied, histogram.grid)

    def _with_neighbours(self, position: int, periods: int) -> PeriodCells:
        """All cells of a period, which is read with its neighbours: opening a summary takes longer than its numbers."""
        first = position // periods * periods
        if first not in self._kept:
            self._kept.clear()
            self._kept[first] = self._read(self.summary.dataset.isel({self.period: slice(first, first + periods)}))
        state, grid = self._kept[first]
        read = min(periods, self.periods.size - first)
        return PeriodCells.of_histogram(state.part((slice(None), slice(position - first, None, read))), grid)

    def _read(self, dataset: xr.Dataset) -> tuple[GridState, Grid]:
        source = Summary.of(dataset).source
        histogram = source.finest(self.setting)
        return source.state(histogram), histogram.grid


def as_labels(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels of one plain type: texts that files give as objects are texts."""
    values = np.asarray(labels)
    # The texts of Zarr have a type of their own, which numpy does not cast.
    return values if values.dtype.kind in "biufMmU" else texts_of([str(label) for label in values])


def known_labels(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels without the label of missing values."""
    return labels[np.array([label == label for label in labels], bool)]


def _setting(summary: Summary, setting: Setting | str | int | None) -> Setting:
    """The setting; without a name the usual one, or the first that the summary has."""
    chosen = summary.source.layout.setting(setting)
    if setting is not None or summary.has_histogram(chosen):
        summary.source.finest(chosen)
        return chosen
    return summary.source.histograms[0].setting
