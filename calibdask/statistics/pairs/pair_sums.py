"""Sums over all pairs of rows."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels import pairs
from calibdask.kernels.fixed_sums import fixed_sum
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts, Sums
from calibdask.statistics.pairs.pair_kernel import PairKernel, PairRows
from calibdask.statistics.pairs.pair_statistic import PairStatistic


class PairSumsState(NamedTuple):
    """Sums by (batch, group).

    ``rows`` of positive weight; ``weight`` and ``weight_square``, sums of w and w**2; ``between``, the sum of
    w_i w_j h_ij over i < j; ``within``, the sum of w_i**2 h_ii. Divided by the bound of the kernel.
    """

    rows: Counts
    weight: Sums
    weight_square: Sums
    between: Sums
    within: Sums


@dataclass(frozen=True)
class PairSums(PairStatistic[PairSumsState]):
    """Sums of h_ij = (e_yi - p_i)^T k(p_i, p_j) (e_yj - p_j) over all pairs of rows of a slice.

    Notes
    -----
    O(n**2 K) time, one kernel call for each pair of blocks and stratum. Each h_ij is rounded to the type of the
    scores, then by at most 2**-45; without weights the sums of the rounded terms are exact.
    """

    kernel: PairKernel

    def from_block(self, block: Block) -> PairSumsState:
        """Pairs of the rows of one block."""
        state = _zeros(block)
        for b, g, index in block.strata:
            rows = self.kernel.rows(block, b, index)
            state.rows[b, g] = index.size
            self._add(rows, rows, b, g, state.between, same=True)
            squares = rows.squares()
            if block.weights is None:
                fixed_sum(squares, state.within[b, g])
            else:
                state.weight[b, g] = rows.weights.sum()
                state.weight_square[b, g] = (rows.weights**2).sum()
                state.within[b, g] = (rows.weights**2 * squares).sum()
        if block.weights is None:
            rows_exact = exact.from_counts(state.rows)
            return state._replace(weight=rows_exact, weight_square=rows_exact)
        return state

    def from_pair(self, earlier: Block, later: Block) -> PairSumsState:
        """Pairs of a row of one block and a row of the other."""
        state = _zeros(earlier)
        for b, g, index, other in earlier.strata_shared_with(later):
            rows = self.kernel.rows(earlier, b, index), self.kernel.rows(later, b, other)
            self._add(*rows, b, g, state.between, same=False)
        return state

    def _add(self, a: PairRows, b: PairRows, element: int, group: int, sums: Sums, *, same: bool) -> None:
        options = (same, self.kernel.kinds, self.kernel.scales(element, group, a.scores.dtype))
        if a.weights.size:
            total = sums[element, group : group + 1]
            pairs.weighted_pair_sum(a.scores, a.left, a.weights, b.scores, b.right, b.weights, *options, total)
        else:
            pairs.pair_sum(a.scores, a.left, b.scores, b.right, *options, sums[element, group])


def _zeros(block: Block) -> PairSumsState:
    shape = (block.layout.batch, block.layout.groups)
    sums = (exact.zeros(shape, weighted=block.weights is not None) for _ in range(4))
    return PairSumsState(np.zeros(shape, np.int64), *sums)
