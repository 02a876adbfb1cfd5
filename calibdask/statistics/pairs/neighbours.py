"""Distances of predictions from the label frequencies of the rows around them."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from calibdask.kernels import neighbours
from calibdask.kernels.fixed_sums import fixed_sum
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.pairs.target_reduction import TargetReduction

# The peak where no density is positive.
_NO_NEIGHBOUR = -1e200


class NeighbourSumsState(NamedTuple):
    """Sums by (batch, group): ``weight`` of rows with neighbours; ``alone``, rows without; ``total`` of w * distance.

    For the type of sums see `calibdask.statistics.exact`.
    """

    weight: Sums
    alone: Counts
    total: Sums


class _Held(NamedTuple):
    """For the target rows of each stratum: log densities of the nearest kernel, and densities by label (K, rows)."""

    peaks: dict[tuple[int, int], Array]
    shares: dict[tuple[int, int], Sums]


@dataclass(frozen=True)
class NeighbourSums(TargetReduction[_Held, NeighbourSumsState]):
    """Sum over rows j of w_j times the distance of p_j from the label frequencies around it, its own label left out.

    r_j = sum_i w_i k_ij e_yi / sum_i w_i k_ij over i != j of the same slice, k_ij the density at p_j of the Dirichlet
    distribution with parameters p_i / h + 1.

    Parameters
    ----------
    bandwidths : FrozenArray of float64, shape (batch, groups)
        The bandwidth h of each stratum.
    distance : {"tv", "euclidean", "squared-euclidean"}
        Between r_j and p_j.

    Notes
    -----
    O(n**2 K) time in two rounds: the largest density at each row, then all densities relative to it, summed as
    integers, so that the result does not depend on the order of the rows (with weights as float64). For up to 2**19
    rows.
    """

    bandwidths: FrozenArray
    distance: Literal["tv", "euclidean", "squared-euclidean"]

    # Rows are distinguished by their numbers.
    ordered = True

    # One for the peaks, one for the densities.
    rounds = 2

    def begin(self, target: Block) -> _Held:
        """Peaks and densities before any row."""
        held = _Held({}, {})
        for b, g, index in target.strata:
            held.peaks[b, g] = np.full(index.size, -np.inf)
            kind = np.int64 if target.weights is None else np.float64
            held.shares[b, g] = np.zeros((target.matrix.shape[-1], index.size), kind)
        return held

    def fold(self, held: _Held, turn: int, target: Block, source: Block) -> _Held:
        """Update peaks and densities of the target rows with one more block."""
        folded = _Held(dict(held.peaks), dict(held.shares))
        for b, g, index, rows in target.strata_shared_with(source):
            bandwidth = float(self.bandwidths.values[b, g])
            logs = np.empty((target.matrix.shape[-1], index.size))
            neighbours.logarithms(target.matrix_of(b)[index].astype(np.float64), bandwidth, logs)
            scores = source.matrix_of(b)[rows].astype(np.float64)
            constants = np.empty(rows.size)
            neighbours.normalisers(scores, bandwidth, constants)
            numbers, targets = source.row_numbers[rows], target.row_numbers[index]
            if turn == 0:
                folded.peaks[b, g] = held.peaks[b, g].copy()
                neighbours.peaks(scores, numbers, constants, logs, targets, folded.peaks[b, g])
            else:
                folded.shares[b, g] = held.shares[b, g].copy()
                labels = source.labels_of(b)[rows].astype(np.int64)
                top = np.maximum(held.peaks[b, g], _NO_NEIGHBOUR)
                options = (numbers, constants, logs, targets, top, folded.shares[b, g])
                if source.weights is None:
                    neighbours.shares(scores, labels, *options)
                else:
                    neighbours.weighted_shares(scores, labels, source.weights_of(b)[rows], *options)
        return folded

    def finish(self, held: _Held, target: Block) -> NeighbourSumsState:
        """Distances of the target rows."""
        shape = (target.layout.batch, target.layout.groups)
        alone = np.zeros(shape, np.int64)
        sums: Sums = np.zeros((2, *shape, 2), np.int64) if target.weights is None else np.zeros((2, *shape))
        for b, g, index in target.strata:
            near = held.peaks[b, g] > _NO_NEIGHBOUR
            shares: Any = held.shares[b, g][:, near]
            distances = self._distances((shares / shares.sum(axis=0)).T - target.matrix_of(b)[index[near]])
            alone[b, g] = (~near).sum()
            if target.weights is None:
                sums[0, b, g, 0] = near.sum()
                fixed_sum(distances, sums[1, b, g])
            elif near.any():
                weights = target.weights_of(b)[index[near]]
                sums[:, b, g] = exact.in_order(np.stack([weights, weights * distances]))
        return NeighbourSumsState(sums[0], alone, sums[1])

    def merge(self, a: NeighbourSumsState, b: NeighbourSumsState) -> NeighbourSumsState:
        """Sums of both."""
        return NeighbourSumsState(exact.add(a.weight, b.weight), a.alone + b.alone, exact.add(a.total, b.total))

    def _distances(self, gaps: Array) -> Array:
        if self.distance == "tv":
            return np.abs(gaps).sum(axis=1) / 2
        squares = (gaps**2).sum(axis=1)
        return squares if self.distance == "squared-euclidean" else np.sqrt(squares)
