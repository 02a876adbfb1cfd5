"""Slices of a summary, chosen and pooled on demand: selections, their numbers of rows, and groups of slices."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.engine.inputs import Input
from calibdask.engine.stored import StoredSource
from calibdask.engine.summaries import extra_dims, read_summary
from calibdask.explore.summaries.sparse_sums import SparseSums

__all__ = ["Group", "Pool", "Selection", "pool_of"]

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
        return Selection(tuple(each for each in self.slices if each[0] not in dims), self.models)


@dataclass(frozen=True)
class Group:
    """Slices that are pooled into one: its place along the dimensions that tell it, and the numbers of all in it."""

    place: tuple[int, ...]
    numbers: npt.NDArray[np.int64]


class Pool:
    """A summary whose slices are added up as they are chosen.

    Parameters
    ----------
    summary : xarray.Dataset
        What `calibdask.summarize` made, or `calibdask.engine.summary_files.open_summary` opened. Only its coordinates
        and numbers of rows are read at first.

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

    def __init__(self, summary: xr.Dataset) -> None:
        self.summary = summary
        # Small, and asked for at every sum.
        self._counted = summary.assign(rows=summary["rows"].load()).assign_coords(
            {name: coordinate.load() for name, coordinate in summary.coords.items()}
        )
        self._data = read_summary(self._counted)
        axes = {str(axis.name): axis for axis in self._data.by}
        self.axes = tuple(axes)
        self.labels: dict[str, Labels] = {
            name: np.arange(axis.size) if axis.labels is None else axis.labels for name, axis in axes.items()
        }
        self.models = tuple(str(name) for name in extra_dims(summary))
        self.slices = tuple(name for name in axes if name not in self.models)
        self.sums = SparseSums(summary, self.axes)
        self.pooled = lru_cache(maxsize=4)(self._pooled)
        self._variables = lru_cache(self._telling)

    @property
    def source(self) -> StoredSource:
        """What knows which settings the summary tells, without its numbers."""
        return _source(self._data)

    @property
    def classes(self) -> Labels:
        """Names of the classes."""
        return np.arange(self.source.layout.classes) if self._data.classes is None else self._data.classes

    @property
    def slice_count(self) -> int:
        """Number of slices of one model."""
        return math.prod(len(self.labels[dim]) for dim in self.slices)

    def settings(self) -> dict[str, str | int | None]:
        """Settings that the summary tells, by their names for readers; None is the only one of binary scores."""
        layout = self.source.layout
        if layout.vector:
            return {"binary": None}
        found: dict[str, str | int | None] = {
            words: setting
            for words, setting in (
                ("confidence (largest score)", "confidence"),
                ("class-wise (all classes)", "classwise"),
            )
            if self.source.tells(layout.setting(setting))
        }
        names = self.classes
        told = (k for k in range(layout.classes) if self.source.tells(layout.setting(k)))
        return found | {f"class {names[k]}": k for k in told}

    def is_read(self, setting: str | int | None) -> bool:
        """Whether all that tells a setting is in memory."""
        return all(self.sums.has(name) for name in self._variables(setting))

    def numbers(self, selection: Selection) -> npt.NDArray[np.int64]:
        """Numbers of the slices of a selection."""
        if selection.is_others:
            inside = self.numbers(Selection(selection.slices, selection.models))
            return np.setdiff1d(self.numbers(Selection(models=selection.models)), inside)
        taken = self._taken(selection)
        everything = np.arange(math.prod(len(labels) for labels in self.labels.values()))
        shaped = everything.reshape([len(self.labels[axis]) for axis in self.axes])
        return shaped[np.ix_(*taken)].ravel() if taken else everything

    def rows(self, selection: Selection) -> int:
        """Number of rows of a selection."""
        return int(self._rows(self.numbers(selection)))

    def groups(self, dims: Sequence[str], selection: Selection) -> list[Group]:
        """The slices along some dimensions, all others pooled over what is selected, which is no rest of others."""
        numbers = self.numbers(selection.without(dims))
        taken = self._taken(selection.without(dims))
        shaped = numbers.reshape([len(each) for each in taken])
        along = [self.axes.index(dim) for dim in dims]
        rows = np.moveaxis(shaped, along, range(len(along)))
        places = product(*(range(len(self.labels[dim])) for dim in dims))
        return [Group(place, rows[place].ravel()) for place in places]

    def group_rows(self, groups: Sequence[Group]) -> npt.NDArray[np.int64]:
        """Number of rows of each group."""
        return np.array([self._rows(group.numbers) for group in groups], np.int64)

    def grouped(self, groups: Sequence[Group], setting: str | int | None) -> xr.Dataset:
        """A summary with these groups along the dimension ``slice``."""
        numbers = [group.numbers for group in groups]
        return self._summary(numbers, setting, ("slice",)).assign_coords(slice=np.arange(len(groups)))

    def _pooled(self, selection: Selection, setting: str | int | None) -> xr.Dataset:
        """The summary of all rows of a selection, without slices, of the histograms that tell a setting."""
        return self._summary([self.numbers(selection)], setting, ())

    def _summary(self, groups: Sequence[Any], setting: str | int | None, dims: tuple[str, ...]) -> xr.Dataset:
        names = self._variables(setting)
        made = self._counted[names].isel(dict.fromkeys(self.axes, 0), drop=True)
        found: dict[str, Any] = {"rows": (dims, self._shaped([self._rows(each) for each in groups], dims))}
        for name in names:
            cells = tuple(dim for dim in self.summary[name].dims if dim not in self.axes)
            found[name] = ((*dims, *cells), self._shaped(self.sums.of(name, groups), dims))
        return xr.Dataset(found, made.coords)

    def _shaped(self, values: Any, dims: tuple[str, ...]) -> Any:
        return np.asarray(values) if dims else values[0]

    def _rows(self, numbers: npt.NDArray[np.int64]) -> Any:
        return self._counted["rows"].values.ravel()[numbers].sum()

    def _taken(self, selection: Selection) -> list[tuple[int, ...]]:
        """Positions along all axes."""
        slices, models = dict(selection.slices), dict(selection.models)
        return [
            (models.get(axis, 0),) if axis in self.models else slices.get(axis, tuple(range(len(self.labels[axis]))))
            for axis in self.axes
        ]

    def _telling(self, setting: str | int | None) -> list[str]:
        """The variables of the histograms that tell a setting."""
        asked = self.source.layout.setting(setting)
        names = [str(name) for name in self.summary.data_vars]
        found = []
        for count in (name for name in names if name.endswith("_count")):
            word = count.removesuffix("count")
            parts = [
                name for name in names if name in {f"{word}{part}" for part in ("count", "offset", "square", "rows")}
            ]
            if _source(read_summary(self._counted[["rows", *parts]])).tells(asked):
                found += parts
        return found


def _source(data: Input) -> StoredSource:
    assert isinstance(data.source, StoredSource)
    return data.source


_POOLS: deque[Pool] = deque(maxlen=4)


def pool_of(summary: xr.Dataset) -> Pool:
    """The pool of a summary; sessions of one server share what has been read."""
    for pool in _POOLS:
        if pool.summary is summary:
            return pool
    _POOLS.append(Pool(summary))
    return _POOLS[-1]
