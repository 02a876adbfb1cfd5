"""The value of scores in decisions: predictions that can be accepted, and the net benefit of acting on scores."""

import math
import shlex
from dataclasses import replace

import numpy as np
import xarray as xr

from calibdask.analyses.evaluation import evaluate
from calibdask.analyses.threshold import Threshold
from calibdask.data.data import Data
from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.estimators.decisions.net_benefit import NetBenefit
from calibdask.estimators.decisions.risk_coverage import RiskCoverageCurve
from calibdask.explore.summaries.answer_page import Answer
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.pseudo_rows import PseudoRows
from calibdask.markup import Html
from calibdask.plot.decision_charts import DECISION, RISK_COVERAGE, Line
from calibdask.render.drawing import chart_picture
from calibdask.results.document import Cell, Figure, Figures, Sentence, Table, number, text
from calibdask.results.format import PLAIN, counted, minus, percent

_LEVEL, _HEIGHT = 0.95, 190.0
# One acts on scores from here on unless the outcome is rarer than a quarter of it.
_USUAL_ACT = 0.2
# With fewer rows above a threshold, nothing is known of acting on them.
_FEWEST_ABOVE = 20
CHOOSE = "This page is about one score at a time: choose the confidence or a class as Setting."
_COLUMNS = (("", False), ("value", True), ("95 % interval", True))
_UNKNOWN = "It is unknown which predictions can be accepted"
_READING = (
    "Net benefit per row: true positives minus false positives, the latter weighted by the odds of the threshold. "
    "Pointwise 95 % intervals."
)


def decisions(
    pool: Pool, name: str, selection: Selection, setting: str | int | None, risk: float | None, act: float
) -> Answer:
    """The threshold of acceptance; of binary scores and classes also the net benefit of acting on them.

    Parameters
    ----------
    pool : Pool
    name : str
        What commands call the summary.
    selection : Selection
    setting : str, int or None
    risk : float or None
        The largest share of errors among accepted predictions, in per cent.
    act : float
        The score from which one acts; 0: 20 %, or of rare outcomes a round number near the observed rate.
    """
    if setting == "classwise":
        return Answer.of(Sentence(CHOOSE, lead=True))
    if pool.clustered:
        raise ValueError(
            f"{_UNKNOWN}: its guarantee comes from exact binomial tests, which are not valid for dependent rows of a "
            f"cluster ({pool.groups_name}). Summarize one random row of each cluster. Net benefit with clusters: "
            "calibdask evaluate --metric net-benefit."
        )
    if risk is None or not 0 < risk < 100:
        raise ValueError("The risk allowed is a share between 0 and 100 %.")
    chosen = "confidence" if setting is None else setting
    parts = [_accepting(pool, name, selection, chosen, risk / 100)]
    if setting != "confidence":
        parts.append(_acting(pool, selection, setting, act))
    elements = [element for part in parts for element in part.document.elements()]
    return Answer.of(*elements, numbers=tuple(numbers for part in parts for numbers in part.numbers))


def _accepting(pool: Pool, name: str, selection: Selection, setting: str | int, risk: float) -> Answer:
    """The threshold of acceptance, and the risk by coverage."""
    try:
        pooled = pool.pooled(selection, setting)
        curve = evaluate(pooled, metrics={"risk": RiskCoverageCurve(setting=setting)}, ci=_LEVEL)
    except ValueError as error:
        return Answer.of(Sentence(f"{_UNKNOWN}: {error}", lead=True))
    analysis = Threshold(risk, _LEVEL, setting)
    try:
        found = analysis.run(Data.of(pooled, by=()))
    except ValueError as error:
        return Answer.of(Sentence(f"{_UNKNOWN}: {error}", lead=True), _risk_figure(curve, risk, 0.0), numbers=(curve,))
    elements = [
        replace(element, lead=True) if isinstance(element, Sentence) else element
        for element in analysis.document(found).elements()
    ]
    coverage = float(found["coverage"])
    # Without a threshold there is nothing to print again.
    notes = [Sentence(_printed(pool, name, selection, setting, risk))] if coverage else []
    return Answer.of(*elements, *notes, _risk_figure(curve, risk, coverage), _all_errors(curve), numbers=(curve,))


def _risk_figure(curve: xr.Dataset, risk: float, coverage: float) -> Figures:
    """Risk by coverage, with the risk allowed up to the coverage of the threshold, or along the whole curve."""
    chart = RISK_COVERAGE.chart(curve, "risk", {})
    allowed = np.where(chart.x <= (coverage or 1.0), risk, np.nan)
    ends = f", up to the coverage of {percent(coverage)}" if coverage else ""
    references = (Line("risk allowed", allowed), *(line for line in chart.references if line.name == "random order"))
    top = max(chart.reach_y[1], 1.3 * risk)
    drawn = replace(chart, references=references, reach_y=(0.0, min(top, 1.0)))
    caption = (
        f"Risk and coverage: the share of errors among the most confident predictions, with its pointwise 95 % "
        f"interval. Dashed: the risk allowed, {percent(risk)}{ends}. Dotted: a random order."
    )
    return Figures([Figure(chart_picture(drawn, "Risk and coverage", _HEIGHT), caption)])


