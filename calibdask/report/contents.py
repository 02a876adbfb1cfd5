"""The contents of a report on models: which sections, and what is in them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from calibdask.report.blocks import (
    Block,
    Code,
    Figure,
    Figures,
    Finding,
    Findings,
    Heading,
    Listing,
    Page,
    Paragraph,
    Section,
    Terms,
)
from calibdask.report.cautions import cautions
from calibdask.report.decision import Limits, line_of
from calibdask.report.definitions import definitions
from calibdask.report.drawing import curve_picture, diagram_picture
from calibdask.report.facts import Facts, Sliced
from calibdask.report.reliability import Bins
from calibdask.report.tables import (
    class_table,
    decision_table,
    metric_table,
    model_table,
    rows_table,
    slice_table,
    test_table,
)
from calibdask.report.verdict import verdict_on
from calibdask.report.words import counted, figure, percent

__all__ = ["Origin", "page_of"]

# Panels of a model with one for each class, and of the slices that are drawn.
_MOST_PANELS, _MOST_SLICES = 6, 4
_MANY_ROWS = 100_000
_READING = (
    "Left: each point is a bin, the frequency of the outcome against the mean score, with an interval for the bin by "
    "itself; larger points hold more rows, the bars beneath count them. Right: the frequency given the score, without "
    "bins; the dark band is for one score, the light one for the whole curve, beneath is the density of the scores. On "
    "the dashed line the scores keep their word; below it they promise more than comes true (orange, full points), "
    "above it less (blue, hollow points)."
)
_NO_LIMITS = Limits()
_DECIDING = (
    "Limits are the largest calibration errors that are accepted, as fractions: 0.01 is one percentage point. A limit "
    "is met if the upper end of the interval is at most the limit, and broken if the lower end is above it; otherwise, "
    "or without an interval, these rows cannot decide it. Each slice is judged by itself: of many some may be judged "
    "wrongly by chance."
)
_NOTHING = (
    "None of the checks found anything: few rows, in all, in bins or in slices; wide intervals of slices; unequal "
    "weights; scores that are next to 0 or 1, or take few values; outcomes or classes that never occur; binned errors "
    "well above smooth ones."
)


@dataclass(frozen=True)
class Origin:
    """Where a report comes from: its title, the command, the date and the versions that made it."""

    title: str
    command: str
    date: str
    versions: Mapping[str, str]


def page_of(models: Sequence[Facts], origin: Origin, limits: Limits = _NO_LIMITS) -> Page:
    """The page of a report on models."""
    rows = counted(sum(facts.rows for facts in models), "row")
    lead = f"{counted(len(models), 'model')}, {rows}, {origin.date}"
    parts = {
        "decision": ("Decision", _decision(models, limits)),
        "verdict": ("Verdict", _verdicts(models)),
        "data": ("What was measured", _data(models, origin)),
        "metrics": ("Metrics", _metrics(models)),
        "pictures": ("Reliability", _pictures(models)),
        "slices": ("Slices", _slices(models)),
        "tests": ("Tests", _tests(models)),
        "warnings": ("Warnings", _warnings(models)),
        "reproduce": ("How to reproduce", _reproduce(models, origin)),
    }
    sections = [Section(anchor, title, blocks) for anchor, (title, made) in parts.items() if (blocks := list(made))]
    return Page(
        origin.title, lead, sections, f"Made by calibdask {origin.versions.get('calibdask', '')}, {origin.date}."
    )


def _decision(models: Sequence[Facts], limits: Limits) -> Iterator[Block]:
    if not limits:
        return
    yield Listing([f"{line_of(facts, limits)}." for facts in models])
    for facts in models:
        yield decision_table(facts, limits)
    yield Paragraph(_DECIDING, quiet=True)


def _verdicts(models: Sequence[Facts]) -> Iterator[Block]:
    found = [(facts.name, verdict_on(facts)) for facts in models]
    yield Findings([Finding(name, each.outcome, each.line, each.sentences) for name, each in found])


def _data(models: Sequence[Facts], origin: Origin) -> Iterator[Block]:
    yield rows_table(models)
    yield Listing(list(_settings(models, origin)))


def _settings(models: Sequence[Facts], origin: Origin) -> Iterator[str]:
    attributes = models[0].result.attrs
    if models[0].level is not None:
        yield (
            f"Intervals of {percent(models[0].level)} from {attributes['n_boot']} replicates, seed "
            f"{attributes['seed']}."
        )
        if all(facts.is_corrected for facts in models):
            yield (
                "Intervals of calibration errors are corrected for what noise adds to absolute values, and begin at 0 "
                "where a calibrated model would show such an error by chance."
            )
    else:
        yield "No intervals were computed."
    if any(facts.measured.slices for facts in models):
        names = dict.fromkeys(name for facts in models for name in facts.measured.slices)
        yield f"Slices by {', '.join(names)}, each by itself."
    yield f"Date: {origin.date}. Versions: {', '.join(f'{name} {each}' for name, each in origin.versions.items())}."


def _metrics(models: Sequence[Facts]) -> Iterator[Block]:
    if len(models) > 1:
        yield model_table(models)
    for facts in models:
        if facts.readings:
            yield metric_table(facts)
        if table := class_table(facts):
            yield table


def _pictures(models: Sequence[Facts]) -> Iterator[Block]:
    drawn = [(facts, _panels(facts)) for facts in models]
    if any(figures for _, figures in drawn):
        yield Paragraph(_READING, quiet=True)
    for facts, figures in drawn:
        if figures:
            if len(models) > 1:
                yield Heading(facts.name)
            yield Figures(figures)


def _panels(facts: Facts) -> list[Figure]:
    """Diagram and curve of a model; of one with a panel for each class, the classes with the largest errors."""
    worst = sorted(facts.bins, key=lambda each: -each[1].error)[:_MOST_PANELS]
    labels = [label for label, _ in worst] or list(facts.curves)[:_MOST_PANELS]
    bins, found = dict(worst), []
    for label in labels:
        title = f"{facts.name}, class {label}" if label else facts.name
        if label in bins:
            found.append(Figure(diagram_picture(bins[label], title), _caption(title, bins[label])))
        if label in facts.curves:
            found.append(Figure(curve_picture(facts.curves[label], title), f"{title}: curve and density of the scores"))
    return found


def _caption(title: str, bins: Bins) -> str:
    return f"{title}: {counted(bins.score.size, 'bin')}, ECE of these {figure(bins.error)}"


def _slices(models: Sequence[Facts]) -> Iterator[Block]:
    for facts in models:
        for sliced in facts.sliced:
            yield slice_table(facts, sliced)
            if figures := _worst(sliced):
                number = len(sliced.slices)
                if number > _MOST_SLICES:
                    yield Paragraph(
                        f"Diagrams of slices by {sliced.name}: the {len(figures)} worst of {number}.", quiet=True
                    )
                yield Figures(figures, small=True)


def _worst(sliced: Sliced) -> list[Figure]:
    """Diagrams of the worst slices."""
    found = []
    for each in sliced.slices[:_MOST_SLICES]:
        for label, bins in each.bins if len(each.bins) == 1 else []:
            title = f"{sliced.name} {each.label}{f', class {label}' if label else ''}"
            if bins.count.size:
                found.append(Figure(diagram_picture(bins, title), f"{title}: {counted(int(bins.rows), 'row')}"))
    return found


def _tests(models: Sequence[Facts]) -> Iterator[Block]:
    tested = [facts for facts in models if facts.tests]
    for facts in tested:
        yield test_table(facts)
    if tested:
        yield Paragraph(
            "A p-value is the chance that a calibrated model would show a statistic as extreme as this one. A small "
            "one speaks against calibration; a large one does not show calibration."
        )
    if any(facts.rows >= _MANY_ROWS for facts in tested):
        yield Paragraph(
            "With as many rows as here every model fails such a test: none is calibrated to the last digit. Judge by "
            "the size of the error and its interval."
        )


def _warnings(models: Sequence[Facts]) -> Iterator[Block]:
    for facts in models:
        found = cautions(facts)
        if found and len(models) > 1:
            yield Heading(facts.name)
        if found:
            yield Listing(found)
        elif len(models) == 1:
            yield Paragraph(_NOTHING)
    yield Paragraph(
        "Rows are taken to be independent of each other and of the rows that the model was fitted on; on rows that it "
        "knows a model looks better than it is. All this is about rows like these: another time or place may differ.",
        quiet=True,
    )


def _reproduce(models: Sequence[Facts], origin: Origin) -> Iterator[Block]:
    if origin.command:
        yield Code(origin.command)
    yield Paragraph(
        "The same data, versions and seeds give the same numbers on any number of workers, with weights up to "
        "rounding. Random numbers come from the seeds above, and from those in the descriptions below."
    )
    described = {
        str(variable.attrs.get("estimator", "")) for facts in models for variable in facts.result.data_vars.values()
    }
    yield Heading("Measures")
    yield Terms(definitions(sorted(described)))
    yield Heading("As they were computed")
    yield Listing(sorted({str(facts.estimator(each.name)) for facts in models for each in facts.readings} - {""}))
