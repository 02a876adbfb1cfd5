"""Results for people and for programs: a table that fits a terminal, and JSON."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from calibdask.engine.writers import slice_dims

__all__ = ["GAP", "as_json", "bare_table", "console", "metric_values", "show", "shown_number"]

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
    places = list(_places(dataset))
    dims = slice_dims(dataset)
    described = metric_values(dataset, metrics)
    if dims:
        described = {name: _described(dataset, name, metrics) for name in metrics}
    slices = [
        {"by": {str(dim): _plain(label) for dim, label in labels.items()}}
        | {"metrics": {name: _values(dataset, at, name, metrics) for name in metrics}}
        for at, labels in places
        if dims
    ]
    head = {name: _plain(dataset.attrs[name]) for name in _HEAD if name in dataset.attrs}
    return json.dumps({**head, "metrics": described, "slices": slices}, indent=2, allow_nan=False, ensure_ascii=False)


def metric_values(dataset: xr.Dataset, metrics: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The numbers of each metric of a dataset without slices, and what is said about them."""
    metrics = list(metrics)
    return {name: {**_values(dataset, {}, name, metrics), **_described(dataset, name, metrics)} for name in metrics}


def show(dataset: xr.Dataset, out: Any, *, seconds: float | None = None, title: str = "") -> None:
    """Print a result: a line for each number, or with slices a line for each slice and a column for each number."""
    if title:
        out.print(title, style="bold")
    numbers = _numbers(dataset)
    if not numbers.dims:
        out.print(_number_table(numbers))
    else:
        for columns in _fitting(numbers, out.width):
            out.print(_slice_table(numbers, columns))
        hidden = math.prod(numbers.sizes.values()) - _MOST_ROWS
        if hidden > 0:
            out.print(f"... and {hidden:,} more slices; --out or --json give them all.")
    foot = _foot(dataset.attrs)
    out.print(", ".join(foot if seconds is None else [*foot, f"{seconds:.2f} s"]), style="dim")


def _numbers(dataset: xr.Dataset) -> xr.Dataset:
    """What has one value in each slice; what has one for each class is for JSON and files."""
    dims = slice_dims(dataset)
    return dataset[[name for name, variable in dataset.data_vars.items() if variable.ndim == len(dims)]]


def _foot(attributes: Mapping[str, Any]) -> list[str]:
    """What the numbers rest on."""
    rows, passes = attributes["rows"], attributes["passes"]
    foot = [f"{rows:,} row{'' if rows == 1 else 's'}"]
    foot.append(f"{passes} pass{'' if passes == 1 else 'es'} over the data" if passes else "from their summary")
    if "ci" in attributes:
        foot.append(f"{100 * attributes['ci']:g} % intervals of {attributes['n_boot']} replicates")
    return foot


def _number_table(dataset: xr.Dataset) -> Any:
    """A line for each number, with its interval beside it."""
    ends = {str(name): [f"{name}_low", f"{name}_high"] for name in dataset.data_vars}
    ends = {name: pair for name, pair in ends.items() if set(pair) <= set(dataset.data_vars)}
    table = bare_table()
    table.add_column("metric", no_wrap=True)
    for heading in ("value", *(("low", "high") if ends else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it says", style="dim")
    shown = {name for pair in ends.values() for name in pair}
    for name in map(str, dataset.data_vars):
        if name not in shown:
            own = ends.get(name, [])
            numbers = [shown_number(dataset[each].item()) for each in (name, *own)]
            absent = [""] * (2 if ends and not own else 0)
            table.add_row(name, *numbers, *absent, str(dataset[name].attrs.get("meaning", "")))
    return table


def bare_table() -> Any:
    """A table whose only line is under its head."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, pad_edge=False)


def _places(dataset: xr.Dataset) -> Iterator[tuple[dict[Any, int], dict[Any, Any]]]:
    """Every combination of slices: where it is, and its labels."""
    dims = slice_dims(dataset)
    labels = [dataset[dim].values if dim in dataset.coords else np.arange(dataset.sizes[dim]) for dim in dims]
    for place in product(*(range(dataset.sizes[dim]) for dim in dims)):
        at = dict(zip(dims, place, strict=True))
        yield at, {dim: labels[i][place[i]] for i, dim in enumerate(dims)}


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
        found[part] = _plain(values.isel({dim: i for dim, i in at.items() if dim in values.dims}).values)
    return found


def _described(dataset: xr.Dataset, name: str, metrics: Iterable[str]) -> dict[str, Any]:
    parts = _parts(dataset, name, metrics)
    if not parts:
        return {}
    first = next(iter(parts.values()))
    described = {key: _plain(value) for key, value in dataset[first].attrs.items() if key != "meaning"}
    meanings = {part: dataset[variable].attrs.get("meaning") for part, variable in parts.items()}
    told: Any = {part: meaning for part, meaning in meanings.items() if meaning is not None}
    # A plain number needs no name for its one meaning.
    return {**described, "meaning": told["value"] if list(told) == ["value"] else told} if told else described


def _plain(value: Any) -> Any:
    """What JSON can hold: a number that is none is null."""
    if isinstance(value, np.ndarray):
        value = value.item() if not value.ndim else value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def shown_number(value: Any) -> str:
    """A number in few digits; a dash for what does not exist."""
    if isinstance(value, float):
        if math.isnan(value):
            return "-"
        return f"{value:.6f}" if value == 0 or abs(value) >= 1e-4 else f"{value:.2e}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _label(value: Any) -> str:
    text = str(_plain(value))
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
    for number, (at, labels) in enumerate(_places(dataset)):
        if number == _MOST_ROWS:
            break
        values = (
            dataset[name].isel({dim: i for dim, i in at.items() if dim in dataset[name].dims}) for name in columns
        )
        table.add_row(*(_label(label) for label in labels.values()), *(shown_number(value.item()) for value in values))
    return table
