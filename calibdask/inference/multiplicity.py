"""Adjustment of p-values for multiple comparisons."""

from collections.abc import Callable, Mapping

import numpy as np
import scipy

from calibdask.statistics.exact import Array


def holm(pvalues: Array) -> Array:
    """Adjusted p-values max over j <= i of (m - j + 1) p_(j), at most 1, which control the family-wise error rate.

    NaN stays NaN and does not count.

    References
    ----------
    .. [1] Holm, A simple sequentially rejective multiple test procedure, 1979.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    return _adjusted(pvalues, _holm)


def benjamini_hochberg(pvalues: Array) -> Array:
    """Adjusted p-values min over j >= i of (m / j) p_(j), at most 1, which control the false discovery rate.

    NaN stays NaN and does not count.

    References
    ----------
    .. [1] Benjamini & Hochberg, Controlling the false discovery rate, 1995.

    Examples
    --------
    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    return _adjusted(pvalues, scipy.stats.false_discovery_control)


ADJUSTMENTS: Mapping[str, Callable[[Array], Array]] = {"holm": holm, "bh": benjamini_hochberg}


def _adjusted(pvalues: Array, adjust: Callable[[Array], Array]) -> Array:
    adjusted = np.full(pvalues.shape, np.nan)
    known = np.isfinite(pvalues)
    if known.any():
        adjusted[known] = adjust(pvalues[known])
    return adjusted


def _holm(pvalues: Array) -> Array:
    order = np.argsort(pvalues, kind="stable")
    adjusted = np.empty(pvalues.size)
    adjusted[order] = np.maximum.accumulate(pvalues[order] * np.arange(pvalues.size, 0, -1)).clip(max=1.0)
    return adjusted
