"""The squared kernel calibration error."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from calibdask.estimators.about import About, Description, PartInfo
from calibdask.estimators.bounded_mean import CLOPPER_PEARSON
from calibdask.estimators.checks import check_choice
from calibdask.estimators.interval import IntervalMethod, KnownEnds
from calibdask.estimators.kernel.base import KernelEstimator, note_values
from calibdask.estimators.kernel.estimates import (
    block_moments,
    check_block,
    check_features,
    features_estimate,
    pair_estimates,
)
from calibdask.estimators.parts import Estimate, Number, calibration_error
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout
from calibdask.statistics.request import Requests

_ESTIMATORS = ("unbiased", "biased", "linear", "block", "features", "features-biased")


@dataclass(frozen=True, kw_only=True)
class SKCE(KernelEstimator):
    """Squared kernel calibration error.

    With h_ij = (e_yi - p_i)^T k(p_i, p_j) (e_yj - p_j) for rows i and j of n::

        biased    mean of h_ij over all i, j                            O(n**2 K); never negative
        unbiased  mean of h_ij over i < j                               O(n**2 K)
        linear    mean of h_12, h_34, ..., over disjoint pairs          O(n K)
        block     mean of the unbiased estimates of blocks of m rows    O(n m K)
        features  unbiased, with k approximated by D random features    O(n D K)

    Parameters
    ----------
    estimator : {"unbiased", "biased", "linear", "block", "features", "features-biased"}
        How pairs of rows are averaged; they are paired in their order within each slice. A last incomplete block is
        left out and counted in the attribute ``rows_left_over``.
    kernel : {"exponential", "gaussian"}, `Kernel` or several `Kernel`
        The kernel: exp(-d / bandwidth) or exp(-(d / bandwidth)**2 / 2); several kernels are added up.
    distance : {"tv", "euclidean"}, default "tv"
        Distance between predictions; total variation is half the sum of absolute differences.
    bandwidth : float, "median" or "median-full", default "median"
        Bandwidth of the kernel: a number, or the median of the distances of all pairs, or the median of the n x n
        matrix with its zero diagonal, which the tables of [1]_ need. With more than 10000 rows, the median over the
        pairs of a random sample; the attribute ``bandwidth_sample`` then gives its size.
    matrix : array of shape (K, K), optional
        Positive semi-definite matrix by which the kernel is multiplied; None: the identity.
    setting : {"multiclass", "confidence", "binary"}, int or `Lens`
        Whole score vectors, the largest score, one class against the rest, or the model derived by a lens. Binary
        scores P(y = 1) = p count as the vector (1 - p, p), whose total variation distance is ``|p - p'|``.
    block : int, optional
        Rows m of a block, for ``estimator="block"``.
    features : int, default 512
        Number D of random frequencies. The attribute ``approximation_error`` is the standard error that they add
        to the estimate.
    seed : int, default 0
        Seed of the sample of rows and of the frequencies.
    max_pairs : int, default 10**10
        Maximum number of pairs of rows; more raise an error.

    Raises
    ------
    ValueError
        If parameters are invalid, incompatible or do not fit the data; if there are more pairs than ``max_pairs``; if
        weights are combined with blocks of rows.

    Notes
    -----
    Intervals of ``linear`` and ``block`` allow for the largest value of the kernel, as ``bound`` of `SKCETest` does:
    with few rows they are wide, as pairs of rare outcomes may be missing.

    Unbiased estimates may be negative. With weights, means over pairs are weighted by w_i w_j; blocks support no
    weights.

    Without weights results do not depend on chunks, workers or order. float32 scores are compared in single precision:
    relative errors of h_ij of 1e-6. Every h_ij is rounded to a multiple of 6e-14 of its bound, so fewer than four
    digits are significant for a model whose residuals are all below 1e-5. Time on one core for K = 10: about 4 ns per
    pair (2 ns for float32) and 2 us per row for 512 features. Memory: blocks of 2048 rows; for features 32 D K bytes
    for each slice.

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

    about = About(
        "Squared kernel calibration error",
        "An average over pairs of rows of the similarity of their residuals, weighted by the similarity of their "
        "scores, h_ij = (y_i - p_i)^T k(p_i, p_j) (y_j - p_j); 0 for a calibrated model, in the strong sense too.",
        "Widmann, Lindsten & Zachariah, Calibration tests in multi-class classification, 2019",
        "SKCE",
    )

    compares_pairs = True

    estimator: Literal["unbiased", "biased", "linear", "block", "features", "features-biased"] = "unbiased"
    block: int | None = None
    features: int = 512
    max_pairs: float = 10**10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("estimator", self.estimator, _ESTIMATORS)
        check_block(self.estimator, self.block)
        check_features(self.estimator, self.features, self.kernels)

    @override
    def describe(self, layout: Layout) -> Description:
        sign = "never negative" if self._is_biased else "can be negative"
        # Two residuals have a product of at most 2.
        most = 2 * sum(kernel.term.largest for kernel in self.kernels)
        bounds = (0.0 if self._is_biased else -most, most)
        return {"": PartInfo(f"squared kernel calibration error, {sign}", "error", bounds=bounds)}

    def errs_by_chance(self, layout: Layout) -> bool:
        """The biased estimates are positive for calibrated models; the others may have either sign."""
        return self._is_biased

    def interval(self, layout: Layout) -> IntervalMethod:
        """By a formula for means over blocks of rows, from replicates of the rows otherwise."""
        return super().interval(layout) if self.supports_weights else KnownEnds()

    @property
    def _is_biased(self) -> bool:
        return self.estimator in ("biased", "features-biased")

    @property
    def supports_weights(self) -> bool:
        """Yes, except for blocks of rows."""
        return self.estimator not in ("linear", "block")

    def _estimate(self) -> Requests[Estimate]:
        layout = yield from Layout()
        if self.estimator in ("linear", "block"):
            moments = yield from block_moments(self, layout, self.block or 2, self.max_pairs)
            return {"": Number(moments.mean, notes=moments.notes, known_ends=moments.ends, ends_method=CLOPPER_PEARSON)}
        if self.estimator in ("biased", "unbiased"):
            pairs = yield from pair_estimates(self, layout, self.max_pairs)
            return self._number(pairs.biased if self._is_biased else pairs.unbiased, pairs.notes)
        estimates = yield from features_estimate(self, self.features)
        values, error = estimates.biased if self._is_biased else estimates.unbiased
        return self._number(values, {**estimates.notes, "approximation_error": note_values(error)})

    def _number(self, values: Array, notes: Mapping[str, Any]) -> Estimate:
        if self._is_biased:
            return {"": calibration_error(values[..., None], most=np.inf, **notes)}
        return {"": Number(values, notes=notes)}
