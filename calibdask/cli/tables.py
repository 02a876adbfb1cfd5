"""Results for people and for programs: a table that fits a terminal, and JSON."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import xarray as xr

from calibdask.plot.style import OVER, UNDER
from calibdask.results.format import plain
from calibdask.results.text_table import Line, foot_lines, result_lines
from calibdask.results.values import PartResult, Results

__all__ = ["GAP", "as_json", "bare_table", "console", "has_signs", "metric_values", "print_lines", "show"]

# Of the JSON; it grows when what programs may rely on changes, and what is only added does not count.
_FORMAT = 1
# What is said once for all metrics; the last three with intervals only.
_HEAD = ("rows", "rows_skipped", "passes", "calibdask_version", "ci", "n_boot", "seed")
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
    results = Results(dataset)
    metrics = list(metrics)
    described = metric_values(dataset, metrics)
    slices = []
    if results.shared_dims:
        described = {name: _described(results.of(name)) for name in metrics}
        for at, labels in results.strata():
            values = {name: _values(results.of(name), at) for name in metrics}
            slices.append({"by": {dim: plain(label) for dim, label in labels.items()}, "metrics": values})
    head: dict[str, Any] = {"format": _FORMAT}
    head |= {name: plain(dataset.attrs[name]) for name in _HEAD if name in dataset.attrs}
    return json.dumps({**head, "metrics": described, "slices": slices}, indent=2, allow_nan=False, ensure_ascii=False)


def metric_values(dataset: xr.Dataset, metrics: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The numbers of each metric of a dataset without slices, and what is said about them."""
    results = Results(dataset)
    return {name: {**_values(results.of(name), {}), **_described(results.of(name))} for name in metrics}


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


def _values(parts: Sequence[PartResult], at: Mapping[Any, int]) -> dict[str, Any]:
    """The numbers of a metric in a slice, those that bound others last."""
    here = [part.at(at) for part in parts]
    values = {part.part or "value": plain(part.values.values) for part in here}
    bounds = {
        "_".join(filter(None, (part.part, bound))): plain(variable.values)
        for part in here
        for bound, variable in part.bounds.items()
    }
    return {**values, **bounds}


def _described(parts: Sequence[PartResult]) -> dict[str, Any]:
    """What a metric is, and what each of its numbers is; a plain number needs no name for that."""
    if not parts:
        return {}
    first = min(parts, key=lambda part: part.part != "")
    said = {
        "kind": {part.part or "value": part.kind for part in parts},
        "meaning": {part.part or "value": part.meaning for part in parts if part.meaning},
    }
    described = {
        "estimator": first.estimator,
        **{name: plain(value) for name, value in first.notes.items()},
        "label": first.label,
        "setting": first.setting,
        **{name: words["value"] if list(words) == ["value"] else words for name, words in said.items()},
    }
    return {name: value for name, value in described.items() if value not in ("", {})}
