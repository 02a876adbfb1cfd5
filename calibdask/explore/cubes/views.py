"""A view of a cube, described independently of widgets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from calibdask.explore.cubes.aggregates import Step, described
from calibdask.safe_text import listed
from calibdask.study.reading import counts

Labels = tuple[Any, ...]

# Labels that an error message lists.
_MOST_LISTED = 20
# How values are compared with a reference.
ERRORS = ("absolute error", "signed error", "absolute error / reference", "signed error / reference")


@dataclass(frozen=True)
class Reference:
    """Reference variable for comparisons.

    Parameters
    ----------
    variable : str
        Its name.
    at : tuple of (dimension, label)
        Where it is read along the dimensions that the values do not have.
    error : str
        One of `ERRORS`.
    title : str
        What the variable is called, where that is not its name.
    """

    variable: str
    at: tuple[tuple[str, Any], ...] = ()
    error: str = "absolute error"
    title: str = ""

    def text(self, variable: str) -> str:
        """Description of a variable compared with the reference."""
        name = self.title or self.variable
        at = f" ({', '.join(f'{dim} {label}' for dim, label in self.at)})" if self.at else ""
        gap = f"{variable} − {name}{at}"
        gap = gap if self.is_signed else f"|{gap}|"
        return f"{gap} / {name}" if self.is_relative else gap

    @property
    def is_signed(self) -> bool:
        """Whether errors have a sign."""
        return self.error.startswith("signed")

    @property
    def is_relative(self) -> bool:
        """Whether the error is a share of the reference."""
        return self.error.endswith("reference")

    def compared(self, values: np.ndarray, reference: np.ndarray) -> np.ndarray:
        """The errors; NaN where they are relative to a reference of 0."""
        gap = values - reference
        if not self.is_signed:
            gap = np.abs(gap)
        if not self.is_relative:
            return gap
        return gap / np.where(reference == 0, np.nan, np.abs(reference))


@dataclass(frozen=True)
class CubeView:
    """A view of a cube: variable, dimensions, and aggregation steps.

    Parameters
    ----------
    variable : str
        Name of the variable.
    x : str
        Dimension along the x axis; "" for none.
    lines, panels : tuple of str
        Dimensions that have a line, or a panel, for each label.
    steps : tuple of Step
        What is aggregated, in this order.
    at : tuple of (dimension, label)
        Dimensions at one of their labels.
    only : tuple of (dimension, labels)
        Labels that are shown; of other dimensions all.
    reference : Reference or None
        What values are compared with.
    band : (float, float), (str, str) or None
        Beside the values: quantiles of what the last step aggregates, or two variables that hold ends of intervals.
    title : str
        What the variable is called, where that is not its name.

    Examples
    --------
    >>> steps = (Step("quantile", ("replicate",), 0.95), Step("median", ("draw", "model")))
    >>> view = CubeView("estimate", "size", ("estimator",), ("setting",), steps, reference=Reference("truth"))
    >>> view.text()
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
    title: str = ""

    @property
    def label(self) -> str:
        """Label of the variable."""
        return self.title or self.variable

    @property
    def name(self) -> str:
        """Short name of the view."""
        return self.reference.error if self.reference else self.label

    @property
    def axis_name(self) -> str:
        """Name of the value axis, with the aggregations in their order."""
        return ": ".join(filter(None, (self.name, ", then ".join(step.name for step in self.steps))))

    @property
    def quantity(self) -> str:
        """Name of the quantity before aggregation."""
        return self.reference.text(self.label) if self.reference else self.label

    @property
    def kept(self) -> tuple[str, ...]:
        """Dimensions that the figure has."""
        return (*((self.x,) if self.x else ()), *self.lines, *self.panels)

    def text(self) -> str:
        """Description of the view."""
        values = ": ".join(filter(None, (self.quantity, described(self.steps))))
        fixed = ", ".join(f"{dim} {label}" for dim, label in self.at)
        return f"{values}; at {fixed}" if fixed else values

    def filters(self) -> dict[str, Labels]:
        """The labels that are shown, of all dimensions that are not shown whole."""
        return {**{dim: (label,) for dim, label in self.at}, **dict(self.only)}


def labels_of(dataset: xr.Dataset, dim: str) -> list[Any]:
    """The labels of a dimension as plain values; numbers from 0 where it has none."""
    if dim not in dataset.coords:
        return list(range(dataset.sizes[dim]))
    values = dataset[dim].values
    # Dates as lists of Python would be whole numbers.
    return list(values) if values.dtype.kind in "mM" else values.tolist()


def positions_of(dataset: xr.Dataset, labels: Mapping[str, Sequence[Any]]) -> dict[str, np.ndarray]:
    """Positions of labels along their axes, in the order of the axes.

    Raises
    ------
    ValueError
        If an axis has no such label.
    """
    positions = {}
    for dim, chosen in labels.items():
        known = {label: index for index, label in enumerate(labels_of(dataset, dim))}
        unknown = [label for label in chosen if label not in known]
        if unknown:
            shown = listed([*known][:_MOST_LISTED]) + (", ..." if len(known) > _MOST_LISTED else "")
            raise ValueError(f"{dim} expects some of {shown}, got {unknown[0]!r}.")
        positions[dim] = np.array(sorted(known[label] for label in chosen), int)
    return positions


def is_complete(dataset: xr.Dataset) -> bool:
    """Whether all cells of a cube are done."""
    cells, done, _ = counts(dataset)
    return done == cells


def progress_text(dataset: xr.Dataset) -> str:
    """How many cells of a cube are done; "" for datasets without cells."""
    cells, done, failed = counts(dataset)
    if not cells:
        return ""
    text = f"{done:,} of {cells:,} cells done" if done < cells else f"all {cells:,} cells done"
    return f"{text}, {failed:,} failed" if failed else text
