"""The exponential function of numbers that are not positive, in operations that become vector instructions."""

import numpy as np

from calibdask.kernels.compiled import inlined
from calibdask.kernels.fused import fma

# The exponent k and the rest r of x = k ln 2 + r; exp(r) by the polynomial 1 + r + c2 r**2 + ... whose largest relative
# error on |r| <= ln(2) / 2 is the least (2.9e-16 of degree 10, 3.1e-9 of degree 6).
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
_ROUND_TO_WHOLE = 6755399441055744.0  # 1.5 * 2**52
_LOG2_E_32 = np.float32(_LOG2_E)
_LN2_HIGH_32, _LN2_LOW_32 = np.float32(0.6931471805599453), np.float32(-1.904654299957768e-09)
_ROUND_TO_WHOLE_32 = np.float32(12582912.0)  # 1.5 * 2**23


@inlined
def exp_64(x):
    """exp(x) for x <= 0 in float64, to a relative 5e-16 (the sums round to 3e-14); x below -700 counts as -700."""
    x = max(x, -700.0)
    shifted = fma(x, _LOG2_E, _ROUND_TO_WHOLE)
    whole = shifted - _ROUND_TO_WHOLE
    r = fma(-whole, _LN2_LOW, fma(-whole, _LN2_HIGH, x))
    p = 2.7476824277334134e-07
    p = fma(p, r, 2.7634990700468033e-06)
    p = fma(p, r, 2.4801931643884118e-05)
    p = fma(p, r, 0.00019841185236453842)
    p = fma(p, r, 0.0013888888516294365)
    p = fma(p, r, 0.008333333370869889)
    p = fma(p, r, 0.04166666666813625)
    p = fma(p, r, 0.16666666666611554)
    p = fma(p, r, 0.49999999999998324)
    p = fma(p, r, 1.0)
    p = fma(p, r, 1.0)
    # The last bits of ``shifted`` are k; it is added to the exponent of p.
    return np.int64(np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))).view(
        np.float64
    )


@inlined
def exp_32(x):
    """exp(x) for x <= 0 in float32, to a relative 8e-8; x below -87 counts as -87."""
    x = max(x, np.float32(-87.0))
    shifted = fma(x, _LOG2_E_32, _ROUND_TO_WHOLE_32)
    whole = shifted - _ROUND_TO_WHOLE_32
    r = fma(-whole, _LN2_LOW_32, fma(-whole, _LN2_HIGH_32, x))
    p = np.float32(0.001381461008682315)
    p = fma(p, r, np.float32(0.008368709867913696))
    p = fma(p, r, np.float32(0.04166838741811056))
    p = fma(p, r, np.float32(0.1666652068965216))
    p = fma(p, r, np.float32(0.4999999345151461))
    p = fma(p, r, np.float32(1.0))
    p = fma(p, r, np.float32(1.0))
    bits = np.float32(p).view(np.int32) + np.int32(np.float32(shifted).view(np.int32) << np.int32(23))
    return np.int32(bits).view(np.float32)
