"""Results for people and for programs: a table that fits a terminal, and JSON."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import xarray as xr

from calibdask.engine.writers import slice_dims
from calibdask.readout import numbers_of, places, plain, readings, rests_on, shown_number

__all__ = ["GAP", "as_json", "bare_table", "console", "metric_values", "show"]

# What is said once for all metrics; the last three with intervals only.
_HEAD = ("rows", "passes", "calibdask_version", "ci", "n_boot", "seed")
_WIDTH = 100
_MOST_ROWS = 200
_LONGEST_LABEL = 40
_NUMBER = len("0.000000")
# Between two columns, and at both edges together.
GAP, _EDGES = 3, 2


def console(*, stderr: bool = False) -> Any:
    """A console no wider than 100 columns; colours only on a terminal."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    made.width = min(_WIDTH, made.width) if made.is_terminal else _WIDTH
    return made


def as_json(dataset: xr.Dataset, metrics: Iterable[str]) -> str:
    """The result as JSON text, in the form that ``calibdask evaluate --help`` promises."""
    metrics = list(metrics)
    dims = slice_dims(dataset)
    described = metric_values(dataset, metrics)
    if dims:
        described = {name: _described(dataset, name, metrics) for name in metrics}
    slices = [
        {"by": {str(dim): plain(label) for dim, label in labels.items()}}
        | {"metrics": {name: _values(dataset, at, name, metrics) for name in metrics}}
        for at, labels in places(dataset)
        if dims
    ]
    head = {name: plain(dataset.attrs[name]) for name in _HEAD if name in dataset.attrs}
    return json.dumps({**head, "metrics": described, "slices": slices}, indent=2, allow_nan=False, ensure_ascii=False)


def metric_values(dataset: xr.Dataset, metrics: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The numbers of each metric of a dataset without slices, and what is said about them."""
    metrics = list(metrics)
    return {name: {**_values(dataset, {}, name, metrics), **_described(dataset, name, metrics)} for name in metrics}


def show(dataset: xr.Dataset, out: Any, *, seconds: float | None = None, title: str = "") -> None:
    """Print a result: a line for each number, or with slices a line for each slice and a column for each number."""
    if title:
        out.print(title, style="bold")
    numbers = numbers_of(dataset)
    if not numbers.dims:
        out.print(_number_table(numbers))
    else:
        for columns in _fitting(numbers, out.width):
            out.print(_slice_table(numbers, columns))
        hidden = math.prod(numbers.sizes.values()) - _MOST_ROWS
        if hidden > 0:
            out.print(f"... and {hidden:,} more slices; --out or --json give them all.")
    foot = rests_on(dataset.attrs)
    out.print(", ".join(foot if seconds is None else [*foot, f"{seconds:.2f} s"]), style="dim")


def _number_table(dataset: xr.Dataset) -> Any:
    """A line for each number, with its interval beside it."""
    read = readings(dataset)
    intervals = any(each.has_interval for each in read)
    table = bare_table()
    table.add_column("metric", no_wrap=True)
    for heading in ("value", *(("low", "high") if intervals else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it says", style="dim")
    for each in read:
        ends = [shown_number(end) if each.has_interval else "" for end in (each.low, each.high)]
        table.add_row(each.name, shown_number(each.value), *(ends if intervals else ()), each.meaning)
    return table


def bare_table() -> Any:
    """A table whose only line is under its head."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, pad_edge=False)


def _parts(dataset: xr.Dataset, name: str, metrics: Iterable[str]) -> dict[str, str]:
    """Variables of a metric by the name of the part; longer names of other metrics are not parts of this one."""
    others = [other for other in metrics if other.startswith(name + "_")]
    variables = [
        str(variable)
        for variable in dataset.data_vars
        if str(variable).startswith(name + "_")
        and not any(str(variable) == other or str(variable).startswith(other + "_") for other in others)
    ]
    alone = {"value": name} if name in dataset.data_vars else {}
    return {**alone, **{variable.removeprefix(name + "_"): variable for variable in variables}}


def _values(dataset: xr.Dataset, at: Mapping[Any, int], name: str, metrics: Iterable[str]) -> dict[str, Any]:
    found = {}
    for part, variable in _parts(dataset, name, metrics).items():
        values = dataset[variable]
        found[part] = plain(values.isel({dim: i for dim, i in at.items() if dim in values.dims}).values)
    return found


def _described(dataset: xr.Dataset, name: str, metrics: Iterable[str]) -> dict[str, Any]:
    parts = _parts(dataset, name, metrics)
    if not parts:
        return {}
    first = next(iter(parts.values()))
    described = {key: plain(value) for key, value in dataset[first].attrs.items() if key != "meaning"}
    meanings = {part: dataset[variable].attrs.get("meaning") for part, variable in parts.items()}
    told: Any = {part: meaning for part, meaning in meanings.items() if meaning is not None}
    # A plain number needs no name for its one meaning.
    return {**described, "meaning": told["value"] if list(told) == ["value"] else told} if told else described


def _words(name: str) -> str:
    return name.replace("_", " ")


def _label(value: Any) -> str:
    text = str(plain(value))
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 3] + "..."


def _fitting(dataset: xr.Dataset, width: int) -> Iterator[list[str]]:
    """Columns for one table after the other, so that each fits."""
    labels = {dim: dataset[dim].values if dim in dataset.coords else [dataset.sizes[dim]] for dim in dataset.dims}
    slices = sum(max(len(str(dim)), *(len(_label(value)) for value in values)) + GAP for dim, values in labels.items())
    columns: list[str] = []
    taken = slices = slices + _EDGES
    for name in map(str, dataset.data_vars):
        needed = max(_NUMBER, *(len(word) for word in _words(name).split())) + GAP
        if columns and taken + needed > width:
            yield columns
            columns, taken = [], slices
        columns.append(name)
        taken += needed
    yield columns


def _slice_table(dataset: xr.Dataset, columns: list[str]) -> Any:
    table = bare_table()
    for dim in dataset.dims:
        table.add_column(str(dim), no_wrap=True, vertical="bottom")
    for name in columns:
        needed = max(_NUMBER, *(len(word) for word in _words(name).split()))
        table.add_column(_words(name), justify="right", vertical="bottom", min_width=needed)
    for number, (at, labels) in enumerate(places(dataset)):
        if number == _MOST_ROWS:
            break
        values = (
            dataset[name].isel({dim: i for dim, i in at.items() if dim in dataset[name].dims}) for name in columns
        )
        table.add_row(*(_label(label) for label in labels.values()), *(shown_number(value.item()) for value in values))
    return table
