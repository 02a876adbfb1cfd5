"""Panels: one for each class, slice and other dimension of a result, a small picture beneath each large one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import xarray as xr

from calibdask.plot.look import styled

__all__ = ["Place", "arranged", "headed", "pairs_of", "panels", "prefixes_of"]

_MOST_PANELS = 60
_MOST_COLUMNS = 5


def prefixes_of(dataset: xr.Dataset, names: Sequence[str]) -> list[str]:
    """What stands before all of these names in a dataset: one prefix for each metric that has them, maybe empty."""
    there = set(map(str, dataset.variables))
    mark, *others = names
    prefixes = [name.removesuffix(mark) for name in map(str, dataset.data_vars) if name.endswith(mark)]
    return [prefix for prefix in prefixes if {prefix + other for other in others} <= there]


def panels(dataset: xr.Dataset, variable: str, plot: str) -> Iterator[tuple[str, xr.Dataset]]:
    """Heading and data of each panel: the places along all dimensions of a variable but its last.

    Raises
    ------
    ValueError
        If there are more than can be drawn.
    """
    dims = dataset[variable].dims[:-1]
    total = int(np.prod([dataset.sizes[dim] for dim in dims], dtype=np.int64))
    if total > _MOST_PANELS:
        sizes = ", ".join(f"{dim}: {dataset.sizes[dim]}" for dim in dims)
        raise ValueError(f"{plot} expects at most {_MOST_PANELS} curves, got {total} ({sizes}); select some of them.")
    for place in product(*(range(dataset.sizes[dim]) for dim in dims)):
        at = dict(zip(dims, place, strict=True))
        one = dataset.isel(at)
        words = [_words(str(dim), one[dim].item() if dim in one.coords else at[dim]) for dim in dims]
        yield " · ".join(words), one


def arranged(pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Large pictures in lines, with the small one of each beneath it."""
    import holoviews as hv

    columns = _columns(len(pairs))
    parts: list[Any] = []
    for start in range(0, len(pairs), columns):
        line = pairs[start : start + columns]
        # A short last line is filled up, or its small pictures would move up beside its large ones.
        gap = [hv.Empty() for _ in range(columns - len(line))]
        parts += [large for large, _ in line] + gap
        parts += [small for _, small in line] + gap
    return styled(hv.Layout(parts).cols(columns), "bokeh", columns)


def pairs_of(layout: Any) -> list[tuple[Any, Any]]:
    """The pairs that `arranged` has put in lines.

    Examples
    --------
    >>> import holoviews as hv
    >>> pairs = [(hv.Curve([number]), hv.Area([number])) for number in range(7)]
    >>> [int(large.dimension_values("y")[0]) for large, _ in pairs_of(arranged(pairs))]
    [0, 1, 2, 3, 4, 5, 6]
    """
    import holoviews as hv

    parts, columns = [*layout], layout._max_cols
    lines = [parts[start : start + columns] for start in range(0, len(parts), columns)]
    pairs = [pair for both in zip(lines[::2], lines[1::2], strict=True) for pair in zip(*both, strict=True)]
    return [pair for pair in pairs if not isinstance(pair[0], hv.Empty)]


@dataclass(frozen=True)
class Place:
    """Where a panel stands among all, and so which of its axes need words: those at the left and at the bottom."""

    number: int
    total: int

    def across(self, name: str, label: str) -> Any:
        """Dimension of the x axis."""
        return _dimension(name, label if self.number + _columns(self.total) >= self.total else " ")

    def upward(self, name: str, label: str) -> Any:
        """Dimension of the y axis."""
        # HoloViews takes dimensions of equal labels for one: this blank is not the other.
        return _dimension(name, label if self.number % _columns(self.total) == 0 else "  ")


def _dimension(name: str, label: str) -> Any:
    import holoviews as hv

    return hv.Dimension(name, label=label)


def _columns(panels: int) -> int:
    """Panels in a line: as even as the lines can be."""
    return ceil(panels / ceil(panels / _MOST_COLUMNS))


def headed(title: str, heading: str, numbers: str) -> str:
    """Title of a panel: what it shows, and beneath that its numbers."""
    words = " · ".join(part for part in (title, heading) if part)
    return f"{words}\n{numbers}" if words else numbers


def _words(dim: str, label: Any) -> str:
    """What tells one panel from the next: names speak for themselves, numbers do not."""
    return label if isinstance(label, str) else f"{dim} {label}"
