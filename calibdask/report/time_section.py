"""The section of a report on calibration over time."""

from collections.abc import Iterator, Mapping, Sequence

from calibdask.plot.changes import change_picture, change_text
from calibdask.plot.over_time import (
    evidence_picture,
    gap_picture,
    small_caption,
    small_picture,
    small_range,
)
from calibdask.report.model_result import ModelResult
from calibdask.report.over_time import ModelOverTime
from calibdask.results.document import Cell, Element, Figure, Figures, Finding, Findings, Sentence, Table, number, text
from calibdask.results.format import counted, percent
from calibdask.results.over_time import (
    OverTime,
    evidence_text,
    others_text,
    period_text,
    points_text,
    ranked,
    sentence,
)

_MOST_SMALL, _MOST_LINES = 12, 20


def over_time(models: Sequence[ModelResult]) -> Iterator[Element]:
    """The elements of all models that have been watched."""
    given = [(model.name, model.measured.over_time) for model in models]
    shown = [(name, watched) for name, watched in given if watched is not None]
    if not shown:
        return
    yield Findings([_finding(name, watched) for name, watched in shown])
    yield Sentence(_reading(shown[0][1]), quiet=True)
    for name, watched in shown:
        yield from _model(f"{name}: " if len(shown) > 1 else "", watched)


def _finding(name: str, watched: ModelOverTime) -> Finding:
    if watched.leading is None:
        return Finding(name, "unknown", "There are no rows in any period.", [])
    sentences = [others_text(watched.leading, [*watched.whole, *watched.all_slices]), _changed(watched)]
    outcome = "error" if watched.leading.is_off else ""
    return Finding(name, outcome, sentence(watched.leading, watched.since), [*filter(None, sentences)])


def _changed(watched: ModelOverTime) -> str:
    """Whether people have changed or behaviour, where something is off."""
    caption = [
        f"by {name or 'groups of scores'}, {change_text(changes[0])}" for name, changes in watched.changes.items()
    ]
    return f"Change of the mean gap of all rows since then: {'; '.join(caption)}." if caption else ""


def _reading(watched: ModelOverTime) -> str:
    watching = watched.watching
    size = 100 * watching.tolerance
    null = f"within {size:g} point{'' if size == 1 else 's'} of the scores" if size else "as the scores say"
    marks = " Dotted lines: a new version of the model." * bool(watched.marks)
    late = " Grey periods are not due: their outcomes are not all known, and they are not tested." * bool(
        watched.pending is not None
    )
    return (
        "Gaps: observed rate minus mean prediction so far, with a confidence sequence valid at all periods with "
        f"probability {percent(1 - watching.alpha)}; grey and faint, each {watching.period} alone with an ordinary "
        "interval, which would raise repeated false alarms. Above 0 scores are too low. Evidence: an e-process against "
        f"frequencies {null}; among calibrated "
        f"models at most {percent(watching.alpha)} ever reach the dashed line, however often one looks. Shaded: the "
        f"period over which the evidence grows.{marks}{late}"
    )


def _model(name: str, watched: ModelOverTime) -> Iterator[Element]:
    leading = watched.leading
    main = ranked(watched.whole)[:1] or list(watched.whole[:1])
    if leading is not None and leading not in main:
        main.append(leading)
    figures = [figure for process in main for figure in _pair(name, process, watched)]
    yield Figures(figures)
    for slices_name, processes in {**_classes(watched), **watched.slices}.items():
        yield from _slices(name, slices_name, processes, watched)
    for slices_name, changes in watched.changes.items():
        caption = f"by {slices_name}" if slices_name else "by groups of scores"
        since = period_text(leading.since) if leading is not None else ""
        level = f"with {percent(1 - watched.watching.alpha)} intervals"
        if watched.clusters:
            level = "without intervals, as rows of a cluster are dependent (here each row counts once)"
        words = f"{name or 'What changed, '}{caption}: from before {since} to since then, {level}"
        yield Figures([Figure(change_picture(changes, words), words)])


def _classes(watched: ModelOverTime) -> Mapping[str, Sequence[OverTime]]:
    """Class-wise scores are watched class by class."""
    return {"class": watched.whole} if len(watched.whole) > 1 else {}


def _pair(name: str, process: OverTime, watched: ModelOverTime) -> list[Figure]:
    # Pending rows are known of all rows together.
    whole = process in watched.whole
    given = (process, watched.marks, watched.pending if whole else None)
    whom = f"{name}{process.label or 'all rows'}"
    return [
        Figure(gap_picture(*given), f"{whom}: {points_text(process.running)} so far"),
        Figure(evidence_picture(*given), f"{whom}: evidence {evidence_text(process.evidence)}"),
    ]


def _slices(name: str, slices_name: str, processes: Sequence[OverTime], watched: ModelOverTime) -> Iterator[Element]:
    order = ranked(processes)
    if not order:
        return
    yield _table(f"{name or 'Over time '}by {slices_name}, most evidence first", order, len(processes))
    powers = small_range(order[:_MOST_SMALL])
    figures = [Figure(small_picture(one, powers), small_caption(one)) for one in order[:_MOST_SMALL]]
    yield Figures(figures, small=True)


def _table(caption: str, order: Sequence[OverTime], processes: int) -> Table:
    columns = [(name, name != "since") for name in ("slice", "rows", "gap so far", "evidence", "largest", "since")]
    columns[0] = ("slice", False)
    notes = [
        f"The first {_MOST_LINES} of {len(order):,}." if len(order) > _MOST_LINES else "",
        f"{counted(processes - len(order), 'slice')} without rows." if processes > len(order) else "",
        "Since: for slices that are discoveries of e-BH, with a false discovery rate of at most "
        f"{percent(order[0].alpha)}.",
    ]
    return Table(caption, columns, [_line(one) for one in order[:_MOST_LINES]], " ".join(filter(None, notes)))


def _line(process: OverTime) -> list[Cell]:
    gap = process.running
    value, _, ends = points_text(gap).partition(" (")
    rows = int(process.rows.sum())
    return [
        text(process.label),
        number(rows, f"{rows:,}"),
        number(gap.value, value, ends.removesuffix(")")),
        number(process.evidence, evidence_text(process.evidence)),
        number(process.largest, evidence_text(process.largest)),
        text(period_text(process.since) if process.is_off else "–"),
    ]
