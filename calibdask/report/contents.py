"""The contents of a report on models: its sections and their elements."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import xarray as xr

from calibdask.analyses.auditing.audit_document import audit_document
from calibdask.plot.frame import interval_name, notes
from calibdask.plot.naming import axes_of
from calibdask.render.drawing import common_frame, curve_picture, diagram_picture, overlay_notes
from calibdask.render.text_table import clusters_text
from calibdask.report.analysis_page import Origin, section_elements
from calibdask.report.banners import AUDITED, AUDITED_TITLE
from calibdask.report.cautions import cautions
from calibdask.report.first_page import against_the_first, decision, facts
from calibdask.report.measuring import CURVE, DIAGRAM, MARKS, SMOOTH, SPREAD
from calibdask.report.model_result import ModelResult, SlicesBy
from calibdask.report.numbers import few_numbers, profile_numbers
from calibdask.report.recalibration import recalibration
from calibdask.report.tables import (
    class_table,
    metric_table,
    rows_table,
    slice_table,
    test_table,
)
from calibdask.report.time_section import over_time
from calibdask.report.verdict import worst_slices
from calibdask.results.cautions import MANY_ROWS
from calibdask.results.document import (
    Code,
    Document,
    Element,
    Figure,
    Figures,
    Heading,
    Listing,
    Section,
    Sentence,
    Terms,
)
from calibdask.results.format import counted, joined, percent
from calibdask.results.reliability import BinnedReliability, SmoothReliability
from calibdask.results.values import PartResult

# Panels of a model with one for each class, and of the slices that are drawn.
_MOST_PANELS, _MOST_SLICES = 6, 4
_Parts = dict[str, tuple[str, Iterable[Element]]]
_POINTS = (
    "Each point is a bin, {up} against mean {across}, with a pointwise confidence interval; larger points hold more "
    "rows."
)
_LINE = "The line is the {up} given the {across}, smoothed over the nearest rows, with a pointwise confidence band."
_READING = (
    "The bars below count rows. On the dashed line scores are calibrated; below it they are too high (orange, full "
    "points), above it too low (blue, hollow points)."
)
_NOTHING = (
    "None of the checks found anything. They look for few rows, in all, in bins or in slices; wide intervals of "
    "slices; unequal weights; scores next to 0 or 1, or of few values; outcomes or classes that never occur; binned "
    "errors well above smooth ones."
)


def page_of(models: Sequence[ModelResult], origin: Origin, paired: xr.Dataset | str = "") -> Document:
    """The page of a report on models; ``paired`` is what `calibdask.compare` gives of them, or why there is nothing.

    The first page comes first; then each section answers one question in its first line; then the appendix.
    """
    lead = f"{counted(len(models), 'model')}, {_rows_each(models)}, {origin.date}"
    several = len(models) > 1
    parts: _Parts = {
        "decision": (
            "Decision" if any(model.decides for model in models) else "Findings",
            decision(models, origin.facts),
        ),
        "about": ("About", facts(models, origin.date)),
        "compared": (f"Against {models[0].name}", against_the_first(models, paired) if several else ()),
        "slices": ("Slices", [*_worst_of(models), *(() if several else _slices(models))]),
        "numbers": ("Numbers", few_numbers(models)),
        "filed": ("Profile numbers", profile_numbers(models)),
        "recalibration": ("Would recalibration help?", recalibration(models)),
        "time": ("Over time", over_time(models)),
        AUDITED: (AUDITED_TITLE, _audits(models)),
        "tests": ("Tests", _tests(models)),
        "warnings": ("Warnings", _warnings(models)),
        "reproduce": ("How to reproduce", _reproduce(origin)),
    }
    appendix: _Parts = {
        "pictures": ("Reliability", _pictures(models)),
        "by_slice": ("Slices of each model", _slices(models) if several else ()),
        "data": ("Data and settings", _data(models, origin)),
        "metrics": ("All metrics", _metrics(models)),
        "measures": ("Measures", _measures(models)),
    }
    if not several:
        # The diagram of one model is part of the first page, as several over each other are.
        parts = _with_second(parts, "decision", "pictures", appendix.pop("pictures"))
    titled = {**parts, **{anchor: (f"Appendix: {title}", made) for anchor, (title, made) in appendix.items()}}
    sections = [
        Section(anchor, title, elements, anchor == next(iter(appendix)))
        for anchor, (title, made) in titled.items()
        if (elements := list(made))
    ]
    made = f"Made by calibdask {origin.versions.get('calibdask', '')}, {origin.date}."
    return Document(origin.title, lead, sections, " ".join((made, *_hashes(models))))


def _with_second(parts: _Parts, after: str, anchor: str, part: tuple[str, Iterable[Element]]) -> _Parts:
    """The parts with one more after another one."""
    names = list(parts)
    place = names.index(after) + 1
    return {name: {**parts, anchor: part}[name] for name in (*names[:place], anchor, *names[place:])}


def _hashes(models: Sequence[ModelResult]) -> Iterator[str]:
    """The hash of the receipt, and the fingerprint of the rows, of each model."""
    for model in models:
        own = f" of {model.name}" if len(models) > 1 else ""
        if model.measured.receipt:
            yield f"Hash of the receipt{own}: {model.measured.receipt['hash']}."
        if model.measured.fingerprint:
            yield f"Fingerprint of the rows{own}: {model.measured.fingerprint}."


def _rows_each(models: Sequence[ModelResult]) -> str:
    """Rows of each model; totals over models are meaningless if they share rows."""
    fewest, most = min(model.rows for model in models), max(model.rows for model in models)
    if len(models) == 1:
        return counted(most, "row")
    return f"{counted(most, 'row')} each" if fewest == most else f"{fewest:,} to {counted(most, 'row')} each"


def _data(models: Sequence[ModelResult], origin: Origin) -> Iterator[Element]:
    yield rows_table(models)
    yield Listing(list(_settings(models, origin)))


def _settings(models: Sequence[ModelResult], origin: Origin) -> Iterator[str]:
    attributes = models[0].measured.result.attrs
    if models[0].level is not None:
        gates = [model.measured.gate for model in models if model.measured.gate is not None]
        counts = {int(gate.result.attrs.get("n_boot") or 0) for gate in gates} - {0, int(attributes["n_boot"])}
        deciding = "".join(f"{count:,} for limits and profile numbers, " for count in sorted(counts))
        yield (
            f"Intervals of {percent(models[0].level)}; replicates: {deciding}{attributes['n_boot']:,} for "
            f"{'other' if counts else 'all'} numbers; seed {attributes['seed']}."
        )
        if all(_is_corrected(model) for model in models):
            yield (
                "Intervals of calibration errors are corrected for the bias of absolute values, and start at 0 if the "
                "error is consistent with calibration."
            )
    else:
        yield "No intervals were computed."
    if any(model.measured.slices for model in models):
        names = dict.fromkeys(name for model in models for name in model.measured.slices)
        yield f"Slices by {', '.join(names)}, one column at a time."
    yield f"Date: {origin.date}."


def _is_corrected(model: ModelResult) -> bool:
    return model.headline is not None and model.headline.interval_method == "corrected"


def _metrics(models: Sequence[ModelResult]) -> Iterator[Element]:
    for model in models:
        if model.metrics:
            yield metric_table(model)
        if table := class_table(model):
            yield table


def _pictures(models: Sequence[ModelResult]) -> Iterator[Element]:
    drawn = [(model, _panels(model)) for model in models]
    if any(figures for _, figures in drawn):
        across, up = axes_of(models[0].kind)
        has_line = any(curve is not None and _is_drawn(curve) for model in models for _, _, curve in model.drawn)
        words = " ".join((_POINTS, _LINE, _READING) if has_line else (_POINTS, _READING))
        yield Sentence(words.format(across=across, up=up), quiet=True)
    for model, figures in drawn:
        if figures:
            if len(models) > 1:
                yield Heading(model.name)
            yield Figures(figures)


def _panels(model: ModelResult) -> list[Figure]:
    """Diagram and curve of a model; of one with a panel for each class, the classes with the largest errors."""
    figures = []
    names = axes_of(model.kind)
    for label, bins, curve in sorted(model.drawn, key=lambda panel: -panel[1].error)[:_MOST_PANELS]:
        title = f"{model.name}, class {label}" if label else model.name
        # Where there is no curve nothing is drawn, and the diagram says why.
        empty = curve is not None and not _is_drawn(curve)
        why = [words for words in notes(curve) if words.startswith("No curve")] if curve is not None and empty else []
        caption = " ".join((_caption(f"{title}: {_bins(bins)}", bins), *why))
        figures.append(Figure(diagram_picture(bins, title, names), caption))
        if curve is not None and not empty:
            figures.append(Figure(curve_picture(curve, title, names), _caption(f"{title}: curve", curve)))
    return figures


def _is_drawn(curve: SmoothReliability) -> bool:
    """Whether a line joins two points at least."""
    known = np.isfinite(curve.reliability)
    return bool((known[1:] & known[:-1]).any())


def _bins(bins: BinnedReliability) -> str:
    return counted(bins.score.size, "bin")


def _caption(words: str, shown: BinnedReliability | SmoothReliability) -> str:
    """Caption of a picture, with the kind of intervals and omitted data."""
    interval = interval_name(shown)
    return " ".join((f"{words}{f', {interval}' if interval else ''}.", *notes(shown)))


def _worst_of(models: Sequence[ModelResult]) -> Iterator[Element]:
    """The worst slice of each model, and whether it stands out."""
    for model in models:
        if worst := list(worst_slices(model)):
            if len(models) > 1:
                yield Heading(model.name)
            yield Listing(worst)


def _slices(models: Sequence[ModelResult]) -> Iterator[Element]:
    for model in models:
        for sliced in model.sliced:
            yield slice_table(model, sliced)
            yield from _worst(sliced, axes_of(model.kind))


def _worst(sliced: SlicesBy, names: tuple[str, str]) -> Iterator[Element]:
    """Diagrams of the worst slices on common axes."""
    shown: dict[str, BinnedReliability] = {}
    for piece in sliced.slices[:_MOST_SLICES]:
        for label, bins in piece.bins if len(piece.bins) == 1 else []:
            if bins.count.size:
                shown[f"{sliced.name} {piece.label}{f', class {label}' if label else ''}"] = bins
    if not shown:
        return
    number, frame = len(sliced.slices), common_frame([*shown.values()])
    if number > _MOST_SLICES:
        yield Sentence(f"Diagrams of slices by {sliced.name}: the {len(shown)} worst of {number}.", quiet=True)
    figures = [
        Figure(diagram_picture(bins, title, names, frame), f"{title}: {counted(int(bins.rows), 'row')}.")
        for title, bins in shown.items()
    ]
    yield Figures(figures, small=True)
    intervals = {interval_name(bins) for bins in shown.values()} - {""}
    words = [f"Bars: {joined(sorted(intervals))}s." if intervals else "", *overlay_notes(shown)]
    if any(words):
        yield Sentence(" ".join(filter(None, words)), quiet=True)


def _tests(models: Sequence[ModelResult]) -> Iterator[Element]:
    tested = [model for model in models if model.tests]
    if tested:
        yield Sentence(_rejected(tested))
    for model in tested:
        yield test_table(model)
    if tested:
        yield Sentence(
            "A p-value is the probability that a calibrated model would show a statistic as extreme as this one. A "
            "small one is evidence against calibration; a large one does not show calibration."
        )
    if any(model.rows >= MANY_ROWS for model in tested):
        yield Sentence(
            "With this many rows even negligible errors are significant: judge by the size of the error and its "
            "interval."
        )


def _rejected(models: Sequence[ModelResult]) -> str:
    """Models that the tests reject."""
    alpha = models[0].alpha
    of = {model.name: model.calibration_tests for model in models}
    rejected = {name: sum(one.pvalue < alpha for one in tests) for name, tests in of.items()}
    found = [f"{name} by {number} of {counted(len(of[name]), 'test')}" for name, number in rejected.items() if number]
    if not any(of.values()):
        return "None of these tests is a test of calibration that is defined for these rows."
    if not found:
        return f"No test rejects calibration at the {percent(alpha)} level, which is no evidence of calibration."
    return f"Calibration is rejected at the {percent(alpha)} level: {joined(found)}."


def _warnings(models: Sequence[ModelResult]) -> Iterator[Element]:
    for model in models:
        warnings = cautions(model)
        if warnings and len(models) > 1:
            yield Heading(model.name)
        if warnings:
            yield Listing(warnings)
        elif len(models) == 1:
            yield Sentence(_NOTHING)
    clustered = all(clusters_text(model.measured.result) for model in models)
    yield Sentence(
        f"{'Clusters' if clustered else 'Rows'} are assumed to be independent of each other and of the training data, "
        "on which a model looks better "
        "than it is. Results apply to similar data; other periods or places may differ.",
        quiet=True,
    )


def _reproduce(origin: Origin) -> Iterator[Element]:
    yield Sentence(
        "The same data, versions and seeds give the same numbers on any number of workers (with weights, up to "
        "rounding)."
    )
    if origin.command:
        yield Code(origin.command, copied=True)
    versions = ", ".join(f"{name} {version}" for name, version in origin.versions.items())
    yield Sentence(f"Versions: {versions}.", quiet=True)


def _measures(models: Sequence[ModelResult]) -> Iterator[Element]:
    yield Terms(_definitions(models))
    yield Heading("Exact settings")
    yield Sentence("Random seeds are listed above and in these descriptions.")
    yield Listing(sorted({part.estimator for model in models for part in model.metrics}))


def _definitions(models: Sequence[ModelResult]) -> list[tuple[str, str, str]]:
    """Title, definition and source of everything that was measured, each once."""
    parts = [part for model in models for part in model.results if part.definition and part.metric != SPREAD]
    parts.sort(key=lambda part: part.estimator)
    drawn = {part.metric for part in parts}
    named = [(_defined(part, drawn), part.definition, part.source) for part in parts]
    return list({words[0]: words for words in named}.values())


def _defined(part: PartResult, drawn: set[str]) -> str:
    """The title of a definition; of a curve that sentences rest on and another one is drawn instead, with that."""
    for own, other in ((CURVE, SMOOTH), (DIAGRAM, MARKS)):
        if part.metric == own and other in drawn:
            return f"{part.title} (not drawn), the basis of numbers and sentences"
    return part.title


def _audits(models: Sequence[ModelResult]) -> Iterator[Element]:
    """The documents of the audits of all models."""
    audits = {model.name: model.measured.audited for model in models if model.measured.audited is not None}
    for place, (name, result) in enumerate(audits.items(), 1):
        if len(models) > 1:
            yield Heading(name)
        yield from section_elements(audit_document(result, anchors=f"column-{place}"), f"audit-{place}")
