"""Slices of one model, the worst first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from calibdask.ranking import worst_slices
from calibdask.readout import Reading, numbers_of, places, plain, readings
from calibdask.report.reliability import Bins, bins_of

__all__ = ["TOO_FEW", "Slice", "slices_of"]

TOO_FEW = 10


@dataclass(frozen=True, eq=False)
class Slice:
    """One slice: its label, its rows (NaN where no diagram counts them), its numbers by name, and its bins.

    Numbers of very few rows have no interval: the replicates of a row are that row, and look certain.
    """

    label: str
    rows: float
    numbers: dict[str, Reading]
    bins: Sequence[tuple[str, Bins]]


def slices_of(result: xr.Dataset, metric: str = "ece") -> list[Slice]:
    """The slices in the order of `calibdask.worst_slices`, those of very few rows and without a value last.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> scores, day = rng.random(3000), rng.choice(["mon", "tue", "wed"], 3000)
    >>> labels = (rng.random(3000) < np.where(day == "tue", scores**3, scores)).astype(int)
    >>> result = cd.evaluate(labels, scores, cd.ECE(), by={"day": day}, ci=0.95)
    >>> slices_of(result)[0].label
    'tue'
    """
    found = {_key(labels): _slice(result, at, labels) for at, labels in places(result[_along(result)])}
    order = _order(result, metric)
    ordered = [found[key] for key in (*order, *(key for key in found if key not in order))]
    return sorted(ordered, key=lambda each: each.rows < TOO_FEW)


def _along(result: xr.Dataset) -> list[str]:
    """The variables along the slices: all but those that only classes or bins have."""
    dims = set(np.atleast_1d(result.attrs["slices"]).tolist())
    return [str(name) for name, variable in result.data_vars.items() if dims <= set(variable.dims)]


def _key(labels: dict[Any, Any]) -> tuple[str, ...]:
    return tuple(str(plain(label)) for label in labels.values())


def _order(result: xr.Dataset, metric: str) -> list[tuple[str, ...]]:
    """Labels of the slices that have a value, the worst first."""
    dims = np.atleast_1d(result.attrs["slices"]).tolist()
    if metric not in result:
        return []
    worst = worst_slices(result, metric, max(1, int(np.prod([result.sizes[dim] for dim in dims]))))
    labels = [worst[dim].values for dim in dims]
    return [tuple(str(plain(each)) for each in some) for some in zip(*labels, strict=True)]


def _slice(result: xr.Dataset, at: dict[Any, int], labels: dict[Any, Any]) -> Slice:
    bins = bins_of(result, at)
    rows = bins[0][1].rows if bins else np.nan
    one = result.isel(at)
    numbers = {each.name: each for each in readings(numbers_of(one.drop_attrs(deep=False)))}
    if rows < TOO_FEW:
        numbers = {name: replace(each, low=None, high=None) for name, each in numbers.items()}
    return Slice(" · ".join(_key(labels)), rows, numbers, bins)
