"""Alarms of a watch: where and when each was raised, since when, and how far off the scores were."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from calibdask.analyses.monitoring.slice_processes import numbers_so_far
from calibdask.inference.sequential.processes import Monitor
from calibdask.inference.sequential.saved import SavedState
from calibdask.results.format import plain

_NUMBERS = ("log_e", "pvalue", "gap", "gap_low", "gap_high", "error", "error_low", "error_high")


@dataclass(frozen=True)
class Alarm:
    """A slice (model, class) that was found not to be calibrated, with its numbers at the end of that period.

    Notes
    -----
    An alarm is a discovery of e-BH over the slices and classes of a model: of one slice, E >= 1 / alpha. If k of m are
    found their mean is 1 / alpha or more, and the mean of e-processes is one: of models that are calibrated in every
    slice at most a share of alpha ever raises any alarm.

    Attributes
    ----------
    by : mapping
        Labels by the names of their dimensions.
    period, since
        The period of the alarm, and that from which on the evidence was largest.
    rows : int
        Of the slice, up to then.
    """

    by: Mapping[str, Any]
    period: Any
    since: Any
    rows: int
    log_e: float
    pvalue: float
    gap: float
    gap_low: float
    gap_high: float
    error: float
    error_low: float
    error_high: float

    @property
    def key(self) -> str:
        """Key of the slice."""
        return slice_key(self.by)

    def to_dict(self) -> dict[str, Any]:
        """JSON values of the alarm."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Any) -> "Alarm":
        """The alarm in such a mapping; KeyError or TypeError where it is none."""
        alarm = cls(**{field.name: record[field.name] for field in fields(cls)})
        if not isinstance(alarm.by, dict):
            raise TypeError(f"by is {alarm.by!r}")
        return alarm


def slice_key(by: Mapping[str, Any]) -> str:
    """A text for the labels of a slice, whatever the order of dimensions."""
    return json.dumps(dict(by), sort_keys=True)


@dataclass(frozen=True, eq=False)
class WatchResult:
    """A result of `calibdask.watch`, read back.

    Attributes
    ----------
    dataset : xarray.Dataset
    saved : SavedState
        The processes after this run.
    """

    dataset: xr.Dataset
    saved: SavedState

    @classmethod
    def of(cls, dataset: xr.Dataset) -> "WatchResult":
        """The result with the state in its attributes."""
        return cls(dataset, SavedState.from_dict(json.loads(dataset.attrs["state"])))

    @property
    def name(self) -> str:
        """Name of the summary, where the dataset knows it."""
        return str(self.dataset.attrs.get("summary", "summary"))

    @property
    def period(self) -> str:
        """Name of the dimension of periods."""
        return self.saved.watched.period

    @property
    def alarms(self) -> list[dict[str, Any]]:
        """Alarms that stand, as records of `Alarm`, with ``new`` for those that were not reported."""
        return list(json.loads(self.dataset.attrs["alarms"]))

    @property
    def pending(self) -> list[dict[str, Any]]:
        """Periods that are not due, each with its rows and the moment when it is."""
        return list(json.loads(self.dataset.attrs["pending"]))

    @property
    def late(self) -> list[Any]:
        """Periods that came after later ones had been watched."""
        return list(json.loads(self.dataset.attrs["late"]))

    @cached_property
    def standing(self) -> xr.Dataset:
        """Numbers of all rows so far, at the end of the last period that was watched in this run or before."""
        watched, state = self.saved.watched, self.saved.processes
        monitor = Monitor(watched.tolerance, watched.alpha)
        numbers = numbers_so_far(state, monitor, self.saved.periods, self.saved.periods.size - 1)
        numbers["rows"] = state.counted.astype(np.int64)
        dims = [dim for dim in self.dataset["log_e"].dims if dim != self.period]
        shape = [self.dataset.sizes[dim] for dim in dims]
        variables = {name: (dims, values.reshape(shape)) for name, values in numbers.items()}
        return xr.Dataset(variables, {dim: self.dataset[dim].values for dim in dims})


def raised_alarms(result: WatchResult) -> list[Alarm]:
    """The alarms of the periods of a run, the first ones first."""
    dataset, period = result.dataset, result.period
    if not dataset.sizes[period]:
        return []
    found = dataset["found"].transpose(..., period)
    rows = dataset["rows"].transpose(..., period)
    before = result.standing["rows"].values - rows.values.sum(-1)
    rows_so_far = rows.copy(data=before[..., None] + rows.values.cumsum(-1))
    alarms: list[tuple[int, Alarm]] = []
    for at in map(tuple, np.argwhere(found.values.any(-1)).tolist()):
        where = dict(zip(found.dims, at, strict=False))
        number = int(found.values[at].argmax())
        here = dataset.isel({**where, period: number})
        numbers = {name: plain(here[name].values) for name in _NUMBERS}
        labels = {"period": plain(here[period].values), "since": plain(here["since"].values)}
        count = int(rows_so_far.values[(*at, number)])
        alarms.append((number, Alarm(by=slice_labels(dataset, where), rows=count, **labels, **numbers)))
    return [alarm for _, alarm in sorted(alarms, key=lambda pair: (pair[0], -pair[1].log_e))]


def slice_labels(dataset: xr.Dataset, where: Mapping[Any, Any]) -> dict[str, Any]:
    """The labels of a slice at positions along the dimensions."""
    return {str(dim): plain(dataset[dim].values[number]) for dim, number in where.items()}
