"""Sums by bin from the cells of keys that edges were found in: they cost no pass over the data."""

import numpy as np

from calibdask.kernels.key_sums import sums_by_bin
from calibdask.statistics.binned import BinSumsState
from calibdask.statistics.edges import Edges
from calibdask.statistics.exact import from_counts
from calibdask.statistics.quantiles import Ordered

__all__ = ["sums_between"]


def sums_between(tables: list[Ordered], edges: Edges) -> BinSumsState | None:
    """The state of `BinSums` for these edges, of the same bits; None where cells do not tell.

    ``tables`` are those of each (batch, group, column), without weights, and all inner edges lie within (0, 1).
    """
    thresholds = np.ascontiguousarray(edges.thresholds(np.float64).reshape(len(tables), -1))
    counts = np.zeros((len(tables), 2, edges.bins), np.int64)
    words = np.zeros((len(tables), edges.bins, 2), np.int64)
    for place, table in enumerate(tables):
        fields = (np.require(f, requirements=["C", "W"]) for f in (table.low, table.high, table.rows, table.hits))
        score = np.require(table.score, requirements=["C", "W"])
        if not sums_by_bin(*fields, score, thresholds[place], counts[place], words[place]):
            return None
    shape = (*edges.values.shape[:3], edges.bins)
    count, hits = (counts[:, i].reshape(shape) for i in range(2))
    rows, nothing = from_counts(count), np.zeros((0, *shape, 2), np.int64)
    return BinSumsState(count, rows, rows, from_counts(hits), words.reshape(*shape, 2), nothing)
