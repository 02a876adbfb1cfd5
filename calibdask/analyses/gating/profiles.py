"""Profiles: what a profession measures and files, by its names."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import xarray as xr

from calibdask.analyses.clustered import supported_panel
from calibdask.estimators.estimator import Estimator
from calibdask.estimators.expression import parse_metrics
from calibdask.results.format import PLAIN, figure, pvalue_text, slice_text
from calibdask.results.values import PartResult, Results, Value
from calibdask.safe_text import visible
from calibdask.statistics.layout import Layout


@dataclass(frozen=True)
class Named:
    """A number by the name that a profession gives it, and the part of a metric that it is."""

    name: str
    value: Value
    part: PartResult

    @property
    def text(self) -> str:
        """The number in the digits, or the word, that its kind asks for."""
        number = float(self.value.value)
        if math.isnan(number):
            return figure(number)
        if self.name.endswith("p-value"):
            return pvalue_text(number).removeprefix("p = ").removeprefix("p ")
        if self.part.part == "light":
            return _LIGHTS[int(number)]
        if self.part.kind == "count":
            return f"{number:,.0f}"
        return PLAIN.estimate(number, self.value.low, self.value.high)

    @property
    def ends(self) -> str:
        """The interval; empty without one."""
        low, high = self.value.low, self.value.high
        return "" if low is None or high is None or math.isnan(low + high) else PLAIN.span(low, high)


@dataclass(frozen=True)
class Profile:
    """The numbers of a profession, in the order of the page that it files.

    Parameters
    ----------
    title : str
        Heading of that page.
    names : mapping from metric to mapping from part to name
        What each number is called; metrics are written as on the command line, and a number has the part ``""``.
    of_slices : tuple of str
        Those metrics that are measured of each slice too.
    note : str
        What the numbers leave open.
    pictures : tuple of str
        Metrics whose curves, or points, a report draws, written in the same way.
    """

    title: str
    names: Mapping[str, Mapping[str, str]]
    of_slices: tuple[str, ...] = ()
    note: str = ""
    pictures: tuple[str, ...] = ()

    def metrics(self, layout: Layout, *, of_slices: bool = False) -> dict[str, Estimator]:
        """The metrics by their texts, without those that have no form for weights or clusters where there are some."""
        texts = self.of_slices if of_slices else tuple(self.names)
        made = {str(expression): expression.make() for text in texts for expression in parse_metrics(text)}
        return supported_panel(made, layout)

    def drawn(self, layout: Layout) -> dict[str, Estimator]:
        """The metrics whose curves a report draws, by their texts, as `metrics`."""
        return supported_panel({str(one): one.make() for text in self.pictures for one in parse_metrics(text)}, layout)

    def left_out(self, result: xr.Dataset) -> list[str]:
        """Names of numbers that a result without slices does not have."""
        measured = {part.metric for part in Results(result).parts}
        return [
            name
            for text, names in self.names.items()
            if not {str(expression) for expression in parse_metrics(text)} & measured
            for name in names.values()
        ]

    def numbers(self, result: xr.Dataset) -> Iterator[Named]:
        """Numbers of a result without slices under the names of the profession, with intervals."""
        results = Results(result)
        for text, names in self.names.items():
            (expression,) = parse_metrics(text)
            for own, name in names.items():
                for part in results.of(str(expression), own):
                    yield from _named(name, part)


def _named(name: str, part: PartResult) -> Iterator[Named]:
    """The number; of a curve, or of several classes, one for each position."""
    coords = part.values.coords
    for position in product(*(range(size) for size in part.values.shape)):
        at = dict(zip(map(str, part.values.dims), position, strict=True))
        words = (slice_text(coords[dim].values[i]) if dim in coords else str(i) for dim, i in at.items())
        yield Named(" ".join((name, *words)), part.at(at).value(), part)


_LIGHTS = ("green", "yellow", "red")

# Texts of metrics as `parse_metrics` writes them.
PROFILES: Mapping[str, Profile] = {
    "default": Profile(
        "Calibration",
        {
            "ece": {"": "Calibration error (ECE)"},
            "cutoff-error": {"": "Cut-off calibration error"},
            "smooth-ece": {"": "Smooth calibration error"},
            "mean-gap": {"": "Observed rate minus mean prediction"},
            "brier-score": {"": "Brier score"},
            "log-loss": {"": "Log loss"},
        },
    ),
    "ml": Profile(
        "Calibration and selective prediction",
        {
            "ece": {"": "Calibration error (ECE, 15 bins)"},
            "ece(binning=equal-mass)": {"": "Calibration error (equal-mass bins)"},
            "mce": {"": "Largest gap of a bin (MCE)"},
            "cutoff-error": {"": "Cut-off calibration error"},
            "smooth-ece": {"": "Smooth calibration error (smECE)"},
            "mean-gap": {"": "Accuracy less confidence"},
            "brier-score": {"": "Brier score"},
            "log-loss": {"": "Log loss (NLL)"},
            "risk-coverage": {"aurc": "AURC", "excess": "Excess AURC", "augrc": "AUGRC"},
            "conformal-threshold": {
                "threshold": "Conformal threshold, 90 % sets",
                "coverage": "Coverage of these sets",
                "size": "Mean size of these sets",
            },
        },
        note="A threshold with a guarantee on the errors above it: calibdask threshold DATA --risk 0.05.",
        pictures=("risk-coverage-curve",),
    ),
    "clinical": Profile(
        "Calibration and clinical utility of a prediction model",
        {
            "observed-expected": {"": "Observed / expected events (O:E)"},
            "calibration-slope": {
                "intercept": "Calibration intercept (in the large)",
                "slope": "Calibration slope",
                "pvalue": "Test of intercept 0 and slope 1, p-value",
            },
            "cutoff-error": {"": "Cut-off calibration error"},
            "ici": {"ici": "Integrated calibration index (ICI)", "e50": "E50", "e90": "E90", "emax": "Emax"},
            "calibration-belt(points=2)": {"pvalue": "Calibration belt, p-value"},
            "net-benefit(thresholds=[0.05, 0.1, 0.2, 0.3, 0.5])": {
                "model": "Net benefit of the model at",
                "treat_all": "Net benefit of treating all at",
                "avoided": "Interventions avoided per row at",
            },
            "net-benefit(thresholds=[0.05, 0.1, 0.2, 0.3, 0.5], standardized=true)": {
                "model": "Standardized net benefit of the model at",
            },
            "c-statistic": {"": "c statistic (AUC)"},
            "brier-score": {"": "Brier score"},
        },
        pictures=("calibration-belt", "net-benefit"),
    ),
    "credit": Profile(
        "Back-testing of probabilities of default",
        {
            "observed-expected": {"": "Realised / expected defaults"},
            "grade-tests": {
                "defaults": "Defaults",
                "rate": "Default rate",
                "pd": "Mean PD",
                "binomial": "Binomial test (PD too low), p-value",
                "jeffreys": "Jeffreys test (PD too low), p-value",
                "light": "Traffic light",
            },
            "hosmer-lemeshow": {"pvalue": "Hosmer-Lemeshow test, p-value"},
            "mean-gap": {"": "Default rate minus mean PD"},
            "ece": {"": "Calibration error (ECE)"},
            "cutoff-error": {"": "Cut-off calibration error"},
            "c-statistic": {"": "AUC (accuracy ratio: 2 AUC - 1)"},
        },
        of_slices=("observed-expected", "grade-tests"),
        note="The tests assume that defaults are independent.",
    ),
    "ads": Profile(
        "Calibration of click and conversion probabilities",
        {
            "normalized-entropy": {"": "Normalized entropy (NE)"},
            "observed-expected": {"": "Observed / expected events (O:E)"},
            "mean-gap": {"": "Observed rate minus mean prediction"},
            "cutoff-error": {"": "Cut-off calibration error"},
            "ece(bins=10, binning=equal-mass)": {"": "Calibration error (ECE) of score deciles"},
            "reliability-diagram(bins=10, binning=equal-mass)": {
                "score": "Mean prediction, score decile",
                "outcome": "Observed rate, score decile",
            },
            "c-statistic": {"": "AUC"},
            "log-loss": {"": "Log loss"},
        },
        of_slices=("observed-expected", "normalized-entropy"),
        note="Deciles count from 0, the lowest scores.",
    ),
    "forecast": Profile(
        "Verification of probability forecasts",
        {
            "brier-decomposition": {
                "score": "Brier score",
                "reliability": "Brier score: reliability",
                "resolution": "Brier score: resolution",
                "uncertainty": "Brier score: uncertainty",
            },
            "log-loss-decomposition": {
                "score": "Logarithmic score",
                "reliability": "Logarithmic score: reliability",
                "resolution": "Logarithmic score: resolution",
                "uncertainty": "Logarithmic score: uncertainty",
            },
            # Their intervals are the bars.
            "consistency-bars(bins=10)": {
                "outcome": "Observed frequency, bin",
                "expected": "Expected of calibrated forecasts (consistency bar), bin",
            },
            "cutoff-error": {"": "Cut-off calibration error"},
            "corp": {"miscalibration": "Miscalibration (CORP)", "discrimination": "Discrimination (CORP)"},
            "murphy-curve(thresholds=[0.1, 0.3, 0.5, 0.7, 0.9])": {"": "Elementary score at"},
        },
        pictures=("consistency-bars(bins=10)", "murphy-curve"),
    ),
}


def profile_of(name: str) -> Profile:
    """The profile of this name; without numbers for the empty one.

    Raises
    ------
    ValueError
        If there is no such profile.
    """
    if not name:
        return Profile("", {})
    if name not in PROFILES:
        raise ValueError(f"profile expects one of {', '.join(PROFILES)}, got {visible(name)!r}.")
    return PROFILES[name]
