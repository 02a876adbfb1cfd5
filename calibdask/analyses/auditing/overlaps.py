"""Overlaps of segments: sums over the rows shared by pairs, from rows or from a lattice."""

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.analyses.auditing.planning import LatticePlan
from calibdask.data.input import Input
from calibdask.engine.plan import run_requests
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.lattice.lattice_sums import LatticeState
from calibdask.statistics.lattice.overlap_sums import TERMS, Conditions, OverlapSums, overlap_terms


class Overlaps(NamedTuple):
    """Sums over the rows that each two of m segments share, of the products of two functions of scores, 1 and g.

    Columns are the indicators of segments, then their `shifts` g, with v = s (1 - s) and s the mean score of a cell:
    ``weight``, ``null`` and ``observed`` (2 m, 2 m) are sums of w, w**2 v and w**2 (o - s)**2 times two columns;
    ``residual`` (2 m,) of w (o - s) times one. ``known`` (m, m): whether the sums of these two segments are.
    """

    weight: Array
    null: Array
    observed: Array
    residual: Array
    known: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, sums: Array, known: npt.NDArray[np.bool_], residual: Array) -> "Overlaps":
        """From the terms of `OverlapSums`, of segments i <= j."""
        terms = sums + np.triu(sums.transpose(2, 0, 1), 1).transpose(2, 1, 0)
        weight, null, observed = (
            np.block([[terms[..., a], terms[..., a + 1]], [terms[..., a + 1], terms[..., a + 2]]]) for a in (0, 3, 6)
        )
        return cls(weight, null, observed, residual, known)

    @property
    def unknown(self) -> int:
        """Pairs of segments whose sums are not known."""
        return int((~self.known).sum()) // 2


@dataclass(frozen=True)
class RowOverlaps:
    """Takes what segments share from the rows, in one further pass."""

    plan: LatticePlan
    data: Input

    def sums(self, segments: list[Conditions], scores: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Terms of `OverlapSums`; all pairs are known."""
        used = sorted({feature for subset, _ in segments for feature in subset})
        place = {feature: at for at, feature in enumerate(used)}
        statistic = OverlapSums(
            self.plan.setting,
            self.plan.edges,
            FrozenArray(scores),
            tuple(self.plan.features[feature] for feature in used),
            tuple((tuple(place[feature] for feature in subset), values) for subset, values in segments),
            power=1 if self.data.source.layout.clustered else 2,
        )
        answers: Any = run_requests({"overlaps": iter(statistic)}, self.data.source).estimates
        return answers["overlaps"].value, np.ones((len(segments),) * 2, np.bool_)


@dataclass(frozen=True)
class LatticeOverlaps:
    """Takes what segments share from a lattice without weights, if it has the segment of these rows."""

    plan: LatticePlan
    state: LatticeState

    def sums(self, segments: list[Conditions], scores: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Terms of `OverlapSums`, and a mask of the known pairs."""
        known = np.ones((len(segments),) * 2, np.bool_)
        terms = overlap_terms(scores)
        sums = np.zeros((*known.shape, TERMS))
        for (i, one), (j, other) in combinations_with_replacement(enumerate(segments), 2):
            shared = _shared(one, other)
            if shared is not None and len(shared[0]) > self.plan.depth:
                known[i, j] = known[j, i] = False
            elif shared is not None:
                number = self.plan.segments.number(*shared)
                rows, hits = self.state.rows[number], self.state.hits[number]
                sums[i, j] = (rows - hits) @ terms[:, 0] + hits @ terms[:, 1]
        return sums, known


def _shared(one: Conditions, other: Conditions) -> Conditions | None:
    """The segment of the rows that both have; None if there are none."""
    both = dict(zip(*one, strict=True))
    for feature, value in zip(*other, strict=True):
        if both.setdefault(feature, value) != value:
            return None
    subset = tuple(sorted(both))
    return subset, tuple(both[feature] for feature in subset)
