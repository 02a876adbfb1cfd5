"""Mappings of rows to bins: hard, convex (linear binning) and inverted, from mergeable sums."""

from typing import Literal, NamedTuple

import numpy as np

from calibdask.statistics import exact
from calibdask.statistics.bins.bin_sums import BinSumsState
from calibdask.statistics.bins.edges import Edges
from calibdask.statistics.exact import Sums

Mapping = Literal["hard", "convex", "inverted"]


class Bins(NamedTuple):
    """Sums over i of w_i W_ij, of w_i W_ij o_i and of w_i W_ij s_i, for each (batch, group, column, bin j)."""

    weight: Sums
    outcome: Sums
    score: Sums


def bin_edges(mapping: Mapping, edges: Edges) -> Edges:
    """The edges to sum between: the bins, or the intervals between their centres, on which weights are linear."""
    return edges if mapping == "hard" else edges.between_centres()


def mapped(mapping: Mapping, edges: Edges, sums: BinSumsState) -> Bins:
    """Sums by bin under a mapping, from the sums between `bin_edges`.

    A score between the centres c_j and c_{j+1} at the position t = (s - c_j) / (c_{j+1} - c_j) gives 1 - t to bin j and
    t to bin j + 1 (inverted: the other way round); outside the outer centres the whole weight goes to the end bin.
    """
    if mapping == "hard":
        return Bins(sums.weight, sums.outcome, sums.score)
    plain = (sums.weight, sums.outcome, sums.score)
    return Bins(*(_shared(mapping, edges, whole, part) for whole, part in zip(plain, sums.second, strict=True)))


def _shared(mapping: Mapping, edges: Edges, whole: Sums, part: Sums) -> Sums:
    """Distribute the sums of each interval over the bins at its two ends."""
    words = whole.dtype == np.int64
    interval = np.arange(edges.bins + 1)
    last = edges.effective[..., None]
    first, end, beyond = interval == 0, interval == last, interval >= last
    rest = exact.subtract(whole, part)
    above, below = (part, rest) if mapping == "convex" else (rest, part)
    if words:
        first, end, beyond = first[:, None], end[..., None], beyond[..., None]
    above = np.where(beyond, 0, np.where(first, whole, above))
    below = np.where(end, whole, below)
    axis = whole.ndim - 1 - words
    bins = np.arange(edges.bins)
    return exact.add(np.take(above, bins, axis), np.take(below, bins + 1, axis))
