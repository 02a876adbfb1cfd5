"""Estimates of the kernel calibration error from all pairs, blocks of rows, or random features."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibdask.estimators.bounded_mean import BoundedMean
from calibdask.estimators.checks import MOST_DRAWS, check_whole
from calibdask.estimators.kernel.base import Kernel, KernelEstimator, check_pairs, note_values, row_counts
from calibdask.statistics import exact
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.layout import Layout
from calibdask.statistics.pairs.block_means import BlockMeans
from calibdask.statistics.pairs.features import FeatureSums, FeatureSumsState
from calibdask.statistics.pairs.pair_kernel import PairKernel
from calibdask.statistics.pairs.pair_sums import PairSums
from calibdask.statistics.request import Requests

# Squared estimates of blocks are rounded to 2**-44; a variance close to that has no significant digits.
_ROUNDED = 2.0**-40
# Narrower kernels have frequencies too high for double precision.
_NARROWEST = 1e-6
_INSTEAD = "use fewer rows or another estimator: random features (one pass), blocks of rows, or the linear one"


@dataclass(frozen=True)
class PairEstimates:
    """Estimates from all pairs, (batch, groups)."""

    kernel: PairKernel
    rows: Counts
    biased: Array
    unbiased: Array
    notes: dict[str, Any]


def pair_estimates(chosen: KernelEstimator, layout: Layout, most: float) -> Requests[PairEstimates]:
    """Request the sums over all pairs of rows, unless there are too many."""
    rows = yield from row_counts(layout)
    check_pairs("The kernel calibration error of all pairs", rows, most, _INSTEAD)
    kernel, notes = yield from chosen.fitted()
    sums = yield from PairSums(kernel)
    between, within = exact.value(sums.between), exact.value(sums.within)
    weight, square = exact.value(sums.weight), exact.value(sums.weight_square)
    with np.errstate(divide="ignore", invalid="ignore"):
        biased = kernel.bound * (2 * between + within) / weight**2
        # A single row has an estimate without a bandwidth.
        biased = np.where(sums.rows > 1, kernel.where_bandwidth(biased), biased)
        unbiased = kernel.where_bandwidth(kernel.bound * 2 * between / _distinct(weight, square, sums.rows))
    return PairEstimates(kernel, sums.rows, biased, unbiased, notes)


def _distinct(weight: Array, square: Array, rows: Counts) -> Array:
    """Sum of w_i w_j over i != j; exactly 0 for a single row."""
    return np.where(rows > 1, weight**2 - square, 0.0)


@dataclass(frozen=True)
class BlockMoments:
    """Mean and mean square of the unbiased estimates of blocks of ``length`` rows, (batch, groups)."""

    kernel: PairKernel
    length: int
    blocks: Counts
    mean: Array
    mean_square: Array
    notes: dict[str, Any]

    def standard_error(self, ddof: int) -> Array:
        """Standard error of the mean, variance with divisor blocks - ddof; NaN where that is 0 up to rounding."""
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = self.mean_square - self.mean**2
            positive = (self.blocks > ddof) & (variance > _ROUNDED * self.kernel.bound**2)
            return np.sqrt(np.where(positive, variance / (self.blocks - ddof), np.nan))

    def bounded(self, ddof: int) -> BoundedMean:
        """The mean with its variance, divisor blocks - ddof, as that of pairs of rows.

        The estimate of a block is an average of means over half as many disjoint pairs as it has rows, each pair within
        +-2 of the kernel's bound: it deviates no more than such a mean, whose rare values are those of single pairs.
        """
        pairs = self.length // 2
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.maximum(self.mean_square - self.mean**2, 0.0) * self.blocks / (self.blocks - ddof)
        variance = np.where(self.blocks > ddof, variance, np.nan)
        most = 2 * self.kernel.bound
        # Single precision may exceed the bound.
        mean = np.clip(self.mean, -most, most)
        return BoundedMean(mean, pairs * variance, pairs * self.blocks, -most, most, sampled=self.blocks)

    def ends(self, level: float) -> tuple[Array, Array]:
        """Ends of the interval at a level."""
        return self.bounded(1).ends(level)


def block_moments(chosen: KernelEstimator, layout: Layout, length: int, most: float) -> Requests[BlockMoments]:
    """Request the moments of blocks of rows, unless these have too many pairs."""
    if layout.weighted:
        raise ValueError(
            "Blocks of rows do not support sample_weight. Use estimator='unbiased', 'biased' or 'features'."
        )
    if length > 2:
        rows = yield from row_counts(layout)
        check_pairs("The kernel calibration error of blocks", rows, most, "use smaller blocks", length)
    kernel, notes = yield from chosen.fitted()
    state = yield from BlockMeans(kernel, length)
    left = np.bincount(state.key[:, 0], minlength=state.runs.size).reshape(state.runs.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = kernel.where_bandwidth(kernel.bound * exact.value(state.total) / state.runs)
        square = kernel.bound**2 * exact.value(state.square) / state.runs
    notes = {**notes, "blocks": note_values(state.runs), "rows_left_over": note_values(left)}
    return BlockMoments(kernel, length, state.runs, mean, square, notes)


@dataclass(frozen=True)
class FeaturesEstimate:
    """Estimates from random features, each (batch, groups) with its standard error."""

    kernel: PairKernel
    rows: Counts
    biased: tuple[Array, Array]
    unbiased: tuple[Array, Array]
    notes: dict[str, Any]


def features_estimate(chosen: KernelEstimator, features: int) -> Requests[FeaturesEstimate]:
    """Request sums of random features, and estimate the sums over all pairs from them."""
    kernel, notes = yield from chosen.fitted()
    if (kernel.bandwidths.values < _NARROWEST).any():
        raise ValueError(
            f"Random features expect bandwidths of at least {_NARROWEST:g} for numerical precision; "
            f"got {np.nanmin(kernel.bandwidths.values):.3g}. Use another estimator or a wider kernel."
        )
    state = yield from FeatureSums(kernel, features, chosen.seed)
    total, error = _feature_total(kernel, state, features)
    weight, square = exact.value(state.weight), exact.value(state.weight_square)
    within = kernel.bound * exact.value(state.within)
    total = kernel.where_bandwidth(total)
    with np.errstate(divide="ignore", invalid="ignore"):
        biased = total / weight**2, error / weight**2
        distinct = _distinct(weight, square, state.rows)
        unbiased = np.where(distinct > 0, (total - within) / distinct, np.nan), error / distinct
    return FeaturesEstimate(kernel, state.rows, biased, unbiased, notes)


def _feature_total(kernel: PairKernel, state: FeatureSumsState, features: int) -> tuple[Array, Array]:
    """The sum over all pairs as approximated by features, and its standard error over random frequencies."""
    sums = exact.value(state.sums)
    total, variance = np.zeros(state.rows.shape), np.zeros(state.rows.shape)
    for t, term in enumerate(kernel.terms):
        here = sums[:, :, t]
        other = here if term.matrix is None else np.einsum("ce,bgef->bgcf", term.matrix.values, here)
        waves = (here * other).sum(axis=2)
        products = waves[..., :features] + waves[..., features:]
        total += products.mean(axis=-1)
        variance += products.var(axis=-1, ddof=1) / features
    return total, np.sqrt(variance)


def check_block(estimator: str, block: Any) -> None:
    """Raise ValueError for a block size without blocks, and for blocks without a size."""
    if estimator != "block":
        if block is not None:
            raise ValueError(f"block belongs to estimator='block', got block={block!r} and estimator={estimator!r}.")
        return
    if block is None:
        raise ValueError("estimator='block' expects the number of rows of a block, such as block=100.")
    check_whole("block", block, 2)


def check_features(estimator: str, features: Any, kernels: tuple[Kernel, ...]) -> None:
    """Raise ValueError for an invalid number of features, or a kernel without a known Fourier transform."""
    check_whole("features", features, 2, MOST_DRAWS)
    if estimator.startswith("features") and any((k.profile, k.distance) == ("gaussian", "tv") for k in kernels):
        raise ValueError(
            "Random features expect a kernel with a known Fourier transform: the exponential one, or the gaussian one "
            "with distance='euclidean'."
        )
