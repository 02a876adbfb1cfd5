"""How kernels are compiled, and the exact number format that they add in."""

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

__all__ = ["FRACTION_BITS", "ROWS_BEFORE_CARRY", "carry", "compiled", "fixed", "inlined", "unit"]

# Releases the GIL so that threads scale, and is cached on disk so that a second process compiles nothing.
# Never fastmath: it may assume that no NaN exists and reorder sums.
compiled: Callable[..., Any] = functools.partial(numba.njit, nogil=True, cache=True)()
# Small functions are inlined by LLVM; a cached copy of their own would only cost compile time.
inlined: Callable[..., Any] = numba.njit(nogil=True)

FRACTION_BITS = 52
_FRACTION_MASK = (1 << FRACTION_BITS) - 1
# A cell of int64 holds fewer than 2**11 addends of at most 2**52.
ROWS_BEFORE_CARRY = 1024


@inlined
def unit(x):
    """Clip to [0, 1]; NaN becomes 0, so that a kernel never indexes out of bounds on unchecked data."""
    x = np.float64(x)
    x = x if x > 0.0 else 0.0
    return x if x < 1.0 else 1.0


@inlined
def fixed(x):
    """Round x in [0, 1] to a multiple of 2**-52 and return that multiple (int64).

    Doubles in [1, 2) are spaced by 2**-52, so adding 1 rounds and the bit pattern counts the steps.
    """
    return np.float64(x + 1.0).view(np.int64) - np.int64(0x3FF0000000000000)


@inlined
def carry(fraction, whole):
    """Move the full units of ``fraction`` (multiples of 2**-52) to ``whole``."""
    for i in range(fraction.size):
        whole[i] += fraction[i] >> FRACTION_BITS
        fraction[i] &= _FRACTION_MASK
