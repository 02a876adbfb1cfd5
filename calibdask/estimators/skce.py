"""The kernel calibration error."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibdask.estimators.binned import check_choice
from calibdask.estimators.estimator import Estimate, Estimation, Estimator, Part
from calibdask.estimators.kernel import Kernel, KernelEstimator, check_pairs, check_whole, counted, said
from calibdask.statistics import exact
from calibdask.statistics.exact import Array, Counts
from calibdask.statistics.features import FeatureSums, FeatureSumsState
from calibdask.statistics.layout import Layout
from calibdask.statistics.pair_kernel import PairKernel
from calibdask.statistics.pairs import PairSums
from calibdask.statistics.runs import PairRuns

__all__ = ["MMCE", "SKCE", "RunMoments", "features_estimate", "pair_estimates", "run_moments"]

_ESTIMATORS = ("unbiased", "biased", "linear", "block", "features", "features-biased")


@dataclass(frozen=True, kw_only=True)
class SKCE(KernelEstimator):
    """Squared kernel calibration error.

    With h_ij = (e_yi - p_i)^T k(p_i, p_j) (e_yj - p_j) for rows i and j of n:

        biased    mean of h_ij over all i, j                            O(n**2 K); never negative
        unbiased  mean of h_ij over i < j                               O(n**2 K)
        linear    mean of h_12, h_34, ..., the unbiased one of pairs    O(n K)
        block     mean of the unbiased ones of blocks of m rows         O(n m K)
        features  the unbiased one with k approximated by D features    O(n D K)

    Parameters
    ----------
    estimator : {"unbiased", "biased", "linear", "block", "features", "features-biased"}
        Which mean; rows are paired in their order within each slice. A last incomplete block is left out and counted in
        the attribute ``rows_left_over``.
    kernel : {"exponential", "gaussian"}, `Kernel` or several `Kernel`
        exp(-d / bandwidth) or exp(-(d / bandwidth)**2 / 2); several kernels are added up.
    distance : {"tv", "euclidean"}, default "tv"
        Between predictions; total variation is half the sum of absolute differences.
    bandwidth : float, "median" or "median-full", default "median"
        A number, or the median of the distances of all pairs, or that of the n x n matrix with its zero diagonal, which
        the tables of [1]_ need. Of more than 10000 rows that of the pairs of a random sample, which the attribute
        ``bandwidth_sample`` then says.
    matrix : array of shape (K, K), optional
        Positive semi-definite matrix that the kernel is multiplied with; None: the identity.
    setting : {"multiclass", "confidence", "binary"}, int or `Lens`
        Whole score vectors, the largest score, one class against the rest, or what a lens shows. Binary scores
        P(y = 1) = p count as the vector (1 - p, p), whose total variation distance is |p - p'|.
    block : int, optional
        Rows m of a block, for ``estimator="block"``.
    features : int, default 512
        Number D of random frequencies. The attribute ``approximation_error`` is the standard error of the estimate
        that they cause.
    seed : int, default 0
        Of the sample of rows and of the frequencies.
    max_pairs : int, default 10**10
        Refuse to visit more pairs of rows than these.

    Raises
    ------
    ValueError
        If choices are unknown or do not fit each other or the data; if there are more pairs than ``max_pairs``; if
        there are weights and blocks of rows.

    Notes
    -----
    Unbiased estimates may be negative. With weights, means over pairs are weighted by w_i w_j; blocks take none.

    Without weights results do not depend on chunks, workers or order. float32 scores are compared in single precision:
    relative errors of h_ij of 1e-6, summed in 63 bits. Time on one core for K = 10: some 4 ns a pair (float32 2 ns) and
    2 us a row for 512 features. Memory: blocks of 2048 rows; for features 32 D K bytes for each slice.

    References
    ----------
    .. [1] Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019, Table 1.
    .. [2] Rahimi & Recht, Random features for large-scale kernel machines, 2007.

    Examples
    --------
    >>> import calibdask as cd
    >>> round(cd.skce([1, 0], [[1.0, 0.0], [0.0, 1.0]], bandwidth=1.0), 12)  # -2 exp(-1)
    -0.735758882343
    """

    estimator: Literal["unbiased", "biased", "linear", "block", "features", "features-biased"] = "unbiased"
    block: int | None = None
    features: int = 512
    max_pairs: float = 10**10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("estimator", self.estimator, _ESTIMATORS)
        check_block(self.estimator, self.block)
        check_features(self.estimator, self.features, self.kernels)

    def _estimate(self) -> Estimation:
        layout = yield Layout()
        if self.estimator in ("linear", "block"):
            moments, notes = yield from run_moments(self, layout, self.block or 2)
            return {"": Part(moments.mean, notes={**notes, **moments.notes})}
        if self.estimator in ("biased", "unbiased"):
            pairs = yield from pair_estimates(self, layout, self.max_pairs)
            return {"": Part(pairs.biased if self.estimator == "biased" else pairs.unbiased, notes=pairs.notes)}
        found = yield from features_estimate(self, self.features)
        biased = self.estimator == "features-biased"
        values, error = found.biased if biased else found.unbiased
        return {"": Part(values, notes={**found.notes, "approximation_error": said(error)})}


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
    check_pairs(
        type(chosen).__name__, rows, most, "take estimator='features' (one pass), 'block' with block=1000, or 'linear'"
    )
    kernel, notes = yield from chosen.fitted()
    sums = yield PairSums(kernel)
    between, within = exact.value(sums.between), exact.value(sums.within)
    weight, square = exact.value(sums.weight), exact.value(sums.weight_square)
    with np.errstate(divide="ignore", invalid="ignore"):
        biased = kernel.bound * (2 * between + within) / weight**2
        unbiased = kernel.bound * 2 * between / _distinct(weight, square, sums.rows)
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
        """Of the mean, with the divisor runs - ddof for the variance."""
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = (self.mean_square - self.mean**2) * self.runs / (self.runs - ddof)
            return np.sqrt(np.maximum(variance, 0.0) / self.runs)


def run_moments(
    chosen: KernelEstimator, layout: Layout, length: int
) -> Generator[Any, Any, tuple[RunMoments, dict[str, Any]]]:
    """Ask for the moments of runs of rows."""
    if layout.weighted:
        raise ValueError(
            "Blocks of rows take no sample_weight: their mean is not defined with weights. Take estimator='unbiased', "
            "'biased' or 'features'."
        )
    kernel, notes = yield from chosen.fitted()
    state = yield PairRuns(kernel, length)
    left = np.bincount(state.key[:, 0], minlength=state.runs.size).reshape(state.runs.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = kernel.bound * exact.value(state.total) / state.runs
        square = kernel.bound**2 * exact.value(state.square) / state.runs
    counts = {"blocks": said(state.runs), "rows_left_over": said(left)}
    return RunMoments(kernel, state.runs, mean, square, counts), notes


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
    state = yield FeatureSums(kernel, features, chosen.seed)
    total, error = _feature_total(kernel, state, features)
    weight, square = exact.value(state.weight), exact.value(state.weight_square)
    within = kernel.bound * exact.value(state.within)
    # A slice of one row has no bandwidth that is a median.
    total = np.where(np.isnan(kernel.bandwidths.values).any(axis=0), np.nan, total)
    with np.errstate(divide="ignore", invalid="ignore"):
        biased = total / weight**2, error / weight**2
        distinct = _distinct(weight, square, state.rows)
        unbiased = (total - within) / distinct, error / distinct
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


@dataclass(frozen=True, kw_only=True)
class MMCE(Estimator):
    """Maximum mean calibration error of the predicted class.

        sqrt( (1/n**2) sum_ij (o_i - s_i) (o_j - s_j) exp(-|s_i - s_j| / bandwidth) )

    with s the largest score and o whether its class is the label; for a vector of scores P(y = 1), s = p and o = y. It
    is the kernel calibration error of the confidence.

    Parameters
    ----------
    bandwidth : float, "median" or "median-full", default 0.4
        As in `SKCE`; 0.4 is the choice of [1]_.
    kernel : {"exponential", "gaussian"}, default "exponential"
        Function of |s_i - s_j| / bandwidth.
    estimator : {"biased", "features-biased"}
        Over all pairs, or approximated by random features in one pass.
    features, seed, max_pairs
        As in `SKCE`.

    Raises
    ------
    ValueError
        If a choice is unknown, or there are more pairs than ``max_pairs``.

    References
    ----------
    .. [1] Kumar, Sarawagi & Jain, Trainable calibration measures for neural networks from kernel mean embeddings, 2018.
    .. [2] Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019, Example I.1.

    Examples
    --------
    >>> import calibdask as cd
    >>> float(cd.evaluate([1, 0], [0.5, 0.5], cd.MMCE()).mmce), float(cd.evaluate([1, 1], [0.5, 0.5], cd.MMCE()).mmce)
    (0.0, 0.5)
    """

    bandwidth: Any = 0.4
    kernel: Literal["exponential", "gaussian"] = "exponential"
    estimator: Literal["biased", "features-biased"] = "biased"
    features: int = 512
    seed: int = 0
    max_pairs: float = 10**10

    def __post_init__(self) -> None:
        check_choice("estimator", self.estimator, ("biased", "features-biased"))
        _ = self._squared(vector=True)

    def _squared(self, vector: bool) -> SKCE:
        # In one dimension all distances are the same but for Fourier transforms: the Gaussian has one for Euclidean.
        gaussian = self.kernel == "gaussian" and self.estimator == "features-biased"
        return SKCE(
            estimator=self.estimator,
            kernel=self.kernel,
            distance="euclidean" if gaussian else "tv",
            bandwidth=self._scaled() if gaussian else self.bandwidth,
            setting="multiclass" if vector else "confidence",
            features=self.features,
            seed=self.seed,
            max_pairs=self.max_pairs,
        )

    def _scaled(self) -> Any:
        """The Euclidean distance of (1 - s, s) is sqrt(2) |s - s'|."""
        return self.bandwidth if isinstance(self.bandwidth, str) else self.bandwidth * np.sqrt(2.0)

    def estimate(self) -> Estimation:
        """Root of half the squared kernel calibration error, whose residuals count twice: of s and of 1 - s."""
        layout = yield Layout()
        squared: Estimate = yield from self._squared(layout.vector).estimate()
        part = squared[""]
        return {"": Part(np.sqrt(np.maximum(part.values, 0.0) / 2), notes=part.notes)}


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
