"""Panels: one for each class, slice and other dimension of a result, alone or with a small one beneath."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any, Generic, TypeVar

import numpy as np
import xarray as xr

from calibdask.plot.options import styled
from calibdask.results.reliability import Reliability
from calibdask.safe_text import listed

_MOST_PANELS = 60
_MOST_COLUMNS = 5

Read = TypeVar("Read")
OnDiagonal = TypeVar("OnDiagonal", bound=Reliability)


@dataclass(frozen=True)
class Panel(Generic[Read]):
    """Content of a panel and its grid position; only left and bottom panels have axis names."""

    heading: str
    shown: Read
    number: int
    total: int

    def title(self, *words: str, numbers: str = "") -> str:
        """Words and the heading, with numbers on a line of their own."""
        line = " · ".join(filter(None, (*words, self.heading)))
        return "\n".join(filter(None, (line, numbers)))

    def across(self, name: str, label: str) -> Any:
        """Dimension of the x axis."""
        return _dimension(name, label if self.number + _columns(self.total) >= self.total else " ")

    def upward(self, name: str, label: str) -> Any:
        """Dimension of the y axis."""
        # HoloViews identifies dimensions of equal labels: this blank must differ from the other.
        return _dimension(name, label if self.number % _columns(self.total) == 0 else "  ")


def panels(dataset: xr.Dataset, read: type[OnDiagonal], metric: str) -> list[Panel[OnDiagonal]]:
    """A panel for each place along the dimensions of a reliability diagram or curve.

    Raises
    ------
    ValueError
        If there are more than can be drawn.
    """
    dims = read.dims_of(dataset, metric)
    return panels_along(dataset, dims, lambda at: read.of(dataset, metric, at), f"reliability {read.kind}")


def panels_along(
    dataset: xr.Dataset, dims: Sequence[Hashable], read: Callable[[dict[Hashable, int]], Read], what: str
) -> list[Panel[Read]]:
    """A panel for each place along these dimensions; ``what`` is the name of what they show.

    Raises
    ------
    ValueError
        If there are more than can be drawn.
    """
    sizes = [dataset.sizes[dim] for dim in dims]
    total = int(np.prod(sizes, dtype=np.int64))
    if total > _MOST_PANELS:
        words = listed(f"{dim}: {size}" for dim, size in zip(dims, sizes, strict=True))
        raise ValueError(
            f"A plot of a {what} expects at most {_MOST_PANELS} curves, got {total} ({words}); select some of them."
        )
    made = []
    for number, indexes in enumerate(product(*map(range, sizes))):
        at = dict(zip(dims, indexes, strict=True))
        heading = " · ".join(_label(dataset, str(dim), index) for dim, index in at.items())
        made.append(Panel(heading, read(at), number, total))
    return made


def in_rows(parts: Sequence[Any]) -> Any:
    """Plots in rows."""
    import holoviews as hv

    columns = _columns(len(parts))
    return styled(hv.Layout(list(parts)).cols(columns), "bokeh", columns)


def arrange(pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Large plots in rows, with the small one of each beneath it."""
    import holoviews as hv

    columns = _columns(len(pairs))
    parts: list[Any] = []
    for start in range(0, len(pairs), columns):
        row = pairs[start : start + columns]
        # A short last row is filled up: its small plots would otherwise move up beside its large ones.
        blank = [hv.Empty() for _ in range(columns - len(row))]
        parts += [large for large, _ in row] + blank
        parts += [small for _, small in row] + blank
    return styled(hv.Layout(parts).cols(columns), "bokeh", columns)


def pairs_of(layout: Any) -> list[tuple[Any, Any]]:
    """The pairs that `arrange` has put in rows.

    Examples
    --------
    >>> import holoviews as hv
    >>> pairs = [(hv.Curve([number]), hv.Area([number])) for number in range(7)]
    >>> [int(large.dimension_values("y")[0]) for large, _ in pairs_of(arrange(pairs))]
    [0, 1, 2, 3, 4, 5, 6]
    """
    import holoviews as hv

    parts, columns = [*layout], layout._max_cols
    rows = [parts[start : start + columns] for start in range(0, len(parts), columns)]
    pairs = [pair for both in zip(rows[::2], rows[1::2], strict=True) for pair in zip(*both, strict=True)]
    return [pair for pair in pairs if not isinstance(pair[0], hv.Empty)]


def _dimension(name: str, label: str) -> Any:
    import holoviews as hv

    return hv.Dimension(name, label=label)


def _columns(panels: int) -> int:
    """Panels in a row: rows are as even as possible."""
    return ceil(panels / ceil(panels / _MOST_COLUMNS))


def _label(dataset: xr.Dataset, dim: str, index: int) -> str:
    """Names speak for themselves, numbers need that of their dimension."""
    label = dataset[dim].values[index] if dim in dataset.coords else index
    return str(label) if isinstance(label, str) else f"{dim} {label}"
