"""Tables of a report: metrics, models side by side, slices, classes, tests."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from calibdask.analyses.gating.gate import interval_text
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.markup import Html
from calibdask.plot.naming import axes_of
from calibdask.render.drawing import forest, forest_axis, forest_range
from calibdask.report.headline import is_mean_gap
from calibdask.report.human_names import gap_name, human
from calibdask.report.measuring import GAP
from calibdask.report.model_result import CalibrationTest, ModelResult, SlicesBy
from calibdask.results.cautions import TOO_FEW_IN_A_SLICE
from calibdask.results.document import Cell, Table, number, text
from calibdask.results.format import PLAIN, counted, figure, percent, pvalue_text
from calibdask.results.values import PartResult, Value
from calibdask.statistics.settings import Setting

_MOST_SLICES, _MOST_CLASSES, _MOST_COLUMNS, _MOST_SLICE_COLUMNS = 40, 20, 5, 3
# Numbers of one model, which stand beneath each other.
_MOST_LINES = 6


def value_cell(value: Value | None) -> Cell:
    """A number with its interval below."""
    return text("–") if value is None else number(value.value, _estimate(value), _ends(value))


def _estimate(value: Value) -> str:
    """The number in the digits of its interval."""
    is_real = isinstance(value.value, float)
    return PLAIN.estimate(value.value, value.low, value.high) if is_real else figure(value.value)


def _ends(value: Value) -> str:
    return PLAIN.span(value.low, value.high) if value.has_interval else ""


def _interval(model: ModelResult) -> str:
    return "interval" if model.level is None else f"{percent(model.level)} interval"


def _rows_cell(rows: float) -> Cell:
    return number(rows, "–" if np.isnan(rows) else figure(int(rows)))


def drawn_cell(value: Value | None, reach: tuple[float, float], picture: Html | None = None) -> Cell:
    """The interval as a picture, or that picture."""
    if picture is not None:
        return Cell(picture=picture)
    if value is None or not isinstance(value.value, float):
        return Cell()
    return Cell(picture=forest(value.value, value.low, value.high, reach))


def _reach(values: Iterable[Value | None]) -> tuple[float, float]:
    ends = [end for value in values if value for end in (value.value, value.low, value.high)]
    return forest_range([float(end) for end in ends if end is not None])


def rows_table(models: Sequence[ModelResult]) -> Table:
    """Table of the measured data, by model."""
    shown: dict[str, Callable[[ModelResult], Cell]] = {
        "data": lambda model: text(model.measured.source or "–"),
        "rows": lambda model: _rows_cell(model.rows),
        "classes": lambda model: text(model.measured.classes or "–"),
        "scores measured": lambda model: text(_setting(model)),
        "weights": lambda model: text(model.measured.weights or "none", _effective(model)),
        "mean score": lambda model: number(model.means[0], figure(model.means[0])),
        "frequency": lambda model: number(model.means[1], figure(model.means[1])),
    }
    numeric = ("rows", "mean score", "frequency")
    return Table(
        "Data",
        [("model", False), *((name, name in numeric) for name in shown)],
        [[text(model.name), *(show(model) for show in shown.values())] for model in models],
        "Observed rate: the share of rows with the outcome; for confidences, the accuracy.",
    )


def _effective(model: ModelResult) -> str:
    effective = model.spread("effective_rows")
    if not model.measured.weights or not np.isfinite(effective):
        return ""
    return f"worth {counted(round(effective), 'equal row')}"


def _setting(model: ModelResult) -> str:
    setting = model.measured.setting
    if setting is None:
        return "–"
    if setting.kind == "class":
        return "P(y = 1)" if model.measured.classes == 2 and setting.index == 1 else f"P(class {setting.index})"
    words = {
        "confidence": "confidence: the largest score",
        "classwise": "the score of each class",
        "top-k": f"sum of the {setting.index} largest scores",
    }
    return words.get(setting.kind, str(setting))


def metric_table(model: ModelResult) -> Table:
    """The metrics of a model with intervals and what they say, calibration errors first."""
    errors = {part.metric: is_mean_gap(part) for part in model.errors if not part.part}
    parts = sorted(model.metrics, key=lambda part: (part.metric not in errors, not errors.get(part.metric)))
    rows = [_metric_row(part, model.numbers[part.variable]) for part in parts]
    columns = [("metric", False), ("value", True), (_interval(model), True), ("meaning", False)]
    return Table(f"Metrics of {model.name}", columns, rows, _without_intervals(model))


def _metric_row(part: PartResult, value: Value) -> list[Cell]:
    shown = number(value.value, _estimate(value)) if isinstance(value.value, int | float) else text(value.value)
    title = part.title if part.title != part.metric else ""
    return [text(part.variable, title), shown, Cell(_ends(value) or "–", numeric=True), text(part.meaning)]


def _without_intervals(model: ModelResult) -> str:
    """Why some metrics have no interval."""
    if not model.measured.bare:
        return ""
    return (
        f"No intervals of {', '.join(model.measured.bare)}: they need replicates of the rows, which would take too "
        "long here."
    )


def few_table(model: ModelResult) -> Table:
    """The few numbers of a model that matter, by their names in the literature."""
    names = _compared([model], _MOST_LINES)
    parts = {part.variable: part for part in model.metrics}
    rows = [
        [text(_human(parts[name]), _meaning(parts[name])), *_metric_row(parts[name], model.numbers[name])[1:3]]
        for name in names
    ]
    columns = [("number", False), ("value", True), (_interval(model), True)]
    return Table("Numbers", columns, rows, _deciding_ends(model, names))


def _deciding_ends(model: ModelResult, names: Sequence[str]) -> str:
    """Ends that decide a limit on all rows, where they differ from the interval in the table."""
    gate = model.measured.gate
    notes = []
    for judgement in gate.judgements if gate is not None else ():
        value = model.numbers.get(judgement.limit) if judgement.limit in names and not judgement.where else None
        ends = (judgement.low, judgement.high)
        if (
            value is None
            or not value.has_interval
            or np.isnan(ends).any()
            or np.allclose(ends, (value.low, value.high))
        ):
            continue
        shown = interval_text(judgement)
        is_wider = judgement.low <= value.low and judgement.high >= value.high
        notes.append(
            f"The limit on {judgement.limit} is decided by {'wider' if is_wider else 'other'} ends, {shown}, which "
            "hold with few events too."
        )
    return " ".join(notes)


def _human(part: PartResult) -> str:
    """Plain name of a number, by the kind of scores."""
    kind = setting.kind if (setting := Setting.parse(part.setting)) is not None else ""
    if part.estimator_class == MeanGap.__name__:
        return gap_name(kind).capitalize()
    name = human(part.title) or part.variable
    return f"Classwise {name[:1].lower()}{name[1:]}" if kind == "classwise" else name


def _meaning(part: PartResult) -> str:
    """Meaning of a number, unless its name suffices."""
    return "" if part.estimator_class == MeanGap.__name__ else part.meaning


def model_table(models: Sequence[ModelResult]) -> Table:
    """Models side by side, by the metrics that all of them have."""
    names = _compared(models)
    main = names[0] if names else ""
    values = [model.numbers.get(main) for model in models]
    reach = _reach(values)
    rows = [
        [text(model.name), _rows_cell(model.rows), drawn_cell(value, reach)]
        + [value_cell(model.numbers.get(name)) for name in names]
        for model, value in zip(models, values, strict=True)
    ]
    rows.append([Cell(), Cell(), Cell(picture=forest_axis(reach)), *(Cell() for _ in names)])
    parts = {part.variable: part for part in models[0].metrics}
    titles = [_human(parts[name]) for name in names]
    drawn = f"{titles[0]}, {_interval(models[0])}" if titles else _interval(models[0])
    columns = [("model", False), ("rows", True), (drawn, False), *((title, True) for title in titles)]
    return Table("Models side by side", columns, rows)


def best_of(models: Sequence[ModelResult]) -> str:
    """Model with the lowest error, and models that its interval does not distinguish from it."""
    names = _compared(models)
    if not names:
        return "These models have no number in common."
    main = names[0]
    part = next(part for part in models[0].metrics if part.variable == main)
    values = [model.numbers.get(main) for model in models]
    if part.direction == "zero" and part.kind != "error":
        return _best(models, _human(part), [value and _size_of(value) for value in values], signed=values)
    return _best(models, _human(part), values)


def _size_of(value: Value) -> Value:
    """The value without its sign, and what its size may be."""
    if value.low is None or value.high is None:
        return replace(value, value=abs(value.value))
    least = 0.0 if value.low <= 0 <= value.high else min(abs(value.low), abs(value.high))
    return replace(value, value=abs(value.value), low=least, high=max(abs(value.low), abs(value.high)))


def _compared(models: Sequence[ModelResult], most: int = _MOST_COLUMNS) -> list[str]:
    """The headline, other errors like it, and scores, each kind once; whatever there is if there are none.

    Of too many, errors are left out: models are told apart by their scores.
    """
    first, *others = models
    shared = [part for part in first.metrics if all(_has_same(model, part) for model in others)]
    errors = [part for part in shared if part.kind == "error" and not part.part]
    errors = [part for part in errors if is_mean_gap(part)] or errors
    errors.sort(key=lambda part: not first.is_headline(part))
    errors[1:1] = [part for part in shared if part.estimator_class == MeanGap.__name__ and not part.part]
    scores = [part for part in shared if part.kind == "score" and not part.part]
    own, proper = (_each_kind_once(parts) for parts in (errors, scores))
    own = own[: max(most - len(proper), 1)]
    return ([*own, *proper] or [part.variable for part in shared])[:most]


def _has_same(model: ModelResult, part: PartResult) -> bool:
    """Whether a model has this number, of the same setting: an ECE of P(y = 1) is not one of confidences."""
    return part.variable in model.numbers and any(
        own.variable == part.variable and own.setting == part.setting for own in model.metrics
    )


def _each_kind_once(parts: Sequence[PartResult]) -> list[str]:
    kinds: dict[tuple[str, str], str] = {}
    for part in parts:
        kinds.setdefault((part.title, part.setting), part.variable)
    return list(kinds.values())


def _best(
    models: Sequence[ModelResult], main: str, values: Sequence[Value | None], signed: Sequence[Value | None] = ()
) -> str:
    """Which model has the lowest error, and from which others its interval does not tell it.

    Of what is best at 0 ``values`` are the sizes, and ``signed`` what they are sizes of.
    """
    known = [(value, model.name) for value, model in zip(values, models, strict=True) if value]
    known = [(value, name) for value, name in known if np.isfinite(value.value)]
    if not known:
        return f"{main}: known of none of them."
    best, lowest = min(known, key=lambda pair: pair[0].value)
    sentence = f"{main}: lowest for {lowest}, {figure(best.value)}."
    for value, model in zip(signed, models, strict=False):
        if value is not None and model.name == lowest:
            sentence = f"{main}: closest to 0 for {lowest}, {figure(value.value)}."
    if len({model.rows for model in models}) > 1:
        sentence = f"These models were measured on different numbers of rows. {sentence}"
    if not best.has_interval:
        return f"{sentence} Without intervals that may be chance."
    alike = [name for value, name in known if name != lowest and value.low <= best.high]
    if not alike:
        return f"{sentence} Its interval lies below those of all others."
    return (
        f"{sentence} Its interval overlaps {'that' if len(alike) == 1 else 'those'} of {', '.join(alike)}: the "
        "intervals do "
        "not distinguish them. For models of the same rows, calibdask.compare is more precise, since it "
        "resamples the rows of both together."
    )


def slice_table(model: ModelResult, sliced: SlicesBy) -> Table:
    """The slices of one column, the worst first by an error, which stands first."""
    shown = sliced.slices[:_MOST_SLICES]
    columns = {part.variable: part.label or part.variable for part in sliced.errors[:_MOST_SLICE_COLUMNS]}
    if any(GAP in piece.numbers for piece in shown):
        columns[GAP] = gap_name(model.kind)
    across, upward = axes_of(model.kind)
    means = [f"mean {across}", upward.split()[0]] if any(not np.isnan(piece.means[0]) for piece in shown) else []
    reach = _reach(piece.numbers.get(sliced.variable) for piece in shown)
    rows = [
        [
            text(piece.label),
            _rows_cell(piece.rows),
            drawn_cell(piece.numbers.get(sliced.variable), reach),
            value_cell(sliced.shrunken.gaps.get(piece.label))
            if sliced.shrunken is not None
            else (text("–") if np.isnan(piece.least) else number(piece.least, figure(piece.least))),
            *(value_cell(piece.numbers.get(name)) for name in columns),
            *(number(mean, figure(mean)) for _, mean in zip(means, piece.means, strict=False)),
        ]
        for piece in shown
    ]
    rows.append([Cell(), Cell(), Cell(picture=forest_axis(reach)), Cell(), *(Cell() for _ in (*columns, *means))])
    numeric = ((title, True) for title in (*columns.values(), *means))
    drawn = _interval(model) if model.level is None else f"pointwise {_interval(model)}"
    ranked = "lower bound (Bonferroni)" if sliced.shrunken is None else f"{gap_name(model.kind)}, shrunken"
    headings = [(sliced.name, False), ("rows", True), (drawn, False), (ranked, True), *numeric]
    return Table(f"{model.name} by {sliced.name}, the worst first", headings, rows, _slice_notes(model, sliced))


def _slice_notes(model: ModelResult, sliced: SlicesBy) -> str:
    notes = []
    if sliced.error is not None and model.headline is not None and not model.is_headline(sliced.error):
        notes.append(f"Slices are measured by {_which(sliced.error)}, all rows by {_which(model.headline)}.")
    least = [piece.least for piece in sliced.slices if np.isfinite(piece.least)]
    if sliced.shrunken is not None:
        notes.append(
            "Ordered by shrunken gaps (empirical Bayes), whose intervals hold on average over the slices: calibration "
            "errors and raw gaps of slices this small are mostly noise."
        )
    elif least:
        of_models = f" of each of {model.models} models" if model.models > 1 else ""
        notes.append(
            f"Ordered by lower confidence bounds, simultaneous for all "
            f"{counted(sliced.judged, 'slice')}{of_models} at a time (Bonferroni). "
            f"{_above_zero(least)}; ties are ordered by pointwise intervals."
        )
    if sliced.shrunken is None and any(piece.is_tiny for piece in sliced.slices):
        notes.append(
            f"Slices of fewer than {TOO_FEW_IN_A_SLICE} rows come last, without intervals: they are too small."
        )
    hidden = len(sliced.slices) - _MOST_SLICES
    if hidden > 0:
        notes.append(f"{counted(hidden, 'slice')} with smaller errors not shown.")
    return " ".join(notes)


def _above_zero(least: Sequence[float]) -> str:
    above = sum(low > 0 for low in least)
    return f"{above:,} of them {'is' if above == 1 else 'are'} above 0" if above else "None of them is above 0"


def _which(error: PartResult) -> str:
    """The name of an error with its setting."""
    return f"{error.label} ({error.setting})" if error.setting else error.label


def class_table(model: ModelResult) -> Table | None:
    """The classes of a model, those with the largest errors first; None where they are not known."""
    classes = sorted(model.classes, key=lambda pair: -np.nan_to_num(pair[1].error, nan=-1.0))
    if not classes:
        return None
    rows = []
    for label, bins in classes[:_MOST_CLASSES]:
        values = (bins.frequency, bins.mean_score, bins.frequency - bins.mean_score, bins.error)
        rows.append([text(label), *(number(value, figure(value)) for value in values)])
    hidden = len(classes) - len(rows)
    return Table(
        f"Classes of {model.name}, the largest errors first",
        [
            ("class", False),
            ("frequency", True),
            ("mean score", True),
            ("observed rate minus mean prediction", True),
            ("ECE", True),
        ],
        rows,
        f"{counted(hidden, 'class', 'classes')} with smaller errors not shown." if hidden else "",
    )


def test_table(model: ModelResult) -> Table:
    """Tests of a model with what they assume."""
    rows = [
        [
            text(test.title or test.metric, test.metric if test.title else ""),
            number(test.statistic, figure(test.statistic), test.meaning),
            number(test.pvalue, pvalue_text(test.pvalue)),
            text(_says(test, model.alpha)),
            text(test.assumes),
        ]
        for test in model.tests
    ]
    columns = [("test", False), ("statistic", True), ("p-value", True), ("meaning", False), ("assumes", False)]
    return Table(f"Tests of {model.name}", columns, rows)


def _says(test: CalibrationTest, alpha: float) -> str:
    """What a p-value says at this level."""
    if np.isnan(test.pvalue):
        return "undefined for these rows"
    if not test.rejects_calibration:
        return "speaks for a small error" if test.pvalue < alpha else "does not show that the error is small"
    if test.pvalue < alpha / 5:
        return "speaks strongly against calibration"
    return "speaks against calibration" if test.pvalue < alpha else "does not speak against calibration, nor for it"
