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

from calibdask.described import framed, table_of
from calibdask.engine.writers import slice_dims
from calibdask.readout import Reading, interval_ends, numbers_of, places, readings, shown_number
from calibdask.text_table import MOST_SLICES, foot_lines, joined, label_of, result_lines

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
        if self._dims:
            tables.append(table_of(("number", "what it says"), (((name, said), True) for name, said in self._said)))
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
        if self._dims:
            return self._numbers.to_dataframe(dim_order=self._dims)
        read = readings(self._numbers)
        columns = {
            "value": [each.value for each in read],
            "low": [float("nan") if each.low is None else each.low for each in read],
            "high": [float("nan") if each.high is None else each.high for each in read],
            "meaning": [each.meaning for each in read],
        }
        names = [each.name for each in read]
        variables = {name: ("metric", values) for name, values in columns.items()}
        return xr.Dataset(variables, {"metric": names}).to_dataframe()

    @cached_property
    def _numbers(self) -> xr.Dataset:
        return numbers_of(self.result)

    @property
    def _dims(self) -> list[Any]:
        return slice_dims(self.result)

    @property
    def _named(self) -> list[str]:
        """Names of the numbers, without those of ends of intervals."""
        names = [str(name) for name in self._numbers.data_vars]
        ends = {end for pair in interval_ends(names).values() for end in pair}
        return [name for name in names if name not in ends]

    @property
    def _said(self) -> list[tuple[str, str]]:
        """What each number says, where it says something."""
        meanings = {name: str(self._numbers[name].attrs.get("meaning", "")) for name in self._named}
        return [each for each in meanings.items() if each[1]]

    @property
    def _notes(self) -> list[str]:
        hidden = math.prod(self._numbers[dim].size for dim in self._dims) - MOST_SLICES
        told = [f"... and {hidden:,} more slices{_REST}"] if self._dims and hidden > 0 else []
        return [*told, *map(joined, foot_lines(self.result.attrs, sys.maxsize))]

    def _right(self, heading: Sequence[str]) -> range:
        """Where numbers stand in a line of the table."""
        return range(len(self._dims), len(heading)) if self._dims else range(1, len(heading) - 1)

    @property
    def _texts(self) -> tuple[list[str], list[list[str]]]:
        """The heading of a table, and its lines."""
        if not self._dims:
            read = readings(self._numbers)
            interval = ["interval"] if any(each.has_interval for each in read) else []
            lines = [
                [each.name, shown_number(each.value), *([_interval(each)] if interval else []), each.meaning]
                for each in read
            ]
            return ["metric", "value", *interval, "what it says"], lines
        lines = []
        for at, labels in islice(places(self._numbers), MOST_SLICES):
            here = self._numbers.isel(at)
            numbers = (f"{shown_number(each.value)} {_interval(each)}".rstrip() for each in readings(here))
            lines.append([*map(label_of, labels.values()), *numbers])
        return [*map(str, self._dims), *self._named], lines


def _interval(read: Reading) -> str:
    return f"[{shown_number(read.low)}, {shown_number(read.high)}]" if read.has_interval else ""


def _in_markdown(text: str) -> str:
    """The text with those characters written out that would mark something, or end the cell."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)
