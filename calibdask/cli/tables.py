"""Results for people and for programs: a table that fits a terminal, and JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import xarray as xr

from calibdask.engine.writers import slice_dims
from calibdask.plot.look import OVER, UNDER
from calibdask.readout import places, plain
from calibdask.text_table import Line, foot_lines, result_lines

__all__ = ["GAP", "as_json", "bare_table", "console", "has_signs", "metric_values", "print_lines", "show"]

# Of the JSON; it grows when what programs may rely on changes, and what is only added does not count.
_FORMAT = 1
# What is said once for all metrics; the last three with intervals only.
_HEAD = ("rows", "passes", "calibdask_version", "ci", "n_boot", "seed")
_WIDTH = 100
# Between two columns of a bare table.
GAP = 3
_STYLES = {"": "", "head": "bold", "aside": "dim", "over": OVER, "under": UNDER}


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
    head: dict[str, Any] = {"format": _FORMAT}
    head |= {name: plain(dataset.attrs[name]) for name in _HEAD if name in dataset.attrs}
    return json.dumps({**head, "metrics": described, "slices": slices}, indent=2, allow_nan=False, ensure_ascii=False)


def metric_values(dataset: xr.Dataset, metrics: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The numbers of each metric of a dataset without slices, and what is said about them."""
    metrics = list(metrics)
    return {name: {**_values(dataset, {}, name, metrics), **_described(dataset, name, metrics)} for name in metrics}


def show(dataset: xr.Dataset, out: Any, *, seconds: float | None = None, title: str = "") -> None:
    """Print a result: a line for each number, or with slices a line for each slice and a column for each number."""
    if title:
        out.print(title, style="bold", markup=False)
    print_lines(result_lines(dataset, out.width, rule=_rule_of(out), rest="; --out or --json give them all."), out)
    further = () if seconds is None else (f"{seconds:.2f} s",)
    print_lines([(), *foot_lines(dataset.attrs, out.width, *further)], out)


def print_lines(lines: Iterable[Line], out: Any) -> None:
    """Print lines that fit, with the styles that a console has for their parts."""
    from rich.text import Text

    for line in lines:
        # A console whose encoding lacks a character must not fail for it.
        texts = ((text.encode(out.encoding, "replace").decode(out.encoding), _STYLES[role]) for text, role in line)
        shown = Text.assemble(*texts)
        shown.rstrip()
        out.print(shown, soft_wrap=True)


def _rule_of(out: Any) -> str:
    """What lines are drawn with."""
    return "─" if has_signs(out) else "-"


def has_signs(out: Any) -> bool:
    """Whether the console has lines, blocks and other signs beyond letters."""
    return str(out.encoding).lower().replace("-", "").startswith("utf")


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
