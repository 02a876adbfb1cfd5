"""What `calibdask.threshold` promises, as variables and in sentences."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from calibdask.estimators.about import PartInfo
from calibdask.results.format import counted, joined, percent

# What the numbers are, by the name of the variable.
PROMISED: Mapping[str, PartInfo] = {
    "threshold": PartInfo("answers with a larger score may go out unseen", "choice"),
    "coverage": PartInfo("share of the rows above the threshold", "statistic", "higher"),
    "risk": PartInfo("share of errors above the threshold", "statistic", "lower"),
    "risk_high": PartInfo("upper confidence limit of the risk at the threshold", "statistic", "lower"),
    "answers": PartInfo("rows above the threshold", "count"),
    "errors": PartInfo("errors above the threshold", "count"),
    "pvalue": PartInfo("p-value for the null hypothesis that the risk exceeds the limit", "pvalue"),
    "planned_coverage": PartInfo("coverage with so many times the rows and the same rates of errors", "statistic"),
    "sentence": PartInfo("the promise in words", "choice"),
}

# What is above a threshold.
Limited = Literal["score", "confidence", "confidence of a score"]

_MORE = {2.0: "twice the", math.inf: "any number of"}


def sentence(
    numbers: Mapping[str, Any],
    limit: float,
    confidence: float,
    planned: Sequence[tuple[float, float]],
    least: int,
    what: Limited = "score",
) -> str:
    """What is promised for a slice; where there is no threshold, why.

    ``numbers``: threshold, coverage, answers, errors and rows. ``planned``: numbers of times the rows, and the coverage
    with so many. ``least``: rows that suffice without an error. ``what`` is above the threshold; of a score for one of
    two classes the confidence is that in the more probable one.

    Examples
    --------
    >>> sentence({"threshold": math.nan, "rows": 40, "coverage": 0.0}, 0.05, 0.95, [], 59)
    'No threshold qualifies: a risk of at most 5 % with confidence 95 % takes 59 rows without an error; there are 40.'
    """
    promise = f"a risk of at most {percent(limit)} with confidence {percent(confidence)}"
    more = [(times, coverage) for times, coverage in planned if coverage > numbers["coverage"]]
    if not math.isnan(numbers["threshold"]):
        answers = counted(int(numbers["answers"]), "row")
        errors = counted(int(numbers["errors"]), "was", "were")
        border = float(numbers["threshold"])
        either = f" (scores above {border:.6g} or below {1 - border:.6g})" if what == "confidence of a score" else ""
        words = (
            f"Answers with a {what.partition(' ')[0]} above {border:.6g}{either} may go out unseen, "
            f"{percent(numbers['coverage'])} of all: of {answers} {errors} wrong, which gives {promise}."
        )
        return f"{words} {_more(more)}" if more else words
    rows = int(numbers["rows"])
    if rows < least:
        return f"No threshold qualifies: {promise} takes {counted(least, 'row')} without an error; there are {rows:,}."
    words = f"No threshold qualifies for {promise}."
    if more:
        return f"{words} {_more(more)}"
    return f"{words} At these rates of errors none would with any number of rows."


def _more(planned: Sequence[tuple[float, float]]) -> str:
    """Coverages with more rows; those that bring nothing over fewer ones are left out."""
    kept: list[tuple[float, float]] = []
    for times, coverage in planned:
        if not kept or coverage > kept[-1][1]:
            kept.append((times, coverage))
    texts = [f"{percent(coverage)} with {_MORE.get(times, f'{times:g} times the')} rows" for times, coverage in kept]
    return f"At these rates of errors it would be {joined(texts)}."
