"""The exponential function of numbers that are not positive, in operations that become vector instructions."""

import numpy as np

from calibdask.kernels.compiled import inlined

__all__ = ["exp_32", "exp_64"]

_LOG2_E = 1.4426950408889634
# ln 2 in two parts, the first with few bits, so that its multiples are exact.
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6
_ROUND_TO_WHOLE = 6755399441055744.0  # 1.5 * 2**52
_LN2_HIGH_32, _LN2_LOW_32 = np.float32(0.693359375), np.float32(-2.12194440e-4)
_ROUND_TO_WHOLE_32 = np.float32(12582912.0)  # 1.5 * 2**23


@inlined
def exp_64(x):
    """exp(x) for x <= 0 in float64, to a relative 7e-15 (the sums round to 3e-14); x below -700 counts as -700."""
    x = max(x, -700.0)
    shifted = x * _LOG2_E + _ROUND_TO_WHOLE
    whole = shifted - _ROUND_TO_WHOLE
    r = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
    p = 2.505210838544172e-8
    p = p * r + 2.755731922398589e-7
    p = p * r + 2.755731922398589e-6
    p = p * r + 2.48015873015873e-5
    p = p * r + 1.984126984126984e-4
    p = p * r + 1.388888888888889e-3
    p = p * r + 8.333333333333333e-3
    p = p * r + 4.1666666666666664e-2
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    scale = np.int64((np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)).view(np.float64)
    return p * scale


@inlined
def exp_32(x):
    """exp(x) for x <= 0 in float32."""
    x = max(x, np.float32(-87.0))
    shifted = x * np.float32(_LOG2_E) + _ROUND_TO_WHOLE_32
    whole = shifted - _ROUND_TO_WHOLE_32
    r = (x - whole * _LN2_HIGH_32) - whole * _LN2_LOW_32
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = (p * (r * r) + r) + np.float32(1.0)
    scale = np.int32((np.float32(shifted).view(np.int32) + np.int32(127)) << np.int32(23)).view(np.float32)
    return p * scale
