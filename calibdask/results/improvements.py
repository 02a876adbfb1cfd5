"""What a calibrator takes away from the loss, as every page writes it."""

import numpy as np
import xarray as xr

from calibdask.results.format import minus, pvalue_text, shown_texts


def improvement_heads(level: str, calibrators: int) -> tuple[str, str, str]:
    """Headings: which of the numbers are adjusted for how many calibrators were tried, and which hold alone.

    Examples
    --------
    >>> improvement_heads("95 %", 8)
    ('improvement', '95 % interval, alone', 'p, adjusted for 8 calibrators')
    """
    adjusted = f"p, adjusted for {calibrators} calibrators" if calibrators > 1 else "p, alone"
    return "improvement", f"{level} interval, alone", adjusted


def improvement_texts(values: xr.Dataset) -> tuple[str, str, str]:
    """Improvement, interval and p-value of one calibrator of `compare_calibrators`, in the digits that mean something.

    Examples
    --------
    >>> ends = {"improvement": -0.0012, "improvement_low": -0.0034, "improvement_high": 0.001}
    >>> improvement_texts(xr.Dataset(ends | {"improvement_pvalue_adjusted": 0.3}))
    ('−0.0012', '−0.0034 to +0.0010', 'p = 0.300')
    """
    gain, low, high, p = (float(values[f"improvement{end}"]) for end in ("", "_low", "_high", "_pvalue_adjusted"))
    known = [gain] if np.isnan(low) else [gain, low, high]
    shown, *ends = (minus(word) for word in shown_texts(*known, kind="difference"))
    return shown, " to ".join(ends) or "–", "–" if np.isnan(p) else pvalue_text(p)
