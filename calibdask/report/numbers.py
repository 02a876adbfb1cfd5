"""The numbers of a profession, and the few that matter of each model."""

from collections.abc import Iterator, Mapping, Sequence

from calibdask.analyses.gating.gate import Gate
from calibdask.analyses.gating.profiles import Named, Profile, profile_of
from calibdask.report.chart_drawing import chart_figures
from calibdask.report.consistency_drawing import consistency_figures
from calibdask.report.model_result import ModelResult
from calibdask.report.tables import best_of, few_table, model_table
from calibdask.report.verdict import verdict_on
from calibdask.results.document import Cell, Element, Figures, Heading, Sentence, Table, number, text
from calibdask.results.format import counted, percent
from calibdask.results.values import Results

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
    yield _side_by_side(profile, numbers, next(iter(gates.values())).confidence)
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
    return Table(f"{profile.title}, by {name}", [(name, False), *columns], rows[:_MOST_ROWS], note)


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
