"""The numbers of a profession, and the few that matter of each model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
import numpy.typing as npt
import xarray as xr

from calibdask.analyses.gating.gate import Gate, left_out_numbers
from calibdask.analyses.gating.profiles import Named, Profile, profile_of
from calibdask.engine.axes import column_name
from calibdask.markup import Html
from calibdask.plot import svg
from calibdask.plot.decision_charts import rounded_up
from calibdask.plot.style import FREQUENCY, MEAN_SCORE
from calibdask.render.drawing import MOST_PANELS, Plane, chart_figures
from calibdask.report.model_result import ModelResult
from calibdask.report.tables import best_of, few_table, model_table
from calibdask.report.verdict import verdict_on
from calibdask.results.document import Cell, Element, Figure, Figures, Heading, Sentence, Table, number, text
from calibdask.results.format import counted, percent, slice_text
from calibdask.results.values import Results

Array = npt.NDArray[np.float64]
_ESTIMATOR = "ConsistencyBars"
# A dot on the end of its bar has the frequency of that end, up to rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ConsistencyPoints:
    """Mean score, frequency and bar of the bins that hold rows, each (bins,)."""

    expected: Array
    outcome: Array
    low: Array
    high: Array

    @property
    def is_outside(self) -> npt.NDArray[np.bool_]:
        """Whether the frequency is not one that a calibrated model mostly has."""
        return (self.outcome < self.low - _ROUNDING) | (self.outcome > self.high + _ROUNDING)


def consistency_figures(dataset: xr.Dataset, name: str) -> Iterator[Figure]:
    """A figure of each such metric of a result that has intervals; of many classes, the first six."""
    results = Results(dataset)
    if results.level is None:
        return
    metrics = dict.fromkeys(part.metric for part in results.parts if part.estimator_class == _ESTIMATOR)
    for metric in metrics:
        (outcome,) = results.of(metric, "outcome")
        dims = [str(dim) for dim in outcome.values.dims[:-1]]
        for position in islice(product(*(range(dataset.sizes[dim]) for dim in dims)), MOST_PANELS):
            at = dict(zip(dims, position, strict=True))
            labels = (f"{column_name(dim)} {slice_text(dataset[dim].values[i])}" for dim, i in at.items())
            title = ", ".join((f"{name}: reliability with consistency bars", *labels))
            points = _points(results.at(at), metric)
            yield Figure(consistency_picture(points, title), f"{title}; {_reading(points, results.level)}")


def _points(results: Results, metric: str) -> ConsistencyPoints:
    (expected,), (outcome,) = (results.of(metric, part) for part in ("expected", "outcome"))
    given = expected.values, outcome.values, *(expected.bounds[end] for end in ("low", "high"))
    values = np.stack([np.asarray(of.values, np.float64) for of in given])
    return ConsistencyPoints(*values[:, np.isfinite(values).all(0)])


def consistency_picture(points: ConsistencyPoints, title: str) -> Html:
    """Bars about the diagonal, and the points, those outside their bar on the side where they are."""
    end = rounded_up(max(values.max(initial=0.0) for values in (points.expected, points.outcome, points.high)))
    plane = Plane((0.0, end), (0.0, end))
    low, high, y = map(plane.y, (points.low, points.high, points.outcome))
    x, (left, right), (foot, top) = plane.x(points.expected), plane.x(np.array([0, end])), plane.y(np.array([0, end]))
    inside = [svg.line(left, foot, right, top, "diagonal"), svg.sticks(x, low, high, "consistent")]
    # Ends of bars that are shorter than they are wide are seen nonetheless.
    inside += [
        svg.line(at - 4, bar, at + 4, bar, "axis") for ends in (low, high) for at, bar in zip(x, ends, strict=True)
    ]
    dots = (
        plane.circle(across, upward, 4.0, f"dot{side}")
        for across, upward, side in zip(x, y, _sides(points), strict=True)
    )
    return plane.picture([*plane.axes((MEAN_SCORE, FREQUENCY)), plane.clipped(inside), *dots], title)


def _sides(points: ConsistencyPoints) -> list[str]:
    """The classes that colour scores that are too high, or too low."""
    side = np.where(points.outcome < points.expected, " over", " under")
    return [str(of) for of in np.where(points.is_outside, side, " consistent")]


def _reading(points: ConsistencyPoints, level: float) -> str:
    outside, number = int(points.is_outside.sum()), points.outcome.size
    return (
        "points: frequency of the outcome by bin; bars: range of a calibrated model in "
        f"{percent(level)} of data sets, pointwise (not confidence intervals of the points); outside their "
        f"bar (coloured): {outside} of {number}"
    )


_MOST_ROWS = 60
# Columns of more models are narrow ones.
_MOST_WIDE = 4


def profile_numbers(models: Sequence[ModelResult]) -> Iterator[Element]:
    """Numbers of the profile under the names of the profession, by slice where it reports slices."""
    gates = {model.name: gate for model in models if (gate := model.measured.gate) is not None and gate.profile}
    if not gates:
        return
    profile = profile_of(next(iter(gates.values())).profile)
    numbers = {name: list(profile.numbers(gate.result)) for name, gate in gates.items()}
    yield from _first_number(numbers)
    first, *_ = gates.values()
    yield _side_by_side(profile, numbers, first.confidence)
    yield from left_out_numbers(first)
    for model in models:
        if model.name not in gates:
            continue
        gate = gates[model.name]
        of_slices = [_of_slices(name, gate) for name in gate.slices if profile.of_slices]
        if len(models) > 1 and (of_slices or model.measured.pictures is not None):
            yield Heading(model.name)
        if model.measured.pictures is not None:
            drawn = model.measured.pictures, model.name
            yield Figures([*consistency_figures(*drawn), *chart_figures(*drawn)])
        yield from of_slices


def _first_number(numbers: Mapping[str, Sequence[Named]]) -> Iterator[Sentence]:
    """The first number of the profession in a line."""
    firsts = {name: own[0] for name, own in numbers.items() if own}
    notes = [
        f"{one.text}{f' ({one.ends})' * bool(one.ends)}{f' for {name}' * (len(numbers) > 1)}"
        for name, one in firsts.items()
    ]
    if notes:
        yield Sentence(f"{next(iter(firsts.values())).name}: {'; '.join(notes)}.")


def _side_by_side(profile: Profile, numbers: Mapping[str, Sequence[Named]], confidence: float) -> Table:
    """All numbers, a column for each model, with intervals below them."""
    if len(numbers) == 1:
        (only,) = numbers.values()
        rows = [
            [text(one.name), number(float(one.value.value), one.text), Cell(one.ends or "–", numeric=True)]
            for one in only
        ]
        columns = [("number", False), ("value", True), (f"{percent(confidence)} interval", True)]
        return Table(profile.title, columns, rows, profile.note)
    by_name = {name: {one.name: one for one in own} for name, own in numbers.items()}
    rows = []
    for title in dict.fromkeys(one.name for own in numbers.values() for one in own):
        found = [own.get(title) for own in by_name.values()]
        cells = [Cell("–") if one is None else number(float(one.value.value), one.text, one.ends) for one in found]
        rows.append([text(title), *cells])
    columns = [("number", False), *((name, True) for name in numbers)]
    title = f"{profile.title}, {percent(confidence)} intervals"
    return Table(title, columns, rows, profile.note, compact=len(numbers) > _MOST_WIDE)


def _of_slices(name: str, gate: Gate) -> Table:
    """Numbers of each slice of a column, in the order of the slices."""
    profile = profile_of(gate.profile)
    results = Results(gate.slices[name])
    rows: list[list[Cell]] = []
    columns: list[tuple[str, bool]] = []
    for at, labels in results.strata():
        numbers = [one for one in profile.numbers(results.at(at).dataset) if one.part.metric in profile.of_slices]
        columns = [(one.name, True) for one in numbers]
        cells = [number(float(one.value.value), one.text, one.ends) for one in numbers]
        rows.append([text(", ".join(map(str, labels.values()))), *cells])
    hidden = len(rows) - _MOST_ROWS
    note = f"{counted(hidden, 'further slice')} not shown." if hidden > 0 else ""
    return Table(
        f"{profile.title}, by {column_name(name)}", [(column_name(name), False), *columns], rows[:_MOST_ROWS], note
    )


def few_numbers(models: Sequence[ModelResult]) -> Iterator[Element]:
    """Headline of each model, its key numbers, and sentences."""
    verdicts = [verdict_on(model) for model in models]
    if len(models) > 1:
        yield Sentence(best_of(models))
        yield model_table(models)
    else:
        yield from (Sentence(words) for words in verdicts[0].sentences[:1])
        if models[0].metrics:
            yield few_table(models[0])
    for model, verdict in zip(models, verdicts, strict=True):
        sentences = verdict.sentences if len(models) > 1 else verdict.sentences[1:]
        if sentences:
            yield Heading(f"In words: {model.name}" if len(models) > 1 else "In words")
            yield Sentence(" ".join(sentences))
