"""The numbers of a page: as a table to read, and as data frames to save."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.summaries.difference import Bounded, difference
from calibdask.explore.summaries.page_metrics import CURVE, DIAGRAM, MARKS, SATURATION, SMOOTH
from calibdask.markup import Html
from calibdask.results.format import shown_number
from calibdask.results.values import PartResult, Results, Value

_STYLE = Html("""<style>
table.numbers { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
.numbers th { text-align: right; font-weight: 600; border-bottom: 1px solid var(--edge); padding: 3px 10px 3px 0; }
.numbers td { text-align: right; padding: 3px 10px 3px 0; border-bottom: 1px solid var(--rule); white-space: nowrap; }
.numbers th:first-child, .numbers td:first-child { text-align: left; white-space: normal; min-width: 8.5rem; }
.numbers small { color: var(--soft); display: block; line-height: 1.25; }
.numbers .ends { color: var(--soft); }
</style>""")
_ENDS = Html('<span class="ends">{} to {}</span>')
# What is drawn, or told in words.
_ELSEWHERE = (SATURATION, DIAGRAM, CURVE, MARKS, SMOOTH)


def metrics_table(results: Sequence[xr.Dataset], pending: Collection[str] = ()) -> Html:
    """The metrics of one result, or of two with their difference, as HTML; intervals of ``pending`` metrics follow.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2)})
    >>> "0.2500" in metrics_table([result])
    True
    """
    numbers = [_numbers(result) for result in results]
    two = len(results) == 2
    heads = (
        ["A", "95 % interval", "B", "95 % interval", "B − A", "95 % interval"] if two else ["value", "95 % interval"]
    )
    lines = []
    for name, first in numbers[0].items():
        values = [parts[name].value() if name in parts else None for parts in numbers]
        cells = [cell for value in values for cell in _cells(value, first.metric in pending)]
        if two:
            a, b = values
            cells += _difference_cells(a, b)
        heading = Html("{}<small>{}</small>").format(_heading(first), first.meaning)
        lines.append(Html('<tr data-metric="{}">{}</tr>').format(name, _in_cells([heading, *cells])))
    head = Html().join(map(Html("<th>{}</th>").format, ("metric", *heads)))
    table = Html('<table class="numbers"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>')
    return Html('{}<div style="overflow-x: auto">{}</div>').format(_STYLE, table.format(head, Html().join(lines)))


def _in_cells(contents: Sequence[str]) -> Html:
    return Html().join(map(Html("<td>{}</td>").format, contents))


def metrics_frame(results: Sequence[xr.Dataset], selections: Sequence[str]) -> Any:
    """A line for each selection and metric."""
    lines = [
        (selection, part.value())
        for selection, result in zip(selections, results, strict=True)
        for part in _numbers(result).values()
    ]
    columns = {
        "selection": [selection for selection, _ in lines],
        "metric": [value.name for _, value in lines],
        "value": [value.value for _, value in lines],
        "low": [np.nan if value.low is None else value.low for _, value in lines],
        "high": [np.nan if value.high is None else value.high for _, value in lines],
        "meaning": [value.meaning for _, value in lines],
    }
    table = xr.Dataset({name: ("row", column) for name, column in columns.items()})
    return table.to_dataframe().reset_index(drop=True)


def diagram_frame(results: Sequence[xr.Dataset], selections: Sequence[str]) -> Any:
    """A line for each selection and bin (and class)."""
    return _long(results, selections, DIAGRAM)


def curve_frame(results: Sequence[xr.Dataset], selections: Sequence[str]) -> Any:
    """A line for each selection and score (and class)."""
    return _long(results, selections, CURVE)


def _long(results: Sequence[xr.Dataset], selections: Sequence[str], metric: str) -> Any:
    """The variables of one metric with a line for each position along their dimensions."""
    flat = []
    for selection, result in zip(selections, results, strict=True):
        variables = {name: v for name, v in result.data_vars.items() if v.attrs.get("metric") == metric and v.dims}
        most = max((variable.ndim for variable in variables.values()), default=0)
        part = result[[name for name, variable in variables.items() if variable.ndim == most]]
        lines = part.stack(row=[*part.dims], create_index=False)
        flat.append(lines.assign(selection=("row", [selection] * lines.sizes["row"])))
    joined = xr.concat(flat, "row", data_vars="all", coords="all", compat="override", join="outer").reset_coords()
    names = {name: _column(variable) for name, variable in joined.data_vars.items()}
    renamed = joined.rename({name: column for name, column in names.items() if column != name})
    order = ["selection", *(name for name in renamed.data_vars if name != "selection")]
    return renamed[order].to_dataframe().reset_index(drop=True)


def _column(variable: xr.DataArray) -> str:
    """The name of a column: the part and the bound of a metric; others keep their own."""
    words = (variable.attrs.get("part", ""), variable.attrs.get("bound", "")) if "metric" in variable.attrs else ()
    return "_".join(filter(None, words)) or str(variable.name)


def _numbers(result: xr.Dataset) -> dict[str, PartResult]:
    """The numbers that are shown, by the name of their variable."""
    parts = [part for part in Results(result).numbers if part.metric not in _ELSEWHERE and not part.values.ndim]
    return {part.variable: part for part in parts}


def _heading(part: PartResult) -> str:
    """The name of a number in few words."""
    return ": ".join(filter(None, (part.label, part.part.replace("_", " "))))


def _cells(value: Value | None, pending: bool) -> tuple[str, str]:
    """Texts of a value and of its interval, if known."""
    if value is None:
        return "–", ""
    if value.has_interval:
        return _short(value.value), _ENDS.format(_short(value.low), _short(value.high))
    return _short(value.value), "…" if pending else ""


def _difference_cells(first: Value | None, second: Value | None) -> tuple[str, str]:
    """The second value less the first, and its interval where both have one."""
    if first is None or second is None:
        return "–", ""
    if not (first.has_interval and second.has_interval):
        return _signed(second.value - first.value), ""
    ends = difference(*(Bounded(value.value, value.low, value.high) for value in (first, second)))
    return _signed(float(ends.value)), _ENDS.format(_signed(float(ends.low)), _signed(float(ends.high)))


def _short(value: Any) -> str:
    """A number in four digits after the point."""
    if isinstance(value, float) and (value == 0 or 1e-4 <= abs(value) < 1e4):
        return f"{value:.4f}"
    return shown_number(value)


def _signed(value: Any) -> str:
    return f"{value:+.4f}" if isinstance(value, float) and np.isfinite(value) else "–"
