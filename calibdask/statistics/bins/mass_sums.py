"""Sums by bin from the cells of keys in which edges were found, without a pass over the data."""

import numpy as np

from calibdask.kernels.key_sums import sums_by_bin
from calibdask.statistics.bins.bin_sums import BinSumsState
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.exact import from_counts
from calibdask.statistics.order.quantiles import Ordered


def sums_between(tables: list[Ordered], edges: Edges) -> BinSumsState | None:
    """The state of `BinSums` for these edges, to the last bit; None where cells do not determine it.

    ``tables`` are those of each (batch, group, column), without weights, and all inner edges lie within (0, 1).
    """
    thresholds = np.ascontiguousarray(edges.thresholds(np.float64).reshape(len(tables), -1))
    counts = np.zeros((len(tables), 2, edges.bins), np.int64)
    words = np.zeros((len(tables), edges.bins, 2), np.int64)
    for stratum, table in enumerate(tables):
        fields = (np.require(f, requirements=["C", "W"]) for f in (table.low, table.high, table.rows, table.hits))
        score = np.require(table.score, requirements=["C", "W"])
        if not sums_by_bin(*fields, score, thresholds[stratum], counts[stratum], words[stratum]):
            return None
    shape = (*edges.values.shape[:3], edges.bins)
    count, hits = (counts[:, i].reshape(shape) for i in range(2))
    rows, second = from_counts(count), np.zeros((0, *shape, 2), np.int64)
    return BinSumsState(count, rows, rows, from_counts(hits), words.reshape(*shape, 2), second)
