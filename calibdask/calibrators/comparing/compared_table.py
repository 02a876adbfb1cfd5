"""The result of `compare_calibrators` as text."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from calibdask.render.text_layout import plain_columns
from calibdask.results.format import PLAIN, figure, percent, pvalue_text


def compared_lines(compared: xr.Dataset) -> Iterator[str]:
    """A table with a line for each calibrator, and which to take."""
    level = percent(compared.attrs["ci"])
    heads = (
        "calibrator",
        "log loss",
        "Brier score",
        "ECE",
        "improvement",
        f"{level} interval",
        "adjusted p",
        "monotone",
    )
    rows = [heads, *(_row(compared.sel(calibrator=name), str(name)) for name in compared["calibrator"].values)]
    yield from plain_columns(rows)
    yield ""
    yield str(compared.attrs["reason"])
    if compared.attrs["left_out"]:
        yield f"Left out: {compared.attrs['left_out']}."
    yield (
        f"{compared.attrs['rows']:,} rows in {compared.attrs['folds']} folds, {compared.attrs['passes']} passes. "
        "Improvement: reduction of the log loss on rows that the map was not fitted to."
    )


def _row(values: xr.Dataset, name: str) -> tuple[str, ...]:
    losses = tuple(figure(float(values[loss])) for loss in ("log_loss", "brier_score", "ece"))
    if name == "none":
        return (name, *losses, "", "", "", "")
    gain, low, high, p = (float(values[f"improvement{part}"]) for part in ("", "_low", "_high", "_pvalue_adjusted"))
    ends = "" if np.isnan(low) else PLAIN.span(low, high)
    shown = "" if np.isnan(p) else pvalue_text(p)
    return (name, *losses, figure(gain), ends, shown, "yes" if float(values["monotone"]) == 1 else "no")
