"""The logarithm of numbers in (0, 1], in operations that become vector instructions."""

import numpy as np

from calibdask.kernels.compiled import inlined
from calibdask.kernels.fused import fma

# ln 2 in two parts, the first with few bits, so that its multiples are exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROOT_OF_HALF = np.int64(np.float64(0.5**0.5).view(np.int64))
_MANTISSA_BITS = np.int64(52)
_BIAS = np.int64(1024)
_SMALLEST_NORMAL = 2.0**-1022
# Adding a whole number to this one puts it into the lowest bits.
_WHOLE = 6755399441055744.0  # 1.5 * 2**52
_WHOLE_BITS = np.int64(np.float64(_WHOLE).view(np.int64))


@inlined
def log_64(x):
    """log(x) for x in (0, 1] in float64, to 1 unit in the last place.

    x = 2**k (1 + f) with 1 + f between the roots of 1/2 and 2; with s = f / (2 + f), log(1 + f) is the series
    2 (s + s**3 / 3 + s**5 / 5 + ...), |s| < 0.172, written as f minus a small correction, so that little is rounded.
    """
    subnormal = x < _SMALLEST_NORMAL
    bits = np.float64(x * 2.0**54 if subnormal else x).view(np.int64)
    k = ((bits - _ROOT_OF_HALF + (_BIAS << _MANTISSA_BITS)) >> _MANTISSA_BITS) - _BIAS
    f = np.int64(bits - (k << _MANTISSA_BITS)).view(np.float64) - 1.0
    power = np.int64(k + _WHOLE_BITS).view(np.float64) - _WHOLE - (54.0 if subnormal else 0.0)
    s = f / (2.0 + f)
    z = s * s
    series = 2.0 / 23.0
    series = fma(series, z, 2.0 / 21.0)
    series = fma(series, z, 2.0 / 19.0)
    series = fma(series, z, 2.0 / 17.0)
    series = fma(series, z, 2.0 / 15.0)
    series = fma(series, z, 2.0 / 13.0)
    series = fma(series, z, 2.0 / 11.0)
    series = fma(series, z, 2.0 / 9.0)
    series = fma(series, z, 2.0 / 7.0)
    series = fma(series, z, 2.0 / 5.0)
    series = fma(series, z, 2.0 / 3.0)
    half_square = 0.5 * f * f
    return power * _LN2_HIGH - ((half_square - (s * (half_square + z * series) + power * _LN2_LOW)) - f)
