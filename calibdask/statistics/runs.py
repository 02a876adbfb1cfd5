"""Sums over runs of consecutive rows, whatever the blocks that they come in."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import pairs
from calibdask.kernels.fixed_sums import fixed_sum
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.pair_kernel import PairKernel
from calibdask.statistics.statistic import Statistic

__all__ = ["PairRuns", "PairRunsState"]

# Longer runs are summed by tiles one at a time.
_LONGEST_TOGETHER = 48
_UNIT = 2.0**-44


class PairRunsState(NamedTuple):
    """Sums over complete runs by (batch, group), and the rows of runs that are not complete yet.

    ``runs``, their number; ``total`` and ``square``, exact sums of their values u and of u**2, u the mean of h_ij over
    the pairs i < j of a run. Of rows that wait: ``key`` (rows, 3), place (batch * groups + group), number of the run in
    its slice and number of the row in the run, in increasing order; ``scores`` (rows, K); ``labels`` (rows,).
    """

    runs: Counts
    total: Sums
    square: Sums
    key: Counts
    scores: npt.NDArray[np.floating]
    labels: Counts


@dataclass(frozen=True)
class PairRuns(Statistic):
    """Mean and mean square, over runs of ``length`` consecutive rows of a slice, of the mean of h_ij in the run.

    Notes
    -----
    O(n length K) time. Rows wait at the two ends of a block only, fewer than 2 * length in each slice and batch
    element. Defined without weights.
    """

    kernel: PairKernel
    length: int

    @property
    def ordered(self) -> bool:
        """Runs follow the order of the rows."""
        return True

    def from_block(self, block: Block) -> PairRunsState:
        """Runs of one block."""
        layout = block.layout
        run, position = np.divmod(block.ranks, self.length)
        group = block.group.astype(np.int64) if block.group.size else np.zeros(block.rows, np.int64)
        parts = []
        for b in range(layout.batch):
            key = np.stack([b * layout.groups + group, run, position], axis=1)
            labels = block.labels_of(b).astype(np.int64)
            parts.append(self._settled(layout.batch, layout.groups, [key], [block.matrix_of(b)], [labels]))
        # Batch elements share no sums, and their keys increase: adding is putting side by side.
        runs, total, square, *waiting = zip(*parts, strict=True)
        added: Any = (sum(each) for each in (runs, total, square))
        rows: Any = (np.concatenate(each) for each in waiting)
        return PairRunsState(*added, *rows)

    def merge(self, a: PairRunsState, b: PairRunsState) -> PairRunsState:
        """Runs of both, those included that only both together complete."""
        settled = self._settled(
            a.runs.shape[0], a.runs.shape[1], [a.key, b.key], [a.scores, b.scores], [a.labels, b.labels]
        )
        return settled._replace(
            runs=a.runs + b.runs + settled.runs,
            total=exact.add(exact.add(a.total, b.total), settled.total),
            square=exact.add(exact.add(a.square, b.square), settled.square),
        )

    def _settled(
        self, batch: int, groups: int, keys: list[Counts], scores: list[npt.NDArray[np.floating]], labels: list[Counts]
    ) -> PairRunsState:
        """The state of these rows alone."""
        key, p, y = np.concatenate(keys), np.concatenate(scores), np.concatenate(labels)
        order = np.lexsort(key.T[::-1])
        key, p, y = key[order], p[order], y[order]
        first = np.flatnonzero(np.r_[True, (np.diff(key[:, :2], axis=0) != 0).any(1)][: len(key)])
        size = np.diff(np.r_[first, len(key)])
        whole = np.repeat(size == self.length, size)
        runs = np.zeros((batch, groups), np.int64)
        total, square = np.zeros((2, batch, groups, 2), np.int64)
        place = key[whole, 0]
        done, ends = p[whole], np.flatnonzero(np.diff(place)) + 1
        for rows, codes, at in zip(np.split(done, ends), np.split(y[whole], ends), np.split(place, ends), strict=True):
            if len(at):
                b, g = divmod(int(at[0]), groups)
                values = self._values(rows, codes, b, g)
                runs[b, g] = values.size
                fixed_sum(values, total[b, g])
                fixed_sum(values**2, square[b, g])
        return PairRunsState(runs, total, square, key[~whole], p[~whole], y[~whole])

    def _values(self, scores: npt.NDArray[np.floating], labels: Counts, b: int, g: int) -> Array:
        """Mean of h_ij over the pairs of each run."""
        rows = self.kernel.pair_rows(np.arange(len(labels)), scores, labels, np.zeros(0))
        how = (self.kernel.kinds, self.kernel.scales(b, g, scores.dtype))
        sums = np.empty(len(labels) // self.length, np.int64)
        if self.length <= _LONGEST_TOGETHER:
            pairs.run_sums(rows.scores, rows.left, rows.right, self.length, *how, sums)
            return np.asarray(sums * (_UNIT / (self.length * (self.length - 1) / 2)), np.float64)
        words = np.zeros((sums.size, 2), np.int64)
        for r in range(sums.size):
            run = rows.part(r * self.length, (r + 1) * self.length)
            pairs.pair_sum(run.scores, run.left, run.scores, run.right, True, *how, words[r])
        return exact.value(words) / (self.length * (self.length - 1) / 2)
