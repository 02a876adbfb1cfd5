"""The result of one model as the report reads it: errors, tests, bins, curves, slices, spread of the scores."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibdask.analyses.gating.profiles import profile_of
from calibdask.estimators.expression import parse_metrics
from calibdask.render.text_table import clusters_text
from calibdask.report.headline import headline_of
from calibdask.report.measuring import CLASSES, CURVE, DIAGRAM, GAP, MARKS, SMOOTH, SPREAD, Measured
from calibdask.report.slices import Slice, ratio_of, slices_of
from calibdask.report.small_slices import ShrunkenSlices
from calibdask.results.build import unused_rows
from calibdask.results.reliability import BinnedReliability, SmoothReliability, reliability_variables
from calibdask.results.values import PartResult, Results, Value
from calibdask.statistics.settings import Setting

# Confidence level of tests where there are no intervals.
USUAL_LEVEL = 0.95
_OWN = {DIAGRAM, CURVE, MARKS, SMOOTH, GAP, SPREAD, CLASSES}


@dataclass(frozen=True, eq=False)
class SlicesBy:
    """The slices by one column, the worst first by the first of these calibration errors.

    Many small slices are ordered by their shrunken gaps.
    """

    name: str
    errors: list[PartResult]
    slices: list[Slice]
    shrunken: ShrunkenSlices | None = None

    @property
    def error(self) -> PartResult | None:
        """The error that the slices are ordered by."""
        return self.errors[0] if self.errors else None

    @property
    def variable(self) -> str:
        """The name of the error."""
        return "" if self.error is None else self.error.variable

    @property
    def label(self) -> str:
        """The error in few words."""
        return "–" if self.error is None else self.error.label

    @property
    def judged(self) -> int:
        """Number of slices that have a value of that error, for which lower bounds are adjusted."""
        return sum(not np.isnan(value.value) for value in self.values.values())

    @property
    def values(self) -> dict[str, Value]:
        """That error of each slice that has one, by label."""
        values = {piece.label: piece.numbers.get(self.variable) for piece in self.slices}
        return {label: value for label, value in values.items() if value is not None}


@dataclass(frozen=True)
class CalibrationTest:
    """A test: its statistic, its p-value, and what that assumes.

    ``rejects_calibration`` says whether a small p-value speaks against the model; of a test that an error is small it
    speaks for it.
    """

    metric: str
    label: str
    title: str
    statistic: float
    meaning: str
    pvalue: float
    assumes: str
    rejects_calibration: bool


@dataclass(frozen=True, eq=False)
class ModelResult:
    """One model by its name; ``models`` is the number of those that a page is about."""

    name: str
    measured: Measured
    models: int = 1

    @cached_property
    def results(self) -> Results:
        """All rows."""
        return Results(self.measured.result)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.results.rows

    @property
    def unused_rows(self) -> str:
        """A sentence on the rows that numbers and decisions do not rest on; empty where there are none."""
        over_time = self.measured.over_time
        return unused_rows(self.measured.excluded, "" if over_time is None else over_time.unused_rows)

    @property
    def decides(self) -> bool:
        """Whether limits were held against it."""
        return self.measured.gate is not None and bool(self.measured.gate.judgements)

    @property
    def level(self) -> float | None:
        """Level of intervals, if there are any."""
        return self.results.level

    @cached_property
    def metrics(self) -> list[PartResult]:
        """The numbers of the metrics, without tests and without what only pictures and sentences are made of.

        Errors, slopes and ratios stay where they have a p-value beside them.
        """
        parts = self.results.parts
        curves = {part.metric for part in parts if part.kind == "curve"}
        tests = {part.metric for part in parts if part.kind == "pvalue"}
        return [
            part
            for part in self.results.numbers
            if part.metric not in _OWN | curves and (part.metric not in tests or part.kind in ("error", "number"))
        ]

    @cached_property
    def numbers(self) -> dict[str, Value]:
        """The values of the metrics by name."""
        return {part.variable: part.value() for part in self.metrics}

    @cached_property
    def errors(self) -> list[PartResult]:
        """The calibration errors."""
        return [part for part in self.metrics if part.kind == "error"]

    @cached_property
    def headline(self) -> PartResult | None:
        """The calibration error that the verdict is about."""
        return headline_of(self.errors)

    @property
    def error(self) -> Value | None:
        """The value of the headline."""
        return None if self.headline is None else self.numbers[self.headline.variable]

    @property
    def alpha(self) -> float:
        """Level below which p-values are significant: that of the intervals, 5 % without any."""
        return round(1 - (self.level or USUAL_LEVEL), 12)

    @cached_property
    def tests(self) -> list[CalibrationTest]:
        """All tests of single numbers."""
        return [_test(self.results, part) for part in self.results.numbers if part.kind == "pvalue"]

    @cached_property
    def calibration_tests(self) -> list[CalibrationTest]:
        """All tests whose p-values the page shows and whose small p-values speak against calibration.

        Those of the profile are among them.
        """
        tests = list(self.tests)
        gate = self.measured.gate
        if gate is not None and gate.profile:
            results = Results(gate.result)
            of_profile = {str(metric) for text in profile_of(gate.profile).names for metric in parse_metrics(text)}
            known = {test.metric for test in tests}
            others = (part for part in results.numbers if part.metric in of_profile - known)
            tests += [_test(results, part) for part in others if part.kind == "pvalue"]
        return [test for test in tests if test.rejects_calibration and not np.isnan(test.pvalue)]

    @property
    def is_biased(self) -> bool:
        """Whether the interval of the mean gap excludes 0."""
        gap = self.gap
        return gap is not None and gap.has_interval and not gap.low <= 0 <= gap.high

    @cached_property
    def bins(self) -> list[tuple[str, BinnedReliability]]:
        """The diagrams, by class where there is one for each."""
        return list(BinnedReliability.first(self.measured.result, skip=CLASSES).items())

    @cached_property
    def curves(self) -> dict[str, SmoothReliability]:
        """The curves, by class where there is one for each."""
        return SmoothReliability.first(self.measured.result)

    @cached_property
    def drawn(self) -> list[tuple[str, BinnedReliability, SmoothReliability | None]]:
        """Label, bins and curve of each picture, on the axis that the scores ask for where that was measured."""
        result = self.measured.result
        if MARKS not in reliability_variables(result, "diagram"):
            return [(label, bins, self.curves.get(label)) for label, bins in self.bins]
        curves = SmoothReliability.by_class(result, SMOOTH)
        return [(label, bins, curves[label]) for label, bins in BinnedReliability.by_class(result, MARKS).items()]

    @cached_property
    def classes(self) -> list[tuple[str, BinnedReliability]]:
        """Diagrams of all classes by themselves, where these were measured beside the confidence."""
        if CLASSES in reliability_variables(self.measured.result, "diagram"):
            return list(BinnedReliability.by_class(self.measured.result, CLASSES).items())
        return self.bins if len(self.bins) > 1 else []

    @cached_property
    def sliced(self) -> list[SlicesBy]:
        """The slices by each column, by the error that is computed as the headline is, or another one."""
        return [self._slices_by(name, Results(result)) for name, result in self.measured.slices.items()]

    def _slices_by(self, name: str, results: Results) -> SlicesBy:
        errors = sorted(results.errors, key=lambda part: not self.is_headline(part))
        slices = slices_of(results.dataset, errors[0].variable if errors else "", self.models)
        # Weights and clusters leave fewer independent rows than are counted.
        is_plain = not self.measured.weights and not clusters_text(self.measured.result)
        shrunken = ShrunkenSlices.of(slices, self.level or USUAL_LEVEL) if is_plain else None
        if shrunken is not None:
            place = {label: number for number, label in enumerate(shrunken.gaps)}
            slices = sorted(slices, key=lambda piece: place.get(piece.label, len(place)))
        return SlicesBy(name, errors, slices, shrunken)

    def is_headline(self, part: PartResult) -> bool:
        """Whether a part of another result is computed as the headline is."""
        headline = self.headline
        return headline is not None and (part.estimator, part.part) == (headline.estimator, headline.part)

    @property
    def kind(self) -> str:
        """The kind of the setting that is drawn: confidence, top-k, class or classwise."""
        setting = self.measured.setting or (Setting.parse(self.headline.setting) if self.headline is not None else None)
        return "class" if setting is None else setting.kind

    @cached_property
    def gap(self) -> Value | None:
        """Observed rate minus mean prediction, for all rows."""
        for part in self.results.of(GAP, ""):
            if part.is_number:
                return part.value()
        score, outcome = self.means
        return None if np.isnan(score) else Value(GAP, outcome - score)

    @cached_property
    def means(self) -> tuple[float, float]:
        """Mean score and frequency of the outcome; NaN where they are not known or there is one for each class."""
        if len(self.bins) != 1:
            return np.nan, np.nan
        bins = self.bins[0][1]
        return bins.mean_score, bins.frequency

    @property
    def observed_expected(self) -> float:
        """Observed over expected events of all rows."""
        return ratio_of(self.means)

    def spread(self, part: str) -> float:
        """A part of `calibdask.Saturation`: of several classes the largest share, the smallest number."""
        for saturation in self.results.of(SPREAD, part):
            values = saturation.values.values
            return float(np.min(values) if saturation.kind == "count" else np.max(values))
        return np.nan


def _test(results: Results, pvalue: PartResult) -> CalibrationTest:
    # Of an error with a p-value the error itself is the statistic.
    statistic = next(iter((*results.of(pvalue.metric, "statistic"), *results.of(pvalue.metric, ""))), None)
    return CalibrationTest(
        pvalue.metric,
        pvalue.label,
        pvalue.title if pvalue.title != pvalue.metric else "",
        np.nan if statistic is None else float(statistic.value().value),
        "" if statistic is None else statistic.meaning,
        float(pvalue.value().value),
        str(pvalue.values.attrs.get("assumes", "")),
        pvalue.direction != "lower",
    )
