"""The units in which bins of equal mass count their rows: one rule for rows and for cells of a grid."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.order.ranks import KeyCells

# Sums of whole weights below are exact, and their products with numbers of bins fit an int64.
_EXACT = 2.0**44
# Cumulative weights are compared with this relative tolerance: rounding must not move an edge by a row.
_TOLERANCE = 2.0**-40


class Masses(NamedTuple):
    """Mass of strata as whole numbers of units, all fields (strata,).

    ``unit`` is the weight of one, and ``slack`` what cumulative weights may be off by rounding.
    """

    total: Counts
    unit: Array
    slack: Array

    @classmethod
    def of_rows(cls, rows: Counts) -> "Masses":
        """Of rows without weights."""
        return cls(rows, np.ones(rows.shape), np.zeros(rows.shape))

    @classmethod
    def of_weights(cls, weight: Array, rows: Counts, whole: npt.NDArray[np.bool_]) -> "Masses":
        """Of sums of weights: units of 1 where all weights are ``whole`` numbers, as if rows were repeated.

        Else the mean weight, so that equal weights are like none.
        """
        exact = whole & (weight < _EXACT)
        mean = weight / np.maximum(rows, 1)
        total = np.where(exact, weight, rows).astype(np.int64)
        return cls(total, np.where(exact, 1.0, mean), np.where(exact, 0.0, _TOLERANCE * weight))

    @classmethod
    def of_keys(cls, cells: KeyCells, rows: Counts, *, weighted: bool) -> "Masses":
        """Of cells of keys whose strata have so many rows."""
        if not weighted:
            return cls.of_rows(rows)
        fractional = np.bincount(cells.stratum, cells.fractional, rows.size)
        weight = np.bincount(cells.stratum, cells.weight, rows.size).astype(np.float64)
        return cls.of_weights(weight, rows, fractional == 0)

    @classmethod
    def of_cells(cls, total: Any, weights: tuple[Any, Any, Any] | None) -> "Masses":
        """Of cells of a grid with these totals (strata,), and with weights the sums of w, of w**2 and of rows by cell.

        Fractional weights that add up to whole numbers in every cell, as do their squares, are taken for whole ones.
        """
        if weights is None:
            return cls.of_rows(total.astype(np.int64))
        mass, square, rows = (values.reshape(total.size, -1) for values in weights)
        whole = (mass == np.floor(mass)) & (square == np.floor(square)) & (rows <= mass)
        return cls.of_weights(total, rows.sum(-1), whole.all(-1))
