"""The contents of a report on models: its sections and their blocks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from calibdask.plot.frame import interval_name, notes
from calibdask.report.audit_section import audited
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
from calibdask.report.decision_table import Limits, line_of
from calibdask.report.drawing import curve_picture, diagram_picture
from calibdask.report.first_page import decision, facts, filed
from calibdask.report.measuring import SPREAD
from calibdask.report.model_result import ModelResult, SlicesBy
from calibdask.report.recalibration import recalibration
from calibdask.report.tables import (
    class_table,
    decision_table,
    metric_table,
    model_table,
    rows_table,
    slice_table,
    test_table,
)
from calibdask.report.time_section import over_time
from calibdask.report.verdict import verdict_on
from calibdask.results.cautions import MANY_ROWS
from calibdask.results.format import counted, percent
from calibdask.results.reliability import Bins, Curve

# Panels of a model with one for each class, and of the slices that are drawn.
_MOST_PANELS, _MOST_SLICES = 6, 4
_READING = (
    "Left: each point is a bin, the frequency of the outcome against the mean score, with a confidence interval for "
    "the bin by itself; of bins of unequal mass, larger points hold more rows. Right: the frequency given the score, "
    "without bins, smoothed over the nearest rows, with a confidence band for each score by itself. The bars below "
    "count rows by score. On the dashed line the scores are calibrated; below it they are too high (orange, full "
    "points), above it too low (blue, hollow points). Below each picture is what its axis leaves out."
)
_NO_LIMITS = Limits()
_DECIDING = (
    "Limits are the largest calibration errors that are accepted, as fractions: 0.01 is one percentage point. A limit "
    "is met if the upper end of what is not excluded is at most the limit, and broken if the lower end is above it; "
    "otherwise, or without an interval, these rows cannot decide it. Not excluded is what lies within the interval, or "
    "within ends by bets on the outcomes, which hold with few rows and few events too: where the limit is the true "
    "error, it comes out as met, or as broken, in at most half as many samples as intervals miss. Of errors "
    "that may be below the mean gap only the interval is known. Rows needed: of so many, a calibrated model with such "
    "scores meets the limit in about half of the samples; where there are as many already, so many would decide it if "
    "only the ends moved. Each slice is judged by itself; of many slices, some may be judged wrongly by chance."
)
_NOTHING = (
    "None of the checks found anything. They look for few rows, in all, in bins or in slices; wide intervals of "
    "slices; unequal weights; scores next to 0 or 1, or of few values; outcomes or classes that never occur; binned "
    "errors well above smooth ones."
)


@dataclass(frozen=True)
class Origin:
    """Where a report comes from: its title, the command, the date and the versions that made it."""

    title: str
    command: str
    date: str
    versions: Mapping[str, str]
    facts: Mapping[str, str] = field(default_factory=dict)


def page_of(models: Sequence[ModelResult], origin: Origin, limits: Limits = _NO_LIMITS) -> Page:
    """The page of a report on models."""
    lead = f"{counted(len(models), 'model')}, {_rows_each(models)}, {origin.date}"
    parts = {
        "about": ("About", facts(models, origin.facts, origin.date)),
        "decision": ("Decision", [*decision(models), *_decision(models, limits)]),
        "filed": ("Numbers to file", filed(models)),
        "verdict": ("Verdict", _verdicts(models)),
        "data": ("What was measured", _data(models, origin)),
        "metrics": ("Metrics", _metrics(models)),
        "pictures": ("Reliability", _pictures(models)),
        "slices": ("Slices", _slices(models)),
        "groups": ("For whom it is wrong", audited(models)),
        "time": ("Over time", over_time(models)),
        "recalibration": ("Would recalibration help?", recalibration(models)),
        "tests": ("Tests", _tests(models)),
        "warnings": ("Warnings", _warnings(models)),
        "reproduce": ("How to reproduce", _reproduce(models, origin)),
    }
    sections = [Section(anchor, title, blocks) for anchor, (title, made) in parts.items() if (blocks := list(made))]
    made = f"Made by calibdask {origin.versions.get('calibdask', '')}, {origin.date}."
    return Page(origin.title, lead, sections, " ".join((made, *_hashes(models))))


def _hashes(models: Sequence[ModelResult]) -> Iterator[str]:
    """The hash of the receipt, or the fingerprint of the rows, of each model."""
    for model in models:
        own = f" of {model.name}" if len(models) > 1 else ""
        if model.measured.receipt:
            yield f"Hash of the receipt{own}: {model.measured.receipt}."
        elif model.measured.fingerprint:
            yield f"Fingerprint of the rows{own}: {model.measured.fingerprint}."


def _rows_each(models: Sequence[ModelResult]) -> str:
    """The rows of each model: several models may have been measured on the same rows, whose sum means nothing."""
    fewest, most = min(model.rows for model in models), max(model.rows for model in models)
    if len(models) == 1:
        return counted(most, "row")
    return f"{counted(most, 'row')} each" if fewest == most else f"{fewest:,} to {counted(most, 'row')} each"


def _decision(models: Sequence[ModelResult], limits: Limits) -> Iterator[Block]:
    if not limits:
        return
    yield Listing([f"{line_of(model, limits)}." for model in models])
    for model in models:
        yield decision_table(model, limits)
    yield Paragraph(_DECIDING, quiet=True)


def _verdicts(models: Sequence[ModelResult]) -> Iterator[Block]:
    # Where limits decide, the colour is that of the decision.
    verdicts = [(model, verdict_on(model)) for model in models]
    yield Findings(
        [
            Finding(model.name, "" if model.measured.gate else verdict.outcome, verdict.line, verdict.sentences)
            for model, verdict in verdicts
        ]
    )


def _data(models: Sequence[ModelResult], origin: Origin) -> Iterator[Block]:
    yield rows_table(models)
    yield Listing(list(_settings(models, origin)))


def _settings(models: Sequence[ModelResult], origin: Origin) -> Iterator[str]:
    attributes = models[0].measured.result.attrs
    if models[0].level is not None:
        yield (
            f"Intervals of {percent(models[0].level)} from {attributes['n_boot']} replicates, seed "
            f"{attributes['seed']}."
        )
        if all(_is_corrected(model) for model in models):
            yield (
                "Intervals of calibration errors are corrected for the bias of absolute values under noise, and begin "
                "at 0 where a calibrated model would show such an error by chance."
            )
    else:
        yield "No intervals were computed."
    if any(model.measured.slices for model in models):
        names = dict.fromkeys(name for model in models for name in model.measured.slices)
        yield f"Slices by {', '.join(names)}, each by itself."
    versions = ", ".join(f"{name} {version}" for name, version in origin.versions.items())
    yield f"Date: {origin.date}. Versions: {versions}."


def _is_corrected(model: ModelResult) -> bool:
    return model.headline is not None and model.headline.interval_method == "corrected"


def _metrics(models: Sequence[ModelResult]) -> Iterator[Block]:
    if len(models) > 1:
        yield model_table(models)
    for model in models:
        if model.metrics:
            yield metric_table(model)
        if table := class_table(model):
            yield table


def _pictures(models: Sequence[ModelResult]) -> Iterator[Block]:
    drawn = [(model, _panels(model)) for model in models]
    if any(figures for _, figures in drawn):
        yield Paragraph(_READING, quiet=True)
    for model, figures in drawn:
        if figures:
            if len(models) > 1:
                yield Heading(model.name)
            yield Figures(figures)


def _panels(model: ModelResult) -> list[Figure]:
    """Diagram and curve of a model; of one with a panel for each class, the classes with the largest errors."""
    figures = []
    for label, bins, curve in sorted(model.drawn, key=lambda panel: -panel[1].error)[:_MOST_PANELS]:
        title = f"{model.name}, class {label}" if label else model.name
        figures.append(Figure(diagram_picture(bins, title), _caption(f"{title}: {_bins(bins)}", bins)))
        if curve is not None:
            figures.append(Figure(curve_picture(curve, title), _caption(f"{title}: curve", curve)))
    return figures


def _bins(bins: Bins) -> str:
    return counted(bins.score.size, "bin")


def _caption(words: str, shown: Bins | Curve) -> str:
    """What is drawn, with the kind of its intervals, and what the axis leaves out."""
    interval = interval_name(shown)
    return " ".join((f"{words}{f', {interval}' if interval else ''}.", *notes(shown)))


def _slices(models: Sequence[ModelResult]) -> Iterator[Block]:
    for model in models:
        for sliced in model.sliced:
            yield slice_table(model, sliced)
            if figures := _worst(sliced):
                number = len(sliced.slices)
                if number > _MOST_SLICES:
                    yield Paragraph(
                        f"Diagrams of slices by {sliced.name}: the {len(figures)} worst of {number}.", quiet=True
                    )
                yield Figures(figures, small=True)


def _worst(sliced: SlicesBy) -> list[Figure]:
    """Diagrams of the worst slices."""
    figures = []
    for piece in sliced.slices[:_MOST_SLICES]:
        for label, bins in piece.bins if len(piece.bins) == 1 else []:
            title = f"{sliced.name} {piece.label}{f', class {label}' if label else ''}"
            if bins.count.size:
                caption = _caption(f"{title}: {counted(int(bins.rows), 'row')}", bins)
                figures.append(Figure(diagram_picture(bins, title), caption))
    return figures


def _tests(models: Sequence[ModelResult]) -> Iterator[Block]:
    tested = [model for model in models if model.tests]
    for model in tested:
        yield test_table(model)
    if tested:
        yield Paragraph(
            "A p-value is the probability that a calibrated model would show a statistic as extreme as this one. A "
            "small one is evidence against calibration; a large one does not show calibration."
        )
    if any(model.rows >= MANY_ROWS for model in tested):
        yield Paragraph(
            "With as many rows as here, every model fails such a test: none is calibrated to the last digit. Judge "
            "by the size of the error and its interval."
        )


def _warnings(models: Sequence[ModelResult]) -> Iterator[Block]:
    for model in models:
        warnings = cautions(model)
        if warnings and len(models) > 1:
            yield Heading(model.name)
        if warnings:
            yield Listing(warnings)
        elif len(models) == 1:
            yield Paragraph(_NOTHING)
    yield Paragraph(
        "Rows are assumed to be independent of each other and of the rows that the model was fitted to; on these a "
        "model looks better than it is. The results hold for rows like these: another time or place may differ.",
        quiet=True,
    )


def _reproduce(models: Sequence[ModelResult], origin: Origin) -> Iterator[Block]:
    if origin.command:
        yield Code(origin.command)
    yield Paragraph(
        "The same data, versions and seeds give the same numbers on any number of workers (with weights, up to "
        "rounding). Random numbers come from the seeds above and those in the descriptions below."
    )
    yield Heading("Measures")
    yield Terms(_definitions(models))
    yield Heading("As they were computed")
    yield Listing(sorted({part.estimator for model in models for part in model.metrics}))


def _definitions(models: Sequence[ModelResult]) -> list[tuple[str, str, str]]:
    """Title, definition and source of everything that was measured, each once."""
    parts = [part for model in models for part in model.results if part.definition and part.metric != SPREAD]
    parts.sort(key=lambda part: part.estimator)
    return list({part.title: (part.title, part.definition, part.source) for part in parts}.values())
