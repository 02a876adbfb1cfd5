"""The numbers of a result as a table: on a terminal, in a notebook, in Markdown, as a data frame."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xarray as xr

from calibdask.html_repr import framed, table_of
from calibdask.markup import Html, in_markdown
from calibdask.render.text_layout import Column, joined
from calibdask.render.text_table import MOST_SLICES, foot_lines, own_lines, result_columns, result_lines
from calibdask.results.document import Document
from calibdask.results.values import PartResult, Results

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
    metric  value  meaning
    ...
    ece      0.25  mean gap of score and frequency, in 2 bins
    brier    0.15  mean squared error of the scores
    <BLANKLINE>
    4 rows, 3 events (frequency 0.75, mean score 0.50), 1 pass over the data
    >>> ResultTable(result).to_dataframe()["value"].round(3).to_dict()
    {'ece': 0.25, 'brier': 0.15}
    """

    result: xr.Dataset

    def __repr__(self) -> str:
        lines = [*result_lines(self.result, _WIDTH, rest=_REST), (), *foot_lines(self.result, _WIDTH)]
        return "\n".join(map(joined, lines)).rstrip()

    def _repr_html_(self) -> str:
        heading, rows = self._texts
        right = [place for place, column in enumerate(self._columns) if column.right]
        tables = [table_of(heading, ((row, False) for row in rows), right=right)]
        if self._results.shared_dims:
            tables.append(table_of(("number", "meaning"), ((line, True) for line in self._meanings)))
        block = Html('<div style="margin-top:0.8em"><strong>{}</strong></div><pre style="margin:0.2em 0">{}</pre>')
        tables += [block.format(title, text) for title, text in self._curves]
        notes = Html().join(map(Html('<div style="margin-top:0.5em;opacity:0.6">{}</div>').format, self._notes))
        return framed("", "", *tables, notes)

    def _repr_markdown_(self) -> str:
        return self.to_markdown()

    def to_markdown(self) -> str:
        """The table as Markdown.

        Examples
        --------
        >>> import calibdask as cd
        >>> result = cd.evaluate([0, 1, 1, 1], [0.2, 0.4, 0.6, 0.8], cd.ECE(bins=2))
        >>> print(ResultTable(result).to_markdown().splitlines()[0])
        | metric | value | meaning |
        """
        heading, rows = self._texts
        marks = ["--:" if column.right else "---" for column in self._columns]
        lines = [[*map(in_markdown, line)] for line in (heading, *rows)] if rows else []
        lines[1:1] = [marks] if rows else []
        # Texts of data must not end the block.
        blocks = [(in_markdown(title), text.replace("`", "'")) for title, text in self._curves]
        curves = [f"\n**{title}**\n\n```text\n{text}\n```" for title, text in blocks]
        notes = ["\n" + in_markdown(note) for note in self._notes]
        return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), *curves, *notes]).lstrip("\n")

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
            # Totals of classes have no place in a line for all of them.
            apart = [name for name, total in self._results.totals.items() if not {*total.dims} <= {*dims}]
            return self.result[names].drop_vars(apart).to_dataframe(dim_order=list(dims))
        values = self._results.values()
        if not values and self._results.parts:
            raise ValueError(
                "to_dataframe expects metrics with a number, got curves or diagrams only; convert the variables of the "
                f"result, such as result[[{self._results.parts[0].variable!r}]].to_dataframe()."
            )
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

    @cached_property
    def _columns(self) -> list[Column]:
        return result_columns(self.result)

    @property
    def _texts(self) -> tuple[list[str], list[list[str]]]:
        """The heading of the table, and its lines."""
        columns = self._columns
        cells = zip(*(column.cells for column in columns), strict=True)
        return [" ".join(column.heading) for column in columns], [
            ["".join(cell).strip() for cell in row] for row in cells
        ]

    @property
    def _curves(self) -> list[tuple[str, str]]:
        """The title and the text of each table of classes or of a curve."""
        tables = own_lines(self._results, _WIDTH)
        return [(title, "\n".join(map(joined, lines))) for title, lines in tables]

    @property
    def _meanings(self) -> list[tuple[str, str]]:
        """Meaning of each number, if known."""
        return [(part.variable, part.meaning) for part in self._results.shown if part.meaning]

    @property
    def _notes(self) -> list[str]:
        dims = self._results.shared_dims
        hidden = math.prod(self.result.sizes[dim] for dim in dims) - MOST_SLICES
        cut = [f"... and {hidden:,} more slices{_REST}"] if dims and hidden > 0 else []
        return [*cut, *map(joined, foot_lines(self.result, sys.maxsize))]


@dataclass(frozen=True, eq=False, repr=False)
class AnalysisTable(ResultTable):
    """The document of a result of another analysis, such as a comparison, and its lines as a data frame."""

    document: Document
    lines: Sequence[Mapping[str, Any]]

    def __repr__(self) -> str:
        return self.document.to_text(_WIDTH)

    def _repr_html_(self) -> str:
        return self.document.to_html()

    def to_markdown(self) -> str:
        """The document as Markdown."""
        return self.document.to_markdown()

    def to_dataframe(self) -> Any:
        """A pandas data frame with the lines of the analysis' CSV: of a comparison one for each model and metric."""
        names = dict.fromkeys(name for line in self.lines for name in line)
        # The dimension has a name that no column has.
        columns = {name: ("\0", [line.get(name) for line in self.lines]) for name in names}
        return xr.Dataset(columns).to_dataframe().rename_axis(None)


def _names_of_ends(part: PartResult) -> list[str]:
    return [str(part.bounds[end].name) for end in ("low", "high")] if part.has_interval else []
