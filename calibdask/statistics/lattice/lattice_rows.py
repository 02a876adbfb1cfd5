"""Rows of a block as lattices take them: values of features, cells of scores, outcomes."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibdask.kernels import lattice
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.frozen import read_only
from calibdask.statistics.lattice.coding import Coding, codes_of
from calibdask.statistics.lattice.value_counts import counted_rows
from calibdask.statistics.settings import Setting


class LatticeRows(NamedTuple):
    """Values of features (features, n), cells of scores, outcomes, scores and weights of rows of positive weight."""

    codes: npt.NDArray[np.uint8]
    cells: npt.NDArray[np.uint32]
    hits: npt.NDArray[np.bool_]
    scores: Array
    weights: Array | None

    @classmethod
    def of(cls, block: Block, setting: Setting, edges: Edges, features: tuple[Coding, ...]) -> "LatticeRows":
        """Rows of a block as codes of segments, cells, scores and outcomes."""
        columns = block.columns(setting)
        given, labels = columns.of(0)
        scores, cells = np.empty(block.rows), np.empty(block.rows, np.uint32)
        lattice.row_cells(read_only(given[:, 0]), _thresholds(edges), cells, scores)
        hits = labels == columns.first_class
        codes = codes_of(features, block)
        if block.weights is None:
            return cls(codes, cells, hits, scores, None)
        kept = counted_rows(block)
        codes = np.ascontiguousarray(codes[:, kept])
        return cls(codes, cells[kept], hits[kept], scores[kept], block.weights_of(0)[kept])

    def sorted(
        self, groups: npt.NDArray[np.uint32], first: int, last: int, count: int
    ) -> tuple[npt.NDArray[np.uint8], Counts, npt.NDArray[np.uint32]]:
        """Values of rows from first to before last by group, where each group begins, and the order of rows."""
        order, starts = np.empty(last - first, np.uint32), np.empty(count + 1, np.int64)
        lattice.sort_by_cell(groups, first, starts, order)
        codes = np.empty((len(self.codes), order.size), np.uint8)
        lattice.sort_codes(self.codes, order, codes)
        return codes, starts, order


def _thresholds(edges: Edges) -> Array:
    """Thresholds between cells, padded with infinity to a length of 2**k - 1."""
    inner = edges.thresholds(np.float64)[0, 0, 0]
    padded = np.full((1 << inner.size.bit_length()) - 1, np.inf)
    padded[: inner.size] = inner
    return padded
