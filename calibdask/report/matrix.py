"""Table of slices by model: rows, events, intervals relative to limits, and decisions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from calibdask.analyses.gating.gate import Gate, accepted, interval_text, turns, value_text
from calibdask.analyses.gating.judging import Judgement
from calibdask.engine.axes import column_name
from calibdask.render.drawing import forest, forest_axis, forest_range
from calibdask.report.banners import by_name, is_rare
from calibdask.report.human_names import gap_name
from calibdask.report.limit_bar import range_of, small_bar
from calibdask.report.measuring import GAP
from calibdask.report.model_result import ModelResult
from calibdask.report.slices import events_of
from calibdask.results.decisions import ICONS, WORDS
from calibdask.results.document import Cell, Table, number, text
from calibdask.results.format import PLAIN, counted, joined, percent, slice_text
from calibdask.results.values import Results, Value

_MOST_ROWS, _MOST_SMALL = 60, 12
# Of more models there is room for pictures and icons only.
_MOST_WIDE = 4
_WHOLE = "all rows"

Counts = Mapping[str, tuple[float, float]]


def event_noun(model: ModelResult) -> str:
    """Noun for an event; for confidences, a correct prediction."""
    noun = "right prediction" if model.kind == "confidence" else "event"
    return f"weighted {noun}" if model.measured.weights else noun


def limit_matrix(gates: Sequence[tuple[ModelResult, Gate]]) -> Table:
    """Limits of all rows and of slices by model: first all rows, then where one is broken, then where one is open."""
    found = [{(one.limit, one.place): one for one in map(by_name, gate.judgements)} for _, gate in gates]
    first = {key: one for judgements in reversed(found) for key, one in judgements.items()}
    reaches = _reaches([one for judgements in found for one in judgements.values()])

    every = [one for judgements in found for one in judgements.values()]
    turn = turns(every)
    turn_of: dict[str, tuple[int, str, str]] = {}
    for one in every:
        turn_of[one.place] = min(turn_of.get(one.place, turn(one)), turn(one))
    order = {place: number for number, place in enumerate(dict.fromkeys(place for _, place in first))}
    # All limits of a place stand together, and periods in the order of time.
    keys = sorted(first, key=lambda key: (bool(first[key].where), turn_of[key[1]], order[key[1]]))
    counts = [_counts_of_gate(gate) for _, gate in gates]
    wide = len(gates) <= _MOST_WIDE
    rows = []
    for key in keys[:_MOST_ROWS]:
        judged = [_judged(judgements.get(key), reaches[key[0]], wide=wide) for judgements in found]
        rows.append([text(key[1], f"{key[0]}: limit {accepted(first[key])}"), *_counted(key[1], counts), *judged])
    hidden = len(keys) - _MOST_ROWS
    note = f"{counted(hidden, 'further limit')} not shown, no worse than these." if hidden > 0 else ""
    head = [("where", False), *_counted_columns(gates[0][0])]
    names = [("interval, limit and decision" if len(gates) == 1 else model.name, False) for model, _ in gates]
    gate = gates[0][1]
    adjusted = "; adjusted for the number of slices" if adjustment(gate) else ""
    caption = f"Limits, {percent(gate.confidence)} intervals{adjusted}"
    return Table(caption, [*head, *names], rows, note, compact=not wide)


def adjustment(gate: Gate) -> str:
    """Adjustment of the intervals of slices; empty if none."""
    by = [tuple(one.where) for one in {one.place: one for one in gate.judgements if one.where}.values()]
    numbers = {", ".join(names): by.count(names) for names in dict.fromkeys(by)}
    values = joined(
        [f"the {number} values of {column_name(name)}" for name, number in numbers.items() if number > 1] or [""]
    )
    return f"adjusted for {values} (Bonferroni)" if values else ""


def _judged(one: Judgement | None, reach: tuple[float, float], *, wide: bool) -> Cell:
    if one is None:
        return text("–")
    word = f"{ICONS[one.outcome]} {WORDS[one.outcome]}"
    if not wide:
        return Cell(word, picture=small_bar(one, reach), mark=WORDS[one.outcome])
    ends = f"{value_text(one)} ({interval_text(one)})"
    detail = "; ".join(filter(None, (ends, one.reason)))
    return Cell(word, None, detail, small_bar(one, reach), mark=WORDS[one.outcome])


def _reaches(judgements: Sequence[Judgement]) -> dict[str, tuple[float, float]]:
    """One scale for each number."""
    by_limit = sorted(judgements, key=lambda one: one.limit)
    return {limit: range_of(list(group)) for limit, group in groupby(by_limit, lambda one: one.limit)}


def _counts_of_gate(gate: Gate) -> Counts:
    """Rows and events of all rows, and of each slice."""
    counts = {_WHOLE: (float(gate.rows), events_of(Results(gate.result)))}
    for result in gate.slices.values():
        results = Results(result)
        for at, labels in results.strata():
            place = ", ".join(f"{column_name(name)}={slice_text(label)}" for name, label in labels.items())
            here = results.at(at)
            counts[place] = (float(here.totals["rows"]) if "rows" in here.totals else math.nan, events_of(here))
    return counts


def _counted_columns(model: ModelResult) -> list[tuple[str, bool]]:
    return [("rows", True), (f"{event_noun(model)}s", True)]


def _counted(place: str, counts: Sequence[Counts]) -> list[Cell]:
    """Rows, with their share of all, and events; of models with different ones, the fewest and the most."""
    known = [own[place] for own in counts if place in own]
    shares = {own[place][0] / own[_WHOLE][0] for own in counts if place in own and own[_WHOLE][0] > 0}
    share = f"{100 * min(shares):.1f} %" if place != _WHOLE and len(shares) == 1 and math.isfinite(min(shares)) else ""
    rows, events = (_range_cell([pair[column] for pair in known]) for column in (0, 1))
    return [replace(rows, detail=share), events]


def _range_cell(numbers: Sequence[float]) -> Cell:
    known = [one for one in numbers if math.isfinite(one)]
    if not known:
        return Cell("–", numeric=True)
    fewest, most = min(known), max(known)
    return number(most, f"{most:,.0f}") if fewest == most else Cell(f"{fewest:,.0f} to {most:,.0f}", numeric=True)


@dataclass(frozen=True, eq=False)
class _Gaps:
    """Frequency less score of a model by place, with rows, events, and observed over expected events."""

    values: Mapping[str, Value]
    counts: Counts
    ratios: Mapping[str, float]

    @classmethod
    def of(cls, model: ModelResult) -> "_Gaps":
        values = {} if model.gap is None else {_WHOLE: model.gap}
        counts = {_WHOLE: (float(model.rows), events_of(model.results))}
        ratios = {_WHOLE: model.observed_expected}
        for sliced in model.sliced:
            for piece in sliced.slices:
                place = f"{sliced.name}={piece.label}"
                counts[place] = (piece.rows, piece.events)
                ratios[place] = piece.observed_expected
                if sliced.shrunken is not None and piece.label in sliced.shrunken.gaps:
                    values[place] = sliced.shrunken.gaps[piece.label]
                elif GAP in piece.numbers:
                    values[place] = piece.numbers[GAP]
        return cls(values, counts, ratios)


def gap_matrix(models: Sequence[ModelResult]) -> Table | None:
    """Without limits: the mean gap of all rows and of slices by model, in the order of the first model."""
    given = [_Gaps.of(model) for model in models]
    places = list(dict.fromkeys(place for own in given for place in own.values))
    # Of many small slices only the largest shrunken gaps are shown; a sentence summarizes the others.
    small = any(sliced.shrunken is not None for sliced in models[0].sliced)
    ends = [end for own in given for value in own.values.values() for end in (value.value, value.low, value.high)]
    if not any(isinstance(end, float) for end in ends):
        return None
    reach = forest_range([end for end in ends if isinstance(end, float)])
    wide = len(models) <= _MOST_WIDE
    shown = places[: _MOST_SMALL if small else _MOST_ROWS]
    rows = [
        [text(place), *_counted(place, [own.counts for own in given])]
        + [
            _gap_cell(own.values.get(place), reach, own.ratios.get(place, math.nan) if rare else math.nan, wide=wide)
            for own, rare in zip(given, map(is_rare, models), strict=True)
        ]
        for place in shown
    ]
    rows.append([Cell(), Cell(), Cell(), *(Cell(picture=forest_axis(reach)) for _ in given)])
    hidden = len(places) - len(shown)
    notes = ["Intervals are pointwise: among many slices, some exclude 0 by chance."] if len(places) > 2 else []
    if small:
        notes = ["Gaps of small slices are shrunk (empirical Bayes); their intervals hold on average over the slices."]
    notes += [f"{counted(hidden, 'further slice')} not shown here."] if hidden > 0 else []
    name = gap_name(models[0].kind)
    level = "" if models[0].level is None else f", {percent(models[0].level)} intervals; the line is 0"
    columns = [("where", False), *_counted_columns(models[0])]
    columns += [(name if len(models) == 1 else model.name, False) for model in models]
    return Table(f"{name.capitalize()}{level}", columns, rows, " ".join(notes), compact=not wide)


def _gap_cell(value: Value | None, reach: tuple[float, float], ratio: float, *, wide: bool) -> Cell:
    """A gap with its interval, and with observed over expected events if that is a number."""
    if value is None or not isinstance(value.value, float) or np.isnan(value.value):
        return text("–")
    picture = forest(value.value, value.low, value.high, reach)
    ends = f" ({PLAIN.span(value.low, value.high)})" if value.has_interval else ""
    estimate = PLAIN.estimate(value.value, value.low, value.high)
    relative = "" if math.isnan(ratio) else f"; O/E {ratio:.2f}"
    return Cell(detail=f"{estimate}{ends}{relative}" if wide else estimate, picture=picture)
