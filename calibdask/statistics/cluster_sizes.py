"""Sizes of clusters, and rows as seen with the weight 1 / m where the cluster of a row has m rows.

Only clusters are independent. The weights of the rows of a cluster add up to at most 1, in every subset of the rows.
Used as exponents they make products over dependent rows valid: if E X <= 1 for each row by itself, then E prod X**w
<= 1 over all rows, by Hoelder's inequality within each cluster.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.statistics.block import Block
from calibdask.statistics.exact import Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import Statistic
from calibdask.statistics.views.view import View

# Clusters whose sizes are kept apart.
MOST_CLUSTERS = 1 << 22
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)


class ClusterSizesState(NamedTuple):
    """Rows of each cluster, in the order of ``key``, (clusters,) each.

    Keys are hashes of 63 bits, shifted right by ``level``, (1,). Clusters with equal keys are counted as one.
    """

    level: Counts
    key: Counts
    rows: Counts


@dataclass(frozen=True)
class ClusterSizes(Statistic[ClusterSizesState]):
    """Number of rows of each cluster.

    Parameters
    ----------
    within : FrozenArray of int64, shape (groups,), or None
        A number for each slice: rows of a cluster in slices of different numbers count as different clusters. None:
        the cluster as a whole.
    most : int
        Keys that are kept.

    Notes
    -----
    Exact up to about 4 million clusters, but for equal hashes. Of more, keys lose as few bits as make them fit:
    clusters that become equal count together, so that sizes can only be too large. The state depends on the rows alone,
    not on blocks or the order in which they merge. Memory: 16 bytes for each key.
    """

    within: FrozenArray | None = None
    most: int = MOST_CLUSTERS

    def from_block(self, block: Block) -> ClusterSizesState:
        """Sizes within one block."""
        key, rows = np.unique(_keys(block, self.within), return_counts=True)
        return self._fitting(ClusterSizesState(np.zeros(1, np.int64), key, rows.astype(np.int64)))

    def merge(self, a: ClusterSizesState, b: ClusterSizesState) -> ClusterSizesState:
        """Sizes in both, with the bits that both have."""
        level = int(max(a.level[0], b.level[0]))
        a, b = (_coarser(state, level) for state in (a, b))
        key, rows = (np.concatenate(pair) for pair in ((a.key, b.key), (a.rows, b.rows)))
        # Two sorted runs: this sort only merges them.
        order = np.argsort(key, kind="stable")
        return self._fitting(_added(level, key[order], rows[order]))

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return 16 * min(self.most, layout.most_rows or self.most)

    def _fitting(self, state: ClusterSizesState) -> ClusterSizesState:
        """Shorten keys until at most ``most`` remain."""
        while state.key.size > self.most:
            state = _coarser(state, int(state.level[0]) + 1)
        return state


@dataclass(frozen=True)
class ClusterExponents(View):
    """The rows with their weights divided by the size of their cluster.

    Parameters
    ----------
    level : int
    key, rows : FrozenArray
        The state of `ClusterSizes`.
    within : FrozenArray or None
        As of `ClusterSizes`.
    """

    level: int
    key: FrozenArray
    rows: FrozenArray
    within: FrozenArray | None = None

    @classmethod
    def of(cls, state: ClusterSizesState, within: FrozenArray | None = None) -> "ClusterExponents":
        """Build the view from counted sizes."""
        return cls(int(state.level[0]), FrozenArray(state.key), FrozenArray(state.rows), within)

    @property
    def clusters(self) -> int:
        """Number of clusters; where keys lost bits, of those that count apart."""
        return int(self.key.values.size)

    def layout(self, layout: Layout) -> Layout:
        """Layout of rows with weights."""
        return replace(layout, weighted=True, rows=None)

    def block(self, block: Block) -> Block:
        """The rows seen; computed once for a block."""
        if self not in block.viewed:
            weights = 1.0 / self._sizes(block)
            weights = weights[None] if block.weights is None else weights * block.weights
            block.viewed[self] = replace(block, layout=self.layout(block.layout), weights=weights)
        return block.viewed[self]

    def _sizes(self, block: Block) -> npt.NDArray[np.float64]:
        keys, known = _keys(block, self.within) >> self.level, self.key.values
        at = np.minimum(np.searchsorted(known, keys), max(0, known.size - 1))
        if keys.size and (not known.size or (known[at] != keys).any()):
            raise ValueError(
                "groups expects the same values in every pass over the data; they changed between two passes."
            )
        return np.asarray(self.rows.values[at], np.float64)


def _keys(block: Block, within: FrozenArray | None) -> Counts:
    """A hash of 63 bits of the cluster of each row, and of the number of its slice."""
    if block.clusters is None:
        raise ValueError("Sizes of clusters expect rows with clusters; pass groups.")
    words = block.clusters.view(np.uint64)
    if within is not None:
        numbers = within.values.astype(np.int64).view(np.uint64)
        words = (
            words ^ _mixed(numbers + _FACTORS[0])[block.group if block.group.size else np.zeros(block.rows, np.intp)]
        )
    return (_mixed(words) >> np.uint64(1)).astype(np.int64)


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A bijection of 64 bits in which each bit depends on all (splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * _FACTORS[1]
    words = (words ^ (words >> np.uint64(27))) * _FACTORS[2]
    return words ^ (words >> np.uint64(31))


def _coarser(state: ClusterSizesState, level: int) -> ClusterSizesState:
    """The sizes by keys without their last ``level`` bits."""
    dropped = level - int(state.level[0])
    return _added(level, state.key >> dropped, state.rows) if dropped else state


def _added(level: int, key: Counts, rows: Counts) -> ClusterSizesState:
    """Sizes by distinct keys, from keys that are sorted."""
    first = np.flatnonzero(np.r_[True, np.diff(key) != 0][: key.size])
    total = np.add.reduceat(rows, first) if key.size else rows
    return ClusterSizesState(np.array([level], np.int64), key[first], total)
