"""Estimates and p-values of several files beside each other: a table, JSON and a dataset."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase
from typing import Any

import numpy as np
import xarray as xr
from rich.table import Table
from rich.text import Text

from calibdask import __version__
from calibdask.cli.row_options import stem_of
from calibdask.cli.tables import GAP, bare_table, metric_values
from calibdask.cli.test_panel import Choices, Entry
from calibdask.estimators.about import Kind, PartInfo
from calibdask.results.build import FORMAT, variable_attributes, variable_name
from calibdask.results.format import shown_number
from calibdask.results.values import PartResult, Results

__all__ = ["Column", "FileTable"]

_WIDEST = 20
_RESTS = "rests on"
# Of parts that are left out of all files; those of tests are statistics otherwise.
_KINDS: Mapping[str, Kind] = {"": "error", "pvalue": "pvalue"}


@dataclass(frozen=True, kw_only=True)
class Column:
    """One file: the result of its estimators, and why others are left out, by their names."""

    path: str
    classes: int
    result: xr.Dataset
    left_out: Mapping[str, str]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.result.attrs["rows"])

    @property
    def stem(self) -> str:
        """The name of the file, without folders and suffixes."""
        return stem_of(self.path)

    @property
    def bandwidth(self) -> float:
        """That of the kernel, which all entries share."""
        (estimate,) = self._results.of("skce_linear")
        return float(estimate.notes["bandwidth"])

    @cached_property
    def _results(self) -> Results:
        return Results(self.result)

    def part(self, entry: Entry, part: str) -> PartResult | None:
        """A part of an entry, if it is computed."""
        return next(iter(self._results.of(entry.name, part)), None)

    def value(self, entry: Entry, part: str | None = None) -> float:
        """A number of an entry, the one that is shown unless another is meant; NaN where it is left out."""
        result = self.part(entry, entry.shown if part is None else part)
        return np.nan if result is None else float(result.values)


@dataclass(frozen=True)
class FileTable:
    """Files beside each other."""

    choices: Choices
    conventions: str
    columns: tuple[Column, ...]

    @property
    def headings(self) -> list[str]:
        """Names of files without folders and suffixes, as far as these tell them apart."""
        stems = [column.stem for column in self.columns]
        return [column.path if stems.count(column.stem) > 1 else column.stem for column in self.columns]

    @property
    def _head(self) -> dict[str, Any]:
        return {
            "calibdask_version": __version__,
            "setting": str(self.choices.setting),
            "conventions": self.conventions,
            "seed": self.choices.seed,
        }

    def as_json(self) -> str:
        """The form that ``calibdask evaluate --help`` promises for the panel."""
        files = [
            {
                "file": column.path,
                "rows": column.rows,
                "passes": int(column.result.attrs["passes"]),
                "classes": column.classes,
                "metrics": self._described(column),
            }
            for column in self.columns
        ]
        return json.dumps({**self._head, "files": files}, indent=2, allow_nan=False, ensure_ascii=False)

    def _described(self, column: Column) -> dict[str, Any]:
        metrics = metric_values(column.result, [name for name in self._names if name not in column.left_out])
        for entry in self.choices.entries:
            if entry.name in column.left_out:
                nothing = {part or "value": None for part in entry.parts}
                metrics[entry.name] = {**nothing, "note": column.left_out[entry.name]}
        return {name: metrics[name] for name in self._names}

    @property
    def _names(self) -> list[str]:
        return [entry.name for entry in self.choices.entries]

    def dataset(self) -> xr.Dataset:
        """All numbers by file; what is left out is NaN."""
        variables: dict[str, Any] = {
            "path": ("file", [column.path for column in self.columns]),
            "rows": ("file", [column.rows for column in self.columns]),
            "classes": ("file", [column.classes for column in self.columns]),
            "passes": ("file", [column.result.attrs["passes"] for column in self.columns]),
            "bandwidth": ("file", [column.bandwidth for column in self.columns]),
        }
        for entry in self.choices.entries:
            for part in entry.parts:
                values = [column.value(entry, part) for column in self.columns]
                variables[variable_name(entry.name, part)] = ("file", values, self._attributes(entry, part))
        variables["left_out"] = ("file", ["; ".join(_notes(column, self.choices)) for column in self.columns])
        return xr.Dataset(variables, {"file": self.headings}, {**self._head, "batch": ["file"], "format": FORMAT})

    def _attributes(self, entry: Entry, part: str) -> dict[str, Any]:
        """What the part is: attributes that are the same in all files that have it."""
        results = [column.part(entry, part) for column in self.columns]
        attributes = [result.values.attrs for result in results if result is not None]
        if not attributes:
            info = PartInfo().settled(_KINDS.get(part, "statistic"))
            attributes = [variable_attributes(entry.name, part, info, entry.estimator)]
        first, *others = attributes
        common = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
        return {**common, "label": entry.label, **self._assumed(entry)}

    def _assumed(self, entry: Entry) -> dict[str, str]:
        """What the p-value of the entry rests on, if a file has one."""
        for column in self.columns:
            result = column.part(entry, entry.shown) if entry.is_test else None
            if result is not None:
                return {"assumes": str(result.notes["assumes"])}
        return {}

    @cached_property
    def _assumptions(self) -> dict[str, str]:
        """What p-values rest on, each with a letter."""
        texts = [text for entry in self.choices.entries for text in self._assumed(entry).values()]
        return dict(zip(dict.fromkeys(texts), ascii_lowercase, strict=False))

    def show(self, out: Any, *, seconds: float) -> None:
        """Print the numbers, as many files in a table as fit, and what they rest on."""
        title = f"Calibration of {len(self.columns)} file{'' if len(self.columns) == 1 else 's'}"
        out.print(f"{title}, setting {self.choices.setting}, conventions {self.conventions}", style="bold")
        for positions in self._fitting(out.width):
            out.print(self._table(positions))
        out.print(self._remarks())
        foot = "Small p-values speak against calibration."
        out.print(f"{foot} Seed {self.choices.seed}, {seconds:.2f} s", style="dim")

    def _fitting(self, width: int) -> Iterator[list[int]]:
        """Which files go into one table after the other."""
        labels = max(len(entry.label) for entry in self.choices.entries) + GAP + len(_RESTS) + GAP
        positions: list[int] = []
        taken = labels
        for position in range(len(self.columns)):
            needed = self._width(position) + GAP
            if positions and taken + needed > width:
                yield positions
                positions, taken = [], labels
            positions.append(position)
            taken += needed
        yield positions

    def _width(self, position: int) -> int:
        """Of a column: a long heading is broken, but none of its numbers."""
        return max(min(_WIDEST, len(self.headings[position])), *map(len, self._texts(position)))

    def _texts(self, position: int) -> list[str]:
        """The numbers of a column: rows, classes, bandwidth and those of the entries."""
        column = self.columns[position]
        values = (column.value(entry) for entry in self.choices.entries)
        return [shown_number(value) for value in (column.rows, column.classes, column.bandwidth, *values)]

    def _table(self, positions: list[int]) -> Any:
        table = bare_table()
        table.add_column("", no_wrap=True)
        for position in positions:
            heading, width = Text(self.headings[position]), self._width(position)
            table.add_column(heading, justify="right", overflow="fold", width=width, vertical="bottom")
        table.add_column(_RESTS, no_wrap=True, vertical="bottom")
        rows, classes, bandwidth, *values = zip(*map(self._texts, positions), strict=True)
        table.add_row("rows", *rows)
        table.add_row("classes", *classes)
        table.add_row("bandwidth of the kernel", *bandwidth)
        for section, tests in (("Estimates", False), ("p-values", True)):
            table.add_row("")
            table.add_row(section, style="bold")
            for entry, texts in zip(self.choices.entries, values, strict=True):
                if entry.is_test == tests:
                    letters = [self._assumptions[text] for text in self._assumed(entry).values()]
                    table.add_row(entry.label, *texts, *letters)
        return table

    def _remarks(self) -> Any:
        """What p-values rest on, and what is left out."""
        remarks = Table.grid(padding=(0, 2))
        for text, letter in self._assumptions.items():
            remarks.add_row(letter, Text(text), style="dim")
        for column, heading in zip(self.columns, self.headings, strict=True):
            for note in _notes(column, self.choices):
                remarks.add_row("-", Text(f"{heading} is without {note}"))
        if any(map(self._unexplained, self.columns)):
            remarks.add_row("-", Text("otherwise: a number that the rows do not have, such as a p-value of one row"))
        return remarks

    def _unexplained(self, column: Column) -> bool:
        """Whether there is a dash that is not left out."""
        shown = (entry for entry in self.choices.entries if entry.name not in column.left_out)
        return any(np.isnan(column.value(entry)) for entry in shown)


def _notes(column: Column, choices: Choices) -> list[str]:
    """What is left out of the file, for each reason."""
    labels = {entry.name: ("p-value of " if entry.is_test else "") + entry.label for entry in choices.entries}
    by_reason: dict[str, list[str]] = {}
    for name, reason in column.left_out.items():
        by_reason.setdefault(reason, []).append(labels[name])
    return [f"{'; '.join(names)}: {reason}" for reason, names in by_reason.items()]
