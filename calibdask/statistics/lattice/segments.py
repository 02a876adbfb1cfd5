"""The numbering of segments: conjunctions of values of some features, subset by subset."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

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
    """Segments by the values of features with ``sizes`` values; the segments of one subset are contiguous.

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
        return self.first(subset) + int(within)

    def first(self, subset: Subset) -> int:
        """The number of the first segment of a subset."""
        return int(self.base[self._positions[subset]])

    def parents(self, number: int) -> list[int]:
        """The segments that leave out one of the features."""
        subset, values = self.describe(number)
        return [self.number(subset[:k] + subset[k + 1 :], values[:k] + values[k + 1 :]) for k in range(len(subset))]

    def groups(self, most: int) -> list[tuple[Subset, list[Subset]]]:
        """Sets of features that contain all subsets, with those that each is for.

        As many features are together as have at most so many combinations of values: sums by these add up to those of
        many subsets.

        Examples
        --------
        >>> Segments((2, 2, 2, 2), subsets_of(4, 2)).groups(8)[0]
        ((0, 1, 2), [(0, 1), (0, 2), (1, 2), (0,), (1,), (2,), ()])
        """
        left = dict.fromkeys(sorted(self.subsets, key=len, reverse=True))
        groups = []
        while left:
            group = self._widened(next(iter(left)), left, most)
            inside = [subset for size in range(len(group), -1, -1) for subset in combinations(group, size)]
            served = [subset for subset in inside if subset in left]
            groups.append((group, served))
            for subset in served:
                del left[subset]
        return groups

    def _widened(self, subset: Subset, left: dict[Subset, None], most: int) -> Subset:
        """Extend a subset by features, each time by the one that completes most of the remaining subsets."""
        group, count = subset, int(np.prod([self.sizes[i] for i in subset], dtype=np.int64))
        while group:
            further = [i for i, size in enumerate(self.sizes) if i not in group and count * size <= most]
            gains = [
                sum(tuple(sorted((*others, i))) in left for others in combinations(group, len(subset) - 1))
                for i in further
            ]
            if not any(gains):
                break
            chosen = further[int(np.argmax(gains))]
            group, count = tuple(sorted((*group, chosen))), count * self.sizes[chosen]
        return group
