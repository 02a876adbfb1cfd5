"""Direction of miscalibration, from the band of the reliability curve."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calibdask.report.human_names import gap_name
from calibdask.report.model_result import ModelResult
from calibdask.results.cautions import FEWEST_SCORES
from calibdask.results.format import POINTS, cases, counted, joined
from calibdask.results.reliability import SmoothReliability

# Stretches that hold less than this share of the rows are not mentioned.
_LEAST_SHARE = 0.01
_MOST_STRETCHES = 3
# Digits of scores, more of them for stretches that are short.
_DIGITS = (2, 3, 4)
# Cases next to certainty are no example for others.
_NEAREST = 0.001
# A wider band says nothing about cases of a score.
_WIDEST = 0.3


@dataclass(frozen=True)
class Stretch:
    """Scores along which the band for the whole curve leaves the diagonal on one side."""

    start: float
    end: float
    over: bool
    share: float

    @property
    def ends(self) -> str:
        """Both ends in words, near 0 and 1 in as many digits as an example of cases."""
        rarest = min(self.start, 1 - self.end)
        for digits in _DIGITS[0 if rarest >= 0.05 else 1 if rarest >= 0.005 else 2 :]:
            start, end = (f"{score:.{digits}f}" for score in (self.start, self.end))
            if start != end:
                return f"{start} to {end}"
        return f"about {self.start:.{_DIGITS[0]}f}"


@dataclass(frozen=True)
class _Nouns:
    """Nouns for scores, cases and outcomes in a setting."""

    scores: str
    case: str
    happened: str


_NOUNS = {
    "confidence": _Nouns("confidences", "answers given with confidence", "were right"),
    "top-k": _Nouns("scores", "cases whose largest scores sum to", "had their label among these"),
}
_USUAL_NOUNS = _Nouns("scores", "cases scored", "had the outcome")


def direction(model: ModelResult) -> str:
    """Direction of miscalibration in a few words."""
    departures = [stretch for curve in _readable(model) for stretch in stretches(curve)]
    over, under = (any(stretch.over == side for stretch in departures) for side in (True, False))
    if over != under:
        if _is_open(model, over=over):
            return f"Scores too {'high' if over else 'low'} in places"
        if model.kind == "confidence":
            return "Overconfident" if over else "Underconfident"
        return "Scores too high" if over else "Scores too low"
    if not departures:
        return "Miscalibrated"
    sides = [stretch.over for stretch in sorted(departures, key=lambda stretch: stretch.start)]
    if sides == sorted(sides):
        return "Scores too extreme"
    return "Scores too timid" if sides == sorted(sides, reverse=True) else "Scores too high here and too low there"


def leaves_diagonal(model: ModelResult) -> bool:
    """Whether the band of the curve excludes the diagonal along some scores."""
    return any(any(stretches(curve)) for curve in _readable(model))


def _is_open(model: ModelResult, *, over: bool) -> bool:
    """Whether the mean gap disagrees with the band: its interval contains 0, or has the other sign."""
    gap = model.gap
    if gap is None or not gap.has_interval:
        return False
    return bool(gap.high >= 0 if over else gap.low <= 0)


def direction_sentences(model: ModelResult) -> Iterator[str]:
    """On average, along the scores, and for cases of one score."""
    nouns = _NOUNS.get(model.kind, _USUAL_NOUNS)
    yield from _on_average(model, nouns)
    for curve in _readable(model):
        yield _along(curve, nouns)
    for curve in _readable(model):
        yield from _example(curve, nouns)


def _on_average(model: ModelResult, nouns: _Nouns) -> Iterator[str]:
    gap = model.gap
    if gap is None or not gap.has_interval:
        return
    if gap.low <= 0 <= gap.high:
        size, ends = POINTS.estimate(gap.value, gap.low, gap.high), POINTS.interval(gap.low, gap.high, model.level)
        yield (
            f"Averaged over all rows, there is no evidence that the {nouns.scores} are too high or too low: "
            f"{gap_name(model.kind)} is {size} points ({ends})."
        )
    else:
        least, most = sorted((abs(gap.low), abs(gap.high)))
        side = "too high" if gap.value < 0 else "too low"
        ends = POINTS.interval(least, most, model.level)
        size = POINTS.estimate(abs(gap.value), least, most)
        yield f"On average the {nouns.scores} are {size} points {side} ({ends})."


def _along(curve: SmoothReliability, nouns: _Nouns) -> str:
    """Where along the scores the band leaves the diagonal."""
    departures = list(stretches(curve))
    if not departures:
        return "At no score does the simultaneous band of the curve (not drawn) exclude the diagonal."
    shown = sorted(departures, key=lambda stretch: -stretch.share)[:_MOST_STRETCHES]
    shown.sort(key=lambda stretch: stretch.start)
    sides = {
        "too high": [stretch.ends for stretch in shown if stretch.over],
        "too low": [stretch.ends for stretch in shown if not stretch.over],
    }
    parts = joined([f"{side} from {joined(ends)}" for side, ends in sides.items() if ends])
    left = len(departures) - len(shown)
    more = f" (and along {counted(left, 'shorter stretch', 'shorter stretches')})" if left else ""
    return f"By the simultaneous band of the curve (not drawn) the {nouns.scores} are {parts}{more}."


def _readable(model: ModelResult) -> list[SmoothReliability]:
    """The one curve whose band may be read; where scores take few values, a smooth curve between them means nothing."""
    curves = list(model.curves.values())
    few = model.spread("distinct_scores") <= FEWEST_SCORES
    return curves if len(curves) == 1 and curves[0].has_band and not few else []


def stretches(curve: SmoothReliability) -> Iterator[Stretch]:
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


def _example(curve: SmoothReliability, nouns: _Nouns) -> Iterator[str]:
    """Example of the error at one score: where it has most weight, or where most scores are."""
    weight = np.nan_to_num(np.abs(curve.gap)) * curve.density
    certain = (curve.band_high < curve.score) | (curve.band_low > curve.score)
    if not certain.any():
        weight, certain = curve.density, curve.band_high - curve.band_low <= _WIDEST
    # Near the ends smoothing may take the curve out of its band: then it is no estimate to speak of.
    certain &= (curve.band_low <= curve.reliability) & (curve.reliability <= curve.band_high)
    certain &= np.minimum(curve.score, 1 - curve.score) >= _NEAREST
    if not certain.any():
        return
    score = _round_score(curve, int(np.argmax(np.where(certain, weight, -1.0))))
    lines = (curve.reliability, curve.band_low, curve.band_high)
    number, written, shown = cases(score, *(float(np.interp(score, curve.score, line)) for line in lines))
    of_cases = int(number.replace(",", ""))
    for times in (1, 10, 100):
        about, low, high = (times * one for one in shown)
        expected, ends = float(written) * of_cases * times, (math.floor(low), math.ceil(high))
        # A band that excludes the score excludes it in whole cases too.
        if low <= expected <= high or not ends[0] <= expected <= ends[1]:
            break
    yield (
        f"Of {of_cases * times:,} {nouns.case} {written}, about {round(about):,} {nouns.happened} "
        f"(the band goes from {ends[0]:,} to {ends[1]:,})."
    )


def _round_score(curve: SmoothReliability, at: int) -> float:
    """A rounded score near this point, if it is on one side of the diagonal with it."""
    score = float(curve.score[at])
    rare = min(score, 1 - score)
    rounded = round(score, 2 if rare >= 0.05 else 3 if rare >= 0.005 else 4)
    low, high = (float(np.interp(rounded, curve.score, band)) for band in (curve.band_low, curve.band_high))
    before = (curve.band_high[at] < score, curve.band_low[at] > score)
    return rounded if (high < rounded, low > rounded) == before else score
