"""The numbers of a profession, and the few that matter of each model."""

from collections.abc import Iterator, Sequence

from calibdask.gating.check import Gate
from calibdask.gating.profiles import profile_of
from calibdask.report.blocks import Block, Cell, Figures, Heading, Paragraph, Table, number, text
from calibdask.report.chart_drawing import chart_figures
from calibdask.report.consistency_drawing import consistency_figures
from calibdask.report.model_result import ModelResult
from calibdask.report.tables import best_of, few_table, model_table
from calibdask.report.verdict import verdict_on
from calibdask.results.format import counted, percent
from calibdask.results.values import Results

_MOST_ROWS = 60


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
            drawn = model.measured.pictures, model.name
            yield Figures([*consistency_figures(*drawn), *chart_figures(*drawn)])
        yield from (_of_slices(name, gate) for name in gate.slices if profile.of_slices)


def _of_slices(name: str, gate: Gate) -> Table:
    """Those numbers of each slice of a column, in the order of the slices."""
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


def few_numbers(models: Sequence[ModelResult]) -> Iterator[Block]:
    """How far off each model is, in a line; the few numbers that matter; and the same in words."""
    verdicts = [verdict_on(model) for model in models]
    if len(models) > 1:
        yield Paragraph(best_of(models))
        yield model_table(models)
    else:
        yield from (Paragraph(words) for words in verdicts[0].sentences[:1])
        if models[0].metrics:
            yield few_table(models[0])
    for model, verdict in zip(models, verdicts, strict=True):
        sentences = verdict.sentences if len(models) > 1 else verdict.sentences[1:]
        if sentences:
            yield Heading(f"In words: {model.name}" if len(models) > 1 else "In words")
            yield Paragraph(" ".join(sentences))
