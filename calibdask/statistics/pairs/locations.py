"""Sums of the statistics of rows at test locations."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import locations, pairs
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.pairs.pair_kernel import PairKernel
from calibdask.statistics.statistic import SumStatistic

_UNIT = 2.0**-44
# Rows whose kernel values at all locations are held at a time.
_ROWS = 1 << 14


class LocationSumsState(NamedTuple):
    """Exact sums by (batch, group): ``rows``; ``first`` (..., m) of z; ``second`` (..., m, m) of z z^T or its mean."""

    rows: Counts
    first: Counts
    second: Counts


@dataclass(frozen=True)
class LocationSums(SumStatistic[LocationSumsState]):
    """Sums of z_ij = (e_yi - p_i)^T k(p_i, q_j) e_lj over rows i, for test locations (q_j, l_j).

    Parameters
    ----------
    kernel : PairKernel
        The kernel k.
    scores : FrozenArray, shape (batch, groups, m, K)
        Predictions q of the locations in each stratum.
    labels : FrozenArray of int64, shape (batch, groups, m)
        Their labels l.
    calibrated : bool
        Whether z z^T is replaced by the covariance of z that a calibrated model has, given its predictions.

    Notes
    -----
    One pass, O(n m (K + m K)) time. Values are divided by the bound of the kernel. Defined without weights.
    """

    kernel: PairKernel
    scores: FrozenArray
    labels: FrozenArray
    calibrated: bool

    def from_block(self, block: Block) -> LocationSumsState:
        """Sums of one block."""
        count = self.labels.values.shape[2]
        shape = (block.layout.batch, block.layout.groups)
        first, second = (exact.zeros((*shape, size), weighted=False) for size in (count, count * count))
        for b, g, index in block.strata:
            for start in range(0, index.size, _ROWS):
                part = self.kernel.rows(block, b, index[start : start + _ROWS])
                kernels = self._kernels(part.scores, b, g)
                labels = self.labels.values[b, g]
                options = (labels, self._matrices(block.layout.classes), self.calibrated)
                locations.location_sums(part.scores, part.left, kernels, *options, first[b, g], second[b, g])
        return LocationSumsState(block.stratum_rows, first, second.reshape(*shape, count, count, 2))

    def values(self, scores: npt.NDArray[np.floating], b: int, g: int) -> Array:
        """The values z of rows with these predictions (n, K), for each outcome they may have, (n, K, m)."""
        kernels = self._kernels(np.ascontiguousarray(scores), b, g)
        along = np.einsum("tnj,tcj->ncj", kernels, self._matrices(scores.shape[1])[:, :, self.labels.values[b, g]])
        return np.asarray(along - np.einsum("nc,ncj->nj", scores, along)[:, None])

    def _kernels(self, scores: npt.NDArray[np.floating], b: int, g: int) -> Array:
        """The scalar kernel of each term between rows and locations, (terms, rows, m)."""
        # A copy, because kernels would be compiled for arrays that cannot be written to as well.
        places = np.array(self.scores.values[b, g], scores.dtype, order="C")
        # Residuals whose products are 1 give the kernel itself.
        left, right = np.zeros_like(scores), np.zeros((1, *places.shape), scores.dtype)
        left[:, 0] = right[:, :, 0] = 1
        kinds, scales = self.kernel.kinds, self.kernel.scales(b, g, scores.dtype)
        values = np.empty((len(kinds), len(scores), len(places)))
        for t in range(len(kinds)):
            term = slice(t, t + 1)
            pairs.pair_values(scores, left, places, right, kinds[term], scales[term], _UNIT, values[t])
        return values

    def _matrices(self, classes: int) -> Array:
        """The matrix of each term over the bound, (terms, K, K)."""
        matrices = [np.eye(classes) if term.matrix is None else term.matrix.values for term in self.kernel.terms]
        return np.stack(matrices) / self.kernel.bound
