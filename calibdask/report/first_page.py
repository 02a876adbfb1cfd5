"""The first page of a report: facts, decisions, slices by model, comparison of models."""

import math
from collections.abc import Iterator, Mapping, Sequence

import xarray as xr

from calibdask.analyses.gating.gate import Gate
from calibdask.plot.naming import axes_of
from calibdask.render.drawing import (
    FEWEST_ROWS,
    MOST_MODELS,
    common_frame,
    diagram_picture,
    forest,
    forest_range,
    overlay_notes,
    overlay_picture,
)
from calibdask.render.text_table import clusters_text
from calibdask.report.banners import banner, by_name
from calibdask.report.human_names import human
from calibdask.report.matrix import adjustment, event_noun, gap_matrix, limit_matrix
from calibdask.report.model_result import ModelResult
from calibdask.report.slices import events_of
from calibdask.results.comparison import Comparison, Difference, comparisons, verdicts
from calibdask.results.document import (
    Cell,
    Element,
    Facts,
    Figure,
    Figures,
    Listing,
    Sentence,
    Signature,
    Table,
    number,
    text,
)
from calibdask.results.format import counted, joined, minus, named, percent, slice_text

_READING = (
    "Differences are model minus first model. In every bootstrap replicate all models are evaluated on the same "
    "resampled rows, so differences are precise. Lower scores and errors are better."
)

# What people say about a page, in the order of the grid; other names follow.
_FACTS = ("model", "version", "purpose", "outcome", "period", "limits", "author")
# What nobody can approve a model without: where limits decide, the page says that it is missing.
_NEEDED, _MISSING = ("outcome", "period", "limits"), "not stated"
_DECIDING = (
    "Shaded: values within the limit. A limit is met if the whole interval is within it, broken if none of it is, and "
    "undecided otherwise. For a calibration error the interval is the union of the bootstrap interval and a "
    "finite-sample interval by betting (Waudby-Smith & Ramdas, 2024), as replicates of few events vary too little."
)
_DIGITS = 16
_OVERLAID = (
    "One line per model through its bins, with pointwise intervals; bins of fewer than "
    f"{FEWEST_ROWS} rows are omitted. Scores are calibrated on the dashed line and too high below it."
)


def stated_facts(models: Sequence[ModelResult], given: Mapping[str, str]) -> Iterator[Facts]:
    """Facts stated by the user; with limits, also required facts that are missing."""
    missing = dict.fromkeys(_NEEDED, _MISSING) if any(model.decides for model in models) else {}
    known = {**missing, **_periods(models), **given}
    if known:
        facts_by_name = {"model": named([model.name for model in models]), **known}
        yield _grid([(name, facts_by_name[name]) for name in (*_FACTS, *facts_by_name) if name in facts_by_name])


def facts(models: Sequence[ModelResult], date: str) -> Iterator[Facts]:
    """Facts about the rows, and the date of the page."""
    items: list[tuple[str, str]] = []
    for model in models:
        of = f" of {model.name}" if len(models) > 1 else ""
        items += [(f"data{of}", "; ".join(filter(None, (_data(model), _rows(model)))))]
        items += [(f"{fact}{of}", words) for fact, words in _clusters(model)]
        items += [(f"left out{of}", model.unused_rows)] if model.unused_rows else []
        items += [(f"fingerprint{of}", words) for words in (_shortened(model.measured.fingerprint),) if words]
    yield _grid([*items, ("made", date)])


def _grid(items: Sequence[tuple[str, str]]) -> Facts:
    return Facts([(name[:1].upper() + name[1:], words) for name, words in dict(items).items()])


def _periods(models: Sequence[ModelResult]) -> dict[str, str]:
    """From which period to which the rows are, where they are watched over time."""
    watched = [model.measured.over_time for model in models if model.measured.over_time is not None]
    ends = {(slice_text(one.periods[0]), slice_text(one.periods[-1])) for own in watched for one in own.whole[:1]}
    return {"period": " to ".join(dict.fromkeys(*ends))} if len(ends) == 1 else {}


def _shortened(fingerprint: str) -> str:
    return f"{fingerprint[:_DIGITS]}… (in full at the end)" if len(fingerprint) > _DIGITS else fingerprint


def _data(model: ModelResult) -> str:
    return ", ".join(filter(None, (model.measured.source, model.measured.size)))


def _rows(model: ModelResult) -> str:
    rows, events = counted(model.rows, "row"), events_of(model.results)
    if events != events:  # NaN
        return rows
    share = float(model.results.totals["frequency"])
    return f"{rows}, {counted(round(events), event_noun(model))} ({percent(share)})"


def _clusters(model: ModelResult) -> Iterator[tuple[str, str]]:
    """The number of clusters, and the equivalent number of independent rows."""
    if words := clusters_text(model.measured.result):
        yield "clusters", words


def decision(models: Sequence[ModelResult], given: Mapping[str, str]) -> Iterator[Element]:
    """Facts, a banner for each model, slices by model, and a signature box."""
    yield from stated_facts(models, given)
    yield from (banner(model, several=len(models) > 1) for model in models)
    for words, names in _unused(models).items():
        yield Sentence(words if len(names) == len(models) else f"Of {joined(names)}: {words}")
    if not any(model.decides for model in models):
        yield from _side_by_side(models)
    gates = [(model, gate) for model in models if model.decides and (gate := model.measured.gate) is not None]
    if gates:
        yield limit_matrix(gates)
        yield Sentence(" ".join((_DECIDING, *_adjusted(gates), *_meanings(gates))), quiet=True)
    elif any(model.sliced for model in models) and (table := gap_matrix(models)) is not None:
        yield table
    yield Signature()


