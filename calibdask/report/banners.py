"""Banners: decision on a model, and its main findings."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scipy import stats

from calibdask.analyses.auditing.audit_document import conclusion_of
from calibdask.analyses.gating.gate import Gate, sentence
from calibdask.analyses.gating.judging import Judgement
from calibdask.render.text_table import clusters_text
from calibdask.report.cautions import cautions
from calibdask.report.human_names import NAMES
from calibdask.report.limit_bar import large_bar
from calibdask.report.model_result import ModelResult
from calibdask.report.verdict import verdict_on, worst_slices
from calibdask.results.cautions import FEW_ROWS, FEWEST_ROWS
from calibdask.results.decisions import ICONS, WORDS, Outcome
from calibdask.results.document import Banner
from calibdask.results.format import counted, joined, percent, points, points_of
from calibdask.results.reliability import BinnedReliability

# The ratio from which a class is named.
_LEAST_RATIO = 1.25


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


NEUTRAL = "neutral"
# The section on groups, which banners lead to.
AUDITED, AUDITED_TITLE = "groups", "Miscalibrated subgroups"
_MOST_NAMED = 3

# Mean scores and observed rates below this are rare outcomes.
_RARE = 0.05


def banner(model: ModelResult, *, several: bool) -> Banner:
    """The banner of a model: by its gate, which alone decides; without limits nothing is decided."""
    gate = model.measured.gate
    name = model.name if several else ""
    link = (AUDITED, AUDITED_TITLE) if model.measured.audited is not None else None
    if gate is None or not gate.judgements:
        line, *sentences = _findings(model)
        return Banner(name, NEUTRAL, "", _capital(line), [*sentences, *_warned(model)], link=link)
    gate = replace(gate, judgements=tuple(map(by_name, gate.judgements)))
    outcome = gate.outcome
    deciding = gate.of(outcome)
    of_slices = outcome != "met" and any(one.where for one in deciding)
    line = "; ".join(filter(None, (_decided(outcome, deciding, gate), _tendency(model, of_all_rows=of_slices))))
    first = deciding[0]
    text = sentence(first)
    slices = len({one.place for one in gate.judgements if one.where.keys() == first.where.keys()})
    adjusted = f", adjusted for {slices} slices" if slices > 1 else ""
    caption = f"{first.limit}, {first.place}: {percent(gate.confidence)} interval{adjusted}; shaded: within the limit"
    sentences = [*_audit_sentences(model), *_reasons(outcome, deciding, gate), *class_findings(model), *_warned(model)]
    return Banner(name, WORDS[outcome], ICONS[outcome], line, sentences, large_bar(first, text), caption, link)


def by_name(judgement: Judgement) -> Judgement:
    """The judgement with the limit called as people call its number, where it has no choices."""
    return replace(judgement, limit=NAMES.get(judgement.limit, judgement.limit))


def _decided(outcome: Outcome, deciding: Sequence[Judgement], gate: Gate) -> str:
    """The decision, with the limits and places; if only slices are undecided, first the decision on all rows."""
    if outcome == "met":
        return "Within the limit" if len(deciding) == 1 else f"Within all {len(deciding)} limits"
    several = len({one.limit for one in gate.judgements}) > 1
    places: dict[str, list[str]] = {}
    for one in deciding:
        places.setdefault(one.limit if several else "", []).append(one.place)
    shown = "; ".join(f"{f'{limit} of ' * several}{_first(where)}" for limit, where in places.items())
    if outcome == "broken":
        return f"Outside the limit: {shown}"
    whole = [one for one in gate.judgements if not one.where]
    if whole and not any(one in deciding for one in whole):
        return f"All rows within the limit{'s' if len(whole) > 1 else ''}; not decided: {shown}"
    return f"Not decided: {shown}"


def _first(places: Sequence[str]) -> str:
    """The first of these places, and how many more there are."""
    left = len(places) - _MOST_NAMED
    return joined([*places[:_MOST_NAMED], f"{left} more"] if left > 0 else places)


def _reasons(outcome: Outcome, deciding: Sequence[Judgement], gate: Gate) -> Iterator[str]:
    """Reasons of the decision: limits that are met, broken or undecided."""
    whole = [one for one in deciding if not one.where]
    shown = (whole or deciding)[:_MOST_NAMED]
    yield from (f"{_capital(sentence(one))}." for one in shown)
    if (left := len(deciding) - len(shown)) > 0:
        yield f"{counted(left, 'further limit')} {'is' if left == 1 else 'are'} {WORDS[outcome]}: see the table."
    if outcome == "broken" and (left := len(gate.of("cannot be decided"))):
        yield f"{counted(left, 'limit')} undecided with these rows: see the table."


def _findings(model: ModelResult) -> Iterator[str]:
    """Findings for a model without limits: subgroups, average bias, and calibration error."""
    verdict = verdict_on(model)
    tendency = _tendency(model)
    found = model.measured.audited is not None and bool(model.measured.audited.described.any())
    if found:
        yield from _audit_sentences(model)
        yield from (f"{_capital(words)}." for words in (tendency, verdict.line) if words)
    else:
        yield from filter(None, (tendency, f"{verdict.line}." if tendency else verdict.line))
    if not tendency:
        yield from verdict.sentences[:1]
    yield from class_findings(model)
    yield from worst_slices(model, worse_than_all=True)
    if not found:
        yield from _audit_sentences(model)


def _audit_sentences(model: ModelResult) -> Iterator[str]:
    """Conclusion of the audit of a model, if any."""
    if model.measured.audited is not None:
        yield conclusion_of(model.measured.audited)


def _tendency(model: ModelResult, *, of_all_rows: bool = False) -> str:
    """Average bias of the scores, if known."""
    gap = model.gap
    if gap is None or not gap.has_interval or model.rows < FEWEST_ROWS:
        return ""
    scores = "confidences" if model.kind == "confidence" else "scores"
    where = " over all rows" if of_all_rows or model.measured.audited is not None else ""
    if gap.low <= 0 <= gap.high:
        few = f" with only {counted(model.rows, 'row')}" if model.rows < FEW_ROWS else ""
        _, low, high = points_of(gap.value, gap.low, gap.high)
        ends = f"{low.removeprefix('−')} points too high and {high} too low"
        return f"no significant bias of the mean score{where}{few} ({scores} between {ends})"
    least, most = sorted((abs(gap.low), abs(gap.high)))
    side = "too high" if gap.value < 0 else "too low"
    value, least_text, most_text = points_of(abs(gap.value), least, most)
    size = f"{value} points {side} on average{where}"
    relative = _relative(model, abs(gap.value), least, most)
    return f"{scores} {size} ({least_text} to {most_text}){relative}{_means(model)}"


def is_rare(model: ModelResult) -> bool:
    """Whether the outcome is so rare that differences in points say little."""
    score, outcome = model.means
    return min(score, outcome) > 0 and max(score, outcome) < _RARE


def _relative(model: ModelResult, value: float, least: float, most: float) -> str:
    """A bias relative to the mean prediction, if the outcome is rare."""
    score, _ = model.means
    if not is_rare(model):
        return ""
    size, low, high = (f"{100 * one / score:.3g}" for one in (value, least, most))
    return f", {size} % of the mean prediction ({low} to {high})"


def _means(model: ModelResult) -> str:
    """Mean score and frequency, as points of a rare outcome say little without them."""
    score, outcome = model.means
    if math.isnan(score):
        return ""
    return f": {points(score)} % predicted, {points(outcome)} % {'right' if model.kind == 'confidence' else 'observed'}"


def _warned(model: ModelResult) -> Iterator[str]:
    """That there are warnings, which stand further below."""
    if warnings := cautions(model):
        yield f"{counted(len(warnings), 'warning')}: see Warnings."


def _capital(words: str) -> str:
    """With a capital letter; names are left as they are."""
    return (
        words[:1].upper() + words[1:]
        if words.startswith(("all rows", "no significant bias ", "scores ", "confidences "))
        else words
    )
