"""Whether a function of the score separates the outcomes, so that a likelihood has no maximum."""

import numpy as np

from calibdask.estimators.regression.column_points import ColumnPoints, Undetermined
from calibdask.statistics.exact import Array


def check_distinct(points: ColumnPoints, z: Array, least: int) -> None:
    """Refuse too few distinct scores.

    Raises
    ------
    Undetermined
        If there are fewer than ``least``.
    """
    distinct = len(np.unique(z))
    if distinct == 1:
        raise Undetermined(f"at least {least} distinct scores, all are {points.score[0]:.6g}")
    if distinct < least:
        raise Undetermined(f"at least {least} distinct scores, got {distinct}")


def is_separated(z: Array, weight: Array, outcome: Array, terms: int) -> bool:
    """Whether some combination of the terms is nowhere negative at positive rows, and nowhere positive at others.

    Exactly then the likelihood has no maximum. Combinations have up to ``terms`` - 1 zeros, anywhere.
    """
    return zeros_needed(z, weight, outcome) < terms


def zeros_needed(z: Array, weight: Array, outcome: Array) -> int:
    """Number of zeros, by multiplicity, of a function of z whose sign is that of the outcome at every row.

    Where rows of both outcomes are at one z it has to be 0; between rows that are next to one another it changes its
    sign as the outcome does.
    """
    order = np.argsort(z, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(z[order]) > 0])
    hits = np.add.reduceat((outcome > 0)[order].astype(int), starts) > 0
    misses = np.add.reduceat((outcome < weight)[order].astype(int), starts) > 0
    pure = np.flatnonzero(hits ^ misses)
    if not pure.size:
        return len(starts)
    between = np.diff(pure) - 1
    change = np.diff(hits[pure].astype(int)) != 0
    ends = pure[0] + len(starts) - 1 - pure[-1]
    return int(ends + (between + (between + change) % 2).sum())
