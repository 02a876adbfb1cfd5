"""The numbering of segments: conjunctions of values of some features, subset by subset."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from calibdask.statistics.exact import Counts

Subset = tuple[int, ...]


def subsets_of(features: int, depth: int) -> tuple[Subset, ...]:
    """All subsets of up to ``depth`` features, the empty one, of all rows, first.

    Examples
    --------
    >>> subsets_of(3, 2)
    ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
    """
    return tuple(subset for size in range(depth + 1) for subset in combinations(range(features), size))


@dataclass(frozen=True)
class Segments:
    """Segments of the values of features, which have ``sizes`` values: those of each subset follow each other.

    Examples
    --------
    >>> segments = Segments((2, 3), subsets_of(2, 2))
    >>> segments.count, segments.base.tolist()
    (12, [0, 1, 3, 6])
    >>> segments.describe(10)
    ((0, 1), (1, 1))
    """

    sizes: tuple[int, ...]
    subsets: tuple[Subset, ...]

    @cached_property
    def counts(self) -> Counts:
        """Segments of each subset."""
        return np.array([np.prod([self.sizes[i] for i in subset], dtype=np.int64) for subset in self.subsets])

    @cached_property
    def base(self) -> Counts:
        """Number of the first segment of each subset."""
        return np.asarray(np.cumsum(self.counts) - self.counts)

    @property
    def count(self) -> int:
        """How many segments there are."""
        return int(self.counts.sum())

    @cached_property
    def padded(self) -> Counts:
        """Subsets as rows of a matrix, -1 after the last feature."""
        depth = max(1, *(len(subset) for subset in self.subsets))
        return np.array([[*subset, *[-1] * (depth - len(subset))] for subset in self.subsets], np.int64)

    @cached_property
    def _positions(self) -> dict[Subset, int]:
        return {subset: position for position, subset in enumerate(self.subsets)}

    def describe(self, number: int) -> tuple[Subset, tuple[int, ...]]:
        """The features of a segment, and the value of each."""
        position = int(np.searchsorted(self.base, number, "right")) - 1
        subset = self.subsets[position]
        values = np.unravel_index(number - int(self.base[position]), [self.sizes[i] for i in subset]) if subset else ()
        return subset, tuple(map(int, values))

    def number(self, subset: Subset, values: tuple[int, ...]) -> int:
        """The number of a segment."""
        within = np.ravel_multi_index(values, [self.sizes[i] for i in subset]) if subset else 0
        return int(self.base[self._positions[subset]]) + int(within)

    def parents(self, number: int) -> list[int]:
        """The segments that leave out one of the features."""
        subset, values = self.describe(number)
        return [
            self.number(subset[:k] + subset[k + 1 :], values[:k] + values[k + 1 :]) for k in range(len(subset))
        ]

    @property
    def subset_of_each(self) -> npt.NDArray[np.intp]:
        """Position of the subset of each segment."""
        return np.repeat(np.arange(len(self.subsets)), self.counts)
