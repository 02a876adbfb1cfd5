"""Rows divided by the action of least expected cost."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibdask.kernels import actions
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray, read_only
from calibdask.statistics.simplex.cells import CellMembers, Partition, UniformCells


@dataclass(frozen=True)
class FrequencyMap:
    """Class-wise calibration by bins: each score becomes the frequency of its class among the rows of its bin.

    Parameters
    ----------
    edges : Edges
        Bins of each class.
    frequencies : FrozenArray of float64, shape (batch, groups, K, bins)
        The calibrated probability of each bin.
    """

    edges: Edges
    frequencies: FrozenArray

    def probabilities(self, block: Block, b: int) -> Array:
        """Frequencies for the rows of batch element b, (n, K); 0 in rows of weight 0."""
        scores, frequencies, thresholds = block.matrix_of(b), self.frequencies.values, self._thresholds(block)
        probabilities = np.zeros(scores.shape)
        for g, index in block.strata_of(b):
            for c in range(scores.shape[1]):
                number = np.searchsorted(thresholds[b, g, c], scores[index, c])
                probabilities[index, c] = frequencies[b, g, c][number]
        return probabilities

    def _thresholds(self, block: Block) -> npt.NDArray[np.floating]:
        """Inner edges (batch, groups, K, bins - 1), computed once a block."""
        if self not in block.prepared:
            inner = self.edges.thresholds(block.matrix.dtype)
            block.prepared[self] = np.broadcast_to(inner, (*self.frequencies.values.shape[:3], inner.shape[-1]))
        thresholds: npt.NDArray[np.floating] = block.prepared[self]
        return thresholds


@dataclass(frozen=True)
class ActedCells(Partition):
    """Uniform cells of the simplex, each divided by the action that its rows call for.

    An action is a row of ``costs``: the first of those with the least expected cost under the scores of the row,
    calibrated first if there is a ``calibration``. The key is that of the uniform cell and the number of the action.

    Parameters
    ----------
    costs : FrozenArray of float64, shape (actions, K)
        Cost of each action for each class.
    bins : int
        Uniform right-closed bins in each class.
    calibration : FrequencyMap, optional
        Applied to the scores before actions are chosen.
    """

    costs: FrozenArray
    bins: int = 1
    calibration: FrequencyMap | None = None

    def members(self, block: Block, b: int) -> CellMembers:
        """The occupied cells of batch element b."""
        key, cell = UniformCells(self.bins).members(block, b)
        count = len(self.costs.values)
        combined, number = np.unique(cell * count + self._actions(block, b), return_inverse=True)
        # Rows of weight 0 have the cell -1, and so the lowest numbers.
        absent = int(np.searchsorted(combined, 0))
        combined = combined[absent:]
        keys = np.concatenate([key[combined // count], (combined % count)[:, None]], axis=1)
        return CellMembers(keys, np.maximum(number - absent, -1))

    def _actions(self, block: Block, b: int) -> Counts:
        chosen = np.empty(block.rows, np.int64)
        probabilities = block.matrix_of(b) if self.calibration is None else self.calibration.probabilities(block, b)
        actions.cheapest(read_only(probabilities), self.costs.values, chosen)
        return chosen
