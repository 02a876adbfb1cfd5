"""Exact sums of values."""

import numpy as np

from calibdask.kernels.compiled import add_units, add_value_at, compiled, units

# A sum of this many integers up to 2**51 fits in an int64.
_TOGETHER = 256


@compiled
def fixed_sum(values, words):
    """Add values in [-128, 128], each rounded to a multiple of 2**-44, to ``words`` (2,) int64."""
    for at in range(0, values.size, _TOGETHER):
        total = np.int64(0)
        for i in range(at, min(values.size, at + _TOGETHER)):
            total += units(values[i])
        add_units(total, words)


@compiled
def sums_by_place(values, place, words):
    """Add finite values (n,) to ``words`` (places, 2) at the place of each, all at 0 if ``place`` is empty.

    Each value is rounded to a multiple of 2**-52.
    """
    for i in range(values.size):
        add_value_at(values[i], words, place[i] if place.size else 0)
