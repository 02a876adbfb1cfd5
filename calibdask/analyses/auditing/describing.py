"""The smallest set of segments that explains the miscalibration, by comparing nested segments."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from calibdask.statistics.exact import Array
from calibdask.statistics.lattice.segments import Segments


class SegmentGapSums(NamedTuple):
    """By segment: the sums of w and of w (o - s), and two estimates of the variance of the latter.

    ``null`` is the variance if scores are right, ``observed`` that of the residuals.
    """

    weight: Array
    residual: Array
    null: Array
    observed: Array

    def pooled(self, at: list[int]) -> "SegmentGapSums":
        """Sums of segments that have no rows in common."""
        return SegmentGapSums(*(np.asarray(part[at].sum()) for part in self))

    def less(self, other: "SegmentGapSums") -> "SegmentGapSums":
        """The sums without a part of the rows."""
        return SegmentGapSums(*(a - b for a, b in zip(self, other, strict=True)))

    @property
    def mean(self) -> tuple[float, float]:
        """The mean of w (o - s), and its variance."""
        variance = max(float(self.null), float(self.observed))
        return float(self.residual / self.weight), variance / float(self.weight) ** 2


@dataclass(frozen=True)
class Describing:
    """Chooses among segments that were found.

    A segment describes what is wrong if it differs for certain from what else there is in each of the segments that
    it is part of, and is still off without those of its parts that describe it better.

    Parameters
    ----------
    segments : Segments
    kept : array of int
        Numbers of the segments that were measured.
    sums : SegmentGapSums
        Of these.
    alpha : float
        Of all comparisons together.
    """

    segments: Segments
    kept: npt.NDArray[np.intp]
    sums: SegmentGapSums
    alpha: float

    def describe(self, found: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Mask of the segments that explain those ``found``; deeper segments are tried first."""
        described = np.zeros(found.size, np.bool_)
        at = {int(number): position for position, number in enumerate(self.kept.tolist())}
        parents = {
            position: [at[number] for number in self.segments.parents(int(self.kept[position]))]
            for position in np.flatnonzero(found).tolist()
        }
        limit = self.limit
        parts: dict[int, list[int]] = defaultdict(list)
        seen: set[tuple[float, ...]] = set()
        for position in sorted(parents, key=lambda position: (-len(parents[position]), position)):
            here = self._of(position)
            same = tuple(float(part) for part in here)
            if same in seen or not all(self._differs(here, self._of(above), limit) for above in parents[position]):
                continue
            if not self._still_off(here, parts[int(self.kept[position])], limit):
                continue
            described[position] = True
            seen.add(same)
            subset, values = self.segments.describe(int(self.kept[position]))
            for size in range(len(subset)):
                for chosen in combinations(range(len(subset)), size):
                    whole = tuple(subset[i] for i in chosen), tuple(values[i] for i in chosen)
                    parts[self.segments.number(*whole)].append(position)
        return described

    @property
    def limit(self) -> float:
        """How many standard errors make a comparison certain.

        Those that were found are chosen among all: every segment counts for as many comparisons as it has features.
        """
        subsets = np.searchsorted(self.segments.base, self.kept, "right") - 1
        depths = np.array([len(subset) for subset in self.segments.subsets])[subsets]
        return float(-scipy.special.ndtri(self.alpha / (2 * max(1, int(np.maximum(depths, 1).sum())))))

    def _of(self, position: int) -> SegmentGapSums:
        return self.sums.pooled([position])

    def _differs(self, part: SegmentGapSums, whole: SegmentGapSums, limit: float) -> bool:
        """Whether the mean residual of a part differs from that of the rest of the whole."""
        rest = whole.less(part)
        if rest.weight <= 0:
            return False
        (here, variance), (there, further) = part.mean, rest.mean
        return abs(here - there) > limit * np.sqrt(variance + further)

    def _still_off(self, whole: SegmentGapSums, parts: list[int], limit: float) -> bool:
        """Whether a segment remains miscalibrated without its parts; parts by equal features are removed together."""
        by_features: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for position in parts:
            by_features[self.segments.describe(int(self.kept[position]))[0]].append(position)
        for together in by_features.values():
            rest = whole.less(self.sums.pooled(together))
            if rest.weight <= 0:
                return False
            mean, variance = rest.mean
            if abs(mean) <= limit * np.sqrt(variance):
                return False
        return True