def _unused(models: Sequence[ModelResult]) -> dict[str, list[str]]:
    """Sentences on rows that are not used, with the names of their models."""
    names: dict[str, list[str]] = {}
    for model in models:
        if words := model.unused_rows:
            names.setdefault(words, []).append(model.name)
    return names


def _side_by_side(models: Sequence[ModelResult]) -> Iterator[Figures]:
    """Draw the diagrams of several models as small multiples with shared axes."""
    drawn = [(model, model.drawn[0][1]) for model in models[:MOST_MODELS] if len(model.drawn) == 1]
    if len(drawn) < 2:
        return
    names, frame = axes_of(models[0].kind), common_frame([bins for _, bins in drawn])
    figures = [
        Figure(diagram_picture(bins, model.name, names, frame), ", ".join(_facts_of_diagram(model)))
        for model, bins in drawn
    ]
    yield Figures(figures, small=True)


def _facts_of_diagram(model: ModelResult) -> Iterator[str]:
    """Name, rows, and observed over expected events of a model."""
    yield f"{model.name}: {counted(model.rows, 'row')}"
    if model.kind == "class" and math.isfinite(model.observed_expected):
        yield f"O/E {model.observed_expected:.2f}"


def _adjusted(gates: Sequence[tuple[ModelResult, Gate]]) -> Iterator[str]:
    if adjusted := adjustment(gates[0][1]):
        yield f"Intervals of slices are {adjusted}{', separately for each model' if len(gates) > 1 else ''}."


def _meanings(gates: Sequence[tuple[ModelResult, Gate]]) -> Iterator[str]:
    """Definitions that have limits."""
    found = [one for _, gate in gates for one in gate.judgements]
    for one in {one.limit: one for one in found if one.meaning}.values():
        # Without choices bins are of equal width.
        width = " of equal width" if one.limit == "ece" and one.meaning.endswith("bins") else ""
        yield f"{by_name(one).limit}: {one.meaning}{width}."


def against_the_first(models: Sequence[ModelResult], result: xr.Dataset | str) -> Iterator[Element]:
    """Several models against the first, and their diagrams over each other."""
    yield from compared(result)
    drawn = {model.name: model.drawn[0][1] for model in models if len(model.drawn) == 1}
    if len(drawn) < 2:
        return
    shown = dict(list(drawn.items())[:MOST_MODELS])
    more = f" The first {MOST_MODELS} of {len(drawn)} models." if len(drawn) > MOST_MODELS else ""
    picture = overlay_picture(shown, *axes_of(models[0].kind))
    yield Figures([Figure(picture, " ".join((f"{_OVERLAID}{more}", *overlay_notes(shown))))], wide=True)


def compared(result: xr.Dataset | str) -> Iterator[Element]:
    """Sentences on which model is better, and all differences; or the reason why there is no comparison."""
    if isinstance(result, str):
        if result:
            yield Sentence(f"The models are not compared by pairs of rows: {result}")
        return
    yield Listing([minus(words) for words in verdicts(result)])
    yield _table(list(comparisons(result)), float(result.attrs["ci"]))
    skipped = result.attrs.get("rows_skipped", 0)
    left_out = f" {counted(skipped, 'row')} without a label or a score are excluded." * bool(skipped)
    yield Sentence(f"{_READING}{left_out}", quiet=True)


def _table(every: list[Comparison], level: float) -> Table:
    reaches = {
        name: forest_range([end for one in every for own in one.table_rows if own.name == name for end in _ends(own)])
        for name in dict.fromkeys(own.name for one in every for own in one.table_rows)
    }
    rows: list[list[Cell]] = []
    for name, reach in reaches.items():
        for one in every:
            rows += [_row(one, own, reach) for own in one.table_rows if own.name == name]
    adjusted = any("pvalue_holm" in own.pvalues for one in every for own in one.table_rows)
    columns = [("number", False), (f"{percent(level)} interval; the line is 0", False)]
    columns += [("difference", True), ("of each", True), ("p, adjusted" if adjusted else "p", True)]
    return Table(f"Differences from {every[0].baseline}", columns, rows)


def _row(one: Comparison, own: Difference, reach: tuple[float, float]) -> list[Cell]:
    baseline, model, *difference = own.texts
    shown, *ends = (minus(word) for word in difference)
    return [
        text(_title(own), f"{one.model} minus {one.baseline}"),
        Cell(picture=forest(own.difference, own.low, own.high, reach)),
        number(own.difference, shown, " to ".join(ends)),
        Cell(f"{model} and {baseline}", numeric=True),
        number(own.pvalue, own.pvalue_text.removeprefix("p = ").removeprefix("p ")),
    ]


def _title(own: Difference) -> str:
    name = f"{own.part.title}, debiased" if own.part.choices.get("debias") else human(own.part.title)
    return name + own.place


def _ends(own: Difference) -> tuple[float, float, float]:
    return own.difference, own.low, own.high
