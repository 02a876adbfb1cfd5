"""What scores are worth in decisions: answers that may go out unseen, and what acting on the scores gains."""

import shlex
from dataclasses import replace

import numpy as np
import xarray as xr

from calibdask.analyses.evaluation import evaluate
from calibdask.analyses.threshold import threshold
from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.estimators.decisions.net_benefit import NetBenefit
from calibdask.estimators.decisions.risk_coverage import RiskCoverageCurve
from calibdask.explore.summaries.answer_page import Answer
from calibdask.explore.summaries.pool import Pool, Selection
from calibdask.explore.summaries.pseudo_rows import PseudoRows
from calibdask.markup import Html
from calibdask.plot.decision_charts import DECISION, RISK_COVERAGE, Line
from calibdask.report.chart_drawing import chart_picture
from calibdask.results.format import PLAIN, figure, percent

_LEVEL, _HEIGHT = 0.95, 190.0
CHOOSE = "This page is about one score at a time: choose the confidence or a class as Setting."
_UNKNOWN = "From which confidence answers may go out unseen is not known"
_READING = (
    "Net benefit: rows with the outcome that are acted on, less those without it, each of which counts as the odds of "
    "the score from which one acts; per row. Intervals: 95 %, for a score that was chosen beforehand."
)


def decisions(
    pool: Pool, name: str, selection: Selection, setting: str | int | None, risk: float | None, act: float
) -> Answer:
    """From which confidence answers may go out unseen; of binary scores and classes also what acting on them gains.

    Parameters
    ----------
    pool : Pool
    name : str
        What commands call the summary.
    selection : Selection
    setting : str, int or None
    risk : float or None
        The largest share of errors among answers that go out, in per cent.
    act : float
        The score from which one acts.
    """
    if setting == "classwise":
        return Answer((CHOOSE,))
    if risk is None or not 0 < risk < 100:
        raise ValueError("The risk allowed is a share between 0 and 100 %.")
    chosen = "confidence" if setting is None else setting
    parts = [_unseen(pool, selection, chosen, risk / 100)]
    # Without a threshold there is nothing to print again.
    notes = (_printed(pool, name, selection, chosen, risk / 100),) if len(parts[0].rows) > 1 else ()
    if setting != "confidence":
        parts.append(_acting(pool, selection, setting, act))
    return Answer(
        tuple(line for part in parts for line in part.lines),
        notes,
        tuple(shown for part in parts for shown in part.figures),
        ("", "value", "interval or limit"),
        tuple(row for part in parts for row in part.rows),
        tuple(of_part for part in parts for of_part in part.numbers),
        "".join(part.reading for part in parts),
    )


def _unseen(pool: Pool, selection: Selection, setting: str | int, risk: float) -> Answer:
    """Answers that may go out unseen."""
    try:
        pooled = pool.pooled(selection, setting)
        curve = evaluate(pooled, metrics={"risk": RiskCoverageCurve(setting=setting)}, ci=_LEVEL)
    except ValueError as error:
        return Answer((f"{_UNKNOWN}: {error}",))
    chart = RISK_COVERAGE.chart(curve, "risk", {})
    rows: tuple[tuple[str, str, str], ...]
    try:
        found = threshold(pooled, risk=risk, confidence=_LEVEL, setting=setting)
    except ValueError as error:
        line, coverage, rows = f"{_UNKNOWN}: {error}", 0.0, ()
    else:
        line, coverage, rows = str(found["sentence"].item()), float(found["coverage"]), _rows(found)
    # As far as answers may go out; over all of the curve where none may.
    allowed = np.where(chart.x <= (coverage or 1.0), risk, np.nan)
    ends = f", up to the coverage of {percent(coverage)}" if coverage else ""
    references = (Line("risk allowed", allowed), *(line for line in chart.references if line.name == "random order"))
    top = max(chart.reach_y[1], 1.3 * risk)
    drawn = replace(chart, references=references, reach_y=(0.0, min(top, 1.0)))
    words = (
        f"Risk and coverage: the share of errors among the most confident answers, with its pointwise 95 % interval. "
        f"Dashed: the risk allowed, {percent(risk)}{ends}. Dotted: an order that tells nothing."
    )
    last = {end: float(curve[f"risk_risk{end}"][-1]) for end in ("", "_low", "_high")}
    every = ("errors of all answers", percent(last[""]), f"{percent(last['_low'])} to {percent(last['_high'])}")
    picture = chart_picture(drawn, "Risk and coverage", _HEIGHT)
    return Answer((line,), (), ((picture, words),), (), (*rows, every), (curve,))


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


def _rows(found: xr.Dataset) -> tuple[tuple[str, str, str], ...]:
    if np.isnan(float(found["threshold"])):
        return ()
    answers, errors = (int(found[name]) for name in ("answers", "errors"))
    guarantee = f"at most {percent(float(found['risk_high']))}, with confidence {percent(_LEVEL)}"
    return (
        ("answers may go out above", f"{float(found['threshold']):.6g}", "–"),
        ("share of answers that go out", percent(float(found["coverage"])), f"{answers:,} rows"),
        ("errors among them", percent(errors / answers), guarantee),
    )


def _acting(pool: Pool, selection: Selection, setting: str | int | None, act: float) -> Answer:
    """What acting on scores of one outcome gains over acting on all rows, or on none."""
    pooled = pool.pooled(selection, setting)
    curve = evaluate(pooled, metrics={"benefit": NetBenefit(setting=setting)}, ci=_LEVEL)
    gains = _gains(PseudoRows.of(pooled, setting), act)
    better = min(gains, key=lambda name: float(gains[name].mean))
    gain = float(gains[better].mean)
    low, high = map(float, gains[better].ends(_LEVEL))
    where = f"over acting on {better}, the better way without scores"
    numbers = f"{figure(gain)} per row ({PLAIN.span(low, high)})"
    if low > 0:
        line = f"Acting on scores above {percent(act)} gains a net benefit of {numbers} {where}."
    elif high < 0:
        line = f"Acting on scores above {percent(act)} loses: {numbers} {where}."
    else:
        line = f"Whether acting on scores above {percent(act)} gains anything is open: {numbers} {where}."
    chart = DECISION.chart(curve, "benefit", {})
    words = (
        "Decision curve: net benefit by the score from which one acts, with its pointwise 95 % interval. Dashed: "
        "acting on all. Dotted: on none."
    )
    picture = chart_picture(chart, "Decision curve", _HEIGHT)
    rows = tuple(
        (f"gain over acting on {name}", figure(float(mean.mean)), PLAIN.span(*map(float, mean.ends(_LEVEL))))
        for name, mean in gains.items()
    )
    return Answer((line,), (), ((picture, words),), (), rows, (curve,), _READING)


def _gains(rows: PseudoRows, act: float) -> dict[str, BoundedMean]:
    """Gains in net benefit over acting on all rows, and on none: means over rows of what the scores change.

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
