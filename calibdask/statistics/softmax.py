"""The logarithmic score of softmax(W z + b) and its derivatives, z the log scores of a row."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibdask.kernels.softmax import softmax_sums
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import SumStatistic

NO_TEMPERING = FrozenArray(np.zeros((0, 2)))


class SoftmaxState(NamedTuple):
    """Sums by (batch, group): rows, rows with a clipped score, w, w**2, w * logarithmic score, and derivatives.

    ``terms`` (batch, group, entries), in units of `TERM_UNIT` without weights; see `SoftmaxSums`.
    """

    rows: Counts
    clipped: Counts
    weight: Sums
    square: Sums
    loss: Sums
    terms: Sums


@dataclass(frozen=True)
class SoftmaxSums(SumStatistic[SoftmaxState]):
    """Sums over rows of the logarithmic score of q = softmax(W z + b) and of its derivatives.

    Parameters
    ----------
    coefficients : FrozenArray of shape (groups, K) or (groups, K, K)
        The diagonal of W, or W.
    intercepts : FrozenArray of shape (groups, K)
    pairs : bool
        Whether the Hessian is that of all parameters, of a diagonal W, not only that of each class by itself.
    tempering : FrozenArray of shape (groups, 2) or (0, 2)
        beta and m: z is not log p, but log((1 - m) softmax(beta log p) + m / K).

    Notes
    -----
    Entries, with r = q - e_y and d = -z / s, s the power of two in `depth_scale`: of a diagonal W r, d r, q(1 - q),
    d q(1 - q), d**2 q(1 - q), each by class, then with ``pairs`` q_i q_j, d_i q_i q_j, q_i d_j q_j, d_i q_i d_j q_j
    of every i < j. Of a matrix r, r_i d_j by (i, j), then q, q_i q_j of every i <= j, and the same of d.
    """

    counts = 2

    coefficients: FrozenArray
    intercepts: FrozenArray
    pairs: bool = False
    tempering: FrozenArray = NO_TEMPERING

    def _entries(self) -> int:
        classes = self.intercepts.values.shape[1]
        if self.coefficients.values.ndim == 3:
            return 4 * classes + 2 * classes**2
        return 5 * classes + (2 * classes * (classes - 1) if self.pairs else 0)

    def from_block(self, block: Block) -> SoftmaxState:
        """Sums of one block."""
        layout, weighted = block.layout, block.weights is not None
        counts = np.zeros((layout.batch, 2, layout.groups), np.int64)
        # Unweighted states have no sums of weights, which are counts.
        first = 2 if weighted else 0
        sums = exact.zeros((layout.batch, layout.groups, first + 1 + self._entries()), weighted=weighted)
        limits = layout.smallest_normal, 1.0 / depth_scale(layout)
        coefficients = self.coefficients.values.reshape(layout.groups, -1)
        options = self.tempering.values, coefficients, self.intercepts.values, self.pairs
        for b in range(layout.batch):
            into = (None, sums[b]) if weighted else (sums[b], None)
            rows = (block.matrix_of(b), block.labels_of(b), block.weights_of(b), block.group)
            softmax_sums(*rows, *limits, *options, counts[b], *into)
        count, clipped = counts[:, 0], counts[:, 1]
        weight = square = exact.from_counts(count)
        if weighted:
            weight, square = sums[:, :, 0], sums[:, :, 1]
        return SoftmaxState(count, clipped, weight, square, sums[:, :, first], sums[:, :, first + 1 :])

    def bytes(self, layout: Layout) -> int:
        """Memory of a state: a number or two words for each entry."""
        return layout.groups * layout.batch * self._entries() * (8 if layout.weighted else 16)


def depth_scale(layout: Layout) -> float:
    """A power of two that no -log of a clipped score is above."""
    return float(2.0 ** np.ceil(np.log2(-np.log(layout.smallest_normal))))


def values_of_terms(terms: Sums) -> Array:
    """The entries of a state as float64; without weights they are summed as halves."""
    return exact.value(terms) * (2.0 if terms.dtype == np.int64 else 1.0)
