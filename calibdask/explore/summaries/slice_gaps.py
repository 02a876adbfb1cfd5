"""Mean gaps of many groups of slices, with intervals, a batch at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.analyses.evaluation import evaluate
from calibdask.estimators.scores.mean_gap import MeanGap
from calibdask.estimators.smooth.gridded import on_grid
from calibdask.explore.cancellation import Cancelled
from calibdask.explore.summaries.pool import Pool
from calibdask.explore.summaries.sparse_sums import SliceNumbers

Array = npt.NDArray[np.float64]

_Parts = tuple[Array, Array, Array, Array, npt.NDArray[np.int64]]
# Histograms that are in memory at a time.
_MOST_BYTES = 1 << 26


@dataclass(frozen=True, eq=False)
class Gaps:
    """Frequency of the outcome less mean score of groups, with ends, mean score and rows; NaN without rows."""

    value: Array
    low: Array
    high: Array
    score: Array
    rows: npt.NDArray[np.int64]

    @property
    def certain(self) -> npt.NDArray[np.bool_]:
        """Whether the interval leaves out 0."""
        return self.distance > 0

    @property
    def distance(self) -> Array:
        """Distance of the interval from 0; negative if it contains 0, and -1 without rows or without an interval."""
        return np.nan_to_num(np.where(self.rows > 0, np.fmax(self.low, -self.high), -1.0), nan=-1.0)

    @property
    def strength(self) -> Array:
        """The strength of the evidence: the gap in units of its interval's reach towards 0, above 1 where certain.

        Intervals of gaps in few rows are wide: what is far from 0 need not be certain, and less may be.
        """
        # Where an interval has no width, all that can be said is that it is certain.
        reach = np.fmax(np.where(self.value > 0, self.value - self.low, self.high - self.value), 1e-12)
        return np.where(self.rows > 0, np.abs(self.value) / reach, -1.0)

    def reshaped(self, *shape: int) -> "Gaps":
        """The gaps in another shape."""
        return Gaps(*_each(lambda part: part.reshape(shape), self._parts))

    def with_others(self, others: "Gaps") -> "Gaps":
        """Concatenate the flattened gaps with others."""
        return Gaps(*_each(lambda own, other: np.concatenate([own.ravel(), other.ravel()]), self._parts, others._parts))

    def select(self, rows: npt.NDArray[np.int64]) -> "Gaps":
        """Gaps at some positions of the first axis."""
        return Gaps(*_each(lambda part: part[rows], self._parts))

    @property
    def _parts(self) -> _Parts:
        return self.value, self.low, self.high, self.score, self.rows


def _each(change: Callable[..., Any], *parts: _Parts) -> _Parts:
    """Apply a function to each array of gaps, or to the arrays of several gaps together."""
    value, low, high, score, rows = map(change, *parts)
    return value, low, high, score, rows


def gaps_of(
    pool: Pool,
    groups: Sequence[SliceNumbers],
    setting: str | int | None,
    level: float,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Gaps:
    """`calibdask.MeanGap` of groups of numbers of slices, each with an interval of this level.

    With clusters, intervals come from a formula (`BucketSums`) in place of replicates.

    Raises
    ------
    Cancelled
        Between two batches, if it is.

    Examples
    --------
    >>> import calibdask as cd
    >>> pool = Pool(cd.summarize([0, 1, 1], [0.2, 0.4, 0.9], by={"day": [1, 1, 2]}, settings=["binary"]))
    >>> gaps_of(pool, [np.array([0]), np.array([1]), np.array([0, 1])], None, 0.95).value.round(3).tolist()
    [0.2, 0.1, 0.167]
    """
    rows = np.array([pool.rows_of(group).sum() for group in groups], np.int64)
    value, low, high, score = numbers = np.full((4, rows.size), np.nan)
    filled = np.flatnonzero(rows)
    if pool.clustered and filled.size:
        chosen = [groups[number] for number in filled.tolist()]
        numbers[:, filled] = pool.bucket_sums(setting).gaps(chosen, level)
        return Gaps(value, low, high, score, rows)
    size = max(1, _MOST_BYTES // max(1, pool.nbytes(setting)))
    for start in range(0, filled.size, size):
        if is_cancelled():
            raise Cancelled
        batch = filled[start : start + size]
        summary = pool.watchable([groups[number] for number in batch], setting)
        result = evaluate(summary, metrics=on_grid({"gap": MeanGap(setting=setting)}, summary.step), ci=level)
        for number, name in zip(numbers, ("gap", "gap_low", "gap_high", "gap_score"), strict=True):
            number[batch] = result[name].values
    return Gaps(value, low, high, score, rows)
