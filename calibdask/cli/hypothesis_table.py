"""Estimates and p-values of several files beside each other: a table, JSON and a dataset."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase
from textwrap import wrap
from typing import Any

import numpy as np
import xarray as xr

from calibdask import __version__
from calibdask.cli.hypothesis_panel import Choices, Entry
from calibdask.cli.row_options import stem_of
from calibdask.cli.tables import json_text, metric_values, print_lines, rule_of
from calibdask.estimators.about import Kind, PartInfo
from calibdask.render.text_layout import (
    GAP,
    INDENT,
    Column,
    Line,
    aligned,
    asides,
    column_widths,
    table_lines,
    wrapped,
)
from calibdask.results.build import FORMAT, variable_attributes, variable_name
from calibdask.results.format import counted, shown_texts
from calibdask.results.values import PartResult, Results

_WIDEST = 20
_RESTS = "rests on"
# Of parts that are left out of all files; those of tests are statistics otherwise.
_KINDS: Mapping[str, Kind] = {"": "error", "pvalue": "pvalue"}


@dataclass(frozen=True, kw_only=True)
class FileResult:
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
        """Bandwidth of the kernel, which all entries share."""
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
        result = self.part(entry, entry.visible_part if part is None else part)
        return np.nan if result is None else float(result.values)


@dataclass(frozen=True)
class FileTable:
    """Files beside each other."""

    choices: Choices
    conventions: str
    columns: tuple[FileResult, ...]

    @property
    def headings(self) -> list[str]:
        """File names without folders and suffixes, or full paths where these are ambiguous."""
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
        return json_text({**self._head, "files": files})

    def _described(self, column: FileResult) -> dict[str, Any]:
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
        """All numbers by file; missing ones are NaN."""
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
        """Attributes of the part that agree in all files."""
        results = [column.part(entry, part) for column in self.columns]
        attributes = [result.values.attrs for result in results if result is not None]
        if not attributes:
            info = PartInfo().settled(_KINDS.get(part, "statistic"))
            attributes = [variable_attributes(entry.name, part, info, entry.estimator)]
        first, *others = attributes
        common = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
        return {**common, "label": entry.label, **self._assumed(entry)}

    def _assumed(self, entry: Entry) -> dict[str, str]:
        """Assumptions of the p-value of the entry, if a file has one."""
        for column in self.columns:
            result = column.part(entry, entry.visible_part) if entry.is_test else None
            if result is not None:
                return {"assumes": str(result.notes["assumes"])}
        return {}

    @cached_property
    def _assumptions(self) -> dict[str, str]:
        """Assumptions of p-values, each with a letter."""
        texts = [text for entry in self.choices.entries for text in self._assumed(entry).values()]
        return dict(zip(dict.fromkeys(texts), ascii_lowercase, strict=False))

    def show(self, out: Any, *, seconds: float) -> None:
        """Print the numbers, as many files in a table as fit, and what they rest on."""
        title = f"Calibration of {counted(len(self.columns), 'file')}"
        out.print(f"{title}, setting {self.choices.setting}, conventions {self.conventions}", style="bold")
        for columns in self._fitting(out.width):
            print_lines([(), *table_lines(columns, rule_of(out))], out)
        print_lines([(), *self._remarks(out.width)], out)
        foot = "Small p-values speak against calibration."
        print_lines(asides(f"{foot} Seed {self.choices.seed}, {seconds:.2f} s", out.width), out)

    def _fitting(self, width: int) -> Iterator[list[Column]]:
        """The columns of one table after the other, each with the labels and what p-values rest on."""
        labels, rests = Column([""], [[text] for text in self._labels]), Column([_RESTS], self._letters)
        files: list[Column] = []
        for file, heading in zip(self.columns, self.headings, strict=True):
            column = aligned(wrap(heading, _WIDEST), [[text] for text in self._texts(file)])
            if files and column_widths([labels, *files, column, rests]) - len(GAP) > width:
                yield [labels, *files, rests]
                files = []
            files.append(column)
        yield [labels, *files, rests]

    @cached_property
    def _sections(self) -> dict[str, list[Entry]]:
        return {
            heading: [entry for entry in self.choices.entries if entry.is_test == tests]
            for heading, tests in (("Estimates", False), ("p-values", True))
        }

    @property
    def _labels(self) -> list[str]:
        """Labels of the lines; an empty line precedes each section."""
        labels = ["rows", "classes", "bandwidth of the kernel"]
        for heading, entries in self._sections.items():
            labels += ["", heading, *(f"{INDENT}{entry.label}" for entry in entries)]
        return labels

    def _texts(self, file: FileResult) -> list[str]:
        """The numbers of a file in these lines."""
        texts = [*shown_texts(file.rows), *shown_texts(file.classes), *shown_texts(file.bandwidth, rows=file.rows)]
        for entries in self._sections.values():
            kind = {True: "pvalue", False: "error"}
            numbers = (shown_texts(file.value(one), kind=kind[one.is_test], rows=file.rows) for one in entries)
            texts += ["", "", *(text for number in numbers for text in number)]
        return texts

    @property
    def _letters(self) -> list[list[str]]:
        """Letters of the assumptions of each line."""
        letters = ["", "", ""]
        for entries in self._sections.values():
            of_entries = (
                "".join(self._assumptions[text] for text in self._assumed(entry).values()) for entry in entries
            )
            letters += ["", "", *of_entries]
        return [[letter] for letter in letters]

    def _remarks(self, width: int) -> Iterator[Line]:
        """Assumptions of p-values, and missing numbers."""
        remarks = [(letter, text) for text, letter in self._assumptions.items()]
        remarks += [
            ("-", f"{heading} is without {note}")
            for file, heading in zip(self.columns, self.headings, strict=True)
            for note in _notes(file, self.choices)
        ]
        if any(map(self._unexplained, self.columns)):
            remarks.append(("-", "otherwise undefined, such as a p-value of one row"))
        for mark, text in remarks:
            for number, line in enumerate(wrapped(text, width - len(GAP) - 1)):
                yield (((" " if number else mark) + GAP + line, "aside"),)

    def _unexplained(self, column: FileResult) -> bool:
        """Whether there is a dash that is not left out."""
        shown = (entry for entry in self.choices.entries if entry.name not in column.left_out)
        return any(np.isnan(column.value(entry)) for entry in shown)


def _notes(column: FileResult, choices: Choices) -> list[str]:
    """Numbers missing for the file, by reason."""
    labels = {entry.name: ("p-value of " if entry.is_test else "") + entry.label for entry in choices.entries}
    by_reason: dict[str, list[str]] = {}
    for name, reason in column.left_out.items():
        by_reason.setdefault(reason, []).append(labels[name])
    return [f"{'; '.join(names)}: {reason}" for reason, names in by_reason.items()]
