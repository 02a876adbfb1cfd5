"""Rows with labels drawn from their own predictions: data for which the model is calibrated."""

from dataclasses import dataclass, replace

import numpy as np

from calibdask.kernels import keyed_random
from calibdask.statistics.block import NO_GROUPS, Block
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.keyed_random import multinomial, philox_key
from calibdask.statistics.layout import Layout
from calibdask.statistics.views.view import View

_PURPOSE = 2
# Most labels, of replicates times rows, held at a time.
_LABELS_AT_ONCE = 1 << 22
# Copies of a row have keys of their own; those of consecutive rows are this far apart.
_COPIES = 1 << 20


@dataclass(frozen=True)
class DrawnLabels(View):
    """Replicates of the data, along the batch axis, with labels drawn from the predictions.

    Parameters
    ----------
    replicates : int
        Number of replicates; they become the slower part of the batch axis.
    seed : int
        Labels are keyed by it, the global row number and the replicate; models of a batch share the uniform numbers.
    rows : FrozenArray of int64, shape (groups,), or None
        None: every replicate has the predictions of the data. Otherwise that many rows of each slice are drawn with
        replacement; a row appears as often as in the replicate that has it most often, with weight 0 in the others.
    """

    replicates: int
    seed: int
    rows: FrozenArray | None = None
    ordered = True

    def layout(self, layout: Layout) -> Layout:
        """All replicates of all batch elements."""
        batch = layout.batch * self.replicates
        if self.rows is None:
            return replace(layout, batch=batch)
        return replace(layout, batch=batch, rows=None, weighted=True)

    @property
    def copies(self) -> int:
        """Replicates use the bandwidths of the data: they are compared with the data, not with other choices."""
        return self.replicates

    def step(self, block: Block) -> int:
        """Number of rows whose labels in all replicates fit into memory."""
        return max(1, _LABELS_AT_ONCE // (block.layout.batch * self.replicates))

    def block(self, block: Block) -> Block:
        """Rows with labels of all replicates."""
        layout = self.layout(block.layout)
        if self.rows is not None:
            block = self._resampled(block, self.rows)
        labels = np.empty((layout.batch, block.rows), np.int32)
        key = philox_key(self.seed, _PURPOSE)
        for number, into in enumerate(labels):
            replicate, b = divmod(number, block.layout.batch)
            keyed_random.drawn_labels(block.scores_of(b), layout.vector, block.row_numbers, replicate, key, into)
        return replace(block, layout=layout, labels=labels)

    def _resampled(self, block: Block, total: FrozenArray) -> Block:
        """Rows as often as any replicate has them, with weights 0 and 1 for the replicates."""
        counts = np.zeros((self.replicates, block.rows), np.int64)
        group = block.group if block.group.size else np.zeros(block.rows, np.int32)
        for g in np.unique(group).tolist():
            here = np.flatnonzero(group == g)
            first = int(block.ranks[here[0]])
            drawn = multinomial(self.seed, self.replicates, int(total.values[g]), first, first + here.size)
            counts[:, here] = drawn
        most = counts.max(axis=0, initial=0)
        row = np.repeat(np.arange(block.rows), most)
        copy = np.arange(row.size) - np.repeat(np.cumsum(most) - most, most)
        weights = (counts[:, row] > copy).astype(np.float64)
        return replace(
            block,
            scores=np.ascontiguousarray(block.scores[:, row]),
            labels=block.labels[:, row],
            weights=np.repeat(weights, block.layout.batch, axis=0),
            group=block.group[row] if block.group.size else NO_GROUPS,
            numbers=block.row_numbers[row] * _COPIES + copy,
            clusters=None if block.clusters is None else block.clusters[row],
            before=None,
        )
