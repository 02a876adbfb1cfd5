"""Numbers of audits as texts: gaps in points, and p-values."""

import math

# Digits after the point beyond which there is an exponent.
_MOST_DECIMALS = 7
_SMALLEST_PVALUE = 1e-300


def points_up(error: float) -> str:
    """An error that is not excluded, in points, rounded up: a smaller number would promise too much.

    Examples
    --------
    >>> points_up(0.0781), points_up(0.078)
    ('7.9', '7.8')
    """
    return f"{math.ceil(1000 * error - 1e-9) / 10:.1f}"


def signed_points(gap: float) -> str:
    """A gap in points with its sign, with at least two significant digits.

    Examples
    --------
    >>> signed_points(-0.1064), signed_points(0.000145), signed_points(1e-9)
    ('-10.6', '+0.015', '+1.0e-07')
    """
    if not gap:
        # Too high for some scores, and too low for others.
        return "±0"
    decimals = _decimals(100 * gap, 1)
    return f"{100 * gap:+.{decimals}f}" if decimals <= _MOST_DECIMALS else f"{100 * gap:+.1e}"


def small_pvalue(pvalue: float) -> str:
    """A p-value in two digits, or an upper bound if it is tiny.

    Examples
    --------
    >>> small_pvalue(0.0316), small_pvalue(1.2e-46), small_pvalue(0.0)
    ('0.032', '1.2e-46', '<1e-300')
    """
    return f"{pvalue:.2g}" if pvalue >= _SMALLEST_PVALUE else f"<{_SMALLEST_PVALUE:g}"


def _decimals(size: float, fewest: int) -> int:
    """Digits after the point that two significant ones take."""
    return max(fewest, 1 - math.floor(math.log10(abs(size)))) if 0 < abs(size) < math.inf else fewest
