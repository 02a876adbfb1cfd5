"""The verdict on a model in a few sentences, none of which claims more than its interval allows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibdask.readout import Reading
from calibdask.report.facts import Facts, error_words
from calibdask.report.reliability import Curve
from calibdask.report.words import cases, counted, interval, joined, named, points, pvalue, spanned

__all__ = ["Stretch", "Verdict", "stretches", "verdict_on"]

# Where scores take few values, a smooth curve between them means nothing.
_FEW_SCORES = 20
# Stretches that hold less than this share of the rows are not worth a word.
_LEAST_SHARE = 0.01
_MOST_STRETCHES = 3
# Errors below this are small whatever their interval.
_SMALL = 0.01
# Cases next to certainty are no example for others.
_NEAREST = 0.001
# A wider band says nothing about cases of a score.
_WIDEST = 0.3
_MANY_ROWS, _FEWEST_ROWS = 100_000, 30


@dataclass(frozen=True)
class Verdict:
    """What is found, in a line and in sentences; ``outcome`` says of which kind that is."""

    outcome: Literal["error", "chance", "unclear", "unknown"]
    line: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Stretch:
    """Scores along which the band for the whole curve leaves the diagonal on one side."""

    start: float
    end: float
    over: bool
    share: float


@dataclass(frozen=True)
class _Words:
    """What scores, cases and outcomes are called in a setting."""

    scores: str
    case: str
    happened: str


def _words(kind: str) -> _Words:
    if kind == "confidence":
        return _Words("confidences", "answers given with confidence", "were right")
    if kind == "top-k":
        return _Words("scores", "cases whose largest scores sum to", "had their label among these")
    return _Words("scores", "cases scored", "came true")


def verdict_on(facts: Facts) -> Verdict:
    """The verdict on a model.

    Examples
    --------
    >>> import numpy as np
    >>> from calibdask.report import measure
    >>> from calibdask.report.facts import Facts
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> verdict = verdict_on(Facts("square", measure(rng.random(2000) < scores**2, scores)))
    >>> verdict.outcome
    'error'
    """
    headline = facts.headline
    if headline is None or np.isnan(headline.value):
        return Verdict("unknown", "No calibration error was measured", (_how_to_measure(facts),))
    if facts.rows < _FEWEST_ROWS:
        return Verdict("unclear", f"Too few rows to tell: {counted(facts.rows, 'row')}", (_size(facts),))
    outcome = _outcome(facts)
    found = [_size(facts), _chance(facts, outcome), *_direction(facts), *_cases(facts)]
    found += [*_slices(facts), *_matters(facts, outcome)]
    return Verdict(outcome, _line(facts, outcome), tuple(filter(None, found)))


def _how_to_measure(facts: Facts) -> str:
    if facts.headline is not None:
        return "The rows do not tell a calibration error: there are none, or all their weights are 0."
    return "The metrics of this result hold none; measure one such as ECE or DensityECE."


def _outcome(facts: Facts) -> Literal["error", "chance", "unclear", "unknown"]:
    """Whether chance explains the error, as far as the interval and the test tell."""
    headline, rejects = facts.headline, _rejects(facts)
    if headline is None or not headline.has_interval or np.isnan(headline.low):
        return "unknown" if rejects is None else "error" if rejects else "unclear"
    if facts.is_corrected:
        if headline.low > 0:
            return "error"
        return "unclear" if rejects else "chance"
    # Percentiles of an error never reach 0, however well a model is calibrated.
    return "unclear" if rejects is None else "error" if rejects else "unclear"


def _rejects(facts: Facts) -> bool | None:
    """Whether the first test rejects calibration; None if there is none."""
    if not facts.tests or np.isnan(facts.tests[0].pvalue):
        return None
    return facts.tests[0].pvalue < 1 - (facts.level or 0.95)


def _line(facts: Facts, outcome: str) -> str:
    """The verdict in a line."""
    headline = facts.headline
    assert headline is not None
    ends = f" ({spanned(headline.low, headline.high)})" if headline.has_interval else ""
    size = f"{points(headline.value)} percentage points{ends}"
    lines = {
        "error": f"{_bearing(facts)}: off by {size}",
        "chance": f"No calibration error shown beyond chance: {size} measured",
        "unclear": f"Not settled by these data: {size} measured",
        "unknown": f"Not known whether beyond chance: {size} measured",
    }
    return lines[outcome]


def _bearing(facts: Facts) -> str:
    """Which way the scores are off, as far as bands tell."""
    found = [each for _, curve in _drawn(facts) for each in stretches(curve)]
    over, under = (sum(each.share for each in found if each.over == side) for side in (True, False))
    if facts.kind == "confidence" and bool(over) != bool(under):
        return "Overconfident" if over else "Underconfident"
    if bool(over) != bool(under):
        return "Scores too high" if over else "Scores too low"
    if not found or len(facts.curves) != 1:
        return "Miscalibrated"
    sides = [each.over for each in sorted(found, key=lambda each: each.start)]
    if sides == sorted(sides):
        return "Scores too extreme"
    return "Scores too timid" if sides == sorted(sides, reverse=True) else "Scores too high here and too low there"


def _size(facts: Facts) -> str:
    headline = facts.headline
    assert headline is not None
    ends = f" ({interval(headline.low, headline.high, facts.level)})" if headline.has_interval else ""
    kind = {"confidence": "confidence and how often it is right", "classwise": "score and frequency of each class"}
    what = kind.get(facts.kind, "score and how often the outcome comes true")
    return (
        f"The calibration error ({error_words(facts.estimator(headline.name))}) is {points(headline.value)} percentage "
        f"points{ends}: over "
        f"{counted(facts.rows, 'row')}, {what} differ by that much on average."
    )


def _chance(facts: Facts, outcome: str) -> str:
    """What chance may explain, and what the test says."""
    headline = facts.headline
    assert headline is not None
    tested = _tested(facts)
    if outcome == "unknown":
        return "Without an interval or a test nothing can be said about what of it is chance."
    if not headline.has_interval or not facts.is_corrected:
        return f"{tested} The interval alone does not tell chance from error." if headline.has_interval else tested
    if outcome == "error":
        agrees = _rejects(facts)
        more = "" if agrees is None else f" {tested}"
        return f"A calibrated model with these scores would hardly show that much by chance.{more}"
    most = points(headline.high)
    says = (
        "Chance may explain an error of this size: the interval begins at 0. That does not show that the model is "
        f"calibrated; an error of {most} points fits the data as well."
    )
    return f"{says} {tested}".strip()


def _tested(facts: Facts) -> str:
    """What the first test says."""
    if (rejects := _rejects(facts)) is None:
        return ""
    test = facts.tests[0]
    name = "Spiegelhalter's test" if test.name.startswith("spiegelhalter") else f"The test {test.name}"
    if rejects:
        return (
            f"{name} speaks against calibration too ({pvalue(test.pvalue)})."
            if _beyond(facts)
            else (f"{name} does speak against calibration ({pvalue(test.pvalue)}).")
        )
    return f"{name}, which sees errors of some kinds only, does not speak against it ({pvalue(test.pvalue)})."


def _beyond(facts: Facts) -> bool:
    headline = facts.headline
    return bool(headline is not None and headline.has_interval and facts.is_corrected and headline.low > 0)


def _direction(facts: Facts) -> Iterator[str]:
    """On average, and along the scores."""
    words, gap = _words(facts.kind), facts.gap
    if gap is not None and gap.has_interval:
        least, most = sorted((abs(gap.low), abs(gap.high)))
        ends = interval(least, most, facts.level)
        if gap.low <= 0 <= gap.high:
            yield (
                f"On average over all rows the {words.scores} promise neither too much nor too little, as far as the "
                f"rows tell: frequency less score is {points(gap.value)} points "
                f"({interval(gap.low, gap.high, facts.level)})."
            )
        else:
            amount = "too much" if gap.value < 0 else "too little"
            yield f"On average the {words.scores} promise {points(abs(gap.value))} points {amount} ({ends})."
    for _, curve in _drawn(facts):
        yield _along(curve, words)


def _along(curve: Curve, words: _Words) -> str:
    """Where along the scores the band leaves the diagonal."""
    found = list(stretches(curve))
    if not found:
        return f"At no score does the band for the whole curve leave the line on which {words.scores} keep their word."
    told = sorted(sorted(found, key=lambda each: -each.share)[:_MOST_STRETCHES], key=lambda each: each.start)
    sides = [(side, [each for each in told if each.over == side]) for side in (True, False)]
    said = [
        f"too {'much' if side else 'little'} from {joined([_ends(each) for each in some])}"
        for side, some in sides
        if some
    ]
    left = len(found) - len(told)
    more = f" (and along {counted(left, 'shorter stretch', 'shorter stretches')})" if left else ""
    return f"By the band for the whole curve the {words.scores} promise {joined(said)}{more}."


def _ends(stretch: Stretch) -> str:
    return f"{stretch.start:.2f} to {stretch.end:.2f}"


def _drawn(facts: Facts) -> list[tuple[str, Curve]]:
    """The one curve whose band the verdict may read."""
    few = facts.spread("distinct_scores") <= _FEW_SCORES
    curves = list(facts.curves.items())
    return curves if len(curves) == 1 and curves[0][1].has_band and not few else []


def stretches(curve: Curve) -> Iterator[Stretch]:
    """Stretches of scores at which the band for the whole curve excludes the diagonal."""
    there = np.isfinite(curve.reliability) & (curve.density > 0)
    width = np.gradient(curve.score)
    with np.errstate(invalid="ignore"):
        sides = np.select([there & (curve.band_high < curve.score), there & (curve.band_low > curve.score)], [1, -1], 0)
    changes = np.flatnonzero(np.diff(sides)) + 1
    for part in np.split(np.arange(sides.size), changes):
        share = float((curve.density * width)[part].sum())
        if sides[part[0]] and share >= _LEAST_SHARE:
            yield Stretch(float(curve.score[part[0]]), float(curve.score[part[-1]]), bool(sides[part[0]] == 1), share)


def _cases(facts: Facts) -> Iterator[str]:
    """What the error means for cases of one score: where it weighs most, or where most scores are."""
    words = _words(facts.kind)
    for _, curve in _drawn(facts):
        weight = np.nan_to_num(np.abs(curve.reliability - curve.score)) * curve.density
        certain = (curve.band_high < curve.score) | (curve.band_low > curve.score)
        if not certain.any():
            weight, certain = curve.density, curve.band_high - curve.band_low <= _WIDEST
        # Near the ends smoothing may take the curve out of its band: then it is no estimate to speak of.
        certain &= (curve.band_low <= curve.reliability) & (curve.reliability <= curve.band_high)
        certain &= np.minimum(curve.score, 1 - curve.score) >= _NEAREST
        if not certain.any():
            continue
        at = int(np.argmax(np.where(certain, weight, -1.0)))
        score = _round_score(curve, at)
        values = [
            float(np.interp(score, curve.score, each)) for each in (curve.reliability, curve.band_low, curve.band_high)
        ]
        of, written, (about, low, high) = cases(score, *values)
        yield (
            f"Of {of} {words.case} {written}, about {about:.0f} {words.happened} "
            f"(the band goes from {np.floor(low):.0f} to {np.ceil(high):.0f})."
        )


def _round_score(curve: Curve, at: int) -> float:
    """A score in few digits next to this place, if it is on the same side of the diagonal there."""
    score = float(curve.score[at])
    rare = min(score, 1 - score)
    rounded = round(score, 2 if rare >= 0.05 else 3 if rare >= 0.005 else 4)
    low, high = (float(np.interp(rounded, curve.score, each)) for each in (curve.band_low, curve.band_high))
    was = (curve.band_high[at] < score, curve.band_low[at] > score)
    return rounded if (high < rounded, low > rounded) == was else score


def _slices(facts: Facts) -> Iterator[str]:
    """The worst slice of each kind, and whether it is worse than all rows together."""
    headline = facts.headline
    assert headline is not None
    for sliced in facts.sliced:
        (worst, *others), metric = sliced.slices, sliced.metric
        error = worst.numbers.get(metric)
        if error is None or not error.has_interval or not headline.has_interval or not others:
            continue
        ends = interval(error.low, error.high, facts.level)
        comparable = sliced.estimator == facts.estimator(headline.name)
        beyond = ", which does not lie above that of all rows" if comparable and error.low <= headline.high else ""
        alike = [each.label for each in others if _overlap(each.numbers.get(metric), error)]
        apart = f"; {named(alike)} {'is' if len(alike) == 1 else 'are'} not told apart from it" if alike else ""
        yield f"Worst by {sliced.name}: {worst.label}, off by {points(error.value)} points ({ends}{beyond}){apart}."


def _overlap(one: Reading | None, other: Reading) -> bool:
    """Whether intervals overlap; what has none tells nothing."""
    return bool(one is not None and one.has_interval and one.low <= other.high and other.low <= one.high)


def _matters(facts: Facts, outcome: str) -> Iterator[str]:
    """Size and certainty are two things."""
    headline = facts.headline
    assert headline is not None
    if outcome == "error" and headline.value < _SMALL:
        yield (
            "That an error is certain does not make it large: whether one of this size matters is for the use of the "
            "scores to decide."
        )
    elif outcome == "error" and facts.rows >= _MANY_ROWS:
        yield "With so many rows every model is found to be off by something; what counts is by how much."
