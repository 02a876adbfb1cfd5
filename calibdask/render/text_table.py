"""Results as lines of text that fit a width: no number is ever cut, words make room for numbers."""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.axes import column_name
from calibdask.estimators.about import LOSSES
from calibdask.estimators.slice_totals import TOTALS
from calibdask.render.own_tables import MOST_CLASSES, own_tables
from calibdask.render.text_layout import (
    GAP,
    INDENT,
    SHORTEST,
    Column,
    Line,
    aligned,
    asides,
    column_widths,
    folded,
    folded_heading,
    table_lines,
    width_of,
    wrapped,
)
from calibdask.results.build import CLUSTER_NOTES, METRICS_LEFT_OUT, sentences_of
from calibdask.results.cautions import FEW_IN_A_SLICE, of_metrics
from calibdask.results.format import counted, rests_on, shown_texts, slice_text
from calibdask.results.values import PartResult, Results
from calibdask.safe_text import listed, visible
from calibdask.statistics.cluster_sums import MOST_CLUSTERS
from calibdask.statistics.views.clusters import FEWEST_CLUSTERS

# More slices than these are for files.
MOST_SLICES = 200
_LONGEST_LABEL = 40
_NARROWEST_MEANING = 24
# Events, their frequency and the mean score where events are right predictions.
_OF_CONFIDENCE = {"events": "right", "frequency": "accuracy", "mean_score": "mean confidence"}


def result_lines(
    dataset: xr.Dataset,
    width: int,
    *,
    rule: str = "─",
    rest: str = "",
    strata: Sequence[int] | None = None,
    classes: int = MOST_CLASSES,
) -> Iterator[Line]:
    """A line for each number, or with slices a line for each slice and columns for its rows and numbers.

    Intervals stand beside their number; where columns do not fit, there are several tables. Metrics of classes and
    curves have a table each.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `calibdask.evaluate`.
    width : int
        Columns of text. Where numbers alone need more they get it.
    rule : str, default "─"
        What the line under a heading is made of.
    rest : str, optional
        Where the slices are told that are too many for a table.
    strata : sequence of int, optional
        The slices to show, by their position among all combinations; by default all, up to `MOST_SLICES`.
    classes : int, default 10
        The number of classes to show of metrics that have a value for each class.

    Examples
    --------
    >>> import calibdask as cd
    >>> from calibdask.render.text_layout import joined
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2)})
    >>> [*map(joined, result_lines(result, 60))][2]
    'ece      0.25  mean gap of score and frequency, in 2 bins'
    """
    results = Results(dataset)
    if results.numbers and not results.shared_dims:
        yield from _of_numbers(results, width, rule)
    elif results.numbers:
        places = shown_strata(results) if strata is None else strata
        yield from _of_slices(results, places, width, rule)
        hidden = _strata_of(results) - len(places)
        if hidden > 0:
            yield from asides(f"... and {hidden:,} more slices{rest}", width)
    for number, (title, lines) in enumerate(own_lines(results, width, rule=rule, classes=classes)):
        if number or results.numbers:
            yield ()
        yield ((title, "head"),)
        yield from lines


def own_lines(
    results: Results, width: int, *, rule: str = "─", classes: int = MOST_CLASSES
) -> Iterator[tuple[str, list[Line]]]:
    """The title and the lines of the tables of metrics of classes and of curves."""
    for table in own_tables(results, classes):
        shown = _of_slices(Results(table.dataset), table.places, width, rule)
        yield table.title, [*shown, *asides(table.note, width)]


def _of_slices(results: Results, places: Sequence[int], width: int, rule: str) -> Iterator[Line]:
    """Tables with a line for each of these slices; none without slices."""
    if not places:
        return
    for number, columns in enumerate(_tables(results, places, width)):
        if number:
            yield ()
        yield from table_lines(columns, rule)


