"""Shapes that curves of several calibrators have: polylines and steps."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibdask.statistics.exact import Array


@dataclass(frozen=True)
class Polyline:
    """Values at increasing scores, interpolated between them and constant beyond."""

    score: Array
    value: Array

    def __call__(self, scores: Array) -> Array:
        """The values at the scores."""
        return np.interp(scores, self.score, self.value)


@dataclass(frozen=True)
class Steps:
    """A step function with one value more than there are scores at which it jumps; continuous from ``side``."""

    score: Array
    value: Array
    side: Literal["left", "right"] = "left"

    def __call__(self, scores: Array) -> Array:
        """The values at the scores."""
        return self.value[np.searchsorted(self.score, scores, self.side)]
