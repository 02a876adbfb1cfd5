"""What estimators and tests of the kernel calibration error ask for: estimates by pairs, runs of rows, features."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from calibdask.estimators.checks import check_whole
from calibdask.estimators.kernel import Kernel, KernelEstimator, check_pairs, counted, said
from calibdask.statistics import exact
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.features import FeatureSums, FeatureSumsState
from calibdask.statistics.layout import Layout
from calibdask.statistics.pair_kernel import PairKernel
from calibdask.statistics.pairs import PairSums
from calibdask.statistics.runs import PairRuns

# Squares of estimates of runs are rounded to 2**-44; a variance of not much more has no digits.
_ROUNDED = 2.0**-40
# Waves of narrower kernels have more turns than doubles have digits for.
_NARROWEST = 1e-6
_INSTEAD = "take fewer rows or another estimator: random features (one pass), blocks of rows, or the linear one"

__all__ = [
    "FeaturesEstimate",
    "PairEstimates",
    "RunMoments",
    "check_block",
    "check_features",
    "features_estimate",
    "pair_estimates",
    "run_moments",
]


@dataclass(frozen=True)
class PairEstimates:
    """Estimates from all pairs, (batch, groups)."""

    kernel: PairKernel
    rows: Counts
    biased: Array
    unbiased: Array
    notes: dict[str, Any]


def pair_estimates(chosen: KernelEstimator, layout: Layout, most: float) -> Generator[Any, Any, PairEstimates]:
    """Ask for the sums over all pairs of rows, if there are not too many."""
    rows = yield from counted(layout)
    check_pairs("The kernel calibration error of all pairs", rows, most, _INSTEAD)
    kernel, notes = yield from chosen.fitted()
    sums = yield PairSums(kernel)
    between, within = exact.value(sums.between), exact.value(sums.within)
    weight, square = exact.value(sums.weight), exact.value(sums.weight_square)
    with np.errstate(divide="ignore", invalid="ignore"):
        biased = kernel.bound * (2 * between + within) / weight**2
        # A single row needs no bandwidth.
        biased = np.where(sums.rows > 1, kernel.known(biased), biased)
        unbiased = kernel.known(kernel.bound * 2 * between / _distinct(weight, square, sums.rows))
    return PairEstimates(kernel, sums.rows, biased, unbiased, notes)


def _distinct(weight: Array, square: Array, rows: Counts) -> Array:
    """Sum of w_i w_j over i != j; 0 for a single row, whatever rounding says."""
    return np.where(rows > 1, weight**2 - square, 0.0)


@dataclass(frozen=True)
class RunMoments:
    """Mean and mean square of the unbiased estimates of runs of rows, (batch, groups)."""

    kernel: PairKernel
    runs: Counts
    mean: Array
    mean_square: Array
    notes: dict[str, Any]

    def standard_error(self, ddof: int) -> Array:
        """Of the mean, with the divisor runs - ddof for the variance; NaN where rounding or nothing is left of it."""
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = self.mean_square - self.mean**2
            told = (self.runs > ddof) & (variance > _ROUNDED * self.kernel.bound**2)
            return np.sqrt(np.where(told, variance / (self.runs - ddof), np.nan))

    def ends(self, level: float) -> tuple[Array, Array]:
        """Of the interval at a level: the mean of independent runs is about normal."""
        reach = special.ndtri((1 + level) / 2) * self.standard_error(1)
        return self.mean - reach, self.mean + reach


def run_moments(chosen: KernelEstimator, layout: Layout, length: int, most: float) -> Generator[Any, Any, RunMoments]:
    """Ask for the moments of runs of rows, if these do not have too many pairs."""
    if layout.weighted:
        raise ValueError(
            "Blocks of rows take no sample_weight: their mean is not defined with weights. Take estimator='unbiased', "
            "'biased' or 'features'."
        )
    if length > 2:
        rows = yield from counted(layout)
        check_pairs("The kernel calibration error of blocks", rows, most, "take smaller blocks", length)
    kernel, notes = yield from chosen.fitted()
    state = yield PairRuns(kernel, length)
    left = np.bincount(state.key[:, 0], minlength=state.runs.size).reshape(state.runs.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = kernel.known(kernel.bound * exact.value(state.total) / state.runs)
        square = kernel.bound**2 * exact.value(state.square) / state.runs
    notes = {**notes, "blocks": said(state.runs), "rows_left_over": said(left)}
    return RunMoments(kernel, state.runs, mean, square, notes)


@dataclass(frozen=True)
class FeaturesEstimate:
    """Estimates from random features, each (batch, groups) with its standard error."""

    kernel: PairKernel
    rows: Counts
    biased: tuple[Array, Array]
    unbiased: tuple[Array, Array]
    notes: dict[str, Any]


def features_estimate(chosen: KernelEstimator, features: int) -> Generator[Any, Any, FeaturesEstimate]:
    """Ask for sums of random features and what they tell of all pairs."""
    kernel, notes = yield from chosen.fitted()
    if (kernel.bandwidths.values < _NARROWEST).any():
        raise ValueError(
            f"Random features expect bandwidths of at least {_NARROWEST:g}, since faster waves have no digits; "
            f"got {np.nanmin(kernel.bandwidths.values):.3g}. Take another estimator or a wider kernel."
        )
    state = yield FeatureSums(kernel, features, chosen.seed)
    total, error = _feature_total(kernel, state, features)
    weight, square = exact.value(state.weight), exact.value(state.weight_square)
    within = kernel.bound * exact.value(state.within)
    total = kernel.known(total)
    with np.errstate(divide="ignore", invalid="ignore"):
        biased = total / weight**2, error / weight**2
        distinct = _distinct(weight, square, state.rows)
        unbiased = np.where(distinct > 0, (total - within) / distinct, np.nan), error / distinct
    return FeaturesEstimate(kernel, state.rows, biased, unbiased, notes)


def _feature_total(kernel: PairKernel, state: FeatureSumsState, features: int) -> tuple[Array, Array]:
    """The sum over all pairs that the features stand for, and its standard error over random frequencies."""
    sums = exact.value(state.sums)
    total, variance = np.zeros(state.rows.shape), np.zeros(state.rows.shape)
    for t, term in enumerate(kernel.terms):
        here = sums[:, :, t]
        other = here if term.matrix is None else np.einsum("ce,bgef->bgcf", term.matrix.values, here)
        waves = (here * other).sum(axis=2)
        each = waves[..., :features] + waves[..., features:]
        total += each.mean(axis=-1)
        variance += each.var(axis=-1, ddof=1) / features
    return total, np.sqrt(variance)


def check_block(estimator: str, block: Any) -> None:
    """Refuse a block size where there are no blocks, and blocks without one."""
    if estimator != "block":
        if block is not None:
            raise ValueError(f"block belongs to estimator='block', got block={block!r} and estimator={estimator!r}.")
        return
    if block is None:
        raise ValueError("estimator='block' expects the number of rows of a block, such as block=100.")
    check_whole("block", block, 2)


def check_features(estimator: str, features: Any, kernels: tuple[Kernel, ...]) -> None:
    """Refuse numbers that are none, and kernels without known frequencies."""
    check_whole("features", features, 2)
    if estimator.startswith("features") and any((k.profile, k.distance) == ("gaussian", "tv") for k in kernels):
        raise ValueError(
            "Random features expect a kernel with a known Fourier transform: the exponential one, or the gaussian one "
            "with distance='euclidean'."
        )