def result_columns(dataset: xr.Dataset) -> list[Column]:
    """The columns of the table as wide as it gets: of numbers, or of slices.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ECE(bins=2), by={"day": [1, 1, 2, 2]})
    >>> [" ".join(column.heading) for column in result_columns(result)]
    ['day', 'rows', 'events', 'mean score', 'frequency', 'ece']
    """
    results = Results(dataset)
    if not results.shared_dims:
        named, *numbers = _number_columns(results)
        return [
            named,
            *numbers,
            Column(["meaning"], [[meaning_column] for meaning_column in _meanings(results)], role="aside"),
        ]
    places = shown_strata(results)
    heads = [*_label_columns(results, places, sys.maxsize), *_total_columns(results, places)]
    return [*heads, *(column for part in results.shown for column in _beside(results, part, places))]


def shown_strata(results: Results) -> range:
    """The positions of slices that a table shows, unless some are chosen."""
    return range(min(MOST_SLICES, _strata_of(results)))


def _strata_of(results: Results) -> int:
    return math.prod(results.dataset.sizes[dim] for dim in results.shared_dims)


def foot_lines(dataset: xr.Dataset, width: int, *further: str) -> Iterator[Line]:
    """Lines below the table: rows, passes and intervals, and further text.

    Examples
    --------
    >>> import calibdask as cd
    >>> from calibdask.render.text_layout import joined
    >>> [joined(line) for line in foot_lines(cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ECE()), 100)]
    ['4 rows, 3 events (frequency 0.75, mean score 0.50), 1 pass over the data']
    """
    facts = rests_on(dataset.attrs) if {"rows", "passes"} <= dataset.attrs.keys() else []
    yield from asides(", ".join((*facts[:1], *_events(dataset), *facts[1:], *further)), width)
    if "weights" in dataset.attrs:
        column = visible(str(dataset.attrs["weights"]))
        yield from asides(f"weighted by {column}: all numbers but the rows use the weights", width)
    yield from asides(f"scores calibrated by {dataset.attrs['map']}" if "map" in dataset.attrs else "", width)
    yield from asides(clusters_text(dataset), width)
    results = Results(dataset)
    for note in (*sentences_of(dataset, CLUSTER_NOTES), *sentences_of(dataset, METRICS_LEFT_OUT)):
        yield from asides(note, width)
    yield from asides(_unknown_ends(results), width)
    yield from asides(_untold_ends(results), width)
    for caution in of_metrics(results.numbers):
        yield from asides(caution, width)


def clusters_text(dataset: xr.Dataset) -> str:
    """The number of clusters, and the equivalent number of independent rows; empty without clusters.

    Examples
    --------
    >>> import numpy as np, calibdask as cd
    >>> rng = np.random.default_rng(0)
    >>> frame = {"label": np.repeat(rng.random(50) < 0.5, 20), "score": rng.random(1000), "race": np.arange(1000) // 20}
    >>> clusters_text(cd.evaluate(frame, metrics=cd.BrierScore(), groups="race"))
    '50 clusters (race); 1,000 rows are worth about 64 independent ones'
    """
    if "clusters" not in dataset.coords:
        return ""
    clusters, worth = dataset.coords["clusters"], dataset.coords["effective_rows"]
    # Of a summary, and of more clusters than are kept, the number is an estimate.
    is_estimate = dataset.attrs.get("passes") == 0 or int(clusters.values.sum()) > MOST_CLUSTERS
    about = "about " if is_estimate else ""
    name = dataset.attrs.get("groups", "groups")
    of_name = "" if name == "groups" else f" ({visible(str(name))})"
    least, most = int(clusters.values.min()), int(clusters.values.max())
    if clusters.ndim:
        if least == most:
            return f"{about}{least:,} clusters{of_name} in each slice"
        return f"{about}{least:,} to {most:,} clusters{of_name} in a slice"
    if not np.isfinite(worth.values) or least < FEWEST_CLUSTERS:
        # So few clusters do not determine the intracluster correlation.
        return f"{about}{least:,} clusters{of_name}"
    digits = max(0, int(np.floor(np.log10(max(1.0, float(worth))))) - 1)
    rounded = int(round(float(worth), -digits))
    rows = int(dataset.coords["rows"])
    return f"{about}{int(clusters):,} clusters{of_name}; {rows:,} rows are worth about {rounded:,} independent ones"


