"""Estimates of the kernel calibration error with outcomes drawn from the predictions, where surprises are few."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from calibdask.estimators.kernel.drawn_outcomes import DrawnOutcomes
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.pairs.pair_kernel import PairKernel

# With fewer effective rows outcomes are drawn.
FEW_ROWS = 20
# Numbers of differences between predictions that are held at a time.
_NUMBERS = 1 << 22


def effective_rows(outcomes: DrawnOutcomes) -> float:
    """(sum_i E |r_i|**2)**2 / sum_i E |r_i|**4 of residuals r_i = e_yi - p_i, the expectations given the predictions.

    At least half the expected number of outcomes other than the likeliest one of their prediction. 0 without residuals.

    Examples
    --------
    >>> round(effective_rows(DrawnOutcomes(np.full((1000, 2), 0.5), 1000, 1, 0)), 6)
    1000.0
    """
    scores = outcomes.scores
    squares = 1 - 2 * scores + (scores**2).sum(axis=1, keepdims=True)
    chances = outcomes.chances * outcomes.repeats[:, None]
    fourth = float((chances * squares**2).sum())
    return float((chances * squares).sum()) ** 2 / fourth if fourth > 0 else 0.0


def drawn_estimates(kernel: PairKernel, outcomes: DrawnOutcomes, b: int, g: int, length: int | None) -> Array:
    """Unbiased estimates of a calibrated model, (draws,): of all pairs of rows, or means over blocks of that length.

    Blocks are consecutive predictions; where predictions stand for several rows each, so do blocks of them. The time is
    that of all pairs once, and of the pairs of surprises of each draw: outcomes other than the likeliest one.
    """
    rows = outcomes.rows
    pairs = rows * (rows - 1) / 2
    if length is not None:
        whole = len(outcomes.scores) // length * length
        outcomes = replace(outcomes, scores=outcomes.scores[:whole], rows=rows // length * length)
        pairs = outcomes.rows * (length - 1) / 2
    expansion = _Expansion(kernel, outcomes, b, g, length)
    constant, change = expansion.likeliest
    generator = np.random.default_rng(np.random.SeedSequence(outcomes.seed, spawn_key=(*outcomes.scores.shape, 1)))
    sums = [
        constant + counts.reshape(len(counts), -1) @ change.ravel() + expansion.between_surprises(counts, generator)
        for counts in outcomes
    ]
    return np.concatenate(sums) / pairs


@dataclass(frozen=True)
class _Expansion:
    """Sums of h_ij over pairs of rows, around those with the likeliest outcomes.

    With residuals a + d, a that of the likeliest outcome and d mostly 0, h is bilinear: a part of the a alone, one of
    each d with all a, and one of pairs of d.
    """

    kernel: PairKernel
    outcomes: DrawnOutcomes
    b: int
    g: int
    length: int | None

    @cached_property
    def _base(self) -> Counts:
        return np.asarray(self.outcomes.scores.argmax(axis=1))

    @cached_property
    def _matrices(self) -> list[Array]:
        classes = self.outcomes.scores.shape[1]
        return [np.eye(classes) if term.matrix is None else term.matrix.values for term in self.kernel.terms]

    def _similarities(self, p: Array, q: Array) -> list[Array]:
        """The scalar kernel of each term."""
        bandwidths = self.kernel.bandwidths.values[:, self.b, self.g]
        return [term.values(nu, p, q) for term, nu in zip(self.kernel.terms, bandwidths, strict=True)]

    @cached_property
    def likeliest(self) -> tuple[float, Array]:
        """Sum over pairs with the likeliest outcomes, and its change by each outcome, (m, K)."""
        scores, repeats = self.outcomes.scores, self.outcomes.repeats
        sampled, classes = scores.shape
        residuals = np.eye(classes)[self._base] - scores
        # Of all pairs a prediction meets every row of another one, in blocks one row.
        met = residuals * repeats[:, None] if self.length is None else residuals
        size = self.length or sampled
        others = -residuals @ np.sum(self._matrices, axis=0)
        step = max(1, _NUMBERS // (size * classes))
        for block in range(0, sampled, size):
            there = slice(block, block + size)
            for start in range(block, block + size, step):
                here = slice(start, min(start + step, block + size))
                similarities = self._similarities(scores[here, None], scores[None, there])
                for similarity, matrix in zip(similarities, self._matrices, strict=True):
                    others[here] += similarity @ met[there] @ matrix
        constant = float((repeats * (residuals * others).sum(axis=1)).sum() / 2)
        return constant, others - np.take_along_axis(others, self._base[:, None], axis=1)

    def between_surprises(self, counts: Array, generator: np.random.Generator) -> Array:
        """Contribution of pairs of surprises within one block of one draw, (draws,)."""
        draw, row, outcome, block = self._surprises(counts, generator)
        matrices, base = self._matrices, self._base
        total, apart = np.zeros(len(counts)), 1
        first = np.flatnonzero(block[apart:] == block[:-apart])
        while first.size:
            i, j = (row[at] for at in (first, first + apart))
            c, e, u, v = outcome[first], outcome[first + apart], base[i], base[j]
            similarities = self._similarities(self.outcomes.scores[i], self.outcomes.scores[j])
            h = np.zeros(first.size)
            for similarity, matrix in zip(similarities, matrices, strict=True):
                h += similarity * (matrix[c, e] - matrix[c, v] - matrix[u, e] + matrix[u, v])
            total += np.bincount(draw[first], h, len(counts))
            apart += 1
            first = np.flatnonzero(block[apart:] == block[:-apart])
        return total

    def _surprises(self, counts: Array, generator: np.random.Generator) -> tuple[Any, ...]:
        """Draw, row, outcome and block of each row whose outcome is not the likeliest one, in the order of blocks."""
        unlikely = counts.copy()
        unlikely[:, np.arange(len(self._base)), self._base] = 0
        found = np.nonzero(unlikely)
        draw, row, outcome = (np.repeat(index, unlikely[found].astype(np.int64)) for index in found)
        if self.length is None:
            return draw, row, outcome, draw
        # The rows that a prediction stands for lie in as many blocks: those of its surprises follow a random one.
        repeats, sampled = self.outcomes.repeats, len(self._base)
        place = draw * sampled + row
        _, begin, size = np.unique(place, return_index=True, return_counts=True)
        shift = np.repeat(generator.integers(0, repeats[row[begin]]), size)
        copy = (shift + np.arange(place.size) - np.repeat(begin, size)) % repeats[row]
        block = (draw * sampled + row // self.length) * repeats.max() + copy
        order = np.argsort(block, kind="stable")
        return draw[order], row[order], outcome[order], block[order]
