"""What calibrators take away from the loss, as every page writes it."""

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


def improvement_texts(compared: xr.Dataset) -> dict[str, tuple[str, str, str]]:
    """Improvement, interval and p-value of each calibrator of `compare_calibrators`, with equal digits.

    Those that mean something of the narrowest interval; the scores as they are have none of the three.

    Examples
    --------
    >>> ends = {"": [0.0, -0.0012], "_low": [np.nan, -0.0034], "_high": [np.nan, 0.001], "_pvalue_adjusted": [1, 0.3]}
    >>> compared = xr.Dataset({f"improvement{end}": ("calibrator", values) for end, values in ends.items()})
    >>> improvement_texts(compared.assign_coords(calibrator=["none", "platt"]))["platt"]
    ('−0.0012', '−0.0034 to +0.0010', 'p = 0.300')
    """
    parts = ("", "_low", "_high", "_pvalue_adjusted")
    columns = [compared[f"improvement{part}"].values.tolist()[1:] for part in parts]
    rows = dict(zip(compared["calibrator"].values.tolist()[1:], zip(*columns, strict=True), strict=True))
    known = [row[:3] if not np.isnan(row[1]) else row[:1] for row in rows.values()]
    digits = max(len(shown_texts(*numbers, kind="difference")[0].partition(".")[2]) for numbers in known)

    def shown(number: float) -> str:
        return minus(f"{number:+.{digits}f}")

    texts = {str(compared["calibrator"].values[0]): ("–", "–", "–")}
    for name, (gain, low, high, p) in rows.items():
        ends = "–" if np.isnan(low) else f"{shown(low)} to {shown(high)}"
        texts[str(name)] = (shown(gain), ends, "–" if np.isnan(p) else pvalue_text(p))
    return texts
