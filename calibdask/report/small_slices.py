"""Many small slices of a report, ranked by mean gaps that are shrunk by empirical Bayes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibdask.analyses.shrinkage import are_many_and_small, shrunken_gaps
from calibdask.inference.slice_sums import SliceSums
from calibdask.report.slices import Slice
from calibdask.results.format import POINTS, counted, joined, percent
from calibdask.results.values import Value

_MOST_NAMED = 3


@dataclass(frozen=True)
class ShrunkenSlices:
    """Shrunken gaps by the label of the slice, the largest first, and the standard deviation of the effects."""

    gaps: Mapping[str, Value]
    deviation: float
    level: float

    @classmethod
    def of(cls, slices: Sequence[Slice], level: float) -> "ShrunkenSlices | None":
        """Of slices without weights; None if these are few or large, or have several classes each.

        The variance of scores within slices is that of the means of their bins.
        """
        filled = [piece for piece in slices if piece.rows > 0]
        if not are_many_and_small(np.array([piece.rows for piece in filled])):
            return None
        if any(len(piece.bins) != 1 for piece in filled):
            return None
        sums = np.array([_sums(piece) for piece in filled]).T
        rows, outcome, score, square = sums
        effects = shrunken_gaps(SliceSums(rows, rows, outcome, score, rows, score, square), level)
        order = np.argsort(-effects.size, kind="stable").tolist()
        ends = np.stack([effects.shrunken, effects.low, effects.high], -1)
        gaps = {filled[at].label: Value("shrunken", *ends[at].tolist()) for at in order}
        return cls(gaps, effects.moments["deviation"], level)

    @property
    def excluding(self) -> int:
        """Number of intervals that exclude 0."""
        return sum(bool(gap.low > 0 or gap.high < 0) for gap in self.gaps.values())

    def sentence(self, name: str) -> str:
        """How much slices differ, and the largest gaps."""
        largest = [
            f"{label} ({POINTS.estimate(gap.value, gap.low, gap.high)}, {POINTS.span(gap.low, gap.high)})"
            for label, gap in list(self.gaps.items())[:_MOST_NAMED]
        ]
        return (
            f"{counted(len(self.gaps), 'slice')} of {name}, most of them small: after subtracting noise, their gaps "
            f"have a standard deviation of {POINTS.number(self.deviation)} percentage points; "
            f"{self.excluding:,} of the {percent(self.level)} intervals exclude 0. Largest after shrinkage (empirical "
            f"Bayes): {joined(largest)}."
        )


def _sums(piece: Slice) -> tuple[float, float, float, float]:
    """Sums over the rows of a slice: rows, outcomes, scores and squares of the mean score of their bin."""
    bins = piece.bins[0][1]
    rows, score = bins.count, bins.score
    return float(rows.sum()), float(rows @ bins.outcome), float(rows @ score), float(rows @ score**2)
