"""Tables of a report: metrics, models side by side, slices, classes, tests."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup

from calibdask.readout import Reading
from calibdask.report.blocks import Cell, Table, number, text
from calibdask.report.decision import Judgement, Limits, slices_judged, whole_judged
from calibdask.report.definitions import title_of
from calibdask.report.drawing import forest, forest_axis, forest_range
from calibdask.report.facts import Facts, Sliced, is_error
from calibdask.report.measuring import GAP
from calibdask.report.slices import TOO_FEW
from calibdask.report.words import counted, figure, percent, pvalue

__all__ = [
    "class_table",
    "decision_table",
    "drawn_cell",
    "metric_table",
    "model_table",
    "rows_table",
    "slice_table",
    "test_table",
    "value_cell",
]

_MOST_SLICES, _MOST_CLASSES, _MOST_COLUMNS = 40, 20, 6
# Of several models these are compared first, where they were measured.
_COMPARED = ("ece", "density_ece", "smooth_ece", "ece_classwise", "brier_score", "log_loss")


def value_cell(reading: Reading | None) -> Cell:
    """A number with its interval beneath."""
    if reading is None:
        return text("–")
    return number(reading.value, figure(reading.value), _ends(reading))


def _ends(reading: Reading) -> str:
    return f"{figure(reading.low)} to {figure(reading.high)}" if reading.has_interval else ""


def _level(facts: Facts) -> str:
    return "interval" if facts.level is None else f"{percent(facts.level)} interval"


def drawn_cell(reading: Reading | None, reach: tuple[float, float], picture: Markup | None = None) -> Cell:
    """The interval as a picture, or that picture."""
    if picture is not None:
        return Cell(picture=picture)
    if reading is None or not isinstance(reading.value, float):
        return Cell()
    return Cell(picture=forest(reading.value, reading.low, reading.high, reach))


def _reach(found: Sequence[Reading | None]) -> tuple[float, float]:
    return forest_range(
        [float(end) for each in found if each for end in (each.value, each.low, each.high) if end is not None]
    )


def rows_table(models: Sequence[Facts]) -> Table:
    """What was measured, by model."""
    shown: dict[str, Callable[[Facts], Cell]] = {
        "data": lambda facts: text(facts.measured.source or "–"),
        "rows": lambda facts: number(facts.rows, f"{facts.rows:,}"),
        "classes": lambda facts: text(facts.measured.classes or "–"),
        "scores looked at": lambda facts: text(_setting(facts)),
        "weights": lambda facts: text(facts.measured.weights or "none", _effective(facts)),
        "mean score": lambda facts: number(facts.means[0], figure(facts.means[0])),
        "frequency": lambda facts: number(facts.means[1], figure(facts.means[1])),
    }
    numeric = ("rows", "mean score", "frequency")
    return Table(
        "Data",
        [("model", False), *((name, name in numeric) for name in shown)],
        [[text(facts.name), *(show(facts) for show in shown.values())] for facts in models],
        "Frequency: how often the outcome came true; of confidences, how often the answer was right (the accuracy).",
    )


def _effective(facts: Facts) -> str:
    effective = facts.spread("effective_rows")
    return f"worth {effective:,.0f} equal rows" if facts.measured.weights and np.isfinite(effective) else ""


def _setting(facts: Facts) -> str:
    setting = facts.measured.setting
    if setting is None:
        return "–"
    if setting.kind == "class":
        return "P(y = 1)" if facts.measured.classes == 2 and setting.index == 1 else f"P(class {setting.index})"
    words = {
        "confidence": "confidence: the largest score",
        "classwise": "the score of each class",
        "top-k": f"sum of the {setting.index} largest scores",
    }
    return words.get(setting.kind, str(setting))


def metric_table(facts: Facts) -> Table:
    """The metrics of a model with intervals and what they say."""
    rows = []
    # Calibration errors come first.
    for each in sorted(facts.readings, key=lambda each: not is_error(facts.estimator(each.name))):
        ends = _ends(each) or "–"
        shown = number(each.value, figure(each.value)) if isinstance(each.value, int | float) else text(each.value)
        rows.append(
            [text(each.name, title_of(facts.estimator(each.name))), shown, Cell(ends, numeric=True), text(each.meaning)]
        )
    columns = [("metric", False), ("value", True), (_level(facts), True), ("what it says", False)]
    return Table(f"Metrics of {facts.name}", columns, rows, _without(facts))


def _without(facts: Facts) -> str:
    """Why some metrics have no interval."""
    if not facts.measured.bare:
        return ""
    return (
        f"No intervals of {', '.join(facts.measured.bare)}: these need replicates of the rows, left out where these "
        "would take long."
    )


def model_table(models: Sequence[Facts]) -> Table:
    """Models side by side."""
    numbers = [{each.name: each for each in facts.readings} for facts in models]
    shared = [name for name in numbers[0] if all(name in some for some in numbers)]
    first = [name for name in _COMPARED if name in shared]
    names = (first or shared)[:_MOST_COLUMNS]
    main = names[0] if names else ""
    found = [some.get(main) for some in numbers]
    reach = _reach(found)
    rows = [
        [text(facts.name), number(facts.rows, f"{facts.rows:,}"), drawn_cell(one, reach)]
        + [value_cell(some.get(name)) for name in names]
        for facts, some, one in zip(models, numbers, found, strict=True)
    ]
    rows.append([Cell(), Cell(), Cell(picture=forest_axis(reach)), *(Cell() for _ in names)])
    columns = [("model", False), ("rows", True), (main, False), *((name, True) for name in names)]
    return Table("Models side by side", columns, rows, _best(models, main, found) if main else "")


def _best(models: Sequence[Facts], main: str, found: Sequence[Reading | None]) -> str:
    """Which model has the lowest error, and from which others its interval does not tell it."""
    known = [(one, facts.name) for one, facts in zip(found, models, strict=True) if one and np.isfinite(one.value)]
    if not known:
        return ""
    best, name = min(known, key=lambda pair: pair[0].value)
    said = f"Lowest {main}: {name}, {figure(best.value)}."
    if len({facts.rows for facts in models}) > 1:
        said = f"These models were measured on different numbers of rows. {said}"
    if not best.has_interval:
        return f"{said} Without intervals that may be chance."
    alike = [other for one, other in known if other != name and one.low <= best.high]
    if not alike:
        return f"{said} Its interval lies below those of all others."
    return (
        f"{said} Its interval overlaps {'that' if len(alike) == 1 else 'those'} of {', '.join(alike)}: these intervals "
        "do not tell them apart. Models of the same rows are compared more sharply by calibdask.compare, which "
        "resamples the rows of both together."
    )


def slice_table(facts: Facts, sliced: Sliced) -> Table:
    """The slices of one column, the worst first by an error, which stands first."""
    name, error, slices = sliced.name, sliced.metric, sliced.slices
    shown = slices[:_MOST_SLICES]
    known = [metric for metric in slices[0].numbers if not metric.startswith("report_")] if slices else []
    metrics = sorted(known, key=lambda metric: metric != error)[:3]
    main = metrics[0] if metrics else ""
    reach = _reach([each.numbers.get(main) for each in shown])
    gaps = any(GAP in each.numbers for each in shown)
    rows = [
        [
            text(each.label),
            number(each.rows, "–" if np.isnan(each.rows) else f"{each.rows:,.0f}"),
            drawn_cell(each.numbers.get(main), reach),
        ]
        + [value_cell(each.numbers.get(metric)) for metric in metrics]
        + ([value_cell(each.numbers.get(GAP))] if gaps else [])
        for each in shown
    ]
    rows.append(
        [Cell(), Cell(), Cell(picture=forest_axis(reach)), *(Cell() for _ in metrics), *([Cell()] if gaps else [])]
    )
    columns = [(name, False), ("rows", True), (main, False), *((metric, True) for metric in metrics)]
    hidden = len(slices) - len(shown)
    notes = ["In the order of the lower ends of the intervals: how bad they are for certain."] if facts.level else []
    if any(each.rows < TOO_FEW for each in slices):
        notes.append(f"Slices of fewer than {TOO_FEW} rows come last, without intervals: they tell next to nothing.")
    if hidden:
        notes.append(f"{counted(hidden, 'slice')} with smaller errors not shown.")
    return Table(
        f"{facts.name} by {name}, the worst first",
        [*columns, *([("frequency less score", True)] if gaps else [])],
        rows,
        " ".join(notes),
    )


def decision_table(facts: Facts, limits: Limits) -> Table:
    """What is judged of a model by limits, and how."""
    whole = whole_judged(facts, limits)
    rows = [] if whole is None else [_judged(whole, whole.what)]
    notes = []
    for name, found in slices_judged(facts, limits):
        rows += [_judged(each, f"{name}: {each.what}") for each in found[:_MOST_SLICES]]
        for outcome, hidden in Counter(each.outcome for each in found[_MOST_SLICES:]).items():
            notes.append(f"{counted(hidden, 'further slice')} by {name} not shown: {outcome}.")
    columns = [("what", False), ("rows", True), ("metric", False), ("value", True), (_level(facts), True)]
    return Table(f"Decision on {facts.name}", [*columns, ("limit", True), ("decision", False)], rows, " ".join(notes))


def _judged(each: Judgement, what: str) -> list[Cell]:
    error = each.error
    return [
        text(what),
        number(each.rows, "–" if np.isnan(each.rows) else f"{each.rows:,.0f}"),
        text(each.metric),
        text("–") if error is None else number(error.value, figure(error.value)),
        Cell((_ends(error) if error else "") or "–", numeric=True),
        number(each.limit, f"{each.limit:g}"),
        text(each.outcome),
    ]


def class_table(facts: Facts) -> Table | None:
    """The classes of a model, those with the largest errors first; None where they are not known."""
    classes = sorted(facts.classes, key=lambda each: -np.nan_to_num(each[1].error, nan=-1.0))
    if not classes:
        return None
    rows = []
    for label, bins in classes[:_MOST_CLASSES]:
        score, outcome = bins.means
        values = (outcome, score, outcome - score, bins.error)
        rows.append([text(label), *(number(value, figure(value)) for value in values)])
    hidden = len(classes) - len(rows)
    return Table(
        f"Classes of {facts.name}, the largest errors first",
        [("class", False), ("frequency", True), ("mean score", True), ("frequency less score", True), ("ECE", True)],
        rows,
        f"{counted(hidden, 'class', 'classes')} with smaller errors not shown." if hidden else "",
    )


def test_table(facts: Facts) -> Table:
    """Tests of a model with what they assume."""
    rows = [
        [
            text(each.name, title_of(facts.estimator(f"{each.name}_pvalue"))),
            number(each.statistic, figure(each.statistic), each.meaning),
            number(each.pvalue, pvalue(each.pvalue)),
            text(_said(each.pvalue)),
            text(each.assumes),
        ]
        for each in facts.tests
    ]
    columns = [("test", False), ("statistic", True), ("p-value", True), ("what it says", False), ("assumes", False)]
    return Table(f"Tests of {facts.name}", columns, rows)


def _said(pvalue: float) -> str:
    if np.isnan(pvalue):
        return "nothing: the rows do not tell it"
    if pvalue < 0.01:
        return "speaks strongly against calibration"
    return "speaks against calibration" if pvalue < 0.05 else "does not speak against calibration, nor for it"
