"""The numbers of a page: as a table to read, and as data frames to save."""

from collections.abc import Collection, Sequence
from html import escape
from typing import Any

import numpy as np
import xarray as xr

from calibdask.readout import Reading, readings, shown_number

__all__ = ["curve_frame", "diagram_frame", "metrics_frame", "metrics_table"]

_STYLE = """<style>
table.numbers { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
.numbers th { text-align: right; font-weight: 600; border-bottom: 1px solid #b8c0c8; padding: 3px 10px 3px 0; }
.numbers td { text-align: right; padding: 3px 10px 3px 0; border-bottom: 1px solid #eceff2; white-space: nowrap; }
.numbers th:first-child, .numbers td:first-child { text-align: left; white-space: normal; min-width: 8.5rem; }
.numbers small { color: #5f6b76; display: block; line-height: 1.25; }
.numbers .ends { color: #4a5661; }
</style>"""
# Parts that describe how a number was made, or that are told in words elsewhere.
_ASIDE = ("saturation_", "diagram_", "curve_")


def metrics_table(results: Sequence[xr.Dataset], pending: Collection[str] = ()) -> str:
    """The metrics of one result, or of two with their difference, as HTML; intervals of ``pending`` are on their way.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2)})
    >>> "0.2500" in metrics_table([result])
    True
    """
    numbers = [_readings(result) for result in results]
    two = len(results) == 2
    heads = ["A", "95 % interval", "B", "95 % interval", "B − A"] if two else ["value", "95 % interval"]
    lines = []
    for name, first in numbers[0].items():
        cells = [cell for some in numbers for cell in _cells(some.get(name), name in pending)]
        if two:
            other = numbers[1].get(name)
            cells.append("–" if other is None else _signed(other.value - first.value))
        lines.append((f"{escape(name.replace('_', ' '))}<small>{escape(first.meaning)}</small>", cells))
    head = "".join(f"<th>{each}</th>" for each in ("metric", *heads))
    body = "".join(
        f'<tr data-metric="{escape(name)}"><td>{words}</td>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for name, (words, cells) in zip(numbers[0], lines, strict=True)
    )
    table = f'<table class="numbers"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'{_STYLE}<div style="overflow-x: auto">{table}</div>'


def metrics_frame(results: Sequence[xr.Dataset], names: Sequence[str]) -> Any:
    """A line for each selection and metric."""
    lines = [(name, each) for name, result in zip(names, results, strict=True) for each in _readings(result).values()]
    columns = {
        "selection": [name for name, _ in lines],
        "metric": [each.name for _, each in lines],
        "value": [each.value for _, each in lines],
        "low": [np.nan if each.low is None else each.low for _, each in lines],
        "high": [np.nan if each.high is None else each.high for _, each in lines],
        "meaning": [each.meaning for _, each in lines],
    }
    return _frame(columns)


def diagram_frame(results: Sequence[xr.Dataset], names: Sequence[str]) -> Any:
    """A line for each selection and bin (and class)."""
    return _long(results, names, "diagram_")


def curve_frame(results: Sequence[xr.Dataset], names: Sequence[str]) -> Any:
    """A line for each selection and score (and class)."""
    return _long(results, names, "curve_")


def _long(results: Sequence[xr.Dataset], names: Sequence[str], prefix: str) -> Any:
    """The variables of one metric with a line for each place along their dimensions."""
    flat = []
    for name, result in zip(names, results, strict=True):
        wanted = [each for each in map(str, result.data_vars) if each.startswith(prefix) and result[each].dims]
        most = max((result[each].ndim for each in wanted), default=0)
        part = result[[each for each in wanted if result[each].ndim == most]]
        one = part.stack(row=[*part.dims], create_index=False)
        flat.append(one.assign(selection=("row", [name] * one.sizes["row"])))
    joined = xr.concat(flat, "row", data_vars="all", coords="all", compat="override", join="outer")
    plain = joined.reset_coords()
    renamed = plain.rename({name: str(name).removeprefix(prefix) for name in plain.data_vars})
    order = ["selection", *(name for name in renamed.data_vars if name != "selection")]
    return renamed[order].to_dataframe().reset_index(drop=True)


def _frame(columns: dict[str, list[Any]]) -> Any:
    return xr.Dataset({name: ("row", values) for name, values in columns.items()}).to_dataframe().reset_index(drop=True)


def _readings(result: xr.Dataset) -> dict[str, Reading]:
    """The numbers that are shown, by name."""
    return {each.name: each for each in readings(result) if not each.name.startswith(_ASIDE)}


def _cells(reading: Reading | None, pending: bool) -> tuple[str, str]:
    """A value, and its interval as far as it is known."""
    if reading is None:
        return "–", ""
    if reading.has_interval:
        return _few(reading.value), f'<span class="ends">{_few(reading.low)} to {_few(reading.high)}</span>'
    return _few(reading.value), "…" if pending else ""


def _few(value: Any) -> str:
    """A number in four digits after the point."""
    if isinstance(value, float) and (value == 0 or 1e-4 <= abs(value) < 1e4):
        return f"{value:.4f}"
    return shown_number(value)


def _signed(value: Any) -> str:
    return f"{value:+.4f}" if isinstance(value, float) and np.isfinite(value) else "–"
