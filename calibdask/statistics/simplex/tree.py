"""Trees that split the rows, again and again, by whether the score of one class is below a threshold."""

from dataclasses import dataclass

import numpy as np

from calibdask.kernels import tree
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.simplex.cells import CellMembers, Partition


@dataclass(frozen=True)
class Tree(Partition):
    """A tree for each (batch, group), whose open leaves are sets of rows; the key of a set is its number.

    Parameters
    ----------
    roots : FrozenArray of int64, shape (batch, groups)
        The node at which rows start.
    column : FrozenArray of int32, shape (nodes,)
        The class whose score splits the node; -1 for a leaf.
    threshold : FrozenArray of float64, shape (nodes,)
        Rows with a score below it go left, the others right.
    child : FrozenArray of int64, shape (nodes,)
        Of a split node the left child, the right one being the next node; of a leaf the number of its set, or -1 for a
        set that is final, whose rows no longer count.
    stratum : FrozenArray of int64, shape (sets,)
        The number batch * groups + group of each set; increasing.

    Notes
    -----
    Memory: 20 bytes for each node, 8 for each set. Time for a row: a step for each level down to its leaf.
    """

    roots: FrozenArray
    column: FrozenArray
    threshold: FrozenArray
    child: FrozenArray
    stratum: FrozenArray

    @property
    def sets(self) -> int:
        """Number of open sets."""
        return self.stratum.values.size

    def sets_of(self, block: Block, b: int) -> Counts:
        """The open set of each row of batch element b, -1 for rows that are in none or have no weight."""
        sets = np.empty(block.rows, np.int64)
        nodes = (field.values for field in (self.column, self.threshold, self.child))
        tree.find_sets(block.matrix_of(b), block.weights_of(b), block.group, self.roots.values[b], *nodes, sets)
        return sets

    def members(self, block: Block, b: int) -> CellMembers:
        """The open sets that hold a row of batch element b."""
        sets = self.sets_of(block, b)
        # One more element for the number -1.
        occupied = np.zeros(self.sets + 1, np.bool_)
        occupied[sets] = True
        occupied[-1] = False
        cell = np.where(occupied, np.cumsum(occupied) - 1, -1)
        return CellMembers(np.flatnonzero(occupied)[:, None], cell[sets])

    def split(self, sets: Counts, column: Counts, threshold: Array) -> "Tree":
        """The tree with some of its open sets split, numbered in increasing order; the others are final."""
        columns, thresholds, child = (field.values.copy() for field in (self.column, self.threshold, self.child))
        leaves = np.flatnonzero((columns < 0) & (child >= 0))
        leaf = np.empty(self.sets, np.int64)
        leaf[child[leaves]] = leaves
        child[leaf] = -1
        node, children = leaf[sets], 2 * sets.size
        columns[node], thresholds[node] = column, threshold
        child[node] = columns.size + 2 * np.arange(sets.size)
        return Tree(
            self.roots,
            FrozenArray(np.r_[columns, np.full(children, -1, np.int32)]),
            FrozenArray(np.r_[thresholds, np.zeros(children)]),
            FrozenArray(np.r_[child, np.arange(children)]),
            FrozenArray(np.repeat(self.stratum.values[sets], 2)),
        )


def planted(layout: Layout) -> Tree:
    """The tree without splits: one set for each (batch, group)."""
    roots = np.arange(layout.batch * layout.groups)
    return Tree(
        FrozenArray(roots.reshape(layout.batch, layout.groups)),
        FrozenArray(np.full(roots.size, -1, np.int32)),
        FrozenArray(np.zeros(roots.size)),
        FrozenArray(roots),
        FrozenArray(roots),
    )
