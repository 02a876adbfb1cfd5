"""Tables of several parts of a measurement as one Dataset, one Markdown file and one page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from calibdask.storage.atomic_replace import atomic_replacement, write_text


@dataclass(frozen=True)
class Table:
    """One part: equal columns in all rows, and a sentence on what they are."""

    about: str
    rows: Sequence[Mapping[str, Any]]
    goals: Mapping[str, float | Mapping[str, float]] = field(default_factory=dict)

    def goal(self, row: Mapping[str, Any], name: str) -> float | None:
        """The most that this column of the row should be: for all rows, or for those of a name in the first column."""
        goal = self.goals.get(name)
        return goal.get(str(next(iter(row.values())))) if isinstance(goal, Mapping) else goal


def dataset(tables: Mapping[str, Table], attributes: Mapping[str, Any]) -> xr.Dataset:
    """A dimension for each part; its columns are the variables ``<part>_<column>`` along it."""
    columns = {
        f"{part}_{name}": (part, [row[name] for row in table.rows], {"about": table.about})
        for part, table in tables.items()
        for name in table.rows[0]
    }
    return xr.Dataset(columns, attrs=dict(attributes))


def markdown(tables: Mapping[str, Table], attributes: Mapping[str, Any]) -> str:
    """All parts as tables, with where they were measured."""
    lines = [f"- {name}: {value}" for name, value in attributes.items()]
    for part, table in tables.items():
        names = list(table.rows[0])
        lines += ["", f"### {part}", "", table.about, "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
        lines += [f"| {' | '.join(_cell(table, row, name) for name in names)} |" for row in table.rows]
    return "\n".join(lines) + "\n"


def _cell(table: Table, row: Mapping[str, Any], name: str) -> str:
    """A value, and whether it meets its goal."""
    value, goal = row[name], table.goal(row, name)
    if value != value:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if goal is None else f"{text} (goal {goal:g}: {'met' if value <= goal else 'missed'})"


def write(tables: Mapping[str, Table], attributes: Mapping[str, Any], folder: Path, name: str) -> None:
    """``NAME.nc``, ``NAME.md`` and ``NAME.html``."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_replacement(folder / f"{name}.nc") as part:
        dataset(tables, attributes).to_netcdf(part, engine="scipy")
    write_text(folder / f"{name}.md", markdown(tables, attributes))
    about = "".join(f"<li>{attribute}: {value}</li>" for attribute, value in attributes.items())
    body = "".join(f"<h2>{part}</h2><p>{table.about}</p>{_html(table)}" for part, table in tables.items())
    page = f"<!doctype html><meta charset='utf-8'><title>Speed and scale</title><ul>{about}</ul>{body}"
    write_text(folder / f"{name}.html", page)


def _html(table: Table) -> str:
    frame = pd.DataFrame([{name: _cell(table, row, name) for name in row} for row in table.rows])
    return str(frame.to_html(index=False))
