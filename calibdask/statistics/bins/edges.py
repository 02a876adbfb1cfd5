"""Edges of bins: values to report, and thresholds that decide membership exactly."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from calibdask.kernels import bin_numbers
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray

Closed = Literal["right", "left"]


@dataclass(frozen=True)
class Edges:
    """Increasing edges of each (batch, group, column), shape (batch or 1, groups or 1, columns or 1, bins + 1).

    A column with fewer bins than others ends in NaN. ``closed`` says which end belongs to a bin; the scores 0 and 1
    always belong to the first and the last bin. ``uniform`` says that the edges are i / bins, all columns alike.
    """

    array: FrozenArray
    closed: Closed = "right"
    uniform: bool = False

    @property
    def values(self) -> Array:
        """The edges as an array."""
        return self.array.values

    @property
    def bins(self) -> int:
        """The largest number of bins of any column."""
        return int(self.values.shape[-1] - 1)

    @cached_property
    def effective(self) -> Counts:
        """Number of bins of each column, shape (batch or 1, groups or 1, columns or 1)."""
        return np.asarray(np.isfinite(self.values).sum(-1) - 1, np.int64)

    def of_first(self, batch: int) -> Self:
        """Edges of the first ``batch`` models alone: of replicates, those chosen from the data."""
        if len(self.values) <= batch:
            return self
        return replace(self, array=FrozenArray(self.values[:batch]))

    def thresholds(self, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Inner edges such that a score belongs to the bin numbered by the count of thresholds below it.

        Left-closed edges become right-closed ones at the next smaller double. For float32 they are rounded down to
        float32, which leaves ``s > t`` the same for every float32 score s.
        """
        inner = self.values[..., 1:-1].copy()
        last = np.arange(1, self.bins) >= self.effective[..., None]
        inner[last] = np.inf
        if self.closed == "left":
            inner = np.nextafter(inner, -np.inf, where=np.isfinite(inner), out=inner)
        rounded = inner.astype(dtype)
        return np.where(rounded > inner, np.nextafter(rounded, rounded.dtype.type(-np.inf)), rounded)

    @property
    def kind(self) -> int:
        """The code path of the `bin_numbers` kernels for these edges."""
        if not self.uniform:
            return bin_numbers.GIVEN
        return bin_numbers.UNIFORM_RIGHT if self.closed == "right" else bin_numbers.UNIFORM_LEFT

    def centres(self) -> Array:
        """Geometric centres of the bins, NaN where a column has no such bin."""
        return np.asarray((self.values[..., 1:] + self.values[..., :-1]) / 2, np.float64)

    def between_centres(self) -> "Edges":
        """Edges of the intervals between neighbouring centres, with the outer edges at the ends."""
        centres = self.centres()
        values = np.full((*centres.shape[:-1], centres.shape[-1] + 2), np.nan)
        values[..., 0] = self.values[..., 0]
        values[..., 1:-1] = centres
        last = self.effective[..., None]
        top = np.take_along_axis(self.values, last, -1)
        np.put_along_axis(values, last + 1, top, -1)
        return Edges(FrozenArray(values))


def uniform_edges(bins: int, low: float = 0.0, high: float = 1.0) -> Array:
    """The values low + (high - low) i / bins, i = 0..bins; by that division, never by a running sum."""
    edges = low + (high - low) * (np.arange(bins + 1) / bins)
    edges[-1] = high
    return np.asarray(edges, np.float64)
