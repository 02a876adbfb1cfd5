"""What segments share: sums over the rows of each two of them, from the rows or from a lattice that holds them."""

from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.auditing.measures import cells_of
from calibdask.auditing.planning import LatticePlan
from calibdask.engine.inputs.input import Input
from calibdask.engine.plan import run_requests
from calibdask.statistics import exact
from calibdask.statistics.exact import Array
from calibdask.statistics.lattice.lattice_sums import LatticeState
from calibdask.statistics.lattice.overlap_sums import OverlapSums
from calibdask.statistics.lattice.segments import Subset

# A segment: its features, and the value of each.
Conditions = tuple[Subset, tuple[int, ...]]

# Terms of `OverlapSums`, of weight, of the variance if scores are right, and of that of the residuals.
_TERMS = (0, 1, 2), (1, 2, 3), (4, 5, 6)
_WEIGHTED_TERMS = (0, 1, 2), (3, 4, 5), (6, 7, 8)


class Overlaps(NamedTuple):
    """Sums over the rows that each two of m segments share, of the products of two functions of scores, 1 and v.

    Columns are the indicators of segments, then v = s (1 - s) in each: ``weight``, ``null`` and ``observed``
    (2 m, 2 m) are sums of w, w**2 v and w**2 (o - s)**2 times two columns; ``residual`` (2 m,) of w (o - s) times one.
    ``known`` (m, m): whether the sums of these two segments are.
    """

    weight: Array
    null: Array
    observed: Array
    residual: Array
    known: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, sums: Array, known: npt.NDArray[np.bool_]) -> "Overlaps":
        """From the terms of `OverlapSums`, of segments i <= j."""
        terms = sums + np.triu(sums.transpose(2, 0, 1), 1).transpose(2, 1, 0)
        squares = (
            np.block([[terms[..., a], terms[..., b]], [terms[..., b], terms[..., c]]])
            for a, b, c in (_TERMS if sums.shape[-1] == 9 else _WEIGHTED_TERMS)
        )
        own = np.arange(len(sums))
        return cls(*squares, np.concatenate([sums[own, own, -2], sums[own, own, -1]]), known)

    @property
    def unknown(self) -> int:
        """Pairs of segments whose sums are not known."""
        return int((~self.known).sum()) // 2


def overlaps_of_rows(plan: LatticePlan, segments: list[Conditions], data: Input) -> Overlaps:
    """From the rows, in one further pass."""
    used = sorted({feature for subset, _ in segments for feature in subset})
    place = {feature: at for at, feature in enumerate(used)}
    statistic = OverlapSums(
        plan.setting,
        tuple(plan.features[feature] for feature in used),
        tuple((tuple(place[feature] for feature in subset), values) for subset, values in segments),
    )
    answers: Any = run_requests({"overlaps": iter(statistic)}, data.source).estimates
    return Overlaps.of(exact.value(answers["overlaps"].sums), np.ones((len(segments),) * 2, np.bool_))


def overlaps_of_lattice(plan: LatticePlan, segments: list[Conditions], state: LatticeState) -> Overlaps:
    """From a lattice without weights: of segments that have rows in common if it has these as a segment.

    Scores of a cell are taken at their mean.
    """
    known = np.ones((len(segments),) * 2, np.bool_)
    pairs, numbers = [], []
    for (i, one), (j, other) in combinations_with_replacement(enumerate(segments), 2):
        shared = _shared(one, other)
        if shared is None:
            continue
        if len(shared[0]) > plan.depth:
            known[i, j] = known[j, i] = False
            continue
        pairs.append((i, j))
        numbers.append(plan.segments.number(*shared))
    cells = cells_of(state, np.array(numbers, np.intp))
    mean = cells.mean
    v = mean * (1 - mean)
    square = cells.outcome * (1 - 2 * mean) + cells.weight * mean**2
    gaps = cells.outcome - cells.score
    terms = [*(cells.weight * v**power for power in range(4)), *(square * v**power for power in range(3)), gaps, gaps * v]
    sums = np.zeros((*known.shape, len(terms)))
    sums[tuple(np.transpose(pairs))] = np.stack([term.sum(-1) for term in terms], axis=-1)
    return Overlaps.of(sums, known)


def _shared(one: Conditions, other: Conditions) -> Conditions | None:
    """The segment of the rows that both have; None if there are none."""
    both = dict(zip(*one, strict=True))
    for feature, value in zip(*other, strict=True):
        if both.setdefault(feature, value) != value:
            return None
    subset = tuple(sorted(both))
    return subset, tuple(both[feature] for feature in subset)
