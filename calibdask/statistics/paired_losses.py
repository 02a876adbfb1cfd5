"""Sums of losses, and of their products, of several models on shared rows: the variance of differences needs both."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from calibdask.kernels import scores
from calibdask.kernels.fixed_sums import sums_by_place
from calibdask.statistics import exact
from calibdask.statistics.block import NO_GROUPS, Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.frozen import FrozenArray
from calibdask.statistics.layout import Layout
from calibdask.statistics.statistic import SumStatistic
from calibdask.statistics.views.view import View

# The rules along the first axis of sums.
BRIER, LOG = 0, 1
# Rows whose losses under all models are held at a time.
_TOGETHER = 1 << 14


class PairedLossesState(NamedTuple):
    """Sums over rows by (batch, group, cluster), products by (batch, group); rules along the first axis.

    ``rows``: of positive weight. ``sums`` (2, terms, ...) of w u, where the terms u are 1, the loss of the scores as
    they are, and what each view takes away from it. ``products`` (2, pairs, ...): of w**2 u u', for all pairs of terms
    in the order of `pairs`. ``noise`` (2, views, ...) of w e, with e the loss under a view less that under its
    alternative; ``noise_products`` (2, pairs, ...) of w**2 e e'.
    """

    rows: Counts
    sums: Sums
    products: Sums
    noise: Sums
    noise_products: Sums


def pairs(terms: int) -> list[tuple[int, int]]:
    """All pairs of terms, each once.

    Examples
    --------
    >>> pairs(2)
    [(0, 0), (0, 1), (1, 1)]
    """
    return list(combinations_with_replacement(range(terms), 2))


@dataclass(frozen=True)
class PairedLosses(SumStatistic[PairedLossesState]):
    """Brier and logarithmic scores of every row as it is and through views, summed with their products.

    Parameters
    ----------
    views : tuple of View
        Each gives the rows other scores.
    alternatives : tuple of View
        For each view, another that would have done as well.
    clusters : FrozenArray of int64, shape (groups,), or None
        The cluster of each slice: rows of one cluster depend on each other, and all are one slice then.

    Notes
    -----
    Without weights every term is rounded to 2**-52, and sums of the rounded terms are exact.
    """

    views: tuple[View, ...]
    alternatives: tuple[View, ...]
    clusters: FrozenArray | None = None

    @property
    def ordered(self) -> bool:
        """Whether a view is."""
        return any(view.ordered for view in (*self.views, *self.alternatives))

    def shape(self, layout: Layout) -> tuple[int, int, int]:
        """Batch, slices and clusters."""
        if self.clusters is None:
            return layout.batch, layout.groups, 1
        return layout.batch, 1, int(self.clusters.values.max()) + 1

    def from_block(self, block: Block) -> PairedLossesState:
        """Sums of one block."""
        shape, weighted = self.shape(block.layout), block.weights is not None
        count = len(self.views)
        sizes = (count + 2, len(pairs(count + 2)), count, len(pairs(count)))
        places = (shape, shape[:2], shape, shape[:2])
        sums = [exact.zeros((2, n, *at), weighted=weighted) for n, at in zip(sizes, places, strict=True)]
        rows = np.zeros(shape, np.int64)
        for start in range(0, block.rows, _TOGETHER):
            part = block.part(start, start + _TOGETHER)
            viewed = [view.block(part) for view in self.views]
            other = [view.block(part) for view in self.alternatives]
            for b in range(shape[0]):
                self._add(part, viewed, other, b, rows[b], [of_all[:, :, b] for of_all in sums])
        return PairedLossesState(rows, *sums)

    def _add(self, block: Block, viewed: Any, other: Any, b: int, rows: Counts, sums: list[Sums]) -> None:
        kept = np.flatnonzero(block.weights_of(b) > 0) if block.weights is not None else slice(None)
        group: Any = block.group[kept] if block.group.size else NO_GROUPS
        place = group
        if self.clusters is not None:
            cluster = np.asarray(self.clusters.values, np.int64)
            place, group = (cluster[group], NO_GROUPS) if group.size else (NO_GROUPS, NO_GROUPS)
        before = _losses(block, b)[:, kept]
        after = [_losses(model, b)[:, kept] for model in viewed]
        noise = [losses - _losses(model, b)[:, kept] for losses, model in zip(after, other, strict=True)]
        weight = block.weights_of(b)[kept] if block.weights is not None else None
        rows += np.bincount(place.astype(np.int64), minlength=rows.size).reshape(rows.shape) if place.size else 0
        if not place.size:
            rows.reshape(-1)[0] += before.shape[1]
        for rule in (BRIER, LOG):
            ones = np.ones(before.shape[1])
            terms = [ones, before[rule], *(before[rule] - losses[rule] for losses in after)]
            differences = [part[rule] for part in noise]
            for values, linear, square in ((terms, sums[0], sums[1]), (differences, sums[2], sums[3])):
                for number, value in enumerate(values):
                    _sum(value, weight, place, linear[rule, number])
                squared = None if weight is None else weight**2
                for number, product in enumerate(_products(values)):
                    _sum(product, squared, group, square[rule, number])


def _losses(block: Block, b: int) -> Array:
    """Both losses of each row, (2, n)."""
    layout = block.layout
    losses = np.empty((2, block.rows))
    options = (layout.vector or None, not layout.vector or None, layout.smallest)
    scores.row_scores(block.scores_of(b), block.labels_of(b), *options, losses)
    if layout.classes == 2 and not layout.vector:
        losses[BRIER] /= 2
    return losses


def _products(values: list[Array]) -> Iterator[Array]:
    return (values[first] * values[second] for first, second in pairs(len(values)))


def _sum(values: Array, weight: Array | None, place: Any, into: Sums) -> None:
    """Add values to the sums at their places, the last axis or two of ``into``."""
    if weight is None:
        sums_by_place(values, place, into.reshape(-1, 2))
        return
    flat = into.reshape(-1)
    if place.size:
        flat += np.bincount(place, values * weight, flat.size)
    else:
        flat[0] += np.add.reduce(values * weight)
