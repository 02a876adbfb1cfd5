"""Means over runs of consecutive rows, independent of how the data are cut into blocks."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import pairs
from calibdask.kernels.fixed_sums import fixed_sum
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.pairs.pair_kernel import PairKernel
from calibdask.statistics.statistic import Statistic

# Longer runs are summed by tiles one at a time.
_LONGEST_TOGETHER = 48
_UNIT = 2.0**-44


class BlockMeansState(NamedTuple):
    """Sums over complete runs by (batch, group), and the rows of runs that are not complete yet.

    ``runs``, their number; ``total`` and ``square``, exact sums of their values u and of u**2, u the mean of h_ij over
    the pairs i < j of a run. Of rows of incomplete runs: ``key`` (rows, 3), the stratum (batch * groups + group), the
    number of the run in its slice and that of the row in the run, in increasing order; ``scores`` (rows, K); ``labels``
    (rows,).
    """

    runs: Counts
    total: Sums
    square: Sums
    key: Counts
    scores: npt.NDArray[np.floating]
    labels: Counts


@dataclass(frozen=True)
class BlockMeans(Statistic[BlockMeansState]):
    """Mean and mean square, over runs of ``length`` consecutive rows of a slice, of the mean of h_ij in the run.

    Notes
    -----
    O(n length K) time. A state keeps the rows of incomplete runs at its two ends, fewer than 2 * length in each slice
    and batch element. Defined without weights.
    """

    kernel: PairKernel
    length: int

    # Runs follow the order of the rows.
    ordered = True

    def from_block(self, block: Block) -> BlockMeansState:
        """Runs of one block."""
        layout = block.layout
        run, position = np.divmod(block.ranks, self.length)
        group = block.group.astype(np.int64) if block.group.size else np.zeros(block.rows, np.int64)
        parts = []
        for b in range(layout.batch):
            key = np.stack([b * layout.groups + group, run, position], axis=1)
            labels = block.labels_of(b).astype(np.int64)
            parts.append(self._split(layout.batch, layout.groups, [key], [block.matrix_of(b)], [labels]))
        # Batch elements share no sums, and their keys increase: sums are added and rows concatenated.
        runs, total, square, *incomplete = zip(*parts, strict=True)
        added: Any = (sum(sums) for sums in (runs, total, square))
        rows: Any = (np.concatenate(fields) for fields in incomplete)
        return BlockMeansState(*added, *rows)

    def merge(self, a: BlockMeansState, b: BlockMeansState) -> BlockMeansState:
        """Runs of both, including those that are complete only with the rows of both."""
        completed = self._split(
            a.runs.shape[0], a.runs.shape[1], [a.key, b.key], [a.scores, b.scores], [a.labels, b.labels]
        )
        return completed._replace(
            runs=a.runs + b.runs + completed.runs,
            total=exact.add(exact.add(a.total, b.total), completed.total),
            square=exact.add(exact.add(a.square, b.square), completed.square),
        )

    def _split(
        self, batch: int, groups: int, keys: list[Counts], scores: list[npt.NDArray[np.floating]], labels: list[Counts]
    ) -> BlockMeansState:
        """The state of these rows: complete runs summed, the other rows kept."""
        key, p, y = np.concatenate(keys), np.concatenate(scores), np.concatenate(labels)
        order = np.lexsort(key.T[::-1])
        key, p, y = key[order], p[order], y[order]
        first = np.flatnonzero(np.r_[True, (np.diff(key[:, :2], axis=0) != 0).any(1)][: len(key)])
        size = np.diff(np.r_[first, len(key)])
        whole = np.repeat(size == self.length, size)
        runs = np.zeros((batch, groups), np.int64)
        total, square = np.zeros((2, batch, groups, 2), np.int64)
        stratum = key[whole, 0]
        complete, ends = p[whole], np.flatnonzero(np.diff(stratum)) + 1
        for rows, codes, strata in zip(
            np.split(complete, ends), np.split(y[whole], ends), np.split(stratum, ends), strict=True
        ):
            if len(strata):
                b, g = divmod(int(strata[0]), groups)
                values = self._values(rows, codes, b, g)
                runs[b, g] = values.size
                fixed_sum(values, total[b, g])
                fixed_sum(values**2, square[b, g])
        return BlockMeansState(runs, total, square, key[~whole], p[~whole], y[~whole])

    def _values(self, scores: npt.NDArray[np.floating], labels: Counts, b: int, g: int) -> Array:
        """Mean of h_ij over the pairs of each run."""
        rows = self.kernel.pair_rows(np.arange(len(labels)), scores, labels, np.zeros(0))
        options = (self.kernel.kinds, self.kernel.scales(b, g, scores.dtype))
        sums = np.empty(len(labels) // self.length, np.int64)
        if self.length <= _LONGEST_TOGETHER:
            pairs.run_sums(rows.scores, rows.left, rows.right, self.length, *options, sums)
            return np.asarray(sums * (_UNIT / (self.length * (self.length - 1) / 2)), np.float64)
        words = np.zeros((sums.size, 2), np.int64)
        for r in range(sums.size):
            run = rows.part(r * self.length, (r + 1) * self.length)
            pairs.pair_sum(run.scores, run.left, run.scores, run.right, True, *options, words[r])
        return exact.value(words) / (self.length * (self.length - 1) / 2)
