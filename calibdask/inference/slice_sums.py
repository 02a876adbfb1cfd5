"""Sums by slice that determine its mean gap and the sampling variance of the gap."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSums
from calibdask.statistics.bins.binnings import BinEdges, Uniform
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests
from calibdask.statistics.square_sums import with_squares

# From this number of events on, the gap of a slice is nearly normal.
_MANY_EVENTS = 10


@dataclass(frozen=True)
class SliceSums:
    """Sums by slice: rows, w, w o, w s; and of w**2: itself, times s, times s**2."""

    rows: Any
    weight: Array
    outcome: Array
    score: Array
    square: Array
    square_score: Array
    square_square: Array

    def at(self, chosen: Any) -> "SliceSums":
        """Sums of some slices."""
        return SliceSums(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    @classmethod
    def joined(cls, parts: Sequence["SliceSums"]) -> "SliceSums":
        """The slices of all parts, one after the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))

    def are_normal(self, events: Array) -> npt.NDArray[np.bool_]:
        """Whether gaps are nearly normal: at least 10 events and non-events; ``events`` are expected, by weight."""
        share = events / self.weight
        effective_rows = self.weight**2 / self.square
        return np.asarray(effective_rows * np.minimum(share, 1 - share) >= _MANY_EVENTS)

    def noise(self, effect: Array) -> Array:
        """Sampling variances of the gaps, sum w**2 p (1 - p) / (sum w)**2 with p = s + effect."""
        mean = self.square_score + effect * self.square
        second = self.square_square + 2 * effect * self.square_score + effect**2 * self.square
        # Where effects leave the unit interval the sum may be negative: at least what calibrated scores have.
        least = self.square_score - self.square_square
        variance = np.maximum(mean - second, least) / self.weight**2
        return np.maximum(variance, 1e-12)


def slice_sums(chosen: str | int | None = None) -> Requests[SliceSums]:
    """Ask for the sums of all slices, in a setting of one column; None: the one that metrics have by default."""
    layout = yield from Layout()
    setting = layout.setting(chosen)
    edges = yield from BinEdges(Uniform(1), setting)
    plain_sums, squares = yield from with_squares(BinSums(setting, edges, "squares"))

    def of(sums: Any) -> Array:
        return exact.value(sums)[0, :, 0, 0]

    return SliceSums(
        plain_sums.rows[0, :, 0, 0],
        of(plain_sums.weight),
        of(plain_sums.outcome),
        of(plain_sums.score),
        of(squares.weight),
        of(squares.score),
        of(squares.second[0]),
    )