def _unknown_ends(results: Results) -> str:
    """Where scores and their terms have no intervals, if they have some elsewhere."""
    frequency = results.totals.get("frequency")
    has_scores = any(part.kind in LOSSES and part.has_interval for part in results.numbers)
    if frequency is None or not has_scores or not np.isin(frequency.values, (0, 1)).any():
        return ""
    where = "in slices where all outcomes are" if frequency.ndim else "since all outcomes are"
    return f"no intervals of scores and their terms {where} equal"


def _untold_ends(results: Results) -> str:
    """Scores and terms for which a summary has no intervals."""
    if "ci" not in results.dataset.attrs or results.dataset.attrs.get("passes") != 0:
        return ""
    metrics = dict.fromkeys(part.metric for part in results.numbers if part.kind in LOSSES and not part.has_interval)
    return f"no intervals of {listed([*metrics])}: a summary does not determine their variance" if metrics else ""


def _events(dataset: xr.Dataset) -> Iterator[str]:
    """Events, their frequency and the mean score of a result without slices."""
    totals = {name: dataset.coords[name] for name in TOTALS if name in dataset.coords}
    if totals.keys() < {*TOTALS} or any(variable.ndim for variable in totals.values()):
        return
    rows, events, score, frequency = (variable.item() for variable in totals.values())
    noun = "event" if events == 1 else "events"
    noun = f"weighted {noun}" if "weights" in dataset.attrs else noun
    event, share, mean = _OF_CONFIDENCE.values() if _is_right(dataset) else (noun, "frequency", "mean score")
    (count,) = shown_texts(events, kind="count")
    (of_event,), (of_score,) = (shown_texts(value, rows=rows) for value in (frequency, score))
    yield f"{count} {event} ({share} {of_event}, {mean} {of_score})"


def _is_right(dataset: xr.Dataset) -> bool:
    """Whether events are right predictions."""
    return "events" in dataset.coords and dataset.coords["events"].attrs.get("setting") == "confidence"


def label_of(value: Any, longest: int = _LONGEST_LABEL) -> str:
    r"""The label of a slice, shortened; what would move the cursor or colour the screen is written out.

    Examples
    --------
    >>> label_of("de"), label_of("\x1b[31mred"), label_of("abcdefgh", 6)
    ('de', '\\x1b[31mred', 'abc...')
    """
    text = visible(slice_text(value))
    if width_of(text) <= longest:
        return text
    while width_of(text) > longest - 3:
        text = text[:-1]
    return text + "..."


def _of_numbers(results: Results, width: int, rule: str) -> Iterator[Line]:
    """Numbers with their intervals beside them; what they say stands beside these, or beneath in narrow places."""
    named, *numbers = _number_columns(results)
    used = column_widths(numbers)
    left = width - named.width - used - len(GAP)
    meanings = _meanings(results)
    if not any(meanings):
        yield from table_lines([named, *numbers], rule)
    elif left >= _NARROWEST_MEANING:
        meaning_column = Column(["meaning"], [wrapped(meaning, left) for meaning in meanings], role="aside")
        yield from table_lines([named, *numbers, meaning_column], rule)
    else:
        room = max(SHORTEST, width - used)
        named = Column(["metric"], [folded(name, room) for (name,) in named.cells])
        notes = [wrapped(meaning, width - len(INDENT)) for meaning in meanings]
        yield from table_lines([named, *numbers], rule, notes)


def _number_columns(results: Results) -> list[Column]:
    """Names, values and the ends of intervals, if there are any."""
    rows = results.totals.get("rows")
    count = results.dataset.attrs.get("rows", 0) if rows is None else rows.item()
    values = [part.value() for part in results.shown]
    texts = [
        shown_texts(value.value, value.low, value.high, kind=part.kind, rows=count)
        for value, part in zip(values, results.shown, strict=True)
    ]
    names = Column(["metric"], [[value.name] for value in values])
    headings = ("value", "low", "high") if any(value.has_interval for value in values) else ("value",)
    return [names, *(aligned([heading], [of[i : i + 1] for of in texts]) for i, heading in enumerate(headings))]


def _meanings(results: Results) -> list[str]:
    """Meaning of each number; for MCE, also the number of rows in the worst bin."""
    return [_with_rows(results, part) for part in results.shown]


