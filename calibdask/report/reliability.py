"""Reliability as results hold it, in plain arrays: bins of diagrams, and curves with their bands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.plot.panels import prefixes_of
from calibdask.report.measuring import CLASSES

__all__ = ["CURVE_PARTS", "Array", "Bins", "Curve", "bins_of", "classes_of", "curves_of"]

Array = npt.NDArray[np.float64]

# The variables of a curve, without their prefix.
CURVE_PARTS = ("reliability", "score", "density")
_BINS = ("outcome", "score", "count", "weight", "lower", "upper")
_BANDS = ("reliability_low", "reliability_high", "reliability_band_low", "reliability_band_high")


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins of a diagram with rows; ``low`` and ``high`` are ends of the frequency, NaN where there are none."""

    score: Array
    outcome: Array
    count: Array
    weight: Array
    lower: Array
    upper: Array
    low: Array
    high: Array

    @property
    def rows(self) -> float:
        """Number of rows."""
        return float(self.count.sum())

    @property
    def error(self) -> float:
        """The calibration error of these bins."""
        gaps = np.abs(self.outcome - self.score)
        return float((self.weight * gaps).sum() / self.weight.sum()) if self.weight.sum() > 0 else np.nan

    @property
    def means(self) -> tuple[float, float]:
        """Mean score, and frequency of the outcome."""
        total = self.weight.sum()
        if total <= 0:
            return np.nan, np.nan
        return float((self.weight * self.score).sum() / total), float((self.weight * self.outcome).sum() / total)


@dataclass(frozen=True, eq=False)
class Curve:
    """The reliability curve; bands are NaN where there are none."""

    score: Array
    reliability: Array
    density: Array
    low: Array
    high: Array
    band_low: Array
    band_high: Array

    @property
    def has_band(self) -> bool:
        """Whether there is a band for the whole curve."""
        return bool(np.isfinite(self.band_low).any())


def bins_of(dataset: xr.Dataset, at: dict[Any, int] | None = None) -> list[tuple[str, Bins]]:
    """The bins of the first diagram in a result, at a place of its slices."""
    prefixes = [prefix for prefix in prefixes_of(dataset, _BINS) if prefix != f"{CLASSES}_"]
    if not prefixes:
        return []
    one = dataset if at is None else dataset.isel(at)
    return [(label, _bins(each, prefixes[0])) for label, each in _places(one, f"{prefixes[0]}outcome")]


def classes_of(dataset: xr.Dataset) -> list[tuple[str, Bins]]:
    """The bins of all classes by themselves, where these were measured beside the confidence."""
    name = f"{CLASSES}_outcome"
    if name not in dataset:
        return []
    return [(label, _bins(one, f"{CLASSES}_")) for label, one in _places(dataset, name)]


def curves_of(dataset: xr.Dataset) -> dict[str, Curve]:
    """The curves of a result, by class where there is one for each."""
    prefixes = prefixes_of(dataset, CURVE_PARTS)
    if not prefixes:
        return {}
    return {label: _curve(one, prefixes[0]) for label, one in _places(dataset, f"{prefixes[0]}reliability")}


def _places(dataset: xr.Dataset, variable: str) -> Iterator[tuple[str, xr.Dataset]]:
    """A variable's dataset at each class; once, without a label, where there are no classes."""
    dims = dataset[variable].dims[:-1]
    if not dims:
        yield "", dataset
        return
    (dim,) = dims
    for i in range(dataset.sizes[dim]):
        label = dataset[dim].values[i] if dim in dataset.coords else i
        yield str(label), dataset.isel({dim: i})


def _values(one: xr.Dataset, prefix: str, names: Sequence[str], like: str) -> dict[str, Array]:
    missing = np.full(one[prefix + like].shape, np.nan)
    return {
        name: np.asarray(one[prefix + name].values, np.float64) if prefix + name in one.variables else missing
        for name in names
    }


def _bins(one: xr.Dataset, prefix: str) -> Bins:
    found = _values(one, prefix, (*_BINS, "outcome_low", "outcome_high"), "outcome")
    filled = found["count"] > 0
    low, high = found.pop("outcome_low")[filled], found.pop("outcome_high")[filled]
    return Bins(**{name: values[filled] for name, values in found.items()}, low=low, high=high)


def _curve(one: xr.Dataset, prefix: str) -> Curve:
    found = _values(one, prefix, (*CURVE_PARTS, *_BANDS), "reliability")
    return Curve(*(found[name] for name in ("score", "reliability", "density", *_BANDS)))
