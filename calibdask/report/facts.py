"""The facts of one model as the report needs them: errors, bins, curve, bands, spread of scores."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.plot.panels import prefixes_of
from calibdask.readout import Reading, numbers_of, readings
from calibdask.report.measuring import CLASSES, CURVE, DIAGRAM, GAP, SPREAD, Measured
from calibdask.report.words import counted

__all__ = ["Bins", "Curve", "Facts", "Tested", "bins_of", "error_of", "error_words"]

Array = npt.NDArray[np.float64]

# The error that the verdict is about: the first of these that was measured.
_HEADLINES = (r"ECE\(.*binning='uniform'.*norm='l1'", r"ECE\(.*norm='l1'", r"DensityECE\(", r"SmoothECE\(")
_BINS = ("outcome", "score", "count", "weight", "lower", "upper")
_CURVE = ("reliability", "score", "density")
_BANDS = ("reliability_low", "reliability_high", "reliability_band_low", "reliability_band_high")
_OWN = (DIAGRAM, CURVE, GAP, SPREAD, CLASSES)


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


@dataclass(frozen=True)
class Tested:
    """A test: its statistic, its p-value and what that assumes."""

    name: str
    statistic: float
    pvalue: float
    assumes: str
    meaning: str


@dataclass(frozen=True, eq=False)
class Facts:
    """One model by its name."""

    name: str
    measured: Measured

    @property
    def result(self) -> xr.Dataset:
        """All rows."""
        return self.measured.result

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.result.attrs["rows"])

    @property
    def level(self) -> float | None:
        """Level of intervals, if there are any."""
        level = self.result.attrs.get("ci")
        return None if level is None else float(level)

    @cached_property
    def readings(self) -> list[Reading]:
        """The numbers of the metrics, without tests and without what only pictures and words are made of."""
        bandwidths = [f"{prefix}bandwidth" for prefix in prefixes_of(self.result, _CURVE)]
        tested = tuple(f"{test.name}_" for test in self.tests)
        return [
            each
            for each in readings(numbers_of(self.result))
            if not each.name.startswith(_OWN) and each.name not in bandwidths and not each.name.startswith(tested)
        ]

    @cached_property
    def headline(self) -> Reading | None:
        """The calibration error that the verdict is about."""
        for pattern in _HEADLINES:
            for each in self.readings:
                if re.match(pattern, self.estimator(each.name)):
                    return each
        return None

    def estimator(self, name: str) -> str:
        """The description of the estimator of a variable."""
        return str(self.result[name].attrs.get("estimator", ""))

    @property
    def is_corrected(self) -> bool:
        """Whether the interval of the headline begins at 0 where chance alone may give such an error."""
        low = f"{self.headline.name}_low" if self.headline is not None else ""
        return low in self.result and self.result[low].attrs.get("interval") == "corrected"

    @cached_property
    def tests(self) -> list[Tested]:
        """All tests of single numbers."""
        found = []
        for name in map(str, self.result.data_vars):
            values = self.result[name]
            if name.endswith("_pvalue") and not values.ndim and "assumes" in values.attrs:
                test = name.removesuffix("_pvalue")
                statistic = self.result.get(f"{test}_statistic", xr.DataArray(np.nan))
                assumes, meaning = str(values.attrs["assumes"]), str(statistic.attrs.get("meaning", ""))
                found.append(Tested(test, float(statistic), float(values), assumes, meaning))
        return found

    @cached_property
    def bins(self) -> list[tuple[str, Bins]]:
        """The diagrams, by class where there is one for each."""
        return bins_of(self.result)

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """The curves, by class where there is one for each."""
        prefixes = prefixes_of(self.result, _CURVE)
        if not prefixes:
            return {}
        return {label: _curve(one, prefixes[0]) for label, one in _places(self.result, f"{prefixes[0]}reliability")}

    @cached_property
    def classes(self) -> list[tuple[str, Bins]]:
        """Diagrams of all classes by themselves, where these were measured beside the confidence."""
        name = f"{CLASSES}_outcome"
        if name not in self.result:
            return self.bins if len(self.bins) > 1 else []
        return [(label, _bins(one, f"{CLASSES}_")) for label, one in _places(self.result, name)]

    @cached_property
    def kind(self) -> str:
        """The kind of the setting: confidence, top-k, class or classwise."""
        if self.measured.setting is not None:
            return self.measured.setting.kind
        meaning = self.headline.meaning if self.headline is not None else ""
        words = {"confidence and accuracy": "confidence", "largest scores": "top-k", "of each class": "classwise"}
        return next((kind for word, kind in words.items() if word in meaning), "class")

    @cached_property
    def gap(self) -> Reading | None:
        """The frequency of the outcome less the mean score, of all rows."""
        found = [each for each in readings(numbers_of(self.result)) if each.name == GAP]
        if found:
            return found[0]
        score, outcome = self.means
        return None if np.isnan(score) else Reading(GAP, outcome - score)

    @cached_property
    def means(self) -> tuple[float, float]:
        """Mean score and frequency of the outcome; NaN where they are not known or there is one for each class."""
        if len(self.bins) != 1:
            return np.nan, np.nan
        return self.bins[0][1].means

    def spread(self, part: str) -> float:
        """A part of `calibdask.estimators.saturation.Saturation`, the largest of all classes (distinct: smallest)."""
        name = f"{SPREAD}_{part}"
        if name not in self.result:
            return np.nan
        values = self.result[name].values
        return float(np.min(values) if part in ("distinct_scores", "effective_rows") else np.max(values))


def error_words(estimator: str) -> str:
    """What a calibration error is, in short, from the description of its estimator.

    Examples
    --------
    >>> import calibdask as cd
    >>> [error_words(repr(each)) for each in (cd.ECE(), cd.ECE(bins=7, binning="equal-mass"), cd.SmoothECE())]
    ['ECE, 15 bins', 'ECE, 7 bins of equal mass', 'smooth ECE']
    """
    words = {"ECE(": "ECE", "DensityECE(": "density ECE", "SmoothECE(": "smooth ECE"}
    name = next((each for start, each in words.items() if estimator.startswith(start)), estimator.partition("(")[0])
    bins = re.search(r"\bbins=(\d+)\b", estimator) if name == "ECE" else None
    mass = " of equal mass" if "binning='equal-mass'" in estimator else ""
    return f"{name}, {counted(int(bins[1]), 'bin')}{mass}" if bins else name


def error_of(result: xr.Dataset, facts: Facts) -> str:
    """The calibration error of slices that is computed as the headline is, otherwise their ECE, by its name."""
    wanted = "" if facts.headline is None else facts.estimator(facts.headline.name)
    alike = [
        str(name)
        for name, values in result.data_vars.items()
        if wanted and values.attrs.get("estimator") == wanted and not str(name).endswith(("_low", "_high"))
    ]
    return alike[0] if alike else "ece"


def bins_of(dataset: xr.Dataset, at: dict[Any, int] | None = None) -> list[tuple[str, Bins]]:
    """The bins of the first diagram in a result, at a place of its slices."""
    prefixes = [prefix for prefix in prefixes_of(dataset, _BINS) if prefix != f"{CLASSES}_"]
    if not prefixes:
        return []
    one = dataset if at is None else dataset.isel(at)
    return [(label, _bins(each, prefixes[0])) for label, each in _places(one, f"{prefixes[0]}outcome")]


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
    found = _values(one, prefix, (*_CURVE, *_BANDS), "reliability")
    return Curve(*(found[name] for name in ("score", "reliability", "density", *_BANDS)))
