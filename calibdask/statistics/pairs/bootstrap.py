"""Bootstrap draws of the degenerate U-statistic behind the kernel calibration error."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibdask.kernels import pairs
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.keyed_random import multinomial
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.pair_kernel import PairKernel, PairRows
from calibdask.statistics.pairs.pair_statistic import PairStatistic

# h_ij are rounded to 2**-30, and tiles so small that products with counts are exact in float64, in any order.
_UNIT = 2.0**-30
_TILE = 512


class PairDrawsState(NamedTuple):
    """Sums by (batch, group, draw) with the counts C of a draw, divided by the bound of the kernel.

    ``both``, of C_i C_j h_ij over all i, j; ``own``, of C_i h_ii; ``either``, of C_i h_ij over all i, j.
    """

    both: Sums
    own: Sums
    either: Sums


@dataclass(frozen=True)
class PairDraws(PairStatistic[PairDrawsState]):
    """Sums over all pairs of rows, weighted by how often a multinomial draw contains them.

    Parameters
    ----------
    kernel : PairKernel
        Makes h_ij.
    rows : FrozenArray of int64, shape (groups,)
        Rows of each slice.
    draws : int
        Number of draws; the same for all batch elements.
    seed : int
        Of the draws.

    Notes
    -----
    O(n**2 (K + draws)) time, mostly products of matrices. Defined without weights.
    """

    counts = 0

    kernel: PairKernel
    rows: FrozenArray
    draws: int
    seed: int

    # Draws are keyed by the rank of a row in its slice.
    ordered = True

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return layout.batch * layout.groups * self.draws * 48

    def from_block(self, block: Block) -> PairDrawsState:
        """Pairs of the rows of one block."""
        state = self._zeros(block)
        for b, g, index in block.strata:
            rows, counts = self.kernel.rows(block, b, index), self._counts(block, g, index)
            squares = np.rint(rows.squares() / _UNIT) * _UNIT
            _add(state.both[b, g], counts**2 @ squares)
            _add(state.own[b, g], counts @ squares)
            _add(state.either[b, g], counts @ squares)
            for start in range(0, index.size, _TILE):
                here = slice(start, start + _TILE)
                tile, drawn = rows.part(start, start + _TILE), counts[:, here]
                self._add_tile(state, b, g, (tile, drawn), (tile, drawn), same=True)
                rest = rows.part(start + _TILE, index.size), counts[:, start + _TILE :]
                self._add_pairs(state, b, g, (tile, drawn), rest)
        return state

    def from_pair(self, earlier: Block, later: Block) -> PairDrawsState:
        """Pairs of a row of one block and a row of the other."""
        state = self._zeros(earlier)
        for b, g, index, other in earlier.strata_shared_with(later):
            left = self.kernel.rows(earlier, b, index), self._counts(earlier, g, index)
            right = self.kernel.rows(later, b, other), self._counts(later, g, other)
            self._add_pairs(state, b, g, left, right)
        return state

    def _zeros(self, block: Block) -> PairDrawsState:
        shape = (block.layout.batch, block.layout.groups, self.draws)
        return PairDrawsState(*(exact.zeros(shape, weighted=False) for _ in range(3)))

    def _counts(self, block: Block, g: int, index: Counts) -> Array:
        """How often each row is drawn, (draws, rows)."""
        ranks = block.ranks[index]
        first = int(ranks[0])
        total = int(self.rows.values[g])
        return multinomial(self.seed, self.draws, total, first, first + index.size).astype(np.float64)

    def _add_pairs(self, state: PairDrawsState, b: int, g: int, left: Any, right: Any) -> None:
        for i in range(0, len(left[0].scores), _TILE):
            tile = left[0].part(i, i + _TILE), left[1][:, i : i + _TILE]
            for j in range(0, len(right[0].scores), _TILE):
                other = right[0].part(j, j + _TILE), right[1][:, j : j + _TILE]
                self._add_tile(state, b, g, tile, other, same=False)

    def _add_tile(self, state: PairDrawsState, b: int, g: int, left: Any, right: Any, *, same: bool) -> None:
        """Pairs i < j of a tile of rows and their counts with itself or with another one."""
        rows: PairRows = left[0]
        h = np.empty((len(rows.scores), len(right[0].scores)))
        options = (self.kernel.kinds, self.kernel.scales(b, g, rows.scores.dtype), _UNIT)
        pairs.pair_values(rows.scores, rows.left, right[0].scores, right[0].right, *options, h)
        if same:
            h = np.triu(h, 1)
        _add(state.both[b, g], 2 * ((left[1] @ h) * right[1]).sum(1))
        _add(state.either[b, g], left[1] @ h.sum(1) + right[1] @ h.sum(0))


def _add(words: Sums, values: Array) -> None:
    """Add values, multiples of 2**-30, exactly."""
    whole = np.floor(values)
    fraction = np.rint((values - whole) * 2.0**52).astype(np.int64)
    words[...] = exact.add(words, np.stack([whole.astype(np.int64), fraction], axis=-1))
