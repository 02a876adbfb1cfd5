"""A plan for all segments from few tables: sums for fewer features are marginal sums of larger tables."""

from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from calibdask.statistics.exact import Counts
from calibdask.statistics.lattice.segments import Segments, Subset


class FillingPlan(NamedTuple):
    """Groups of features that are tabulated row by row, and the marginal sums computed from them.

    Attributes
    ----------
    sizes : array of shape (features,)
        Values of each feature.
    groups : array of shape (groups, k)
        The features of each group; -1 ends it.
    values : array of shape (groups,)
        Combinations of the values of each group.
    steps : array of shape (steps, 5)
        Sums over one feature of a table (outer, size, inner): where it begins, where the sums go, and its shape.
    step_ends, target_ends : array of shape (groups + 1,)
        The steps of a group, and its targets, are those from its entry to before the next one.
    targets : array of shape (targets, 3)
        Sums of segments: where they begin, the number of the first segment, and how many follow each other.
    """

    sizes: Counts
    groups: Counts
    values: Counts
    steps: Counts
    step_ends: Counts
    targets: Counts
    target_ends: Counts

    @property
    def places(self) -> int:
        """Places that the sums of one group take."""
        ends = self.steps[:, 1] + self.steps[:, 2] * self.steps[:, 4]
        return int(max(self.values.max(), ends.max(initial=0)))


@lru_cache(maxsize=8)
def filling_plan(segments: Segments, most: int) -> FillingPlan:
    """The plan of tables of at most about so many combinations."""
    groups = segments.groups(most)
    tables = [_Tables.of(segments, group, served) for group, served in groups]
    widest = max(len(group) for group, _ in groups)
    padded = [[*group, *[-1] * (widest - len(group))] for group, _ in groups]
    return FillingPlan(
        np.array(segments.sizes, np.int64),
        np.array(padded, np.int64).reshape(len(groups), widest),
        np.array([_count(segments, group) for group, _ in groups], np.int64),
        np.array([step for table in tables for step in table.steps], np.int64).reshape(-1, 5),
        np.array([0, *accumulate(len(table.steps) for table in tables)], np.int64),
        np.array([target for table in tables for target in table.targets], np.int64).reshape(-1, 3),
        np.array([0, *accumulate(len(table.targets) for table in tables)], np.int64),
    )


class _Tables(NamedTuple):
    """The steps of one group, and where the sums of segments are after them."""

    steps: list[tuple[int, int, int, int, int]]
    targets: list[tuple[int, int, int]]

    @classmethod
    def of(cls, segments: Segments, group: Subset, served: list[Subset]) -> "_Tables":
        """Sums of each subset from the smallest table that has its features, and one more."""
        places = {group: 0}
        end = _count(segments, group)
        steps: list[tuple[int, int, int, int, int]] = []

        def place(subset: Subset) -> int:
            nonlocal end
            if subset not in places:
                wider = [tuple(sorted((*subset, further))) for further in group if further not in subset]
                above = next((features for features in wider if features in places), wider[0])
                source = place(above)
                (axis,) = (at for at, feature in enumerate(above) if feature not in subset)
                outer, inner = _count(segments, above[:axis]), _count(segments, above[axis + 1 :])
                steps.append((source, end, outer, segments.sizes[above[axis]], inner))
                places[subset] = end
                end += outer * inner
            return places[subset]

        targets = [(place(subset), segments.first(subset), _count(segments, subset)) for subset in served]
        return cls(steps, targets)


def _count(segments: Segments, subset: Subset) -> int:
    return int(np.prod([segments.sizes[i] for i in subset], dtype=np.int64))
