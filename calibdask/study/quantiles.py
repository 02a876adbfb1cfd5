"""Quantiles along an axis with missing values."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def quantiles(values: Array, levels: Sequence[float]) -> Array:
    """Quantiles along the last axis, linear between order statistics, levels first.

    Missing values (NaN) are ignored; quantiles of no values are NaN. Unlike `numpy.nanquantile` this handles all rows
    at once, does not warn of empty ones, and interpolates between equal infinities.

    Raises
    ------
    ValueError
        If a level is not from 0 to 1.

    Examples
    --------
    >>> quantiles(np.array([[3.0, 1.0, np.nan, 2.0]]), (0.5, 1.0)).tolist()
    [[2.0], [3.0]]
    """
    for level in levels:
        if not 0 <= level <= 1:
            raise ValueError(f"A quantile expects a number from 0 to 1, got {level:g}.")
    if not values.shape[-1]:
        return np.full((len(levels), *values.shape[:-1]), np.nan)
    # NaN are sorted last.
    ordered = np.sort(values, axis=-1)
    last = np.maximum((~np.isnan(values)).sum(-1, keepdims=True) - 1, 0)
    return np.stack([_between(ordered, level * last, last)[..., 0] for level in levels])


def _between(ordered: Array, at: Array, last: npt.NDArray[np.int64]) -> Array:
    low = np.floor(at).astype(np.int64)
    below, above = (np.take_along_axis(ordered, index, -1) for index in (low, np.minimum(low + 1, last)))
    with np.errstate(invalid="ignore"):
        between = below + (at - low) * (above - below)
    # Infinite values are not interpolated.
    return np.where(at > low, between, below)
