"""The kernel calibration error."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from calibdask.estimators.checks import check_choice
from calibdask.estimators.estimator import Estimate, Estimation, Meanings, Part, calibration_error
from calibdask.estimators.kernel import KernelEstimator, said
from calibdask.estimators.kernel_estimates import (
    check_block,
    check_features,
    features_estimate,
    pair_estimates,
    run_moments,
)
from calibdask.statistics.exact import Array
from calibdask.statistics.layout import Layout

__all__ = ["SKCE"]

_ESTIMATORS = ("unbiased", "biased", "linear", "block", "features", "features-biased")


@dataclass(frozen=True, kw_only=True)
class SKCE(KernelEstimator):
    """Squared kernel calibration error.

    With h_ij = (e_yi - p_i)^T k(p_i, p_j) (e_yj - p_j) for rows i and j of n::

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
        P(y = 1) = p count as the vector (1 - p, p), whose total variation distance is ``|p - p'|``.
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
    relative errors of h_ij of 1e-6. Every h_ij is rounded to a multiple of 6e-14 of its bound, so that a model whose
    residuals are all below 1e-5 has fewer than four digits. Time on one core for K = 10: some 4 ns a pair (float32
    2 ns) and 2 us a row for 512 features. Memory: blocks of 2048 rows; for features 32 D K bytes for each slice.

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

    def meanings(self, layout: Layout) -> Meanings:
        """In words."""
        sign = "never negative" if self.is_error else "may be below 0 by chance"
        return {"": f"squared kernel calibration error, {sign}"}

    @property
    def is_error(self) -> bool:
        """The biased ones are above 0 for calibrated models; the others are so as often as below."""
        return self.estimator in ("biased", "features-biased")

    @property
    def knows_ends(self) -> bool:
        """Means over runs of rows are about normal."""
        return not self.weighs

    @property
    def weighs(self) -> bool:
        """All but those of blocks of rows."""
        return self.estimator not in ("linear", "block")

    def _estimate(self) -> Estimation:
        layout = yield Layout()
        if self.estimator in ("linear", "block"):
            moments = yield from run_moments(self, layout, self.block or 2, self.max_pairs)
            return {"": Part(moments.mean, notes=moments.notes, spread=moments.ends)}
        if self.estimator in ("biased", "unbiased"):
            pairs = yield from pair_estimates(self, layout, self.max_pairs)
            return self._number(pairs.biased if self.is_error else pairs.unbiased, pairs.notes)
        found = yield from features_estimate(self, self.features)
        values, error = found.biased if self.is_error else found.unbiased
        return self._number(values, {**found.notes, "approximation_error": said(error)})

    def _number(self, values: Array, notes: Mapping[str, Any]) -> Estimate:
        if self.is_error:
            return {"": calibration_error(values[..., None], most=np.inf, **notes)}
        return {"": Part(values, notes=notes)}
