"""The axes of results: their names, and the labels along them."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibdask.engine.arrays import merged_in_float64

# What the slice of rows without a value is called among texts; among numbers it is NaN, among dates NaT.
MISSING = "missing"


# Names that results and summaries give to dimensions and coordinates of their own.
_OF_RESULTS = {"rows", "events", "mean_score", "frequency", "clusters", "class", "sample"}
_OF_SUMMARIES = {
    "outcome",
    "cell",
    "cells",
    "support_cell",
    "cell_lower",
    "cell_upper",
    "classes",
    "vector",
    "row_notes",
}
_OF_AUDITS = {"segment", "segment_cell"}
_OWN_NAMES = frozenset(_OF_RESULTS | _OF_SUMMARIES | _OF_AUDITS)


@dataclass(frozen=True)
class Axis:
    """A dimension of the result, and the labels along it.

    Attributes
    ----------
    name : str
    size : int
    labels : array or None
    column : str or None
        What the user calls it, where results have something else of this name.
    """

    name: Hashable
    size: int
    labels: Any = None
    column: Hashable = None

    @property
    def given_name(self) -> Hashable:
        """Name under which the user knows the axis."""
        return self.name if self.column is None else self.column


def slice_axis(name: Hashable, labels: Any) -> Axis:
    """The axis of slices of this name; where results have something of this name themselves, with an underscore.

    Examples
    --------
    >>> slice_axis("rows", [1, 2]).name, slice_axis("day", [1, 2]).name
    ('rows_', 'day')
    """
    dimension = slice_dimension(name)
    return Axis(dimension, len(labels), labels, None if dimension == name else name)


def slice_dimension(name: Hashable) -> Hashable:
    """The dimension of slices of this name."""
    return f"{name}_" if name in _OWN_NAMES else name


def column_name(dimension: Hashable) -> str:
    """The name under which the user knows a dimension of slices, for people to read.

    Examples
    --------
    >>> column_name("rows_"), column_name("day"), column_name("day_")
    ('rows', 'day', 'day_')
    """
    name = str(dimension)
    return name[:-1] if name.endswith("_") and name[:-1] in _OWN_NAMES else name


def with_missing(labels: np.ndarray) -> np.ndarray:
    """The labels of slices, and one of the rows without a value: NaN, NaT or a text.

    Examples
    --------
    >>> with_missing(np.array([1, 2])), with_missing(np.array(["be", "se"], object))
    (array([ 1.,  2., nan]), array(['be', 'se', 'missing'], dtype=object))
    """
    if labels.dtype.kind in "Mm":
        return np.append(labels, np.array("NaT", labels.dtype))
    texts = labels.tolist()
    if labels.dtype.kind in "iuf" or (
        texts and all(isinstance(text, int | float) and not isinstance(text, bool) for text in texts)
    ):
        check_identifiers(labels)
        return np.append(labels.astype(np.float64), np.nan)
    if labels.dtype.kind == "b" or any(isinstance(text, bool) for text in texts):
        texts = [str(text) for text in texts]
    name = MISSING
    while name in texts:
        name = f"({name})"
    joined = np.empty(len(texts) + 1, object)
    joined[:] = [*texts, name]
    return joined if labels.dtype.kind in "Ob" else joined.astype(str)


def check_identifiers(labels: np.ndarray) -> None:
    """Raise ValueError for identifiers as floating-point numbers: rounding can merge several."""
    merged = merged_in_float64(labels)
    if merged is not None:
        raise ValueError(
            f"by expects values below 2**53, as integers with missing values become floating-point numbers, which "
            f"cannot distinguish larger neighbours, got {merged}; give such identifiers as text."
        )
