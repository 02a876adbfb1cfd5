"""Sums that merge exactly: a whole part and a fraction in units of 2**-52, both int64.

Floating-point sums depend on the order of their terms; integer sums do not. A sum of scores is therefore an int64 array
with a last axis of two words (whole, fraction), the fraction in [0, 2**52). Each row is rounded by at most 2**-53.
Weighted sums are plain float64 arrays. The functions here take either.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from calibdask.kernels.compiled import FRACTION_BITS

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Sums = npt.NDArray[Any]  # int64 words or float64 values

_UNIT = 2.0**-FRACTION_BITS


def _carried(words: Counts) -> Counts:
    """Words whose fraction lies in [0, 2**52) again."""
    fraction = words[..., 1]
    return np.stack([words[..., 0] + (fraction >> FRACTION_BITS), fraction & ((1 << FRACTION_BITS) - 1)], axis=-1)


def add(a: Sums, b: Sums) -> Sums:
    """The sum of two sums."""
    total = a + b
    return _carried(total) if total.dtype == np.int64 else total


def subtract(a: Sums, b: Sums) -> Sums:
    """The difference of two sums; exact for words, whose whole part may become negative."""
    difference = a - b
    return _carried(difference) if difference.dtype == np.int64 else difference


def zeros(shape: tuple[int, ...], *, weighted: bool) -> Sums:
    """Sums of nothing."""
    return np.zeros(shape) if weighted else np.zeros((*shape, 2), np.int64)


def from_counts(counts: Counts) -> Counts:
    """Counts as words, to be added to or subtracted from exact sums."""
    return np.stack([counts, np.zeros_like(counts)], axis=-1)


def from_values(values: Array) -> Counts:
    """Numbers from 0 on as words, each rounded once."""
    whole = np.floor(values)
    fraction = np.rint((values - whole) / _UNIT)
    return _carried(np.stack([whole, fraction], axis=-1).astype(np.int64))


def value(sums: Sums) -> Array:
    """Sums as float64, rounded once."""
    if sums.dtype != np.int64:
        return np.asarray(sums, np.float64)
    return np.asarray(sums[..., 0] + sums[..., 1] * _UNIT, np.float64)


def in_order(values: Array) -> Array:
    """Sums along the last axis term by term, so that zeros that pad shorter rows change no bit."""
    return np.asarray(np.cumsum(values, axis=-1)[..., -1])


def pooled(sums: Sums, axis: int) -> Sums:
    """Sums added up along an axis (not the axis of the words; ``axis`` counts from the front)."""
    if sums.dtype != np.int64:
        return np.asarray(sums.sum(axis), np.float64)
    # Halves of the fraction cannot overflow below 2**36 terms.
    low = (sums[..., 1] & 0x3FFFFFF).sum(axis)
    high = (sums[..., 1] >> 26).sum(axis) + (low >> 26)
    whole = sums[..., 0].sum(axis) + (high >> 26)
    return np.stack([whole, ((high & 0x3FFFFFF) << 26) | (low & 0x3FFFFFF)], axis=-1)
