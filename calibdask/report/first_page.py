"""The first page of a report: what it is about, whether limits are kept, and the numbers that a profession files."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from calibdask.gating.check import Gate
from calibdask.gating.formats import accepted, interval_text, sentence, wanting
from calibdask.gating.judging import Judgement
from calibdask.gating.profiles import profile_of
from calibdask.report.blocks import (
    Banner,
    Block,
    Cell,
    Facts,
    Figures,
    Heading,
    Paragraph,
    Signature,
    Table,
    number,
    text,
)
from calibdask.report.chart_drawing import chart_figures
from calibdask.report.limit_bar import large_bar, range_of, small_bar
from calibdask.report.model_result import ModelResult
from calibdask.results.decisions import OUTCOMES, Outcome
from calibdask.results.format import POINTS, counted, figure, named, percent, points
from calibdask.results.values import Results

# What can be told from a report by its icon, its word, and the colour of that name.
ICONS: Mapping[Outcome, str] = {"met": "✓", "broken": "✗", "cannot be decided": "?"}
WORDS: Mapping[Outcome, str] = {"met": "met", "broken": "broken", "cannot be decided": "undecided"}
_MOST_NAMED, _MOST_ROWS = 3, 60
_DECIDING = (
    "Shaded: the values that keep the limit. A limit is met if the whole interval keeps it, and broken if none of it "
    "does; otherwise these rows cannot decide it. The interval of a calibration error is widened to ends that hold "
    "with few rows and few events too. Decisions hold for all slices of a column together."
)


def facts(models: Sequence[ModelResult], given: Mapping[str, str], date: str) -> Iterator[Block]:
    """What the report is about, if somebody said, or the rows have a fingerprint."""
    if not given and not any(model.measured.fingerprint for model in models):
        return
    items = [(name.capitalize(), words) for name, words in given.items()]
    if "model" not in {name.lower() for name in given}:
        items.insert(0, ("Model", named([model.name for model in models])))
    if len(models) > 1:
        items += [(f"Data of {model.name}", f"{_data(model)}; {_rows(model)}") for model in models]
    for model in models if len(models) == 1 else ():
        items += [("Data", _data(model)), ("Rows", _rows(model))]
        items += [("Left out", note) for note in model.measured.notes if "left out" in note]
        items += [("Fingerprint of the rows", words) for words in (model.measured.fingerprint,) if words]
    yield Facts([*items, ("Made", date)])
    if not any(model.measured.gate for model in models):
        yield Signature()


def _data(model: ModelResult) -> str:
    return ", ".join(filter(None, (model.measured.source or "–", model.measured.size)))


def _rows(model: ModelResult) -> str:
    totals = model.results.totals
    rows = counted(model.rows, "row")
    if "events" not in totals or totals["events"].ndim:
        return rows
    noun = "right prediction" if model.kind == "confidence" else "event"
    return f"{rows}, {counted(round(float(totals['events'])), noun)} ({percent(float(totals['frequency']))})"


def decision(models: Sequence[ModelResult]) -> Iterator[Block]:
    """A banner for each model, and one table of all limits."""
    gates = [(model, gate) for model in models if (gate := model.measured.gate) is not None and gate.judgements]
    for model, gate in gates:
        yield banner(model, gate, len(models) > 1)
    if len(gates) == 1:
        yield _table(gates[0][1])
    elif gates:
        yield _matrix(gates)
    if gates:
        yield Paragraph(_DECIDING, quiet=True)
        yield Signature()


def banner(model: ModelResult, gate: Gate, several: bool) -> Banner:
    """The decision on a model: icon, word and colour, what is true of it, and the picture of what decides."""
    outcome = gate.outcome
    deciding = gate.of(outcome)
    first = deciding[0]
    tendency = _tendency(model)
    if tendency and outcome != "met" and any(one.where for one in deciding):
        tendency = f"of all rows, {tendency}"
    line = "; ".join(filter(None, (_decided(outcome, deciding, gate), tendency)))
    shown = () if outcome == "cannot be decided" else deciding[:_MOST_NAMED]
    sentences = (*(f"{sentence(one)}." for one in shown), *list(wanting(gate))[:_MOST_NAMED])
    picture = large_bar(first, sentence(first))
    caption = f"{first.title or first.limit}, {first.place}"
    return Banner(model.name if several else "", WORDS[outcome], ICONS[outcome], line, sentences, picture, caption)


def _decided(outcome: Outcome, deciding: Sequence[Judgement], gate: Gate) -> str:
    if outcome == "met":
        return "Within the limit" if len(deciding) == 1 else f"Within all {len(deciding)} limits"
    is_one = len({one.limit for one in gate.judgements}) == 1
    names = [one.place if is_one else f"{one.limit} of {one.place}" for one in deciding[:_MOST_NAMED]]
    more = len(deciding) - len(names)
    shown = named(names) if not more else f"{', '.join(names)} and {more} more"
    return f"Outside the limit: {shown}" if outcome == "broken" else f"Not decided by these rows: {shown}"


def _tendency(model: ModelResult) -> str:
    """How far scores are too high or too low on average, as far as that is known."""
    gap = model.gap
    if gap is None or not gap.has_interval:
        return ""
    scores = "confidences" if model.kind == "confidence" else "scores"
    if gap.low <= 0 <= gap.high:
        between = f"({points(gap.low)} to {points(gap.high)} points)"
        return f"whether {scores} are too high or too low on average is open {between}"
    least, most = sorted((abs(gap.low), abs(gap.high)))
    side = "too high" if gap.value < 0 else "too low"
    return f"{scores} {points(abs(gap.value))} points {side} on average ({POINTS.span(least, most)})"


def _ordered(judgements: Sequence[Judgement]) -> list[Judgement]:
    """All rows first, then what is broken, then what cannot be decided."""
    return sorted(judgements, key=lambda one: (bool(one.where), OUTCOMES.index(one.outcome)))


def _reaches(judgements: Sequence[Judgement]) -> dict[str, tuple[float, float]]:
    """One scale for each number."""
    by_limit = sorted(judgements, key=lambda one: one.limit)
    return {limit: range_of(list(group)) for limit, group in groupby(by_limit, lambda one: one.limit)}


def _table(gate: Gate) -> Table:
    reaches = _reaches(gate.judgements)
    ordered = _ordered(gate.judgements)
    rows = [
        [
            text(one.place),
            text(one.title or one.limit, one.limit if one.title else ""),
            number(one.rows, f"{one.rows:,.0f}"),
            number(one.value, figure(one.value), f"({interval_text(one)})"),
            Cell(picture=small_bar(one, reaches[one.limit])),
            text(accepted(one)),
            _mark(one.outcome, one.reason),
        ]
        for one in ordered[:_MOST_ROWS]
    ]
    columns = [("where", False), ("limit of", False), ("rows", True), ("number", True)]
    columns += [(f"{percent(gate.confidence)} interval and limit", False), ("accepted", False), ("decision", False)]
    return Table("Limits", columns, rows, _hidden(len(ordered)))


def _matrix(gates: Sequence[tuple[ModelResult, Gate]]) -> Table:
    """Limits and slices by model."""
    reaches = _reaches([one for _, gate in gates for one in gate.judgements])
    found = [{(one.limit, one.place): one for one in gate.judgements} for _, gate in gates]
    first = {key: one for judgements in reversed(found) for key, one in judgements.items()}
    worst = {
        key: min(OUTCOMES.index(judgements[key].outcome) for judgements in found if key in judgements) for key in first
    }
    keys = sorted(first, key=lambda key: (bool(first[key].where), worst[key]))
    rows = []
    for key in keys[:_MOST_ROWS]:
        cells = [text(key[1]), text(key[0], accepted(first[key]))]
        for judgements in found:
            if (one := judgements.get(key)) is None:
                cells.append(text("–"))
                continue
            picture = small_bar(one, reaches[one.limit])
            ends = f"{figure(one.value)} ({interval_text(one)})"
            cells.append(
                Cell(f"{ICONS[one.outcome]} {WORDS[one.outcome]}", None, ends, picture, mark=WORDS[one.outcome])
            )
        rows.append(cells)
    columns = [("where", False), ("limit of", False), *((model.name, False) for model, _ in gates)]
    return Table("Limits", columns, rows, _hidden(len(keys)))


def _hidden(every: int) -> str:
    hidden = every - _MOST_ROWS
    return f"{counted(hidden, 'further limit')} not shown, none of which is worse than these." if hidden > 0 else ""


def _mark(outcome: Outcome, reason: str) -> Cell:
    return Cell(f"{ICONS[outcome]} {WORDS[outcome]}", detail=reason, mark=WORDS[outcome])


def filed(models: Sequence[ModelResult]) -> Iterator[Block]:
    """The numbers of the profile, by the names of the profession; of slices as far as it looks at them."""
    for model in models:
        gate = model.measured.gate
        if gate is None or not gate.profile:
            continue
        profile = profile_of(gate.profile)
        if len(models) > 1:
            yield Heading(model.name)
        columns = [("number", False), ("value", True), (f"{percent(gate.confidence)} interval", True)]
        rows = [
            [text(one.name), number(float(one.value.value), one.text), Cell(one.ends or "–", numeric=True)]
            for one in profile.numbers(gate.result)
        ]
        yield Table(profile.title, columns, rows, profile.note)
        if model.measured.pictures is not None:
            yield Figures(list(chart_figures(model.measured.pictures, model.name)))
        yield from (_of_slices(name, gate) for name in gate.slices if profile.of_slices)


def _of_slices(name: str, gate: Gate) -> Table:
    """Those numbers of each slice of a column, in the order of the slices."""
    profile = profile_of(gate.profile)
    results = Results(gate.slices[name])
    rows: list[list[Cell]] = []
    columns: list[tuple[str, bool]] = []
    for at, labels in results.strata():
        numbers = [one for one in profile.numbers(results.at(at).dataset) if _is_of_slices(one.part.metric, gate)]
        columns = [(one.name, True) for one in numbers]
        cells = [number(float(one.value.value), one.text, one.ends) for one in numbers]
        rows.append([text(", ".join(map(str, labels.values()))), *cells])
    return Table(f"{profile.title}, by {name}", [(name, False), *columns], rows[:_MOST_ROWS], _hidden(len(rows)))


def _is_of_slices(metric: str, gate: Gate) -> bool:
    return metric in profile_of(gate.profile).of_slices
