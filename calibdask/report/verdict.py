"""The verdict on a model in a few sentences, consistent with its interval."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from calibdask.estimators.bounded_mean import CLOPPER_PEARSON
from calibdask.report.direction import direction, direction_sentences, leaves_diagonal
from calibdask.report.headline import is_mean_gap, scale_of
from calibdask.report.model_result import CalibrationTest, ModelResult
from calibdask.results.cautions import FEWEST_ROWS, MANY_ROWS
from calibdask.results.format import Scale, counted, joined, named, pvalue_text
from calibdask.results.values import PartResult, Value
from calibdask.statistics.settings import Setting

# Errors below this are small whatever their interval.
_SMALL = 0.01
# Intervals of these kinds hold 0 where a calibrated model may show such an error by chance; percentiles of an error
# never reach it, however well a model is calibrated.
_TELLING_CHANCE = ("corrected", "normal", CLOPPER_PEARSON)
# What differs, by the setting of a mean gap.
_SIDES = {
    "confidence": "confidence and accuracy",
    "classwise": "score and frequency of each class",
}

Outcome = Literal["error", "bias", "chance", "unclear", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """Headline and sentences of a verdict; ``outcome`` is its kind.

    ``"bias"`` means that the mean gap is significant and the error of the headline is not.
    """

    outcome: Outcome
    line: str
    sentences: tuple[str, ...]


def verdict_on(model: ModelResult) -> Verdict:
    """The verdict on a model.

    Examples
    --------
    >>> import numpy as np
    >>> from calibdask.report import measure
    >>> from calibdask.report.model_result import ModelResult
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> verdict = verdict_on(ModelResult("square", measure(rng.random(2000) < scores**2, scores)))
    >>> verdict.outcome
    'error'
    """
    part, error = model.headline, model.error
    if part is None or error is None:
        reason = "The metrics of this result hold none; measure one such as ECE or DensityECE."
        return Verdict("unknown", "No calibration error was measured", (reason,))
    if np.isnan(error.value):
        reason = "No calibration error can be computed: there are no rows, or all their weights are 0."
        return Verdict("unknown", "No calibration error was measured", (reason,))
    assessment = _Assessment(model, part, error)
    if model.rows < FEWEST_ROWS:
        return Verdict("unclear", f"Too few rows: {counted(model.rows, 'row')}", (assessment.size,))
    sentences = (assessment.size, assessment.chance, *direction_sentences(model))
    return Verdict(assessment.outcome, assessment.line, tuple(filter(None, (*sentences, *assessment.relevance()))))


@dataclass(frozen=True, eq=False)
class _Assessment:
    """Assessment of a model from its headline error, interval and test."""

    model: ModelResult
    part: PartResult
    error: Value

    @property
    def scale(self) -> Scale:
        return scale_of(self.part)

    @property
    def has_chance_interval(self) -> bool:
        """Whether the interval accounts for chance."""
        has_ends = self.error.has_interval and not np.isnan(self.error.low)
        return has_ends and self.part.interval_method in _TELLING_CHANCE

    @property
    def excludes_zero(self) -> bool:
        return self.has_chance_interval and bool(self.error.low > 0)

    @cached_property
    def test(self) -> CalibrationTest | None:
        """The test of calibration with the smallest p-value."""
        return min(self.model.calibration_tests, key=lambda test: test.pvalue, default=None)

    @property
    def rejects(self) -> bool | None:
        """Whether the test rejects calibration; None if there is none."""
        return None if self.test is None else self.test.pvalue < self.model.alpha

    @property
    def rejects_adjusted(self) -> bool:
        """Whether the test rejects calibration when its p-value is adjusted for the number of tests (Bonferroni)."""
        return self.test is not None and self.test.pvalue * len(self.model.calibration_tests) < self.model.alpha

    @property
    def outcome(self) -> Outcome:
        """Outcome from the interval of the error, that of the mean gap, and the tests: all that the page shows."""
        if self.excludes_zero or (not self.has_chance_interval and self.rejects_adjusted):
            return "error"
        if self.model.is_biased:
            return "bias"
        if self.has_chance_interval:
            return "unclear" if self.rejects else "chance"
        if self.rejects is None:
            return "unclear" if self.error.has_interval and not np.isnan(self.error.low) else "unknown"
        return "unclear"

    @property
    def line(self) -> str:
        """The verdict in a line."""
        size = self._number(self.error, self.scale.unit)
        measured = f"{size} measured"
        if not is_mean_gap(self.part):
            size = measured = f"{self.part.label} {size}"
        else:
            size = f"off by {size}"
        # Of groups an audit may have found one.
        where = "" if self.model.measured.audited is None else " over all rows"
        return {
            "error": f"{direction(self.model)}: {size}",
            "bias": f"No calibration error shown beyond the bias of the mean{where}: {measured}",
            "chance": f"No calibration error shown beyond chance{where}: {measured}",
            "unclear": f"Not settled by these data: {measured}",
            "unknown": f"Not known whether beyond chance: {measured}",
        }[self.outcome]

    def _number(self, error: Value, unit: str) -> str:
        ends = f" ({self.scale.span(error.low, error.high)})" if error.has_interval else ""
        return f"{self.scale.estimate(error.value, error.low, error.high)}{unit}{ends}"

    @property
    def size(self) -> str:
        """Size and name of the error."""
        error, scale = self.error, self.scale
        ends = f" ({scale.interval(error.low, error.high, self.model.level)})" if error.has_interval else ""
        rows = f"over {counted(self.model.rows, 'row')}"
        equal = self.part.choices.get("binning") == "uniform" and self.part.label.endswith("bins")
        name = f"{self.part.label} of equal width" if equal else self.part.label
        number = scale.estimate(error.value, error.low, error.high)
        text = f"The calibration error ({name}) is {number}{scale.unit}{ends}"
        if not is_mean_gap(self.part):
            return f"{text}, {rows}{f': {self.part.meaning}' if self.part.meaning else ''}."
        setting = Setting.parse(self.part.setting)
        sides = _SIDES.get(setting.kind if setting else "", "score and frequency of the outcome")
        return f"{text}: {rows}, {sides} differ by that much on average."

    @property
    def chance(self) -> str:
        """The part of the error that chance may explain, and the result of the test."""
        if self.outcome == "bias":
            return self._beside_bias
        if self.outcome == "unknown":
            return "Without an interval or a test, the share due to chance is unknown."
        if self.excludes_zero:
            rare = "A calibrated model with these scores would rarely show an error this large by chance."
            return f"{rare} {self._tested}".strip()
        if not self.has_chance_interval:
            alone = "The interval alone does not distinguish error from chance." if self.error.has_interval else ""
            return f"{self._tested} {alone}".strip()
        zero = "begins at 0" if self.error.low == 0 else "extends to 0 or below"
        if leaves_diagonal(self.model):
            return (
                f"The interval of the error {zero}, but the band of the curve excludes the diagonal along some scores: "
                f"the error is a mean over all scores, in which a few of them may not show. {self._tested}"
            ).strip()
        return (
            f"Chance may explain an error of this size: the interval {zero}. That does not show that the model is "
            f"calibrated; an error of {self.scale.number(self.error.high)}{self.scale.short_unit} fits the data as "
            f"well. {self._tested}"
        ).strip()

    @property
    def _beside_bias(self) -> str:
        """A significant mean gap, and an error that is not significant."""
        biased = "The scores are biased on average, so the model is not calibrated."
        if not self.has_chance_interval:
            return f"{biased} How much of this error is due to chance is unknown. {self._tested}".strip()
        return (
            f"{biased} The interval of this error includes 0, since it allows for errors of either sign at all scores: "
            f"no error beyond that of the mean is shown. {self._tested}"
        ).strip()

    @property
    def _tested(self) -> str:
        if self.test is None:
            return ""
        tests = len(self.model.calibration_tests)
        smallest = f", the smallest of {tests} tests" if tests > 1 else ""
        name = f"({self.test.label}, {pvalue_text(self.test.pvalue)}{smallest})"
        if not self.rejects:
            return f"A test of calibration, sensitive to some kinds of error only, does not reject calibration {name}."
        agrees = self.excludes_zero or self.model.is_biased
        return f"A test of calibration {'rejects calibration as well' if agrees else 'does reject calibration'} {name}."

    def relevance(self) -> Iterator[str]:
        """Size and certainty are two things."""
        if self.outcome == "error" and is_mean_gap(self.part) and self.error.value < _SMALL:
            yield (
                "A significant error need not be large: whether an error of this size matters depends on the use of "
                "the scores."
            )
        elif self.outcome == "error" and self.model.rows >= MANY_ROWS:
            yield "With this many rows even negligible errors are significant: judge this one by its size."


def worst_slices(model: ModelResult, *, worse_than_all: bool = False) -> Iterator[str]:
    """The worst slice of each column, and whether it is worse than all rows together.

    That is decided by its adjusted lower bound, which is said, and the intervals of the others. With
    ``worse_than_all``, slices of which that is not shown are left out. Of many small slices the largest shrunken gaps.
    """
    whole = model.error
    for sliced in model.sliced:
        if sliced.shrunken is not None:
            yield sliced.shrunken.sentence(sliced.name)
            continue
        worst, *others = sliced.slices
        error = worst.numbers.get(sliced.variable)
        if sliced.error is None or error is None or not others:
            continue
        if not error.has_interval or whole is None or not whole.has_interval:
            continue
        scale = scale_of(sliced.error)
        is_worse = worst.least > whole.high
        if worse_than_all and not (is_worse and model.is_headline(sliced.error)):
            continue
        overlaps = model.is_headline(sliced.error) and not is_worse
        alike = [piece.label for piece in others if _reaches(piece.numbers.get(sliced.variable), worst.least)]
        slices = ["any other slice"] if 1 < len(alike) == len(others) else [named(alike)] if alike else []
        same = [*(["all rows"] if overlaps else []), *slices]
        apart = f", and cannot be distinguished from {joined(same, 'or')}" if same else ""
        least = f"{scale.number(worst.least)}{scale.short_unit}"
        adjusted = f"at least {least} adjusted for {counted(model.models * sliced.judged, 'slice')}"
        size = f"{scale.number(error.value)}{scale.short_unit}"
        size = f"off by {size}" if is_mean_gap(sliced.error) else f"{sliced.label} {size}"
        ends = scale.interval(error.low, error.high, model.level)
        yield f"Worst by {sliced.name}: {worst.label}, {size} ({ends}); {adjusted}{apart}."


def _reaches(error: Value | None, least: float) -> bool:
    """Whether an interval reaches the lower bound of another error; False without interval."""
    return bool(error is not None and error.has_interval and not error.high < least)
