"""A map of scores by the values of features: steps on the logit, each for combinations of values of a few features."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibdask.kernels.segment_maps import mapped_scores
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray, read_only
from calibdask.statistics.lattice.coding import Codes
from calibdask.statistics.lattice.segments import Subset


@dataclass(frozen=True)
class SegmentStep:
    """z becomes z + offset + slope z, by combination of the values of some features, (values, ...) in one axis."""

    features: Subset
    offset: FrozenArray
    slope: FrozenArray


@dataclass(frozen=True)
class SegmentMap:
    """Steps, one after the other; ``sizes`` are the numbers of values of all features."""

    sizes: tuple[int, ...]
    steps: tuple[SegmentStep, ...] = ()

    def __call__(self, scores: Array, codes: Codes) -> Array:
        """Mapped scores (n,) of rows with these values of features, (features, n)."""
        if not self.steps:
            return scores
        mapped = np.empty(scores.size)
        contiguous = read_only(np.ascontiguousarray(scores, np.float64)), read_only(np.ascontiguousarray(codes))
        mapped_scores(*contiguous, *self._arrays, mapped)
        return mapped

    def followed_by(self, step: SegmentStep | None) -> "SegmentMap":
        """With a further step."""
        return self if step is None else SegmentMap(self.sizes, (*self.steps, step))

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        most = max(1, *(len(step.features) for step in self.steps))
        members = np.full((len(self.steps), most), -1, np.int64)
        for number, step in enumerate(self.steps):
            members[number, : len(step.features)] = step.features
        counts = [step.offset.values.size for step in self.steps]
        starts = np.cumsum([0, *counts[:-1]], dtype=np.int64)
        offsets, slopes = (
            np.concatenate([getattr(step, name).values for step in self.steps]) for name in ("offset", "slope")
        )
        return tuple(map(read_only, (np.array(self.sizes, np.int64), members, starts, offsets, slopes)))

    def terms(self) -> dict[str, Array]:
        """The steps as a table of segments with an entry for each that is moved.

        ``round``, ``offset``, ``slope`` (segments,); ``feature`` and ``value`` (segments, most), -1 for none.
        """
        most = max([1, *(len(step.features) for step in self.steps)])
        rows: list[list[float]] = []
        for number, step in enumerate(self.steps):
            shape = [self.sizes[i] for i in step.features]
            for place in np.flatnonzero((step.offset.values != 0) | (step.slope.values != 0)).tolist():
                values = [int(value) for value in np.unravel_index(place, shape)] if shape else []
                nothing = [-1] * (most - len(shape))
                numbers = [float(step.offset.values[place]), float(step.slope.values[place])]
                rows.append([number, *numbers, *step.features, *nothing, *values, *nothing])
        table = np.array(rows, np.float64).reshape(len(rows), 3 + 2 * most)
        names = {"round": table[:, 0], "offset": table[:, 1], "slope": table[:, 2]}
        return {**names, "feature": table[:, 3 : 3 + most], "value": table[:, 3 + most :]}

    @classmethod
    def of_terms(cls, sizes: Sequence[int], terms: dict[str, Array]) -> "SegmentMap":
        """The map of such a table."""
        steps = []
        for number in np.unique(terms["round"]).tolist():
            here = np.flatnonzero(terms["round"] == number)
            subset = tuple(int(feature) for feature in terms["feature"][here[0]] if feature >= 0)
            shape = tuple(sizes[i] for i in subset)
            offset, slope = np.zeros((2, int(np.prod(shape))))
            for row in here.tolist():
                values = tuple(int(value) for value in terms["value"][row, : len(subset)])
                place = int(np.ravel_multi_index(values, shape)) if subset else 0
                offset[place], slope[place] = terms["offset"][row], terms["slope"][row]
            steps.append(SegmentStep(subset, FrozenArray(offset), FrozenArray(slope)))
        return cls(tuple(sizes), tuple(steps))