def _with_rows(results: Results, part: PartResult) -> str:
    behind = [other.value().value for other in results.of(part.metric, "rows") if other.kind == "count"]
    if not behind or part.part:
        return part.meaning
    noise = ", mostly chance" if behind[0] < FEW_IN_A_SLICE else ""
    return f"{part.meaning}: of a bin of {counted(behind[0], 'row')}{noise}"


def _tables(results: Results, places: Sequence[int], width: int) -> Iterator[list[Column]]:
    """Columns of one table after the other, so that each fits; the ends of an interval stay with their number."""
    labels = _label_columns(results, places, width)
    totals = _total_columns(results, places)
    parts = results.shown
    numbers = [_beside(results, part, places) for part in parts]
    columns = [*labels, *totals]
    for of_part in numbers:
        if len(columns) > len(labels) and column_widths([*columns, *of_part]) - len(GAP) > width:
            yield columns
            columns = labels
        columns = [*columns, *of_part]
    yield columns


def _label_columns(results: Results, places: Sequence[int], width: int) -> list[Column]:
    """The labels of slices, shorter ones in narrow places."""
    dims = results.shared_dims
    longest = max(SHORTEST, min(_LONGEST_LABEL, width // (2 * len(dims))))
    at = np.unravel_index(np.asarray(places, int), [results.dataset.sizes[dim] for dim in dims])
    columns = []
    for dim, positions in zip(dims, at, strict=True):
        coords = results.dataset.coords
        labels = coords[dim].values if dim in coords else np.arange(results.dataset.sizes[dim])
        columns.append(
            Column([label_of(column_name(dim), longest)], [[label_of(labels[i], longest)] for i in positions])
        )
    return columns


def _total_columns(results: Results, places: Sequence[int]) -> list[Column]:
    """Rows, events, mean score and frequency of each slice."""
    columns = []
    rows = _rows(results, places)
    for name, variable in results.totals.items():
        if {*variable.dims} <= {*results.shared_dims}:
            kind = "count" if name in ("rows", "events") else "statistic"
            values = _flat(results, variable, places)
            texts = [shown_texts(value, kind=kind, rows=n) for value, n in zip(values, rows, strict=True)]
            heading = f"weighted_{name}" if name == "events" and "weights" in results.dataset.attrs else name
            heading = _OF_CONFIDENCE.get(name, name) if _is_right(results.dataset) else heading
            columns.append(aligned(folded_heading(heading), texts, role="aside"))
    return columns


def _beside(results: Results, part: PartResult, places: Sequence[int]) -> list[Column]:
    """Columns for the number and its interval ends."""
    texts = _texts(results, part, places)
    headings = [folded_heading(part.variable), *(([["low"], ["high"]]) if part.has_interval else [])]
    return [aligned(heading, [of[i : i + 1] for of in texts]) for i, heading in enumerate(headings)]


def _texts(results: Results, part: PartResult, places: Sequence[int]) -> list[list[str]]:
    """The number and the ends of its interval for each slice."""
    ends = [part.bounds[end] for end in ("low", "high")] if part.has_interval else []
    values = zip(*(_flat(results, variable, places) for variable in (part.values, *ends)), strict=True)
    rows = _rows(results, places)
    return [shown_texts(*of, kind=part.kind, rows=n) for of, n in zip(values, rows, strict=True)]


def _rows(results: Results, places: Sequence[int]) -> list[Any]:
    """Rows of each slice, or the total if unknown."""
    rows = results.totals.get("rows")
    if rows is None or not {*rows.dims} <= {*results.shared_dims}:
        return [results.dataset.attrs.get("rows", 0)] * len(places)
    return _flat(results, rows, places)


def _flat(results: Results, variable: xr.DataArray, places: Sequence[int]) -> list[Any]:
    """Values at the positions among all combinations of slices."""
    dims, sizes = results.shared_dims, results.dataset.sizes
    spread = variable.variable.set_dims({dim: sizes[dim] for dim in dims})
    return list(spread.transpose(*dims).values.ravel()[np.asarray(places, int)].tolist())
