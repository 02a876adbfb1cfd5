"""Classes whose scores are far too high or too low, in a sentence for the first page."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from scipy import stats

from calibdask.render.text_table import clusters_text
from calibdask.report.model_result import ModelResult
from calibdask.results.format import counted, joined
from calibdask.results.reliability import BinnedReliability

# Classes named, and the ratio from which one is.
_MOST_NAMED, _LEAST_RATIO = 3, 1.25


@dataclass(frozen=True)
class _ClassRatio:
    """Observed over expected outcomes of a class, with its interval."""

    label: str
    ratio: float
    low: float
    high: float

    @property
    def distance(self) -> float:
        """The end nearer to 1, as its distance on the log scale; 0 if the interval includes 1."""
        if self.low <= 1 <= self.high:
            return 0.0
        return abs(math.log(self.low if self.low > 1 else max(self.high, 1e-300)))

    @property
    def text(self) -> str:
        """The ratio with its interval."""
        return f"O/E {self.ratio:.2f}, {self.low:.2f} to {self.high:.2f}"


def class_findings(model: ModelResult) -> Iterator[str]:
    """The classes with the largest ratios of observed and expected outcomes, if these are significant.

    Intervals of Clopper & Pearson for the observed rate, over the mean score, adjusted for the number of classes
    (Bonferroni). Nothing with weights or clusters of rows, for which they do not hold.
    """
    classes = model.classes
    if len(classes) < 2 or model.measured.weights or clusters_text(model.measured.result):
        return
    level = 1 - (1 - (model.level or 0.95)) / len(classes)
    ratios = [_ratio(label, bins, level) for label, bins in classes if bins.rows and bins.mean_score > 0]
    far = [one for one in ratios if one.distance and max(one.ratio, 1 / max(one.ratio, 1e-300)) >= _LEAST_RATIO]
    far.sort(key=lambda one: -one.distance)
    adjusted = f"95 % intervals, adjusted for {counted(len(classes), 'class', 'classes')}"
    if model.level is not None:
        adjusted = f"{100 * model.level:g}{adjusted.removeprefix('95')}"
    sides = [
        (side, [one for one in far[:_MOST_NAMED] if (one.ratio < 1) == (side == "high")]) for side in ("high", "low")
    ]
    for side, named in sides:
        if named:
            places = joined([f"{one.label} ({one.text})" for one in named])
            noun = "class" if len(named) == 1 else "classes"
            yield f"Scores of {noun} {places} are too {side}; {adjusted}."
    if (left := len(far) - _MOST_NAMED) > 0:
        noun = counted(left, "further class", "further classes")
        yield f"{noun} off by a factor of {_LEAST_RATIO:g} or more: see the table."


def _ratio(label: str, bins: BinnedReliability, level: float) -> _ClassRatio:
    rows = float(bins.rows)
    events, tail = rows * bins.frequency, (1 - level) / 2
    low = float(stats.beta.ppf(tail, events, rows - events + 1)) if events > 0 else 0.0
    high = float(stats.beta.ppf(1 - tail, events + 1, rows - events)) if events < rows else 1.0
    mean = bins.mean_score
    return _ClassRatio(label, bins.frequency / mean, low / mean, high / mean)
