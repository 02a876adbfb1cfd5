"""Sums of random Fourier features, which approximate sums over all pairs of rows."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from calibdask.kernels import features
from calibdask.kernels.fixed_sums import fixed_sum
from calibdask.statistics import exact
from calibdask.statistics.block import Block
from calibdask.statistics.exact import Array, Counts, Sums
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.pair_kernel import KernelTerm, PairKernel
from calibdask.statistics.statistic import SumStatistic


class FeatureSumsState(NamedTuple):
    """Sums by (batch, group).

    ``rows`` of positive weight; ``weight`` and ``weight_square``, sums of w and w**2; ``within``, the sum of
    w_i**2 h_ii, divided by the bound of the kernel; ``sums`` (batch, groups, terms, K, 2 D) of w * (cos, sin)(<f, p>) *
    (e_y - p).
    """

    rows: Counts
    weight: Sums
    weight_square: Sums
    within: Sums
    sums: Sums


@dataclass(frozen=True)
class FeatureSums(SumStatistic[FeatureSumsState]):
    """Sums over the rows of a slice of ``features`` random waves of the scores, times their residuals.

    k(p - q) is the mean of cos(<f, p - q>) over frequencies f drawn from its Fourier transform (Rahimi & Recht 2007),
    so that |sum_i exp(i <f, p_i>) r_i|**2 approximates a sum over all pairs of rows.

    Notes
    -----
    One pass, O(n D K) time. Memory: 32 D K bytes for each term, slice and batch element (with weights half of it). Each
    product is rounded by at most 2**-45; without weights the sums are exact then.
    """

    kernel: PairKernel
    features: int
    seed: int

    def bytes(self, layout: Layout) -> int:
        """Memory of a state."""
        return layout.batch * layout.groups * len(self.kernel.terms) * layout.classes * self.features * 32

    def from_block(self, block: Block) -> FeatureSumsState:
        """Sums of one block."""
        layout, weighted = block.layout, block.weights is not None
        shape = (layout.batch, layout.groups)
        classes, rows = block.matrix.shape[-1], block.stratum_rows
        weight, weight_square, within = (exact.zeros(shape, weighted=weighted) for _ in range(3))
        sums = exact.zeros((*shape, len(self.kernel.terms), classes, 2 * self.features), weighted=weighted)
        for b, g, index in block.strata:
            part = self.kernel.rows(block, b, index)
            squares = part.squares()
            if weighted:
                weight[b, g], weight_square[b, g] = part.weights.sum(), (part.weights**2).sum()
                within[b, g] = (part.weights**2 * squares).sum()
            else:
                fixed_sum(squares, within[b, g])
            for t, term in enumerate(self.kernel.terms):
                bandwidth = self.kernel.bandwidths.values[t, b, g]
                if np.isnan(bandwidth):
                    continue
                waves = np.ascontiguousarray(frequencies(term, self.seed + t, classes, self.features) / bandwidth)
                if weighted:
                    features.weighted_feature_sums(part.scores, part.left, part.weights, waves, sums[b, g, t])
                else:
                    features.feature_sums(part.scores, part.left, waves, sums[b, g, t])
        if not weighted:
            weight = weight_square = exact.from_counts(rows)
        return FeatureSumsState(rows, weight, weight_square, within, sums)


@lru_cache(maxsize=8)
def frequencies(term: KernelTerm, seed: int, classes: int, count: int) -> Array:
    """Frequencies (K, D) in turns per unit of the scores, for a bandwidth of 1."""
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(classes, count)))
    if term.profile == "gaussian":
        drawn = generator.standard_normal((classes, count))
    elif term.distance == "tv":
        drawn = generator.standard_cauchy((classes, count)) / 2
    else:
        # Normal divided by the absolute value of another normal: a multivariate Cauchy distribution.
        drawn = generator.standard_normal((classes, count)) / np.abs(generator.standard_normal(count))
    return drawn / (2 * np.pi)


def feature_vectors(kernel: PairKernel, scores: Array, b: int, g: int, count: int, seed: int) -> Array:
    """Vectors of some rows (n, K) of a stratum whose products are the scalar kernel of each term, (terms, n, 2 D)."""
    values = []
    for t, term in enumerate(kernel.terms):
        waves = frequencies(term, seed + t, scores.shape[1], count) / kernel.bandwidths.values[t, b, g]
        phases = 2 * np.pi * (scores @ waves)
        values.append(np.concatenate([np.cos(phases), np.sin(phases)], axis=1) / np.sqrt(count))
    return np.stack(values)
