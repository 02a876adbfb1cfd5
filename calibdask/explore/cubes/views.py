"""A view of a cube: what is looked at, described without any widget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cubes.aggregates import Step, described
from calibdask.study.reading import cell_dims, counts

__all__ = ["ERRORS", "Reference", "View", "cells_told", "labels_of", "places_of", "variables_of"]

Labels = tuple[Any, ...]

# What a cube is about.
_FIRST = ("estimate", "value")
# Labels in a message.
_TOLD = 20
# How values are compared with a reference.
ERRORS = ("absolute error", "signed error", "absolute error / reference", "signed error / reference")


@dataclass(frozen=True)
class Reference:
    """What values are compared with: another variable of the cube.

    Parameters
    ----------
    variable : str
        Its name.
    at : tuple of (dimension, label)
        Where it is read along the dimensions that the values do not have.
    error : str
        One of `ERRORS`.
    """

    variable: str
    at: tuple[tuple[str, Any], ...] = ()
    error: str = "absolute error"

    def words(self, variable: str) -> str:
        """What is shown of a variable."""
        at = f" ({', '.join(f'{dim} {label}' for dim, label in self.at)})" if self.at else ""
        gap = f"{variable} − {self.variable}{at}"
        gap = gap if self.is_signed else f"|{gap}|"
        return f"{gap} / {self.variable}" if self.is_relative else gap

    @property
    def is_signed(self) -> bool:
        """Whether errors on both sides are told apart."""
        return self.error.startswith("signed")

    @property
    def is_relative(self) -> bool:
        """Whether the error is a part of the reference."""
        return self.error.endswith("reference")

    def compared(self, values: np.ndarray, reference: np.ndarray) -> np.ndarray:
        """The errors; none where the reference is 0 and they are a part of it."""
        gap = values - reference
        if not self.is_signed:
            gap = np.abs(gap)
        if not self.is_relative:
            return gap
        return gap / np.where(reference == 0, np.nan, np.abs(reference))


@dataclass(frozen=True)
class View:
    """What is looked at of a cube.

    Parameters
    ----------
    variable : str
        Whose values.
    x : str
        Dimension along the x axis; "" for none.
    lines, panels : tuple of str
        Dimensions that have a line, or a panel, for each label.
    steps : tuple of Step
        What is aggregated, in this order.
    at : tuple of (dimension, label)
        Dimensions at one of their labels.
    only : tuple of (dimension, labels)
        Labels that are looked at; of other dimensions all.
    reference : Reference or None
        What values are compared with.
    band : (float, float), (str, str) or None
        Beside the values: quantiles of what the last step aggregates, or two variables that hold ends of intervals.

    Examples
    --------
    >>> steps = (Step("quantile", ("replicate",), 0.95), Step("median", ("draw", "model")))
    >>> view = View("estimate", "size", ("estimator",), ("setting",), steps, reference=Reference("truth"))
    >>> view.words()
    '|estimate − truth|: 95th percentile over replicate, then median over draw, model'
    """

    variable: str
    x: str = ""
    lines: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    at: tuple[tuple[str, Any], ...] = ()
    only: tuple[tuple[str, Labels], ...] = ()
    reference: Reference | None = None
    band: tuple[float, float] | tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """What is shown, in a word."""
        return self.reference.error if self.reference else self.variable

    @property
    def quantity(self) -> str:
        """What is shown, before it is aggregated."""
        return self.reference.words(self.variable) if self.reference else self.variable

    @property
    def kept(self) -> tuple[str, ...]:
        """Dimensions that the figure has."""
        return (*((self.x,) if self.x else ()), *self.lines, *self.panels)

    def words(self) -> str:
        """What is shown, in words."""
        found = ": ".join(filter(None, (self.quantity, described(self.steps))))
        fixed = ", ".join(f"{dim} {label}" for dim, label in self.at)
        return f"{found}; at {fixed}" if fixed else found

    def filters(self) -> dict[str, Labels]:
        """The labels that are looked at, of all dimensions that do not have all of them."""
        return {**{dim: (label,) for dim, label in self.at}, **dict(self.only)}


def variables_of(dataset: xr.Dataset) -> list[str]:
    """Variables with numbers to look at: estimates and values first, then the ones with most numbers.

    Examples
    --------
    >>> variables_of(xr.Dataset({"status": ("model", [1, 1]), "value": ("model", [0.1, 0.2]), "level": 0.9}))
    ['value']
    """
    hidden = {"status"} if cell_dims(dataset) else set()
    names = [
        str(name)
        for name, variable in dataset.data_vars.items()
        if variable.ndim and variable.size and variable.dtype.kind in "fiub" and name not in hidden
    ]
    return sorted(names, key=lambda name: (name not in _FIRST, -dataset[name].size, name))


def labels_of(dataset: xr.Dataset, dim: str) -> list[Any]:
    """The labels of a dimension as plain values; numbers from 0 where it has none."""
    if dim not in dataset.coords:
        return list(range(dataset.sizes[dim]))
    values = dataset[dim].values
    # Dates as lists of Python would be whole numbers.
    return list(values) if values.dtype.kind in "mM" else values.tolist()


def places_of(dataset: xr.Dataset, labels: Mapping[str, Sequence[Any]]) -> dict[str, np.ndarray]:
    """Where labels stand along their axes, in the order of the axes.

    Raises
    ------
    ValueError
        If an axis has no such label.
    """
    found = {}
    for dim, wanted in labels.items():
        known = {label: place for place, label in enumerate(labels_of(dataset, dim))}
        unknown = [label for label in wanted if label not in known]
        if unknown:
            some = ", ".join(map(str, [*known][:_TOLD])) + (", ..." if len(known) > _TOLD else "")
            raise ValueError(f"{dim} expects some of {some}, got {unknown[0]!r}.")
        found[dim] = np.array(sorted(known[label] for label in wanted), int)
    return found


def cells_told(dataset: xr.Dataset) -> str:
    """How far a cube is, in words; "" for what has no cells."""
    cells, done, failed = counts(dataset)
    if not cells:
        return ""
    words = f"{done:,} of {cells:,} cells done" if done < cells else f"all {cells:,} cells done"
    return f"{words}, {failed:,} failed" if failed else words
