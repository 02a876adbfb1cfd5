"""Rows with shares of classes drawn from their own predictions: data for which the model is calibrated."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.views.view import View

_PURPOSE = 5
# Uniform numbers of this many rows are drawn together.
_LEAF = 256
_LEAVES_KEPT = 64
# Most weights, of replicates times parts of rows, held at a time.
_WEIGHTS_AT_ONCE = 1 << 21
# Smaller weights count as 0.
LEAST = 1e-100


@dataclass(frozen=True)
class DrawnShares(View):
    """Replicates of rows whose labels are shares, along the batch axis, as a calibrated model has them.

    The data seen through it has a part of each row per class. In a replicate the shares of a row are ::

        (1 - c) s + c e(y)

    with s its scores, e(y) the class y that is drawn with them, and c**2 the variance of its shares over the variance
    of a label. So they are s on average, have that variance, and lie in [0, 1]. Rows of a cluster draw their class with
    one common random number, each with the probability lambda: lambda**2 is the correlation within clusters.

    Parameters
    ----------
    replicates : int
    seed : int
        Replicates are keyed by it, the row and the cluster.
    row, cluster : FrozenArray of int64, shape (parts,)
        Of each part, whose position in the data is its number.
    low, high : FrozenArray of float64, shape (parts,)
        The class is drawn where the random number is between; the score of the part is the difference.
    spread, weight, shared : FrozenArray of float64, shape (parts,)
        c, the weight of the row, and lambda.
    """

    replicates: int
    seed: int
    row: FrozenArray
    cluster: FrozenArray
    low: FrozenArray
    high: FrozenArray
    spread: FrozenArray
    weight: FrozenArray
    shared: FrozenArray
    ordered = True
    # Of rows by class, which labels drawn from weighted rows have.
    weights = None

    def layout(self, layout: Layout) -> Layout:
        """All replicates."""
        return replace(layout, batch=layout.batch * self.replicates, rows=None, weighted=True)

    @property
    def copies(self) -> int:
        """Replicates use the bandwidths of the data."""
        return self.replicates

    def step(self, block: Block) -> int:
        """Number of parts whose weights in all replicates fit into memory."""
        return max(1, _WEIGHTS_AT_ONCE // self.replicates)

    def block(self, block: Block) -> Block:
        """Parts with the weights of all replicates."""
        here = block.row_numbers
        low, high, spread, shared = (of.values[here] for of in (self.low, self.high, self.spread, self.shared))
        row = self.row.values[here]
        drawn = _of_rows(self.seed, 0, self.replicates, row)
        if shared.any():
            is_shared = _of_rows(self.seed, 1, self.replicates, row) < shared
            drawn = np.where(is_shared, _of_rows(self.seed, 2, self.replicates, self.cluster.values[here]), drawn)
        is_drawn = (drawn >= low) & (drawn < high)
        weights = ((1 - spread) * (high - low) + spread * is_drawn) * self.weight.values[here]
        return replace(block, layout=self.layout(block.layout), weights=np.where(weights > LEAST, weights, 0.0))


def _of_rows(seed: int, purpose: int, replicates: int, number: Counts) -> Array:
    """Uniform numbers (replicates, n) of rows or clusters with these numbers."""
    numbers = np.zeros((replicates, number.size))
    for leaf, at in _leaves(number):
        numbers[:, at] = _uniform(seed, purpose, replicates, leaf)[:, number[at] % _LEAF]
    return numbers


def _leaves(number: Counts) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    leaf = number // _LEAF
    order = np.argsort(leaf, kind="stable")
    ends = np.flatnonzero(np.diff(leaf[order])) + 1
    for at in np.split(order, ends) if order.size else ():
        yield int(leaf[at[0]]), at


@lru_cache(maxsize=_LEAVES_KEPT)
def _uniform(seed: int, purpose: int, replicates: int, leaf: int) -> Array:
    key = np.random.SeedSequence(seed, spawn_key=(_PURPOSE, purpose, leaf))
    return np.random.default_rng(key).random((replicates, _LEAF))