def _all_errors(curve: xr.Dataset) -> Table:
    """The error rate of all predictions with its interval."""
    last = {end: float(curve[f"risk_risk{end}"][-1]) for end in ("", "_low", "_high")}
    row = [
        text("errors of all predictions"),
        number(last[""], percent(last[""])),
        text(f"{percent(last['_low'])} to {percent(last['_high'])}"),
    ]
    return Table("", _COLUMNS, [row], name="all-errors")


def _printed(pool: Pool, name: str, selection: Selection, setting: str | int, risk: float) -> Html:
    """How to print the threshold again: a command for all rows, Python for a selection or one of several models."""
    store, chosen = pool.url or name, dict(selection.models)
    place: dict[str, int | list[int]] = {dim: list(at) for dim, at in selection.slices}
    place |= {dim: chosen.get(dim, 0) for dim in pool.models}
    if place:
        chosen_class = "" if setting == "confidence" else f", setting={setting!r}"
        code = f"cd.threshold(cd.open_summary({store!r}).isel({place!r}), risk={risk:g}{chosen_class})"
        return Html("The threshold again, in Python: <code>{}</code>").format(code)
    of_setting = [] if setting == "confidence" else ["--setting", str(setting)]
    command = shlex.join(["calibdask", "threshold", store, "--risk", f"{risk:g}", *of_setting])
    return Html("The threshold again: <code>{}</code>").format(command)


def _acting(pool: Pool, selection: Selection, setting: str | int | None, act: float) -> Answer:
    """Net benefit of acting on scores above a threshold, over acting on all rows or none."""
    pooled = pool.pooled(selection, setting)
    rows = PseudoRows.of(pooled, setting)
    rate = float(np.average(rows.outcomes, weights=rows.weights))
    act = act or usual_act(rate)
    curve = evaluate(pooled, metrics={"benefit": NetBenefit(setting=setting)}, ci=_LEVEL)
    gains = _gains(rows, act)
    better = min(gains, key=lambda name: float(gains[name].mean))
    gain = float(gains[better].mean)
    low, high = map(float, gains[better].ends(_LEVEL))
    where = f"over acting on {better}, the better way without scores"
    numbers = f"{PLAIN.estimate(gain, low, high)} per row ({PLAIN.span(low, high)})"
    if low > 0:
        line = f"Acting on scores above {percent(act)} gains a net benefit of {numbers} {where}."
    elif high < 0:
        line = f"Acting on scores above {percent(act)} loses: {numbers} {where}."
    else:
        line = f"It is undecided whether acting on scores above {percent(act)} has a benefit: {numbers} {where}."
    above = rows.weights[rows.scores > act].sum()
    if not rows.weighted and above < _FEWEST_ABOVE:
        few = f"Only {counted(round(above), 'row')} of {rows.weights.sum():,.0f}" if above else "No row"
        has = "has a score" if above <= 1 else "have scores"
        line = (
            f"{few} {has} above {percent(act)}, so the scores cannot show a benefit there; the observed rate is "
            f"{percent(rate)}: choose a threshold near it, such as {percent(usual_act(rate))}."
        )
    chart = DECISION.chart(curve, "benefit", {})
    words = (
        "Decision curve: net benefit by the score from which one acts, with its pointwise 95 % interval. Dashed: "
        "acting on all. Dotted: on none."
    )
    figures = Figures([Figure(chart_picture(chart, "Decision curve", _HEIGHT), words)])
    lines = [_gain_row(name, mean) for name, mean in gains.items()]
    table = Table("", _COLUMNS, lines, name="gains")
    return Answer.of(Sentence(minus(line), lead=True), figures, table, Sentence(_READING, quiet=True), numbers=(curve,))


def usual_act(rate: float) -> float:
    """The threshold to begin with: 20 %, or of rare outcomes 1, 2 or 5 times a power of ten near the observed rate.

    Examples
    --------
    >>> usual_act(0.3), usual_act(0.0052), usual_act(0.0)
    (0.2, 0.005, 0.2)
    """
    if rate >= _USUAL_ACT / 4 or rate <= 0:
        return _USUAL_ACT
    power = math.floor(math.log10(rate))
    nearest = min((1, 2, 5, 10), key=lambda factor: abs(math.log(rate / (factor * 10.0**power))))
    return float(f"{nearest}e{power}")


def _gain_row(name: str, mean: BoundedMean) -> list[Cell]:
    gain = float(mean.mean)
    low, high = map(float, mean.ends(_LEVEL))
    shown = number(gain, PLAIN.estimate(gain, low, high))
    return [text(f"gain over acting on {name}"), shown, text(PLAIN.span(low, high))]


def _gains(rows: PseudoRows, act: float) -> dict[str, BoundedMean]:
    """Gains in net benefit over acting on all rows and on none, as means over rows.

    Over all: a row below the threshold is spared, which is worth the odds without the outcome and -1 with it. Over
    none: a row above it is acted on, worth 1 with the outcome and -odds without.
    """
    odds = act / (1 - act)
    above, outcome = rows.scores > act, rows.outcomes == 1
    count = rows.weights.sum() ** 2 / rows.squares.sum()
    worth = {
        "all": (np.where(above, 0.0, np.where(outcome, -1.0, odds)), -1.0, odds),
        "none": (np.where(above, np.where(outcome, 1.0, -odds), 0.0), -odds, 1.0),
    }
    means = {}
    for name, (values, least, most) in worth.items():
        mean = np.average(values, weights=rows.weights)
        variance = np.average((values - mean) ** 2, weights=rows.weights)
        means[name] = BoundedMean(mean, variance, count, least, most)
    return means
