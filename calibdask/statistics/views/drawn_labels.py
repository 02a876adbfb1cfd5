"""Rows with labels drawn from their own predictions: data for which the model is calibrated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.kernels import keyed_random
from calibdask.statistics import exact
from calibdask.statistics.block import NO_GROUPS, Block
from calibdask.statistics.exact import Array
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.keyed_random import multinomial, philox_key
from calibdask.statistics.layout import Layout
from calibdask.statistics.outcome_sums import OutcomeSums
from calibdask.statistics.prefetch import together
from calibdask.statistics.request import Requests
from calibdask.statistics.settings import Setting
from calibdask.statistics.statistic import ViewedStatistic
from calibdask.statistics.views.squared_weights import SquaredWeights
from calibdask.statistics.views.view import View

_PURPOSE = 2
# Most labels, of replicates times rows, held at a time.
_LABELS_AT_ONCE = 1 << 22
# Sums of squared weights that differ by less are equal up to rounding.
_ROUNDING = 1e-9
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
    weights : FrozenArray of float64, shape (batch, groups, classes), or None
        Mean weight of the rows of each class, which may differ: class k is drawn with a probability in proportion to
        its prediction over that, and a row gets its weight times that of the drawn class over that of its own. So the
        weighted rows have each class with the probability of the prediction. NaN in slices with rows of one class only,
        whose labels are drawn as if weights did not depend on the class. None: they do not.
    """

    replicates: int
    seed: int
    rows: FrozenArray | None = None
    weights: FrozenArray | None = None
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
        by_row = [None if self.weights is None else self._weights_of(block, b) for b in range(block.layout.batch)]
        scores = [_drawn_from(block.scores_of(b), weights) for b, weights in enumerate(by_row)]
        for number, into in enumerate(labels):
            replicate, b = divmod(number, block.layout.batch)
            keyed_random.drawn_labels(scores[b], layout.vector, block.row_numbers, replicate, key, into)
        if self.weights is None:
            return replace(block, layout=layout, labels=labels)
        return replace(block, layout=layout, labels=labels, weights=_reweighted(block, labels, by_row))

    def _weights_of(self, block: Block, b: int) -> Array:
        """The mean weight of each class among the rows of the slice of each row, (n, classes)."""
        assert self.weights is not None
        of_model = np.nan_to_num(self.weights.values[b], nan=1.0)
        return np.asarray(of_model[block.group] if block.group.size else np.repeat(of_model, block.rows, axis=0))

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


def _drawn_from(scores: npt.NDArray[Any], weights: Array | None) -> npt.NDArray[Any]:
    """Predictions (n, K), or (n, 1) of a vector, that classes are drawn with where their rows have these weights."""
    if weights is None:
        return scores
    clipped = np.clip(np.nan_to_num(scores.astype(np.float64)), 0.0, 1.0)
    # Predictions stay up to 1: the class of the smallest weight keeps its own.
    relative = weights.min(1, keepdims=True) / weights
    if scores.shape[1] == 1:
        with_outcome, without = clipped[:, 0] * relative[:, 1], (1 - clipped[:, 0]) * relative[:, 0]
        return np.asarray(with_outcome / (with_outcome + without))[:, None]
    return np.asarray(clipped * relative)


def _reweighted(block: Block, drawn: npt.NDArray[np.int32], by_row: Sequence[Array | None]) -> Array:
    """Weights (replicates times batch, n) of the rows with the drawn classes."""
    rows, weights = np.arange(block.rows), np.empty(drawn.shape)
    for number, labels in enumerate(drawn):
        b = number % block.layout.batch
        of_classes = by_row[b]
        assert of_classes is not None
        # Labels that are no classes are refused later.
        own = of_classes[rows, np.clip(block.labels_of(b), 0, of_classes.shape[1] - 1)]
        weights[number] = block.weights_of(b) * of_classes[rows, labels] / own
    return weights


def drawn_labels(replicates: int, seed: int) -> Requests[DrawnLabels]:
    """The view that draws labels from all predictions; weights are the weights of the rows by class.

    With weights one more pass over the data.
    """
    layout = yield from Layout()
    if not layout.weighted:
        return DrawnLabels(replicates, seed)
    setting = Setting("class", 1) if layout.vector else Setting("classwise")
    (weight, hits), (square, square_hits) = yield from together(
        [OutcomeSums(setting), ViewedStatistic(SquaredWeights(), OutcomeSums(setting))]
    )
    sums = np.stack([exact.value(of) for of in (hits, square_hits)])
    total = np.stack([exact.value(of) for of in (weight, square)])
    if layout.vector:
        sums = np.concatenate([total - sums, sums], axis=-1)
    # The mean weight of a unit of weight; of classes without rows that of all rows, of slices without rows 1.
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, of_all = sums[1] / sums[0], total[1] / total[0]
    occurs = sums[0] > _ROUNDING * total[0]
    mean = np.where(total[0] > 0, np.where(occurs, mean, of_all), 1.0)
    mean = np.where(occurs.sum(-1, keepdims=True) == 1, np.nan, mean)
    return DrawnLabels(replicates, seed, weights=FrozenArray(mean))
