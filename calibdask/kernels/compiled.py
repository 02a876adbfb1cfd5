"""How kernels are compiled, and the exact number format that they add in."""

from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from typing import Any

import numpy as np


class CompiledKernel:
    """A function that numba compiles when it is first called, or when a kernel that calls it is compiled.

    Numba is not imported before: whoever only names a metric or asks for help does not wait for it.

    Attributes
    ----------
    function : function
        What is compiled.
    inlined : bool
        Whether it is only called by other kernels; the others are kept on disk for the next process.
    options : dict
        Further options of numba.
    """

    def __init__(self, function: Callable[..., Any], *, inlined: bool, **options: Any) -> None:
        update_wrapper(self, function)
        self.function = function
        self.inlined = inlined
        self.options = options

    @cached_property
    def dispatcher(self) -> Callable[..., Any]:
        """The numba dispatcher."""
        from calibdask.kernels.dispatch import dispatcher

        return dispatcher(self)

    def __call__(self, *arguments: Any) -> Any:
        """Compile for the types of the arguments, unless that has been done, and run."""
        return self.dispatcher(*arguments)


# A kernel that Python calls: it releases the GIL, so that threads scale.
compiled: Callable[[Callable[..., Any]], CompiledKernel] = partial(CompiledKernel, inlined=False)
# Small functions are inlined by LLVM; a cached copy of their own would only cost compile time.
inlined: Callable[[Callable[..., Any]], CompiledKernel] = partial(CompiledKernel, inlined=True)

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


@inlined
def add_fixed(total, words):
    """Add multiples of 2**-52 to (whole, fraction in units of 2**-52)."""
    fraction = words[1] + total
    words[0] += fraction >> FRACTION_BITS
    words[1] = fraction & _FRACTION_MASK


@inlined
def add_fixed_at(total, table, at):
    """Add a fixed-point number to row ``at`` of a table (n, 2); a view would cost a reference count."""
    fraction = table[at, 1] + total
    table[at, 0] += fraction >> FRACTION_BITS
    table[at, 1] = fraction & _FRACTION_MASK


@inlined
def add_value_at(x, table, at):
    """Add a finite number, rounded to a multiple of 2**-52, to row ``at`` of a table (n, 2)."""
    below = np.floor(x)
    table[at, 0] += np.int64(below)
    add_fixed_at(fixed(x - below), table, at)


# Terms of sums over pairs and products are whole multiples of 2**-44: doubles in [256, 512) are such multiples, so
# adding a number there rounds, and its bits count the multiples.
_UNIT_BITS = 44
_ROUNDER = 384.0
ROUNDER_BITS = np.float64(_ROUNDER).view(np.int64)


@inlined
def raw_units(x):
    """The multiple of 2**-44 nearest to x in [-128, 128] (int64), plus ``ROUNDER_BITS``."""
    return np.float64(np.float64(x) + _ROUNDER).view(np.int64)


@inlined
def units(x):
    """The multiple of 2**-44 nearest to x in [-128, 128], as int64."""
    return raw_units(x) - ROUNDER_BITS


@inlined
def add_units(total, words):
    """Add multiples of 2**-44 to (whole, fraction in units of 2**-52)."""
    words[0] += total >> _UNIT_BITS
    words[1] += (total & ((1 << _UNIT_BITS) - 1)) << (FRACTION_BITS - _UNIT_BITS)
    words[0] += words[1] >> FRACTION_BITS
    words[1] &= _FRACTION_MASK


@inlined
def add_units_at(total, table, row, column):
    """Add a number of units to an entry of a table (n, m, 2)."""
    table[row, column, 0] += total >> _UNIT_BITS
    fraction = table[row, column, 1] + ((total & ((1 << _UNIT_BITS) - 1)) << (FRACTION_BITS - _UNIT_BITS))
    table[row, column, 0] += fraction >> FRACTION_BITS
    table[row, column, 1] = fraction & _FRACTION_MASK
