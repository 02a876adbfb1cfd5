"""The numbers of a result as a table: on a terminal, in a notebook, in Markdown, as a data frame."""

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import islice
from typing import Any

import xarray as xr

from calibdask.html_repr import framed, table_of
from calibdask.results.format import shown_number
from calibdask.results.text_table import MOST_SLICES, foot_lines, joined, label_of, result_lines
from calibdask.results.values import (
    PartResult,
    Results,
    Value,
)

__all__ = ["ResultTable"]

_WIDTH = 100
_REST = "; to_dataframe() has them all."


@dataclass(frozen=True, eq=False, repr=False)
class ResultTable:
    """The numbers of a result of `calibdask.evaluate`: value, interval and meaning of each; slices are rows.

    Printed it is the table of the command line; notebooks show it as HTML, and ``_repr_markdown_`` is there too.

    Parameters
    ----------
    result : xarray.Dataset
        What `calibdask.evaluate` returns; ``result.calib.table()`` makes this table of it.

    Examples
    --------
    >>> import calibdask as cd
    >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], {"ece": cd.ECE(bins=2), "brier": cd.BrierScore()})
    >>> ResultTable(result)  # doctest: +ELLIPSIS
    metric     value  what it says
    ...
    ece     0.250000  mean gap of score and frequency, in 2 bins
    brier   0.150000  mean squared error of the scores
    <BLANKLINE>
    4 rows, 1 pass over the data
    >>> ResultTable(result).to_dataframe()["value"].round(3).to_dict()
    {'ece': 0.25, 'brier': 0.15}
    """

    result: xr.Dataset

    def __repr__(self) -> str:
        lines = [*result_lines(self.result, _WIDTH, rest=_REST), (), *foot_lines(self.result.attrs, _WIDTH)]
        return "\n".join(map(joined, lines)).rstrip()

    def _repr_html_(self) -> str:
        heading, rows = self._texts
        tables = [table_of(heading, ((row, False) for row in rows), right=self._right(heading))]
        if self._results.shared_dims:
            tables.append(table_of(("number", "what it says"), ((line, True) for line in self._meanings)))
        notes = "".join(f'<div style="margin-top:0.5em;opacity:0.6">{escape(note)}</div>' for note in self._notes)
        return framed("", "", *tables, notes)

    def _repr_markdown_(self) -> str:
        heading, rows = self._texts
        marks = ["--:" if place in self._right(heading) else "---" for place in range(len(heading))]
        lines = [[*map(_in_markdown, line)] for line in (heading, *rows)]
        lines.insert(1, marks)
        return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), *("\n" + note for note in self._notes)])

    def to_dataframe(self) -> Any:
        """A pandas data frame: a line for each number with value, low, high and meaning, or one for each slice.

        Examples
        --------
        >>> import calibdask as cd
        >>> result = cd.evaluate([0, 1, 1, 0], [0.2, 0.4, 0.6, 0.8], cd.ECE(bins=2), by={"day": [1, 1, 2, 2]})
        >>> ResultTable(result).to_dataframe()["ece"].round(3).to_dict()
        {1: 0.2, 2: 0.2}
        """
        dims = self._results.shared_dims
        if dims:
            names = [name for part in self._results.numbers for name in (part.variable, *_names_of_ends(part))]
            return self.result[names].to_dataframe(dim_order=list(dims))
        values = self._results.values()
        columns = {
            "value": [value.value for value in values],
            "low": [float("nan") if value.low is None else value.low for value in values],
            "high": [float("nan") if value.high is None else value.high for value in values],
            "meaning": [value.meaning for value in values],
        }
        variables = {name: ("metric", column) for name, column in columns.items()}
        return xr.Dataset(variables, {"metric": [value.name for value in values]}).to_dataframe()

    @cached_property
    def _results(self) -> Results:
        return Results(self.result)

    @property
    def _meanings(self) -> list[tuple[str, str]]:
        """What each number is, where that is known."""
        return [(part.variable, part.meaning) for part in self._results.numbers if part.meaning]

    @property
    def _notes(self) -> list[str]:
        dims = self._results.shared_dims
        hidden = math.prod(self.result.sizes[dim] for dim in dims) - MOST_SLICES
        cut = [f"... and {hidden:,} more slices{_REST}"] if dims and hidden > 0 else []
        return [*cut, *map(joined, foot_lines(self.result.attrs, sys.maxsize))]

    def _right(self, heading: Sequence[str]) -> range:
        """Which columns hold numbers."""
        labels = len(self._results.shared_dims)
        return range(labels, len(heading)) if labels else range(1, len(heading) - 1)

    @property
    def _texts(self) -> tuple[list[str], list[list[str]]]:
        """The heading of a table, and its lines."""
        results = self._results
        if not results.shared_dims:
            values = results.values()
            interval = ["interval"] if any(value.has_interval for value in values) else []
            lines = [
                [value.name, shown_number(value.value), *([_interval(value)] if interval else []), value.meaning]
                for value in values
            ]
            return ["metric", "value", *interval, "what it says"], lines
        lines = []
        for at, labels in islice(results.strata(), MOST_SLICES):
            values = [part.at(at).value() for part in results.numbers]
            numbers = (f"{shown_number(value.value)} {_interval(value)}".rstrip() for value in values)
            lines.append([*map(label_of, labels.values()), *numbers])
        return [*results.shared_dims, *(part.variable for part in results.numbers)], lines


def _names_of_ends(part: PartResult) -> list[str]:
    return [str(part.bounds[end].name) for end in ("low", "high")] if part.has_interval else []


def _interval(value: Value) -> str:
    return f"[{shown_number(value.low)}, {shown_number(value.high)}]" if value.has_interval else ""


def _in_markdown(text: str) -> str:
    """The text with those characters written out that would mark something, or end the cell."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)
