"""The facts of one model as the report needs them: errors, bins, curve, bands, spread of scores."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr

from calibdask.plot.panels import prefixes_of
from calibdask.readout import Reading, numbers_of, readings
from calibdask.report.measuring import CLASSES, CURVE, DIAGRAM, GAP, SPREAD, Measured
from calibdask.report.reliability import CURVE_PARTS, Bins, Curve, bins_of, classes_of, curves_of
from calibdask.report.slices import Slice, slices_of
from calibdask.report.words import counted

__all__ = ["Facts", "Sliced", "Tested", "error_of", "error_words", "is_error"]

# The error that the verdict is about: the first of these that was measured.
_HEADLINES = (r"ECE\(.*binning='uniform'.*norm='l1'", r"ECE\(.*norm='l1'", r"DensityECE\(", r"SmoothECE\(")
# Calibration errors, and what they are called in short.
_ERRORS = {"ECE": "ECE", "DensityECE": "density ECE", "SmoothECE": "smooth ECE"}
_OWN = (DIAGRAM, CURVE, GAP, SPREAD, CLASSES)


@dataclass(frozen=True, eq=False)
class Sliced:
    """The slices of one column, the worst first by an error: its name, and the description of its estimator."""

    name: str
    metric: str
    estimator: str
    slices: list[Slice]


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
        bandwidths = [f"{prefix}bandwidth" for prefix in prefixes_of(self.result, CURVE_PARTS)]
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
        return curves_of(self.result)

    @cached_property
    def classes(self) -> list[tuple[str, Bins]]:
        """Diagrams of all classes by themselves, where these were measured beside the confidence."""
        return classes_of(self.result) or (self.bins if len(self.bins) > 1 else [])

    @cached_property
    def sliced(self) -> list[Sliced]:
        """The slices of each column by the error that is computed as the headline is."""
        found = []
        for name, result in self.measured.slices.items():
            metric = error_of(result, self)
            estimator = str(result[metric].attrs.get("estimator", "")) if metric in result else ""
            found.append(Sliced(name, metric, estimator, slices_of(result, metric)))
        return found

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
    kind = estimator.partition("(")[0]
    name = _ERRORS.get(kind, kind)
    bins = re.search(r"\bbins=(\d+)\b", estimator) if name == "ECE" else None
    mass = " of equal mass" if "binning='equal-mass'" in estimator else ""
    return f"{name}, {counted(int(bins[1]), 'bin')}{mass}" if bins else name


def is_error(estimator: str) -> bool:
    """Whether the description is that of a calibration error."""
    return estimator.partition("(")[0] in _ERRORS


def error_of(result: xr.Dataset, facts: Facts) -> str:
    """The calibration error of slices that is computed as the headline is, otherwise their ECE, by its name."""
    wanted = "" if facts.headline is None else facts.estimator(facts.headline.name)
    alike = [
        str(name)
        for name, values in result.data_vars.items()
        if wanted and values.attrs.get("estimator") == wanted and not str(name).endswith(("_low", "_high"))
    ]
    return alike[0] if alike else "ece"
